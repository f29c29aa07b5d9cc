"""What launched each device activity: the call of the runtime, and the operator around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.trace import timeline
from roofline.trace.coding import tally
from roofline.trace.events import KERNEL, NONE, Activities, Ranges, Trace
from roofline.trace.memory import give_back

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_COPIED = 0.9  # share of kernels from which on an External id that equals the correlation is no id at all


@dataclass(frozen=True, slots=True)
class Links:
    """For each device activity the index of its call and of its operator, or NONE."""

    call: Ints
    op: Ints
    parent: Ints  # for each operator the one around it, or NONE
    around: Ints  # for each call the operator that made it, or NONE
    external_used: bool  # whether External ids can be trusted in this file


def link(trace: Trace) -> Links:
    """Join device activities to calls by their correlation, and calls to the operators that enclose them.

    Where no operator is around a call, or no call is recorded, the External id names the operator, unless that one
    began later, or the file's External ids are copies of the correlations, as those of 2022 to 2024 are: these are ids
    of other operators.
    """
    import numpy as np

    gpu, calls, ops = trace.gpu, trace.calls, trace.ops
    call = _calls(gpu, calls)
    parent = np.full(len(ops), NONE, _index(ops))
    by_call = np.full(len(calls), NONE, _index(ops))
    for thread in tally(ops.thread):
        mine, theirs = np.flatnonzero(ops.thread == thread), np.flatnonzero(calls.thread == thread)
        called = calls.start[theirs]
        at = 0
        for rows, upto in _portions(ops, mine):
            start, end = ops.spans(rows)
            up = timeline.parents(start, end)
            parent[rows] = np.where(up < 0, NONE, rows[up])
            past = len(called) if upto is None else int(np.searchsorted(called, upto))
            inner = timeline.innermost(start, end, up, called[at:past])
            by_call[theirs[at:past]] = np.where(inner < 0, NONE, rows[inner])
            at = past
    op = np.where(call == NONE, NONE, by_call[call] if len(by_call) else NONE)
    trusted = _trusted(gpu)
    if trusted:
        missing = np.flatnonzero((op == NONE) & (gpu.external > 0))
        named = _by_number(ops, gpu.external[missing])
        op[missing] = np.where(_fits(trace, call[missing], missing, named), named, NONE)
    give_back()
    return Links(call, op, parent, by_call, trusted)


def _calls(gpu: Activities, calls: Ranges) -> Ints:
    """The call of each activity; where several bear its number, the last one before it started."""
    import numpy as np

    found = np.full(len(gpu), NONE, _index(calls))
    if not len(calls) or not len(gpu):
        return found
    order = np.argsort(calls.number, kind="stable").astype(_index(calls))  # calls are in order of their start
    numbers = calls.number[order]
    for at in range(0, len(gpu), _TOGETHER):
        mine = slice(at, at + _TOGETHER)
        wanted = gpu.correlation[mine]
        first = np.searchsorted(numbers, wanted, "left")
        past = np.searchsorted(numbers, wanted, "right")
        known = (past > first) & (wanted != NONE)
        several = np.flatnonzero(known & (past > first + 1))
        first[several] = _last_before(calls.start, order, first[several], past[several], gpu.start[mine][several])
        found[mine] = np.where(known, order[np.minimum(first, len(order) - 1)], NONE)
    return found


def _last_before(starts: Ints, order: Ints, low: Ints, past: Ints, times: Ints) -> Ints:
    """The last of the places from `low` to `past` in an order by start that does not start later; the first if none."""
    high = past - 1
    while len(low) and (low < high).any():
        middle = (low + high + 1) // 2
        before = starts[order[middle]] <= times
        low = low + before * (middle - low)
        high = high - ~before * (high - middle + 1)
    return low


_TOGETHER = 1 << 18  # activities, or operators, that are looked at at once


def _portions(ops: Ranges, mine: Ints) -> Iterator[tuple[Ints, int | None]]:
    """The operators of a thread by portions that none reaches beyond, and when the next portion starts [ns]."""
    at = 0
    for upto in timeline.apart(ops, mine):
        yield mine[at:upto], int(ops.start[mine[upto]]) if upto < len(mine) else None
        at = upto


def _index(ranges: Ranges) -> Any:
    """The type that numbers these ranges in the least room."""
    import numpy as np

    return np.int32 if len(ranges) < 1 << 31 else np.int64


def _trusted(gpu: Activities) -> bool:
    having = (gpu.kind == KERNEL) & (gpu.external > 0)
    same = having & (gpu.external == gpu.correlation)
    return bool(having.any()) and int(same.sum()) <= _COPIED * int(having.sum())


def _fits(trace: Trace, call: Ints, rows: Ints, named: Ints) -> NDArray[np.bool_]:
    """Whether an operator was under way when it made its call; without one, whether it began before the activity."""
    import numpy as np

    ops, calls = trace.ops, trace.calls
    if not len(ops):
        return np.zeros(len(rows), bool)
    start, end = ops.start[np.maximum(named, 0)], ops.end[np.maximum(named, 0)]
    launched = calls.start[np.maximum(call, 0)] if len(calls) else np.zeros(len(rows), np.int64)
    within = (start <= launched) & (launched <= end)
    return (named != NONE) & np.where(call == NONE, start <= trace.gpu.start[rows], within)


def _by_number(ops: Ranges, numbers: Ints) -> Ints:
    import numpy as np

    if not len(ops):
        return np.full(len(numbers), NONE, np.int64)
    order = np.argsort(ops.number, kind="stable")
    at = np.minimum(np.searchsorted(ops.number[order], numbers), len(order) - 1)
    return np.where(ops.number[order[at]] == numbers, order[at], NONE)
