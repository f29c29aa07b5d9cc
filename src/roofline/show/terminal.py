"""What every table and text of the terminal is made of: 80 columns, pipes and NO_COLOR included. Names are data."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from roofline.show.names import visible

STYLES = {"memory": "cyan", "compute": "yellow", "link": "magenta", "launch": "red"}
_WIDTH = 80


def console() -> Console:
    """A console that neither highlights nor reads markup: what it prints may come from a file."""
    # Never narrower than a table of numbers: a terminal that is wraps the line, and no digit is lost.
    return Console(highlight=False, markup=False, emoji=False, width=max(_WIDTH, Console().width))


def text(value: str = "", style: str = "") -> Text:
    """Text for the terminal, which may hold names from files: control and direction characters show as escapes."""
    return Text(visible(value, len(value)), style)


Cell = str | Text


def table(heads: Sequence[tuple[str, str]], rows: Sequence[Sequence[Cell]], shrinks: int = 0, bold: int = -1) -> Text:
    """A quiet table without a frame, as one text.

    `heads` are (title, "left" or "right"); where the terminal is too narrow only column `shrinks` gives
    way, as a number cut short is a wrong number. Row `bold` stands out.
    """
    cells = [[each if isinstance(each, Text) else text(each) for each in row] for row in rows]
    widths = [max(len(title), *(row[i].cell_len for row in cells), 0) for i, (title, _) in enumerate(heads)]
    room = console().width
    gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= room else 1
    spare = room - sum(widths) - gap * (len(widths) - 1)
    widths[shrinks] = max(len(heads[shrinks][0]), widths[shrinks] + min(spare, 0))
    # One text, not a rich Table: that renders each cell on its own, which takes longer than all that a list asks for.
    lines = [[text(title) for title, _ in heads], *cells]
    made = Text(no_wrap=True, overflow="ignore")
    for index, row in enumerate(lines, -1):
        line = _line(row, heads, widths, gap)
        line.style = "dim" if index < 0 else "bold" if index == bold else ""
        made.append_text(line.append("\n") if index < len(cells) - 1 else line)
    return made


def _line(row: Sequence[Text], heads: Sequence[tuple[str, str]], widths: Sequence[int], gap: int) -> Text:
    """A row of a table: each cell in its width and on its side, cut with an ellipsis where it does not fit."""
    made = Text()
    for index, (cell, (_, side), width) in enumerate(zip(row, heads, widths, strict=True)):
        blank = max(width - cell.cell_len, 0)
        fits = cell.copy()
        fits.truncate(width, overflow="ellipsis")
        made.append(" " * blank * (side == "right"))
        made.append_text(fits)
        made.append(" " * (blank * (side != "right") + (gap if index < len(row) - 1 else 0)))
    return made


def bullets(lines: Iterable[str]) -> RenderableType:
    """Sentences as a quiet list."""
    made = Table.grid(padding=(0, 1, 0, 0))
    for each in lines:
        made.add_row(text("·", style="dim"), text(each, style="dim"))
    return made


def plain(renderable: RenderableType, width: int) -> str:
    """What it is as text without colours, in so many columns."""
    out = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    with out.capture() as captured:
        out.print(renderable)
    return "\n".join(line.rstrip() for line in captured.get().strip("\n").split("\n"))


def show(renderable: RenderableType, after: int = 0) -> None:
    """Print to standard output, after so many empty lines; into a pipe without the blanks that pad a table's lines."""
    out = console()
    sys.stdout.write("\n" * after)
    if out.is_terminal:
        out.print(renderable)
        return
    with out.capture() as captured:
        out.print(renderable)
    sys.stdout.write("\n".join(line.rstrip() for line in captured.get().split("\n")))
