"""What a ledger takes for granted, in sentences: part of every answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from roofline.device import Topology
from roofline.dtypes import STORED, dtype
from roofline.num import Num
from roofline.ops import VECTOR
from roofline.shard import Shard
from roofline.units import gib, percent
from roofline.workload import CALL

if TYPE_CHECKING:
    from roofline.ledger import Ledger


def assumptions(ledger: Ledger) -> tuple[str, ...]:
    """Every assumption behind the numbers of a ledger: those of this answer first, those of all answers last."""
    return (*warnings(ledger), *_counting(ledger), *_split(ledger), *_time(ledger))


def warnings(ledger: Ledger) -> tuple[str, ...]:
    """What may make this answer another than the one that was meant: a stand-in, a guess, an impossible length."""
    return (*ledger.device.assumptions, *ledger.model.assumptions, *_length(ledger), *_multiplied(ledger))


def _multiplied(ledger: Ledger) -> Iterator[str]:
    """That engines multiply in the format of a checkpoint in FP8, where that would be faster."""
    precision, model = ledger.precision, ledger.model
    pairs = (*model.stored, *(pair for block in model.blocks for pair in block.stored))
    eight = precision.weights == STORED and any(form.name.startswith("fp8") for _, form in pairs)
    if not eight or precision.compute not in ("bf16", "fp16") or "fp8" not in ledger.device.peak:
        return
    products = (each.bound.by for each in ledger.kernels if precision.compute in each.work.cost.flops)
    if any("compute" in ([by] if isinstance(by, str) else list(by)) for by in products):
        yield (
            f"The checkpoint is in fp8 and arithmetic is taken in {precision.compute}: an engine that multiplies in "
            "fp8 beats this bound. Compute in fp8 to have its own"
        )


def _length(ledger: Ledger) -> Iterator[str]:
    most = ledger.model.max_positions
    for rows in ledger.workload.groups:
        reached = rows.context + rows.new if rows.phase == "prefill" else rows.context
        if most is not None and isinstance(reached, int) and reached > most:
            yield f"{reached:,} positions are past the {most:,} that the model's config names"
            break


def _called(ledger: Ledger) -> Iterator[str]:
    """How one call of a module is counted."""
    yield "Operators are those that PyTorch dispatches, a kernel each: a compiler that fuses them moves fewer bytes"
    yield "Views and allocations cost nothing; a parameter's first reading counts as weights, all else as activations"
    if any(point.work.op == "attention" for point in ledger.kernels):
        yield "Attention is tiled, its softmax is not counted; of a causal one the pairs that are seen, s(s+1)/2"


def _counting(ledger: Ledger) -> Iterator[str]:
    if ledger.workload.phase == CALL:
        yield from _called(ledger)
        return
    ops = {point.work.op for point in ledger.kernels}
    if "attention" in ops:
        appends = "" if ledger.model.unit else " and appends the new ones"
        yield f"Attention is tiled, reads K and V once{appends}; its softmax is not counted"
    yield from _sources(ledger)
    yield from _limits(ledger)
    yield from _latents(ledger)
    yield from _experts(ledger)
    if any(VECTOR in point.work.cost.flops for point in ledger.kernels if point.work.op in ("linear", "attention")):
        yield "Small kernels are folded into those beside them: their FLOPs stay, the residual stream is still moved"
    elif "norm" in ops:
        yield "Small kernels are a serving engine's: add with norm, activation with multiply, QK norm with RoPE"
    yield from _formats(ledger, ops)
    last = any(not rows.all_logits for rows in ledger.workload.groups) and not ledger.model.unit
    if last and any(p.part == "head" for p in ledger.kernels):
        yield (
            "Logits of the last position of each prefill sequence only; an engine that drops the other rows within "
            f"the last layer saves up to 1/{ledger.model.layers} of the layers' work"
        )
    if any(rows.phase == "decode" and isinstance(rows.new, int) and rows.new > 1 for rows in ledger.workload.groups):
        yield "tokens/s count every new token of a sequence: of drafts, those that are accepted are fewer"


def _sources(ledger: Ledger) -> Iterator[str]:
    """What an encoder reads, and when."""
    encoder = ledger.model.encoder
    if encoder is None:
        return
    length = f"{encoder.source:,}" if isinstance(encoder.source, int) else "so many"
    why = "as the encoder always gives" if encoder.fixed else "as asked for"
    if ledger.workload.source is None and not encoder.fixed:
        why = "as many as the decoder has (--source says another number)"
    yield (
        f"Each sequence has {length} positions of source, {why}; prefill rows go through the encoder and make K and V "
        "of the source once, decode rows read these"
    )
    if encoder.most is not None and isinstance(encoder.source, int) and encoder.source > encoder.most:
        yield f"{encoder.source:,} positions of source are past the {encoder.most:,} that the model's config names"


_SEES = {
    "window": "sees, and caches, the last {} tokens",
    "chunk": "sees its own chunk of {} tokens, and caches no more",
    "stride": "sees one cached entry for each {} tokens before them",
    "selected": (
        "reads the best {} of what an indexer scores; several new tokens are taken to share them where they can; the "
        "indexer's cache has the format of the KV cache"
    ),
}


def _limits(ledger: Ledger) -> Iterator[str]:
    """In how many layers a query sees less than everything."""
    for limit, sees in _SEES.items():
        points = [
            point for point in ledger.kernels if limit in point.work.dims and point.work.dims.get("value_dim") != 0
        ]
        if points:
            layers = sum(point.count for point in points) // len(ledger.workload.groups)
            sizes = ", ".join(f"{each:,}" for each in sorted({cast(int, point.work.dims[limit]) for point in points}))
            yield f"Attention in {layers} of {ledger.model.layers} layers {sees.format(sizes)}"


def _latents(ledger: Ledger) -> Iterator[str]:
    """Which way latent attention is run."""
    names = {point.name.removesuffix("_decode").removesuffix("_prefill") for point in ledger.kernels}
    if "q_absorb" in names:
        yield "Latent attention of decode rows, and of an indexer's selection, is absorbed: over the cached latents"
    if "kv_b_proj" in names:
        yield "Latent attention of prefill rows expands K and V of every position it reads, once a pass"


def _experts(ledger: Ledger) -> Iterator[str]:
    """How many experts the bound takes as read, and why."""
    routed = [point.work.dims for point in ledger.kernels if point.work.op == "moe"]
    if not routed:
        return
    spread = ledger.workload.spread
    how = "chosen evenly" if not spread.skew else f"chosen by a power law of exponent {spread.skew:g}"
    for dims in {(each["experts"], each["top_k"], _plain(each["touched"])): each for each in routed}.values():
        touched = _plain(dims["touched"])
        if touched is None:
            yield f"Experts read a layer follow the tokens, {how}; routing that touches fewer beats the bound"
            return
        tokens, experts, top_k = (cast(int, dims[key]) for key in ("tokens", "experts", "top_k"))
        said = "as asked for" if spread.touched is not None else f"{tokens:,} x {top_k} {how}"
        yield (
            f"{touched:,.1f} of {experts:,} experts are read a layer ({said}); routing that touches fewer beats the "
            f"bound, the floor takes {top_k:,}"
        )


def _plain(value: Num) -> float | None:
    return value if isinstance(value, (int, float)) else None


def _formats(ledger: Ledger, ops: set[str]) -> Iterator[str]:
    precision = ledger.precision
    weights = dtype(precision.weights)
    smaller = weights.bits < 16 or (weights.name == STORED and ledger.model.small)
    if smaller and precision.compute in ("bf16", "fp16", "tf32"):
        yield (
            f"{weights.name} weights shrink bytes, not arithmetic, which stays {precision.compute}; "
            "unpacking them is not charged"
        )
    if precision.compute not in ("bf16", precision.activations):
        which = "GEMMs and attention run" if "attention" in ops else "GEMMs run"
        yield f"{which} at the {precision.compute} rate; converting operands to it is not charged"
    used = [precision.weights, *([precision.kv] if "attention" in ops else []), precision.activations]
    for name in dict.fromkeys(used):
        if dtype(name).note:
            yield f"{name}: {dtype(name).note}"


def _split(ledger: Ledger) -> Iterator[str]:
    ranks = ledger.shard.tp
    if ranks == 1:
        return
    ops = {point.work.op for point in ledger.kernels}
    yield f"FLOPs, bytes, times and memory are of one of {ranks} ranks, tokens/s of all together"
    if "all-reduce" not in ops:
        yield "Without layers there is nothing to reduce: no collective is counted"
        return
    yield "Norms, activations and the residual stream are on every rank"
    whole, mine = (cast(int, ledger.model.cache_bytes(1, ledger.precision, each)) for each in (Shard(), ledger.shard))
    if mine * ranks > whole:
        yield "KV heads are fewer than ranks: each is on several of them, with its cache"
    yield (
        "All-reduces are rings, two a layer, 2(n-1)/n of the buffer a rank, not overlapped; a switch that reduces in "
        "the network can beat them"
    )
    wire = Topology(ledger.device, ranks).link()
    if wire.domain is None:
        yield f"How many devices {wire.name} joins is not in {ledger.device.id}'s file; all ranks are taken as on it"
    if "all-gather" in ops:
        yield "The vocabulary is split, and padded where the ranks do not divide it; every rank gathers the logits"


def _time(ledger: Ledger) -> Iterator[str]:
    if ledger.efficiency is None:
        yield (
            f"Times are bounds: kernels one after another at datasheet peak or bandwidth, {_latency(ledger)}; "
            "overlapping kernels can beat the sum, not the floor"
        )
    else:
        bandwidth, compute = (percent(share) for share in ledger.efficiency)
        yield (
            f"Derated times take {bandwidth} of the bandwidth and {compute} of every peak, as asked for; bounds, roofs "
            f"and verdict are undiscounted; links are whole, {_latency(ledger)}"
        )
    yield "Bytes are ideal, each operand once"
    unknown = sorted({rate for point in ledger.kernels for rate in point.bound.unknown})
    if unknown:
        rates = ", ".join(unknown)
        yield f"The {rates} peak of {ledger.device.id} is unknown: small kernels are bounded by memory alone"
    yield from _cached(ledger)
    if ledger.workload.phase == CALL:
        yield "Memory is parameters and the hungriest operator's tensors; what is kept for a gradient is not counted"
    else:
        yield "Memory is weights, cache and the hungriest kernel's activations; a runtime keeps some more for itself"
    yield "Expected times are unknown: there is no calibration yet"


def _latency(ledger: Ledger) -> str:
    """Which latencies the device's figures add."""
    device = ledger.device
    known = [*(["launch"] if device.launch else []), *(["link"] if any(each.latency for each in device.links) else [])]
    left = [each for each in ("launch", "link") if each not in known]
    parts = [
        *([f"with {' and '.join(known)} latency"] if known else []),
        *([f"no {' or '.join(left)} latency"] if left else []),
    ]
    return ", ".join(parts)


def _cached(ledger: Ledger) -> Iterator[str]:
    """What the largest cache may save: activations just written, or all of a small model."""
    size, moved = ledger.device.cache, ledger.total.bytes
    if not isinstance(moved, (int, float)):
        return
    if size is None:
        yield "The device's cache size is unknown: a kernel whose operands are still there may beat its memory bound"
        return
    small = 0.0
    for point in ledger.kernels:
        operands = cast(float, point.work.cost.memory.get("activations", 0))
        small += point.count * operands if operands < size else 0.0
    if small:
        share = percent(small / moved) if small >= moved / 100 else "Under 1 %"
        yield (
            f"{share} of the bytes are activations that fit the {gib(size)} cache; where they are still there, "
            "a kernel may beat its memory bound"
        )
    model, precision, shard = ledger.model, ledger.precision, ledger.shard
    held = sum(cast(int, model.resident_cache(rows, precision, shard)) for rows in ledger.workload.groups)
    held += cast(int, model.weight_bytes(precision, shard))
    if held < size:
        yield f"Weights and KV cache, {gib(held)}, fit that cache: from pass to pass every memory bound may be beaten"
