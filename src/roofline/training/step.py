"""A training step as a ledger: forward, recomputed, backward, and update rows of one rank.

Each row is the Work of one kernel and how often a micro-batch, or the step, calls it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from roofline import collectives, ops
from roofline.backward import backward, everything_seen, trained
from roofline.cost import Cost, Work
from roofline.model import Model
from roofline.num import Num, exact_div
from roofline.ops import VECTOR
from roofline.parts.base import Kernel, Part, Pass, Weight
from roofline.parts.ends import Bulk
from roofline.shard import Shard
from roofline.training.recipe import OPTIMIZERS, Recipe
from roofline.workload import Workload

FORWARD, RECOMPUTED, INPUTS, WEIGHTS, UPDATE = "forward", "recomputed", "dx", "dw", "update"
BEFORE, LAYERS, AFTER = "before", "layers", "after"


class Row(NamedTuple):
    """One kernel of a step: where it stands, what it is for, its work, and its calls a micro-batch.

    `where` is "before", "layers" or "after"; `stage` is forward, recomputed, dx, dw or update.
    """

    name: str
    part: str
    where: str
    stage: str
    work: Work
    calls: Num


class _Site(NamedTuple):
    """A part, how many layers have it, and in how many of them nothing before it is trained."""

    where: str
    part: Part
    times: int
    untrained: int


def micro_batch(sequences: Num, length: Num, recipe: Recipe) -> Workload:
    """The forward pass of one micro-batch: every token's logits, documents as sequences of their own."""
    if recipe.documents is None:
        return Workload.prefill(sequences, length, 0, "all")
    return Workload.prefill(exact_div(sequences * length, recipe.documents), recipe.documents, 0, "all")


def rows(model: Model, workload: Workload, recipe: Recipe, shard: Shard, cp: Num = 1, link: str = "link") -> list[Row]:
    """Forward, recomputed and backward rows of one micro-batch, all layers, on one rank of `shard`.

    `cp` ranks split each sequence: everything goes over 1/cp of the tokens, and the queries of attention too, so
    balanced that each rank has 1/cp of the pairs; its K and V are whole.
    """
    run = Pass(workload, recipe.precision, shard, link)
    found: list[Row] = []
    for site in _sites(model, recipe):
        kernels = [Kernel(each.name, each.part, _local(each.work, cp)) for each in site.part.kernels(run)]
        adapters = _adapters(site.part, run, recipe.lora, cp) if site.where == LAYERS and recipe.lora else []
        found += _of(site, kernels, recipe, beside=bool(adapters))
        for fed, each in adapters:
            found += _of(site if fed else site._replace(untrained=0), [each], recipe, own=True)
    return found


def _sites(model: Model, recipe: Recipe) -> Iterable[_Site]:
    """The parts in the order of a pass; `untrained` layers have nothing to train before them."""
    trained_before = False
    for part in model.before:
        # Weights without a shape stand for layers one after another: all but the first need their input's gradient.
        yield _Site(BEFORE, part, 1, 0 if trained_before or isinstance(part, Bulk) else 1)
        trained_before |= _trains(part, recipe)
    inside = {block: any(_trains(part, recipe, layers=True) for part in block.parts) for block in model.blocks}
    first = min((block.layers[0] for block in model.blocks if inside[block]), default=None)
    for block in model.blocks:
        begun = trained_before
        for part in block.parts:
            before = len(block.layers) if first is None else sum(layer < first for layer in block.layers)
            starts = 1 if first in block.layers and not begun else 0
            yield _Site(LAYERS, part, len(block.layers), 0 if trained_before else before + starts)
            begun |= _trains(part, recipe, layers=True)
    trained_before |= first is not None
    for part in model.after:
        yield _Site(AFTER, part, 1, 0 if trained_before else 1)
        trained_before |= _trains(part, recipe)


def _trains(part: Part, recipe: Recipe, layers: bool = False) -> bool:
    """Whether a part has weights that are trained: its own, or adapters on its matrices."""
    if layers and recipe.lora:
        return bool(adapted(part))
    return bool(part.weights()) and not recipe.freezes(part.label)


def _of(site: _Site, kernels: list[Kernel], recipe: Recipe, own: bool = False, beside: bool = False) -> Iterable[Row]:
    """The rows of one part's kernels; `own` are trained, whatever is frozen; `beside` them stand adapters."""
    frozen = not own and recipe.freezes(site.part.label)
    begun = False  # whether something to train has been passed within the part
    for name, part, plain in kernels:
        work = trained(plain) if recipe.causal else everything_seen(trained(plain))
        if site.where == AFTER and work.op == "all-gather":
            # The loss is taken over split logits: none are gathered, but the gradient of the head's input is summed.
            yield Row(f"{part}_all_reduce_dx", part, AFTER, INPUTS, _summed(kernels[0].work, work), 1)
            continue
        yield Row(name, part, site.where, FORWARD, work, site.times)
        if site.where == LAYERS:
            again = recipe.recompute.layers + (recipe.recompute.core if work.op == "attention" else 0)
            if not (again.__class__ is int and again == 0):
                yield Row(name, part, site.where, RECOMPUTED, work, site.times * again)
        for gradient in backward(work, recipe.formats, frozen):
            calls = site.times if gradient.of == WEIGHTS or begun else site.times - site.untrained
            if calls:
                yield Row(f"{name}_{gradient.of}", part, site.where, gradient.of, gradient.work, calls)
        begun |= (not frozen or beside) and work.op == "linear"


def _summed(head: Work, gathered: Work) -> Work:
    """The all-reduce of the gradient of a head's input, where its outputs are split."""
    n, k = head.dims["n"], head.dims["k"]
    (link,) = gathered.cost.links
    size = exact_div(gathered.dims["bytes"] * k, n * gathered.dims["ranks"])  # as wide as one logit, k a row
    return collectives.all_reduce(size, gathered.dims["ranks"], link=link)


def adapted(part: Part) -> list[Weight]:
    """The matrices of a part that adapters stand beside: each but those of routed experts, many of one shape."""
    found: list[Weight] = []
    for each in part.weights():
        if each.kind == "matrix" and each.inp is not None:
            one = each.out.elements * (each.inp.elements + each.bias)
            found += [each] if each.parameters == one else []
    return found


def _adapters(part: Part, run: Pass, rank: int, cp: Num) -> list[tuple[bool, Kernel]]:
    """The two GEMMs of a LoRA adapter on each matrix of a part, and whether the part's own input feeds them.

    Source: Hu et al. 2021.
    """
    found: list[tuple[bool, Kernel]] = []
    matrices = adapted(part)
    for weight in matrices:
        assert weight.inp is not None
        out, inp = run.shard.elements(weight.out), run.shard.elements(weight.inp)
        for name, n, k in (("a", rank, inp), ("b", out, rank)):
            work = ops.linear(
                m=exact_div(run.tokens, cp),
                n=n,
                k=k,
                weights=run.weights,
                activations=run.activations,
                compute=run.precision.compute,
            )
            fed = name == "a" and weight.inp == matrices[0].inp
            found.append((fed, Kernel(f"{weight.name}_lora_{name}", part.label, work)))
    return found


def _local(work: Work, cp: Num) -> Work:
    """One of `cp` ranks' part of a kernel that goes over whole sequences."""
    if cp.__class__ is int and cp == 1:
        return work
    whole = {"weights": work.cost.memory.get("weights", 0), "kv": work.cost.memory.get("kv", 0)}
    memory = {role: exact_div(moved, cp) for role, moved in work.cost.memory.items()}
    memory.update({role: moved for role, moved in whole.items() if role in memory})
    flops = {rate: exact_div(each, cp) for rate, each in work.cost.flops.items()}
    links = {name: exact_div(sent, cp) for name, sent in work.cost.links.items()}
    dims = {key: exact_div(each, cp) if key == "m" else each for key, each in work.dims.items()}
    return Work(work.op, dims, Cost(flops, memory, links, work.cost.steps))


def update(parameters: Num, recipe: Recipe) -> Row:
    """The optimizer's update of that many parameters: one kernel where it is fused, a pass a tensor where not."""
    optimizer = OPTIMIZERS[recipe.optimizer]
    cost = Cost({VECTOR: optimizer.arithmetic * parameters}, {"optimizer": recipe.update_bytes * parameters})
    return Row(recipe.optimizer, "optimizer", UPDATE, UPDATE, Work("elementwise", {"n": parameters}, cost), 1)


def flops(found: Iterable[Row], rate: str, *stages: str) -> Num:
    """FLOPs at a rate of these rows, of all stages or of some [FLOP]."""
    total: Num = 0
    for row in found:
        if not stages or row.stage in stages:
            total = total + row.calls * row.work.cost.flops.get(rate, 0)
    return total
