"""Answers to the questions asked by hand, as terminal text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rich.console import Group, RenderableType
from rich.table import Table

from roofline.assumptions import warnings
from roofline.bound import VERDICTS, Demand, Point, demands
from roofline.byhand import ByHand
from roofline.capacity import resident
from roofline.comparison import Comparison
from roofline.crossing import WORDS, Crossovers
from roofline.ledger import Ledger
from roofline.show import words
from roofline.show.terminal import Cell, bullets, table, text
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
    here, there = _float(ledger.total.tokens_per_second), _float(other.total.tokens_per_second)
    faster = f"{significant(max(pair.speed, 1 / pair.speed), 4)} times as many {'here' if pair.speed >= 1 else 'there'}"
    fit = resident(other.model, other.workload, other.precision, other.shard, other.device.capacity).fits
    return Group(
        text(),
        text(f"Against {label}: {words.title(other)}", "bold"),
        *(text(f"Note: {each}.", "yellow") for each in warnings(other)),
        text(),
        text(f"{significant(here, 4)} tokens/s here, {significant(there, 4)} there: {faster}. {pair.reason}"),
        *([text("The other does not fit its memory.", "bold red")] if fit is False else []),
        text(),
        table([*heads, ("difference", "right")], [list(each) for each in cells], bold=len(rows)),
    )


def crossovers_text(answer: Crossovers) -> RenderableType:
    """Where each verdict turns, a line each, and why what does not turn does not."""
    rows: list[list[Cell]] = []
    for each in answer.found:
        turns = each.value is not None
        at = f"{each.value:,}" if turns else "never"
        exact = significant(each.exact, 5) if each.exact is not None else ""
        rows.append([each.name, at, WORDS[each.axis] if turns else "", exact, words.then(each)])
    heads = [("what turns", "left"), ("from", "right"), ("", "left"), ("exactly at", "right"), ("then", "left")]
    reasons = [f"{each.name}: {each.reason}" for each in answer.found if each.reason]
    base = answer.base
    blocks: list[RenderableType] = [
        *(text(line, "bold") for line in _question(answer)),
        *(text(f"Note: {each}.", "yellow") for each in warnings(base)),
        text(),
        table(heads, rows, shrinks=0),
        *([text(), bullets(reasons)] if reasons else []),
    ]
    if answer.limit_intensity is not None and answer.limit_tokens_per_second is not None:
        most, tends = significant(answer.limit_tokens_per_second, 4), significant(answer.limit_intensity)
        said = f"As the batch grows the pass tends to {most} tokens/s at {tends} FLOP/byte"
        fits = "" if answer.max_sequences is None else f"; {answer.max_sequences:,} sequences fit the memory"
        blocks += [text(), text(f"{said}{fits}.")]
    said = "What is counted, and what is left out (unpacking, overlap, caches), is as roofline predict states it."
    return Group(*blocks, text(), text(said, "dim"))


def _question(answer: Crossovers) -> list[str]:
    base = answer.base
    rows = base.workload.groups[0]
    along = "sequences, and by the context" if rows.phase == "decode" else "new tokens"
    derated = ""
    if answer.efficiency is not None:
        bandwidth, compute = (percent(each) for each in answer.efficiency)
        derated = f"; at {bandwidth} of its bandwidth and {compute} of its peaks"
    fused = ", small kernels folded" if base.fused else ""
    return [
        f"{words.title(base)}{fused}",
        f"by the {along}{derated}; the ridge is at {significant(answer.ridge)} FLOP/byte",
    ]


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
    for each in demands(work.cost, device):
        grid.add_row(_resource(each), text(si(_float(each.seconds), "s")), text(_demand(each), "dim"))
    apart = f"{si(_float(bound.no_overlap), 's')} with no overlap"
    grid.add_row(text("bound", "bold"), text(si(_float(bound.seconds), "s"), "bold"), text(apart, "dim"))
    hypothetical = device.assumptions
    return [
        text(f"{work.op} {dims}{options} on {device.name}", "bold"),
        *(text(f"Note: {each}.", "yellow") for each in hypothetical),
        text(),
        text(_verdict(point)),
        text(),
        grid,
        text(),
        *(text(line) for line in _formulas(found)),
        text(),
        bullets(found.notes[len(hypothetical) :]),
    ]


def _resource(demand: Demand) -> str:
    return demand.name if demand.resource == "compute" else demand.resource


def _demand(demand: Demand) -> str:
    """How many at how much a second."""
    if demand.resource == "launch":
        return f"{_float(demand.amount):,.0f} of {si(demand.latency, 's')}"
    units = {"compute": ("FLOP", "FLOP/s"), "memory": ("B", "B/s"), "link": ("B", "B/s")}[demand.resource]
    if demand.supply is None:
        return f"{si(_float(demand.amount), units[0])}; the peak is unknown"
    sent = " sent" if demand.resource == "link" else ""
    late = f", and {si(demand.latency, 's')} of latency" if demand.latency else ""
    where = f" ({demand.name})" if demand.resource == "link" else ""
    return f"{si(_float(demand.amount), units[0])}{sent} at {si(demand.supply, units[1])}{where}{late}"


def _verdict(point: Point) -> str:
    said = VERDICTS[point.bound.by]
    cost = point.work.cost
    if point.bound.by == "link":
        sent, moved = si(_float(cost.link_bytes), "B"), si(_float(cost.bytes), "B")
        return f"{said}: {sent} sent by each rank, {moved} of memory moved."
    if not point.work.flops or not cost.bytes:
        return f"{said}: {si(_float(cost.bytes), 'B')} moved, no FLOPs."
    peak = point.device.peak.get(point.rate)
    intensity = f"{significant(_float(point.work.intensity), 4)} FLOP/byte"
    if peak is None:
        return f"{said}: {intensity}; the {point.rate} peak of {point.device.id} is unknown."
    ridge = significant(point.device.ridge_point(point.rate))
    reached = _float(point.attainable)
    most = f"at most {si(reached, 'FLOP/s')}, {percent(reached / peak)} of the {point.rate} peak"
    return f"{said}: {intensity}, the ridge of {point.rate} is at {ridge}; {most}."


def _formulas(found: ByHand) -> list[str]:
    said: list[str] = []
    for what, formula in found.formulas.items():
        unit, _, name = what.partition(" ")
        value = f"{formula.value:,} {unit}"
        numbers = "" if formula.numbers in (formula.text, f"{formula.value}") else f" = {formula.numbers}"
        said.append(f"{name}: {formula.text}{numbers} = {value}")
    return said
