"""What launched each device activity: the call of the runtime, and the operator around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.trace import timeline
from roofline.trace.events import KERNEL, NONE, Activities, Ranges, Trace

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
    parent = np.full(len(ops), NONE, np.int32 if len(ops) < 1 << 31 else np.int64)
    by_call = np.full(len(calls), NONE, np.int64)
    for thread, mine in _threads(ops):
        start, end = ops.start[mine], ops.end[mine]
        up = timeline.parents(start, end)
        inner = up >= 0
        parent[mine[inner]] = mine[up[inner]]
        theirs = np.flatnonzero(calls.thread == thread)
        inner = timeline.innermost(start, end, up, calls.start[theirs])
        by_call[theirs] = np.where(inner < 0, NONE, mine[inner])
    op = np.where(call == NONE, NONE, by_call[call] if len(by_call) else NONE)
    trusted = _trusted(gpu)
    if trusted:
        missing = np.flatnonzero((op == NONE) & (gpu.external > 0))
        named = _by_number(ops, gpu.external[missing])
        op[missing] = np.where(_fits(trace, call[missing], missing, named), named, NONE)
    return Links(call, op, parent, by_call, trusted)


def _calls(gpu: Activities, calls: Ranges) -> Ints:
    """The call of each activity; where several bear its number, the last one before it started."""
    import numpy as np

    found = np.full(len(gpu), NONE, np.int64)
    if not len(calls) or not len(gpu):
        return found
    order = np.argsort(calls.number, kind="stable")  # those of one number stay in the order of their start
    numbers = calls.number[order]
    first = np.searchsorted(numbers, gpu.correlation, "left")
    past = np.searchsorted(numbers, gpu.correlation, "right")
    known = (past > first) & (gpu.correlation != NONE)
    found[known] = order[first[known]]
    again = np.flatnonzero(known & (past > first + 1))
    if len(again):
        # Number and start as one key: the last of those with the number that does not start later.
        base = min(int(calls.start.min()), int(gpu.start.min()))
        span = max(int(calls.start.max()), int(gpu.start.max())) - base + 1
        if span * (len(numbers) + 1) < 1 << 62:
            rank = np.searchsorted(numbers, numbers, "left")
            keys = rank * span + (calls.start[order] - base)
            wanted = first[again] * span + (gpu.start[again] - base)
            found[again] = order[np.maximum(np.searchsorted(keys, wanted, "right") - 1, first[again])]
    return found


def _threads(ops: Ranges) -> Iterator[tuple[int, Ints]]:
    """The operators of each thread, by their index, in order."""
    import numpy as np

    if not len(ops):
        return
    few = ops.thread.astype(np.int16) if int(ops.thread.max()) < 1 << 15 else ops.thread  # 16 bits sort in one pass
    order = np.argsort(few, kind="stable")
    counts = np.bincount(ops.thread)
    parts = np.split(order, np.cumsum(counts)[:-1])
    yield from ((thread, part) for thread, part in enumerate(parts) if len(part))


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
