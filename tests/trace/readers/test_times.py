"""Microseconds as text or numbers to nanoseconds, exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.trace.readers import times


@given(st.integers(0, (1 << 43) * 1000 - 1))
def test_a_double_below_2_43_finds_every_thousandth(ns):
    """What is written with three decimals and parsed as a double is the nanosecond that was written."""
    assert times.nanoseconds([float(f"{ns // 1000}.{ns % 1000:03d}")]).tolist() == [ns]


@given(st.integers(-(10**15), 2 * 10**15), st.integers(0, 999))
def test_text_is_exact_at_any_size(us, thousandths):
    text = f"{us}.{thousandths:03d}".encode()
    wanted = Fraction(text.decode()) * 1000

    assert times.exact([text, b'"%s"' % text]).tolist() == [wanted, wanted]


NUMBERS = st.builds(
    lambda us, digits: f"{us}.{digits}".rstrip("."), st.integers(0, 10**17), st.text("0123456789", max_size=3)
)


@given(st.lists(NUMBERS, min_size=1, max_size=9))
def test_plain_numbers_together_are_as_exact_as_each_alone(numbers):
    """Of any length, with and without decimals: where 64 bits hold it, what was written; else it wrapped."""
    wanted = [int(Fraction(each) * 1000) for each in numbers]

    found = times.exact([each.encode() for each in numbers]).tolist()
    assert found == [each if each < times.MOST else times.WRAPPED for each in wanted]


@pytest.mark.parametrize("odd", [b"1.", b".5", b"1.2.3", b"", b"1.2345", b"-7", b"9" * 19, b"1\n2", b"null"])
def test_an_odd_text_among_plain_ones(odd):
    found = times.exact([b"1.5", odd, b"1712195495519689.812"]).tolist()

    assert found[::2] == [1500, 1_712_195_495_519_689_812]
    assert found[1:2] == times.exact([odd, b'""']).tolist()[:1]


ANY = st.builds("{}.{}".format, st.integers(0, 1 << 30), st.text("0123456789", min_size=1, max_size=6))
HALVES = st.builds("{}.{}5".format, st.integers(0, 1 << 38), st.integers(100, 999))


@given(st.lists(ANY | HALVES, min_size=1))
def test_a_number_and_its_text_are_rounded_alike(numbers):
    """Half up by the digits that are written, however many there are."""
    wanted = [int(Fraction(each) * 1000 + Fraction(1, 2)) for each in numbers]

    assert times.exact([each.encode() for each in numbers]).tolist() == wanted
    assert times.nanoseconds([float(each) for each in numbers]).tolist() == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("10.1225", 10123),
        ("1.0005", 1001),
        ("1.0015", 1002),
        ("-1.0005", -1001),
        ("-10.1225", -10123),
        ("0.00049999", 0),
        ("5e-4", 1),
        ("4398046511105.001", 4398046511105001),
        ("4503599627369.999", 4503599627369999),
    ],
)
def test_halves(text, wanted):
    """One of a number and its text says the same as the other, also where a double is coarse."""
    assert times.nanoseconds([float(text)]).tolist() == [wanted]
    assert times.exact([text.encode()]).tolist() == [wanted]


@given(st.integers((1 << 42) * 1000, (1 << 43) * 1000 - 1))
def test_thousandths_where_doubles_are_coarse(ns):
    assert times.nanoseconds([float(f"{ns // 1000}.{ns % 1000:03d}")]).tolist() == [ns]


@pytest.mark.parametrize("number", [-(1 << 63), (1 << 63) - 1, -(1 << 62), 1 << 62])
def test_whole_numbers_beyond_all_times(number):
    """The least of 64 bits has no positive of its own."""
    with pytest.raises(times.Inexact):
        times.nanoseconds([number, 5])
    assert times.exact([str(number).encode()]).tolist() == [times.WRAPPED]


def test_a_long_number_with_an_exponent_is_none():
    assert times.exact([b"1." + b"0" * 500 + b"e5", b"0.0" + b"4" * 300 + b"e1"]).tolist() == [times.BAD, 444]


def test_whole_microseconds_since_1970_are_exact():
    assert times.nanoseconds([1_610_366_662_254_362]).tolist() == [1_610_366_662_254_362_000]


@pytest.mark.parametrize(
    "values",
    [[1.6e15 + 0.25], [None], ["1.5", 2], [[1]], [2, [1]], [float("nan")], [1 << 70], [1.0, float("inf")], [{}]],
)
def test_what_a_double_cannot_hold_is_read_from_its_text(values):
    with pytest.raises(times.Inexact):
        times.nanoseconds(values)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"1.0004", 1000),
        (b"1.0005", 1001),
        (b"-2.5", -2500),
        (b"1e3", 1_000_000),
        (b"", times.BAD),
        (b"null", times.BAD),
        (b'"abc"', times.BAD),
        (b"NaN", times.BAD),
        (b"1.844674407370955e+16", times.WRAPPED),
        (b"18446744073709551615", times.WRAPPED),
        (b"[1]", times.BAD),
        (b"1e9999999999999999999", times.BAD),
        (b"9" * 300, times.WRAPPED),
    ],
)
def test_odd_texts(text, wanted):
    assert times.exact([text]).tolist() == [wanted]


def test_arrays_are_of_64_bit():
    assert times.nanoseconds([1.5]).dtype == np.int64
