"""Answers about training for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rich.console import Group, RenderableType
from rich.table import Table

from roofline.show.terminal import bullets, table, text
from roofline.training.conventions import Utilisation
from roofline.training.utilisation import Mfu
from roofline.training.wire import SWITCH, Collective
from roofline.units import GIGA, percent, si, significant

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


def collective_text(answer: Collective, step_seconds: float | None = None) -> RenderableType:
    """One collective: bytes, time, bandwidths, bound; its levels; its share of a step."""
    moved = answer.traffic
    lines = [
        ("sent by a rank", si(moved.sent, "B"), f"in {moved.steps:,} steps one after another"),
        ("time", si(answer.seconds, "s"), _latency(answer)),
        ("algbw", si(answer.algbw, "B/s"), "size over time"),
        ("busbw", si(answer.busbw, "B/s"), "what a ring's rank sends, over time"),
        ("least bytes", si(answer.least_bytes, "B"), _least_of(answer)),
        ("bound", "unknown" if answer.bound_seconds is None else si(answer.bound_seconds, "s"), _bounded(answer)),
    ]
    if moved.received != moved.sent:
        lines.insert(1, ("received", si(moved.received, "B"), ""))
    if step_seconds is not None:
        share = answer.seconds / step_seconds
        lines.append(("share", percent(share, 4), f"of a step of {si(step_seconds, 's')} that has it, not overlapped"))
        lines.append(("", percent(share / (1 + share), 4), f"of a step that takes {si(step_seconds, 's')} without it"))
    blocks: list[RenderableType] = [text(_collective_title(answer), "bold"), text(), lines_of(lines)]
    if answer.levels:
        heads = [("level", "left"), ("ranks", "right"), ("sent by a rank", "right"), ("time", "right")]
        rows = [[each.name, f"{each.ranks:,}", si(each.sent, "B"), si(each.seconds, "s")] for each in answer.levels]
        blocks += [text(), table(heads, rows)]
    return Group(*blocks, text(), text("Assumptions", "bold dim"), bullets(answer.notes))


def _collective_title(answer: Collective) -> str:
    how = f" ({answer.algorithm})" if answer.kind != "send" else ""
    return f"{answer.kind} of {si(answer.size, 'B')} over {answer.ranks:,} ranks{how}"


def _least_of(answer: Collective) -> str:
    how = "where a switch reduces and copies" if answer.algorithm == SWITCH else "without the network's help"
    return f"a rank sends or receives, {how}"


def _latency(answer: Collective) -> str:
    return f"{si(answer.latency_seconds, 's')} of it latency" if answer.latency_seconds else ""


def _bounded(answer: Collective) -> str:
    if answer.bound_seconds is None:
        return "no bandwidth of a link is given"
    sort = "any algorithm of a switch" if answer.algorithm == SWITCH else "any algorithm of the ranks alone"
    return f"of {sort}"


def lines_of(lines: Sequence[tuple[str, str, str]]) -> RenderableType:
    """Name, figure, meaning, without heads."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for side in ("left", "right", "left"):
        grid.add_column(justify="right" if side == "right" else "left", no_wrap=side == "right")
    for name, figure, meaning in lines:
        grid.add_row(text(name), text(figure, "bold"), text(meaning, "dim"))
    return grid
