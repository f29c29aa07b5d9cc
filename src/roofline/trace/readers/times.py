"""Microseconds as a trace writes them to whole nanoseconds, exactly.

What is written finer than that is rounded half up (half away from zero) by the digits that are written, whether a time
comes as a number or as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline.units import NS_PER_US

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Below this a double tells all thousandths apart: half its last place is under half a thousandth, and the
# product's own rounding is to a half or a whole, so that rint finds the thousandth that was written.
EXACT = float(1 << 43)
_WHOLE = float(1 << 53)  # below this a double tells all whole numbers apart
MOST = 1 << 62  # [ns] some 146 years
BAD = -MOST  # a time that is absent or no number
WRAPPED = -MOST + 1  # a time of centuries: a negative number written without its sign


class Inexact(Exception):
    """Times that a double cannot hold to the nanosecond, or that are no plain numbers: read their text."""


def nanoseconds(values: list[Any]) -> NDArray[np.int64]:
    """Microseconds as decoded numbers in whole nanoseconds; raises Inexact."""
    import numpy as np

    if isinstance(values[0], str):  # NumPy would take it for a number
        raise Inexact
    try:
        numbers = np.fromiter(values, np.float64, len(values))
        if np.abs(numbers).max() < EXACT:  # False for one that is not a number
            return _rounded(numbers)
        # The years since 1970 in whole microseconds, as they were written until 2024: a double holds them, too.
        if set(map(type, values)) == {int} and np.abs(numbers).max() < _WHOLE:
            return numbers.astype(np.int64) * NS_PER_US
        whole = np.array(values)
    except (TypeError, ValueError, OverflowError):  # text, null or lists among them
        raise Inexact from None
    if whole.dtype.kind == "i" and max(-int(whole.min()), int(whole.max())) < MOST // NS_PER_US:
        return whole * NS_PER_US
    raise Inexact


_ULP = 2.0**-52  # of a double: the most that a product of one that was parsed can be off, as a share of it
_FAR = 0.375  # from a half, so that a whole number never counts as near one


def _rounded(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Microseconds below EXACT in nanoseconds; where a product may be on the other side of a half, by its digits."""
    import numpy as np

    products = numbers * NS_PER_US
    found = np.rint(products)
    near = np.minimum(np.abs(products) * _ULP, _FAR)
    unclear = np.flatnonzero(np.abs(products - found) >= 0.5 - near)
    whole = found.astype(np.int64)
    for at in unclear.tolist():
        whole[at] = _parsed(repr(float(numbers[at])).encode())
    return whole


def exact(texts: Sequence[Any]) -> NDArray[np.int64]:
    """Microseconds as text, in quotes or not, in nanoseconds; BAD or WRAPPED where one cannot be a time.

    A text is bytes, or what bytes are made of.
    """
    import numpy as np

    found = _plain(b"\n".join(texts), len(texts))
    return np.fromiter((_parsed(bytes(each)) for each in texts), np.int64, len(texts)) if found is None else found


_DIGITS = 15  # before the point, of a number whose nanoseconds 64 bits hold; with one more, where it begins low
_LOW = ord("3")
_DECIMALS = 3


def _plain(text: bytes, count: int) -> NDArray[np.int64] | None:
    """Nanoseconds of microseconds in lines of digits with at most three decimals; None where there is any other."""
    import numpy as np

    if text.translate(None, b"0123456789.\n"):
        return None
    characters = np.frombuffer(text, np.uint8)
    ends = np.append(np.flatnonzero(characters == ord("\n")), len(text))
    begins = np.append(0, ends[:-1] + 1)
    if len(ends) != count or (ends == begins).any():
        return None
    points = np.flatnonzero(characters == ord("."))
    rows = np.searchsorted(ends, points)  # the line of each point
    decimals = ends[rows] - points - 1
    if (np.diff(rows) == 0).any() or ((decimals < 1) | (decimals > _DECIMALS)).any() or (points == begins[rows]).any():
        return None
    whole = ends - begins
    whole[rows] = points - begins[rows]
    if ((whole > _DIGITS) & ((whole > _DIGITS + 1) | (characters[begins] > _LOW))).any():
        return None
    missing = np.full(count, _DECIMALS)
    missing[rows] -= decimals
    numbers = np.fromstring(text.replace(b".", b""), np.int64, sep="\n")
    return numbers * np.power(10, missing) if len(numbers) == count else None


_DECIMAL = re.compile(rb"(-?)(\d{1,16})(?:\.(\d+))?\Z")
_LONGEST = 400  # characters of a number with an exponent, or beyond all times


def _parsed(text: bytes) -> int:
    text = text.strip(b'" \t\r\n')
    found = _DECIMAL.match(text)
    if found is None:
        return _parsed_decimal(text)
    digits = (found[3] or b"")[:4].ljust(4, b"0")
    value = int(found[2]) * NS_PER_US + (int(digits) + 5) // 10
    if value >= MOST:
        return WRAPPED
    return -value if found[1] else value


def _parsed_decimal(text: bytes) -> int:
    from decimal import ROUND_HALF_UP, Decimal, localcontext

    if len(text) > _LONGEST:
        return BAD
    try:
        value = Decimal(text.decode("ascii", "replace"))
        if value.is_finite():
            if abs(value) >= MOST // NS_PER_US:
                return WRAPPED
            with localcontext(prec=2 * _LONGEST):
                return int((value * NS_PER_US).to_integral_value(ROUND_HALF_UP))
    except ArithmeticError:  # no number, or one beyond all numbers
        pass
    return BAD
