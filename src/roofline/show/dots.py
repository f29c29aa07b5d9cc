"""Kernels and devices as the rows that a roofline is drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from roofline.bound import Point
from roofline.device import Device
from roofline.errors import BadValue
from roofline.show.kinds import kind_of
from roofline.show.names import visible
from roofline.show.specs.base import Json
from roofline.units import percent, si, significant

_NAMED = 3  # kernels that a footnote names before it counts


class Roof(NamedTuple):
    """A ceiling to draw beside the device's own: a bandwidth [byte/s], a peak [FLOP/s], or both."""

    label: str
    bandwidth: float | None = None
    peak: float | None = None


@dataclass(frozen=True, slots=True)
class Dot:
    """A kernel as it is drawn: all its calls together, and whose time it is."""

    point: Point
    seconds: float
    time: str

    @property
    def costed(self) -> bool:
        """Whether anything but its time is known."""
        return bool(self.flops or self.bytes or self.bound_seconds)

    @property
    def drawn(self) -> bool:
        """Whether it has a place on logarithmic axes."""
        return self.flops > 0 and self.bytes > 0 and self.seconds > 0

    @property
    def flops(self) -> float:
        """FLOPs of all calls [FLOP]."""
        return number(self.point.flops)

    @property
    def bytes(self) -> float:
        """Bytes of all calls [byte]."""
        return number(self.point.bytes)

    @property
    def bound_seconds(self) -> float:
        """The bound of all calls [s]."""
        return number(self.point.bound_seconds)


def number(value: object) -> float:
    """A size as a float; raises BadValue for one over an array."""
    try:
        return float(cast(float, value))
    except TypeError:
        raise BadValue("A chart shows one setting. Predict one, or draw the sweep: roofline.charts.sweep.") from None


def dots(points: Iterable[Point], times: Sequence[object] | None = None, time: str = "bound") -> list[Dot]:
    """Points with the time that is drawn: measured where it was, else `times`, else the bound.

    Raises BadValue for points over arrays.
    """
    points = tuple(points)
    given = [point.bound_seconds for point in points] if times is None else times
    return [
        Dot(point, number(seconds), time)
        if point.measured is None
        else Dot(point, point.count * number(point.measured), "measured")
        for point, seconds in zip(points, given, strict=True)
    ]


def rates_in_use(drawn: Sequence[Dot], device: Device) -> list[str]:
    """Rates that the kernels run at and the device has, the one with most FLOPs first; without any its BF16."""
    flops: dict[str, float] = {}
    for dot in drawn:
        for rate, n in dot.point.work.cost.flops.items():
            flops[rate] = flops.get(rate, 0.0) + dot.point.count * number(n)
    used = sorted((rate for rate in flops if rate in device.peak and flops[rate]), key=lambda rate: -flops[rate])
    if used:
        return used
    return ["bf16"] if "bf16" in device.peak else sorted(device.peak, key=lambda rate: -device.peak[rate])[:1]


def roof_rows(devices: Sequence[Device], rates: Sequence[str], extra: Sequence[Roof] = ()) -> list[Json]:
    """Ceilings as rows of `roofs`: each device's bandwidth and peaks at these rates, then the extra ones."""
    rows: list[Json] = []
    distinct: dict[object, Device] = {}
    for each in devices:
        distinct.setdefault((each.id, each.bandwidth, *each.peak.values()), each)
    devices = list(distinct.values())
    ids = [device.id for device in devices]
    for index, device in enumerate(devices):
        # One whose figures were changed, beside the listed one.
        own = "your " if ids.count(device.id) > 1 and device.assumptions else ""
        whose = f"{own}{visible(device.id)} " if len(devices) > 1 else ""
        known = [rate for rate in (rates if index == 0 else rates[:1]) if rate in device.peak]
        for nth, rate in enumerate(known):
            ridge = device.ridge_point(rate)
            rows.append(
                {
                    "device": visible(device.name),
                    "bandwidth": device.bandwidth,
                    "peak": device.peak[rate],
                    "main": index == 0 and nth == 0,
                    "slope": f"{whose}{si(device.bandwidth, 'B/s')}" if nth == 0 else "",
                    "slope_short": si(device.bandwidth, "B/s") if nth == 0 else "",
                    "flat": f"{whose}{si(device.peak[rate], 'FLOP/s')} {rate}",
                    "flat_short": f"{si(device.peak[rate], 'FLOP/s')} {rate}",
                    "ridge_label": f"{'' if nth else whose}ridge {significant(ridge)}{'' if nth else ' FLOP/byte'}",
                }
            )
    if not rows:
        raise BadValue(f"{devices[0].id} has none of the rates {', '.join(rates)}. Draw it with another --compute.")
    for roof in extra:
        bandwidth, peak = roof.bandwidth or rows[0]["bandwidth"], roof.peak or rows[0]["peak"]
        rows.append(
            {
                "device": visible(roof.label),
                "bandwidth": bandwidth,
                "peak": peak,
                "main": False,
                "slope": f"{visible(roof.label)} {si(bandwidth, 'B/s')}" if roof.bandwidth else "",
                "slope_short": si(bandwidth, "B/s") if roof.bandwidth else "",
                "flat": f"{si(peak, 'FLOP/s')} {visible(roof.label)}" if roof.peak else "",
                "flat_short": si(peak, "FLOP/s"),
                "ridge_label": "" if roof.peak is None else f"ridge {significant(peak / bandwidth)}",
            }
        )
    return rows


def caches(device: Device) -> list[Roof]:
    """The device's caches as ceilings, where their bandwidth is known."""
    return [Roof(level.upper(), bandwidth) for level, bandwidth in device.cache_bandwidth.items()]


def kernel_rows(drawn: Sequence[Dot]) -> list[Json]:
    """Kernels as rows of `kernels`."""
    whole = sum(dot.seconds for dot in drawn) or 1.0
    rows: list[Json] = []
    for index, dot in enumerate(drawn):
        share = dot.seconds / whole
        name = visible(dot.point.name)
        rows.append(
            {
                "row": index,
                "name": name,
                "kind": kind_of(dot.point.work.op),
                "count": dot.point.count,
                "flops": dot.flops,
                "bytes": dot.bytes,
                "seconds": dot.seconds,
                "bound_seconds": dot.bound_seconds,
                "bound": str(dot.point.bound.by),
                "time": dot.time,
                "share": share,
                "short": visible(dot.point.name, 28),
                "spoken": f"{name}: {percent(share)} of the time, {_placed(dot)}",
            }
        )
    return rows


def _placed(dot: Dot) -> str:
    if not dot.drawn:
        return f"{si(dot.seconds, 's')}, not drawn"
    intensity = f"{significant(dot.flops / dot.bytes)} FLOP/byte"
    return f"{intensity}, {si(dot.flops / dot.seconds, 'FLOP/s')}, bound by {dot.point.bound.by}"


def total_rows(drawn: Sequence[Dot]) -> list[Json]:
    """The sum of the kernels that have a cost, as the row of `total`."""
    counted = [dot for dot in drawn if dot.costed]
    whole = "whole pass" if len(counted) == len(drawn) else "all with a cost"
    flops, moved, seconds, bounds = (
        sum(getattr(dot, name) for dot in counted) for name in ("flops", "bytes", "seconds", "bound_seconds")
    )
    if not (flops and moved and seconds):
        return []
    share = seconds / sum(dot.seconds for dot in drawn)
    text = f"{significant(flops / moved)} FLOP/byte, {si(flops / seconds, 'FLOP/s')}"
    return [
        {
            "name": whole,
            "label": whole,
            "kind": "",
            "count": sum(dot.point.count for dot in counted),
            "flops": flops,
            "bytes": moved,
            "seconds": seconds,
            "bound_seconds": bounds,
            "bound": "",
            "time": counted[0].time,
            "share": share,
            "spoken": f"{whole}: {text}",
        }
    ]


def footnotes(drawn: Sequence[Dot]) -> list[str]:
    """What the picture does not show: kernels without FLOPs, kernels whose cost is not known."""
    whole = sum(dot.seconds for dot in drawn) or 1.0
    lines: list[str] = []
    for why, group in (
        ("Not drawn, without FLOPs", [dot for dot in drawn if dot.costed and not dot.drawn]),
        ("Not drawn, cost unknown", [dot for dot in drawn if not dot.costed]),
    ):
        if group:
            share = sum(dot.seconds for dot in group) / whole
            named = ", ".join(visible(dot.point.name, 24) for dot in group[:_NAMED])
            more = f" and {len(group) - _NAMED} more" if len(group) > _NAMED else ""
            part = percent(share) if share >= 0.0005 else "<0.1 %"
            lines.append(f"{why}, {part} of the time: {named}{more}")
    return lines


def spoken(data: Mapping[str, Sequence[Json]]) -> str:
    """The chart in sentences, for who does not see it."""
    rows = sorted(data["kernels"], key=lambda row: -row["share"])[:_NAMED]
    roofs = "; ".join(text for row in data["roofs"] for text in (row["slope"], row["flat"], row["ridge_label"]) if text)
    kernels = "; ".join(row["spoken"] for row in rows)
    return f"Roofs: {roofs}. {len(data['kernels'])} kernels, the costliest: {kernels}."
