"""Rows of indexes that repeat: which differ, and which one each is; without sorting, as indexes are small numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.trace.events import listed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_DENSE = 4  # entries of a table for each row, up to which it costs less than to sort
_LEAST = 1 << 16
_BLOCK = 1 << 18


def distinct(*columns: Ints) -> tuple[Ints, Ints]:
    """The distinct rows of `columns`, ascending, as a table with a row for each column; and which one each row is.

    The columns are indexes, of which -1 says that there is none.
    """
    import numpy as np

    values, which = _numbered(np.asarray(columns[0], np.int64) + 1)
    table = [values - 1]
    for column in columns[1:]:
        width = int(column.max(initial=-1)) + 2
        values, which = _numbered(which * width + column + 1)
        table = [*(each[values // width] for each in table), values % width - 1]
    return np.stack(table), which


def _numbered(codes: Ints) -> tuple[Ints, Ints]:
    """The distinct values, ascending, and the place of each value among them."""
    import numpy as np

    most = int(codes.max(initial=0)) + 1
    if most > max(_DENSE * len(codes), _LEAST):
        values, which = np.unique(codes, return_inverse=True)
        return values, which
    seen = np.zeros(most, bool)
    seen[codes] = True
    values = np.flatnonzero(seen)
    place = np.empty(most, np.int64)
    place[values] = np.arange(len(values))
    return values, place[codes]


def counted(column: Ints) -> tuple[Ints, Ints]:
    """The distinct numbers of a column, ascending, and how often each occurs."""
    import numpy as np

    least, most = int(column.min(initial=0)), int(column.max(initial=0))
    if most - least > _LEAST:
        return np.unique(column, return_counts=True)
    counts = np.zeros(most - least + 1, np.int64)
    for at in range(0, len(column), _BLOCK):  # the counting makes 64 bits of each
        part = column[at : at + _BLOCK].astype(np.int64)
        counts += np.bincount(part - least, minlength=len(counts))
    values = np.flatnonzero(counts)
    return values + least, counts[values]


def tally(column: Ints) -> dict[int, int]:
    """The distinct numbers of a column, in order, and how often each is there."""
    values, counts = counted(column)
    return dict(zip(listed(values), listed(counts), strict=True))


def summed(which: Ints, count: int, values: Ints) -> Ints:
    """The sum of the values of each of `count` groups, exact; `which` is the group of each value."""
    import numpy as np

    sums = np.zeros(count, np.int64)
    np.add.at(sums, which, values)
    return sums
