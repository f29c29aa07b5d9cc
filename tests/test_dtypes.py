"""Number formats: bytes by hand, with block scales and zero points, on sizes that do not divide too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.dtypes import DTYPES, DType, dtype
from roofline.errors import UnknownName
from roofline.num import Expr

NAMES = sorted(DTYPES)
SIZES = st.integers(0, 5000)

# Bytes of 1,000 elements without scales, and of a matrix of 10 rows and 256 columns with them.
BY_HAND = {
    "fp64": (8000, 20480),
    "fp32": (4000, 10240),
    "bf16": (2000, 5120),
    "stored": (2000, 5120),  # where no file says a format
    "fp16": (2000, 5120),
    "fp8": (1000, 2560),
    "fp8-block128": (1000, 2560 + 1 * 2 * 4),  # a row of blocks, two across, four bytes each
    "mxfp8": (1000, 2560 + 10 * 8),  # 256/32 scales a row, one byte each
    "int8": (1000, 2560),
    "fp6": (750, 1920),
    "mxfp6": (750, 1920 + 10 * 8),
    "fp4": (500, 1280),
    "mxfp4": (500, 1280 + 10 * 8),
    "nvfp4": (500, 1280 + 10 * 16),  # 256/16 scales a row
    "int4": (500, 1280),
    "int4-g32": (500, 1280 + 200),  # 80 groups of 20 bits are 1,600 bits
    "int4-g64": (500, 1280 + 100),  # 40 groups
    "int4-g128": (500, 1280 + 50),  # 20 groups
}


def test_every_format_is_worked_out_by_hand() -> None:
    """A format that is added brings its two figures."""
    assert set(BY_HAND) == set(DTYPES)


@pytest.mark.parametrize("name", NAMES)
def test_bytes_of_a_thousand_elements(name: str) -> None:
    """Elements times bits over 8, without scales."""
    assert dtype(name).of(1000) == BY_HAND[name][0]


@pytest.mark.parametrize("name", NAMES)
def test_bytes_of_a_matrix(name: str) -> None:
    """10 x 256 elements and the scales of their blocks."""
    assert dtype(name).matrix(10, 256) == BY_HAND[name][1]


@pytest.mark.parametrize(("elements", "expected"), [(0, 0), (1, 1), (2, 1), (3, 2), (7, 4), (1001, 501)])
def test_an_odd_count_of_int4_fills_its_last_byte(elements: int, expected: int) -> None:
    """Seven nibbles need four bytes."""
    assert dtype("int4").of(elements) == expected


@pytest.mark.parametrize(("elements", "expected"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4)])
def test_six_bits_fill_up_to_whole_bytes(elements: int, expected: int) -> None:
    """Four elements of six bits are three bytes; five are 30 bits, so four."""
    assert dtype("fp6").of(elements) == expected


@pytest.mark.parametrize(
    ("name", "rows", "columns", "expected"),
    [
        # 3 x 129 nibbles: 1,548 bits, 194 bytes; 3 x 2 groups of 20 bits: 120 bits, 15 bytes
        ("int4-g128", 3, 129, 194 + 15),
        # one nibble and one group of 20 bits
        ("int4-g128", 1, 1, 1 + 3),
        # 4096² / 2, and 4096 · 32 groups of 2.5 bytes
        ("int4-g128", 4096, 4096, 8_388_608 + 327_680),
        # 5 x 33 nibbles: 660 bits, 83 bytes; 5 x 2 scales of a byte
        ("mxfp4", 5, 33, 83 + 10),
        # 3 x 17 nibbles: 204 bits, 26 bytes; 3 x 2 scales of a byte
        ("nvfp4", 3, 17, 26 + 6),
        # 129 x 257 bytes; 2 x 3 blocks of four bytes
        ("fp8-block128", 129, 257, 33_153 + 24),
        # 56 x 16 blocks
        ("fp8-block128", 7168, 2048, 14_680_064 + 3584),
        ("mxfp8", 2, 31, 62 + 2),
    ],
)
def test_blocks_that_are_not_full_have_a_whole_scale(name: str, rows: int, columns: int, expected: int) -> None:
    """Every block that was begun has its scale, and the scales together fill up to a byte."""
    assert dtype(name).matrix(rows, columns) == expected


def test_groups_run_along_the_columns() -> None:
    """256 x 10 has a group a row, 256 of them: 640 bytes of scales where 10 x 256 has 50."""
    assert dtype("int4-g128").matrix(256, 10) == 1280 + 640


def test_square_blocks_do_not_care_for_the_direction() -> None:
    """128 x 128 blocks of W and of its transpose are as many."""
    assert dtype("fp8-block128").matrix(129, 1000) == dtype("fp8-block128").matrix(1000, 129)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_matrix_has_no_bytes(name: str) -> None:
    """Nothing is stored in nothing, scales neither."""
    assert dtype(name).matrix(0, 256) == 0


@pytest.mark.parametrize("name", NAMES)
def test_bytes_of_ints_are_an_int(name: str) -> None:
    """Byte counts are exact, also far beyond 2^53."""
    found = dtype(name).matrix(2**40 + 1, 2**40 + 1)
    assert type(found) is int


@given(st.sampled_from(NAMES), SIZES, SIZES)
def test_arrays_agree_with_ints(name: str, rows: int, columns: int) -> None:
    """A sweep gives the bytes that each of its sizes gives alone."""
    each = dtype(name)
    swept = each.matrix(np.array([float(rows), rows + 1.0]), float(columns))
    assert np.broadcast_to(swept, 2).tolist() == [each.matrix(rows, columns), each.matrix(rows + 1, columns)]


@given(st.sampled_from(NAMES), SIZES, SIZES)
def test_a_trace_agrees_with_ints(name: str, rows: int, columns: int) -> None:
    """The formula evaluates to the exact bytes."""
    each = dtype(name)
    traced = each.matrix(Expr.var("rows"), Expr.var("columns"))
    assert traced.evaluate(rows=rows, columns=columns) == each.matrix(rows, columns)


@given(st.sampled_from(NAMES), SIZES, SIZES)
def test_a_matrix_is_no_smaller_than_its_elements(name: str, rows: int, columns: int) -> None:
    """Scales only add, and no bit is lost to rounding."""
    each = dtype(name)
    assert each.matrix(rows, columns) >= each.of(rows * columns) >= rows * columns * each.bits / 8


def test_a_format_stands_for_itself() -> None:
    """Where a name may stand, the format itself may."""
    own = DType("mine", 5)
    assert dtype(own) is own
    assert own.of(8) == 5


def test_a_name_gives_its_format() -> None:
    """Each format is found by the name it has."""
    assert all(dtype(name).name == name for name in NAMES)


def test_an_unknown_format_lists_close_ones() -> None:
    """A slip is answered with what may have been meant, in one line."""
    with pytest.raises(UnknownName, match=r"^Unknown dtype 'int4-g12'\. Close: .*int4-g128") as caught:
        dtype("int4-g12")
    assert "\n" not in str(caught.value)


def test_a_part_of_a_name_lists_those_that_have_it() -> None:
    """`mx` may mean any of the three microscaling formats."""
    with pytest.raises(UnknownName) as caught:
        dtype("mx")
    assert all(name in str(caught.value) for name in ("mxfp8", "mxfp6", "mxfp4"))


def test_a_format_like_none_lists_them_all() -> None:
    """Where nothing is close, what there is."""
    with pytest.raises(UnknownName) as caught:
        dtype("zzzz")
    assert all(name in str(caught.value) for name in NAMES)
