"""What one rank sends in a step beside its kernels: gradients, shards, pipeline, context; on which link.

Ranks are numbered tensor first, then context, data, pipeline: a group spans its stride times its size, and is on the
scale-up link where that span fits on one. Bytes are those of rings; the all-reduces of tensor parallelism are rows
of the step itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from roofline import collectives
from roofline.bound import bound
from roofline.cost import Cost, Work
from roofline.dtypes import dtype
from roofline.model import Model
from roofline.num import Num, exact_div, maximum, where
from roofline.parts.base import Part, Pass, Weight
from roofline.shard import Shard
from roofline.training.plan import FAR, NEAR, Cluster, Plan
from roofline.training.recipe import Recipe
from roofline.training.stages import Stages
from roofline.training.step import adapted
from roofline.workload import Precision, Workload


@dataclass(frozen=True, slots=True)
class Flow:
    """One kind of traffic of a step: its work, the ranks it joins, and how often a step has it.

    `overlaps` says whether independent work stands beside it; `seconds` of all calls, None where the bandwidth of
    its link is not known.
    """

    kind: str
    what: str
    work: Work
    ranks: Num
    calls: Num
    overlaps: bool
    seconds: Num | None

    @property
    def sent(self) -> Num:
        """Bytes that one rank sends in a step [byte]."""
        return self.calls * self.work.cost.link_bytes

    def on(self, link: str) -> Num:
        """Those of them on one link [byte]."""
        return self.calls * self.work.cost.links.get(link, 0)


_PLAIN = Precision("bf16")


def elements(weight: Weight, shard: Shard) -> int:
    """Parameters of a weight that one rank of `shard` holds: its bytes in a format of two bytes each, halved."""
    return cast(int, weight.bytes(_PLAIN, shard)) // 2


@dataclass(frozen=True, slots=True)
class Held:
    """Parameters of a model on the tensor ranks' shard, by where they stand; `experts` are those of the layers."""

    before: int
    layers: int
    after: int
    experts: Num = 0

    def dense(self, stages: Stages) -> Num:
        """Those of the fullest pipeline stage that every data-parallel rank holds."""
        return stages.fullest(self.layers - self.experts, self.before, self.after)

    def routed(self, stages: Stages, ep: Num) -> Num:
        """Those of the largest stage's experts that one expert-parallel rank holds."""
        return exact_div(stages.largest(self.experts), ep)


def held(model: Model, shard: Shard, recipe: Recipe | None = None) -> Held:
    """Parameters that one tensor rank holds; with a recipe those of them that are trained."""

    def count(parts: Iterable[Part], times: int, rank: int) -> int:
        total = 0
        for part in parts:
            own = recipe is None or not recipe.freezes(part.label)
            total += sum(elements(weight, shard) for weight in part.weights()) if own else 0
            for weight in adapted(part) if rank else ():
                assert weight.inp is not None
                total += rank * (shard.elements(weight.out) + shard.elements(weight.inp))
        return times * total

    adapters = 0 if recipe is None else recipe.lora
    layers = sum(count(block.parts, len(block.layers), adapters) for block in model.blocks)
    experts: Num = 0
    if recipe is None or not any(recipe.freezes(label) for label in _experts(model, shard)):
        experts = exact_div(model.parameters().experts, shard.tp)
    return Held(count(model.before, 1, 0), layers, count(model.after, 1, 0), experts)


def _experts(model: Model, shard: Shard) -> set[str]:
    """Labels of parts with routed experts."""
    run = Pass(Workload.prefill(1, 1), _PLAIN, shard)
    parts = (part for block in model.blocks for part in block.parts)
    return {part.label for part in parts if any(kernel.work.op == "moe" for kernel in part.kernels(run))}


def flows(model: Model, plan: Plan, cluster: Cluster, recipe: Recipe, length: int) -> list[Flow]:
    """Everything that one rank of the fullest stage sends in a step, beside tensor parallelism."""
    trained, stored = held(model, plan.shard, recipe), held(model, plan.shard)
    stages = plan.stages(model.layers)
    found: list[Flow] = []
    sets = [("", trained.dense(stages), stored.dense(stages))]
    if not (stored.experts.__class__ is int and stored.experts == 0):
        sets.append((" of experts", trained.routed(stages, plan.ep), stored.routed(stages, plan.ep)))
    for name, updated, whole in sets:
        found += _data(plan, cluster, recipe, name, updated, whole)
    found += _pipeline(model, plan, cluster, recipe, length)
    found += _context(model, plan, cluster, recipe, length)
    found += _dispatch(model, plan, cluster, recipe, length)
    return [each for each in found if not (each.sent.__class__ is int and each.sent == 0)]


def _data(plan: Plan, cluster: Cluster, recipe: Recipe, name: str, trained: Num, stored: Num) -> list[Flow]:
    """Gradients and shards of data parallelism, of dense parameters or of those of experts.

    DDP: one all-reduce a step (no_sync before). ZeRO-1: reduce-scatter of gradients and all-gather of updated
    weights, once. ZeRO-2: the reduce-scatter every micro-batch, as no rank keeps whole gradients. ZeRO-3: also
    two all-gathers of the weights a micro-batch, forward and backward: 1.5 times DDP. HSDP: within a group, and an
    all-reduce of the group's shard between groups. Source: Rajbhandari et al. 2020 (ZeRO), section 7; Zhao et al.
    2023 (FSDP).
    """
    held_by = plan.ep if name else 1  # ranks of experts lie inside the data-parallel ones
    replicas, group = exact_div(plan.replicas, held_by), maximum(exact_div(plan.group, held_by), 1)
    stage, times = plan.zero, plan.accumulate
    bits = dtype(recipe.precision.weights).bits
    gradients = exact_div(trained * dtype(recipe.gradients).bits, 8)
    weights, updated = exact_div(stored * bits, 8), exact_div(trained * bits, 8)
    inside = cluster.inside(plan.tp * held_by * group)
    everywhere = cluster.inside(plan.tp * held_by * replicas)
    sharded, plain = where(stage > 0, 1, 0), where(stage > 0, 0, 1)
    reduced = where(stage > 1, times, sharded)
    gathered, once = where(stage > 2, 2 * times, 0), where(stage > 2, 0, sharded)
    between = where(stage > 0, exact_div(gradients, group), 0)
    groups = exact_div(replicas, group)
    return [
        _flow(cluster, "dp", f"all-reduce of gradients{name}", _reduce(gradients, replicas), everywhere, plain),
        _flow(cluster, "zero", f"reduce-scatter of gradients{name}", _scatter(gradients, group), inside, reduced),
        _flow(cluster, "zero", f"all-gather of updates{name}", _gather(updated, group), inside, once),
        _flow(cluster, "zero", f"all-gather of weights{name}", _gather(weights, group), inside, gathered),
        _flow(cluster, "hsdp", f"all-reduce between groups{name}", _reduce(between, groups), everywhere, 1),
    ]


def _reduce(size: Num, ranks: Num) -> tuple[Work, Num]:
    return collectives.all_reduce(size, ranks), ranks


def _scatter(size: Num, ranks: Num) -> tuple[Work, Num]:
    return collectives.reduce_scatter(size, ranks), ranks


def _gather(size: Num, ranks: Num) -> tuple[Work, Num]:
    return collectives.all_gather(size, ranks), ranks


def _dispatch(model: Model, plan: Plan, cluster: Cluster, recipe: Recipe, length: int) -> list[Flow]:
    """Tokens to the ranks of their experts and back, forward and backward: four all-to-alls a layer and micro-batch.

    Of an even choice each rank keeps 1/ep. With sequence parallelism each tensor rank has 1/tp of the tokens, and sends
    those alone; without it each has all of them. Source: Lepikhin et al. 2021 (GShard), section 3.
    """
    run = Pass(Workload.prefill(plan.micro_batch, length, 0, "all"), recipe.precision, plan.shard)
    size: Num = 0
    for block in model.blocks:
        for part in block.parts:
            grouped = [kernel.work.dims for kernel in part.kernels(run) if kernel.work.op == "moe"]
            if grouped:
                first, last = grouped[0], grouped[-1]
                there = first["tokens"] * first["top_k"] * first["k"]
                back = last["tokens"] * last["top_k"] * last["n"]
                size = size + len(block.layers) * (there + back)
    split = plan.tp if plan.sequence_parallel else 1
    own = plan.stages(model.layers).largest(dtype(recipe.precision.activations).of(size))
    moved = exact_div(own, plan.cp * split)
    work = collectives.all_to_all(moved, plan.ep)
    times = plan.accumulate * (2 + recipe.recompute.layers)
    inside = cluster.inside(plan.tp * plan.ep)
    return [_flow(cluster, "ep", "tokens to their experts and back", (work, plan.ep), inside, times)]


def _flow(cluster: Cluster, kind: str, what: str, of: tuple[Work, Num], inside: Num, calls: Num) -> Flow:
    """The flow on the link that its group is on, and its time."""
    work, ranks = of
    sent = work.cost.link_bytes
    near, far = sent * inside, sent * (1 - inside)
    links = {NEAR: near, FAR: far}
    placed = Work(work.op, work.dims, Cost({}, {}, links, work.cost.steps))
    return Flow(kind, what, placed, ranks, calls, True, _seconds(placed.cost, cluster, calls))


def _seconds(cost: Cost, cluster: Cluster, calls: Num) -> Num | None:
    """Seconds of all calls; None where bytes go over a link whose bandwidth is not known."""
    known = {each.name for each in cluster.wired.links}
    sent = {name: each for name, each in cost.links.items() if not _nothing(each * calls)}
    if set(sent) - known:
        return None
    return calls * bound(Cost({}, {}, sent, 0, 0), cluster.wired).seconds


def _nothing(sent: Num) -> bool:
    return not (sent > 0) if isinstance(sent, (int, float)) else not (sent > 0).any()  # pyright: ignore


def _pipeline(model: Model, plan: Plan, cluster: Cluster, recipe: Recipe, length: int) -> list[Flow]:
    """Activations to the next stage and their gradients to the one before, every micro-batch and chunk."""
    width = _width(model)
    tokens = exact_div(plan.micro_batch * length, plan.cp)
    size = exact_div(tokens * width * dtype(recipe.precision.activations).bits, 8)
    split = plan.tp if plan.sequence_parallel else 1
    times = where(plan.pp > 1, 2 * plan.accumulate * plan.chunks, 0)
    work = collectives.send(exact_div(size, split))
    return [_flow(cluster, "pp", "activations and their gradients", (work, plan.pp), cluster.inside(plan.ranks), times)]


def _width(model: Model) -> int:
    """The residual stream's width: that of the norms on it; 0 where there is none."""
    widths = [each.out.elements for _, part in model.repeats if part.label == "norm" for each in part.weights()]
    return max(widths, default=0)


def _context(model: Model, plan: Plan, cluster: Cluster, recipe: Recipe, length: int) -> list[Flow]:
    """K and V of the other ranks' tokens round a ring, forward; again backward, with their gradients.

    Source: Liu et al. 2023 (Ring Attention). All-gather of K and V sends as much.
    """
    cached = model.cache_bytes(length, recipe.precision, plan.shard) * plan.micro_batch
    whole = plan.stages(model.layers).largest(cached)
    times = plan.accumulate * (3 + recipe.recompute.layers + recipe.recompute.core)
    inside = cluster.inside(plan.tp * plan.cp)
    return [_flow(cluster, "cp", "K and V, and their gradients", _gather(whole, plan.cp), inside, times)]
