"""Rules on matrix products and convolutions: alignment, tensor cores, waves, layouts, attention in pieces."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

from roofline.bound import bound
from roofline.diagnosis.costing import HELPER
from roofline.diagnosis.costs.call import read
from roofline.diagnosis.costs.rates import on_vector_units
from roofline.diagnosis.findings import Finding, counted
from roofline.diagnosis.numbers import real, whole
from roofline.diagnosis.result import Placed
from roofline.diagnosis.rules.scene import Scene, rule
from roofline.ops import attention
from roofline.trace.classify import CATEGORIES
from roofline.trace.events import KERNEL, NONE, listed
from roofline.units import NS_PER_S, percent, si

_NEAR = 0.8  # share of its bound from which on a kernel has nothing to gain here
_MULTIPLES = {"bf16": 8, "fp16": 8, "fp8": 16, "int8": 16, "tf32": 4}  # elements of 16 bytes
_LARGE = 2  # lengths below it are vectors, which no multiple helps


def _together(rows: Sequence[Placed]) -> str:
    took = sum(each.time for each in rows) / NS_PER_S
    least = sum(each.bound_seconds or 0.0 for each in rows)
    return f"{counted(sum(each.calls for each in rows), 'call')} took {si(took, 's', 3)}; bound {si(least, 's', 3)}"


def _examples(rows: Sequence[Placed], count: int = 3) -> list[str]:
    return [
        f"{each.operator} {each.shapes}: {counted(each.calls, 'call')}, {si(each.time / NS_PER_S, 's', 3)}, "
        f"{percent((each.bound_seconds or 0.0) * NS_PER_S / each.time)} of its bound"
        for each in sorted(rows, key=lambda each: -each.excess)[:count]
    ]


def _below(scene: Scene, *ops: str) -> list[Placed]:
    """Costed rows of these operations that have something to gain."""
    return [
        each
        for each in scene.found.placed
        if each.work.op in ops and each.bound_seconds is not None and each.bound_seconds * NS_PER_S < _NEAR * each.time
    ]


def _rate(each: Placed) -> str:
    return max(each.work.cost.flops, key=lambda name: real(each.work.cost.flops[name]), default="")


@rule("unaligned")
def unaligned(scene: Scene) -> Iterator[Finding]:
    """Lengths of products that are no multiple of what tensor cores load at once."""
    rows = [each for each in _below(scene, "linear") if _odd(each) and not _in_attention(scene, each)]
    if rows:
        yield Finding(
            "unaligned",
            "Matrix products with lengths that tensor cores do not take at once",
            sum(each.excess for each in rows),
            (_together(rows), *_examples(rows)),
            "pad these lengths to a multiple of 8 (of 16 for 8-bit formats, of 64 where it costs little), as a "
            "vocabulary or a batch.",
        )


def _in_attention(scene: Scene, product: Placed) -> bool:
    """Whether a batched product makes or takes the scores of a softmax: one kernel does both (see below)."""
    return "batch" in product.work.dims and any(
        test(product, whole(each.work.dims["m"]), whole(each.work.dims["width"]))
        for each in scene.found.placed
        if each.work.op == "softmax" and "width" in each.work.dims
        for test in (_makes, _takes)
    )


def _odd(each: Placed) -> bool:
    multiple = _MULTIPLES.get(_rate(each))
    sizes = [whole(each.work.dims[name]) for name in ("n", "k") if name in each.work.dims]
    return multiple is not None and min(sizes, default=0) >= _LARGE and any(size % multiple for size in sizes)


@rule("no-tensor-cores")
def no_tensor_cores(scene: Scene) -> Iterator[Finding]:
    """Products in FP32 on the vector units of a device that has TF32."""
    device = scene.found.supply
    if device is None or "tf32" not in device.peak:
        return
    rows = [
        each
        for each in scene.found.placed
        if each.work.op in ("linear", "conv") and _rate(each) == "fp32-vector" and on_vector_units(each.name)
    ]
    gains = {id(each): _gain(each, device.peak["tf32"]) for each in rows}
    rows = [each for each in rows if gains[id(each)] > 0]
    if rows:
        yield Finding(
            "no-tensor-cores",
            "Products in FP32 on the vector units",
            sum(gains.values()),
            (
                f"{_together(rows)} at {si(device.peak['fp32-vector'], 'FLOP/s')}, where TF32 has "
                f"{si(device.peak['tf32'], 'FLOP/s')}",
                *_examples(rows),
            ),
            "torch.set_float32_matmul_precision('high'), or autocast to BF16, where the numerics allow it.",
        )


def _gain(each: Placed, tf32: float) -> float:
    """Seconds beyond the bound that these calls would have at TF32; 0 where memory holds them up anyway."""
    if each.bound is None or each.bound.by != "compute":
        return 0.0
    least = max(real(each.work.flops) / tf32, real(each.bound.memory))
    return max(each.time / NS_PER_S - each.parts * least, 0.0)


@rule("waves")
def waves(scene: Scene) -> Iterator[Finding]:
    """Products whose blocks leave multiprocessors idle: fewer than there are, or a last wave that is nearly empty."""
    card = scene.found.card
    units = card.multiprocessors if card is not None else None
    device = scene.found.supply
    if not units or device is None or device.vendor == "AMD":  # whose grids are in other units, by the call
        return
    lost, calls, example = 0.0, 0, ("", 0.0)
    blocks = _blocks(scene)
    heavy = {CATEGORIES.index("gemm"), CATEGORIES.index("convolution")}
    kinds, details = listed(scene.kinds), listed(scene.trace.gpu.detail[scene.rows])
    costed, duration = listed(scene.costs.which), listed(scene.trace.gpu.duration[scene.rows])
    for at, (kind, detail, piece) in enumerate(zip(kinds, details, costed, strict=True)):
        count = blocks.get(detail, 0)
        if kind not in heavy or piece == NONE or not count:
            continue
        rounds = count / units
        if rounds > _ROUNDS or rounds / math.ceil(rounds) > _FULL or count % units == 0:
            continue
        least = scene.costs.pieces[piece].bound
        spare = duration[at] / NS_PER_S - (0.0 if least is None else real(least.seconds) * scene.costs.part(at))
        share = min(1 - rounds / math.ceil(rounds), 1.0) * duration[at] / NS_PER_S
        gain = max(min(spare, share), 0.0)
        lost, calls = lost + gain, calls + 1
        if gain > example[1]:
            example = (f"{count:,} blocks on {units} multiprocessors, {scene.costs.pieces[piece].shapes}", gain)
    if calls:
        yield Finding(
            "waves",
            "Products with fewer blocks than fill the device",
            lost,
            (f"{counted(calls, 'call')} left multiprocessors without a block", f"most: {example[0]}"),
            "larger batches or sequences, or shapes whose tiles are a multiple of the multiprocessors; split-K "
            "kernels where k is long.",
        )


_MOST_BLOCKS = 1 << 31  # along one side of a grid
_ROUNDS, _FULL = 4, 0.75  # waves from which on the last one matters little; how full it is at the least


def _blocks(scene: Scene) -> dict[int, int]:
    """Blocks of each grid that the file has, by the number of its detail."""
    found: dict[int, int] = {}
    for at in {each for each in listed(scene.trace.gpu.detail[scene.rows]) if each != NONE}:
        grid = read("", scene.trace.details[at]).more.get("grid")
        sizes = cast("list[Any]", grid) if isinstance(grid, list) else []
        found[at] = math.prod(sizes) if all(isinstance(n, int) and 0 < n < _MOST_BLOCKS for n in sizes) else 0
    return found


@rule("layout")
def layout(scene: Scene) -> Iterator[Finding]:
    """Kernels that change the layout for a convolution."""
    import numpy as np

    gpu, owners = scene.trace.gpu, scene.costs.owner
    lost, calls, within = 0, 0, 0
    names: dict[str, int] = {}
    helpers = (scene.costs.why == HELPER) | (scene.kinds == CATEGORIES.index("convolution"))
    for at in listed(np.flatnonzero(helpers & (gpu.kind[scene.rows] == KERNEL))):
        row = int(scene.rows[at])
        name = scene.trace.names[int(gpu.name[row])]
        operator = scene.costs.operator(int(owners[at])) if owners[at] != NONE else ""
        if _CUDNN.match(name) or ("conv" in operator and any(word in name.lower() for word in _LAYOUT)):
            lost, calls = lost + int(gpu.duration[row]), calls + 1
            names[name] = names.get(name, 0) + int(gpu.duration[row])
    if calls:
        convolution = scene.rows[scene.kinds == CATEGORIES.index("convolution")]
        within = int(gpu.duration[convolution].sum()) - lost
        most = max(names, key=lambda each: names[each])
        yield Finding(
            "layout",
            "Layouts changed around convolutions",
            lost / NS_PER_S,
            (
                f"{counted(calls, 'kernel')} took {si(lost / NS_PER_S, 's', 3)} "
                f"beside {si(within / NS_PER_S, 's', 3)} of convolution",
                f"most: {most[:100]}",
            ),
            "channels_last memory format for model and input (model.to(memory_format=torch.channels_last)).",
        )


# Told by the name alone.
_CUDNN = re.compile(r"(?:void )?(?:cudnn::\w+::)?(?:nchw|nhwc)to(?:nhwc|nchw)kernel", re.IGNORECASE)
_LAYOUT = ("nchwto", "nhwcto", "tonchw", "tonhwc", "transpose")


@rule("attention-in-pieces")
def attention_in_pieces(scene: Scene) -> Iterator[Finding]:
    """Scores written to memory: a batched product, a softmax over its result, and a product with that."""
    device = scene.found.supply
    batched = [each for each in scene.found.placed if each.work.op == "linear" and "batch" in each.work.dims]
    softmaxes = [each for each in scene.found.placed if each.work.op == "softmax" and "width" in each.work.dims]
    took, least, calls = 0.0, 0.0, 0
    shapes: Counter[str] = Counter()
    for soft in softmaxes:
        rows, width = whole(soft.work.dims["m"]), whole(soft.work.dims["width"])
        scores = [each for each in batched if _makes(each, rows, width)]
        values = [each for each in batched if _takes(each, rows, width)]
        if not scores or not values or device is None:
            continue
        dims = scores[0].work.dims
        batch, new, dim = whole(dims["batch"]), whole(dims["m"]), whole(dims["k"])
        if width < new:
            continue
        rate = _rate(scores[0])
        work = attention(
            sequences=1, new=new, context=width if new == 1 else width - new, heads=batch, kv_heads=batch,
            head_dim=dim, compute=rate, causal=False, role="activations",
        )  # fmt: skip
        share = soft.calls / max(sum(each.calls for each in softmaxes if each.work.dims == soft.work.dims), 1)
        took += sum(each.time for each in (soft, *scores, *values)) / NS_PER_S * share
        least += soft.calls * real(bound(work.cost, device).seconds)
        calls += soft.calls
        shapes[f"{batch:,} heads of {new:,} x {width:,} scores"] += soft.calls
    if calls and took > least:
        yield Finding(
            "attention-in-pieces",
            "Attention whose scores go through memory",
            took - least,
            (
                f"{counted(calls, 'time')} product, softmax, product took {si(took, 's', 3)}; "
                f"one tiled kernel has a bound of {si(least, 's', 3)}",
                *(f"{counted(n, 'time')} {what}" for what, n in shapes.most_common(3)),
            ),
            "scaled_dot_product_attention with a tiled back end (flash, memory-efficient, cuDNN): look at what its "
            "mask or format rules out.",
        )


def _makes(each: Placed, rows: int, width: int) -> bool:
    """Whether a batched product writes the scores of that softmax."""
    dims = each.work.dims
    return whole(dims["batch"]) * whole(dims["m"]) == rows and whole(dims["n"]) == width


def _takes(each: Placed, rows: int, width: int) -> bool:
    dims = each.work.dims
    return whole(dims["batch"]) * whole(dims["m"]) == rows and whole(dims["k"]) == width
