"""Who waits for whom in collectives: told by their durations alone, as all that take part leave one together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Member:
    """One that takes part in collectives; times in nanoseconds."""

    label: str
    waited: int  # in collectives for the last to come
    last: int  # collectives that it came last to
    compute: int  # in which anything was computed
    idle: int


def straggler(who: str, members: Sequence[Member], count: int, window: int) -> Finding | None:
    """The one of `members` that the others wait for, where they wait for it more than for each other.

    `who` they are ("ranks"), in `count` collectives of a window [ns].
    """
    late = min(members, key=lambda each: each.waited)
    others = [each for each in members if each is not late]
    waited = mean(each.waited for each in others)
    stake = waited - late.waited
    if stake < _LEAST * window or waited < _LATE * max(late.waited, 1):
        return None
    many = len(others) > 1
    theirs = f"the others waited {_s(waited)} each, up to {_s(max(each.waited for each in others))}"
    theirs = theirs if many else f"the other one waited {_s(waited)}"
    compute, idle = (mean(getattr(each, name) for each in others) for name in ("compute", "idle"))
    return Finding(
        "straggler",
        f"The other {who if many else who.removesuffix('s')} wait{'' if many else 's'} for {late.label}",
        stake / NS_PER_S,
        (
            f"{late.label} came last to {late.last:,} of {count:,} collectives and waited {_s(late.waited)} in them",
            f"{theirs}; that is {percent(waited / max(window, 1))} of the window",
            f"{late.label} computes for {_s(late.compute)} and is idle for {_s(late.idle)}, "
            f"{'the others in the mean' if many else 'the other one'} for {_s(compute)} and {_s(idle)}",
        ),
        "where it computes longer: more work (uneven sequences, experts, stages) or a slower device (clocks, "
        "temperature); where it is idle longer: a busier host.",
    )


def _s(nanoseconds: float) -> str:
    return si(nanoseconds / NS_PER_S, "s", 3)
