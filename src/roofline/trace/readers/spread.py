"""Pieces of a trace's text decoded in order: here, and by other processes where an executor leads to some.

These are told ranges of bytes, which they read themselves: of the file, where it lies here unpacked, else of memory
that both see. Text is sent to them only where a system has no such memory.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, Protocol, cast

from roofline.errors import RooflineError
from roofline.trace.readers.columns import Batch, narrowed
from roofline.trace.readers.decode import Place, decode, decode_range
from roofline.trace.readers.pieces import MOST_EVENT, endless
from roofline.trace.readers.seams import Text, next_seam
from roofline.trace.readers.shelf import Room, Shelf
from roofline.units import MIB

RANGE = 4 * MIB
_ALONE = RANGE  # [byte] before others are given anything
_BUNDLE = 2  # pieces that a worker is given at once: what they name alike it sends once
_AHEAD = 2  # bundles in the hands of each worker
_MOST_WAITING = 32 * MIB  # of text that waits for an earlier one, beside what workers have in their hands
_SEEN = 64 << 10  # [byte] in which the end of an event is sought first

Call = tuple[Callable[..., Batch], tuple[Any, ...]]


class Work(Protocol):
    """A piece to decode."""

    @property
    def size(self) -> int:
        """How long its text is [byte]."""
        ...

    def call(self) -> Call:
        """What decodes it, wherever it is called."""
        ...

    def after(self, end: int | None) -> bytes:
        """Its text after the bracket at `end` that closes the array of events; all of it for None."""
        ...

    def first(self, count: int) -> bytes:
        """The first bytes of its text, with a bracket before them."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Text in memory, in parts."""

    parts: list[Text]
    closed: bool  # it was cut, and the file does not end with it

    @property
    def size(self) -> int:
        """How long its text is [byte]."""
        return sum(map(len, self.parts))

    def call(self) -> Call:
        """What decodes it, wherever it is called."""
        return decode, (bytearray().join((b"[", *self.parts, b"]" if self.closed else b"")), self.closed)

    def after(self, end: int | None) -> bytes:
        """Its text after the bracket at `end`, counted with the one before it; all of it for None."""
        return b"".join(self.parts)[0 if end is None else end - 1 :]

    def first(self, count: int) -> bytes:
        """The first bytes of its text, with a bracket before them."""
        return b"".join((b"[", *self.parts))[:count]


@dataclass(frozen=True, slots=True)
class Range:
    """Text in a file."""

    place: Place
    begin: int
    end: int
    closed: bool

    @property
    def size(self) -> int:
        """How long its text is [byte]."""
        return self.end - self.begin

    def call(self) -> Call:
        """What decodes it, wherever it is called."""
        return decode_range, (self.place, self.begin, self.end, self.closed)

    def after(self, end: int | None) -> bytes:
        """Its text after the bracket at `end`, counted from where the file begins; all of it for None."""
        at = self.begin if end is None else end
        with open(self.place.path, "rb") as file:
            file.seek(at)
            return file.read(self.end - at)

    def first(self, count: int) -> bytes:
        """The first bytes of its text, with a bracket before them."""
        with open(self.place.path, "rb") as file:
            file.seek(self.begin)
            return b"[" + file.read(min(count, self.end - self.begin))


def ranges(place: Place, begin: int, name: str) -> Iterator[Range]:
    """The events of a file from `begin` on as ranges that end between two events; raises TraceError, OSError."""
    size = place.size
    with open(place.path, "rb", buffering=0) as file:
        if not place.same(file.fileno()):
            raise OSError("the file has changed")
        while size - begin > 2 * RANGE and (seam := _seam(cast(BinaryIO, file), begin + RANGE, name)) is not None:
            end, following = seam
            yield Range(place, begin, end, True)
            begin = following
    if begin < size:
        yield Range(place, begin, size, False)


def _seam(file: BinaryIO, start: int, name: str) -> tuple[int, int] | None:
    """Where the first event ends after `start`, and where the next one begins."""
    length = _SEEN
    while True:
        file.seek(start)
        text = file.read(length)
        if (found := next_seam(text, 0)) is not None:
            return start + found[0], start + found[1]
        if len(text) < length:
            return None
        if length > MOST_EVENT:
            raise endless(name)
        length *= 8


@dataclass(slots=True)
class _Bundle:
    """Pieces in the hands of a worker, or decoded here."""

    pieces: list[Work]
    answer: Future[bytes | int] | list[Batch]
    rooms: list[Room]  # that hold their text
    room: Room | None = None  # for the answer

    @property
    def size(self) -> int:
        """How long the text of its pieces is [byte]."""
        return sum(each.size for each in self.pieces)

    @property
    def ready(self) -> bool:
        """Whether its columns are there."""
        return isinstance(self.answer, list) or self.answer.done()

    def batches(self) -> list[Batch]:
        """The columns of each piece, once they are there."""
        if isinstance(self.answer, list):
            return self.answer
        try:
            answer = self.answer.result()
            if isinstance(answer, int):
                assert self.room is not None  # where the answer was written
                answer = self.room.read(answer)
            return pickle.loads(answer)
        except RooflineError:
            raise
        except Exception:  # a worker does not see the file, lacks this package, or is gone: it is done here
            return _here(self.pieces)


def spread(pieces: Iterable[Work], executor: Executor | None, workers: int) -> Iterator[tuple[Work, Batch]]:
    """Each piece with its columns, in order; those that no worker is free for are decoded here."""
    waiting: deque[_Bundle] = deque()
    read = 0
    most = _MOST_WAITING + 2 * workers * _AHEAD * _BUNDLE * RANGE
    shelf = Shelf()
    pieces = iter(pieces)
    try:
        for piece in pieces:
            if executor is not None and read > _ALONE and sum(not each.ready for each in waiting) < _AHEAD * workers:
                bundle = _sent([piece, *islice(pieces, _BUNDLE - 1)], executor, shelf)
                if isinstance(bundle.answer, list):  # nobody takes work any more
                    executor = None
            else:
                bundle = _Bundle([piece], _here([piece]), [])
            read += bundle.size
            waiting.append(bundle)
            while waiting and (waiting[0].ready or sum(each.size for each in waiting) > most):
                yield from _taken(waiting, shelf)
        while waiting:
            yield from _taken(waiting, shelf)
    finally:
        for each in waiting:
            if isinstance(each.answer, Future):
                each.answer.cancel()
        shelf.close()


def ready() -> None:
    """What a worker does first: load what it will need."""
    import numpy as np

    np.zeros(1)


def away(calls: list[Call], room: Room | None) -> bytes | int:
    """What a worker does: the columns of some pieces, pickled, or how long they are where there is room for them."""
    known: dict[Any, Any] = {}
    batches: list[Batch] = []
    for function, arguments in calls:
        batch = function(*arguments)
        batch.roles = {role: [narrowed(each) for each in parts] for role, parts in batch.roles.items()}
        batch.names = [known.setdefault(each, each) for each in batch.names]  # one object is sent once
        batch.details = [known.setdefault(each, each) for each in batch.details]
        batches.append(batch)
    answer = pickle.dumps(batches, pickle.HIGHEST_PROTOCOL)
    return len(answer) if room is not None and room.write(answer) else answer


def _sent(pieces: list[Work], executor: Executor, shelf: Shelf) -> _Bundle:
    """Pieces given to a worker: text that lies in no file on a shelf, where there is one."""
    seen: list[Work] = []
    rooms: list[Room] = []
    for each in pieces:
        if isinstance(each, Piece) and (room := shelf.put(each.parts, each.size)) is not None:
            rooms.append(room)
            seen.append(Range(room.place, room.at, room.at + each.size, each.closed))
        else:
            seen.append(each)
    room = shelf.lend(1)
    try:
        return _Bundle(seen, executor.submit(away, [each.call() for each in seen], room), rooms, room)
    except RuntimeError:  # a worker was ended, and with it all of them
        return _Bundle(seen, _here(seen), rooms, room)


def _here(pieces: list[Work]) -> list[Batch]:
    return [function(*arguments) for function, arguments in (each.call() for each in pieces)]


def _taken(waiting: deque[_Bundle], shelf: Shelf) -> Iterator[tuple[Work, Batch]]:
    bundle = waiting.popleft()
    yield from zip(bundle.pieces, bundle.batches(), strict=True)
    for room in (*bundle.rooms, bundle.room):
        if room is not None:
            shelf.give(room)
