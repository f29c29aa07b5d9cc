"""Numbers as tools write them in any locale: `9,589,248`, `1.234,5`, `12 345,6`, `1'234.5`, `n/a`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

_SPACES = re.compile(r"[\s\u00a0\u202f\u2009'\u2019_]")
_NUMBER = re.compile(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d{1,3})?\Z")
_LONGEST = 64  # characters of a number; looking at what is longer would take its square
_GROUPED = {
    ".": re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+\Z"),
    ",": re.compile(r"[+-]?\d{1,3}(?:,\d{2,3})*,\d{3}\Z"),
}


def decimal_mark(texts: Iterable[str]) -> str:
    """The decimal mark of a file, "." or ",", by its numbers: one that can be read one way only decides.

    Where none does it is the point, as tools write unless a locale tells them otherwise.
    """
    votes = {".": 0, ",": 0}
    for text in texts:
        mark = _vote(_SPACES.sub("", text))
        if mark:
            votes[mark] += 1
    return "," if votes[","] > votes["."] else "."


def _vote(text: str) -> str:
    """The decimal mark that a number must have, or "" where both can be read."""
    dots, commas = text.count("."), text.count(",")
    if not (dots or commas) or len(text) > _LONGEST or not _NUMBER.match(text):
        return ""
    if dots and commas:
        return "," if text.rindex(",") > text.rindex(".") else "."
    if dots > 1:
        return ","
    if commas > 1:
        return "."
    mark = "." if dots else ","
    whole, _, after = text.partition(mark)
    alike = len(after) == 3 and 1 <= len(whole.lstrip("+-")) <= 3 and whole.lstrip("+-") != "0"
    return "" if alike else mark


def number(text: str, mark: str = ".") -> float | None:
    """The number that `text` states, or None where it is none (n/a, nan, a word)."""
    cleaned = _SPACES.sub("", text)
    if len(cleaned) > _LONGEST or not _NUMBER.match(cleaned):
        return None
    group = "," if mark == "." else "."
    if group in cleaned:
        if not _GROUPED[group].match(cleaned.partition(mark)[0].partition("e")[0]):
            return None
        cleaned = cleaned.replace(group, "")
    try:
        value = float(cleaned.replace(mark, "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
