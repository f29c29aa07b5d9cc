"""Rules on kernels that follow each other: chains that could be one, and optimiser steps of many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.costs.call import read
from roofline.diagnosis.costs.elementwise import Flow, flow
from roofline.diagnosis.findings import Finding, counted
from roofline.diagnosis.numbers import real
from roofline.diagnosis.rules.scene import Scene, rule
from roofline.trace import coding, timeline
from roofline.trace.classify import CATEGORIES, COMPUTE
from roofline.trace.coding import distinct
from roofline.trace.events import KERNEL, NONE, Trace, listed
from roofline.units import NS_PER_S, si

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]
    Flags = NDArray[np.bool_]

_CHAIN = 2  # kernels from which on they could be one
_MANY = 30  # kernels of an optimiser's step from which on it is not fused


@dataclass(slots=True)
class _Chains:
    """What chains add up to [ns]."""

    count: int = 0
    longest: int = 0  # kernels
    time: int = 0
    saved: int = 0  # all but the longest kernel of each
    most: tuple[int, tuple[str, ...]] = (0, ())

    def add(self, scene: Scene, mine: Ints, follows: Flags) -> None:
        """The chains among activities one after another, each of which follows the one before it or does not."""
        import numpy as np

        duration = scene.trace.gpu.duration[scene.rows[mine]]
        first = np.flatnonzero(~follows)
        lengths = np.diff(np.r_[first, len(mine)])
        times, tops = np.add.reduceat(duration, first), np.maximum.reduceat(duration, first)
        chained = np.flatnonzero(lengths >= _CHAIN)
        if not len(chained):
            return
        saved = times[chained] - tops[chained]
        self.count, self.longest = self.count + len(chained), max(self.longest, int(lengths[chained].max()))
        self.time, self.saved = self.time + int(times[chained].sum()), self.saved + int(saved.sum())
        best = int(saved.argmax())
        if int(saved[best]) > self.most[0]:
            start, length = int(first[chained[best]]), int(lengths[chained[best]])
            owners = scene.costs.owner[mine[start : start + length]]
            self.most = int(saved[best]), tuple(scene.costs.operator(each) for each in listed(owners))


@rule("unfused")
def unfused(scene: Scene) -> Iterator[Finding]:
    """Operators of one element at a time that follow each other on a stream, each reading what the one before wrote.

    Files have no identity of tensors: one is taken for another where both have as many elements of the same format.
    Without shapes nothing is told; nor of kernels that a compiler has fused as far as it could, and of optimisers.
    """
    import numpy as np

    flows = _Flows(scene)
    if not flows.flows:
        return
    gpu = scene.trace.gpu
    compute = np.isin(scene.kinds, [CATEGORIES.index(each) for each in COMPUTE]) & (gpu.kind[scene.rows] == KERNEL)
    compute |= scene.kinds == CATEGORIES.index("communication")
    found = _Chains()
    for stream in coding.counted(gpu.stream[scene.rows])[0]:
        mine = np.flatnonzero(compute & (gpu.stream[scene.rows] == stream))
        if len(mine):
            found.add(scene, mine, flows.follow(mine))
    if found.count:
        yield Finding(
            "unfused",
            "Elementwise kernels that could be one",
            found.saved / NS_PER_S,
            (
                f"{counted(found.count, 'chain')}, the longest of {found.longest:,} kernels, took "
                f"{si(found.time / NS_PER_S, 's', 3)}; the longest kernel of each chain takes "
                f"{si((found.time - found.saved) / NS_PER_S, 's', 3)} of it",
                f"most: {_shown(found.most[1])}",
                "inferred: each reads as many elements of the same format as the one before it wrote",
            ),
            "torch.compile the module around them, or a fused kernel of a library (norm, activation, RoPE, loss).",
        )


def _shown(operators: tuple[str, ...]) -> str:
    names = [each.removeprefix("aten::") for each in operators]
    return " → ".join(names[:6]) + (f" → … ({len(names)} in all)" if len(names) > 6 else "")


class _Flows:
    """What the operator of each activity reads and writes, each distinct call worked out once."""

    def __init__(self, scene: Scene) -> None:
        import numpy as np

        trace, costs = scene.trace, scene.costs
        ops, gpu = trace.ops, trace.gpu
        self.flows: list[Flow] = []
        self.of = np.full(len(scene.rows), NONE, np.int32)  # of each activity its flow, or NONE
        if not costs.pieces:
            return
        told = (costs.owner != NONE) & (costs.which != NONE) & (costs.owner < len(ops)) & ~in_steps(scene)
        mine = np.flatnonzero(told)
        if not len(mine):
            return
        owner = costs.owner[mine]
        keys, back = distinct(ops.name[owner], ops.detail[owner], gpu.name[scene.rows[mine]])
        self.of[mine] = np.array([self._number(trace, *map(int, key)) for key in keys.T], np.int64)[back]

    def _number(self, trace: Trace, name: int, detail: int, kernel: int) -> int:
        on = trace.names[kernel]
        if detail == NONE or on.startswith("triton_"):
            return NONE
        found = flow(read(trace.names[name], trace.details[detail], on))
        if found is None:
            return NONE
        self.flows.append(found)
        return len(self.flows) - 1

    def follow(self, mine: Ints) -> Flags:
        """Whether each of these activities reads what the one before it among them has written."""
        import numpy as np

        flow = self.of[mine]
        follows = np.zeros(len(mine), bool)
        after = np.flatnonzero((flow[1:] != NONE) & (flow[:-1] != NONE)) + 1
        if len(after):
            pairs, back = distinct(flow[after - 1], flow[after])
            before, now = (listed(each) for each in pairs)
            fits = [self._fits(self.flows[i], self.flows[j]) for i, j in zip(before, now, strict=True)]
            follows[after] = np.array(fits, bool)[back]
        return follows

    @staticmethod
    def _fits(before: Flow, now: Flow) -> bool:
        """Whether one reads what another wrote.

        Two alike of one operand, and two that lay out anew, are of two tensors: none needs that twice.
        """
        twice = (before is now and now.of_one) or (before.anew and now.anew)
        return before.written in now.read and not twice


def in_steps(scene: Scene) -> Flags:
    """Which activities were launched within an optimiser's step, as the profiler annotates it."""
    import numpy as np

    trace = scene.trace
    steps = np.array([name.startswith("Optimizer.step#") for name in trace.names], bool)
    marks = np.flatnonzero(steps[trace.marks.name]) if len(trace.marks) else np.zeros(0, np.int64)
    if not len(marks) or not len(trace.calls):
        return np.zeros(len(scene.rows), bool)
    call = scene.links.call[scene.rows]
    launched = np.where(call >= 0, trace.calls.start[np.maximum(call, 0)], np.iinfo(np.int64).min)
    return timeline.inside(timeline.union(trace.marks.start[marks], trace.marks.end[marks]), launched)


@rule("optimiser")
def optimiser(scene: Scene) -> Iterator[Finding]:
    """An optimiser step of many kernels."""
    import numpy as np

    trace, gpu = scene.trace, scene.trace.gpu
    count = sum(trace.names[each].startswith("Optimizer.step#") for each in listed(trace.marks.name))
    mine = np.flatnonzero(in_steps(scene) & (gpu.kind[scene.rows] == KERNEL))
    names = {trace.names[each] for each in listed(np.unique(gpu.name[scene.rows[mine]]))}
    if not count or len(mine) < _MANY * count or any("Fused" in name for name in names):
        return
    took = int(gpu.duration[scene.rows[mine]].sum())
    spans = gpu.spans(scene.rows[mine])
    extent = int(spans[1].max() - spans[0].min()) if count == 1 else took
    costs = scene.costs
    least = sum(
        real(bound.seconds) * costs.part(at)
        for at in listed(mine)
        if costs.which[at] >= 0 and (bound := costs.pieces[int(costs.which[at])].bound) is not None
    )
    yield Finding(
        "optimiser",
        "An optimiser step that is not fused",
        max(extent, took) / NS_PER_S - least,
        (
            f"{len(mine) / count:,.0f} kernels a step, {si(took / NS_PER_S / count, 's', 3)} of device time",
            f"from the first to the last {si(extent / NS_PER_S, 's', 3)}; known bound {si(least, 's', 3)}",
        ),
        "fused=True (or foreach=True) for the optimiser.",
    )
