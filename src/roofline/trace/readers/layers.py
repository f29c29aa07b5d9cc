"""What unpackers of packed streams are made of: streams, their faults, and what they need beside the stream."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from roofline.errors import TraceError, one_line
from roofline.units import MIB

CHUNK = MIB // 2  # [byte] that a layer reads ahead
WINDOW = 1 << 27  # [byte] that zstd and xz may look back


class Damaged(Exception):
    """A packed stream that cannot be unpacked further."""


BROKEN: tuple[type[BaseException], ...] = (Damaged, EOFError, zlib.error)


@dataclass(slots=True)
class Unpacking:
    """What unpackers need beside the stream: its printable name, what closes at the end, where notes go.

    `allow` raises where a stream has given more bytes than it may.
    """

    name: str
    stack: ExitStack
    allow: Callable[[int], None]
    notes: list[str] = field(default_factory=list[str])
    packed: list[str] = field(default_factory=list[str])  # how, from the outside inwards


class Through(io.RawIOBase):
    """A stream that is read by way of another one, and stands where that one does."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Whether the other one is."""
        return self._raw.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go there in the other one."""
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        """Where the other one is."""
        return self._raw.tell()


class Stream(io.RawIOBase):
    """A stream of what `_data` gives; it may give more than asked for."""

    def __init__(self) -> None:
        self._out = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill what there is into `buffer`; raises Damaged."""
        if not self._out:
            self._out = self._data(len(buffer))
        part = self._out[: len(buffer)]
        self._out = self._out[len(part) :]
        buffer[: len(part)] = part
        return len(part)

    def _data(self, room: int) -> bytes:
        """Some more bytes, none at the end; raises Damaged at a fault."""
        raise NotImplementedError


def wrong(name: str, error: BaseException) -> Exception:
    """What an unpacker's error is: Damaged, or TraceError where it would need more memory than it may have."""
    if "memory" in str(error).lower():
        return TraceError(f"{name} takes more than {WINDOW // MIB} MiB of memory to unpack. Unpack it first.")
    return Damaged(one_line(error))


class Guarded(Stream):
    """An unpacking stream whose own errors become Damaged."""

    def __init__(self, stream: Any, name: str, *errors: type[BaseException]) -> None:
        super().__init__()
        self._stream, self._name, self._errors = stream, name, errors

    def _data(self, room: int) -> bytes:
        try:
            return self._stream.read(min(room, CHUNK))
        except (*self._errors, *BROKEN) as error:
            raise wrong(self._name, error) from None
