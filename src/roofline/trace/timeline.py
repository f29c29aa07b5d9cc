"""Intervals of time as arrays: union, gaps, overlap, nesting. Pure functions of int64 nanoseconds.

A set of intervals is a pair (starts, ends). A *flat* set is sorted, disjoint and without empty intervals: what
`union` makes and what the others take.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]
    Spans = tuple[Ints, Ints]  # starts and ends


def union(starts: Ints, ends: Ints) -> Spans:
    """The flat set that covers what any of the intervals covers; those that touch become one."""
    import numpy as np

    full = ends > starts
    if not full.all():
        starts, ends = starts[full], ends[full]
    if not len(starts):
        return starts, ends
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    fresh = np.flatnonzero(starts[1:] > reach[:-1]) + 1
    return starts[np.r_[0, fresh]], reach[np.r_[fresh - 1, len(reach) - 1]]


def total(spans: Spans) -> int:
    """Time that a flat set covers [ns]."""
    return int((spans[1] - spans[0]).sum())


def join(*sets: Spans) -> Spans:
    """The flat set that covers what any of the sets covers."""
    import numpy as np

    return union(np.concatenate([each[0] for each in sets]), np.concatenate([each[1] for each in sets]))


def gaps(spans: Spans, start: int, end: int) -> Spans:
    """What a flat set leaves uncovered of a window."""
    import numpy as np

    starts = np.maximum(np.r_[start, spans[1]], start)
    ends = np.minimum(np.r_[spans[0], end], end)
    full = ends > starts
    return starts[full], ends[full]


def intersect(a: Spans, b: Spans) -> Spans:
    """What two flat sets both cover."""
    import numpy as np

    if not len(a[0]) or not len(b[0]):
        return a[0][:0], a[1][:0]
    edges = np.unique(np.concatenate([*a, *b]))
    starts, ends = edges[:-1], edges[1:]
    both = inside(a, starts) & inside(b, starts)
    return union(starts[both], ends[both])


def subtract(a: Spans, b: Spans) -> Spans:
    """What the flat set `a` covers and the flat set `b` does not."""
    if not len(a[0]) or not len(b[0]):
        return a
    return intersect(a, gaps(b, int(min(a[0][0], b[0][0])), int(max(a[1][-1], b[1][-1]))))


def inside(spans: Spans, times: Ints) -> NDArray[np.bool_]:
    """Whether each time lies in a flat set, its end excluded."""
    import numpy as np

    if not len(spans[0]):
        return np.zeros(len(times), bool)
    at = np.searchsorted(spans[0], times, "right") - 1
    return (at >= 0) & (times < spans[1][at])


def covered(spans: Spans, starts: Ints, ends: Ints) -> Ints:
    """How much of each interval a flat set covers [ns]."""
    import numpy as np

    if not len(spans[0]):
        return np.zeros(len(starts), np.int64)
    before = np.r_[0, np.cumsum(spans[1] - spans[0])]

    def until(times: Ints) -> Ints:
        at = np.searchsorted(spans[0], times, "right") - 1
        part = np.clip(times - spans[0][at], 0, spans[1][at] - spans[0][at])
        return np.where(at < 0, 0, before[at] + part)

    return np.maximum(until(ends) - until(starts), 0)


_BLOCK = 1 << 15  # intervals that are looked at together, where none reaches beyond them


class Timed(Protocol):
    """What has starts and ends by row."""

    def spans(self, rows: Ints) -> Spans:
        """When these started and ended [ns]."""
        ...


def apart(timed: Timed, rows: Ints) -> Iterator[int]:
    """Places at which rows, in order of their start, can be cut as no earlier one reaches beyond; the end is the last.

    About every _BLOCK of them, so that what is worked out block by block needs the room of a block.
    """
    import numpy as np

    at, size = 0, _BLOCK
    while at + size < len(rows):
        starts, ends = timed.spans(rows[at : at + size + 1])
        free = np.flatnonzero(starts[1:] > np.maximum.accumulate(ends[:-1]))
        if len(free):
            at, size = at + int(free[-1]) + 1, _BLOCK
            yield at
        else:
            size *= 2
    yield len(rows)


def parents(starts: Ints, ends: Ints) -> Ints:
    """The index of the innermost interval that encloses each one, or -1.

    The intervals are of one thread, sorted by start and, where that is equal, the longest first.
    """
    import numpy as np

    # Each points to the nearest earlier one that may enclose it; one that ends too soon passes on its own
    # pointer, and as all do so at once, the number of rounds grows with the logarithm of the length.
    found = np.arange(-1, len(starts) - 1, dtype=np.int32 if len(starts) < 1 << 31 else np.int64)
    open_ = np.flatnonzero(ends[:-1] < ends[1:]) + 1
    upper = open_ - 1
    while len(open_):
        further = found[upper]
        found[open_] = further
        still = further >= 0
        open_, upper = open_[still], further[still]
        short = ends[upper] < ends[open_]
        open_, upper = open_[short], upper[short]
    return found


def outermost(starts: Ints, ends: Ints, *groups: Ints) -> Ints:
    """The indices, in order, of the intervals that no other one encloses; of `groups` none of the same ones does."""
    import numpy as np

    order = np.lexsort((-ends, starts, *groups))
    same = np.ones(max(len(order) - 1, 0), bool)
    for each in groups:
        same &= np.diff(each[order]) == 0
    # Places in the order of the ends; those of a later group lie beyond all of an earlier one.
    place = np.unique(ends, return_inverse=True)[1][order] + len(order) * np.r_[0, np.cumsum(~same)][: len(order)]
    reach = np.maximum.accumulate(place)
    return np.sort(order[~np.r_[False, same & (place[1:] <= reach[:-1])][: len(order)]])


def innermost(starts: Ints, ends: Ints, up: Ints, times: Ints) -> Ints:
    """The index of the innermost interval that encloses each time, or -1; `up` are the intervals' parents."""
    import numpy as np

    found = np.searchsorted(starts, times, "right") - 1
    open_ = np.flatnonzero(found >= 0)
    while len(open_):
        open_ = open_[ends[found[open_]] < times[open_]]
        found[open_] = up[found[open_]]
        open_ = open_[found[open_] >= 0]
    return found
