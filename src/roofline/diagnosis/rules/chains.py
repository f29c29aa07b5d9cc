"""Rules on kernels that follow each other: chains that could be one, and optimiser steps of many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.costs.call import read
from roofline.diagnosis.costs.elementwise import Flow, flow
from roofline.diagnosis.findings import Finding, counted
from roofline.diagnosis.numbers import real
from roofline.diagnosis.rules.scene import Scene, rule
from roofline.trace.classify import CATEGORIES, COMPUTE
from roofline.trace.events import KERNEL, NONE, listed
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
    open: list[tuple[int, str]] = field(default_factory=list["tuple[int, str]"])

    def close(self) -> None:
        """The kernels so far are a chain, or a single one."""
        chain, self.open = self.open, []
        if len(chain) < _CHAIN:
            return
        times = [time for time, _ in chain]
        saved = sum(times) - max(times)
        self.count, self.longest = self.count + 1, max(self.longest, len(chain))
        self.time, self.saved = self.time + sum(times), self.saved + saved
        if saved > self.most[0]:
            self.most = saved, tuple(operator for _, operator in chain)


@rule("unfused")
def unfused(scene: Scene) -> Iterator[Finding]:
    """Operators of one element at a time that follow each other on a stream, each reading what the one before wrote.

    Files have no identity of tensors: one is taken for another where both have as many elements of the same format.
    Without shapes nothing is told; nor of kernels that a compiler has fused as far as it could, and of optimisers.
    """
    import numpy as np

    gpu = scene.trace.gpu
    compute = np.isin(scene.kinds, [CATEGORIES.index(each) for each in COMPUTE]) & (gpu.kind[scene.rows] == KERNEL)
    compute |= scene.kinds == CATEGORIES.index("communication")
    flows, steps = _Flows(scene), in_steps(scene)
    found = _Chains()
    for stream in np.unique(gpu.stream[scene.rows]):
        mine = np.flatnonzero(compute & (gpu.stream[scene.rows] == stream))
        before: Flow | None = None
        for at, duration in zip(listed(mine), listed(gpu.duration[scene.rows[mine]]), strict=True):
            now = None if steps[at] else flows.of(at)
            if now is None or before is None or before.written not in now.read:
                found.close()
            if now is not None:
                found.open.append((duration, flows.operator(at)))
            before = now
        found.close()
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
        self.scene = scene
        self.known: dict[tuple[int, int, int], Flow | None] = {}

    def of(self, at: int) -> Flow | None:
        """Of the activity at this place; None where its operator is none of one element at a time."""
        scene, row = self.scene, int(self.scene.rows[at])
        owner = int(scene.costs.owner[at])
        if owner == NONE or int(scene.costs.which[at]) == NONE or owner >= len(scene.trace.ops):
            return None
        ops, gpu = scene.trace.ops, scene.trace.gpu
        key = (int(ops.name[owner]), int(ops.detail[owner]), int(gpu.name[row]))
        if key not in self.known:
            name, detail, kernel = key
            on = scene.trace.names[kernel]
            told = detail != NONE and not on.startswith("triton_")
            self.known[key] = flow(read(scene.trace.names[name], scene.trace.details[detail], on)) if told else None
        return self.known[key]

    def operator(self, at: int) -> str:
        """The name of its operator."""
        return self.scene.costs.operators[int(self.scene.costs.owner[at])]


def in_steps(scene: Scene) -> Flags:
    """Which activities were launched within an optimiser's step, as the profiler annotates it."""
    import numpy as np

    trace = scene.trace
    steps = np.array([name.startswith("Optimizer.step#") for name in trace.names], bool)
    marks = np.flatnonzero(steps[trace.marks.name]) if len(trace.marks) else np.zeros(0, np.int64)
    within = np.zeros(len(scene.rows), bool)
    if not len(marks) or not len(trace.calls):
        return within
    call = scene.links.call[scene.rows]
    launched = np.where(call >= 0, trace.calls.start[np.maximum(call, 0)], np.iinfo(np.int64).min)
    for at in listed(marks):
        start, end = int(trace.marks.start[at]), int(trace.marks.start[at] + trace.marks.duration[at])
        within |= (launched >= start) & (launched < end)
    return within


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
    spans = gpu.start[scene.rows[mine]], gpu.end[scene.rows[mine]]
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
