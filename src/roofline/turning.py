"""Where a label turns along an axis of whole numbers: found by a scan, settled by bisection with exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from roofline.num import Num

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST = 1 << 24  # the end of an axis
_DENSE = 4096
_STEP = 1.002


class Turn(NamedTuple):
    """The first whole number with another label than the one before it."""

    value: int
    before: Any
    after: Any


def turns(label: Callable[[Num], Any], most: int = MOST) -> list[Turn]:
    """Every change of `label(n)` for n from 1 to `most`; `label` takes an int, or an array of floats.

    Changes that come and go within one step of 0.2 % past 4,096 are not seen.
    """
    import numpy as np

    grid = _grid(most)
    seen = np.broadcast_to(np.asarray(label(grid)), grid.shape)
    found: dict[int, Turn] = {}
    for index in np.flatnonzero(seen[1:] != seen[:-1]):
        low, high = int(grid[index]), int(grid[index + 1])
        # One more on each side: an array of floats may round a tie the other way than exact arithmetic.
        for turn in _exactly(label, max(1, low - 1), min(most, high + 1)):
            found[turn.value] = turn
    return [found[value] for value in sorted(found)]


@cache
def _grid(most: int) -> NDArray[np.float64]:
    """Every whole number to 4,096, then steps of 0.2 %; made once, so that what is made of it is too."""
    import numpy as np

    grid = np.arange(1, min(most, _DENSE) + 1, dtype=np.float64)
    if most <= _DENSE:
        return grid
    steps = int(np.ceil(np.log(most / _DENSE) / np.log(_STEP)))
    return np.unique(np.floor(np.concatenate([grid, np.geomspace(_DENSE, most, steps + 1)])))


def _exactly(label: Callable[[Num], Any], low: int, high: int) -> list[Turn]:
    """The changes between two whole numbers that are one or two apart in labels, by exact arithmetic."""
    before = label(low)
    if high - low <= 3:
        pairs = ((n, label(n - 1), label(n)) for n in range(low + 1, high + 1))
        return [Turn(n, first, second) for n, first, second in pairs if first != second]
    found: list[Turn] = []
    while before != label(high):
        left, right = low, high
        while right - left > 1:
            middle = (left + right) // 2
            left, right = (middle, right) if label(middle) == before else (left, middle)
        found.append(Turn(right, before, label(right)))
        low, before = right, label(right)
    return found


def meet(gap: Callable[[int], float], value: int) -> float | None:
    """The real number between `value` - 1 and `value` at which a difference that changes its sign there is zero.

    Demands are polynomials of degree two at most, so the one through three whole numbers is the difference itself,
    unless a kernel's own verdict turns just there. None at 1, where there is no number before.
    """
    if value < 2:
        return None
    low, high, next_ = gap(value - 1), gap(value), gap(value + 1)
    slope, bend = high - low, (next_ - 2 * high + low) / 2
    # gap(value - 1 + t) = low + (slope - bend) t + bend t^2
    at = _root(bend, slope - bend, low)
    return value - 1 + (at if at is not None else low / (low - high) if low != high else 0.0)


def _root(a: float, b: float, c: float) -> float | None:
    """The root of a t^2 + b t + c from 0 to 1, or None."""
    inside = b * b - 4 * a * c
    if inside < 0 or b == 0:
        return None
    # The form that does not subtract what is nearly equal.
    q = -(b + (inside**0.5 if b > 0 else -(inside**0.5))) / 2
    roots = [each for each in (c / q if q else None, q / a if a else None) if each is not None]
    return next((each for each in roots if 0 <= each <= 1), None)
