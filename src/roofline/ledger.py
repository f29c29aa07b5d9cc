"""The ledger of a pass: every kernel with its demand, its bound and its share, and their totals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from roofline.assumptions import assumptions
from roofline.bound import RESOURCES, Bound, Point, bound, place
from roofline.cost import Cost
from roofline.device import Device, Topology, check_shares
from roofline.dtypes import STORED
from roofline.errors import BadValue, shown
from roofline.fold import fold
from roofline.model import Model
from roofline.num import Expr, Num, equal, largest_of, where
from roofline.pairs import positions
from roofline.parts.base import Pass
from roofline.parts.moe import Experts
from roofline.routing import EVEN, Routing
from roofline.shard import Shard
from roofline.workload import Precision, Workload

if TYPE_CHECKING:
    from roofline.levers import Lever
    from roofline.show.chart import Chart

_COMPULSORY = ("weights", "kv", "output")


class Efficiency(NamedTuple):
    """The shares of bandwidth and of peak that a derated time assumes."""

    bandwidth: float
    compute: float


@dataclass(frozen=True, slots=True)
class Total:
    """The whole pass of one rank.

    Times [s]: `bound_seconds` is the sum of the kernels' bounds, `floor_seconds` the pass with perfect
    overlap and only its compulsory bytes (no link), `no_overlap_seconds` every resource one after another,
    `seconds` the time model asked for. `tokens_per_second` counts the rows of the pass (of a module, its calls) over
    `seconds`.
    `bound` is the resource that bounds most of the time, `of_peak` the share of the undiscounted
    peak of the compute rate that the FLOPs at that rate reach in `seconds`.
    """

    flops: Num
    bytes: Num
    intensity: Num
    seconds: Num
    bound_seconds: Num
    floor_seconds: Num
    no_overlap_seconds: Num
    expected_seconds: Num | None
    tokens_per_second: Num
    bound: Any
    of_peak: Num


@dataclass(frozen=True)
class Ledger:
    """A model's pass on a device, kernel by kernel.

    `kernels` are Points in the order of the pass; `times` are their seconds under the time model (all
    calls together), which is the bound unless an efficiency was asked for.
    """

    model: Model
    device: Device
    workload: Workload
    precision: Precision
    shard: Shard
    efficiency: Efficiency | None
    fused: bool
    kernels: tuple[Point, ...]
    times: tuple[Num, ...]

    def __iter__(self) -> Iterator[Point]:
        return iter(self.kernels)

    def __repr__(self) -> str:
        total = self.total
        what = f"{self.model.name} on {self.device.id}, {self.workload.phase}"
        return f"<Ledger {what}: {len(self)} kernels, bound {total.bound_seconds} s, {total.bound}>"

    def __len__(self) -> int:
        return len(self.kernels)

    @cached_property
    def total(self) -> Total:
        """The sums over all kernels."""
        flops: Num = 0
        moved: Num = 0
        bounds: Num = 0.0
        apart: Num = 0.0
        seconds: Num = 0.0
        for point, time in zip(self.kernels, self.times, strict=True):
            flops = flops + point.flops
            moved = moved + point.bytes
            bounds = bounds + point.bound_seconds
            apart = apart + point.count * point.bound.no_overlap
            seconds = seconds + time
        rate = self.precision.compute
        at_rate, compulsory = self._compulsory
        return Total(
            flops=flops,
            bytes=moved,
            intensity=flops / moved,
            seconds=seconds,
            bound_seconds=bounds,
            floor_seconds=bound(Cost(at_rate, {"compulsory": compulsory}, launches=0), self.device).seconds,
            no_overlap_seconds=apart,
            expected_seconds=None,
            tokens_per_second=self.workload.tokens / seconds,
            bound=self.by_resource.by,
            of_peak=at_rate.get(rate, 0) / seconds / self.device.rate(rate),
        )

    @property
    def _compulsory(self) -> tuple[dict[str, Num], Num]:
        """FLOPs of the pass by rate, and the bytes that nothing saves.

        Each weight once, the cache read, the rows looked up and the logits written.
        """
        flops: dict[str, Num] = {}
        moved: Num = 0
        for point in self.kernels:
            count, cost = point.count, point.work.cost
            for rate, n in cost.flops.items():
                flops[rate] = flops.get(rate, 0) + count * n
            for role in _COMPULSORY:
                if role in cost.memory:
                    moved = moved + count * cost.memory[role]
        return flops, moved

    @cached_property
    def by_resource(self) -> Bound:
        """Seconds of the bound by the resource that sets each kernel's [s]; its `by` is the verdict."""
        spent: dict[int, Num] = dict.fromkeys(range(len(RESOURCES)), 0.0)
        for point in self.kernels:
            seconds, index = point.bound_seconds, point.bound.index
            for each in (index,) if isinstance(index, int) else spent:
                spent[each] = spent[each] + where(equal(index, each), seconds, 0.0)
        named = {resource: spent[each] for each, resource in enumerate(RESOURCES)}
        return Bound.of(named["compute"], named["memory"], named["link"], named["launch"])

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """What the numbers take for granted, in sentences."""
        return assumptions(self)

    def changed(self, **changes: Any) -> Ledger:
        """The ledger of the same pass with another model, device, workload, precision, shard, efficiency or fused."""
        same = ("model", "device", "workload", "precision", "shard", "efficiency", "fused")
        return predict(**({name: getattr(self, name) for name in same} | changes))

    def on(self, device: Device | str) -> Ledger:
        """The same pass on another device; raises UnknownName for one that is not known, or lacks a rate."""
        return self.changed(device=device)

    @cached_property
    def levers(self) -> tuple[Lever, ...]:
        """What would help and by how much, the largest gain first, and what would not; of a scalar ledger."""
        from roofline.levers import levers

        return levers(self)

    def to_dict(self) -> dict[str, Any]:
        """The ledger as JSON types, schema `roofline.ledger/1`."""
        from roofline.show.record import ledger_record

        return ledger_record(self)

    def chart(self, *, against: Sequence[Device] = ()) -> Chart:
        """The roofline of this ledger, beside the roofs of other devices; raises BadValue for one over arrays."""
        from roofline.show.charts import ledger_roofline

        return ledger_roofline(self, against=against)

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """For notebooks: verdict, roofline and kernels as HTML, and as text."""
        from roofline.show.notebook import ledger_bundle

        return ledger_bundle(self)


def predict(
    model: Model | str,
    device: Device | str,
    workload: Workload | None = None,
    precision: Precision | None = None,
    *,
    shard: Shard | None = None,
    efficiency: tuple[float, float] | None = None,
    fused: bool = False,
) -> Ledger:
    """The ledger of one pass of `model` on `device`, which are loaded where they are names.

    Defaults: a decode step of one sequence at 8,192 tokens, in BF16 (weights as the checkpoint stores them, where its
    file says so, in any precision that does not name their format), on one device, at its bound.
    `efficiency` = shares of (bandwidth, compute) that the times assume; bounds stay undiscounted.
    Raises UnknownName for a rate or link that the device lacks, ShardError where the ranks do not divide.
    """
    model = Model.load(model) if isinstance(model, str) else model
    device = Device.load(device) if isinstance(device, str) else device
    workload = Workload.decode() if workload is None else workload
    _expect(model, Model)
    _expect(workload, Workload)
    model = over_sources(model, workload)
    precision = Precision() if precision is None else precision
    shard = Shard() if shard is None else shard
    for given, kind in ((device, Device), (workload, Workload), (precision, Precision), (shard, Shard)):
        _expect(given, kind)
    if precision.weights == STORED and not model.quantised:
        precision = replace(precision, weights="bf16")
    model, precision = model.suited(device, precision)
    device.rate(precision.compute)
    link = Topology(device, shard.tp).link()
    kernels = model.kernels(Pass(workload, precision, shard, link.name))
    _check_routing(model, workload)
    if fused:
        kernels = fold(kernels)
    points = tuple(
        place(kernel.work, device, name=kernel.name, part=kernel.part, count=count) for count, kernel in kernels
    )
    shares = None if efficiency is None else _shares(efficiency)
    if shares is None:
        times = tuple(point.bound_seconds for point in points)
    else:
        times = tuple(point.count * point.bound.derated(*shares).seconds for point in points)
    if any(isinstance(time, float) and not math.isfinite(time) for time in times):
        raise BadValue(
            f"The pass takes no finite time on {device.id}: its bandwidth, a peak or the efficiency is next to "
            "nothing. Correct that figure."
        )
    return Ledger(model, device, workload, precision, shard, shares, fused, points, times)


def over_sources(model: Model, workload: Workload) -> Model:
    """The model over the sources of a pass; raises BadValue where it has no encoder, or makes no tokens."""
    if model.unit and any(rows.phase == "decode" or _cached(rows.context) for rows in workload.groups):
        raise BadValue(
            f"{model.name} is an encoder: it sees all of its input at once and decodes nothing. Ask for a prefill pass "
            "with nothing cached before (--phase prefill, --context 0)."
        )
    if workload.source is not None:
        return model.reading(workload.source)
    if model.encoder is None:
        return model
    if model.encoder.fixed:
        return model.reading(model.encoder.source)
    first = workload.groups[0]
    return model.reading(positions(first.new, first.behind))


def _cached(context: Num) -> bool:
    return not isinstance(context, Expr) and largest_of(context) > 0


def _check_routing(model: Model, workload: Workload) -> None:
    """Refuse a spread over experts that the model's cannot have; raises BadValue."""
    spread = workload.spread
    if spread is EVEN or (spread.touched is None and not spread.skew):
        return
    routed = [part for _, part in model.repeats if isinstance(part, Experts)]
    if not routed:
        raise BadValue(f"{model.name} has no experts to choose. Leave out how tokens choose them.")
    for part in routed:
        routing = Routing(part.experts.size, part.top_k, workload.tokens, spread)
        if not routing.possible():
            raise BadValue(
                f"{shown(spread.touched)} experts touched cannot be: tokens of this pass that choose {part.top_k} of "
                f"{part.experts.size} touch {shown(routing.fewest)} to {shown(routing.most)} of them."
            )


def _expect(given: object, kind: type) -> None:
    """Refuse what is not of its kind; raises BadValue."""
    if not isinstance(given, kind):
        raise BadValue(f"The {kind.__name__.lower()} is {shown(given)}. Possible: a roofline {kind.__name__}.")


def _shares(efficiency: object) -> Efficiency:
    """The two shares; raises BadValue for anything else."""
    match efficiency:
        case (Expr() as bandwidth, Expr() as compute):  # traced, as supplies may be
            return Efficiency(cast(float, bandwidth), cast(float, compute))
        case (int() | float() as bandwidth, int() | float() as compute):
            check_shares(bandwidth, compute)
            return Efficiency(bandwidth, compute)
        case _:
            raise BadValue(f"The efficiency is {shown(efficiency)}. Possible: two shares, as (0.80, 0.75).")
