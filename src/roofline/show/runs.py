"""Several ranks, several devices of a file, and a model's ledger beside a measured step, as terminal text."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType

from roofline.diagnosis.beside import Beside
from roofline.diagnosis.gpus import label
from roofline.diagnosis.ranks import Run
from roofline.diagnosis.result import DeviceRow, Diagnosis
from roofline.show import words
from roofline.show.terminal import Cell, bullets, table, text
from roofline.trace.classify import COMPUTE
from roofline.units import NS_PER_S, column, percent, scale, si

_RANKS = 64  # rows of the terminal table; the JSON has all


def run_text(run: Run) -> RenderableType:
    """The ranks side by side, and who waits for whom."""
    heads, body = run_rows(run)
    sides = [(heads[0], "left"), *((head, "right") for head in heads[1:])]
    blocks: list[RenderableType] = [
        text(f"{len(run.ranks)} ranks", "bold"),
        table(sides, [list[Cell](row) for row in body]),
        *map(text, run_lines(run)),
    ]
    for each in run.findings:
        blocks += [text(f"{each.title}: {si(each.at_stake or 0.0, 's', 3)} at stake", "bold")]
        blocks.append(bullets([*each.evidence, f"First: {each.advice}"]))
    return Group(*blocks, text())


def run_rows(run: Run) -> tuple[list[str], list[list[str]]]:
    """The heads and rows of a table of the ranks."""
    rows = run.ranks[:_RANKS]
    size, unit = scale(max(each.found.window for each in rows) / NS_PER_S, "s")

    def cells(values: list[int | None]) -> list[str]:
        known = _column(values, size)
        return [cell if each is not None else "unknown" for each, cell in zip(values, known, strict=True)]

    columns = {
        f"window {unit}": cells([each.found.window for each in rows]),
        "compute": cells(
            [sum(one.attributed for one in each.found.breakdown if one.category in COMPUTE) for each in rows]
        ),
        "communication": cells([each.found.communication.union for each in rows]),
        "waiting": cells([each.waited for each in rows]),
        "idle": cells([each.found.idle for each in rows]),
        "last": ["" if each.last is None else f"{each.last:,}" for each in rows],
    }
    names = [each.name if each.found.rank.rank is None else f"{each.found.rank.rank}" for each in rows]
    return ["rank", *columns], [list(row) for row in zip(names, *columns.values(), strict=True)]


def run_lines(run: Run) -> list[str]:
    """What the table of the ranks rests on, and what it lacks."""
    lines: list[str] = []
    if len(run.ranks) > _RANKS:
        lines.append(f"{len(run.ranks) - _RANKS} more ranks are in --json.")
    whole = max((each.found.rank.ranks or 0 for each in run.ranks), default=0)
    if whole > len(run.ranks):
        lines.append(
            f"The run has {whole:,} ranks, of which {len(run.ranks):,} are here: these may wait for one that is not."
        )
    if run.collectives:
        lines.append(
            f"{run.collectives:,} collectives compared; last: how many a rank came to last, alone or with others."
        )
    else:
        lines.append("The ranks do not have the same number of collectives: who waits for whom is unknown.")
    if any(each.found.devices for each in run.ranks):
        lines.append("Files with several devices: of each the one with the most activities; all of one: name it alone.")
    return lines


def devices_text(found: Diagnosis) -> RenderableType:
    """The devices of a file side by side, each over its own window."""
    heads, body = devices_rows(found)
    sides = [("device", "left"), *((head, "right") for head in heads[1:])]
    blocks: list[RenderableType] = [table(sides, [list[Cell](row) for row in body[:_RANKS]])]
    if len(body) > _RANKS:
        blocks.append(text(f"{len(body) - _RANKS} more are in --json.", "dim"))
    shown = "" if found.device is None else label(found.device)
    said = f"Busy, idle: of each one's own window. What follows is of {shown}; --gpu N shows another one."
    return Group(*blocks, text(said))


def devices_rows(found: Diagnosis) -> tuple[list[str], list[list[str]]]:
    """The heads and rows of a table of the devices, the one that the diagnosis is of marked; the first is its name."""
    rows = found.devices
    size, unit = scale(max(each.window for each in rows) / NS_PER_S, "s")
    names = [_name(each, len({one.name for one in rows}) > 1, found.device) for each in rows]
    columns = {
        f"window {unit}": [each.window for each in rows],
        "busy": [each.busy for each in rows],
        "compute": [each.compute for each in rows],
        "exposed": [each.exposed for each in rows],
        "waiting": [each.waited for each in rows],
        "idle": [each.idle for each in rows],
    }
    columns = {head: values for head, values in columns.items() if any(values) or head == "idle"}
    cells = [
        [cell if value is not None else "unknown" for cell, value in zip(_column(values, size), values, strict=True)]
        for values in columns.values()
    ]
    kernels = [f"{each.kernels:,}" for each in rows]
    body = [list(each) for each in zip(names, *cells, kernels, strict=True)]
    return ["device", *columns, "kernels"], body


def _column(values: Sequence[int | None], size: float) -> list[str]:
    return column([(each or 0) / NS_PER_S for each in values], size, 5)


def _name(row: DeviceRow, told: bool, shown: int | None) -> str:
    """What a device is called: with its card's name where the cards differ."""
    name = f"{label(row.device)}, {row.name}" if told and row.name else label(row.device)
    return f"{name} *" if row.device == shown else name


def beside_text(side: Beside) -> RenderableType:
    """The exact ledger of a model beside the measured step."""
    heads, body = beside_rows(side)
    sides = [(heads[0], "left"), *((head, "right") for head in heads[1:])]
    found = table(sides, [list[Cell](row) for row in body])
    return Group(text("Beside the model", "bold"), *map(text, beside_lines(side)), found, text())


def beside_lines(side: Beside) -> list[str]:
    """Which pass of the model it is, what the step does not have, and MFU."""
    lines = [f"{words.subject(side.ledger)}, {words.setting(side.ledger)}."]
    if side.without:
        lines.append(f"Not in the measured step: {', '.join(side.without)}.")
    lines += [f"{note}." for note in side.notes]
    if side.unlike:
        lines.append(f"No MFU of the model: {side.unlike}.")
    if side.mfu is not None:
        *kinds, last = (_NAMED[each.op] for each in side.sides)
        said = f"{', '.join(kinds)} and {last}" if kinds else last
        lines.append(f"MFU of the model's {said}: {percent(side.mfu)} of {side.ledger.device.id}.")
    return lines


_NAMED = {"linear": "products", "attention": "attention", "moe": "experts", "recurrent": "recurrences"}


def beside_rows(side: Beside) -> tuple[list[str], list[list[str]]]:
    """The heads and rows of a table of the model's kinds of kernels, predicted and measured."""
    body = [
        [
            each.op,
            f"{each.predicted_flops:,}",
            f"{each.measured_flops:,}" if each.measured_flops else "unknown",
            si(each.bound, "s") if each.measured_flops else "unknown",
            si(each.seconds, "s") if each.measured_flops else "unknown",
            percent(each.bound / each.seconds) if each.seconds else "unknown",
        ]
        for each in side.sides
    ]
    return ["operation", "FLOP predicted", "measured", "bound", "took", "of bound"], body
