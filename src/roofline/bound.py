"""Where demand meets supply: time >= max(demand / supply), and the argmax is the verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, cast

from roofline.cost import Cost, Work
from roofline.device import Device, Link, Topology
from roofline.errors import BadValue, UnknownName, shown
from roofline.num import Expr, Num, maximum, number, where, zero

RESOURCES = ("memory", "compute", "link", "launch")  # the one that a tie goes to first
VERDICTS = {
    "compute": "Compute-bound",
    "memory": "Memory-bound",
    "link": "Communication-bound",
    "launch": "Latency-bound",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """Seconds that a cost takes of each resource at the least, and the longest of them [s].

    `unknown` names rates whose peak the device's file lacks; their time is left out, which keeps the
    bound a lower one.
    """

    compute: Num
    memory: Num
    link: Num
    launch: Num
    seconds: Num
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, compute: Num = 0.0, memory: Num = 0.0, link: Num = 0.0, launch: Num = 0.0, unknown: tuple[str, ...] = ()
    ) -> Bound:
        """The bound that these seconds of each resource make."""
        longest = maximum(memory, compute)
        # Most kernels use no link and no device file states a launch time: two comparisons saved on each.
        if link.__class__ is not float or link:
            longest = maximum(longest, link)
        if launch.__class__ is not float or launch:
            longest = maximum(longest, launch)
        return cls(compute, memory, link, launch, longest, unknown)

    @property
    def by(self) -> Any:
        """The resource that sets the bound: a name, an array of names, or the traced `index`.

        Where two tie, memory stands before compute: a kernel on the ridge still rides the slope.
        """
        index = self.index
        if isinstance(index, int):
            return RESOURCES[index]
        return index if isinstance(index, Expr) else _names(index)

    @property
    def index(self) -> Num:
        """Which of RESOURCES sets the bound: the first of those that take as long."""
        longest = self.seconds
        others = where(self.compute >= longest, 1, where(self.link >= longest, 2, 3))
        return where(self.memory >= longest, 0, others)

    def derated(self, bandwidth: float, compute: float) -> Bound:
        """The bound at these shares of the bandwidth and of every peak, as of `Device.derated`."""
        return Bound.of(self.compute / compute, self.memory / bandwidth, self.link, self.launch, self.unknown)

    @property
    def no_overlap(self) -> Num:
        """The resources one after another [s]."""
        return self.compute + self.memory + self.link + self.launch


def _names(index: Any) -> Any:
    import numpy as np

    return np.array(RESOURCES)[index]


def bound(cost: Cost, device: Device) -> Bound:
    """The least time of each resource for `cost` on `device`.

    Rates run side by side on their own units, so the slowest one counts. Raises UnknownName for a
    tensor rate that the device lacks (`bf16-sparse` is one where its sparsity is known); an unknown
    vector rate is named in `Bound.unknown`.
    """
    compute: Num = 0.0
    unknown: tuple[str, ...] = ()
    for rate, flops in cost.flops.items():
        peak = device.peak.get(rate)
        if peak is not None:
            compute = maximum(flops / peak, compute)
        elif rate.endswith("-vector"):
            unknown = (*unknown, rate)
        else:
            compute = maximum(flops / device.rate(rate), compute)
    memory = cost.bytes / device.bandwidth
    if not cost.links and zero(device.launch):
        return Bound.of(compute, memory, unknown=unknown)
    link: Num = 0.0
    for name, sent in cost.links.items():
        wire = _link(device, name)
        link = link + sent / wire.bandwidth + cost.steps * wire.latency
    return Bound.of(compute, memory, link, cost.launches * device.launch, unknown)


class Demand(NamedTuple):
    """What a cost takes of one supply: how much of it, at which rate or bandwidth, and for how long [s].

    `supply` is None where the device's file lacks it; `latency` [s] is what a link or a launch adds.
    """

    resource: str
    name: str
    amount: Num
    supply: float | None
    seconds: Num
    latency: float = 0.0


def demands(cost: Cost, device: Device) -> tuple[Demand, ...]:
    """Every demand of a cost apart, as `bound` takes the longest of: for an answer that shows its work."""
    rows: list[Demand] = []
    for rate, flops in cost.flops.items():
        peak = device.peak.get(rate)
        rows.append(Demand("compute", rate, flops, peak, flops / peak if peak else 0.0))
    rows.append(Demand("memory", "memory", cost.bytes, device.bandwidth, cost.bytes / device.bandwidth))
    for name, sent in cost.links.items():
        link = _link(device, name)
        seconds = sent / link.bandwidth + cost.steps * link.latency
        rows.append(Demand("link", link.name, sent, link.bandwidth, seconds, link.latency))
    if device.launch:
        rows.append(Demand("launch", "launch", cost.launches, None, cost.launches * device.launch, device.launch))
    return tuple(rows)


def _link(device: Device, name: str) -> Link:
    """The link of that name; "link" is the device's first one."""
    for each in device.links:
        if name in (each.name, "link"):
            return each
    if not device.links:
        Topology(device, 2).link()
    known = ", ".join(each.name for each in device.links)
    raise UnknownName(f"{device.id} has no link {shown(name)}. Known: {known}. Add it to a copy of the device's file.")


@dataclass(frozen=True, slots=True)
class Point:
    """One dot on the chart: a kernel's demand beside its bound, what is expected, what was measured.

    `work` and the times are of one call; `flops`, `bytes` and `bound_seconds` of all `count` calls together.
    `expected` and `measured` [s] are None where they are not known, and `reason` says why. `traffic` says whose
    bytes these are: "ideal", each operand once, or "dram", as counted at the memory (operational intensity).
    """

    name: str
    part: str
    work: Work
    device: Device
    count: int
    bound: Bound
    expected: Bound | None = None
    measured: Num | None = None
    reason: str = "no calibration of this kind of kernel"
    traffic: Literal["ideal", "dram"] = "ideal"

    @property
    def flops(self) -> Num:
        """FLOPs of all calls [FLOP]."""
        return self.count * self.work.cost.total_flops

    @property
    def bytes(self) -> Num:
        """Memory bytes of all calls [byte]."""
        return self.count * self.work.cost.bytes

    @property
    def bound_seconds(self) -> Num:
        """The bound of all calls, one after another [s]."""
        return self.count * self.bound.seconds

    @property
    def rate(self) -> str:
        """The rate of most of its FLOPs, "" where it has none."""
        flops = self.work.cost.flops
        return max(flops, key=lambda each: cast(float, flops[each]), default="")

    @property
    def attainable(self) -> Num:
        """FLOP/s at that rate while the call takes its bound [FLOP/s]; 0 where it has none."""
        return self.work.cost.flops.get(self.rate, 0) / self.bound.seconds if self.rate else 0.0

    def on(self, device: Device) -> Point:
        """The same kernel on another device; what was expected or measured stays with this one."""
        return replace(self, device=device, bound=bound(self.work.cost, device), expected=None, measured=None)


def place(work: Work, device: Device, *, name: str = "", part: str = "", count: int = 1) -> Point:
    """Put a piece of work, called `count` times, on a device's roofline; raises BadValue for no whole count."""
    if count.__class__ is not int or count < 1:
        exact = number(count)
        if not isinstance(exact, int) or exact < 1:
            raise BadValue(f"A kernel is called {shown(count)} times. Possible: a whole number from 1.")
        count = exact
    return Point(name or work.op, part, work, device, count, bound(work.cost, device))
