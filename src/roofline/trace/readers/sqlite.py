"""Tables of an SQLite file from outside: read-only, by name, as columns of whole numbers or as rows.

The file is never altered and nothing in it is run: it is opened immutable, views, virtual tables and generated columns
are not read, no function of SQL may be called, and a read ends with an error when it takes longer than it may. Tables
of the ordinary make are decoded from their pages (see `leaves`), all others are asked of SQLite.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from roofline.errors import TraceError, one_line
from roofline.trace.readers.leaves import MAGIC, Cells, Damaged, Leaves, leaves
from roofline.units import MIB

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

CHUNK = 1 << 15  # rows
_LONGEST = 4 * MIB  # [byte] of one text or blob
_PATIENCE = 600.0  # [s] for all reads of a file together
_FEW = 500  # rows that are asked for by number at once
_STEPS = 1 << 16  # instructions of SQLite's machine between two looks at the clock
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA)
ABSENT = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a table: numbers an array a column, and the texts of those rows that are asked for."""

    numbers: list[Ints]
    texts: Callable[[Ints], list[bytes | None]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table's columns, and where it begins; `plain` where its records hold these columns in this order."""

    columns: tuple[str, ...]
    root: int
    plain: bool


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of an open file, and the columns of each."""

    name: str  # of the file, printable
    tables: dict[str, Table]
    connection: sqlite3.Connection
    leaves: Leaves | None = None
    ends: float = field(default_factory=lambda: time.monotonic() + _PATIENCE)  # when reading has taken too long

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The columns of each table."""
        return {name: each.columns for name, each in self.tables.items()}

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table with these columns."""
        found = self.tables.get(table)
        return found is not None and all(each in found.columns for each in columns)

    def rows(self, table: str, columns: Sequence[str], where: str = "") -> Iterator[list[tuple[Any, ...]]]:
        """Rows in chunks, texts as bytes, NULL where the table lacks a column; raises TraceError for a damaged file.

        `columns` are names or expressions without functions, `where` is a condition of the same kind.
        """
        there = self.tables[table].columns if table in self.tables else ()
        wanted = ", ".join(f'"{each}"' if each in there else each if " " in each else "NULL" for each in columns)
        condition = f" WHERE {where}" if where else ""
        try:
            cursor = self.connection.execute(f'SELECT {wanted} FROM "{table}"{condition}')
            while chunk := cursor.fetchmany(CHUNK):
                yield chunk
        except (sqlite3.Error, OverflowError) as error:
            raise TraceError(f"{self.name} cannot be read as SQLite: {one_line(error)} (table {table}).") from None

    def numbers(self, table: str, columns: Sequence[str]) -> Iterator[list[Ints]]:
        """Whole numbers, a chunk of rows at a time: an array a column, ABSENT for NULL and for what is none."""
        for chunk in self.chunks(table, columns):
            yield chunk.numbers

    def chunks(self, table: str, columns: Sequence[str], text: str = "") -> Iterator[Chunk]:
        """Whole numbers as `numbers` gives them, and one column of texts; raises TraceError for a damaged file."""
        found = self.tables.get(table)
        if found is None:
            return
        if self.leaves is None or not found.plain:
            yield from self._asked(table, columns, text)
            return
        try:
            yield from self._decoded(self.leaves, table, columns, text)
        except (Damaged, OSError) as error:
            raise TraceError(f"{self.name} cannot be read as SQLite: {one_line(error)} (table {table}).") from None

    def _decoded(self, pages: Leaves, table: str, columns: Sequence[str], text: str) -> Iterator[Chunk]:
        """The rows from the pages, and what does not lie there whole from SQLite."""
        import numpy as np

        found = self.tables[table]
        at = {each: found.columns.index(each) for each in (*columns, text) if each in found.columns}
        past = 1 + max(at.values(), default=0)
        spilled: list[int] = []
        for cells in _ahead(pages.chunks(pages.of(found.root)), partial(pages.cells, columns=past)):
            if time.monotonic() > self.ends:
                raise Damaged("it takes too long")
            spilled += cells.spilled.tolist()
            numbers = [
                cells.whole(at[each], ABSENT) if each in at else np.full(len(cells), ABSENT, np.int64)
                for each in columns
            ]
            yield Chunk(numbers, partial(cells.texts, at[text]) if text in at else _no_texts)
        for first in range(0, len(spilled), _FEW):
            rows = ", ".join(map(str, spilled[first : first + _FEW]))
            yield from self._asked(table, columns, text, f"rowid IN ({rows})")

    def _asked(self, table: str, columns: Sequence[str], text: str, where: str = "") -> Iterator[Chunk]:
        """The rows as SQLite gives them."""
        wanted = [self.or_absent(table, each) for each in columns]
        for chunk in self.rows(table, [*wanted, text or "NULL + 0"], where):
            *numbers, texts = zip(*chunk, strict=True)
            yield Chunk([whole(column) for column in numbers], partial(_picked, texts))

    def or_absent(self, table: str, column: str) -> str:
        """An expression of a column that is a number where it is NULL, or where there is no such column."""
        if not self.has(table, column):
            return f"{ABSENT} + 0"
        return f'CASE WHEN "{column}" IS NULL THEN {ABSENT} ELSE "{column}" END'


_AHEAD = 2  # chunks that are decoded while another is used
_WORTH = 8  # chunks from which on a thread is worth its start


def _ahead(chunks: Sequence[Ints], decode: Callable[[Ints], Cells]) -> Iterator[Cells]:
    """Decode chunks in order, the next ones in another thread."""
    if len(chunks) < _WORTH:
        yield from map(decode, chunks)
        return
    from collections import deque
    from concurrent.futures import Future, ThreadPoolExecutor

    waiting: deque[Future[Cells]] = deque()
    with ThreadPoolExecutor(1) as thread:
        try:
            for chunk in chunks:
                waiting.append(thread.submit(decode, chunk))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            thread.shutdown(cancel_futures=True)


def _no_texts(rows: Ints) -> list[bytes | None]:
    return [None] * len(rows)


def _picked(texts: Sequence[Any], rows: Ints) -> list[bytes | None]:
    return [texts[at] if isinstance(texts[at], bytes) else None for at in rows.tolist()]


def whole(column: Sequence[Any]) -> Ints:
    """A column as whole numbers, ABSENT for what is none."""
    import numpy as np

    if set(map(type, column)) <= {int}:  # NumPy would take text and blobs of digits for numbers
        with suppress(OverflowError):
            return np.fromiter(column, np.int64, len(column))
    sound = (each if isinstance(each, int) and abs(each) <= -ABSENT else ABSENT for each in column)
    return np.fromiter(sound, np.int64, len(column))


@contextmanager
def tables(path: Path, name: str) -> Generator[Tables]:
    """Open a file's tables; raises TraceError where it is no sound SQLite file."""
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
        descriptor = os.open(path, os.O_RDONLY)
    except (sqlite3.Error, OSError) as error:
        raise TraceError(f"{name} cannot be opened as SQLite: {one_line(error)}.") from None
    try:
        try:
            found = _prepared(connection)
        except sqlite3.Error as error:
            raise TraceError(
                f"{name} begins as an SQLite file and is none: {one_line(error)}. It was cut, or damaged."
            ) from None
        yield Tables(name, found, connection, leaves(descriptor, os.fstat(descriptor).st_size))
    finally:
        os.close(descriptor)
        connection.close()


def _prepared(connection: sqlite3.Connection) -> dict[str, Table]:
    """The ordinary tables and their columns, with every door of the connection closed."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.text_factory = bytes  # decoded where it is used
    for pragma in (
        "trusted_schema = OFF",
        "query_only = ON",
        "cell_size_check = ON",
        "mmap_size = 0",
        "cache_size = -16384",
    ):
        connection.execute(f"PRAGMA {pragma}")
    ends = time.monotonic() + _PATIENCE
    connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
    connection.set_authorizer(_authorise)
    roots: dict[str, int] = {}
    for kind, name, root, sql in connection.execute("SELECT type, name, rootpage, sql FROM sqlite_master"):
        if (
            kind == b"table"
            and isinstance(root, int)
            and root > 0
            and text_of(sql).lstrip()[:12].upper() == "CREATE TABLE"
        ):
            table = text_of(name)
            if table.isidentifier():
                roots[table] = root
    return {table: _table(connection, table, root) for table, root in roots.items()}


def _table(connection: sqlite3.Connection, table: str, root: int) -> Table:
    """A table's columns, without those that are hidden or generated."""
    described = connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
    columns = tuple(name for row in described if row[6] == 0 and (name := text_of(row[1])).isidentifier())
    # A record holds its columns in order, but for generated ones and a key that is the number of the row; those
    # that were added later may be absent from it, and have a default.
    plain = len(columns) == len(described) and not any(
        row[4] is not None or (row[5] and text_of(row[2]).upper() == "INTEGER") for row in described
    )
    named = any(each.lower() in ("rowid", "oid", "_rowid_") for each in columns)
    return Table(columns, root, plain and not named and not _without_rowid(connection, table))


def _without_rowid(connection: sqlite3.Connection, table: str) -> bool:
    """Whether a table's rows have no numbers, so that its pages are those of an index."""
    try:
        connection.execute(f'SELECT rowid FROM "{table}" LIMIT 0')
    except sqlite3.Error:
        return True
    return False


def _authorise(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def text_of(cell: object) -> str:
    """A cell as text, "" for what is none."""
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else ""


__all__: Sequence[str] = ("ABSENT", "CHUNK", "MAGIC", "Chunk", "Table", "Tables", "tables", "text_of", "whole")
