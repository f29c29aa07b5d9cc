"""Rules on single kernels: far from their bound, busy and yet waiting for memory."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.diagnosis.beside import utilisation
from roofline.diagnosis.findings import Finding, counted, short
from roofline.diagnosis.result import KernelRow
from roofline.diagnosis.rules.scene import Scene, rule
from roofline.trace.classify import COMPUTE
from roofline.units import NS_PER_S, percent, si

_FAR = 0.6  # share of its bound below which a kernel is worth a look
_SHARE = 0.02  # of the window that it loses
_SHOWN = 3
_SHORT = 10_000  # [ns] of a call, of which starting and ending take a good part
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
            f"{short(row.readable)} reaches {percent(demand.of_bound)} of its bound",
            _lost(row),
            (
                f"{counted(demand.calls, 'call')} took {si(demand.time / NS_PER_S, 's', 3)}; "
                f"{demand.by or 'nothing'} sets a bound of {si(demand.bound, 's', 3)}",
                f"{si(float(demand.flops), 'FLOP', 3)} over {si(float(demand.bytes), 'B', 3)}, launched by "
                f"{row.operator or 'no recorded operator'}",
            ),
            _advice(scene, row),
        )


def _lost(row: KernelRow) -> float:
    demand = row.demand
    if demand is None or demand.bound is None:
        return 0.0
    return demand.time / NS_PER_S - demand.bound


def _advice(scene: Scene, row: KernelRow) -> str:
    mean = si(row.sum / row.calls / NS_PER_S, "s", 3)
    if row.sum < _SHORT * row.calls:
        return f"its calls take {mean} each, mostly to start and to end: fuse it with its neighbours, or give it more."
    if row.category == "gemm":
        return "try another back end or its autotuning (torch.compile mode=max-autotune), and larger m."
    if row.category == "attention":
        return "try another back end of the attention, and look at its tile against head size and lengths."
    if row.category == "convolution":
        return "torch.backends.cudnn.benchmark = True, channels_last, and 16-bit formats."
    device = scene.found.supply
    tool = "rocprof-compute" if device is not None and device.vendor == "AMD" else "Nsight Compute"
    return f"look at its access with {tool}: strides that do not coalesce, or too few threads."


@rule("busy-on-memory")
def busy_on_memory(scene: Scene) -> Iterator[Finding]:
    """A device that is busy all the time, mostly with kernels that wait for memory and do not reach its bandwidth."""
    found = scene.found
    if not found.window or found.busy < _BUSY * found.window or found.limit != "memory":
        return
    rows = [each for each in found.kernels if each.demand is not None and each.demand.by == "memory"]
    took = sum(each.demand.time for each in rows if each.demand is not None) / NS_PER_S
    least = sum(each.demand.bound or 0.0 for each in rows if each.demand is not None)
    if found.supply is None or not took or least > _REACHED * took:
        return
    used = utilisation(found)
    ran = "nothing" if used is None else f"{percent(used.value)} of its {si(used.peak, 'FLOP/s')} {used.rate}"
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
