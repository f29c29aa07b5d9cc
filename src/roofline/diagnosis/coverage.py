"""How much of the compute time has a cost, and why the rest has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.costing import COSTED, HELPER, NVTX_REMEDIES, REASONS, REMEDIES, UNLINKED, Costing
from roofline.trace.classify import CATEGORIES, COMPUTE
from roofline.trace.events import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Compute time [ns]: all kernels and memsets, one after another.

    `costed` by the shapes of their own operator, helpers among it; `placed` as the tail of the step before, by the
    shapes of the same kernels a step later; `without` by the reason for which there is no cost.
    """

    compute: int
    costed: int
    placed: int
    without: Mapping[str, int]
    remedies: Mapping[int, str] = field(default_factory=lambda: REMEDIES)

    @property
    def share(self) -> float:
        """The share of compute time with a cost; 0 where nothing was computed."""
        return (self.costed + self.placed) / self.compute if self.compute else 0.0

    def remedy(self) -> str:
        """How to record what most of the rest lacks; "" where that would not help."""
        most = max(self.without, key=lambda each: self.without[each], default="")
        return next((self.remedies[why] for why, text in REASONS.items() if text == most and why in self.remedies), "")


def coverage(trace: Trace, rows: Ints, kinds: Ints, found: Costing) -> Coverage:
    """The share of compute time whose kernels have a cost."""
    import numpy as np

    computing = np.isin(kinds, [CATEGORIES.index(each) for each in COMPUTE])
    duration = trace.gpu.duration[rows]
    known = np.isin(found.why, (COSTED, HELPER))
    placed = np.zeros(len(rows), bool)
    if found.tail is not None:
        placed[found.tail.mine] = known[found.tail.theirs]
        placed &= ~known
    without = {
        text: time
        for why, text in REASONS.items()
        if (time := int(duration[computing & ~placed & (found.why == why)].sum()))
    }
    return Coverage(
        compute=int(duration[computing].sum()),
        costed=int(duration[computing & known].sum()),
        placed=int(duration[computing & placed].sum()),
        without=without,
        remedies=_remedies(trace),
    )


def _remedies(trace: Trace) -> Mapping[int, str]:
    """What to do about each reason, with the tool that recorded the file."""
    if trace.format.startswith("Nsight Systems"):
        return NVTX_REMEDIES
    if not len(trace.calls):
        return REMEDIES | {UNLINKED: "the file holds no calls of the host; take a trace that does (roofline record)"}
    return REMEDIES
