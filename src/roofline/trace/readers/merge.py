"""Batches of pieces put together: one numbering of names, details and lanes, one table for each role.

A column grows in one stretch of memory: thousands of small ones would leave holes that no later one fits.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from roofline.files import printable
from roofline.trace.events import COPY, KERNEL, NONE, SET, Activities, Ranges
from roofline.trace.readers.columns import Batch, Columns, narrow
from roofline.trace.readers.twice import beginning, twice
from roofline.trace.readers.words import DEVICE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_KINDS = {"kernel": KERNEL, "copy": COPY, "set": SET}
_SHORT = ("name", "detail", "kind", "thread")  # columns of 32 bits; the others have 64
_COMPARED = ("number", "external", "device", "lane", "sequence")
_HOST = ("name", "thread", "number", "detail")
_DEVICE = ("name", "kind", "device", "lane", "number", "external", "moved", "detail")


class Table:
    """Columns that grow."""

    def __init__(self) -> None:
        self._columns: dict[str, bytearray] = {}

    def add(self, **columns: Ints) -> None:
        """Add rows at the end."""
        import numpy as np

        for name, column in columns.items():
            kind = np.int32 if name in _SHORT else np.int64
            stretch = self._columns.setdefault(name, bytearray())
            stretch += np.ascontiguousarray(column, kind).data

    def __len__(self) -> int:
        return len(self._columns.get("start", b"")) // 8

    def take(self, name: str) -> Ints:
        """A column, which is taken out of the table."""
        import numpy as np

        return np.frombuffer(self._columns.pop(name, bytearray()), np.int32 if name in _SHORT else np.int64)

    def sorted(self, *names: str) -> list[Ints]:
        """Start, duration and these columns, by start and, where that is equal, the longest first; all are taken."""
        import numpy as np

        start, duration = self.take("start"), self.take("duration")
        order = np.argsort(start, kind="stable")  # fast, as a file is mostly in order
        starts, durations = start[order], duration[order]
        if ((starts[1:] == starts[:-1]) & (durations[1:] > durations[:-1])).any():
            del starts, durations
            order = np.lexsort((-duration, start))
            starts, durations = start[order], duration[order]
        del start, duration
        return [starts, durations, *(_short(name, self.take(name)[order]) for name in names)]


def _short(name: str, column: Ints) -> Ints:
    """A column; of numbers that are only compared, a narrow one."""
    return narrow(column) if name in _COMPARED else column


class Merged:
    """What all pieces hold so far."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything, as if no event had come."""
        self.read = self.lost = 0
        self.ended = False
        self.wrapped = ""
        self.names: dict[str | None, int] = {}
        self.details: dict[bytes, int] = {}
        self.lanes: dict[tuple[Any, Any], int] = {}
        self.tables: dict[str, Table] = {}
        self.used: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()

    def look(self, text: bytes) -> None:
        """Look at the text of the first events for what decoding them does not find."""
        for key, count in twice(beginning(text)).most_common(3):
            self.notes[f"the key {printable(key)[:40]!r} stands twice in an event: the last was taken"] += count

    def add(self, batch: Batch) -> None:
        """Add what one piece holds."""
        self.read += batch.read
        self.lost += batch.lost
        self.left_out.update(batch.left_out)
        self.notes.update(batch.notes)
        self.wrapped = self.wrapped or batch.wrapped
        self.ended = batch.end is not None
        names = _renumbered(self.names, batch.names)
        details = _renumbered(self.details, batch.details)
        lanes = _renumbered(self.lanes, batch.lanes)
        for role, parts in batch.roles.items():
            for columns in parts:
                self._add(role, columns, (names, details, lanes))

    def _add(self, role: str, columns: Columns, numbers: tuple[Ints, Ints, Ints]) -> None:
        import numpy as np

        names, details, lanes = numbers
        count = len(columns.start)
        self.used[role] += count
        none = np.full(count, NONE, np.int32)
        known = {
            "start": columns.start,
            "duration": columns.duration,
            "name": names[columns.name],
            "number": columns.number,
            "detail": none if columns.detail is None else details[columns.detail],  # the last one is NONE
        }
        table = self.tables.setdefault(role, Table())
        if role not in DEVICE:
            if columns.sequence is not None:
                known["sequence"] = columns.sequence
            table.add(**known, thread=lanes[columns.lane])
            return
        rest = {name: getattr(columns, name) for name in ("external", "device", "moved")}
        table.add(**known, **rest, lane=columns.lane, kind=np.full(count, _KINDS[role], np.int32))

    def activities(self) -> Activities:
        """What ran on devices; it is taken."""
        together = self.tables.pop("kernel", Table())
        for role in DEVICE[1:]:  # wherever the text was cut, in this order
            table = self.tables.pop(role, Table())
            together.add(**{name: table.take(name) for name in ("start", "duration", *_DEVICE)})
        return Activities(*together.sorted(*_DEVICE))

    def ranges(self, role: str) -> Ranges:
        """What the host did in a role; it is taken."""
        names = (*_HOST, "sequence") if role == "op" else _HOST
        return Ranges(*self.tables.pop(role, Table()).sorted(*names))


def _renumbered(known: dict[Any, int], news: list[Any]) -> Ints:
    """The number that each of `news` has among all, and NONE at the end, where the index NONE leads."""
    import numpy as np

    return np.array([*(known.setdefault(each, len(known)) for each in news), NONE], np.int32)
