"""Memory that is free and still held: large columns leave it behind in pieces."""

from __future__ import annotations

import sys
from contextlib import suppress


def give_back() -> None:
    """Give the system what is free, where the C library would keep it for later."""
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):  # another C library than GNU's
        ctypes.CDLL(None).malloc_trim(0)
