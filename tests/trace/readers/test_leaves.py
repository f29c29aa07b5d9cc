"""Rows from the pages of a table are those that SQLite itself gives, and what cannot be a table is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.errors import TraceError
from roofline.trace.readers import leaves, sqlite
from roofline.trace.readers.sqlite import ABSENT, Tables, tables

EDGES = [sign * (1 << bits) + more for bits in (0, 7, 8, 15, 23, 31, 47, 61) for sign in (1, -1) for more in (-1, 0, 1)]
CELL = st.one_of(
    st.none(), st.sampled_from(EDGES), st.integers(-(1 << 61), 1 << 61), st.text(max_size=200), st.binary(max_size=40)
)
ROWS = st.lists(st.tuples(CELL, CELL, CELL, CELL), max_size=60)


def made(path: Path, rows: Iterable[tuple[Any, ...]], table: str = "t (a, b, c, d)", page: int = 512) -> Path:
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path)
    base.execute(f"PRAGMA page_size = {page}")
    base.execute(f"CREATE TABLE {table}")
    base.executemany(f"INSERT INTO t VALUES ({', '.join('?' * 4)})", rows)
    base.commit()
    base.close()
    return path


def taken(found: Tables, text: str = "b") -> list[tuple[Any, ...]]:
    """Columns a, c, d as whole numbers, and the text of one."""
    rows: list[tuple[Any, ...]] = []
    for chunk in found.chunks("t", ("a", "c", "d"), text):
        every = np.arange(len(chunk.numbers[0]))
        rows += zip(*(each.tolist() for each in chunk.numbers), chunk.texts(every), strict=True)
    return sorted(rows, key=repr)


def both(path: Path, text: str = "b") -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """From the pages, and as SQLite gives them."""
    with tables(path, "x") as found:
        assert found.leaves is not None
        return taken(found, text), taken(Tables(found.name, found.tables, found.connection, None), text)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, page=st.sampled_from([512, 1024, 4096, 65536]))
def test_any_rows(tmp_path, rows, page):
    """Whole numbers of every size, NULL, texts and blobs in any column, some of them on overflow pages."""
    decoded, asked = both(made(tmp_path / "a", rows, page=page))

    assert decoded == asked
    assert len(decoded) == len(rows)


def test_a_deep_tree_with_holes(tmp_path):
    """Several levels of pages, rows deleted and written again."""
    path = made(tmp_path / "a", [(n, "x" * (n % 50), n * n, -n) for n in range(20000)])
    base = sqlite3.connect(path)
    base.execute("DELETE FROM t WHERE a % 7 = 3 OR a BETWEEN 5000 AND 9000")
    base.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [(n, None, 1, 0) for n in range(300)])
    base.commit()
    base.close()
    decoded, asked = both(path)

    assert decoded == asked
    assert len(decoded) > 10000


@pytest.mark.parametrize(
    "table",
    [
        "t (a INTEGER PRIMARY KEY, b, c, d)",
        "t (a PRIMARY KEY, b, c, d) WITHOUT ROWID",
        "t (a, b, c, d DEFAULT 7)",
        "t (a, b, rowid, c, d)",
    ],
)
def test_tables_that_are_asked_of_sqlite(tmp_path, table):
    """Records that do not hold their columns in order: the answer is the same."""
    path = tmp_path / "a"
    base = sqlite3.connect(path)
    base.execute(f"CREATE TABLE {table}")
    base.executemany("INSERT INTO t (a, b, c, d) VALUES (?, ?, ?, ?)", [(n, f"{n}", n + 1, n + 2) for n in range(300)])
    base.commit()
    base.close()
    decoded, asked = both(path)

    assert decoded == asked == sorted(((n, n + 1, n + 2, b"%d" % n) for n in range(300)), key=repr)


def test_a_column_that_was_added_later(tmp_path):
    """Rows from before it have none."""
    path = tmp_path / "a"
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE t (a, b, c)")
    base.execute("INSERT INTO t VALUES (1, 'x', 3)")
    base.execute("ALTER TABLE t ADD COLUMN d")
    base.execute("INSERT INTO t VALUES (5, 'y', 7, 8)")
    base.commit()
    base.close()
    decoded, asked = both(path)

    assert decoded == asked == [(1, 3, ABSENT, b"x"), (5, 7, 8, b"y")]


def test_texts_of_another_encoding_are_asked_of_sqlite(tmp_path):
    """A file in UTF-16 is not decoded here."""
    path = tmp_path / "a"
    base = sqlite3.connect(path)
    base.execute("PRAGMA encoding = 'UTF-16le'")
    base.execute("CREATE TABLE t (a, b, c, d)")
    base.execute("INSERT INTO t VALUES (1, 'ä', 3, 4)")
    base.commit()
    base.close()
    with tables(path, "x") as found:
        assert found.leaves is None
        assert taken(found) == [(1, 3, 4, "ä".encode())]


def test_many_chunks_stay_in_order(tmp_path, monkeypatch):
    """Decoded ahead in another thread, and yet in the order of the rows."""
    monkeypatch.setattr(leaves, "CHUNK", 512)
    path = made(tmp_path / "a", [(n, "x", n, n) for n in range(5000)])
    with tables(path, "x") as found:
        numbers = np.concatenate([each[0] for each in found.numbers("t", ("a",))])

    assert numbers.tolist() == list(range(5000))


def test_a_reader_that_stops_leaves_no_thread(tmp_path, monkeypatch):
    """What is not asked for is not decoded."""
    import threading

    before = threading.active_count()
    monkeypatch.setattr(leaves, "CHUNK", 512)
    path = made(tmp_path / "a", [(n, "x", n, n) for n in range(5000)])
    with tables(path, "x") as found:
        rows = found.numbers("t", ("a",))
        next(rows)
        rows.close()

    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (0, 5),  # the root as an inner page that points anywhere
        (0, 2),  # as that of an index
        (3, 255),  # more cells than there is room for
        (8, 255),  # a cell outside of its page
        (5, 0),
    ],
)
def test_pages_that_no_table_has(tmp_path, offset, value):
    """One clear line, whatever a page says of itself."""
    path = made(tmp_path / "a", [(n, "x", n, n) for n in range(20)])
    data = bytearray(path.read_bytes())
    data[512 + offset] = value
    path.write_bytes(data)
    with tables(path, "x") as found:
        try:
            taken(found)
        except TraceError as error:
            assert "cannot be read as SQLite" in str(error)
            assert "\n" not in str(error)


def test_cells_that_overlap(tmp_path):
    """A page whose cells are all the same long one is refused: its texts would be larger than the file."""
    path = made(tmp_path / "a", [(n, "x" * 100, n, n) for n in range(4)], page=4096)
    data = bytearray(path.read_bytes())
    cells = data[4096 + 8 : 4096 + 16]
    data[4096 + 3 : 4096 + 5] = (1000).to_bytes(2, "big")
    data[4096 + 8 : 4096 + 8 + 2000] = cells[6:8] * 1000
    path.write_bytes(data)
    with tables(path, "x") as found, pytest.raises(TraceError, match="cannot be read"):
        taken(found)


def test_a_value_longer_than_any_page(tmp_path):
    """A type whose size wraps around: refused, and not a text as long as the buffer."""
    path = made(tmp_path / "a", [(n, "x" * 100, n, n) for n in range(4)], page=4096)
    data = bytearray(path.read_bytes())
    kind = (2 * 100 + 13) >> 7 | 0x80, (2 * 100 + 13) & 0x7F  # of the text, as it is written
    at = data.index(bytes(kind), 4096)
    data[at : at + 9] = b"\xff" * 9
    path.write_bytes(data)
    with tables(path, "x") as found, pytest.raises(TraceError, match="cannot be read"):
        taken(found)


def test_a_tree_that_points_to_itself(tmp_path):
    """An inner page that is its own child: an end, and an error."""
    path = made(tmp_path / "a", [(n, "x" * 60, n, n) for n in range(200)])
    data = bytearray(path.read_bytes())
    assert data[512] == 5
    data[512 + 8 : 512 + 12] = (2).to_bytes(4, "big")
    path.write_bytes(data)
    with tables(path, "x") as found, pytest.raises(TraceError, match="cannot be read"):
        taken(found)


@pytest.mark.parametrize("seed", range(30))
def test_bytes_changed_at_random(tmp_path, seed):
    """An answer, or one clear line, and no more memory than the file is large."""
    import random

    chance = random.Random(seed)
    data = bytearray(made(tmp_path / "a", [(n, "x" * (n % 90), n, n) for n in range(400)]).read_bytes())
    for _ in range(20):
        data[chance.randrange(600, len(data))] = chance.randrange(256)
    (tmp_path / "a").write_bytes(data)
    try:
        with tables(tmp_path / "a", "x") as found:
            rows = taken(found)
        assert sum(len(each[3] or b"") for each in rows) <= 2 * len(data)
    except TraceError as error:
        assert "\n" not in str(error)


def test_patience_ends(tmp_path, monkeypatch):
    """Reading pages ends too when it takes longer than it may."""
    monkeypatch.setattr(sqlite, "_PATIENCE", 1e-9)
    path = made(tmp_path / "a", [(n, "x", n, n) for n in range(20)])

    with pytest.raises(TraceError), tables(path, "x") as found:
        taken(found)
