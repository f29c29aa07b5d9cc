"""Kernels by name, and by their work: what they took, what they demand, what the device would need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.costing import HELPER, Costing, Piece
from roofline.diagnosis.numbers import real
from roofline.diagnosis.result import Demanded, KernelRow, Placed
from roofline.trace.classify import CATEGORIES, readable
from roofline.trace.distinct import distinct
from roofline.trace.events import NONE, Trace, listed
from roofline.units import NS_PER_S

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roofline.trace.link import Links

    Ints = NDArray[np.signedinteger[Any]]


@dataclass(slots=True)
class _Sum:
    """What calls of one kernel demand together."""

    calls: int = 0
    time: int = 0
    flops: int = 0
    bytes: int = 0
    link_bytes: int = 0
    bound: float = 0.0
    by: dict[str, float] = field(default_factory=dict[str, float])
    unbounded: str = ""

    def add(self, piece: Piece, part: float, amounts: tuple[int, int, int], calls: int, time: int) -> None:
        """Calls that did `part` of a piece of work each."""
        self.calls += calls
        self.time += time
        flops, moved, sent = amounts
        self.flops, self.bytes, self.link_bytes = (
            self.flops + calls * flops,
            self.bytes + calls * moved,
            self.link_bytes + calls * sent,
        )
        if piece.bound is None:
            self.unbounded = piece.reason
            return
        seconds = calls * part * real(piece.bound.seconds)
        self.bound += seconds
        self.by[piece.bound.by] = self.by.get(piece.bound.by, 0.0) + seconds

    def demanded(self, cache: int | None) -> Demanded | None:
        """The sum as it is told; None where no call has a cost."""
        if not self.calls:
            return None
        known = not self.unbounded
        by = max(self.by, key=lambda each: self.by[each]) if self.by and known else None
        return Demanded(
            self.calls,
            self.time,
            self.flops,
            self.bytes,
            self.link_bytes,
            self.bound if known else None,
            by,
            self.unbounded or _beaten(self, cache),
        )


def _beaten(total: _Sum, cache: int | None) -> str:
    """Why a kernel took less than its bound, where that can be said."""
    if total.bound * NS_PER_S <= total.time:
        return ""
    each = total.bytes // max(total.calls, 1)
    if cache and each <= 2 * cache:
        return "faster than the memory: what it moves fits the cache of the chip, at least in part"
    return "faster than its bound: an operand may be expanded, or less was done than its shapes say"


def kernel_rows(
    trace: Trace, links: Links, rows: Ints, kinds: Ints, costs: Costing, cache: int | None = None
) -> tuple[tuple[KernelRow, ...], tuple[Placed, ...]]:
    """Kernels, copies and memsets by name, and the costed ones by their work; the costliest first."""
    import numpy as np

    gpu = trace.gpu
    if not len(rows):
        return (), ()
    keys, which, _ = distinct(gpu.name[rows], kinds)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, which, gpu.duration[rows])
    calls = np.bincount(which, minlength=len(keys))
    order = np.lexsort((np.array([name for name, _ in keys]), -sums))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    totals, placed = _demands(gpu.duration[rows], place[which], len(order), costs)
    whole = max(int(sums.sum()), 1)
    operators = _operators(trace, links.op[rows], which)
    found: list[KernelRow] = []
    for row, at in enumerate(listed(order)):
        name = trace.names[keys[at][0]]
        found.append(
            KernelRow(
                name=name,
                readable=readable(name),
                category=CATEGORIES[keys[at][1]],
                operator=operators.get(at, ""),
                calls=int(calls[at]),
                sum=int(sums[at]),
                share=int(sums[at]) / whole,
                demand=totals[row].demanded(cache),
            )
        )
    return tuple(found), _placed(found, placed, costs)


def _demands(
    duration: Ints, row: Ints, count: int, costs: Costing
) -> tuple[list[_Sum], dict[tuple[int, int], tuple[int, int, float]]]:
    """The sums of each row, and calls, time and pieces by row and piece."""
    import numpy as np

    totals = [_Sum() for _ in range(count)]
    placed: dict[tuple[int, int], tuple[int, int, float]] = {}
    has = costs.which != NONE
    one = has & (costs.before == 0) & (costs.upto == costs.whole)
    at = np.flatnonzero(one)
    if len(at):
        keys, back, first = distinct(row[at], costs.which[at])
        calls = np.bincount(back, minlength=len(keys))
        times = np.zeros(len(keys), np.int64)
        np.add.at(times, back, duration[at])
        for index, (mine, piece) in enumerate(keys):
            n, time = int(calls[index]), int(times[index])
            totals[mine].add(costs.pieces[piece], 1.0, costs.amounts(int(at[first[index]])), n, time)
            placed[mine, piece] = (n, time, float(n))
    for each in listed(np.flatnonzero(has & ~one)):
        mine, piece, time, part = int(row[each]), int(costs.which[each]), int(duration[each]), costs.part(each)
        totals[mine].add(costs.pieces[piece], part, costs.amounts(each), 1, time)
        n, so_far, parts = placed.get((mine, piece), (0, 0, 0.0))
        placed[mine, piece] = (n + 1, so_far + time, parts + part)
    for each in listed(np.flatnonzero(costs.why == HELPER)):
        totals[int(row[each])].calls += 1
        totals[int(row[each])].time += int(duration[each])
    return totals, placed


def _placed(
    found: list[KernelRow], placed: dict[tuple[int, int], tuple[int, int, float]], costs: Costing
) -> tuple[Placed, ...]:
    rows: list[Placed] = []
    for (row, number), (calls, time, parts) in placed.items():
        piece, kernel = costs.pieces[number], found[row]
        rows.append(
            Placed(
                row=row,
                operator=piece.operator,
                shapes=piece.shapes,
                work=piece.work,
                kernel=kernel.readable,
                category=kernel.category,
                bound=piece.bound,
                calls=calls,
                time=time,
                parts=parts,
                name=kernel.name,
            )
        )
    return tuple(sorted(rows, key=lambda each: (-each.time, each.row, each.shapes)))


def _operators(trace: Trace, ops: Ints, which: Ints) -> dict[int, str]:
    """For each row of kernels the operator that launched it most."""
    import numpy as np

    known = ops != NONE
    if not known.any():
        return {}
    pairs = distinct(which[known], trace.ops.name[ops[known]])
    counts = np.bincount(pairs.which, minlength=len(pairs.rows))
    found: dict[int, str] = {}
    for at in listed(np.argsort(counts, kind="stable")):  # the most frequent comes last, and stays
        row, name = pairs.rows[at]
        found[row] = trace.names[name]
    return found
