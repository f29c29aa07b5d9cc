"""Numbers of measured kernels: their sizes are known, so a Num of theirs is an int or a float."""

from __future__ import annotations

from typing import cast

from roofline.num import Num


def whole(n: Num) -> int:
    """A count of FLOPs or bytes."""
    return int(cast(int, n))


def real(n: Num) -> float:
    """A time or a share."""
    return float(cast(float, n))
