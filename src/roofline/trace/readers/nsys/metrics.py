"""GPU metrics."""

from __future__ import annotations

from roofline.trace.events import Samples
from roofline.trace.readers.nsys.reading import Reading


def samples(reading: Reading) -> tuple[Samples, ...]:
    """The samples."""
    return ()
