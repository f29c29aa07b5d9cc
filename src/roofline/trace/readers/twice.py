"""Keys that stand twice in one object of an event: of such the last counts, as for any JSON reader, and it is said.

No reader of JSON counts keys, so a text is decoded once more for it, which costs: only the beginning is looked at.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, cast

import msgspec

from roofline.trace.readers.records import ERRORS
from roofline.trace.readers.seams import last_seam
from roofline.units import MIB

LOOKED_AT = MIB  # [byte] from the first event on
_KEY = re.compile(rb"\"\s*:")


def twice(text: bytes) -> Counter[str]:
    """How often each key stands in one object more than once, in sound JSON."""
    found: Counter[str] = Counter()
    try:
        value = msgspec.json.decode(text)
        if _keys(value) == len(_KEY.findall(text)):
            return found
        json.loads(text, object_pairs_hook=lambda pairs: _counted(pairs, found))
    except ERRORS:  # faulty text is mended elsewhere
        found.clear()
    return found


def beginning(text: bytes) -> bytes:
    """The first events of a text as a list; one that is not short may end within an event."""
    if len(text) < LOOKED_AT:
        return text + b"]"
    end = last_seam(text)
    return text[: end or 1] + b"]"


def _keys(value: Any) -> int:
    """How many keys a value has, at any depth."""
    count, open_ = 0, [value]
    while open_:
        each = open_.pop()
        if type(each) is dict:
            known = cast("dict[str, Any]", each)
            count += len(known)
            open_ += [inner for inner in known.values() if type(inner) is dict or type(inner) is list]
        else:
            open_ += [inner for inner in each if type(inner) is dict or type(inner) is list]
    return count


def _counted(pairs: list[tuple[str, Any]], found: Counter[str]) -> None:
    if len(dict(pairs)) < len(pairs):
        found.update(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
