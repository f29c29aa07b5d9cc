"""Memory that other processes of this machine see: text for them to decode, and room for what they answer.

It is a file without a name, which they open by way of this process: it leaves nothing behind, however this one ends.
A pipe would hold some thousand bytes, and let whoever writes into it wait for whoever reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from roofline.trace.readers.decode import Place
from roofline.trace.readers.seams import Text
from roofline.units import MIB

_ROOM = 8 * MIB  # [byte] what is lent is a multiple of it


@dataclass(frozen=True, slots=True)
class Room:
    """A stretch of the memory."""

    place: Place
    at: int
    size: int

    def write(self, data: bytes) -> bool:
        """Write from its beginning on; False where it is too small, or this process cannot see it."""
        if len(data) > self.size:
            return False
        try:
            descriptor = os.open(self.place.path, os.O_WRONLY)
        except OSError:
            return False
        try:
            return self.place.same(descriptor) and _written(descriptor, data, self.at)
        finally:
            os.close(descriptor)

    def read(self, size: int) -> bytes:
        """What is written at its beginning; raises OSError."""
        with open(self.place.path, "rb", buffering=0) as file:
            return os.pread(file.fileno(), size, self.at)


class Shelf:
    """Rooms that are lent and given back."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._able = hasattr(os, "memfd_create")  # Linux
        self._size = 0
        self._free: dict[int, list[int]] = {}  # where there is room, by how much

    @property
    def _path(self) -> str:
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def lend(self, size: int) -> Room | None:
        """Room for so much [byte]; None where the system has no such memory."""
        if not self._able:
            return None
        size = -(-size // _ROOM) * _ROOM
        try:
            if self._descriptor is None:
                self._descriptor = os.memfd_create("roofline")
                with open(self._path, "rb"):  # where /proc is not to be seen, nobody finds it
                    pass
            free = self._free.setdefault(size, [])
            if not free:
                os.ftruncate(self._descriptor, self._size + size)
                free.append(self._size)
                self._size += size
            place = replace(Place.of(self._path, self._descriptor), size=0)  # whatever its size is: it grows
        except OSError:
            self._able = False
            return None
        return Room(place, free.pop(), size)

    def put(self, parts: Iterable[Text], size: int) -> Room | None:
        """Room that holds this text; None where there is none."""
        room = self.lend(size)
        if room is None or self._descriptor is None:
            return None
        at = room.at
        for part in parts:
            if not _written(self._descriptor, part, at):
                self._able = False
                return None
            at += len(part)
        return room

    def give(self, room: Room) -> None:
        """The room may be lent again."""
        self._free[room.size].append(room.at)

    def close(self) -> None:
        """Give the memory back."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
        self._descriptor, self._able = None, False


def _written(descriptor: int, data: Text, at: int) -> bool:
    view = memoryview(data)
    try:
        while view:
            count = os.pwrite(descriptor, view, at)
            view, at = view[count:], at + count
    except OSError:  # no memory is left
        return False
    return True
