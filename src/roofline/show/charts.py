"""Charts of what a model demands and a device supplies: the roofline, and what stands beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from roofline.bound import VERDICTS, Point
from roofline.capacity import Memory, resident
from roofline.catalogue import devices as catalogue_devices
from roofline.device import Device
from roofline.errors import BadValue
from roofline.ledger import Ledger
from roofline.show import words
from roofline.show.chart import Chart
from roofline.show.dots import (
    Dot,
    Roof,
    caches,
    dots,
    footnotes,
    kernel_rows,
    number,
    rates_in_use,
    roof_rows,
    spoken,
    total_rows,
)
from roofline.show.kinds import KINDS, Kind, kind_of
from roofline.show.names import visible
from roofline.show.specs.bars import bars_spec
from roofline.show.specs.base import Json
from roofline.show.specs.lines import ridges_spec, sweep_spec
from roofline.show.specs.roofline import roofline_spec
from roofline.units import GIB, gib, percent, scale, si, significant
from roofline.workload import CALL

_ROUNDED = 1 + 2**-30  # a dot on its roof may stand above it by a rounding


def roofline(
    points: Iterable[Point],
    *,
    times: Sequence[object] | None = None,
    time: str = "bound",
    devices: Sequence[Device] = (),
    roofs: Sequence[Roof] = (),
    title: str = "",
    subtitle: Sequence[str] = (),
) -> Chart:
    """The roofline of kernels: log-log, a dot each, its area the share of the time.

    A point stands at its measured time where it has one, else at its time of `times` (all calls together,
    named `time`), else at its bound. The first of `devices` is the points' own unless given; the others
    are drawn beside it, as are `roofs`. Raises BadValue for points over arrays or without a device.
    """
    drawn = dots(points, times, time)
    own = list(dict.fromkeys(dot.point.device.id for dot in drawn))
    found = {dot.point.device.id: dot.point.device for dot in drawn}
    all_devices = [*devices] or [found[ident] for ident in own]
    if not all_devices:
        raise BadValue("A roofline needs a device. Give points on one, or devices.")
    rates = rates_in_use(drawn, all_devices[0])
    if any(dot.drawn and dot.bound_seconds > dot.seconds * _ROUNDED for dot in drawn):
        # What beats the memory's roof was read from a cache: its roof is drawn where it is known.
        roofs = [*roofs, *caches(all_devices[0])]
    spec = roofline_spec()
    data = {"kernels": kernel_rows(drawn), "roofs": roof_rows(all_devices, rates, roofs), "total": []}
    if len(drawn) > 1:
        data["total"] = total_rows(drawn)
    unit, name = scale(max(each["peak"] for each in data["roofs"]), "FLOP/s")
    shown = {kind_of(dot.point.work.op) for dot in drawn if dot.drawn}
    fill(spec, data)
    notes = footnotes(drawn)
    signals(
        spec,
        title=visible(title),
        subtitle=[visible(each) for each in subtitle],
        measured=any(dot.time == "measured" for dot in drawn),
        rate_size=unit,
        rate_unit=name,
        kinds=[key for key in KINDS if key in shown],
        footnote=notes,
    )
    spec["description"] = " ".join(f"{each}." for each in ("Roofline", visible(title), *map(visible, subtitle)) if each)
    spec["description"] += f" {spoken(data)}"
    return Chart(spec, visible(title or "roofline"))


def fill(spec: Json, data: Mapping[str, Sequence[Json]]) -> None:
    """Put rows into the data sets of these names."""
    for each in spec["data"]:
        if each["name"] in data:
            each["values"] = list(data[each["name"]])


def signals(spec: Json, **values: Any) -> None:
    """Set the signals of these names."""
    for each in spec["signals"]:
        if each["name"] in values:
            each["value"] = values[each["name"]]


def ledger_roofline(ledger: Ledger, *, against: Sequence[Device] = (), roofs: Sequence[Roof] = ()) -> Chart:
    """The roofline of a ledger, beside the roofs of other devices; raises BadValue for one over arrays."""
    total = ledger.total
    time = "bound" if ledger.efficiency is None else "derated"
    rate = f"{significant(number(total.tokens_per_second), 4)} tokens/s"
    if ledger.workload.phase == CALL:
        rate = words.rate(ledger, number(total.seconds))
    at = "at the bound" if ledger.efficiency is None else "derated"
    return roofline(
        ledger.kernels,
        times=ledger.times,
        time=time,
        devices=(ledger.device, *against),
        roofs=roofs,
        title=words.subject(ledger),
        subtitle=(words.setting(ledger), f"{VERDICTS[total.bound].lower()}, {rate} {at}"),
    )


_FREE = {"light": "", "dark": ""}
_USES = {  # uses of memory, in colours that no kind of kernel has next to them
    "weights": KINDS["gemm"],
    "KV cache": KINDS["attention"],
    "activations": KINDS["small"],
}


def time(rows: Mapping[str, Iterable[Point] | Ledger], *, title: str = "", subtitle: Sequence[str] = ()) -> Chart:
    """Time by kernel: a stacked bar for each named row, kinds together, the costliest first.

    Points stand at their measured time or their bound, a ledger at the times of its time model.
    """
    stacks = {name: _stack(row) for name, row in rows.items()}
    most = max((sum(dot.seconds for dot in stack) for stack in stacks.values()), default=0.0)
    unit, unit_name = scale(most, "s")
    parts: list[Json] = []
    for index, (name, stack) in enumerate(stacks.items()):
        whole = sum(dot.seconds for dot in stack) or 1.0
        parts += [
            _time_part(index, visible(name, 24), dot, dot.seconds / whole) | {"value": dot.seconds / unit}
            for dot in stack
        ]
    used = {part["kind"] for part in parts}
    legend = [_look(kind.title, kind) for key, kind in KINDS.items() if key in used]
    spec = bars_spec()
    fill(spec, {"parts": parts, "legend": legend})
    signals(spec, value_unit=f"time [{unit_name}]", bars=len(stacks), most=most / unit)
    return _headed(spec, title or "Time by kernel", subtitle, f"{len(parts)} kernels")


def _stack(row: Iterable[Point] | Ledger) -> list[Dot]:
    found = dots(row.kernels, row.times, _time_of(row)) if isinstance(row, Ledger) else dots(row)
    seconds: dict[str, float] = {}
    for dot in found:
        kind = kind_of(dot.point.work.op)
        seconds[kind] = seconds.get(kind, 0.0) + dot.seconds
    return sorted(
        found, key=lambda dot: (-seconds[kind_of(dot.point.work.op)], kind_of(dot.point.work.op), -dot.seconds)
    )


def _time_of(ledger: Ledger) -> str:
    return "bound" if ledger.efficiency is None else "derated"


def _look(name: str, kind: Kind) -> Json:
    return {"name": name, "light": kind.light, "dark": kind.dark}


def _time_part(bar: int, bar_label: str, dot: Dot, share: float) -> Json:
    key = kind_of(dot.point.work.op)
    name, amount = visible(dot.point.name), si(dot.seconds, "s")
    return {
        **_look(visible(dot.point.name, 40), KINDS[key]),
        "bar": bar,
        "bar_label": bar_label,
        "kind": key,
        "label": f"{visible(dot.point.name, 40)} {percent(share)}",
        "spoken": f"{amount}, {percent(share)}",
        "tooltip": {"kernel": name, "kind": KINDS[key].title, "time": f"{amount} {dot.time}", "share": percent(share)},
    }


def memory(held: Memory, *, title: str = "", subtitle: Sequence[str] = ()) -> Chart:
    """What one rank holds beside what it has: weights, KV cache, activations, what is free."""
    amounts = {"weights": held.weight_bytes, "KV cache": held.kv_bytes, "activations": held.activation_bytes}
    parts = [_held(name, amount) | _look(name, _USES[name]) for name, amount in amounts.items() if amount]
    limits: list[Json] = []
    if held.capacity_bytes is not None:
        limits = [{"value": held.capacity_bytes / GIB, "label": f"{gib(held.capacity_bytes)} on the device"}]
        if held.total_bytes < held.capacity_bytes:
            parts.append(_held("free", held.capacity_bytes - held.total_bytes) | _FREE)
    legend = [{"name": part["name"], "light": part["light"], "dark": part["dark"]} for part in parts]
    spec = bars_spec()
    fill(spec, {"parts": parts, "limits": limits, "legend": legend})
    signals(spec, value_unit="memory [GiB]", most=max(held.total_bytes, held.capacity_bytes or 0) / GIB)
    return _headed(spec, title or "Memory", subtitle, "; ".join(f"{part['name']} {part['spoken']}" for part in parts))


def _held(name: str, amount: int) -> Json:
    return {
        "bar": 0,
        "bar_label": "",
        "name": name,
        "value": amount / GIB,
        "label": f"{name} {gib(amount)}",
        "spoken": gib(amount),
        "tooltip": {"use": name, "bytes": f"{amount:,} B", "memory": gib(amount)},
    }


def _headed(spec: Json, title: str, subtitle: Sequence[str], said: str) -> Chart:
    signals(spec, title=visible(title), subtitle=[visible(each) for each in subtitle])
    spec["description"] = " ".join(f"{each}." for each in (visible(title), *map(visible, subtitle), said) if each)
    return Chart(spec, visible(title))


def throughput(
    batches: Iterable[object],
    rates: Iterable[object],
    *,
    fits: Sequence[bool] | None = None,
    title: str = "",
    subtitle: Sequence[str] = (),
) -> Chart:
    """Tokens a second against the sequences in a pass, with the knee marked.

    The knee is the batch where the slope of the first point would reach the most that any point does: from
    there on more sequences bring less than half of what the first ones did. `fits` says which points fit the
    device's memory. Raises BadValue for fewer than two points, or sizes that are not above zero.
    """
    found = sorted(zip(map(number, batches), map(number, rates), strict=True))
    if len(found) < 2 or any(x <= 0 or y <= 0 for x, y in found):
        raise BadValue("A sweep is drawn from two batches on, each above zero. Predict an array of sequences.")
    inside = [True] * len(found) if fits is None else list(fits)
    rows = [
        {
            "x": x,
            "y": y,
            "fits": fit,
            "beyond": not all(inside[: index + 2]),
            "spoken": f"{x:,.0f} sequences: {significant(y, 4)} tokens/s{'' if fit else ', does not fit'}",
            "tooltip": {
                "sequences": f"{x:,.0f}",
                "throughput": f"{significant(y, 4)} tokens/s",
                "a sequence": f"{significant(y / x, 4)} tokens/s",
                "memory": "fits" if fit else "does not fit",
            },
        }
        for index, ((x, y), fit) in enumerate(zip(found, inside, strict=True))
    ]
    most = max(y for _, y in found)
    knee = most * found[0][0] / found[0][1]
    knees = [{"x": knee, "y": most, "label": f"knee at {significant(knee)}"}] if knee <= found[-1][0] else []
    spec = sweep_spec()
    fill(spec, {"points": rows, "knees": knees})
    signals(spec, x_title="sequences in the pass", y_title="tokens/s")
    said = f"From {rows[0]['spoken']} to {rows[-1]['spoken']}"
    return _headed(spec, title or "Throughput", subtitle, said)


def sweep(ledger: Ledger) -> Chart:
    """Throughput of a ledger over an array of sequences; raises BadValue where there is none."""
    rows = ledger.workload.groups[0]
    try:
        batches = sorted({int(each) for each in cast(Iterable[int], rows.sequences)})
        rates = cast(Iterable[object], ledger.total.tokens_per_second)
        given = [int(each) for each in cast(Iterable[int], rows.sequences)]
        pairs = dict(zip(given, rates, strict=True))
    except TypeError:
        raise BadValue("A sweep is drawn from an array of sequences. Predict one, in one axis.") from None
    capacity = ledger.device.capacity

    def fits(n: int) -> bool:
        workload = ledger.workload.resized(sequences=n)
        return bool(resident(ledger.model, workload, ledger.precision, ledger.shard, capacity).fits is not False)

    return throughput(
        batches,
        [pairs[n] for n in batches],
        fits=[fits(n) for n in batches],
        title=words.subject(ledger),
        subtitle=(f"{ledger.workload.phase} throughput by batch", "dotted where it does not fit"),
    )


def ridges(devices: Iterable[Device] = (), *, rate: str = "bf16") -> Chart:
    """The ridge point at a rate by year of release; of the whole catalogue unless devices are given.

    Raises BadValue where none has both that rate and a year.
    """
    given = list(devices) or catalogue_devices()
    rows = [
        {
            "name": visible(each.name.removeprefix(f"{each.vendor} "), 32),
            "year": each.released,
            "ridge": each.ridge_point(rate),
            "peak": each.peak[rate],
            "rate": rate,
            "bandwidth": each.bandwidth,
            "spoken": f"{visible(each.name)}, {each.released}: {significant(each.ridge_point(rate))} FLOP/byte",
        }
        for each in given
        if rate in each.peak and each.released
    ]
    if not rows:
        raise BadValue(f"No device has both a {rate} peak and a year. Choose another rate.")
    spec = ridges_spec()
    fill(spec, {"devices": sorted(rows, key=lambda row: (row["year"], row["ridge"]))})
    said = "; ".join(str(row["spoken"]) for row in rows)
    return _headed(spec, "The ridge point by year", (f"dense {rate} peak over memory bandwidth",), said)
