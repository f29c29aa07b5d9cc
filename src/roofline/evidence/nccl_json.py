"""nccl-tests' JSON (-J FILE, from 2.17 on): the same rows as its table, with more digits."""

from __future__ import annotations

import json  # and not msgspec: other writers put NaN where they have no value
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

from roofline.errors import BadValue
from roofline.evidence.lines import Lines
from roofline.evidence.nccl import KINDS, MOST, Half, Log, Row, Run
from roofline.units import GIGA, MEGA, MIB

_MOST = 64 * MIB
_PROGRAM = re.compile(r"\b(\w+?)_perf\b")
_CARD = re.compile(r"NVIDIA|AMD|Tesla|Instinct|GeForce|Quadro", re.IGNORECASE)
_DIGITS = 5e-6  # of a time that is written with six digits: half of the last one


def sniff(head: str) -> bool:
    """Whether a text begins as such a file does."""
    start = head.lstrip()[:1]
    return start == "{" and '"results"' in head and '"alg_bw"' in head and '"bus_bw"' in head


def read(lines: Lines) -> Log:
    """The run of a file; raises BadValue where it has no row."""
    text: list[str] = []
    size = 0
    for line in lines:
        size += len(line)
        if size > _MOST:
            raise BadValue(f"is JSON of nccl-tests of more than {_MOST // MIB} MiB. Name a file of fewer sizes.")
        text.append(line)
    try:
        said = _object(json.loads("\n".join(text)))
    except (ValueError, RecursionError):
        raise BadValue(
            "begins as JSON of nccl-tests and is no sound one: the test was stopped, or it was cut."
        ) from None
    rows = tuple(row for each in _list(said.get("results"))[:MOST] if (row := _row(_object(each))) is not None)
    if not rows:
        raise BadValue("is JSON of nccl-tests without a finished row: the test stopped before it measured a size.")
    left = len(_list(said.get("results"))) - len(rows)
    return Log((_run(said, rows),), {"rows without a timing": left} if left else {}, tuple(lines.warnings))


def _object(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2.0**62
    return float(value) if good and math.isfinite(value) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 50 else None


def _row(each: Mapping[str, Any]) -> Row | None:
    size, count = _whole(each.get("size")), _whole(each.get("count"))
    outside, inside = (_half(_object(each.get(place))) for place in ("out_of_place", "in_place"))
    first = outside or inside
    if not size or size < 0 or first is None:
        return None
    second = inside if outside is not None else None
    redop = str(each.get("redop") or "")
    return Row(size, count or 0, str(each.get("type") or "")[:20], redop[:20], _whole(each.get("root")), first, second)


def _half(each: Mapping[str, Any]) -> Half | None:
    time = _number(each.get("time", each.get("cpu_time")))
    algbw, busbw = _number(each.get("alg_bw")), _number(each.get("bus_bw"))
    if not time or algbw is None or busbw is None:
        return None
    return Half(time / MEGA, algbw * GIGA, busbw * GIGA, _number(each.get("nwrong")), _DIGITS * time / MEGA)


def _run(said: Mapping[str, Any], rows: tuple[Row, ...]) -> Run:
    config = _object(said.get("config"))
    devices = [_object(each) for each in _list(config.get("devices"))]
    program = _program([*_list(said.get("args")), said.get("program"), said.get("test"), config.get("collective")])
    ranks, told = (len(devices), "the list of devices") if devices else (_stated(config), "its settings")
    hosts = Counter(str(each.get("host") or each.get("hostname") or "") for each in devices)
    names = dict.fromkeys(
        text[:200] for each in devices for text in each.values() if isinstance(text, str) and _CARD.search(text)
    )
    bounds = _object(said.get("out_of_bounds"))
    kind = KINDS.get(program, "")
    return Run(
        kind=kind,
        program=program,
        ranks=ranks,
        ranks_from=told if ranks else "",
        cards=tuple(names),
        per_node=max(hosts.values()) if hosts else None,
        nodes=len(hosts) or None,
        rows=rows,
        average=_average(said),
        wrong=_whole(bounds.get("count")),
        failed=str(bounds.get("okay", "true")).lower() == "false",
        warnings=() if kind else ("the file does not tell which collective it is",),
    )


def _program(texts: Iterable[Any]) -> str:
    for each in texts:
        if isinstance(each, str):
            match = _PROGRAM.search(each)
            name = (match[1] if match else each).lower()
            if name in KINDS:
                return name
    return ""


def _stated(config: Mapping[str, Any]) -> int | None:
    """Ranks of a single process: threads times devices a thread."""
    threads, cards = _whole(config.get("nthreads")) or 1, _whole(config.get("ngpus"))
    return threads * cards if cards and 0 < threads * cards < 1 << 20 else None


def _average(said: Mapping[str, Any]) -> float | None:
    found = said.get("average_bus_bandwidth")
    value = _number(found) or _number(_object(found).get("bandwidth")) or _number(_object(found).get("value"))
    return None if value is None else value * GIGA
