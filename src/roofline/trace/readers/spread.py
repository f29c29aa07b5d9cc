"""Pieces of a trace's text decoded in order: here, and by other processes where an executor leads to some.

A file that lies here unpacked is told to them as ranges of bytes, which they read themselves; other text is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, cast

from roofline.errors import TraceError
from roofline.trace.readers.columns import Batch, narrowed
from roofline.trace.readers.decode import Place, decode, decode_range
from roofline.trace.readers.seams import next_seam
from roofline.units import MIB

RANGE = 4 * MIB
_ALONE = 16 * MIB  # [byte] before other processes are started
_AHEAD = 2  # pieces in the hands of each worker
_SEEN = 64 << 10  # [byte] in which the end of an event is sought first
_MOST_EVENT = 64 * MIB


class Work(Protocol):
    """A piece to decode."""

    @property
    def size(self) -> int:
        """How long its text is [byte]."""
        ...

    def call(self) -> tuple[Callable[..., Batch], tuple[Any, ...]]:
        """What decodes it, wherever it is called."""
        ...

    def after(self, end: int) -> bytes:
        """Its text after the bracket at `end` that closes the array of events."""
        ...

    def first(self, count: int) -> bytes:
        """The first bytes of its text, with a bracket before them."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Text in memory, in brackets or, where the file ends with it, after one."""

    text: bytearray
    closed: bool

    @property
    def size(self) -> int:
        """How long its text is [byte]."""
        return len(self.text)

    def call(self) -> tuple[Callable[..., Batch], tuple[Any, ...]]:
        """What decodes it, wherever it is called."""
        return decode, (self.text, self.closed)

    def after(self, end: int) -> bytes:
        """Its text after the bracket at `end` that closes the array of events."""
        return bytes(self.text[end : -1 if self.closed else None])

    def first(self, count: int) -> bytes:
        """The first bytes of its text, with a bracket before them."""
        return bytes(self.text[:count])


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

    def call(self) -> tuple[Callable[..., Batch], tuple[Any, ...]]:
        """What decodes it, wherever it is called."""
        return decode_range, (self.place, self.begin, self.end, self.closed)

    def after(self, end: int) -> bytes:
        """Its text after the bracket at `end` that closes the array of events."""
        with open(self.place.path, "rb") as file:
            file.seek(end)
            return file.read(self.end - end)

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
        if length > _MOST_EVENT:
            raise TraceError(f"{name} has {_MOST_EVENT // MIB} MiB without the end of an event, as no trace has.")
        length *= 8


Waiting = tuple[Work, "Batch | Future[Batch]"]


def spread(pieces: Iterable[Work], executor: Executor | None, workers: int) -> Iterator[tuple[Work, Batch]]:
    """Each piece with its columns, in order; those that no worker is free for are decoded here."""
    waiting: deque[Waiting] = deque()
    read = 0
    try:
        for piece in pieces:
            busy = sum(isinstance(batch, Future) and not batch.done() for _, batch in waiting)
            read += piece.size
            function, arguments = piece.call()
            if executor is not None and read > _ALONE and busy < _AHEAD * workers:
                waiting.append((piece, executor.submit(away, function, *arguments)))
            else:
                waiting.append((piece, function(*arguments)))
            while waiting and (_ready(waiting[0][1]) or len(waiting) > 2 * _AHEAD * workers + 2):
                yield _taken(waiting)
        while waiting:
            yield _taken(waiting)
    finally:
        for _, batch in waiting:
            if isinstance(batch, Future):
                batch.cancel()


def away(function: Callable[..., Batch], *arguments: Any) -> Batch:
    """What a worker does: the columns of a piece, small as they are sent back."""
    batch = function(*arguments)
    batch.roles = {role: [narrowed(each) for each in parts] for role, parts in batch.roles.items()}
    return batch


def _ready(batch: Batch | Future[Batch]) -> bool:
    return not isinstance(batch, Future) or batch.done()


def _taken(waiting: deque[Waiting]) -> tuple[Work, Batch]:
    piece, batch = waiting.popleft()
    if not isinstance(batch, Future):
        return piece, batch
    try:
        return piece, batch.result()
    except (OSError, BrokenExecutor):  # a worker that does not see the file, or is gone: it is done here
        function, arguments = piece.call()
        return piece, function(*arguments)
