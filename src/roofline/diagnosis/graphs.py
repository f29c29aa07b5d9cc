"""Kernels that a graph replays, beside the pass that captured it: the same launches, in the same order.

A replay records no operators and no shapes. Its capture records the launches with their operators, and launches
nothing. Where both have the same number of launches, and those that can be told apart are of one kind, they are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.passes import NEW
from roofline.trace.classify import CATEGORIES, category
from roofline.trace.events import NONE, Ranges, Trace, listed
from roofline.trace.link import Links, link

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_BEGIN, _END = re.compile(r"StreamBeginCapture"), re.compile(r"StreamEndCapture")
_LAUNCH = re.compile(r"Launch(?!HostFunc|.*Graph)|Memcpy|Memset|MemAlloc(?=Node)")
_GRAPH = re.compile(r"GraphLaunch")
_TOLD = ("gemm", "attention", "convolution", "normalisation")  # kinds that names of operators and kernels both tell
_SAME = {"moe": "gemm"}  # products of experts
_LEAST = 3  # launches: fewer may be alike by chance
_ALIKE = 0.95  # of the launches whose kind both sides tell
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Lent:
    """A trace whose replayed kernels have the operators of their capture.

    `replay` numbers the replay of each activity, NONE for those that are of none or found no capture.
    """

    trace: Trace
    links: Links
    replay: Ints

    @property
    def count(self) -> int:
        """Activities that have an operator by their capture."""
        return int((self.replay != NONE).sum())


@dataclass(frozen=True, slots=True)
class _Capture:
    ops: Ints  # of each launch the operator, or NONE
    numbers: frozenset[int]  # in the name of the annotation around it, as of the batch


def lend(trace: Trace, links: Links, rows: Ints, kinds: Ints, capture: Trace | None = None) -> Lent:
    """Operators for the replayed kernels of `rows`, from captures in the trace itself or in another one."""
    import numpy as np

    none = np.full(len(rows), NONE, np.int64)
    replays = list(_replays(trace, links, rows))
    if not replays:
        return Lent(trace, links, none)
    captures = list(_captures(trace, links))
    if capture is not None:
        trace, links, offset = _joined(trace, links, capture)
        captures = [*captures, *_captures(capture, link(capture), offset)]
    op, replay = links.op.copy(), none.copy()
    for at, mine in enumerate(replays):
        fitting = [each for each in captures if len(each.ops) == len(mine) and _alike(trace, kinds[mine], each.ops)]
        chosen = _one(trace, fitting, _padded(trace, links, int(rows[mine[0]])))
        if chosen is not None:
            op[rows[mine]], replay[mine] = chosen.ops, at
    return Lent(trace, replace(links, op=op), replay)


def _replays(trace: Trace, links: Links, rows: Ints) -> Iterator[Ints]:
    """The activities of each launch of a graph, in order, by their place in `rows`."""
    import numpy as np

    if not len(trace.calls):
        return
    graph = np.array([bool(_GRAPH.search(name)) for name in trace.names], bool)
    call = links.call[rows]
    replayed = np.flatnonzero((call != NONE) & graph[trace.calls.name[np.maximum(call, 0)]])
    order = replayed[np.argsort(call[replayed], kind="stable")]
    edges = np.flatnonzero(np.diff(call[order])) + 1
    for mine in np.split(order, edges):
        if len(mine) >= _LEAST:
            yield mine


def _captures(trace: Trace, links: Links, offset: int = 0) -> Iterator[_Capture]:
    """What was launched between the begin and the end of each capture, thread by thread."""
    import numpy as np

    calls, marks, names = trace.calls, trace.marks, trace.names
    begins, ends, launches = (
        np.array([bool(each.search(name)) for name in names], bool)[calls.name] if len(calls) else np.zeros(0, bool)
        for each in (_BEGIN, _END, _LAUNCH)
    )
    for at in listed(np.flatnonzero(begins)):
        thread, start = int(calls.thread[at]), int(calls.start[at])
        later = np.flatnonzero(ends & (calls.thread == thread) & (calls.start > start))
        if not len(later):
            continue
        end = int(calls.start[later].min())
        mine = np.flatnonzero(launches & (calls.thread == thread) & (calls.start > start) & (calls.start < end))
        mine = mine[np.argsort(calls.start[mine], kind="stable")]
        around = np.flatnonzero((marks.start <= start) & (marks.end >= end)) if len(marks) else mine[:0]
        texts = (names[int(marks.name[each])] for each in listed(around))
        numbers = frozenset(int(n[:9]) for text in texts for n in _NUMBER.findall(text[:200]))
        op = links.around[mine]
        yield _Capture(np.where(op == NONE, NONE, op + offset), numbers)


def _alike(trace: Trace, kinds: Ints, ops: Ints) -> bool:
    """Whether launches of a capture are those kernels, as far as names tell of what kind they are."""
    told, same = 0, 0
    for kind, op in zip(listed(kinds), listed(ops), strict=True):
        ours = CATEGORIES[kind]
        theirs = "other" if op == NONE else category("", trace.names[int(trace.ops.name[op])])
        ours, theirs = _SAME.get(ours, ours), _SAME.get(theirs, theirs)
        if theirs in _TOLD and ours in _TOLD:
            told, same = told + 1, same + (ours == theirs)
    return told > 0 and same >= _ALIKE * told


def _padded(trace: Trace, links: Links, row: int) -> int | None:
    """The tokens of the pass that launched an activity, padding counted, where a server annotated it."""
    start = int(trace.calls.start[int(links.call[row])])
    marks = trace.marks
    for at in listed(((marks.start <= start) & (marks.end > start)).nonzero()[0]):
        if found := NEW.search(trace.names[int(marks.name[at])]):
            return int(found[1][:9])
    return None


def _one(trace: Trace, fitting: Sequence[_Capture], tokens: int | None) -> _Capture | None:
    """The capture of a replay. Of several that fit, as those of a model's layers, any one where all are alike.

    Where they are not, those of that many tokens, if the pass says how many; None where they still differ.
    """
    if len(_kinds(trace, fitting)) > 1:
        fitting = [each for each in fitting if tokens is not None and tokens in each.numbers]
    return fitting[0] if len(_kinds(trace, fitting)) == 1 else None


def _kinds(trace: Trace, captures: Sequence[_Capture]) -> set[bytes]:
    """Captures by the operators and shapes of their launches."""
    import numpy as np

    ops = trace.ops
    return {
        np.where(each.ops == NONE, NONE, np.stack([ops.name, ops.detail])[:, np.maximum(each.ops, 0)]).tobytes()
        for each in captures
        if len(ops)
    }


def _joined(trace: Trace, links: Links, other: Trace) -> tuple[Trace, Links, int]:
    """A trace with the operators of another one behind its own, and how many its own are."""
    import numpy as np

    names = {name: at for at, name in enumerate(trace.names)}
    details = {detail: at for at, detail in enumerate(trace.details)}
    name = np.array([names.setdefault(each, len(names)) for each in other.names], np.int64)
    detail = np.array([details.setdefault(each, len(details)) for each in other.details], np.int64)
    ops, theirs, offset = trace.ops, other.ops, len(trace.ops)
    empty = np.full(len(theirs), NONE, np.int64)
    shapes = np.where(theirs.detail == NONE, NONE, detail[theirs.detail]) if len(detail) else empty
    both = Ranges(
        start=np.r_[ops.start, theirs.start],
        duration=np.r_[ops.duration, theirs.duration],
        name=np.r_[ops.name, name[theirs.name] if len(theirs) else empty],
        thread=np.r_[ops.thread, empty],
        number=np.r_[ops.number, empty],
        detail=np.r_[ops.detail, shapes],
    )
    parent = link(other).parent
    parents = np.r_[links.parent, np.where(parent == NONE, NONE, parent + offset)]
    joined = replace(trace, ops=both, names=tuple(names), details=tuple(details))
    return joined, replace(links, parent=parents), offset
