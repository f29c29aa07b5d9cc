"""Levers: what would help a pass and by how much, each computed as a second ledger and none canned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from roofline.capacity import resident
from roofline.device import Device
from roofline.dtypes import dtype
from roofline.errors import BadValue, RooflineError
from roofline.ledger import Ledger, predict
from roofline.shard import MOST_RANKS, Shard
from roofline.workload import Precision, Workload

HELPS = 0.01  # a gain below one part in a hundred is none


class Lever(NamedTuple):
    """One change and what it does.

    `gain` in tokens a second, as a share of those before; `fits` of the memory after it, None where the
    capacity is unknown; `ranks` more devices than before where it needs them.
    """

    name: str
    change: str
    seconds: float
    tokens_per_second: float
    gain: float
    fits: bool | None
    ranks: int = 1

    @property
    def helps(self) -> bool:
        """Whether the gain is worth a word."""
        return self.gain >= HELPS


@dataclass(frozen=True, slots=True)
class _Case:
    """What a ledger was predicted from, to be changed."""

    ledger: Ledger
    device: Device
    workload: Workload
    precision: Precision
    shard: Shard
    fused: bool

    def predict(self) -> Ledger:
        """The ledger of the changed case."""
        return predict(
            self.ledger.model,
            self.device,
            self.workload,
            self.precision,
            shard=self.shard,
            efficiency=self.ledger.efficiency,
            fused=self.fused,
        )


_Change = Callable[[_Case], Iterator[tuple[str, _Case]]]
_LEVERS: dict[str, _Change] = {}


def _lever(name: str) -> Callable[[_Change], _Change]:
    """Register a function that yields its changes, in words and as a case; none where it does not apply."""

    def register(function: _Change) -> _Change:
        _LEVERS[name] = function
        return function

    return register


def levers(ledger: Ledger) -> tuple[Lever, ...]:
    """Every lever that applies, the largest gain first; raises BadValue for a ledger over arrays."""
    if not isinstance(ledger.total.seconds, (int, float)):
        raise BadValue("Levers of a ledger over arrays are no single answer. Predict one setting.")
    case = _Case(ledger, ledger.device, ledger.workload, ledger.precision, ledger.shard, ledger.fused)
    return tuple(sorted(_tried(case), key=lambda each: -each.gain))


def _tried(case: _Case) -> Iterator[Lever]:
    before = cast(float, case.ledger.total.tokens_per_second)
    for name, function in _LEVERS.items():
        for change, after in _predicted(function, case):
            rate = cast(float, after.total.tokens_per_second)
            held = resident(after.model, after.workload, after.precision, after.shard, after.device.capacity)
            ranks = after.shard.tp // case.shard.tp
            yield Lever(name, change, cast(float, after.total.seconds), rate, rate / before - 1, held.fits, ranks)


def _predicted(function: _Change, case: _Case) -> Iterator[tuple[str, Ledger]]:
    """The changed ledgers; one that cannot be (the ranks do not divide, the size is past reason) is no lever."""
    with suppress(RooflineError):
        for change, changed in function(case):
            with suppress(RooflineError):
                yield change, changed.predict()


@_lever("batch")
def _batch(case: _Case) -> Iterator[tuple[str, _Case]]:
    sequences = 2 * cast(int, case.workload.groups[0].sequences)
    yield f"{sequences:,} sequences", replace(case, workload=case.workload.resized(sequences=sequences))


@_lever("context")
def _context(case: _Case) -> Iterator[tuple[str, _Case]]:
    context = cast(int, case.workload.groups[0].context)
    if context > 1:
        yield "half the context", replace(case, workload=case.workload.resized(context=context // 2))


@_lever("weights")
def _weights(case: _Case) -> Iterator[tuple[str, _Case]]:
    for smaller in _smaller(case.precision.weights):
        precision = replace(case.precision, weights=smaller)
        yield f"{smaller} weights, same arithmetic", replace(case, precision=precision)


@_lever("kv")
def _kv(case: _Case) -> Iterator[tuple[str, _Case]]:
    if any(point.work.op == "attention" for point in case.ledger.kernels):
        for smaller in _smaller(case.precision.kv)[:1]:
            yield f"{smaller} KV cache", replace(case, precision=replace(case.precision, kv=smaller))


@_lever("compute")
def _compute(case: _Case) -> Iterator[tuple[str, _Case]]:
    if case.precision.compute in ("bf16", "fp16") and "fp8" in case.device.peak:
        precision = replace(case.precision, weights="fp8", activations="fp8", compute="fp8")
        yield "weights, activations, arithmetic in fp8", replace(case, precision=precision)


@_lever("fused")
def _fused(case: _Case) -> Iterator[tuple[str, _Case]]:
    if not case.fused:
        yield "small kernels folded (--fused)", replace(case, fused=True)


@_lever("tp")
def _tp(case: _Case) -> Iterator[tuple[str, _Case]]:
    ranks = 2 * case.shard.tp
    if case.ledger.model.layers and ranks <= MOST_RANKS:
        yield f"tensor parallelism over {ranks}", replace(case, shard=Shard(ranks))


@_lever("device")
def _device(case: _Case) -> Iterator[tuple[str, _Case]]:
    for supply in ("bandwidth", "compute", "link"):
        if supply != "link" or case.shard.tp > 1:
            what = {"bandwidth": "the bandwidth", "compute": "every peak", "link": "the link bandwidth"}[supply]
            yield f"twice {what}", replace(case, device=case.device.scaled(**{supply: 2.0}))


def _smaller(name: str) -> tuple[str, ...]:
    """Formats of fewer bits that engines offer, the largest first."""
    return tuple(each for each in ("fp8", "int4") if dtype(each).bits < dtype(name).bits)
