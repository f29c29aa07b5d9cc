"""Text to base units and back: prefixes are never mixed up, and every refusal is one line."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roofline.errors import BadValue
from roofline.units import column, count, gib, length, percent, quantity, scale, si, significant


def refusal(call, *arguments: object) -> str:
    """The message of the BadValue that a call raises, which is one line."""
    with pytest.raises(BadValue) as caught:
        call(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


# quantity


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("3.352 TB/s", "B/s", 3.352e12),
        ("3.352TB/s", "B/s", 3.352e12),
        ("  3.352 TB/s ", "B/s", 3.352e12),
        ("3352 GB/s", "B/s", 3.352e12),
        ("1.5 TBps", "B/s", 1.5e12),
        ("1e9 byte/s", "B/s", 1e9),
        ("80 GB", "B", 80e9),
        ("80 GiB", "B", 80 * 2**30),
        ("50 MiB", "B", 50 * 2**20),
        ("80 Gbyte", "B", 80e9),
        ("989.4 TFLOP/s", "FLOP/s", 989.4e12),
        ("312 TFLOPS", "FLOP/s", 312e12),
        ("394 TOP/s", "FLOP/s", 394e12),
        ("394 TOPS", "FLOP/s", 394e12),
        ("2.5 PFLOP/s", "FLOP/s", 2.5e15),
        ("1.98 GHz", "Hz", 1.98e9),
        ("700 W", "W", 700.0),
        ("5.000 us", "s", 5e-6),
        ("27 ms", "s", 0.027),
    ],
)
def test_quantity_reads_the_base_unit(text: str, unit: str, expected: float) -> None:
    """A figure of a datasheet is the number of base units that it says."""
    assert quantity(text, unit) == pytest.approx(expected, rel=1e-15)


def test_gib_and_gb_are_not_the_same() -> None:
    """80 GiB is 85,899,345,920 byte, 7.4 % more than 80 GB."""
    assert quantity("80 GiB", "B") == 85_899_345_920
    assert quantity("80 GB", "B") == 80_000_000_000


@pytest.mark.parametrize(
    ("text", "unit", "found"),
    [
        ("80 GB", "B/s", "B"),
        ("80 GB/s", "B", "B/s"),
        ("80 Gb", "B", "b"),
        ("989.4 TB/s", "FLOP/s", "B/s"),
        ("5 min", "s", "min"),
    ],
)
def test_quantity_of_another_unit_names_both(text: str, unit: str, found: str) -> None:
    """The message has what came and the unit that is wanted; bits are not bytes."""
    message = refusal(quantity, text, unit)
    assert text in message
    assert f"not {unit}" in message
    assert found in message


@pytest.mark.parametrize("text", ["3.352", "3.352 T", "80 Gi"])
def test_quantity_without_a_unit_is_refused(text: str) -> None:
    """A bare number could be anything: the message says which unit is wanted."""
    assert "not B/s" in refusal(quantity, text, "B/s")


@pytest.mark.parametrize("text", ["nan B/s", "inf B/s", "-inf B/s", "1e400 B/s", "-1 TB/s", "0 B/s", "0 TB/s"])
def test_quantity_that_is_no_finite_positive_number_is_refused(text: str) -> None:
    """A bandwidth of zero, below zero or without end would make every bound nonsense."""
    assert "not a finite number above zero" in refusal(quantity, text, "B/s")


@pytest.mark.parametrize(
    "text", ["", " ", "B/s", "fast", "5..5 B/s", "--5 B/s", "1 B/s\n2 B/s", "0x10 B/s", "5 TB/s or so"]
)
def test_garbage_is_no_quantity(text: str) -> None:
    """Text that is no number with a unit is refused, and the message shows how to write one."""
    assert "Write it as a number with its unit, as '1.5 TB/s'" in refusal(quantity, text, "B/s")


@pytest.mark.parametrize("text", ["x = 5 B/s", "5 B/s # five", "x: 5 B/s"])
def test_text_around_a_quantity_is_refused(text: str) -> None:
    """A figure is the number and its unit; what else stands there is not dropped silently."""
    refusal(quantity, text, "B/s")


def test_a_long_text_is_cut_in_the_message() -> None:
    """Megabytes of garbage make a short line."""
    assert len(refusal(quantity, "x" * 10**6, "B/s")) < 200


# length and count


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1", 1),
        ("8192", 8192),
        ("8k", 8192),
        ("8K", 8192),
        ("8 k", 8192),
        ("8,192", 8192),
        ("8_192", 8192),
        (" 128k ", 131072),
        ("1m", 1048576),
        ("1.5k", 1536),
        ("0.5k", 512),
        ("1.0", 1),
    ],
)
def test_lengths_are_binary(text: str, expected: int) -> None:
    """8k tokens are 8 · 1,024."""
    found = length(text)
    assert found == expected
    assert type(found) is int


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("64", 64),
        ("64k", 64_000),
        ("4M", 4_000_000),
        ("7B", 7_000_000_000),
        ("8g", 8_000_000_000),
        ("1T", 10**12),
        ("1.5k", 1500),
        ("1,000", 1000),
    ],
)
def test_counts_are_decimal(text: str, expected: int) -> None:
    """4M are four million; B and T are the billions and trillions of parameter counts."""
    found = count(text)
    assert found == expected
    assert type(found) is int


@given(st.integers(0, 10**9), st.integers(0, 999), st.sampled_from([("k", 10**3), ("M", 10**6), ("B", 10**9)]))
@example(16, 100, ("k", 10**3))
@example(9, 290, ("B", 10**9))
def test_a_decimal_fraction_of_a_prefix_is_exact(whole: int, thousandths: int, prefix: tuple[str, int]) -> None:
    """16.1k is 16,100: three decimals of a thousand are a whole number, whatever binary floats make of 16.1."""
    name, size = prefix
    assert count(f"{whole}.{thousandths:03d}{name}") == (whole * 1000 + thousandths) * size // 1000


def test_a_whole_number_with_a_point_is_exact() -> None:
    """2^53 + 1 has no float of its own, and is a whole number all the same."""
    assert count("9007199254740993.0") == 2**53 + 1


def test_a_fraction_of_a_huge_count_is_seen() -> None:
    """A half is no whole number, also behind more digits than a float holds."""
    refusal(count, "12345678901234567.5")


@pytest.mark.parametrize(
    "text", ["", " ", "k", "-1", "+1", "1e3", "8kk", "eight", "nan", "inf", "٣", "1.", ".5", "8b", "1/2"]
)
def test_what_is_no_length_is_refused(text: str) -> None:
    """Only a whole number of zero or more, with k, m or g, is a length; billions are for counts."""
    assert "not a length in tokens" in refusal(length, text)


@pytest.mark.parametrize("text", ["", "M", "-4M", "1e6", "4MM", "four", "nan", "inf", "4q", "0x4"])
def test_what_is_no_count_is_refused(text: str) -> None:
    """Only a whole number of zero or more, with k, M, G, B or T, is a count."""
    assert "not a count" in refusal(count, text)


@pytest.mark.parametrize("text", ["0.1", "1.0001k"])
def test_a_fraction_of_a_token_is_refused(text: str) -> None:
    """1.0001 · 1,024 is no whole number of tokens."""
    assert "Write a whole number" in refusal(length, text)


def test_more_digits_than_anything_has_are_refused() -> None:
    """25 digits are a slip of the hand, and the message does not repeat them all."""
    message = refusal(count, "1" * 5000)
    assert "too large" in message
    assert len(message) < 150


# Formatting


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (3.352e12, "B/s", "3.352 TB/s"),
        (989.4e12, "FLOP/s", "989.4 TFLOP/s"),
        (93.2e9, "B", "93.20 GB"),
        (1500.0, "B", "1.500 kB"),
        (7.0, "B", "7.000 B"),
        (3355.0, "s", "3,355 s"),
        (0.02758, "s", "27.58 ms"),
        (5e-6, "s", "5.000 us"),
        (999_999.0, "B", "1.000 MB"),
        (123_456.0, "FLOP", "123.5 kFLOP"),
    ],
)
def test_si_has_four_digits_and_a_prefix(value: float, unit: str, expected: str) -> None:
    """Four significant digits in every row of a table, and the prefix that leaves one to three before the point."""
    assert si(value, unit) == expected


def test_si_of_an_exa_has_its_prefix() -> None:
    """A prefill of 16M tokens is 8.3e19 FLOP: that is 83.2 EFLOP, not an exponent."""
    assert si(8.32e19, "FLOP") == "83.20 EFLOP"


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (0, 3, "0"),
        (1, 3, "1.00"),
        (0.02758, 3, "0.0276"),
        (23.4159, 3, "23.4"),
        (-23.4159, 3, "-23.4"),
        (2302.4, 3, "2,302"),
        (1234567.0, 3, "1,234,567"),
        (0.831, 2, "0.83"),
        (float("inf"), 3, "inf"),
        (float("nan"), 3, "nan"),
    ],
)
def test_significant_has_that_many_digits(value: float, digits: int, expected: str) -> None:
    """That many digits, all of them where more stand before the point, never an exponent."""
    assert significant(value, digits) == expected


@pytest.mark.parametrize(("value", "expected"), [(9.996, "10.0"), (0.09996, "0.100"), (99.96, "100")])
def test_significant_keeps_its_digits_where_it_rounds_up(value: float, expected: str) -> None:
    """9.996 to three digits is 10.0, not 10.00 with four."""
    assert significant(value, 3) == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.831, "83 %"), (0.046, "4.6 %"), (0.0046, "0.46 %"), (0, "0 %"), (1, "100 %"), (1.234, "123 %")],
)
def test_percent_of_a_share(share: float, expected: str) -> None:
    """Two digits below the whole, three from it on."""
    assert percent(share) == expected


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (19.05 * 2**20, "19.05 MiB"),
        (2**30, "1 GiB"),
        (72 * 2**30, "72 GiB"),
        (100 * 2**30, "100 GiB"),
        (15.26 * 2**30, "15.26 GiB"),
        (1234.5 * 2**30, "1,234.5 GiB"),
        (-(2**30), "-1 GiB"),
    ],
)
def test_memory_is_printed_in_gib(n: float, expected: str) -> None:
    """Two decimals at the most, small sizes in MiB, KiB or bytes; the zeros of 100 stay."""
    assert gib(n) == expected


@pytest.mark.parametrize(
    ("total", "unit", "expected"),
    [
        (93.2e9, "B", (1e9, "GB")),
        (9.3e9, "B", (1e6, "MB")),
        (1.278e12, "FLOP", (1e9, "GFLOP")),
        (12.78e12, "FLOP", (1e12, "TFLOP")),
        (9999.0, "B", (1.0, "B")),
        (10_000.0, "B", (1e3, "kB")),
        (0.5, "B", (1.0, "B")),
        (27.8e-3, "s", (1e-3, "ms")),
        (0.9999, "s", (1e-3, "ms")),
        (1.0, "s", (1.0, "s")),
        (5e-6, "s", (1e-6, "us")),
        (0.0, "s", (1e-9, "ns")),
    ],
)
def test_scale_of_a_column(total: float, unit: str, expected: tuple[float, str]) -> None:
    """The prefix that leaves 10 to 9,999 of a unit, and 1 to 999 of seconds."""
    assert scale(total, unit) == expected


@given(st.floats(10, 1e18))
def test_a_scaled_sum_has_two_to_four_digits(total: float) -> None:
    """Whatever the sum, 10 to 10,000 of its unit stand in the table."""
    size, _ = scale(total, "B")
    assert 10 * (1 - 1e-12) <= total / size <= 10_000


@given(st.floats(1e-9, 999.0))
def test_scaled_seconds_have_one_to_three_digits(total: float) -> None:
    """Whatever the time, 1 to 1,000 of its unit stand in the table."""
    size, _ = scale(total, "s")
    assert 1 - 1e-12 <= total / size <= 1000 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("values", "size", "expected"),
    [
        ([], 1.0, []),
        ([0.0, 0.0], 1.0, ["0.000", "0.000"]),
        ([0.5, 0.25], 1.0, ["0.500", "0.250"]),
        ([77.357e9, 0.001e9], 1e9, ["77.36", "0.00"]),
        ([231.93e9, 5e9], 1e9, ["231.9", "5.0"]),
        ([12345.678, 1.0], 1.0, ["12,346", "1"]),
    ],
)
def test_a_column_has_one_number_of_decimals(values: list[float], size: float, expected: list[str]) -> None:
    """The largest entry has four digits, and every other one as many decimals."""
    assert column(values, size) == expected


# Round trips


@given(st.floats(1e-11, 9e17), st.sampled_from(["B/s", "FLOP/s", "B", "s", "Hz", "W"]))
def test_what_si_prints_quantity_reads(value: float, unit: str) -> None:
    """Four digits are half of 10^-3 off at the most."""
    assert quantity(si(value, unit), unit) == pytest.approx(value, rel=5.01e-4)


@given(st.floats(1, 1e15))
def test_what_gib_prints_quantity_reads(n: float) -> None:
    """Two decimals of at least 1 are 0.005 off at the most, whole bytes half a one."""
    assert quantity(gib(n), "B") == pytest.approx(n, rel=5.01e-3, abs=0.5)


@given(st.floats(1e-9, 1e15), st.integers(1, 6))
def test_what_significant_prints_is_near(value: float, digits: int) -> None:
    """The text is a number within half of its last digit."""
    found = float(significant(value, digits).replace(",", ""))
    assert found == pytest.approx(value, rel=0.501 * 10 ** (1 - digits))


@given(st.integers(0, 10**24 - 1))
def test_plain_digits_are_themselves(n: int) -> None:
    """A number without a prefix is itself, exact, as a length and as a count, with commas too."""
    assert length(str(n)) == count(f"{n:,}") == n


@given(st.integers(0, 10**6), st.integers(0, 1023))
def test_binary_fractions_of_a_length_are_exact(whole: int, rest: int) -> None:
    """n/1,024 of a k is n tokens; ten decimals write it exactly."""
    exact = Fraction(rest, 1024)
    digits = f"{exact.numerator * 10**10 // exact.denominator:010d}"
    assert length(f"{whole}.{digits}k") == whole * 1024 + rest


def test_quantity_gives_a_float() -> None:
    """What is read is a plain finite float, ready for arithmetic."""
    found = quantity("80 GiB", "B")
    assert type(found) is float
    assert math.isfinite(found)


@pytest.mark.parametrize(
    ("text", "tokens"), [("1,024", 1024), ("8Ki", 8192), ("2 mi", 2 << 20), ("1_000", 1000), ("12,345,678", 12345678)]
)
def test_grouped_thousands_and_binary_prefixes_of_a_length(text: str, tokens: int) -> None:
    """Commas between groups of three; Ki is what k means here."""
    assert length(text) == tokens


@pytest.mark.parametrize("text", ["8,5k", "1,5", "1,00", ",5", "1234,567"])
def test_a_decimal_comma_is_refused(text: str) -> None:
    """1,5 is not 15: a comma that groups no thousands is a mistake."""
    with pytest.raises(BadValue):
        length(text)
    with pytest.raises(BadValue):
        quantity(f"{text} TB/s", "B/s")
