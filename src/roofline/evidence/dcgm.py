"""DCGM: `dcgmi dmon`, the text of dcgm-exporter (Prometheus), and answers of a Prometheus server about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from roofline.errors import BadValue
from roofline.evidence.counters import Counters, Gatherer, known, table
from roofline.evidence.lines import Lines
from roofline.units import MIB

_ENTITY = re.compile(r"\s*#\s*Entity\s+(\S.*)", re.IGNORECASE)
_DMON_ROW = re.compile(r"\s*((?:GPU|GPU-I|GPU-CI|Switch|CPU)\s+\d+)\s+(\S.*)")
_SAMPLE = re.compile(r"\s*((?:DCGM_FI_|nvidia_smi_)\w+)(?:\{|\s+[-+\dN])")
_FIELD = re.compile(r"\s*DCGM_FI_\w+\s*,\s*(?:gauge|counter|label)\b")
_MOST_JSON = 256 * MIB
_PERCENT_ABOVE = 1.0


def sniff(head: str) -> bool:
    """Whether a text holds a table of dcgmi dmon, or samples or fields of dcgm-exporter."""
    return any(_ENTITY.match(line) or _SAMPLE.match(line) or _FIELD.match(line) for line in head.splitlines())


def sniff_answer(head: str) -> bool:
    """Whether a text begins as an answer of a Prometheus server does."""
    start = head.lstrip()[:4096]
    return start.startswith("{") and '"resultType"' in start and '"status"' in start


def read(lines: Lines) -> Counters:
    """The cards of a text; raises BadValue where it holds no value."""
    found = Gatherer()
    forms: list[str] = []
    columns: list[str] = []
    fields = 0
    for line in lines:
        if entity := _ENTITY.match(line):
            columns = entity[1].split()
            forms.append("dcgmi dmon")
        elif columns and (row := _DMON_ROW.match(line)):
            _dmon_row(lines.who, row[1], row[2].split(), columns, found)
        elif _SAMPLE.match(line) and _exported(line.strip(), found):
            forms.append("dcgm-exporter")
        else:
            fields += bool(_FIELD.match(line))
    gpus = found.done()
    if not gpus:
        raise BadValue(
            _NO_VALUE if not fields else f"lists {fields} counters that an exporter is to collect. {_OUTPUT}"
        )
    return Counters(forms[0], gpus, found.left_out, tuple(lines.warnings))


_NO_VALUE = "has names of counters and no value of any card. Record for some seconds: roofline record dcgm."
_OUTPUT = "It holds no value of them: name the exporter's output."


def _dmon_row(who: str, entity: str, cells: list[str], columns: list[str], found: Gatherer) -> None:
    name = " ".join(entity.split())
    if not name.startswith("GPU"):
        return
    series = found.series(f"{who}: {name}" if who else name)
    if series is None:
        return
    values: dict[str, tuple[float, int]] = {}
    for column, cell in zip(columns, cells, strict=False):
        counter = table("short").get(column.upper())
        value = _number(cell)
        if counter is not None and value is not None and known(value):
            ours, factor, order = counter
            if ours not in values or order < values[ours][1]:
                values[ours] = (value * factor, order)
    if values:
        series.add({ours: value for ours, (value, _) in values.items()})
    else:
        found.drop("samples without a value")


def _number(text: str) -> float | None:
    try:
        return float(text[:40])
    except ValueError:
        return None


def _exported(line: str, found: Gatherer) -> bool:
    """Take one line of Prometheus text; whether it is a sample of a card."""
    for name, labels, value, time in samples(line):
        counter = table("dcgm").get(name)
        if counter is None:
            continue
        if not known(value):
            found.drop("values that DCGM left blank")
            continue
        put(found, counter, name, labels, value, time)
        return True
    return False


def put(
    found: Gatherer,
    counter: tuple[str, float, int],
    name: str,
    labels: Mapping[str, str],
    value: float,
    time: float | None,
) -> None:
    """Put a sample of the exporter to its card."""
    ours, factor, order = counter
    kept = (ours, _scale(name, factor, value), order)
    found.put(entity(labels), kept, value, labels.get("modelName", ""), time)


# What tells the host of a sample, in this order: the exporter's own label, else what a Prometheus server adds to it.
_HOSTS = ("Hostname", "hostname", "node", "nodename", "kubernetes_node", "exported_instance", "instance")


def entity(labels: Mapping[str, str]) -> str:
    """How the card, or the part of it, is called that a sample is of."""
    number = labels.get("gpu") or labels.get("minor_number") or labels.get("UUID") or labels.get("uuid") or "?"
    name = f"GPU {number}"
    host = next((labels[each] for each in _HOSTS if labels.get(each)), "")
    if host:
        name = f"{host} {name}"
    instance = labels.get("GPU_I_ID")
    if instance:
        name += f", instance {instance}"
        name += f" ({labels['GPU_I_PROFILE']})" if labels.get("GPU_I_PROFILE") else ""
    return name[:200]


def samples(line: str) -> Iterator[tuple[str, Mapping[str, str], float, float | None]]:
    """The sample in a line of Prometheus text: name, labels, value, time [s]; none where it is no sample."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        for family in text_string_to_metric_families(line + "\n"):
            for sample in family.samples:
                stamp = sample.timestamp
                yield sample.name, sample.labels, float(sample.value), None if stamp is None else float(stamp)
    except (ValueError, KeyError, IndexError, TypeError):
        return


def read_answer(lines: Lines) -> Counters:
    """The cards of a Prometheus server's answer to a query or a range query; raises BadValue."""
    import msgspec

    text = "\n".join(_bounded(lines))
    try:
        answer: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise BadValue(
            "begins as an answer of a Prometheus server and is no sound JSON: it was cut, or edited."
        ) from None
    return answered(answer)


def _bounded(lines: Lines) -> Iterator[str]:
    size = 0
    for line in lines:
        size += len(line)
        if size > _MOST_JSON:
            raise BadValue(
                f"is an answer of more than {_MOST_JSON // MIB} MiB. Ask for a shorter time or a longer step."
            )
        yield line


def answered(answer: Any) -> Counters:
    """The cards in a decoded answer of a Prometheus server; raises BadValue."""
    said = _object(answer)
    if said.get("status") != "success":
        reason = str(said.get("error") or "none given")[:200]
        raise BadValue(f"is an answer of a Prometheus server that reports an error: {reason}.")
    found = Gatherer()
    rows: dict[str, _Times] = {}
    for name, labels, pairs in _results(_object(said.get("data")).get("result")):
        counter = table("dcgm").get(name)
        if counter is None:
            found.drop("series of other metrics")
            continue
        who = entity(labels)
        if found.series(who, labels.get("modelName", "")) is not None:
            _timed(rows.setdefault(who, {}), counter, name, pairs, found)
    for who, times in rows.items():
        for time in sorted(times):
            found.gpus[who].add({ours: value for ours, (value, _) in times[time].items()}, time)
    gpus = found.done()
    if not gpus:
        raise BadValue('holds no counter of DCGM. Ask for them: query={__name__=~"DCGM_FI_.*"}.')
    return Counters("Prometheus", gpus, found.left_out)


_Times = dict[float, dict[str, tuple[float, int]]]  # values by our name, with the place of the vendor's, by time


def _timed(
    times: _Times, counter: tuple[str, float, int], name: str, pairs: Iterable[tuple[float, float]], found: Gatherer
) -> None:
    """Put the values of a series to their times; of two names for one thing the first of the list stays."""
    ours, factor, order = counter
    for time, value in pairs:
        if not known(value):
            found.drop("values that DCGM left blank")
            continue
        sample = times.setdefault(time, {})
        if ours not in sample or order < sample[ours][1]:
            sample[ours] = (value * _scale(name, factor, value), order)


def _scale(name: str, factor: float, value: float) -> float:
    """The factor of a value: the new names are of ratios, though some exporters still write percentages."""
    return 1.0 if name.endswith("_RATIO") and factor < 1 and value <= _PERCENT_ABOVE else factor


def _object(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _results(results: Any) -> Iterator[tuple[str, dict[str, str], Iterator[tuple[float, float]]]]:
    """Name, labels and timed values of each series of an answer; what has another form is passed over."""
    for each in map(_object, cast(list[Any], results) if isinstance(results, list) else ()):
        labels = {key: str(value) for key, value in _object(each.get("metric")).items()}
        name = labels.pop("__name__", "")
        values = each.get("values")
        yield name, labels, _pairs(cast(list[Any], values) if isinstance(values, list) else [each.get("value")])


def _pairs(values: Iterable[Any]) -> Iterator[tuple[float, float]]:
    for each in values:
        try:
            time, value = each
            yield float(time), float(value)
        except (TypeError, ValueError, OverflowError):
            continue
