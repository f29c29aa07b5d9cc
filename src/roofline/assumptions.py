"""What a ledger takes for granted, in sentences: part of every answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from roofline.device import Topology
from roofline.dtypes import dtype
from roofline.units import gib, percent

if TYPE_CHECKING:
    from roofline.ledger import Ledger


def assumptions(ledger: Ledger) -> tuple[str, ...]:
    """Every assumption behind the numbers of a ledger."""
    return (
        *ledger.device.assumptions,
        *ledger.model.assumptions,
        *_time(ledger),
        *_counting(ledger),
        *_length(ledger),
        *_split(ledger),
    )


def _time(ledger: Ledger) -> Iterator[str]:
    if ledger.efficiency is None:
        yield "Times are bounds: kernels one after another, each at the datasheet's peak or bandwidth"
    else:
        bandwidth, compute = (percent(share) for share in ledger.efficiency)
        yield (
            f"Derated times take {bandwidth} of the bandwidth and {compute} of every peak, as asked for; "
            "bounds and verdict are undiscounted"
        )
    yield "Expected times are unknown: there is no calibration yet"
    unknown = sorted({rate for point in ledger.kernels for rate in point.bound.unknown})
    if unknown:
        rates = ", ".join(unknown)
        yield f"The {rates} peak of {ledger.device.id} is unknown: small kernels are bounded by memory alone"
    if ledger.device.l2 is not None:
        small = sum(_scalar(p.work.bytes) and cast(float, p.work.bytes) < ledger.device.l2 for p in ledger.kernels)
        if small:
            yield (
                f"{small} of the {len(ledger.kernels)} kernels move less in a call than the {gib(ledger.device.l2)} L2 "
                "holds; one whose operands are still there may beat its memory bound"
            )


def _scalar(value: object) -> bool:
    return isinstance(value, (int, float))


def _counting(ledger: Ledger) -> Iterator[str]:
    ops = {point.work.op for point in ledger.kernels}
    yield "Bytes are ideal, each operand once"
    if "attention" in ops:
        yield "Attention is tiled and reads K and V once; its softmax is not counted"
    if ledger.fused:
        yield "Small kernels are folded into those beside them: their FLOPs stay, the residual stream is still moved"
    elif "norm" in ops:
        yield "Small kernels are a serving engine's: add with norm, activation with multiply, QK norm with RoPE"
    yield from _formats(ledger)
    if any(not rows.all_logits for rows in ledger.workload.groups):
        yield "Logits of the last position of each prefill sequence only"


def _formats(ledger: Ledger) -> Iterator[str]:
    precision = ledger.precision
    weights = dtype(precision.weights)
    if weights.bits < 16 and precision.compute in ("bf16", "fp16", "tf32"):
        yield (
            f"{weights.name} weights shrink bytes, not arithmetic, which stays {precision.compute}; "
            "unpacking them is not charged"
        )
    if weights.note:
        yield f"{weights.name}: {weights.note}"


def _length(ledger: Ledger) -> Iterator[str]:
    most = ledger.model.max_positions
    for rows in ledger.workload.groups:
        reached = rows.context + rows.new if rows.phase == "prefill" else rows.context
        if most is not None and isinstance(reached, int) and reached > most:
            yield f"{reached:,} positions are past the {most:,} that the model's config names"
            break


def _split(ledger: Ledger) -> Iterator[str]:
    if ledger.shard.tp == 1:
        return
    yield f"Figures are of one of {ledger.shard.tp} ranks; norms, activations and the residual stream are on every rank"
    yield (
        "All-reduces are rings, 2(n-1)/n of the buffer a rank, not overlapped; a switch that reduces in the network "
        "(NVLink SHARP) can beat them"
    )
    wire = Topology(ledger.device, ledger.shard.tp).link()
    if wire.domain is None:
        yield f"How many devices {wire.name} joins is not in {ledger.device.id}'s file; all ranks are taken as on it"
    if any(point.work.op == "all-gather" for point in ledger.kernels):
        yield "The vocabulary is split, and padded where the ranks do not divide it"
