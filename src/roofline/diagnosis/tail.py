"""What the device still did of the step before the record began: kept, and placed at the end of a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.trace.events import NONE, Trace, listed
from roofline.trace.link import Links

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_SAME = 0.99  # share of activities that must equal those of a recorded step, one for one
_LEAST = 3  # activities: fewer could equal others by chance


@dataclass(frozen=True, slots=True)
class Tail:
    """Activities before the first recorded launch, each beside its like in a step that is recorded.

    `mine` and `theirs` are places among the activities of the device; `same` of them are alike in name and grid.
    """

    mine: Ints
    theirs: Ints
    same: int
    of: int  # activities of the step whose end they equal


def tail_of(trace: Trace, links: Links, rows: Ints) -> Tail | None:
    """The tail of the step before; None where there is none, or where no recorded step ends as it does."""
    import numpy as np

    gpu = trace.gpu
    linked = np.flatnonzero(links.call[rows] != NONE)
    if not len(linked):
        return None
    mine = np.arange(int(linked[0]))
    if len(mine) < _LEAST:
        return None
    for step in _steps(trace, links, rows, linked):
        if len(step) < len(mine):
            continue
        theirs = step[len(step) - len(mine) :]
        ours, others = rows[mine], rows[theirs]
        grid, other = gpu.detail[ours], gpu.detail[others]  # a launch that is not recorded may have no grid
        alike = (gpu.name[ours] == gpu.name[others]) & ((grid == other) | (grid == NONE) | (other == NONE))
        same = int(alike.sum())
        if same >= _SAME * len(mine):
            return Tail(mine[alike], theirs[alike], same, len(step))
    return None


def _steps(trace: Trace, links: Links, rows: Ints, linked: Ints) -> Iterator[Ints]:
    """The recorded activities step by step, as the host marked them; then all together."""
    import numpy as np

    marks = trace.marks
    named = np.array([name.startswith("ProfilerStep#") for name in trace.names], bool)
    mine = np.flatnonzero(named[marks.name]) if len(marks) else np.zeros(0, np.int64)
    launched = trace.calls.start[links.call[rows[linked]]]
    for at in listed(mine):
        yield linked[(launched >= marks.start[at]) & (launched < marks.start[at] + marks.duration[at])]
    yield linked
