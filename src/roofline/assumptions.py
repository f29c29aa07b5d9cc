"""What a ledger takes for granted, in sentences: part of every answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from roofline.device import Topology
from roofline.dtypes import dtype
from roofline.shard import Shard
from roofline.units import gib, percent

if TYPE_CHECKING:
    from roofline.ledger import Ledger


def assumptions(ledger: Ledger) -> tuple[str, ...]:
    """Every assumption behind the numbers of a ledger: those of this answer first, those of all answers last."""
    return (*warnings(ledger), *_counting(ledger), *_split(ledger), *_time(ledger))


def warnings(ledger: Ledger) -> tuple[str, ...]:
    """What may make this answer another than the one that was meant: a stand-in, a guess, an impossible length."""
    return (*ledger.device.assumptions, *ledger.model.assumptions, *_length(ledger))


def _length(ledger: Ledger) -> Iterator[str]:
    most = ledger.model.max_positions
    for rows in ledger.workload.groups:
        reached = rows.context + rows.new if rows.phase == "prefill" else rows.context
        if most is not None and isinstance(reached, int) and reached > most:
            yield f"{reached:,} positions are past the {most:,} that the model's config names"
            break


def _counting(ledger: Ledger) -> Iterator[str]:
    ops = {point.work.op for point in ledger.kernels}
    if "attention" in ops:
        yield "Attention is tiled and reads K and V once; its softmax is not counted"
    windows = {cast(int, point.work.dims["window"]) for point in ledger.kernels if "window" in point.work.dims}
    if windows:
        layers = sum(point.count for point in ledger.kernels if "window" in point.work.dims)
        layers //= len(ledger.workload.groups)
        sizes = ", ".join(f"{each:,}" for each in sorted(windows))
        yield f"Attention in {layers} of {ledger.model.layers} layers sees, and caches, the last {sizes} tokens"
    if ledger.fused:
        yield "Small kernels are folded into those beside them: their FLOPs stay, the residual stream is still moved"
    elif "norm" in ops:
        yield "Small kernels are a serving engine's: add with norm, activation with multiply, QK norm with RoPE"
    yield from _formats(ledger)
    if any(not rows.all_logits for rows in ledger.workload.groups):
        yield "Logits of the last position of each prefill sequence only"
    if any(rows.phase == "decode" and isinstance(rows.new, int) and rows.new > 1 for rows in ledger.workload.groups):
        yield "tokens/s count every new token of a sequence: of drafts, those that are accepted are fewer"


def _formats(ledger: Ledger) -> Iterator[str]:
    precision = ledger.precision
    weights = dtype(precision.weights)
    if weights.bits < 16 and precision.compute in ("bf16", "fp16", "tf32"):
        yield (
            f"{weights.name} weights shrink bytes, not arithmetic, which stays {precision.compute}; "
            "unpacking them is not charged"
        )
    for name in dict.fromkeys((precision.weights, precision.kv, precision.activations)):
        if dtype(name).note:
            yield f"{name}: {dtype(name).note}"


def _split(ledger: Ledger) -> Iterator[str]:
    ranks = ledger.shard.tp
    if ranks == 1:
        return
    yield (
        f"FLOPs, bytes, times and memory are of one of {ranks} ranks, tokens/s of all together; norms, activations "
        "and the residual stream are on every rank"
    )
    whole, mine = (cast(int, ledger.model.cache_bytes(1, ledger.precision, each)) for each in (Shard(), ledger.shard))
    if mine * ranks > whole:
        yield "KV heads are fewer than ranks: each is on several of them, with its cache"
    yield (
        "All-reduces are rings, 2(n-1)/n of the buffer a rank, not overlapped; a switch that reduces in the network "
        "can beat them"
    )
    wire = Topology(ledger.device, ranks).link()
    if wire.domain is None:
        yield f"How many devices {wire.name} joins is not in {ledger.device.id}'s file; all ranks are taken as on it"
    if any(point.work.op == "all-gather" for point in ledger.kernels):
        yield "The vocabulary is split, and padded where the ranks do not divide it; every rank gathers the logits"


def _time(ledger: Ledger) -> Iterator[str]:
    if ledger.efficiency is None:
        yield "Times are bounds: kernels one after another at datasheet peak or bandwidth, no launch or link latency"
    else:
        bandwidth, compute = (percent(share) for share in ledger.efficiency)
        yield (
            f"Derated times take {bandwidth} of the bandwidth and {compute} of every peak, as asked for; bounds, roofs "
            "and verdict are undiscounted; no launch or link latency"
        )
    yield "Bytes are ideal, each operand once"
    unknown = sorted({rate for point in ledger.kernels for rate in point.bound.unknown})
    if unknown:
        rates = ", ".join(unknown)
        yield f"The {rates} peak of {ledger.device.id} is unknown: small kernels are bounded by memory alone"
    yield from _cached(ledger)
    yield "Memory is weights, cache and the hungriest kernel's activations; a runtime keeps some more for itself"
    yield "Expected times are unknown: there is no calibration yet"


def _cached(ledger: Ledger) -> Iterator[str]:
    """What the largest cache may save: activations that the kernel before has just written."""
    size = ledger.device.cache
    moved = ledger.total.bytes
    if size is None or not isinstance(moved, (int, float)):
        return
    small = 0.0
    for point in ledger.kernels:
        operands = cast(float, point.work.cost.memory.get("activations", 0))
        small += point.count * operands if operands < size else 0.0
    if small:
        yield (
            f"{percent(small / moved)} of the bytes are activations that fit the {gib(size)} cache; where they are "
            "still there, a kernel may beat its memory bound"
        )
