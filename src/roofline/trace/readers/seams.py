"""Where the text of events can be cut: between two events, which no string can hold, as its quote would be escaped."""

from __future__ import annotations

import re
from collections import deque

# An event begins with one of its keys; objects within arguments mostly do not.
_EVENT = re.compile(rb"\}\s*,\s*\{\s*\"(?:ph|name|pid|cat|ts|args|tid|dur|id|s|bp|tts|sf|cname|bind_id)\"\s*:")
_ANY = re.compile(rb"\}\s*,\s*\{\s*\"")
# A string or a bracket; a string that does not end before the text does is one without its group. It must match, as
# a search that fails at one quote would begin again at each one that is escaped within.
_WITHIN = rb'[^"\\]*(?:\\.[^"\\]*)*(?:(")|(?=\\?\Z))'
TOKEN = re.compile(rb'"' + _WITHIN + rb"|[{}\[\]]", re.DOTALL)
WITHIN = re.compile(_WITHIN, re.DOTALL)  # the rest of a string that began before
_WINDOW = 16 << 10  # [byte] in which a seam is sought first

Text = bytes | bytearray | memoryview


def last_seam(text: Text, strange: bool = False) -> int | None:
    """The offset after the last event that is whole; what follows begins with its comma.

    `strange`: an event may begin with any key, and so may objects within one be taken for events.
    """
    for seam, window in ((_EVENT, _WINDOW), (_EVENT, len(text)), *(((_ANY, len(text)),) if strange else ())):
        found = deque(seam.finditer(text, max(0, len(text) - window)), 1)
        if found:
            return found[0].start() + 1
    return None


def next_seam(text: Text, start: int) -> tuple[int, int] | None:
    """The offsets after the first event that ends at `start` or later, and of the event that follows it."""
    found = _EVENT.search(text, start)
    if found is None:
        return None
    return found.start() + 1, found.start() + found[0].index(b"{")
