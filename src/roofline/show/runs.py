"""Several ranks, and a model's ledger beside a measured step, as terminal text."""

from __future__ import annotations

from rich.console import Group, RenderableType

from roofline.diagnosis.beside import Beside
from roofline.diagnosis.ranks import Run
from roofline.show import words
from roofline.show.terminal import Cell, bullets, table, text
from roofline.trace.classify import COMPUTE
from roofline.units import NS_PER_S, column, percent, scale, si

_RANKS = 64  # rows of the terminal table; the JSON has all


def run_text(run: Run) -> RenderableType:
    """The ranks side by side, and who waits for whom."""
    rows = run.ranks[:_RANKS]
    size, unit = scale(max(each.found.window for each in rows) / NS_PER_S, "s")

    def cells(values: list[int | None]) -> list[str]:
        known = column([(each or 0) / NS_PER_S for each in values], size, 5)
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
    body: list[list[Cell]] = [list(row) for row in zip(names, *columns.values(), strict=True)]
    heads = [("rank", "left"), *((head, "right") for head in columns)]
    blocks: list[RenderableType] = [text(f"{len(run.ranks)} ranks", "bold"), table(heads, body)]
    if len(run.ranks) > _RANKS:
        blocks.append(text(f"{len(run.ranks) - _RANKS} more ranks are in --json.", "dim"))
    if run.collectives:
        blocks.append(text(f"{run.collectives:,} collectives compared; last: how many of them a rank came to last."))
    else:
        blocks.append(text("The ranks do not have the same number of collectives: who waits for whom is unknown."))
    for each in run.findings:
        blocks += [text(f"{each.title}: {si(each.at_stake or 0.0, 's', 3)} at stake", "bold")]
        blocks.append(bullets([*each.evidence, f"First: {each.advice}"]))
    return Group(*blocks, text())


def beside_text(side: Beside) -> RenderableType:
    """The exact ledger of a model beside the measured step."""
    heads = [
        ("operation", "left"),
        ("FLOP predicted", "right"),
        ("measured", "right"),
        ("bound", "right"),
        ("took", "right"),
        ("of bound", "right"),
    ]
    body: list[list[Cell]] = [
        [
            each.op,
            f"{each.predicted_flops:,}",
            f"{each.measured_flops:,}",
            si(each.bound, "s"),
            si(each.seconds, "s"),
            percent(each.bound / each.seconds) if each.seconds else "unknown",
        ]
        for each in side.sides
    ]
    lines = [f"{words.subject(side.ledger)}, {words.setting(side.ledger)}."]
    if side.without:
        lines.append(f"Not in the measured step: {', '.join(side.without)}.")
    if side.mfu is not None:
        lines.append(f"MFU of the model's products and attention: {percent(side.mfu)} of {side.ledger.device.id}.")
    return Group(text("Beside the model", "bold"), *map(text, lines), table(heads, body), text())
