"""Answers to the questions asked by hand, as terminal text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rich.console import Group, RenderableType
from rich.table import Table

from roofline.assumptions import warnings
from roofline.bound import VERDICTS
from roofline.byhand import ByHand, lines
from roofline.capacity import resident
from roofline.comparison import Comparison
from roofline.crossing import WORDS, Crossover, Crossovers
from roofline.ledger import Ledger
from roofline.show.terminal import Cell, bullets, table, text
from roofline.show.text import title
from roofline.units import column, percent, scale, si, significant


def _float(value: object) -> float:
    return cast(float, value)


def against_text(ledger: Ledger, other: Ledger, label: str) -> RenderableType:
    """Two ledgers side by side: totals, the reason, every kernel with its ratio and difference."""
    pair = Comparison(ledger, other)
    rows = pair.rows
    whole = scale(max(sum(row.seconds for row in rows), sum(row.against for row in rows)), "s")
    mine, theirs = ([getattr(row, side) for row in rows] for side in ("seconds", "against"))
    mine, theirs = [*mine, sum(mine)], [*theirs, sum(theirs)]
    changes = [there - here for here, there in zip(mine, theirs, strict=True)]
    both = column([*mine, *theirs], whole[0], 5)
    heads = [("kernel", "left"), (f"this {whole[1]}", "right"), ("other", "right"), ("other/this", "right")]
    ratios = [significant(there / here, 4) if here and there else "" for here, there in zip(mine, theirs, strict=True)]
    cells = zip(
        [*(row.name for row in rows), "total"],
        both[: len(mine)],
        both[len(mine) :],
        ratios,
        [
            f"{'+' if each > 0 else ''}{shown}"
            for each, shown in zip(changes, column(changes, whole[0], 5), strict=True)
        ],
        strict=True,
    )
    fit = resident(other.model, other.workload, other.precision, other.shard, other.device.capacity).fits
    return Group(
        text(),
        text(f"Against {label}: {title(other)}", "bold"),
        *(text(f"Note: {each}.", "yellow") for each in warnings(other)),
        text(),
        text(
            f"{significant(_float(other.total.tokens_per_second), 4)} tokens/s there, "
            f"{significant(_float(ledger.total.tokens_per_second), 4)} here: "
            f"{significant(pair.speed, 4)} times as many. {pair.reason}"
        ),
        *([text("The other does not fit its memory.", "bold red")] if fit is False else []),
        text(),
        table([*heads, ("difference", "right")], [list(each) for each in cells], bold=len(rows)),
    )


def crossovers_text(answer: Crossovers) -> RenderableType:
    """Where each verdict turns, a line each, and why what does not turn does not."""
    line = answer.line
    rows: list[list[Cell]] = []
    for each in answer.found:
        turns = each.value is not None
        at = f"{each.value:,}" if turns else "never"
        exact = significant(each.exact, 5) if each.exact is not None else ""
        rows.append([each.name, at, WORDS[each.axis] if turns else "", exact, _then(each)])
    heads = [("what turns", "left"), ("from", "right"), ("", "left"), ("exactly at", "right"), ("it is then", "left")]
    reasons = [f"{each.name}: {each.reason}" for each in answer.found if each.reason]
    blocks: list[RenderableType] = [
        text(_question(answer), "bold"),
        *(text(f"Note: {each}.", "yellow") for each in (*line.device.assumptions, *line.model.assumptions)),
        text(),
        table(heads, rows, shrinks=4),
        text(),
        bullets(reasons),
    ]
    if answer.limit_intensity is not None and answer.limit_tokens_per_second is not None:
        most, tends = significant(answer.limit_tokens_per_second, 4), significant(answer.limit_intensity)
        said = f"As the batch grows the pass tends to {most} tokens/s at {tends} FLOP/byte"
        fits = "" if answer.max_sequences is None else f"; {answer.max_sequences:,} sequences fit the memory"
        blocks += [text(f"{said}{fits}.")]
    return Group(*blocks)


def _then(each: Crossover) -> str:
    bound = each.after in VERDICTS
    return f"{each.after}-bound" if bound else each.after


def _question(answer: Crossovers) -> str:
    line = answer.line
    rows = line.workload.groups[0]
    held = f"{rows.context:,} tokens" if line.axis == "sequences" else f"{rows.context:,} cached"
    derated = ""
    if answer.efficiency is not None:
        bandwidth, compute = (percent(each) for each in answer.efficiency)
        derated = f", at {bandwidth} of its bandwidth and {compute} of its peaks"
    ridge = f"ridge {significant(answer.ridge)} FLOP/byte"
    where = f"{line.model.name} on {line.device.name}, {rows.phase} at {held}"
    return f"{where}, by the {WORDS[line.axis]}{derated}; {ridge}"


def op_text(found: ByHand, others: Sequence[ByHand]) -> RenderableType:
    """One operation: its verdict, the seconds of each resource, its formulas with their numbers."""
    blocks = _operation(found)
    for other in others:
        times = _float(other.point.work.bytes) / _float(found.point.work.bytes)
        slower = other.point.bound.seconds / found.point.bound.seconds
        said = f"{significant(times)} times the bytes and {significant(_float(slower))} times the bound"
        blocks += [text(), text(f"Beside it, with the scores in memory (the math path): {said}"), text()]
        blocks += _operation(other)
    return Group(*blocks)


def _operation(found: ByHand) -> list[RenderableType]:
    point = found.point
    device, work, bound = point.device, point.work, point.bound
    dims = " ".join(f"{key}={value:,}" for key, value in work.dims.items())
    options = "".join(f" {key}={value}" for key, value in found.options.items())
    grid = Table.grid(padding=(0, 2, 0, 0))
    for side in ("left", "right", "left"):
        grid.add_column(justify="right" if side == "right" else "left")
    for name, seconds, how in lines(found):
        grid.add_row(name, text(si(seconds, "s")), text(how, "dim"))
    apart = f"{si(_float(bound.no_overlap), 's')} with no overlap"
    grid.add_row(text("bound", "bold"), text(si(_float(bound.seconds), "s"), "bold"), text(apart, "dim"))
    return [
        text(f"{work.op} {dims}{options} on {device.name}", "bold"),
        *(text(f"Note: {each}.", "yellow") for each in device.assumptions),
        text(),
        text(_verdict(found)),
        text(),
        grid,
        text(),
        *(text(line) for line in _formulas(found)),
    ]


def _verdict(found: ByHand) -> str:
    point = found.point
    said = VERDICTS[point.bound.by]
    flops = _float(point.work.flops)
    if not flops or not point.work.bytes:
        return f"{said}: {si(_float(point.work.bytes), 'B')} moved and no FLOPs."
    rate = main_rate(found)
    peak = point.device.peak.get(rate)
    intensity = f"{significant(_float(point.work.intensity), 4)} FLOP/byte"
    if peak is None:
        return f"{said}: {intensity}; the {rate} peak of {point.device.id} is unknown."
    ridge = significant(point.device.ridge_point(rate))
    reached = flops / _float(point.bound.seconds)
    most = f"at most {si(reached, 'FLOP/s')}, {percent(reached / peak)} of the {rate} peak"
    return f"{said}: {intensity}, the ridge of {rate} is at {ridge}; {most}."


def main_rate(found: ByHand) -> str:
    """The rate of most of an operation's FLOPs."""
    return max(found.flops_by_rate.items(), key=lambda each: _float(each[1]))[0]


def _formulas(found: ByHand) -> list[str]:
    said: list[str] = []
    for what, formula in found.formulas.items():
        unit, _, name = what.partition(" ")
        value = f"{formula.value:,} {unit}"
        numbers = "" if formula.numbers in (formula.text, f"{formula.value}") else f" = {formula.numbers}"
        said.append(f"{name}: {formula.text}{numbers} = {value}")
    return said
