"""Lines of any text, numbers of any locale, units of any profiler."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.evidence import lines as module
from roofline.evidence.lines import Lines
from roofline.evidence.numbers import decimal_mark, number
from roofline.units import tool_unit


def test_lines():
    """Blocks that cut a line, every line break, a mark of the encoding, colours, bytes that are no text."""
    blocks = [b"\xef\xbb\xbfa\r", b"\nb\x1b[31mc\x1b[0m\n", b"\xff\rlast"]

    assert list(Lines(blocks)) == ["a", "bc", "\ufffd", "last"]


def test_a_line_without_an_end(monkeypatch):
    """It is cut, said so, and its rest is passed over."""
    monkeypatch.setattr(module, "LONGEST", 10)
    found = Lines([b"x" * 8, b"x" * 8, b"x" * 8, b"\nnext\n", b"y" * 11, b"\n"])

    assert list(found) == ["x" * 10, "next", "y" * 10]
    assert len(found.warnings) == 1


@given(st.lists(st.binary(max_size=30) | st.text("a\r\n", max_size=6).map(str.encode), max_size=8))
def test_blocks_do_not_matter(blocks):
    """The same text in one block and in many has the same lines."""
    assert list(Lines(blocks)) == list(Lines([b"".join(blocks)]))


@pytest.mark.parametrize("size", [10, 7])
def test_no_cut_adds_a_line(size, monkeypatch):
    """A text of every line break, in two blocks or a byte at a time, and with lines that are too long."""
    monkeypatch.setattr(module, "LONGEST", size)
    text = b"\xef\xbb\xbfone\r\ntwo\r\r\n\nthree three\r\nfour\rlast\r\n"
    whole = Lines([text])
    wanted = list(whole)
    assert wanted == [each[:size] for each in ("one", "two", "", "", "three three", "four", "last")]

    for blocks in (*([text[:at], text[at:]] for at in range(len(text) + 1)), [bytes([each]) for each in text]):
        found = Lines(blocks)
        assert list(found) == wanted
        assert found.warnings == whole.warnings


@pytest.mark.parametrize(
    ("texts", "mark"),
    [
        (["1,234", "5,678"], "."),
        (["1.234", "0.5"], "."),
        (["1.234", "0,5"], ","),
        (["1.234.567"], ","),
        (["1,234,567"], "."),
        (["1.234,5"], ","),
        (["1,234.5"], "."),
        (["12,25", "1.234"], ","),
        (["n/a", "word", ""], "."),
    ],
)
def test_decimal_mark(texts, mark):
    """By numbers that can be read one way only."""
    assert decimal_mark(texts) == mark


@pytest.mark.parametrize(
    ("text", "mark", "value"),
    [
        ("1,234", ".", 1234.0),
        ("1,234", ",", 1.234),
        ("-1.5e-3", ".", -0.0015),
        ("1,23,456", ".", 123456.0),
        ("12,34", ".", None),
        ("nan", ".", None),
        ("inf", ".", None),
        ("", ".", None),
        ("1.2.3", ".", None),
        ("9" * 400, ".", None),
        ("1e999", ".", None),
        ("0x10", ".", None),
    ],
)
def test_number(text, mark, value):
    """A number, or None for what is none."""
    assert number(text, mark) == value


@pytest.mark.parametrize(
    ("text", "factor", "base"),
    [
        ("Kbyte", 1e3, "byte"),
        ("Gbyte/second", 1e9, "byte/second"),
        ("GB/s", 1e9, "byte/second"),
        ("cycle/nsecond", 1e9, "hz"),
        ("usecond", 1e-6, "second"),
        ("msecond", 1e-3, "second"),
        ("ns", 1e-9, "second"),
        ("Ghz", 1e9, "hz"),
        ("MHz", 1e6, "hz"),
        ("MiB", 2**20, "byte"),
        ("%", 0.01, "share"),
        ("", 1, ""),
        ("warp", 1, ""),
        ("Kbyte/block", 1e3, "byte/"),
        ("parsec/s", 1, "parsec/s"),
    ],
)
def test_units_of_tools(text, factor, base):
    """SI prefixes also before byte; what is not known stays as it is."""
    assert tool_unit(text) == (pytest.approx(factor), base)
