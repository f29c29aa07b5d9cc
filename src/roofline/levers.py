"""Levers: what would help a pass and by how much, each computed as a second ledger and none canned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, cast

from roofline.capacity import resident
from roofline.dtypes import smaller
from roofline.errors import BadValue, ShardError, UnknownName
from roofline.ledger import Ledger
from roofline.shard import MOST_RANKS, Shard
from roofline.workload import CALL

HELPS = 0.01  # a gain below one part in a hundred is none


class Lever(NamedTuple):
    """One change and what it does.

    `gain` in tokens a second of all devices together, as a share of those before; `fits` of the memory after
    it, None where the capacity is unknown; `ranks` times the devices.
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

    @property
    def gain_per_device(self) -> float:
        """The gain in tokens a second of each device."""
        return (1 + self.gain) / self.ranks - 1


# What a lever changes of a ledger, by the names of `Ledger.changed`, and in words.
_Change = tuple[str, dict[str, Any]]
_Changes = Callable[[Ledger], Iterator[_Change]]
_LEVERS: dict[str, _Changes] = {}


def _lever(name: str) -> Callable[[_Changes], _Changes]:
    """Register a function that yields its changes; none where it does not apply."""

    def register(function: _Changes) -> _Changes:
        _LEVERS[name] = function
        return function

    return register


def levers(ledger: Ledger) -> tuple[Lever, ...]:
    """Every lever that applies, the largest gain first; raises BadValue for a ledger over arrays."""
    if not isinstance(ledger.total.seconds, (int, float)):
        raise BadValue("Levers of a ledger over arrays are no single answer. Predict one setting.")
    names = ("device",) if ledger.workload.phase == CALL else tuple(_LEVERS)  # of a module nothing else can change
    tried = [lever for name in names for lever in _tried(ledger, name, _LEVERS[name])]
    return tuple(sorted(tried, key=lambda each: -each.gain))


def _tried(ledger: Ledger, name: str, function: _Changes) -> Iterator[Lever]:
    before = cast(float, ledger.total.tokens_per_second)
    # What cannot be is no lever: ranks that do not divide, no link between them, a batch past all reason.
    with suppress(ShardError, UnknownName, BadValue):
        for change, changes in function(ledger):
            after = ledger.changed(**changes)
            rate = cast(float, after.total.tokens_per_second)
            held = resident(after.model, after.workload, after.precision, after.shard, after.device.capacity)
            ranks = after.shard.tp // ledger.shard.tp
            yield Lever(name, change, cast(float, after.total.seconds), rate, rate / before - 1, held.fits, ranks)


@_lever("batch")
def _batch(ledger: Ledger) -> Iterator[_Change]:
    sequences = 2 * cast(int, ledger.workload.groups[0].sequences)
    yield f"{sequences:,} sequences", {"workload": ledger.workload.resized(sequences=sequences)}


@_lever("context")
def _context(ledger: Ledger) -> Iterator[_Change]:
    context = cast(int, ledger.workload.groups[0].context)
    if context > 1:
        yield "half the context", {"workload": ledger.workload.resized(context=context // 2)}


@_lever("weights")
def _weights(ledger: Ledger) -> Iterator[_Change]:
    for name in smaller(ledger.precision.weights):
        yield f"{name} weights, same arithmetic", {"precision": replace(ledger.precision, weights=name)}


@_lever("kv")
def _kv(ledger: Ledger) -> Iterator[_Change]:
    if any(point.work.op == "attention" for point in ledger.kernels):
        for name in smaller(ledger.precision.kv)[:1]:
            yield f"{name} KV cache", {"precision": replace(ledger.precision, kv=name)}


@_lever("compute")
def _compute(ledger: Ledger) -> Iterator[_Change]:
    if ledger.precision.compute in ("bf16", "fp16") and "fp8" in ledger.device.peak:
        precision = replace(ledger.precision, weights="fp8", activations="fp8", compute="fp8")
        yield "fp8 throughout, KV as it is", {"precision": precision}


@_lever("fused")
def _fused(ledger: Ledger) -> Iterator[_Change]:
    if not ledger.fused:
        yield "small kernels folded (--fused)", {"fused": True}


@_lever("tp")
def _tp(ledger: Ledger) -> Iterator[_Change]:
    ranks = 2 * ledger.shard.tp
    if ledger.model.layers and ranks <= MOST_RANKS:
        yield f"tensor parallelism over {ranks}", {"shard": Shard(ranks)}


@_lever("device")
def _device(ledger: Ledger) -> Iterator[_Change]:
    yield "twice the bandwidth", {"device": ledger.device.scaled(bandwidth=2)}
    yield "twice every peak", {"device": ledger.device.scaled(compute=2)}
    if ledger.shard.tp > 1:
        yield "twice the link bandwidth", {"device": ledger.device.scaled(link=2)}
