"""Which whole numbers columns hold, and where, without sorting where the numbers are small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_TABLE = 1 << 18  # numbers up to which a table of all of them is worth its room


class Distinct(NamedTuple):
    """Rows in lexicographic order; for each row of the columns which it is, and for each of them one place of it."""

    rows: list[tuple[int, ...]]
    which: Ints
    at: Ints


def counted(column: Ints) -> dict[int, int]:
    """The distinct numbers of a column, in order, and how often each is there."""
    import numpy as np

    if not len(column):
        return {}
    least = int(column.min())
    if int(column.max()) - least >= max(_TABLE, len(column)):
        found, counts = np.unique(column, return_counts=True)
        return dict(zip(found.tolist(), counts.tolist(), strict=True))
    counts = np.zeros(int(column.max()) - least + 1, np.int64)
    for at in range(0, len(column), _TABLE):  # the counting makes 64 bits of each
        part = column[at : at + _TABLE]
        counts += np.bincount(part.astype(np.int64) - least, minlength=len(counts))
    return {least + at: int(counts[at]) for at in np.flatnonzero(counts).tolist()}


def places(column: Ints, number: int) -> Ints:
    """Where a column has this number, in 32 bits where they suffice."""
    import numpy as np

    kind = np.int32 if len(column) < 1 << 31 else np.int64
    found = [
        (np.flatnonzero(column[at : at + _TABLE] == number) + at).astype(kind) for at in range(0, len(column), _TABLE)
    ]
    return np.concatenate(found) if found else np.zeros(0, kind)


def distinct(*columns: Ints) -> Distinct:
    """The distinct rows of columns of one length."""
    import numpy as np

    count = len(columns[0])
    if not count:
        return Distinct([], np.zeros(0, np.int64), np.zeros(0, np.int64))
    code, width = _numbered(columns[0])
    for column in columns[1:]:
        more, wide = _numbered(column)
        code, width = _numbered(code.astype(np.int64) * wide + more)
    at = np.zeros(width, np.int64)
    at[code] = np.arange(count)
    rows: Any = zip(*(column[at].tolist() for column in columns), strict=True)
    return Distinct(list(rows), code, at)


def _numbered(values: Ints) -> tuple[Ints, int]:
    """Values by their order among the distinct ones, and how many these are."""
    import numpy as np

    least, most = int(values.min()), int(values.max())
    if most - least >= max(_TABLE, len(values)):
        found, which = np.unique(values, return_inverse=True)
        return which.reshape(-1), len(found)
    there = np.zeros(most - least + 1, np.int32)
    code = values.astype(np.int64) - least if least else values
    there[code] = 1
    total = int(there.sum())
    if total == len(there):
        return code, total
    return (np.cumsum(there, dtype=np.int32) - np.int32(1))[code], total
