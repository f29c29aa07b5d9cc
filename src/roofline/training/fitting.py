"""What would make a plan fit: smaller micro-batches, ZeRO, recomputation, tensor and pipeline ranks, GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

from roofline.training.memory import footprint
from roofline.training.plan import STAGES, Plan, impossible
from roofline.training.recipe import Recompute
from roofline.training.train import Setting

RECOMPUTED = ("none", "selective", "full")  # from what keeps most
MOST_TIMES = 1 << 10  # as many GPUs as given, doubled up to this


@dataclass(frozen=True, slots=True)
class Remedy:
    """Options that make a plan fit, as they are written, and what the fullest rank then holds [byte]."""

    options: str
    total_bytes: float


def remedy(setting: Setting, gpus: int) -> Remedy | None:
    """The first change with which the plan fits, of as many as are needed; None where none of them is enough.

    Looked at in this order, each with those before it: a smaller micro-batch, the next stages of ZeRO, more
    recomputation, more tensor and pipeline ranks, twice the GPUs and so on. The global batch stays.
    """
    smaller = _smaller(setting, gpus)
    if smaller is not None:
        return smaller
    times = 1
    while times <= MOST_TIMES:
        for plan in _split(setting, gpus * times):
            found = _lightest_first(setting, plan, gpus, gpus * times)
            if found is not None:
                return found
        times *= 2
    return None


def _sequences(plan: Plan) -> int:
    """Sequences of the global batch."""
    return cast(int, plan.dp * plan.micro_batch * plan.accumulate)


def _smaller(setting: Setting, gpus: int) -> Remedy | None:
    """The same plan with the largest micro-batch that fits."""
    plan = setting.plan
    each = cast(int, plan.micro_batch * plan.accumulate)
    for micro in sorted((n for n in range(1, cast(int, plan.micro_batch)) if each % n == 0), reverse=True):
        changed = replace(plan, micro_batch=micro, accumulate=each // micro)
        if not _possible(setting, changed, gpus):
            continue
        total = _fits(replace(setting, plan=changed))
        if total is not None:
            return Remedy(f"--micro-batch {micro}", total)
    return None


def _split(setting: Setting, gpus: int) -> Iterator[Plan]:
    """The plan on so many GPUs, one sequence at a time; then with more tensor and pipeline ranks, fewest first.

    Tensor ranks stay on one scale-up link, and as many as they are where nothing says how many it joins.
    """
    plan = setting.plan
    most = setting.cluster.domain or plan.tp
    pairs = [
        (tp * plan.tp, pp * cast(int, plan.pp))
        for tp in _powers(most // plan.tp)
        for pp in _powers(setting.model.layers // cast(int, plan.pp) or 1)
    ]
    for tp, pp in sorted(pairs, key=lambda each: (each[0] * each[1], -each[0])):
        ranks = tp * pp * cast(int, plan.cp)
        dp = gpus // ranks
        if not dp or gpus % ranks or _sequences(plan) % dp:
            continue
        spread = plan.sequence_parallel or tp > plan.tp
        times = _sequences(plan) // dp
        changed = replace(plan, dp=dp, tp=tp, pp=pp, micro_batch=1, accumulate=times, sequence_parallel=spread)
        if _possible(setting, changed, gpus):
            yield changed


def _powers(most: int) -> list[int]:
    """Powers of two up to that."""
    return [1 << each for each in range(max(most, 1).bit_length())]


def _possible(setting: Setting, plan: Plan, gpus: int) -> bool:
    return next(impossible(setting.model, plan, gpus, _sequences(plan), setting.length), None) is None


def _lightest_first(setting: Setting, plan: Plan, before: int, gpus: int) -> Remedy | None:
    """That plan with as little ZeRO and recomputation as fit, where the most of both fits at all."""
    word = setting.recipe.recompute.word
    words = RECOMPUTED[RECOMPUTED.index(word) :] if word in RECOMPUTED else (word, "full")
    stages = STAGES[cast(int, plan.zero) :] if plan.replicas != 1 else (cast(int, plan.zero),)
    if _fits(_with(setting, plan, words[-1], stages[-1])) is None:
        return None
    for recompute in words:
        for zero in stages:
            changed = _with(setting, plan, recompute, zero)
            total = _fits(changed)
            if total is not None:
                return Remedy(_options(setting, changed, before, gpus), total)
    return None


def _with(setting: Setting, plan: Plan, recompute: str, zero: int) -> Setting:
    recipe = setting.recipe
    if recompute != recipe.recompute.word:
        recipe = replace(recipe, recompute=Recompute.named(recompute))
    return replace(setting, plan=replace(plan, zero=zero), recipe=recipe)


def _fits(setting: Setting) -> float | None:
    """Bytes of the fullest rank where they fit."""
    capacity, recipe = setting.cluster.device.capacity, setting.recipe
    held = footprint(
        setting.model,
        setting.plan,
        recipe,
        setting.length,
        capacity,
        reserve=setting.reserve,
        dropout=setting.dropout,
    )
    return float(cast(float, held.total_bytes)) if held.fits else None


def _options(setting: Setting, changed: Setting, before: int, gpus: int) -> str:
    """What is other than it was, as options."""
    plan, other = setting.plan, changed.plan
    pairs = (
        ("--micro-batch", plan.micro_batch, other.micro_batch),
        ("--zero", plan.zero, other.zero),
        ("--recompute", setting.recipe.recompute.word, changed.recipe.recompute.word),
        ("--tp", plan.tp, other.tp),
        ("--pp", plan.pp, other.pp),
        ("--gpus", before, gpus),
    )
    words = [f"{name} {now}" for name, was, now in pairs if was != now]
    if other.sequence_parallel and not plan.sequence_parallel:
        words.append("--sequence-parallel")
    return " ".join(words)
