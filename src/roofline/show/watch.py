"""A running fleet as terminal text."""

from __future__ import annotations

import time

from rich.console import Group, RenderableType

from roofline.diagnosis.assessment import Assessment, CardState
from roofline.show.assessment import cards_table, findings_text
from roofline.show.terminal import text

_AROUND = 10  # lines around the table


def watch_text(found: Assessment | None, silent: str, height: int = 74) -> RenderableType:
    """The cards of the last minute and the findings on them; `silent` says why the last answer did not come."""
    if found is None:
        return text(silent or "No answer in the last minute.", "red")
    cards = [each for each in found.rows if isinstance(each, CardState)]
    blocks: list[RenderableType] = [
        text(f"{found.source}  {time.strftime('%H:%M:%S')}, means of the last minute", "bold"),
        text(found.verdict),
        text(),
        cards_table(cards, max(height - _AROUND, 8)),
    ]
    if silent:
        blocks.append(text(silent, "red"))
    room = height - _AROUND - len(cards)
    return Group(*blocks, *findings_text(found.findings[: max(room // 4, 0)]))
