"""A pass over traced sizes: every number of a ledger and of its memory as formulas that a page evaluates.

Sequences, tokens, formats, supplies and efficiency are variables; model, ranks and folding are traced one by one.
The formulas are those of `predict` and `memory`, called once with symbols: none is written a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple, cast

from roofline.capacity import Memory, resident
from roofline.cost import Cost
from roofline.device import Device, Link
from roofline.dtypes import STORED, DType, dtype
from roofline.errors import BadValue, ShardError
from roofline.ledger import Ledger, over_sources, predict
from roofline.model import Model
from roofline.num import Num, Whole, same
from roofline.ops import VECTOR
from roofline.parts.base import Pass
from roofline.shard import Shard
from roofline.workload import Precision, Rows, Workload

COMPUTE = "compute"
PHASES = ("decode", "prefill")
# What a page sets, in the order in which the functions take it: rows (`behind` is the context as operations take it,
# `all` 1 where logits of every token are wanted), formats (bits, block, scale bits), supplies, shares.
ROWS = ("sequences", "new", "behind", "all")
FORMATS = (
    *("weight_bits", "weight_rows", "weight_columns", "weight_scale", "vector_bits"),
    *("kv_bits", "kv_columns", "kv_scale", "activation_bits"),
)
SUPPLIES = ("bandwidth", "link", "latency", f"peak {COMPUTE}")
SHARES = ("share_bandwidth", "share_compute")
RANKS = tuple(1 << n for n in range(7))

KERNEL = (
    *("flops", "bytes", "weight_bytes", "kv_bytes", "link_bytes", "seconds", "bound_seconds", "bound"),
    *("compute_seconds", "memory_seconds", "link_seconds"),
)
TOTAL = (
    *("flops", "bytes", "intensity", "seconds", "bound_seconds", "floor_seconds", "no_overlap_seconds"),
    *("tokens_per_second", "bound", "of_peak"),
)
MEMORY = ("weight_bytes", "kv_bytes", "activation_bytes", "total_bytes")


@dataclass(frozen=True, slots=True)
class _Formats(Precision):
    """Number formats whose sizes are variables."""

    def __post_init__(self) -> None:
        """Nothing to look up: these formats have no names."""

    @property
    def vectors(self) -> DType:
        """The format of norms and biases."""
        return Precision(STORED).vectors if self.weights == STORED else _format("vector")


def _format(of: str, rows: bool = False, blocks: bool = False) -> DType:
    """A format whose bits, and blocks where it may have them, are variables."""
    bits = _size(f"{of}_bits")
    if not blocks:
        return DType(of, bits)
    return DType(of, bits, (_size(f"{of}_rows") if rows else 1, _size(f"{of}_columns")), _size(f"{of}_scale"))


def _size(name: str) -> int:
    # Sizes are ints to the type checker wherever they are facts; here they are symbols.
    return cast(int, Whole.var(name))


class Line(NamedTuple):
    """What a kernel of a traced pass is called, and its calls."""

    name: str
    part: str
    op: str
    calls: int
    dims: tuple[str, ...]


class Traced(NamedTuple):
    """One model on so many ranks, folded or not, in these phases: its kernels, and the formulas of `_formulas`.

    `stored`: its weights are in the formats of the checkpoint, which are facts and no variables.
    """

    ranks: int
    fused: bool
    stored: bool
    phases: tuple[str, ...]
    kernels: tuple[Line, ...]
    formulas: tuple[Num, ...]


def variables(rates: Sequence[str] = ()) -> tuple[str, ...]:
    """Every variable, with the peaks of the further rates that kernels run at."""
    return (*ROWS, *FORMATS, *SUPPLIES, *(f"peak {rate}" for rate in rates), *SHARES)


def rates(models: Sequence[Model]) -> tuple[str, ...]:
    """The rates beside the compute rate that any kernel of these models runs at."""
    found: set[str] = {VECTOR}
    for model in models:
        for phase in PHASES:
            kernels = model.kernels(Pass(_workload(phase), _precision(), Shard()))
            found |= {rate for _, kernel in kernels for rate in kernel.work.cost.flops}
    return tuple(sorted(found - {COMPUTE}))


def rows_formulas(phase: str) -> tuple[Num, ...]:
    """`behind` of a phase in terms of sequences, new and context."""
    return (Rows(phase, Whole.var("sequences"), Whole.var("new"), Whole.var("context"), all_logits=False).behind,)


def formats(name: str) -> Mapping[str, int]:
    """The sizes of the number format `name`, as a page puts them in for its variables."""
    found = dtype(name)
    rows, columns = found.block or (1, 1)
    vectors = Precision(weights=name).vectors.bits
    return {"bits": found.bits, "rows": rows, "columns": columns, "scale": found.scale_bits, "vector_bits": vectors}


def trace(model: Model, further: Sequence[str], ranks_of: Sequence[int] = RANKS) -> Iterator[Traced]:
    """The model on each of these numbers of ranks that divides it, unfolded and folded; where its file says how its
    weights are stored, so too."""
    both = [PHASES] if _phases_alike(model) else [(phase,) for phase in PHASES]
    for ranks, phases, stored in product(ranks_of, both, (False, True) if model.quantised else (False,)):
        with suppress(ShardError, BadValue):
            workload, precision = _workload(phases[0]), _precision(stored)
            held = resident(over_sources(model, workload), workload, precision, Shard(ranks), None)
            for fused in (False, True):
                ledger = _ledger(model, workload, precision, ranks, fused, further)
                lines = tuple(
                    Line(each.name, each.part, each.work.op, each.count, tuple(each.work.dims))
                    for each in ledger.kernels
                )
                yield Traced(ranks, fused, stored, phases, lines, tuple(_formulas(ledger, held)))


def _phases_alike(model: Model) -> bool:
    """Whether a phase is told by its sizes alone; latent attention runs other kernels in prefill."""
    decode, prefill = (model.kernels(Pass(_workload(phase), _precision(), Shard())) for phase in PHASES)
    return len(decode) == len(prefill) and all(
        a.calls == b.calls and a.kernel.name == b.kernel.name and _alike(a.kernel.work.cost, b.kernel.work.cost)
        for a, b in zip(decode, prefill, strict=True)
    )


def _alike(a: Cost, b: Cost) -> bool:
    """Whether two costs have the same formulas."""
    pairs = ((a.flops, b.flops), (a.memory, b.memory), (a.links, b.links))
    return all(x.keys() == y.keys() and all(same(x[key], y[key]) for key in x) for x, y in pairs)


def _ledger(
    model: Model, workload: Workload, precision: Precision, ranks: int, fused: bool, further: Sequence[str]
) -> Ledger:
    shares = cast("tuple[float, float]", tuple(Whole.var(each) for each in SHARES))
    device = _device(tuple(further))
    return predict(model, device, workload, precision, shard=Shard(ranks), efficiency=shares, fused=fused)


@dataclass(frozen=True, slots=True)
class _Rows(Rows):
    """Rows whose context is given as operations take it."""

    @property
    def behind(self) -> Num:
        """The variable itself."""
        return self.context


def _workload(phase: str) -> Workload:
    sizes = [Whole.var(each) for each in ROWS[:3]]
    return Workload((_Rows(phase, *sizes, all_logits=cast(bool, Whole.var("all"))),))


def _precision(stored: bool = False) -> Precision:
    return _Formats(
        weights=STORED if stored else cast(str, _format("weight", rows=True, blocks=True)),
        kv=cast(str, _format("kv", blocks=True)),
        activations=cast(str, _format("activation")),
        compute=COMPUTE,
    )


@cache
def _device(further: tuple[str, ...]) -> Device:
    """A device whose supplies are variables; one without a rate has an endless peak of it, as `bound` leaves it out."""

    def supply(name: str) -> float:
        return cast(float, Whole.var(name))

    peak = {rate: supply(f"peak {rate}") for rate in (COMPUTE, *further)}
    link = Link("link", supply("link"), None, supply("latency"))
    return Device("traced", "traced", peak, supply("bandwidth"), links=(link,))


def _formulas(ledger: Ledger, held: Memory) -> Iterator[Num]:
    """TOTAL and MEMORY, then KERNEL and the dims of every kernel."""
    for name in TOTAL:
        yield getattr(ledger.total, name)
    for name in MEMORY:
        yield getattr(held, name)
    for point, seconds in zip(ledger.kernels, ledger.times, strict=True):
        cost = point.work.cost
        yield from (point.flops, point.bytes)
        yield from (point.count * cost.memory.get(role, 0) for role in ("weights", "kv"))
        yield point.count * cost.link_bytes
        yield from (seconds, point.bound_seconds, point.bound.index)
        yield from (point.bound.compute, point.bound.memory, point.bound.link)
        yield from point.work.dims.values()
