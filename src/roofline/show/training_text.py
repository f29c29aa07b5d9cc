"""Answers about training for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rich.console import Group, RenderableType

from roofline.show.text import bullets, table, text
from roofline.training.conventions import Utilisation
from roofline.training.utilisation import Mfu
from roofline.units import GIGA, percent, significant

_HIGH = 1.0


def mfu_text(answer: Mfu) -> RenderableType:
    """The run, a table of conventions, what each excludes, and what may be mixed up."""
    notes = [text(f"Note: {each}.", "yellow") for each in answer.warnings]
    unknown = dict.fromkeys(each.unknown for each in answer.conventions if each.unknown)
    lines = [
        f"{', '.join(u.convention.name for u in answer.conventions if u.unknown == reason)}: unknown, {reason}"
        for reason in unknown
    ]
    blocks: list[RenderableType] = [text(_title(answer), "bold"), *notes, text(), _conventions(answer.conventions)]
    if lines:
        blocks += [text(), bullets(lines)]
    blocks += [text(), text("What each counts, and what it leaves out", "bold dim"), _meanings(answer.conventions)]
    return Group(*blocks, text(), text("Assumptions", "bold dim"), bullets(answer.assumptions))


def _title(answer: Mfu) -> str:
    run, sequence = answer.run, answer.subject.sequence
    length = f", sequences of {cast(int, sequence):,} tokens" if sequence is not None else ""
    rates = f"{significant(run.tokens_per_second, 6)} tokens/s"
    if run.gpus > 1:
        rates += f" ({significant(run.tokens_per_second / run.gpus, 5)} a GPU)"
    return f"{answer.name} on {run.gpus:,} x {answer.peak.owner}: {rates}{length}"


def _conventions(found: Sequence[Utilisation]) -> RenderableType:
    heads = [("convention", "left"), ("kind", "left"), ("FLOPs a token", "left")]
    heads += [("GFLOP", "right"), ("of peak", "right")]
    rows = [
        [
            each.convention.name,
            each.convention.kind.upper(),
            each.convention.formula,
            "unknown" if each.flops_per_token is None else significant(cast(float, each.flops_per_token) / GIGA, 5),
            _share(each.value),
        ]
        for each in found
    ]
    styled = [[text(cell, "red" if _over(each) else "") for cell in row] for each, row in zip(found, rows, strict=True)]
    return table(heads, styled, shrinks=2)


def _over(each: Utilisation) -> bool:
    return isinstance(each.value, float) and each.value > _HIGH


def _share(value: object) -> str:
    return "unknown" if value is None else percent(cast(float, value), 4)


def _meanings(found: Sequence[Utilisation]) -> RenderableType:
    return bullets(
        f"{each.convention.name}: {each.convention.source}. Excludes: {each.convention.excludes}" for each in found
    )
