"""Tables of an SQLite file from outside: read-only, by name, as columns of whole numbers or as rows.

The file is never altered and nothing in it is run: it is opened immutable, views, virtual tables and generated columns
are not read, no function of SQL may be called, and a read ends with an error when it takes longer than it may.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from roofline.errors import TraceError
from roofline.units import MIB

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

MAGIC = b"SQLite format 3\0"
CHUNK = 1 << 15  # rows
_LONGEST = 4 * MIB  # [byte] of one text or blob
_PATIENCE = 600.0  # [s] for all reads of a file together
_STEPS = 1 << 16  # instructions of SQLite's machine between two looks at the clock
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA)
ABSENT = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of an open file, and the columns of each."""

    name: str  # of the file, printable
    columns: dict[str, tuple[str, ...]]
    connection: sqlite3.Connection

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table with these columns."""
        return table in self.columns and all(each in self.columns[table] for each in columns)

    def rows(self, table: str, columns: Sequence[str], where: str = "") -> Iterator[list[tuple[Any, ...]]]:
        """Rows in chunks, texts as bytes, NULL where the table lacks a column; raises TraceError for a damaged file.

        `columns` are names or expressions without functions, `where` is a condition of the same kind.
        """
        there = self.columns.get(table, ())
        wanted = ", ".join(f'"{each}"' if each in there else each if " " in each else "NULL" for each in columns)
        condition = f" WHERE {where}" if where else ""
        try:
            cursor = self.connection.execute(f'SELECT {wanted} FROM "{table}"{condition}')
            while chunk := cursor.fetchmany(CHUNK):
                yield chunk
        except (sqlite3.Error, OverflowError) as error:
            raise TraceError(f"{self.name} cannot be read as SQLite: {_line(error)} (table {table}).") from None

    def numbers(self, table: str, columns: Sequence[str]) -> Iterator[list[Ints]]:
        """Whole numbers, a chunk of rows at a time: an array a column, ABSENT for NULL and for what is none."""
        for chunk in self.rows(table, [self.or_absent(table, each) for each in columns]):
            yield [whole(column) for column in zip(*chunk, strict=True)]

    def or_absent(self, table: str, column: str) -> str:
        """An expression of a column that is a number where it is NULL, or where there is no such column."""
        if column not in self.columns.get(table, ()):
            return f"{ABSENT} + 0"
        return f'CASE WHEN "{column}" IS NULL THEN {ABSENT} ELSE "{column}" END'


def whole(column: Sequence[Any]) -> Ints:
    """A column as whole numbers, ABSENT for what is none."""
    import numpy as np

    try:
        return np.fromiter(column, np.int64, len(column))
    except (TypeError, ValueError, OverflowError):  # text or a blob in a column of numbers
        sound = (each if isinstance(each, int) and abs(each) <= -ABSENT else ABSENT for each in column)
        return np.fromiter(sound, np.int64, len(column))


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return "".join(c if c.isprintable() else "?" for c in text)[:160] or type(error).__name__


@contextmanager
def tables(path: Path, name: str) -> Generator[Tables]:
    """Open a file's tables; raises TraceError where it is no sound SQLite file."""
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
    except sqlite3.Error as error:
        raise TraceError(f"{name} cannot be opened as SQLite: {_line(error)}.") from None
    try:
        try:
            columns = _prepared(connection)
        except sqlite3.Error as error:
            raise TraceError(
                f"{name} begins as an SQLite file and is none: {_line(error)}. It was cut, or damaged."
            ) from None
        yield Tables(name, columns, connection)
    finally:
        connection.close()


def _prepared(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
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
    found: dict[str, tuple[str, ...]] = {}
    for kind, name, root, sql in connection.execute("SELECT type, name, rootpage, sql FROM sqlite_master"):
        if (
            kind == b"table"
            and isinstance(root, int)
            and root > 0
            and text_of(sql).lstrip()[:12].upper() == "CREATE TABLE"
        ):
            table = text_of(name)
            if table.isidentifier():
                found[table] = ()
    for table in found:
        described = connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
        names = (text_of(row[1]) for row in described if row[6] == 0)  # else hidden or generated
        found[table] = tuple(each for each in names if each.isidentifier())
    return found


def _authorise(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def text_of(cell: object) -> str:
    """A cell as text, "" for what is none."""
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else ""
