"""Why the device had nothing to do: each gap divided by what the host did meanwhile."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.result import Cause, Gap
from roofline.trace import events, timeline
from roofline.trace.classify import readable
from roofline.trace.events import NONE, Ranges, Trace, listed
from roofline.trace.link import Links

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roofline.trace.timeline import Spans

    Ints = NDArray[np.signedinteger[Any]]

DATA, START_UP, COLLECTIVE = "data loading", "start-up", "waiting for a collective"
SYNC, HOST, LATENCY = "synchronisation", "host-bound launch", "launch latency"
QUEUED, UNKNOWN = "queued on the device", "launch not recorded"
BETWEEN = "between operators"

# What each cause means, for the answer.
MEANING = {
    DATA: "the host was in a data loader",
    START_UP: "the host loaded modules, allocated memory or compiled",
    COLLECTIVE: "the host waited in a collective or a barrier",
    SYNC: "the host had waited for the device to finish, and only then went on to launch",
    HOST: "the host had not launched the next activity yet",
    LATENCY: "the next activity was launched and had not started yet",
    QUEUED: "the next activity had been launched before: it waited for another stream, or between kernels of a graph",
    UNKNOWN: "the file does not hold the call that launched the next activity",
    BETWEEN: "no operator did any work: Python, the framework's own, views and allocation",
}
_HOST_SETS = {
    DATA: re.compile(r"DataLoader|dataloader|data_loader|data_iter|next_batch|get_batch", re.IGNORECASE),
    START_UP: re.compile(
        r"^(cu|hip|cuda)(Module|Library|Init|Ctx|Device(Primary|Get|Set)|MemCreate|MemAddress|FuncGet|FuncLoad"
        r"|(Host)?Malloc|HostAlloc|StreamCreate|GraphInstantiate|KernelGet)|_compile\b|CachingAutotuner|async_compile"
        r"|dynamo|inductor_compile|compile_fx|precompile"
    ),
    COLLECTIVE: re.compile(r"^(c10d::|gloo:|nccl:|mpi:|ucc:)|barrier|wait_tensor|^record_param_comms"),
}
_SYNC = re.compile(r"Synchronize|^(cuda|hip|cu)Memcpy|^(cuda|hip)(Free|Event(Query|Sync)|StreamQuery)|_local_scalar")
_SHOWN = 5
_AT_ONCE = 1 << 18


def idle(trace: Trace, links: Links, rows: Ints, busy: Spans, window: tuple[int, int]) -> tuple[list[Cause], list[Gap]]:
    """The causes of all gaps, the largest first, and the longest gaps; the causes add up to the idle time exactly."""
    import numpy as np

    starts, ends = timeline.gaps(busy, *window)
    if not len(starts):
        return [], []
    gpu, calls = trace.gpu, trace.calls
    following = rows[np.searchsorted(gpu.start[rows], ends, "left")]  # the activity that ends each gap
    call = links.call[following]
    known = call != NONE
    launched = np.where(known, calls.start[np.maximum(call, 0)] if len(calls) else 0, starts)
    handed = np.clip(launched, starts, ends)  # until then the host had not launched
    parts = {cause: np.zeros(len(starts), np.int64) for cause in MEANING}
    left = np.where(known, handed - starts, 0)
    taken = timeline.union(starts[:0], ends[:0])
    for cause, pattern in _HOST_SETS.items():
        spans = timeline.subtract(_spans(trace, pattern), taken)
        parts[cause] = np.where(known, timeline.covered(spans, starts, handed), 0)
        left = left - parts[cause]
        taken = timeline.join(taken, spans)
    waited = timeline.inside(_named(trace, trace.calls, _SYNC), starts)
    parts[SYNC] = np.where(waited, left, 0)
    parts[HOST] = np.where(waited, 0, left)
    before = launched <= starts
    parts[LATENCY] = np.where(known & ~before, ends - handed, 0)
    parts[QUEUED] = np.where(known & before, ends - starts, 0)
    parts[BETWEEN if gpu.device[rows[0]] == events.HOST else UNKNOWN] = np.where(known, 0, ends - starts)
    causes = [
        Cause(cause, int(each.sum()), int((each > 0).sum()), int(each.max()))
        for cause, each in parts.items()
        if each.any()
    ]
    causes.sort(key=lambda each: -each.time)
    return causes, _longest(trace, parts, (starts, ends), following, window[0])


def _longest(trace: Trace, parts: dict[str, Ints], gaps: Spans, following: Ints, window_start: int) -> list[Gap]:
    import numpy as np

    starts, ends = gaps
    names = list(parts)
    found: list[Gap] = []
    for at in np.argsort(starts - ends, kind="stable")[:_SHOWN].tolist():
        found.append(
            Gap(
                at=int(starts[at]) - window_start,
                length=int(ends[at] - starts[at]),
                cause=max(names, key=lambda name, at=at: int(parts[name][at])),
                host=_host(trace, int(starts[at]), int(ends[at])),
                next=readable(trace.names[int(trace.gpu.name[following[at]])]),
            )
        )
    return found


def _host(trace: Trace, start: int, end: int) -> str:
    """What covers most of a time on the host; of those that cover it alike, the shortest."""
    import numpy as np

    best = ("", 0, 0)
    for ranges in (trace.calls, trace.ops, trace.marks):
        upto = int(np.searchsorted(ranges.start, end))
        meet = _running(ranges, upto, start)
        inside = np.minimum(ranges.start[meet] + ranges.duration[meet], end) - np.maximum(ranges.start[meet], start)
        most = inside > max(best[1], (end - start) // 4)
        for at, cover in zip(listed(meet[most])[-50:], listed(inside[most])[-50:], strict=True):
            length = int(ranges.duration[at])
            if cover > best[1] or (cover == best[1] and length < best[2]):
                best = (trace.names[int(ranges.name[at])], cover, length)
    return best[0]


def _running(ranges: Ranges, upto: int, time: int) -> Ints:
    """Which of the first ranges have not ended at a time; some at once, as there are millions."""
    import numpy as np

    parts = [
        first + np.flatnonzero(ranges.duration[first:last] > time - ranges.start[first:last])
        for first, last in ((at, min(at + _AT_ONCE, upto)) for at in range(0, upto, _AT_ONCE))
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _spans(trace: Trace, pattern: re.Pattern[str]) -> Spans:
    return timeline.join(*(_named(trace, each, pattern) for each in (trace.ops, trace.calls, trace.marks)))


def _named(trace: Trace, ranges: Ranges, pattern: re.Pattern[str]) -> Spans:
    """Where a host event ran whose name has the pattern."""
    import numpy as np

    fitting = np.array([bool(pattern.search(name)) for name in trace.names], bool)
    mine = fitting[ranges.name] if len(ranges) else np.zeros(0, bool)
    return timeline.union(ranges.start[mine], ranges.start[mine] + ranges.duration[mine])
