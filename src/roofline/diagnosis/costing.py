"""The cost of each measured kernel: from the shapes of the operator that launched it, each operator's cost once.

An operator may launch several kernels. Its cost goes to its main kernel, what else it launches helps; where the work
is spread over several, each has as much of it as of the time. So no kernel beats a bound by another one's work.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from roofline.bound import Bound, bound
from roofline.cost import Work
from roofline.device import Device
from roofline.diagnosis.costs.call import Call, read
from roofline.diagnosis.costs.convolution import outputs
from roofline.diagnosis.costs.registry import rule, work_of
from roofline.diagnosis.numbers import whole
from roofline.diagnosis.tail import Tail, tail_of
from roofline.errors import UnknownName
from roofline.ops import elementwise
from roofline.trace.classify import CATEGORIES
from roofline.trace.distinct import distinct
from roofline.trace.events import KERNEL, NONE, SET, Trace, listed
from roofline.trace.link import Links
from roofline.trace.memory import give_back

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

# Why a kernel has no cost, and what to do about it. A helper has one of zero: nothing that it does is what its
# operator demands, as a layout that is changed for a convolution.
COSTED, HELPER, REPLAYED, UNLINKED, BARE, SHAPELESS, FOREIGN = range(7)
REASONS = {
    REPLAYED: "it was replayed by a graph, which records no operator",
    UNLINKED: "its launch is not in the record",
    BARE: "no operator was recorded around its launch",
    SHAPELESS: "its operator has no recorded shapes",
    FOREIGN: "what its operator demands is not known, or not all that it takes is recorded",
}
REMEDIES = {
    REPLAYED: "record one pass without graphs, or the pass that captures them, with the same shapes",
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
_HEAVY = {"linear": "gemm", "attention": "attention", "conv": "convolution"}
_HELPERS = re.compile(
    r"nchwto|nhwcto|tonchw|tonhwc|transpose|offsets|scalepacked|subtensorop|split_?k_?reduce|fill|memset|cast", re.I
)
_GRAPH = re.compile(r"GraphLaunch")
_CONVOLUTION = re.compile(r"^aten::(cudnn_|miopen_|_)?convolution$")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work and its bound, as far as the device is known: None with the reason where it is not."""

    work: Work
    operator: str
    shapes: str
    bound: Bound | None
    reason: str = ""


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
    tail: Tail | None = None

    def amounts(self, at: int) -> tuple[int, int, int]:
        """FLOPs, memory bytes and link bytes of one activity; the parts of a piece add up to it exactly."""
        cost = self.pieces[int(self.which[at])].work.cost
        begin, end, all_ = int(self.before[at]), int(self.upto[at]), int(self.whole[at])
        flops, moved, sent = whole(cost.total_flops), whole(cost.bytes), whole(cost.link_bytes)
        if begin == 0 and end == all_:
            return flops, moved, sent
        first, second, third = (n * end // all_ - n * begin // all_ for n in (flops, moved, sent))
        return first, second, third

    def part(self, at: int) -> float:
        """The part of its piece that one activity has."""
        return (int(self.upto[at]) - int(self.before[at])) / max(int(self.whole[at]), 1)


@dataclass(slots=True)
class _Book:
    """Pieces by what they were worked out from."""

    trace: Trace
    device: Device | None
    peaks: frozenset[str] | None
    pieces: list[Piece] = field(default_factory=list[Piece])
    known: dict[tuple[int, ...], int] = field(default_factory=dict["tuple[int, ...]", int])
    outputs: Mapping[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]] | None = None

    def number(self, name: int, detail: int, outer: int, outer_detail: int, kernel: int) -> int:
        """The piece of such a call, or NONE."""
        key = (name, detail, outer, outer_detail, kernel)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._new(*key)
        return found

    def _new(self, name: int, detail: int, outer: int, outer_detail: int, kernel: int) -> int:
        trace = self.trace
        if detail == NONE or rule(trace.names[name]) is None:
            return NONE
        on = trace.names[kernel]
        call = read(trace.names[name], trace.details[detail], on, self.peaks)
        if outer_detail != NONE:
            call = replace(call, outer=read(trace.names[outer], trace.details[outer_detail], on, self.peaks))
        if _CONVOLUTION.search(call.name) and (found := call.tensors(0, 1)) is not None:
            call = replace(call, output=self._outputs().get((found[0].dims, found[1].dims), ()))
        work = work_of(call)
        return NONE if work is None else self.add(work, call.name, _shapes(call))

    def _outputs(self) -> Mapping[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]]:
        """Lengths of the outputs of convolutions, by the gradients in the file."""
        if self.outputs is None:
            ops, names = self.trace.ops, self.trace.names
            pairs = {
                (name, detail)
                for name, detail in zip(listed(ops.name), listed(ops.detail), strict=True)
                if detail != NONE and names[name].endswith("convolution_backward")
            }
            # The format does not matter here: what a file lacks is taken for the commonest.
            self.outputs = outputs(read(names[name], self.trace.details[at], "float") for name, at in sorted(pairs))
        return self.outputs

    def add(self, work: Work, operator: str, shapes: str) -> int:
        """One more piece."""
        limit, reason = _bound(work, self.device)
        self.pieces.append(Piece(work, operator, shapes, limit, reason))
        return len(self.pieces) - 1


def _shapes(call: Call) -> str:
    """The shapes of a call in short, as a key of its kind."""
    texts = ["x".join(map(str, each.dims)) for each in call.every() if each.dims]
    kinds = {each.dtype.name: None for each in call.every() if each.dims}
    return (", ".join(texts[:6]) + (" …" if len(texts) > 6 else "") + (f" {' '.join(kinds)}" if kinds else "")).strip()


def _bound(work: Work, device: Device | None) -> tuple[Bound | None, str]:
    if device is None:
        return None, "the device is not known"
    links = work.cost.links
    if links and (not device.links or (device.links[0].domain or 0) < whole(work.dims.get("ranks", 2))):
        return None, "the link between its ranks is not known"
    try:
        return bound(work.cost, device), ""
    except UnknownName as error:
        return None, str(error)


def costing(trace: Trace, links: Links, rows: Ints, kinds: Ints, device: Device | None) -> Costing:
    """The costs of the activities of `rows`, whose categories are `kinds`."""
    import numpy as np

    gpu = trace.gpu
    book = _Book(trace, device, None if device is None else frozenset(device.peak))
    which = np.full(len(rows), NONE, np.int32)
    owner = np.full(len(rows), NONE, links.op.dtype)
    kernels = gpu.kind[rows] == KERNEL
    _climb(trace, links, rows, np.flatnonzero(kernels), book, which, owner)
    _leave_containers(links, book, which, owner)
    why = _reasons(trace, links, rows, which)
    duration = gpu.duration[rows]
    before, upto, whole = np.zeros(len(rows), np.int64), duration.astype(np.int64), duration.astype(np.int64)
    found = Costing((), which, before, upto, whole, why, owner)
    _once(trace, rows, kinds, book, found)
    _memsets(gpu.moved[rows], np.flatnonzero(gpu.kind[rows] == SET), book, found)
    tail = tail_of(trace, links, rows)
    give_back()
    return Costing(tuple(book.pieces), which, before, upto, whole, why, owner, tail)


def _climb(trace: Trace, links: Links, rows: Ints, open_: Ints, book: _Book, which: Ints, owner: Ints) -> None:
    """Ask the operators around each launch, from the innermost outwards, until one has a cost."""
    import numpy as np

    ops, parent = trace.ops, links.parent
    current = links.op[rows]
    for _ in range(_DEEPEST):
        open_ = open_[current[open_] != NONE]
        if not len(open_):
            return
        asked = open_[ops.detail[current[open_]] != NONE]  # else it has no shapes, and no cost
        op = current[asked]
        outer = parent[op]
        inside = outer != NONE
        keys, back, _ = distinct(
            ops.name[op],
            ops.detail[op],
            np.where(inside, ops.name[np.maximum(outer, 0)], NONE),
            np.where(inside, ops.detail[np.maximum(outer, 0)], NONE),
            trace.gpu.name[rows[asked]],
        )
        numbers = np.array([*(book.number(*key) for key in keys), NONE], np.int64)[back]
        hit = numbers != NONE
        which[asked[hit]], owner[asked[hit]] = numbers[hit], op[hit]
        open_ = open_[which[open_] == NONE]
        current[open_] = parent[current[open_]]


def _leave_containers(links: Links, book: _Book, which: Ints, owner: Ints) -> None:
    """An operator that left its product or attention to operators within it has no cost of its own."""
    import numpy as np

    heavy = np.array([each.work.op in _HEAVY for each in book.pieces], bool)
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


def _reasons(trace: Trace, links: Links, rows: Ints, which: Ints) -> Ints:
    """Why each activity has no cost, where it has none."""
    import numpy as np

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
    why[replayed] = REPLAYED
    why[which != NONE] = COSTED
    return why


def _once(trace: Trace, rows: Ints, kinds: Ints, book: _Book, found: Costing) -> None:
    """Give the cost of each operator to its main kernel, or spread it; its other kernels help."""
    import numpy as np

    costed = np.flatnonzero(found.which != NONE)
    order = costed[np.argsort(found.owner[costed], kind="stable")]
    owners = found.owner[order]
    edges = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1], True]) if len(order) else np.zeros(1, np.int64)
    many = np.flatnonzero(np.diff(edges) > 1)
    for at in listed(many):
        group = listed(order[int(edges[at]) : int(edges[at + 1])])
        _share(trace, rows, kinds, book, found, group)


def _share(trace: Trace, rows: Ints, kinds: Ints, book: _Book, found: Costing, group: list[int]) -> None:
    """Divide one operator's cost among its kernels."""
    names, duration = trace.gpu.name[rows[group]], listed(trace.gpu.duration[rows[group]])
    piece = book.pieces[int(found.which[group[0]])]
    spread = rule(piece.operator)
    category = _HEAVY.get(piece.work.op)
    labels = [trace.names[int(name)] for name in names]
    doing = [
        at
        for at, label in enumerate(labels)
        if category is None or (CATEGORIES[int(kinds[group[at]])] == category and not _HELPERS.search(label))
    ] or list(range(len(group)))
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


def _memsets(moved: Ints, sets: Ints, book: _Book, found: Costing) -> None:
    """A memset writes the bytes that it records."""
    known: dict[int, int] = {}
    for at, size in zip(listed(sets), listed(moved[sets]), strict=True):
        if size <= 0:
            continue
        if size not in known:
            work = elementwise(n=size, reads=0, writes=1, flops=0, activations="int8")
            known[size] = book.add(work, "memset", f"{size}")
        found.which[at], found.why[at] = known[size], COSTED
