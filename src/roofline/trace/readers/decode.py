"""One piece of text to columns: decoded by the category of each event, mended where it is faulty.

A piece is decoded on its own, in this process or another one.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from roofline.trace.readers.columns import Batch, Fill
from roofline.trace.readers.records import ERRORS, Row, events_of


def decode(text: bytes | bytearray | memoryview, closed: bool) -> Batch:
    """The columns of a piece: a bracket, whole events with commas between them, and, where `closed`, a bracket.

    Where the array ends within it, `end` says where; what is not closed is the end of the file.
    """
    with _still():
        return _decode(text, closed)


@contextmanager
def _still() -> Generator[None]:
    """Without the collector of cycles: a piece is thousands of objects, and none is in one."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _decode(text: bytes | bytearray | memoryview, closed: bool) -> Batch:
    batch = Batch()
    events: Sequence[Row]
    try:
        events = events_of(text)
    except ERRORS as error:
        text, events = _mended(bytes(text), error, batch, closed)
    else:
        if not closed:  # a list alone, or an object that lacks its end
            batch.end = len(bytes(text).rstrip()) - 1
    Fill(batch, lambda: bytes(text), events).all()
    return batch


_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")


def _mended(text: bytes, error: Exception, batch: Batch, closed: bool) -> tuple[bytes, Sequence[Row]]:
    """The events of a piece that does not decode as it stands: the array ends within it, or it is faulty."""
    from roofline.trace.readers.salvage import array_end, salvage

    found = _TRAILING.search(str(error))
    end = text.rfind(b"]", 0, int(found[1]) - 1) if found else array_end(text, closed)
    if end is not None and end > 0:
        batch.end, text = end, text[: end + 1]
        try:
            return text, events_of(text)
        except ERRORS:
            pass
    inner = text[1:-1] if closed or batch.end is not None else text[1:]
    saved = salvage(inner, not closed and batch.end is None)
    batch.lost = saved.lost
    batch.notes.update(saved.notes)
    if batch.end is None and saved.end is not None:
        batch.end = saved.end + 1
    return text, saved.events
