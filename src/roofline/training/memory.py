"""What one rank holds while it trains: parameters, gradients, optimizer, activations, logits.

Activations are what the backward pass needs again: the input of each norm and GEMM, q, K and V, both halves of a
gate. Of a plain decoder in 16 bits that is Korthikanti et al. 2022's 34sbh a layer with dropout masks, 32sbh without,
and 5as²b more where attention scores are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roofline.dtypes import dtype
from roofline.model import Model
from roofline.num import Cond, Num, exact_div, maximum, minimum, where
from roofline.parts.base import Kernel, Pass
from roofline.training.flows import Held, held
from roofline.training.plan import Plan
from roofline.training.recipe import Recipe
from roofline.training.step import micro_batch
from roofline.workload import Workload


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of one rank [byte].

    `activation_bytes` of every micro-batch in flight, `logit_bytes` of one; `reserve` is the share of the capacity
    that is assumed lost to fragmentation and libraries. `fits` is None where the capacity is unknown.
    """

    weight_bytes: Num
    gradient_bytes: Num
    optimizer_bytes: Num
    activation_bytes: Num
    logit_bytes: Num
    capacity_bytes: int | None
    reserve: float = 0.0
    largest_micro_batch: Num | None = None

    @property
    def total_bytes(self) -> Num:
        """All of it together [byte]."""
        return self.static_bytes + self.activation_bytes + self.logit_bytes

    @property
    def static_bytes(self) -> Num:
        """What does not grow with the micro-batch [byte]."""
        return self.weight_bytes + self.gradient_bytes + self.optimizer_bytes

    @property
    def available_bytes(self) -> float | None:
        """The capacity without its reserve [byte]."""
        return None if self.capacity_bytes is None else self.capacity_bytes * (1 - self.reserve)

    @property
    def fits(self) -> Num | None:
        """1 where the total is within what is available, else 0."""
        return None if self.available_bytes is None else where(self.total_bytes <= self.available_bytes, 1, 0)


def footprint(
    model: Model,
    plan: Plan,
    recipe: Recipe,
    length: int,
    capacity: int | None,
    *,
    reserve: float = 0.0,
    dropout: bool = False,
) -> Footprint:
    """The memory of one rank of the fullest pipeline stage."""
    static = _static(model, plan, recipe)
    activations, logits = _dynamic(model, plan, recipe, length, dropout)
    most = None
    if capacity is not None:
        room = maximum(capacity * (1 - reserve) - (static[0] + static[1] + static[2]), 0)
        most = room // maximum(activations + logits, 1)
    size = plan.micro_batch
    return Footprint(*static, activations * size, logits * size, capacity, reserve, most)


def _dynamic(model: Model, plan: Plan, recipe: Recipe, length: int, dropout: bool) -> tuple[Num, Num]:
    """Activations and logits of one sequence a micro-batch, on the first or the last stage: the fuller one [byte].

    The first has most micro-batches in flight, the last one of them, and its logits.
    """
    stage, again = _activations(model, plan, recipe, length, dropout)
    logits = _logits(model, plan, length)
    first, last = stage * _in_flight(plan) + again, stage + again
    alone = where(plan.pp > 1, 0, 1)
    fuller = where(first * (1 - alone) >= last + logits, 1, 0)
    return fuller * first + (1 - fuller) * where(alone > 0, first, last), (1 - fuller) * logits


def _static(model: Model, plan: Plan, recipe: Recipe) -> tuple[Num, Num, Num]:
    """Weights, gradients and optimizer states [byte]; each stage of ZeRO splits one more of them over its group.

    Source: Rajbhandari et al. 2020 (ZeRO), section 5: 2 + 2 + 12 bytes a parameter in mixed precision with Adam.
    """
    stored, trained = held(model, plan.shard), held(model, plan.shard, recipe)
    stages = plan.stages(model.layers)
    bits, stage = dtype(recipe.precision.weights).bits, plan.zero

    def spread(of: Held, split: Cond, each: Num) -> Num:
        """Bytes of dense parameters over the group, and of experts over what of it holds the same ones."""
        dense = exact_div(of.dense(stages) * each, where(split, plan.group, 1))
        copies = maximum(exact_div(plan.group, plan.ep), 1)
        return dense + exact_div(of.routed(stages, plan.ep) * each, where(split, copies, 1))

    weights = exact_div(spread(stored, stage > 2, bits), 8)
    gradients = exact_div(spread(trained, stage > 1, dtype(recipe.gradients).bits), 8)
    return weights, gradients, spread(trained, stage > 0, recipe.state_bytes)


def _in_flight(plan: Plan) -> Num:
    """Micro-batches whose activations the first stage holds, in units of one stage's layers.

    1F1B: as many as stages, or as there are; interleaved chunks 1 + (p-1)/(p·chunks) times that. Source: Korthikanti
    et al. 2022, section 4.2.3; zero-bubble (ZB-H2) twice as many (Qi et al. 2023).
    """
    more = where(plan.chunks > 1, 1 + exact_div(plan.pp - 1, plan.pp * plan.chunks), 1)
    deep = 2 * plan.pp - 1 if plan.schedule == "zero-bubble" else plan.pp
    return minimum(deep, plan.accumulate) * more


def _activations(model: Model, plan: Plan, recipe: Recipe, length: int, dropout: bool) -> tuple[Num, Num]:
    """Activations of a stage's layers for one sequence, and what one layer needs while it runs again [byte].

    With a share of the layers recomputed, of those only the input is kept.
    """
    layers, largest = _saved(model, plan, recipe, length, dropout)
    again = recipe.recompute.layers
    inputs = model.layers * _stream(model, plan, recipe, length)
    kept = plan.stages(model.layers).largest(layers * (1 - again) + inputs * again)
    return kept, 0 if _zero(again) else largest


def _zero(n: Num) -> bool:
    return n.__class__ is int and n == 0


def _stream(model: Model, plan: Plan, recipe: Recipe, length: int) -> Num:
    """The residual stream of one sequence on one rank [byte]."""
    widths = [each.out.elements for _, part in model.repeats if part.label == "norm" for each in part.weights()]
    tokens = exact_div(length, plan.cp)
    size = dtype(recipe.precision.activations).matrix(tokens, max(widths, default=0))
    return exact_div(size, plan.tp) if plan.sequence_parallel else size


def _saved(model: Model, plan: Plan, recipe: Recipe, length: int, dropout: bool) -> tuple[Num, Num]:
    """Saved bytes of all layers for one sequence, and of the layer that saves most [byte]."""
    run = Pass(micro_batch(1, length, recipe), recipe.precision, plan.shard)
    total: Num = 0
    largest: Num = 0
    for block in model.blocks:
        layer: Num = 0
        for part in block.parts:
            layer = layer + _of_part(list(part.kernels(run)), plan, recipe, dropout)
        layer = exact_div(layer, plan.cp)
        total = total + len(block.layers) * layer
        largest = maximum(largest, layer)
    return total, largest


def _of_part(kernels: list[Kernel], plan: Plan, recipe: Recipe, dropout: bool) -> Num:
    """Saved bytes of one part: inputs of its GEMMs (once where they share it), norms, gates, attention."""
    a = dtype(recipe.precision.activations)
    split = plan.tp if plan.sequence_parallel else 1
    total: Num = 0
    fed: list[tuple[Num, Num]] = []
    last: Mapping[str, Num] | None = None
    for kernel in kernels:
        op, dims = kernel.work.op, kernel.work.dims
        if op in ("linear", "moe"):
            last = dims if op == "linear" else last
            rows = dims["m"] if op == "linear" else dims["tokens"] * dims["top_k"]
            if not fed or not _same(fed[-1], (rows, dims["k"])):
                # The part's own input is the stream's, and split with it; what is inside the part is split already.
                total = total + exact_div(a.matrix(rows, dims["k"]), 1 if fed else split)
            fed.append((rows, dims["k"]))
        elif op == "norm":
            total = total + exact_div(a.matrix(dims["m"], dims["width"]), split)
        elif op == "activation":
            total = total + a.matrix((1 + dims["gates"]) * dims["m"], dims["width"])
            fed.append((0, 0))  # what follows has another input, of the same size or not
        elif op in _INSIDE and _INSIDE[op][0] in dims:
            total = total + _INSIDE[op][1](dims, recipe, dropout)
            fed.append((0, 0))
    if dropout and last is not None:  # one byte an element of what goes back to the stream
        total = total + exact_div(last["m"] * last["n"], split)
    return total


def _same(a: tuple[Num, Num], b: tuple[Num, Num]) -> bool:
    """Whether two inputs are the same tensor: as many rows and columns."""
    return all(x is y or (isinstance(x, (int, float)) and x == y) for x, y in zip(a, b, strict=True))


def _attention(dims: Mapping[str, Num], recipe: Recipe, dropout: bool) -> Num:
    """q, K and V; where scores are stored the softmax's output, and with dropout its mask and its own output."""
    a = dtype(recipe.precision.activations)
    sequences, new, heads = dims["sequences"], dims["new"], dims["heads"]
    saved = a.matrix(sequences * new * (heads + 2 * dims["kv_heads"]), dims["head_dim"])
    if recipe.flash or not _zero(recipe.recompute.core):
        return saved
    scores = sequences * heads * new * new
    return saved + (2 * a.of(scores) + scores if dropout else a.of(scores))


def _convolved(dims: Mapping[str, Num], recipe: Recipe, _: bool) -> Num:
    """The channels that are convolved."""
    return dtype(recipe.precision.activations).matrix(dims["sequences"] * dims["new"], dims["channels"])


def _scanned(dims: Mapping[str, Num], recipe: Recipe, _: bool) -> Num:
    """q, k and v of a scan, whose states are made again from them."""
    width = 2 * dims["groups"] * dims["key_dim"] + dims["heads"] * dims["value_dim"]
    return dtype(recipe.precision.activations).matrix(dims["sequences"] * dims["new"], width)


# What is between GEMMs, with inputs of its own: a dim that it has, and what it saves.
_INSIDE = {"attention": ("kv_heads", _attention), "short-conv": ("channels", _convolved), "scan": ("groups", _scanned)}


def _logits(model: Model, plan: Plan, length: int) -> Num:
    """FP32 logits of one sequence on the stage that has the head: Korthikanti et al. 2022, 4sbV/t [byte]."""
    run = Pass(Workload.prefill(1, length, 0, "all"), Recipe().precision, plan.shard)
    found = [kernel.work.dims for part in model.after for kernel in part.kernels(run) if kernel.name == "lm_head"]
    return exact_div(sum(4 * each["m"] * each["n"] for each in found), plan.cp)
