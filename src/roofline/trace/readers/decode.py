"""Text of events to columns: in parts that fit a cache, decoded by the category of each event, mended where faulty.

A piece is decoded on its own, in this process or another one, which may read it from the file itself.
"""

from __future__ import annotations

import gc
import os
import re
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from roofline.trace.readers.columns import Batch, Fill
from roofline.trace.readers.records import ERRORS, Row, events_of
from roofline.trace.readers.seams import next_seam
from roofline.units import MIB

_OPEN, _CLOSE = b"[]"
_PART = MIB // 2  # [byte] what its events become fits the cache of a core


@dataclass(frozen=True, slots=True)
class Place:
    """A file that lies here as it is, unpacked: so much of it as there was when it was opened."""

    path: str
    size: int  # [byte]
    inode: tuple[int, int]  # with its file system: it may grow, but not become another file

    @staticmethod
    def of(path: str, descriptor: int) -> Place:
        """The place of an open file."""
        stat = os.fstat(descriptor)
        return Place(path, stat.st_size, (stat.st_dev, stat.st_ino))

    def same(self, descriptor: int) -> bool:
        """Whether an open file is still the one that was there."""
        now = Place.of(self.path, descriptor)
        return now.inode == self.inode and now.size >= self.size


def decode_range(place: Place, begin: int, end: int, closed: bool) -> Batch:
    """The columns of a range of a file; raises OSError where the file cannot be read here, or is another one."""
    text = _room(end - begin + 1 + closed)
    with open(place.path, "rb", buffering=0) as file:
        if not place.same(file.fileno()):
            raise OSError("the file has changed")
        file.seek(begin)
        view = text[1 : end - begin + 1]
        while len(view):
            count = file.readinto(view)
            if not count:
                raise OSError("the file has changed")
            view = view[count:]
    text[0] = _OPEN
    if closed:
        text[-1] = _CLOSE
    found = decode(text, closed)
    if found.end is not None:
        found.end += begin - 1  # in the file
    return found


_own = threading.local()


def _room(size: int) -> memoryview:
    """Memory that was used before where there is some, as new pages cost as much as to read into them."""
    if len(getattr(_own, "room", b"")) < size:
        _own.room = bytearray(size + size // 4)
    return memoryview(_own.room)[:size]


def decode(text: bytearray | memoryview, closed: bool) -> Batch:
    """The columns of a piece: a bracket, whole events with commas between them, and, where `closed`, a bracket.

    Where the array ends within it, `end` says where; what is not closed is the end of the file.
    """
    batch = Batch()
    fill = Fill(batch, getattr(_own, "as_text", False))  # as the piece before, which is mostly of the same file
    with _still():
        for part, at, last in _parts(text):
            _decode(fill, part, closed or not last)
            if batch.end is not None:
                batch.end += at
                break
        fill.close()
    _own.as_text = fill.as_text
    return batch


@contextmanager
def _still() -> Generator[None]:
    """Without the collector of cycles: a part is thousands of objects, and none is in one."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _parts(text: bytearray | memoryview) -> Iterator[tuple[memoryview, int, bool]]:
    """Parts of a piece, each in brackets like the piece itself, where it begins, and whether it is the last one."""
    at, whole = 0, memoryview(text)
    first = whole[0]
    while len(whole) - at > 2 * _PART and (seam := next_seam(text, at + _PART)) is not None:
        end, begin = seam
        after, whole[end] = whole[end], _CLOSE
        yield whole[at : end + 1], at, False
        whole[end] = after
        whole[at] = first  # the text is as it was
        at, first = begin - 1, whole[begin - 1]
        whole[at] = _OPEN
    yield whole[at:], at, True
    whole[at] = first


def _decode(fill: Fill, text: memoryview, closed: bool) -> None:
    try:
        events = events_of(text, fill.as_text)
    except ERRORS as error:
        own = bytes(text)
        fill.add(*_mended(own, error, fill.batch, closed))
        return
    if not closed:  # a list alone, or an object that lacks its end
        fill.batch.end = len(bytes(text).rstrip()) - 1
    fill.add(text, events)


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
    batch.lost += saved.lost
    batch.notes.update(saved.notes)
    if batch.end is None and saved.end is not None:
        batch.end = saved.end + 1
    return text, saved.events
