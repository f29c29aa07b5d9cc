"""Ranges that the host marked, with the device time that was launched within them on their own thread."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.result import MarkedTime
from roofline.trace import timeline
from roofline.trace.coding import tally
from roofline.trace.events import NONE, Trace, listed
from roofline.trace.link import Links

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_MOST = 200  # names that are told
_NUMBER = re.compile(r"\d+")


def marked(trace: Trace, links: Links, rows: Ints) -> tuple[tuple[MarkedTime, ...], tuple[MarkedTime, ...]]:
    """The ranges by name, and those whose names differ in numbers alone as one; the longest first.

    Steps are told apart (see `steps`); ranges that launched nothing are left out.
    """
    marks, calls = trace.marks, trace.calls
    if not len(marks) or not len(calls) or not len(rows):
        return (), ()
    times = _launched(trace, links, rows)
    alike: dict[str, int] = {}
    kinds = [alike.setdefault(_NUMBER.sub("*", name), len(alike)) for name in trace.names]
    return _by(list(range(len(kinds))), trace, times), _by(kinds, trace, times)


def _launched(trace: Trace, links: Links, rows: Ints) -> tuple[Ints, Ints]:
    """Of each range the time and the number of the activities that were launched within it."""
    import numpy as np

    marks, calls = trace.marks, trace.calls
    launched = rows[links.call[rows] != NONE]
    call = links.call[launched]
    device, activities = (np.zeros(len(marks), np.int64) for _ in range(2))
    for thread in tally(marks.thread):
        mine = np.flatnonzero(marks.thread == thread)
        theirs = np.flatnonzero(calls.thread[call] == thread)
        at = calls.start[call[theirs]]
        order = np.argsort(at, kind="stable")
        at = at[order]
        start, end = (np.searchsorted(at, each) for each in marks.spans(mine))
        so_far = np.r_[0, np.cumsum(trace.gpu.duration[launched[theirs[order]]], dtype=np.int64)]
        device[mine], activities[mine] = so_far[end] - so_far[start], end - start
    return device, activities


def _by(kinds: list[int], trace: Trace, times: tuple[Ints, Ints]) -> tuple[MarkedTime, ...]:
    """Ranges of one kind together; `kinds` is that of each name."""
    import numpy as np

    marks, (device, activities) = trace.marks, times
    kind = np.array(kinds, np.int64)[marks.name]
    outer = timeline.outermost(marks.start, marks.end, kind, marks.thread)  # none encloses another of its kind
    host, whole, many = (np.zeros(max(kinds) + 1, np.int64) for _ in range(3))
    for total, part in ((host, marks.duration), (whole, device), (many, activities)):
        np.add.at(total, kind[outer], part[outer])
    names: dict[int, set[int]] = {}
    for name in set(listed(marks.name)):
        names.setdefault(kinds[name], set()).add(name)
    found = [
        MarkedTime(_called(trace, names[each]), n, int(host[each]), int(whole[each]), int(many[each]))
        for each, n in tally(kind).items()
        if many[each]
    ]
    return tuple(sorted(found, key=lambda each: (-each.device, each.name))[:_MOST])


def _called(trace: Trace, names: set[int]) -> str:
    """What ranges of these names are called together."""
    first = trace.names[min(names)]
    return first if len(names) == 1 else _NUMBER.sub("*", first)
