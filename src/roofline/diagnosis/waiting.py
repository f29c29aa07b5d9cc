"""Who waits for whom in collectives: told by their durations alone, as all that take part leave one together."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.findings import Finding
from roofline.trace.events import listed
from roofline.units import NS_PER_S, percent, si

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_LATE = 1.5  # times the mean of the others: how much less than they a straggler waits
_LEAST = 0.01  # of the window


def waits(lengths: Sequence[Sequence[int] | Ints]) -> tuple[list[int], list[int]]:
    """Of each that takes part, how long it waited for the last [ns], and to how many collectives it came last.

    `lengths` are the durations of the same collectives, in order, of each. The one that spends least in a collective
    came last to it: no clock is needed.
    """
    import numpy as np

    each = np.array(lengths, np.int64)
    shortest = each.min(0)
    return listed(each.sum(1) - shortest.sum()), listed((each == shortest).sum(1))


def straggler(
    who: str, waited: Sequence[tuple[str, int]], last: Sequence[int], count: int, window: int
) -> Finding | None:
    """The one that the others wait for, where they wait for it more than for each other.

    `who` they are ("ranks"), what each is called and how long it waited [ns], to how many of `count` collectives each
    came last, and the window [ns].
    """
    at = min(range(len(waited)), key=lambda each: waited[each][1])
    label, least = waited[at]
    others = [time for index, (_, time) in enumerate(waited) if index != at]
    stake = mean(others) - least
    if stake < _LEAST * window or mean(others) < _LATE * max(least, 1):
        return None
    many = len(others) > 1
    theirs = f"the others waited {si(mean(others) / NS_PER_S, 's', 3)} each, up to {si(max(others) / NS_PER_S, 's', 3)}"
    theirs = theirs if many else f"the other one waited {si(others[0] / NS_PER_S, 's', 3)}"
    return Finding(
        "straggler",
        f"The other {who if many else who.removesuffix('s')} wait{'' if many else 's'} for {label}",
        stake / NS_PER_S,
        (
            f"{label} came last to {last[at]:,} of {count:,} collectives and waited {si(least / NS_PER_S, 's', 3)} in "
            "them",
            f"{theirs}; that is {percent(mean(others) / max(window, 1))} of the window",
        ),
        "compare its computation and its gaps with the others': more work (uneven sequences, experts, stages), a "
        "slower device (clocks, temperature), or a busier host.",
    )
