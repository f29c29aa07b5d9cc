"""What is put together while an export is read: names by number, columns that grow, and what is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.trace.events import NONE
from roofline.trace.memory import give_back
from roofline.trace.readers.sqlite import Tables, text_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

KERNELS, CALLS, NVTX = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
STRINGS = "StringIds"
BITS = 31  # of a correlation id
LATEST = 1 << 62  # [ns]
MOST_NAMES = 1 << 18  # distinct names of ranges that are kept apart
TOO_MANY = "(one of too many names)"
_LONGEST_NAME = 1 << 13
_PID = ~0xFFFFFF  # a thread's global id without its lowest 24 bits is its process's
_VERSION = re.compile(r"_v\d{3,}\Z")
_TOGETHER = 1 << 19  # rows
_FEW = 2000  # ids that are looked up by name rather than by reading all strings
Columns = dict[str, Any]


class Numbered:
    """Whole numbers by the order in which they first came."""

    def __init__(self) -> None:
        import numpy as np

        self.values: list[int] = []
        self._sorted = np.zeros(0, np.int64)
        self._number = np.zeros(0, np.int64)

    def of(self, values: Ints) -> Ints:
        """The number of each value."""
        import numpy as np

        if not len(values):
            return np.zeros(0, np.int64)
        at = self._at(values)
        strange = np.ones(len(values), bool) if not len(self._sorted) else self._sorted[at] != values
        if strange.any():
            fresh = np.unique(values[strange])
            self._sorted = np.concatenate([self._sorted, fresh])
            self._number = np.concatenate([self._number, len(self.values) + np.arange(len(fresh))])
            self.values += fresh.tolist()
            order = np.argsort(self._sorted)
            self._sorted, self._number = self._sorted[order], self._number[order]
            at = self._at(values)
        return self._number[at]

    def _at(self, values: Ints) -> Ints:
        import numpy as np

        return np.minimum(np.searchsorted(self._sorted, values), max(len(self._sorted) - 1, 0))


class Words:
    """Names, numbered as they come: texts, and ids of strings whose texts are looked up at the end."""

    def __init__(self) -> None:
        self.numbers: dict[str | int, int] = {}
        self._ids = Numbered()
        self._known: list[int] = []  # the number of each of the ids

    def number(self, name: str | int) -> int:
        """The number of a text or of a string's id."""
        if name not in self.numbers and len(self.numbers) >= MOST_NAMES:
            name = TOO_MANY
        return self.numbers.setdefault(name if isinstance(name, int) else name[:_LONGEST_NAME], len(self.numbers))

    def of(self, ids: Ints) -> Ints:
        """The numbers of an array of ids."""
        import numpy as np

        at = self._ids.of(ids)
        self._known += map(self.number, self._ids.values[len(self._known) :])
        return np.array([*self._known, 0], np.int32)[at]

    def texts(self, there: Tables) -> tuple[str, ...]:
        """Every name by its number; a call of the runtime is without the version that its name ends with."""
        found = strings(there, {each for each in self.numbers if isinstance(each, int)})
        return tuple(
            each if isinstance(each, str) else _VERSION.sub("", found.get(each, "(name not in the file)"))
            for each in self.numbers
        )


def strings(there: Tables, wanted: set[int]) -> dict[int, str]:
    """The texts of these ids."""
    found: dict[int, str] = {}
    if wanted and there.has(STRINGS, "id", "value"):
        few = f'"id" IN ({", ".join(map(str, sorted(wanted)))})' if len(wanted) <= _FEW else ""
        for chunk in there.rows(STRINGS, ("id", "value"), few):
            found.update((ident, text_of(value)[:_LONGEST_NAME]) for ident, value in chunk if ident in wanted)
    return found


class Store:
    """Columns that grow by chunks, each in the smallest type that holds it."""

    def __init__(self, *names: str) -> None:
        self.parts: dict[str, list[Any]] = {name: [] for name in names}
        self._loose = 0  # rows of chunks that are not yet put together
        self._whole = 0  # parts that are

    def add(self, **columns: Any) -> None:
        """Add a chunk to every column."""
        for name, values in columns.items():
            self.parts[name].append(values if name == "start" else small(values))
        self._loose += len(columns["start"])
        if self._loose >= _TOGETHER:
            self._join()

    def _join(self) -> None:
        """Put chunks together, as many small arrays would leave the memory in pieces."""
        import numpy as np

        for parts in self.parts.values():
            parts[self._whole :] = [np.concatenate(parts[self._whole :])]
        self._loose, self._whole = 0, self._whole + 1

    def columns(self, longest_first: bool = False) -> Columns:
        """The columns in order of their start; of ranges that start together the longest first."""
        import numpy as np

        give_back()
        found: Columns = {}
        for name in list(self.parts):
            parts = self.parts.pop(name)
            found[name] = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        give_back()
        start = found["start"]
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable").astype(np.int32)
            for name in found:
                found[name] = found[name][order]
        return _longest_first(found) if longest_first else found


def _longest_first(columns: Columns) -> Columns:
    """Columns in order of their start, with the longest first of those that start together."""
    import numpy as np

    start, duration = columns["start"], columns["duration"]
    wrong = (start[1:] == start[:-1]) & (duration[1:] > duration[:-1])
    if wrong.any():
        tied = np.flatnonzero(np.isin(start, start[:-1][wrong]))
        order = tied[np.lexsort((-duration[tied].astype(np.int64), start[tied]))]
        for values in columns.values():
            values[tied] = values[order]
    return columns


def small(values: Any) -> Any:
    """Whole numbers in 8, 16 or 32 bits where all of them fit."""
    import numpy as np

    if len(values):
        least, most = int(values.min()), int(values.max())
        for kind in (np.int8, np.int16, np.int32):
            if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
                return values.astype(kind)
    return values


@dataclass(slots=True)
class Reading:
    """What is put together while a file is read."""

    tables: Tables
    words: Words = field(default_factory=Words)
    processes: Numbered = field(default_factory=Numbered)
    users: Numbered = field(default_factory=Numbered)  # processes that ran kernels
    threads: Numbered = field(default_factory=Numbered)
    warnings: list[str] = field(default_factory=list[str])
    left_out: dict[str, int] = field(default_factory=dict[str, int])
    read: int = 0

    def drop(self, count: int, why: str) -> None:
        """Count what is left out."""
        if count:
            self.left_out[why] = self.left_out.get(why, 0) + count

    def chunks(self, table: str, *names: str) -> Iterator[list[Ints]]:
        """Start, end and other columns of a table, a chunk at a time, without rows that cannot have been."""
        if self.tables.has(table, "start", "end"):
            for columns in self.tables.numbers(table, ("start", "end", *names)):
                good = self.sound(*columns[:2])
                yield list(columns) if good.all() else [each[good] for each in columns]

    def sound(self, start: Ints, end: Ints) -> NDArray[np.bool_]:
        """Which rows can have been; the others are counted."""
        good = (start >= 0) & (end >= start) & (end < LATEST)
        self.read += len(start)
        self.drop(len(start) - int(good.sum()), "events that end before they start or have no time")
        return good

    @property
    def by_process(self) -> bool:
        """Whether calls and kernels both say their process; else the numbers that join them stand for themselves."""
        return self.tables.has(KERNELS, "globalPid") and self.tables.has(CALLS, "globalTid")

    def key(self, globals_: Ints, correlations: Ints) -> Ints:
        """Correlation ids that are unique over processes, in which they repeat; NONE stays."""
        import numpy as np

        good = (correlations >= 0) & (correlations < 1 << BITS)
        found = (self.processes.of(globals_ & _PID) << BITS) + correlations if self.by_process else correlations
        return found if good.all() else np.where(good, found, NONE)
