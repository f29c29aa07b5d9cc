"""Experts over ranks: what a rank streams of them, and the rows that tensor ranks exchange for them.

Every expert is split over the tensor ranks like any matrix (expert tensor parallelism as wide as tp). T tokens of a
micro-batch on a group of t tensor ranks, k experts a token, rows h wide:

- Without sequence parallelism each tensor rank has all T tokens, sends k·T·h·(ep-1)/ep to the ranks of their experts,
  and sums what comes back over t: an all-reduce of T·h.
- With it each has T/t of them and sends 1/t of that, but every part of an expert needs every row: an all-gather of
  k·T·h over t before the experts and a reduce-scatter of as much after them stand in place of the all-reduce.

Where experts are whole on a rank (expert tensor parallelism of 1, which is not offered here) the second holds without
the gather and the scatter. Source: Singh et al. 2023 (hybrid tensor-expert-data parallelism); Liu et al. 2025 (MoE
parallel folding in Megatron Core), whose dispatcher wants sequence parallelism.
"""

from __future__ import annotations

from roofline.cost import Cost, Work
from roofline.dtypes import DType, dtype
from roofline.num import Num, exact_div, where
from roofline.training.plan import Plan
from roofline.training.step import FORWARD, LAYERS, WEIGHTS, Row

_ROLES = ("weights", "routed", "gradients")


def over_ranks(found: list[Row], plan: Plan, activations: str) -> list[Row]:
    """The rows of a rank that has 1/ep of the experts; all of them where ep is 1."""
    if plan.ep.__class__ is int and plan.ep == 1:
        return found
    own = [row._replace(work=_own(row.work, plan.ep)) for row in found]
    return _gathered(own, plan.ep, dtype(activations)) if plan.sequence_parallel and plan.tp > 1 else own


def _own(work: Work, ep: Num) -> Work:
    """A grouped GEMM over 1/ep of the experts: as many rows from all the ranks as all experts had from one.

    The experts that one rank's tokens reach, spread over the ranks, are the fewest that the rows of all can reach.
    """
    if work.op != "moe":
        return work
    memory = {role: exact_div(n, ep) if role in _ROLES else n for role, n in work.cost.memory.items()}
    return Work(work.op, work.dims, Cost(work.cost.flops, memory, work.cost.links, work.cost.steps))


def _gathered(found: list[Row], ep: Num, kept: DType) -> list[Row]:
    """Collectives of the parts with experts as those of their routed rows; shared experts keep the stream's.

    The gathered rows are kept for the backward pass: they are not gathered again, as the stream is.
    """
    grouped: dict[str, list[Work]] = {}
    for row in found:
        if row.work.op == "moe" and (row.where, row.stage) == (LAYERS, FORWARD):
            grouped.setdefault(row.part, []).append(row.work)
    shared = {row.part for row in found if row.part in grouped and row.name.startswith("shared_")}
    spread: list[Row] = []
    for row in found:
        if row.part not in grouped or not row.work.cost.links:
            spread.append(row)
            continue
        beside = 1 if row.part in shared else 0
        if row.stage == WEIGHTS:
            factor = beside
        else:
            factor = beside + exact_div(kept.of(_ends(grouped[row.part])), 2 * row.work.dims["bytes"])
        spread.append(row._replace(work=_times(row.work, where(ep > 1, factor, 1))))
    return spread


def _ends(grouped: list[Work]) -> Num:
    """Elements of the routed rows into the first grouped GEMM of the forward pass and out of the second."""
    first, last = grouped[0].dims, grouped[-1].dims
    return first["tokens"] * first["top_k"] * (first["k"] + last["n"])


def _times(work: Work, factor: Num) -> Work:
    """A collective over so many times the bytes."""
    cost = work.cost
    memory = {role: n * factor for role, n in cost.memory.items()}
    links = {link: n * factor for link, n in cost.links.items()}
    return Work(work.op, {**work.dims, "bytes": work.dims["bytes"] * factor}, Cost({}, memory, links, cost.steps))
