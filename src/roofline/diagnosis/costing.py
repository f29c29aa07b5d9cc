"""The cost of each measured kernel: from the shapes of the operator that launched it, each operator's cost once.

An operator may launch several kernels. Its cost goes to its main kernel, what else it launches helps; where the work
is spread over several, each has as much of it as of the time. So no kernel beats a bound by another one's work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from roofline.device import Device
from roofline.diagnosis.costs.registry import rule
from roofline.diagnosis.graphs import Lent
from roofline.diagnosis.numbers import real, whole
from roofline.diagnosis.passes import passes_of
from roofline.diagnosis.pieces import Book, Piece
from roofline.diagnosis.tail import Tail, tail_of
from roofline.ops import elementwise
from roofline.trace.classify import CATEGORIES
from roofline.trace.coding import distinct
from roofline.trace.events import COPY, KERNEL, NONE, SET, Trace, listed
from roofline.trace.link import Links
from roofline.trace.memory import give_back
from roofline.units import NS_PER_S

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

# Why a kernel has no cost, and what to do about it. A helper has one of zero: nothing that it does is what its
# operator demands, as a layout that is changed for a convolution.
COSTED, HELPER, REPLAYED, UNLINKED, BARE, SHAPELESS, FOREIGN, WINDOWED = range(8)
REASONS = {
    REPLAYED: "it was replayed by a graph, which records no operator",
    UNLINKED: "its launch is not in the record",
    BARE: "no operator was recorded around its launch",
    SHAPELESS: "its operator has no recorded shapes",
    FOREIGN: "what its operator demands is not known, or not all that it takes is recorded",
    WINDOWED: "it attends to fewer positions than its pass has, as by a window, which is not recorded",
}
REMEDIES = {
    REPLAYED: "record the pass that captures the graph with record_shapes=True and name it with --capture",
    UNLINKED: "let the profiler run a step before the one that counts (schedule with warmup=1)",
    BARE: "record operators too (activities CPU and CUDA)",
    SHAPELESS: "record with record_shapes=True",
}
# The same for a timeline whose operators are NVTX ranges.
NVTX_REMEDIES = {
    REPLAYED: "record one pass without graphs, with the same shapes",
    UNLINKED: "begin the record earlier (--delay, --capture-range), and trace the runtime (--trace=cuda,nvtx)",
    BARE: "run the model within torch.autograd.profiler.emit_nvtx(record_shapes=True), and record --trace=cuda,nvtx",
    SHAPELESS: "run the model within torch.autograd.profiler.emit_nvtx(record_shapes=True)",
}
_DEEPEST = 40  # operators around a launch that are asked
# Categories of the kernels that do such work: a convolution may be a product of its windows.
_DOING = {
    "linear": frozenset({"gemm", "moe"}),
    "attention": frozenset({"attention"}),
    "conv": frozenset({"convolution", "gemm"}),
}
_HELPERS = re.compile(
    r"nchwto|nhwcto|tonchw|tonhwc|transpose|offsets|scalepacked|subtensorop|split_?k_?reduce|fill|memset|cast", re.I
)
_GRAPH = re.compile(r"GraphLaunch")


@dataclass(frozen=True, slots=True)
class Costing:
    """For each activity of `rows` its piece of work, and which part of it; `why` is one of the reasons above."""

    pieces: tuple[Piece, ...]
    which: Ints  # index into pieces, or NONE
    before: Ints  # part of the piece: from `before` to `upto` of `whole`, in nanoseconds of the kernels that share it
    upto: Ints
    whole: Ints
    why: Ints
    owner: Ints  # the operator whose cost it is, or that it helps; NONE
    names: tuple[str, ...]
    operators: Ints  # the name of each operator that owner numbers, as an index into names
    tail: Tail | None = None

    def all_of(self, piece: int) -> tuple[int, int, int]:
        """FLOPs, memory bytes and link bytes of a whole piece."""
        cost = self.pieces[piece].work.cost
        return whole(cost.total_flops), whole(cost.bytes), whole(cost.link_bytes)

    def amounts(self, at: int) -> tuple[int, int, int]:
        """FLOPs, memory bytes and link bytes of one activity; the parts of a piece add up to it exactly."""
        begin, end, all_ = int(self.before[at]), int(self.upto[at]), int(self.whole[at])
        flops, moved, sent = self.all_of(int(self.which[at]))
        if begin == 0 and end == all_:
            return flops, moved, sent
        first, second, third = (n * end // all_ - n * begin // all_ for n in (flops, moved, sent))
        return first, second, third

    def operator(self, owner: int) -> str:
        """The name of an operator."""
        return self.names[int(self.operators[owner])]

    def part(self, at: int) -> float:
        """The part of its piece that one activity has."""
        return (int(self.upto[at]) - int(self.before[at])) / max(int(self.whole[at]), 1)


def costing(lent: Lent, rows: Ints, kinds: Ints, device: Device | None) -> Costing:
    """The costs of the activities of `rows`, whose categories are `kinds`."""
    import numpy as np

    trace, links = lent.trace, lent.links
    gpu = trace.gpu
    book = Book(trace, device, None if device is None else frozenset(device.peak), *passes_of(trace, links, rows))
    which = np.full(len(rows), NONE, np.int32)
    owner = np.full(len(rows), NONE, links.op.dtype)
    kernels = gpu.kind[rows] == KERNEL
    _climb(trace, links, rows, np.flatnonzero(kernels), book, which, owner)
    _leave_containers(links, book, which, owner)
    why = _reasons(lent, rows, which)
    duration = gpu.duration[rows]
    before, upto, whole = np.zeros(len(rows), np.int64), duration.astype(np.int64), duration.astype(np.int64)
    found = Costing((), which, before, upto, whole, why, owner, trace.names, trace.ops.name)
    _once(lent, rows, kinds, book, found)
    _leave_windows(trace, rows, book, found)
    _moved(trace, rows, book, found)
    give_back()
    return replace(found, pieces=tuple(book.pieces), tail=tail_of(trace, links, rows))


def _climb(trace: Trace, links: Links, rows: Ints, open_: Ints, book: Book, which: Ints, owner: Ints) -> None:
    """Ask the operators around each launch, from the innermost outwards, until one has a cost."""
    import numpy as np

    ops, parent = trace.ops, links.parent
    current, forward = links.op[rows], _forwards(trace)
    for _ in range(_DEEPEST):
        open_ = open_[current[open_] != NONE]
        if not len(open_):
            return
        op = current[open_]
        outer = parent[op]
        inside = outer != NONE
        table = (
            ops.name[op],
            ops.detail[op],
            np.where(inside, ops.name[np.maximum(outer, 0)], NONE),
            np.where(inside, ops.detail[np.maximum(outer, 0)], NONE),
            trace.gpu.name[rows[open_]],
            book.passes[open_],
            np.where(forward[op] == NONE, NONE, ops.name[forward[op]]),
            np.where(forward[op] == NONE, NONE, ops.detail[forward[op]]),
        )
        keys, back = distinct(*table)
        numbers = np.array([book.number(*map(int, key)) for key in keys.T], np.int64)[back]
        hit = numbers != NONE
        which[open_[hit]], owner[open_[hit]] = numbers[hit], op[hit]
        open_ = open_[~hit]
        current[open_] = parent[current[open_]]


def _forwards(trace: Trace) -> Ints:
    """For each gradient whose cost depends on it the operator of its name and number in the forward pass, or NONE."""
    import numpy as np

    ops, names = trace.ops, trace.names
    if ops.sequence is None or not len(ops):
        return np.broadcast_to(np.int64(NONE), len(ops))
    found = np.full(len(ops), NONE, np.int32 if len(ops) < 1 << 31 else np.int64)
    asking = {at: name.removesuffix("Backward") for at, name in enumerate(names) if _asks(name)}
    places = {name: at for at, name in enumerate(names)}
    wanted = {at: places[name] for at, name in asking.items() if name in places}
    if not wanted:
        return found
    known: dict[tuple[int, int], int] = {}
    for op in listed(np.flatnonzero(np.isin(ops.name, list(wanted.values())) & (ops.sequence >= 0))):
        known.setdefault((int(ops.name[op]), int(ops.sequence[op])), op)
    parent = {at: name for at, name in wanted.items()}
    for op in listed(np.flatnonzero(np.isin(ops.name, list(wanted)))):
        found[op] = known.get((parent[int(ops.name[op])], int(ops.sequence[op])), NONE)
    return found


def _asks(name: str) -> bool:
    known = rule(name) if name.endswith("Backward") else None
    return known is not None and known.forward


def _leave_containers(links: Links, book: Book, which: Ints, owner: Ints) -> None:
    """An operator that left its product or attention to operators within it has no cost of its own."""
    import numpy as np

    heavy = np.array([each.work.op in _DOING for each in book.pieces], bool)
    if not heavy.any():
        return
    mine = np.flatnonzero((which != NONE) & heavy[np.maximum(which, 0)])
    above: set[int] = set()
    around = np.unique(owner[mine])
    for _ in range(_DEEPEST):
        around = links.parent[around]
        around = np.unique(around[around != NONE])
        if not len(around):
            break
        above.update(listed(around))
    taken = mine[np.isin(owner[mine], list(above))]
    which[taken] = NONE


def _reasons(lent: Lent, rows: Ints, which: Ints) -> Ints:
    """Why each activity has no cost, where it has none."""
    import numpy as np

    trace, links = lent.trace, lent.links
    ops, calls = trace.ops, trace.calls
    call, op = links.call[rows], links.op[rows]
    graph = np.array([bool(_GRAPH.search(name)) for name in trace.names], bool)
    replayed = (call != NONE) & graph[calls.name[np.maximum(call, 0)] if len(calls) else np.zeros(len(rows), np.int64)]
    shaped = np.zeros(len(ops) + 1, bool)
    texts = np.array([b'"dims":' in each or b'"collective":' in each for each in trace.details], bool)
    if len(texts):
        shaped[: len(ops)] = (ops.detail != NONE) & texts[np.maximum(ops.detail, 0)]
    reach = op.copy()
    any_shape = shaped[reach]
    for _ in range(3):
        reach = np.where(reach == NONE, NONE, links.parent[np.maximum(reach, 0)] if len(ops) else NONE)
        any_shape |= shaped[reach]
    why = np.full(len(rows), FOREIGN, np.int8)
    why[~any_shape] = SHAPELESS
    why[op == NONE] = BARE
    why[(op == NONE) & (call == NONE)] = UNLINKED
    why[replayed & (lent.replay == NONE)] = REPLAYED
    why[which != NONE] = COSTED
    return why


def _once(lent: Lent, rows: Ints, kinds: Ints, book: Book, found: Costing) -> None:
    """Give the cost of each operator to its main kernel, or spread it; its other kernels help.

    A graph replays an operator's kernels more than once, each time all of its cost.
    """
    import numpy as np

    trace, replay = lent.trace, lent.replay
    costed = np.flatnonzero(found.which != NONE)
    order = costed[np.lexsort((costed, replay[costed], found.owner[costed]))]
    owners, turns = found.owner[order], replay[order]
    fresh = (owners[1:] != owners[:-1]) | (turns[1:] != turns[:-1])
    edges = np.flatnonzero(np.r_[True, fresh, True]) if len(order) else np.zeros(1, np.int64)
    many = np.flatnonzero(np.diff(edges) > 1)
    for at in listed(many):
        group = listed(order[int(edges[at]) : int(edges[at + 1])])
        _share(trace, rows, kinds, book, found, group)


@lru_cache(1 << 12)
def _helps(name: str) -> bool:
    """Whether a kernel only prepares another one's work, by its name."""
    return _HELPERS.search(name) is not None


def _share(trace: Trace, rows: Ints, kinds: Ints, book: Book, found: Costing, group: list[int]) -> None:
    """Divide one operator's cost among its kernels."""
    names, duration = trace.gpu.name[rows[group]], listed(trace.gpu.duration[rows[group]])
    piece = book.pieces[int(found.which[group[0]])]
    spread = rule(piece.operator)
    fitting = _DOING.get(piece.work.op, frozenset())
    labels = [trace.names[int(name)] for name in names]
    doing = [
        at
        for at, label in enumerate(labels)
        if not fitting or (CATEGORIES[int(kinds[group[at]])] in fitting and not _helps(label))
    ]
    if spread is not None and spread.each:
        others = [activity for at, activity in enumerate(group) if at not in set(doing)]
        found.which[others], found.why[others] = NONE, HELPER
        return
    doing = doing or list(range(len(group)))
    longest = max(doing, key=lambda at: duration[at])
    if spread is None or not spread.several:
        doing = [at for at in doing if labels[at] == labels[longest]]
    number, whole, so_far = int(found.which[group[longest]]), sum(duration[at] for at in doing), 0
    mine = set(doing)
    for at, activity in enumerate(group):
        if at not in mine or not whole:
            found.which[activity], found.why[activity] = NONE, HELPER
            continue
        found.which[activity] = number
        found.before[activity], found.whole[activity] = so_far, whole
        so_far += duration[at]
        found.upto[activity] = so_far


def _leave_windows(trace: Trace, rows: Ints, book: Book, found: Costing) -> None:
    """Attention over all positions of its pass that took less than its bound did not look at all of them.

    Layers of one model may differ in that, and no shape tells it: such a kernel has no cost.
    """
    import numpy as np

    for number in sorted(book.annotated):
        limit = book.pieces[number].bound
        mine = np.flatnonzero(found.which == number)
        for name in np.unique(trace.gpu.name[rows[mine]]) if limit is not None else ():
            same = mine[trace.gpu.name[rows[mine]] == name]
            parts = sum(found.part(int(at)) for at in same)
            if limit is not None and int(trace.gpu.duration[rows[same]].sum()) < parts * real(limit.seconds) * NS_PER_S:
                found.which[same], found.why[same] = NONE, WINDOWED


def _moved(trace: Trace, rows: Ints, book: Book, found: Costing) -> None:
    """A memset writes the bytes that it records; a copy within the device reads and writes them."""
    import numpy as np

    gpu = trace.gpu
    within = np.array([name.startswith(_WITHIN) for name in trace.names], bool)[gpu.name[rows]]
    copied = (gpu.kind[rows] == COPY) & within
    mine = np.flatnonzero(((gpu.kind[rows] == SET) | copied) & (gpu.moved[rows] > 0))
    keys = 2 * gpu.moved[rows[mine]] + copied[mine]
    known, first, which = np.unique(keys, return_index=True, return_inverse=True)
    numbers = np.zeros(len(known), np.int64)
    for at in listed(np.argsort(first)):
        size, copy = divmod(int(known[at]), 2)
        work = elementwise(n=size, reads=copy, writes=1, flops=0, activations="int8")
        numbers[at] = book.add(work, "copy" if copy else "memset", f"{size}")
    found.which[mine], found.why[mine] = numbers[which], COSTED


_WITHIN = ("Memcpy DtoD", "CopyDeviceToDevice")
