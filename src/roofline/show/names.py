"""Names from files as text that may be shown: nothing in them moves a cursor, turns a line around or hides."""

from __future__ import annotations

_LONGEST = 200


def visible(name: str, most: int = _LONGEST) -> str:
    """`name` with control and direction characters as escapes, cut after `most` characters."""
    cut = name if len(name) <= most else f"{name[: most - 1]}…"
    return cut if cut.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut)
