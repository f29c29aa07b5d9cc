"""Rules on the host: launches, synchronisation, data loading, compilation, copies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from roofline.diagnosis.findings import Finding, counted
from roofline.diagnosis.idle import DATA, HOST, LATENCY, START_UP, SYNC
from roofline.diagnosis.result import Cause
from roofline.diagnosis.rules.scene import Scene, rule
from roofline.trace.coding import tally
from roofline.trace.events import Ranges
from roofline.units import GIGA, NS_PER_S, percent, si, significant

_SYNCS = re.compile(r"Synchronize|^(cuda|hip|cu)Memcpy(?!.*Async)|^(cuda|hip)EventSync|^(ur|pi)(QueueFinish|EventWait)")
_ASKS = re.compile(r"^aten::(item|_local_scalar_dense|nonzero|is_nonzero|equal|unique\w*|masked_select)$")
_LOADS = re.compile(r"^(cu|hip|cuda)(Module|Library|Init|MemCreate|(Host)?Malloc|HostAlloc|GraphInstantiate|KernelGet)")
_COMPILES = re.compile(
    r"_compile\b|compile_fx|dynamo(?! Cache Lookup)|CachingAutotuner|precompile|async_compile|PyCodeCache", re.I
)


_MOST = 0.5  # of what is at stake
_LONG = 50  # launches that would fit in a gap, from which on launching is not what it is made of


def _each(scene: Scene, cause: str) -> float:
    """The mean gap of a cause [ns]."""
    return next((each.time / each.gaps for each in scene.found.causes if each.cause == cause), 0.0)


def _copies(count: int) -> str:
    return "1 copy" if count == 1 else f"{count:,} copies"


def _gaps(scene: Scene, *causes: str) -> str:
    """The gaps of each cause; one gap may have several, a part of it each."""
    mine = [each for each in scene.found.causes if each.cause in causes]
    return "; ".join((f"{each.cause}: " if len(causes) > 1 else "") + _sized(each) for each in mine)


def _sized(cause: Cause) -> str:
    took, longest = si(cause.time / NS_PER_S, "s", 3), si(cause.longest / NS_PER_S, "s", 3)
    return f"1 gap of {took}" if cause.gaps == 1 else f"{cause.gaps:,} gaps, {took} in all, the longest {longest}"


def _counts(scene: Scene, ranges: Ranges, pattern: re.Pattern[str]) -> Counter[str]:
    """How often each name that has the pattern occurs."""
    import numpy as np

    names = scene.trace.names
    fitting = np.array([bool(pattern.search(name)) for name in names], bool)
    if not len(ranges) or not fitting.any():
        return Counter()
    return Counter({names[at]: n for at, n in tally(ranges.name[scene.trace.named(ranges, fitting)]).items()})


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{n:,} {name[:60]}" for name, n in counts.most_common(4))


@rule("launch-gaps")
def launch_gaps(scene: Scene) -> Iterator[Finding]:
    """The device waits for the host to launch."""
    stake = scene.idle(HOST, LATENCY)
    each = scene.found.launches
    if not stake or each.starved is None:
        return
    evidence = [_gaps(scene, HOST, LATENCY), f"{percent(each.starved)} of launches found the device without work"]
    alone = next((gap for gap in scene.found.gaps if gap.cause in (HOST, LATENCY)), None)
    if alone is not None and alone.length > _MOST * stake * NS_PER_S:
        host = f", the host in {alone.host[:80]}" if alone.host else ""
        evidence.append(f"most of it is one gap of {si(alone.length / NS_PER_S, 's', 3)}{host}, then {alone.next[:60]}")
        look = "look at what the host did in that gap" if alone.cause == HOST else "what was launched began so late"
        advice = (
            f"{look}. The start of the profiler leaves such a gap: record after some passes (schedule with wait and "
            "warmup)."
        )
    elif each.replayed > _MOST * sum(row.calls for row in scene.found.kernels):
        advice = "kernels are replayed by graphs already: look at what the host does from one launch to the next."
    elif each.cost is not None and _each(scene, HOST) > _LONG * each.cost:
        longest = next((gap.host for gap in scene.found.gaps if gap.cause == HOST and gap.host), "")
        evidence.append(
            f"{si(_each(scene, HOST) / NS_PER_S, 's', 3)} a gap on average, where a launch costs the host "
            f"{si(each.cost / NS_PER_S, 's', 3)}" + (f"; in the longest it was in {longest[:80]}" if longest else "")
        )
        advice = (
            "look at what the host does in the long gaps, with a profile of Python (py-spy, with_stack=True): they are "
            "no cost of launches, and a graph helps only where it takes their place."
        )
    else:
        advice = (
            "CUDA or HIP graphs (torch.compile mode=reduce-overhead) for what repeats, fewer and larger kernels, and a "
            "look at what the host does in between."
        )
    if each.cost is not None and each.short:
        cost = si(each.cost / NS_PER_S, "s", 3)
        evidence.append(f"{counted(each.short, 'kernel')} took less than a launch costs the host ({cost})")
    yield Finding("launch-gaps", "The device waits for the host to launch", stake, tuple(evidence), advice)


@rule("synchronisation")
def synchronisation(scene: Scene) -> Iterator[Finding]:
    """The host waited for the device before it launched on."""
    stake = scene.idle(SYNC)
    calls, asks = _counts(scene, scene.trace.calls, _SYNCS), _counts(scene, scene.trace.ops, _ASKS)
    if not stake or not calls:
        return
    evidence = [_gaps(scene, SYNC), f"calls that wait: {_listed(calls)}"]
    if asks:
        evidence.append(f"operators that ask for a value: {_listed(asks)}")
    yield Finding(
        "synchronisation",
        "The host waits for the device, then the device for the host",
        stake,
        tuple(evidence),
        "keep values on the device (no .item(), nonzero or print in the loop), log every n steps, copy with "
        "non_blocking=True from pinned memory.",
    )


@rule("data-loader")
def data_loader(scene: Scene) -> Iterator[Finding]:
    """The device waits for data."""
    stake = scene.idle(DATA)
    if stake:
        yield Finding(
            "data-loader",
            "The device waits for the data loader",
            stake,
            (_gaps(scene, DATA),),
            "more workers (num_workers), pin_memory, prefetching; less work a sample on the host.",
        )


@rule("compilation")
def compilation(scene: Scene) -> Iterator[Finding]:
    """The host compiled or loaded modules while the device waited."""
    stake = scene.idle(START_UP)
    counts = _counts(scene, scene.trace.ops, _COMPILES) + _counts(scene, scene.trace.marks, _COMPILES)
    if not stake or not counts:
        return
    yield Finding(
        "compilation",
        "Compilation within the window",
        stake,
        (_gaps(scene, START_UP), f"events: {_listed(counts)}"),
        "warm up before the window; where it recurs, TORCH_LOGS=recompiles tells which guard fails (mark_dynamic for "
        "lengths that change).",
    )


def _eager(scene: Scene) -> str:
    names = scene.trace.names
    hip = any(names[at].startswith("hip") for at in tally(scene.trace.calls.name))
    return "HIP_ENABLE_DEFERRED_LOADING=0" if hip else "CUDA_MODULE_LOADING=EAGER"


@rule("start-up")
def start_up(scene: Scene) -> Iterator[Finding]:
    """The host loaded code or allocated memory while the device waited, and nothing was compiled."""
    stake = scene.idle(START_UP)
    if not stake or _counts(scene, scene.trace.ops, _COMPILES) or _counts(scene, scene.trace.marks, _COMPILES):
        return
    calls = _counts(scene, scene.trace.calls, _LOADS)
    evidence = [_gaps(scene, START_UP)]
    if calls:
        evidence.append(f"calls: {_listed(calls)}")
    yield Finding(
        "start-up",
        "Code is loaded, memory allocated or a launch held up",
        stake,
        tuple(evidence),
        "warm up before the window, with every shape and kernel that comes in it (a schedule with wait and warmup, a "
        f"request before the measured ones); {_eager(scene)} loads all code at the start.",
    )


@rule("pageable-copies")
def pageable(scene: Scene) -> Iterator[Finding]:
    """Copies between host and device from memory that is not pinned."""
    rows = [each for each in scene.found.copies if each.pinned is False and each.bytes]
    share = next((each for each in scene.found.breakdown if each.category == "copy"), None)
    if not rows or share is None:
        return
    took, moved = sum(each.sum for each in rows), sum(each.bytes for each in rows)
    pinned = [each for each in scene.found.copies if each.pinned]
    evidence = [
        f"{_copies(sum(each.calls for each in rows))}, {si(float(moved), 'B', 3)} in all, took "
        f"{si(took / NS_PER_S, 's', 3)}: {significant(moved * NS_PER_S / max(took, 1) / GIGA)} GB/s"
    ]
    fast = max((each.bytes * NS_PER_S / each.sum for each in pinned if each.sum), default=0.0)
    if fast:
        evidence.append(f"pinned copies of the same run reach {significant(fast / GIGA)} GB/s")
    yield Finding(
        "pageable-copies",
        "Copies from pageable memory",
        min(took, share.attributed) / NS_PER_S,
        tuple(evidence),
        "pinned memory on the host (tensor.pin_memory(), or a pinned tensor to copy into), and non_blocking=True.",
    )


_MUCH = 0.05  # of the window, from which on copies beside no computation are worth a look


@rule("exposed-copies")
def exposed_copies(scene: Scene) -> Iterator[Finding]:
    """Copies with nothing computed beside them, apart from those of pageable memory."""
    share = next((each for each in scene.found.breakdown if each.category == "copy"), None)
    rows = [each for each in scene.found.copies if each.pinned is not False and each.bytes and each.sum]
    if share is None or not rows:
        return
    took = min(share.attributed, sum(each.sum for each in rows)) / NS_PER_S
    if took < _MUCH * scene.window:
        return
    yield Finding(
        "exposed-copies",
        "Copies with nothing computed beside them",
        took,
        tuple(
            f"{each.kind}{', pinned' if each.pinned else ''}: {_copies(each.calls)}, {si(float(each.bytes), 'B', 3)} "
            f"in all, took {si(each.sum / NS_PER_S, 's', 3)}: "
            f"{significant(each.bytes * NS_PER_S / each.sum / GIGA)} GB/s"
            for each in rows[:3]
            if each.sum > 0.01 * sum(row.sum for row in rows)
        ),
        "keep on the device what comes again (weights, offloaded states, caches), fetch ahead on a stream of its own "
        "beside computation, copy fewer bytes.",
    )


@rule("outside-window")
def outside_window(scene: Scene) -> Iterator[Finding]:
    """Steps that the host began long before the device, or ended long after it: in no share of the window."""
    if scene.found.steps is None or not scene.found.window:
        return
    mine = [each for each in scene.found.steps.steps if each.steady and each.outside and each.host > each.busy]
    stake = sum(each.outside for each in mine) / NS_PER_S
    if not mine:
        return
    of = sum(each.host for each in mine)
    busy = sum(each.busy for each in mine)
    yield Finding(
        "outside-window",
        "A step goes on while the device has not begun, or has ended",
        stake,
        (
            f"{counted(len(mine), 'step')} of {si(of / NS_PER_S, 's', 3)}, of which {si(stake, 's', 3)} before the "
            "first activity of the device or after the last",
            f"the device was busy {percent(busy / of)} of the step: shares and MFU here are of the window, from its "
            "first activity to its last",
        ),
        "look at what the host does before its first launch and after its last: data, compilation, Python (py-spy, "
        "with_stack=True). Several steps in a record show whether each one has it.",
    )
