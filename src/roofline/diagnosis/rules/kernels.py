"""Rules on single kernels and chains of them: far from their bound, not fused, busy and yet waiting for memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.findings import Finding
from roofline.diagnosis.numbers import real
from roofline.diagnosis.result import KernelRow
from roofline.diagnosis.rules.scene import Scene, rule
from roofline.trace.classify import CATEGORIES, COMPUTE
from roofline.trace.distinct import counted
from roofline.trace.events import KERNEL, listed
from roofline.units import NS_PER_S, percent, si

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_FAR = 0.6  # share of its bound below which a kernel is worth a look
_SHARE = 0.02  # of the window that it loses
_SHOWN = 3
_CHAIN = 2  # kernels from which on they could be one
_BUSY = 0.9
_REACHED = 0.7


@rule("far-from-bound")
def far_from_bound(scene: Scene) -> Iterator[Finding]:
    """The kernels that lose most against their bound, one finding each."""
    rows = [each for each in scene.found.kernels if each.category in COMPUTE and _lost(each) > _SHARE * scene.window]
    for row in sorted(rows, key=lambda each: -_lost(each))[:_SHOWN]:
        demand = row.demand
        if demand is None or demand.bound is None or demand.of_bound is None or demand.of_bound > _FAR:
            continue
        yield Finding(
            "far-from-bound",
            f"{row.readable[:60]} reaches {percent(demand.of_bound)} of its bound",
            _lost(row),
            (
                f"{demand.calls:,} calls took {si(demand.time / NS_PER_S, 's', 3)}; {demand.by or 'nothing'} sets a "
                f"bound of {si(demand.bound, 's', 3)}",
                f"{si(float(demand.flops), 'FLOP', 3)} over {si(float(demand.bytes), 'B', 3)}, launched by "
                f"{row.operator or 'no recorded operator'}",
            ),
            _advice(row),
        )


def _lost(row: KernelRow) -> float:
    demand = row.demand
    if demand is None or demand.bound is None:
        return 0.0
    return demand.time / NS_PER_S - demand.bound


def _advice(row: KernelRow) -> str:
    if row.category == "gemm":
        return "try another back end or its autotuning (torch.compile mode=max-autotune), and larger m."
    if row.category == "attention":
        return "try another back end of the attention, and look at its tile against head size and lengths."
    if row.category == "convolution":
        return "torch.backends.cudnn.benchmark = True, channels_last, and 16-bit formats."
    return "look at its access with Nsight Compute or rocprof: strides that do not coalesce, or too few threads."


@rule("unfused")
def unfused(scene: Scene) -> Iterator[Finding]:
    """Elementwise kernels that follow each other on a stream: each reads what the one before has written."""
    import numpy as np

    gpu = scene.trace.gpu
    stake, chains, longest, time = 0, 0, 0, 0
    compute = np.isin(scene.kinds, [CATEGORIES.index(each) for each in COMPUTE]) & (gpu.kind[scene.rows] == KERNEL)
    fusible = np.array(["Fill" not in name and not name.startswith("triton_") for name in scene.trace.names], bool)
    for stream in counted(gpu.stream[scene.rows]):
        mine = np.flatnonzero(compute & (gpu.stream[scene.rows] == stream))
        link = (scene.kinds[mine] == CATEGORIES.index("elementwise")) & fusible[gpu.name[scene.rows[mine]]]
        first, past = _runs(link)
        if len(first):
            durations = np.append(gpu.duration[scene.rows[mine]], 0).astype(np.int64)
            edges = np.stack([first, past], axis=1).reshape(-1)
            sums, most = (of.reduceat(durations, edges)[::2] for of in (np.add, np.maximum))
            stake, chains = stake + int((sums - most).sum()), chains + len(first)
            longest, time = max(longest, int((past - first).max())), time + int(sums.sum())
    if chains:
        yield Finding(
            "unfused",
            "Elementwise kernels that could be one",
            stake / NS_PER_S,
            (
                f"{chains:,} chains, the longest of {longest:,} kernels, took {si(time / NS_PER_S, 's', 3)}; the "
                f"longest kernel of each chain takes {si((time - stake) / NS_PER_S, 's', 3)} of it",
            ),
            "torch.compile the module around them, or a fused kernel of a library (norm, activation, RoPE, loss).",
        )


def _runs(link: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Where chains begin and end: _CHAIN links or more, one after another."""
    import numpy as np

    change = np.flatnonzero(np.diff(np.r_[False, link, False].astype(np.int8)))
    first, past = change[::2], change[1::2]
    long = past - first >= _CHAIN
    return first[long], past[long]


@rule("busy-on-memory")
def busy_on_memory(scene: Scene) -> Iterator[Finding]:
    """A device that is busy all the time, mostly with kernels that wait for memory and do not reach its bandwidth."""
    found = scene.found
    if not found.window or found.busy < _BUSY * found.window or found.limit != "memory":
        return
    rows = [each for each in found.kernels if each.demand is not None and each.demand.by == "memory"]
    took = sum(each.demand.time for each in rows if each.demand is not None) / NS_PER_S
    least = sum(each.demand.bound or 0.0 for each in rows if each.demand is not None)
    flops: Counter[str] = Counter()
    for each in found.placed:
        for rate, n in each.work.cost.flops.items():
            flops[rate] += int(each.parts * real(n))
    device = found.supply
    if device is None or not took or least > _REACHED * took:
        return
    rate = max((each for each in flops if each in device.peak), key=lambda each: flops[each], default="")
    peak = device.peak.get(rate)
    ran = f"{percent(flops[rate] / scene.window / peak)} of its {si(peak, 'FLOP/s')} {rate}" if peak else "nothing"
    yield Finding(
        "busy-on-memory",
        f"Busy {percent(found.busy / found.window)} of the window, and yet waiting for memory",
        took - least,
        (
            f"kernels that memory limits took {si(took, 's', 3)}; bound {si(least, 's', 3)}",
            f"arithmetic ran at {ran}",
        ),
        "move fewer bytes: fuse, narrower formats, larger batches for the same weights. Utilisation as nvidia-smi "
        "shows it counts that a kernel runs, not that it computes.",
    )


@rule("optimiser")
def optimiser(scene: Scene) -> Iterator[Finding]:
    """An optimiser step of many kernels."""
    import numpy as np

    trace, gpu, links = scene.trace, scene.trace.gpu, scene.links
    steps = np.array([name.startswith("Optimizer.step#") for name in trace.names], bool)
    marks = np.flatnonzero(steps[trace.marks.name]) if len(trace.marks) else np.zeros(0, np.int64)
    if not len(marks) or not len(trace.calls):
        return
    call = links.call[scene.rows]
    launched = np.where(call >= 0, trace.calls.start[np.maximum(call, 0)], np.iinfo(np.int64).min)
    within = np.zeros(len(scene.rows), bool)
    for at in listed(marks):
        start, end = int(trace.marks.start[at]), int(trace.marks.start[at] + trace.marks.duration[at])
        within |= (launched >= start) & (launched < end)
    within &= gpu.kind[scene.rows] == KERNEL
    count = int(within.sum())
    names = {trace.names[each] for each in counted(gpu.name[scene.rows[within]])}
    if count < _MANY * len(marks) or any("Fused" in name for name in names):
        return
    mine = np.flatnonzero(within)
    took = int(gpu.duration[scene.rows[mine]].sum())
    spans = gpu.spans(scene.rows[mine])
    extent = int(spans[1].max() - spans[0].min()) if len(marks) == 1 else took
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
            f"{count / len(marks):,.0f} kernels a step, {si(took / NS_PER_S / len(marks), 's', 3)} of device time",
            f"from the first to the last {si(extent / NS_PER_S, 's', 3)}; known bound {si(least, 's', 3)}",
        ),
        "fused=True (or foreach=True) for the optimiser.",
    )


_MANY = 30  # kernels of a step from which on it is not fused
