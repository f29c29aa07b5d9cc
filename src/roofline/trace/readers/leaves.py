"""Rows of an SQLite table straight from its pages, a column an array: ten times as fast as a row at a time.

The format is that of sqlite.org/fileformat2.html (B-tree pages, varints, record format), which its authors keep. Read
is what an ordinary table of UTF-8 text holds; for anything else the caller asks SQLite itself: `leaves` is None for a
file of another make, and rows that go on in overflow pages are named by their rowid.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from roofline.units import MIB

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bytes = NDArray[np.uint8]

CHUNK = MIB // 2  # [byte] of pages that are decoded together
MAGIC = b"SQLite format 3\0"
_UTF8 = 1
_INNER, _LEAF = 5, 13  # kinds of a table's pages
_DEEPEST = 40  # levels of pages
_REAL, _ZERO, _ONE = 7, 8, 9  # serial types of records; below 7 are NULL and whole numbers, from 12 on blobs and texts
_BLOB = 12
_TAIL = 64  # [byte] behind a buffer, so that the numbers of a cell at its end can be read whole


class Damaged(ValueError):
    """Pages that no table can have."""


@dataclass(frozen=True, slots=True)
class Leaves:
    """An open file's pages: their size, and how much of each is used."""

    descriptor: int
    page: int  # [byte]
    usable: int  # [byte]
    pages: int

    def of(self, root: int) -> Ints:
        """The leaf pages of the table whose tree begins at page `root`, in order; raises Damaged."""
        import numpy as np

        level = np.array([root], np.int64)
        for _ in range(_DEEPEST):
            if (level < 2).any() or (level > self.pages).any() or len(level) > self.pages:
                raise Damaged("a page number beyond the file")
            heads = self._read(level[:1])
            if heads[0] != _INNER:
                return level
            level = np.concatenate([self._children(level[at : at + 256]) for at in range(0, len(level), 256)])
        raise Damaged("a tree without an end")

    def _children(self, inner: Ints) -> Ints:
        """The pages that inner pages point to, in order."""
        import numpy as np

        flat = self._read(inner)
        base = np.arange(len(inner), dtype=np.int64) * self.page
        if (flat[base] != _INNER).any():
            raise Damaged("a tree of uneven height")
        count = _big(flat, base + 3, 2)
        page, cell = self._cells(flat, base, count, 12)
        left = _big(flat, cell, 4)
        last = _big(flat, base + 8, 4)
        return np.insert(left, np.cumsum(count), last) if len(left) == len(page) else last

    def _cells(self, flat: Bytes, base: Ints, count: Ints, head: int) -> tuple[Ints, Ints]:
        """For each cell of pages that begin at `base` its page's beginning and its own."""
        import numpy as np

        if (head + 2 * count > self.page).any():
            raise Damaged("more cells than a page has room for")
        page = np.repeat(base, count)
        number = np.arange(len(page)) - np.repeat(np.cumsum(count) - count, count)
        offset = _big(flat, page + head + 2 * number, 2)
        if len(offset) and (int(offset.min()) < head or int(offset.max()) > self.page - 4):
            raise Damaged("a cell outside of its page")
        return page, page + offset

    def _read(self, pages: Ints) -> Bytes:
        """Pages one behind another, and some zeros; those that lie together in the file are read at once."""
        import numpy as np

        buffer = np.zeros(len(pages) * self.page + _TAIL, np.uint8)
        view = buffer.data
        cuts = [0, *(np.flatnonzero(np.diff(pages) != 1) + 1).tolist(), len(pages)]
        for first, past in pairwise(cuts):
            there = view[first * self.page : past * self.page]
            if os.preadv(self.descriptor, [there], (int(pages[first]) - 1) * self.page) != len(there):
                raise Damaged("pages that the file does not have")
        return buffer

    def chunks(self, leaves: Ints) -> list[Ints]:
        """Leaf pages in portions."""
        step = max(CHUNK // self.page, 1)
        return [leaves[at : at + step] for at in range(0, len(leaves), step)]

    def cells(self, leaves: Ints, columns: int) -> Cells:
        """The first `columns` columns of the rows on these pages; raises Damaged."""
        import numpy as np

        flat = self._read(leaves)
        base = np.arange(len(leaves), dtype=np.int64) * self.page
        if (flat[base] != _LEAF).any():
            raise Damaged("a page of another kind among the leaves")
        count = _big(flat, base + 3, 2)
        page, at = self._cells(flat, base, count, 8)
        size, at = _varint(flat, at)
        rowid, at = _varint(flat, at)
        self._fit(size, at, page, count)
        whole = size <= self.usable - 35
        spilled = rowid[~whole]
        if len(spilled):
            at, size, page = at[whole], size[whole], page[whole]
        head, start = _varint(flat, at)
        body, ends = at + head, at + size
        if len(at) and ((body > ends).any() or (ends > page + self.usable).any()):
            raise Damaged("a record longer than its cell")
        found = Cells(flat, spilled)
        past = at + head
        plain = bool((head > columns).all())  # a type a byte: every record has so many
        for _ in range(columns):
            kind = flat[start].astype(np.int64)
            if plain and (not len(kind) or int(kind.max()) < 0x80):
                start = start + 1
            else:
                plain = False
                kind, start = _kinds(flat, start, past)
                if len(kind) and not 0 <= int(kind.min()) <= int(kind.max()) <= _BLOB + 1 + 2 * self.page:
                    raise Damaged("a value longer than its page")
            found.kinds.append(kind)
            found.places.append(body)
            body = body + _sizes(kind)
        if len(at) and (body > ends).any():
            raise Damaged("columns longer than their record")
        return found

    def _fit(self, size: Ints, at: Ints, page: Ints, count: Ints) -> None:
        """Refuse pages whose cells overlap: their texts together would be larger than the file."""
        import numpy as np

        if (size < 0).any():
            raise Damaged("a record of no size")
        cells = np.where(size <= self.usable - 35, size, 0)
        ends = np.r_[0, np.cumsum(cells)][np.cumsum(count)]
        if (np.diff(ends, prepend=0) + 8 + 4 * count > self.page).any():
            raise Damaged("cells that overlap")


@dataclass(frozen=True, slots=True)
class Cells:
    """The columns of some rows, still as they lie on the pages. `spilled` are the rowids of rows that are not here."""

    flat: Bytes
    spilled: Ints
    kinds: list[Ints] = field(default_factory=list["Ints"])
    places: list[Ints] = field(default_factory=list["Ints"])

    def __len__(self) -> int:
        return len(self.places[0]) if self.places else 0

    def whole(self, column: int, absent: int) -> Ints:
        """A column as whole numbers, `absent` for NULL and for what is none."""
        import numpy as np

        kind = np.minimum(self.kinds[column], _BLOB)  # what is behind it is none either
        shift = _shifts()[kind]
        windows = np.ndarray((len(self.flat) - 7,), ">i8", self.flat, 0, (1,))  # eight bytes from every place on
        found = windows[self.places[column]].astype(np.int64) >> shift
        other = shift == _NO_NUMBER
        if other.any():
            found[other] = np.where(kind[other] == _ONE, 1, np.where(kind[other] == _ZERO, 0, absent))
        return found

    def texts(self, column: int, rows: Ints) -> list[bytes | None]:
        """The texts and blobs of a column in these rows, None for what is neither."""
        import numpy as np

        kind, place = self.kinds[column][rows], self.places[column][rows]
        data = self.flat.tobytes() if len(rows) else b""
        spans = map(slice, place.tolist(), (place + _sizes(kind)).tolist())
        found: list[bytes | None] = [*map(data.__getitem__, spans)]
        for row in np.flatnonzero(kind < _BLOB).tolist():
            found[row] = None
        return found


def leaves(descriptor: int, size: int) -> Leaves | None:
    """The pages of an open file; None where it is of a make that is not read here."""
    head = os.pread(descriptor, 100, 0)
    if len(head) < 100 or not head.startswith(MAGIC):
        return None
    page = int.from_bytes(head[16:18], "big")
    page = 1 << 16 if page == 1 else page
    usable = page - head[20]
    if page < 512 or page & (page - 1) or usable < 480 or int.from_bytes(head[56:60], "big") != _UTF8:
        return None
    return Leaves(descriptor, page, usable, size // page)


def _big(flat: Bytes, at: Ints, size: int) -> Ints:
    """Numbers of `size` bytes, the highest first."""
    found = flat[at].astype("int64")
    for more in range(1, size):
        found = found << 8 | flat[at + more]
    return found


def _varint(flat: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Numbers of one to nine bytes of seven bits each, and where they end."""
    import numpy as np

    value, at = flat[at].astype(np.int64), at + 1
    more = np.flatnonzero(value >= 0x80)
    value[more] &= 0x7F
    for byte in range(1, 9):
        if not len(more):
            break
        part = flat[at[more]].astype(np.int64)
        at[more] += 1
        last = byte == 8
        value[more] = value[more] << 8 | part if last else value[more] << 7 | part & 0x7F
        more = more[part >= 0x80]
    return value, at


def _kinds(flat: Bytes, at: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The serial type of the next column of each record, NULL behind its last, and where it ends."""
    import numpy as np

    past = at >= ends
    kind, there = _varint(flat, np.where(past, 0, at))
    kind[past], there[past] = 0, at[past]
    return kind, there


@cache
def _table() -> Any:
    """The size of what each serial type below 128 says [byte]."""
    import numpy as np

    sizes = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0]
    return np.array(sizes + [(kind - _BLOB) // 2 for kind in range(_BLOB, 128)], np.int64)


def _sizes(kind: Ints) -> Ints:
    """How long the values of these serial types are [byte]."""
    import numpy as np

    short = _table()
    if len(kind) and int(kind.max()) >= len(short):
        return np.where(kind < len(short), short[np.minimum(kind, len(short) - 1)], (kind - _BLOB) // 2)
    return short[kind]


_NO_NUMBER = 63  # the shift of what is no whole number, or one that its type alone says


@cache
def _shifts() -> Any:
    """By how many bits eight bytes from a value on are shifted, so that its own remain: by its serial type."""
    import numpy as np

    sizes = _table()[: _BLOB + 1].tolist()
    whole = [size > 0 and kind < _REAL for kind, size in enumerate(sizes)]
    return np.array([64 - 8 * size if each else _NO_NUMBER for size, each in zip(sizes, whole, strict=True)], np.int64)


__all__: Sequence[str] = ("CHUNK", "MAGIC", "Cells", "Damaged", "Leaves", "leaves")
