"""Why the device had nothing to do: each gap divided by what the host did meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.result import Cause, Gap
from roofline.trace import events, timeline
from roofline.trace.classify import readable
from roofline.trace.events import NONE, Ranges, Trace, listed
from roofline.trace.link import Links
from roofline.trace.memory import give_back
from roofline.units import NS_PER_S

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roofline.trace.timeline import Spans

    Ints = NDArray[np.signedinteger[Any]]
    Flags = NDArray[np.bool_]

DATA, START_UP, COLLECTIVE = "data loading", "start-up", "waiting for a collective"
SYNC, HOST, LATENCY = "synchronisation", "host-bound launch", "launch latency"
QUEUED, UNKNOWN = "queued on the device", "launch not recorded"
BETWEEN = "between operators"

# What each cause means, for the answer.
MEANING = {
    DATA: "the host was in a data loader",
    START_UP: "the host loaded modules, allocated memory or compiled, or was in a launch for 2 ms or more",
    COLLECTIVE: "the host waited in a collective or a barrier",
    SYNC: "the host had waited for the device to finish, and only then went on to launch",
    HOST: "the host had not launched the next activity yet",
    LATENCY: "the next activity was launched and had not started yet",
    QUEUED: "the next activity had been launched before: it waited for another stream, or between kernels of a graph",
    UNKNOWN: "the file does not hold the call that launched the next activity",
    BETWEEN: "no operator did any work: Python, the framework's own, views and allocation",
}
_HOST_SETS = {
    DATA: re.compile(r"DataLoader|dataloader|data_loader|data_iter|(next|get)_batch(?!_to_run)", re.IGNORECASE),
    START_UP: re.compile(
        r"^(cu|hip|cuda)(Module|Library|Init|Ctx|Device(Primary|Get|Set)|MemCreate|MemAddress|FuncGet|FuncLoad"
        r"|(Host)?Malloc|HostAlloc|StreamCreate|GraphInstantiate|KernelGet)|_compile\b|CachingAutotuner|async_compile"
        r"|dynamo|inductor_compile|compile_fx|precompile"
    ),
    COLLECTIVE: re.compile(r"^(c10d::|gloo:|nccl:|mpi:|ucc:)|barrier|wait_tensor|^record_param_comms"),
}
_SYNC = re.compile(
    r"Synchronize|^(cuda|hip|cu)Memcpy|^(cuda|hip)(Free|Event(Query|Sync)|StreamQuery)|^(ur|pi)(QueueFinish|EventWait)"
    r"|_local_scalar"
)
_GRAPH = re.compile(r"GraphLaunch")  # takes longer the more it replays
_LOADING = NS_PER_S // 500  # of a launch, from which on it was not launching
_SHOWN = 5
_AT_ONCE = 1 << 18


def idle(trace: Trace, links: Links, rows: Ints, busy: Spans, window: tuple[int, int]) -> tuple[list[Cause], list[Gap]]:
    """The causes of all gaps, the largest first, and the longest gaps; the causes add up to the idle time exactly."""
    import numpy as np

    starts, ends = timeline.gaps(busy, *window)
    if not len(starts):
        return [], []
    following = rows[np.searchsorted(trace.gpu.start[rows], ends, "left")]  # the activity that ends each gap
    host = _Host.of(trace, _launching(trace, links, rows), window)
    found = {cause: Cause(cause, 0, 0, 0) for cause in MEANING}
    for at in range(0, len(starts), _AT_ONCE):
        part = slice(at, at + _AT_ONCE)
        for cause, each in _parts(trace, links, host, (starts[part], ends[part]), following[part]):
            so_far = found[cause]
            found[cause] = Cause(
                cause,
                so_far.time + int(each.sum()),
                so_far.gaps + int((each > 0).sum()),
                max(so_far.longest, int(each.max())),
            )
    causes = sorted((each for each in found.values() if each.time), key=lambda each: -each.time)
    longest = np.argsort(starts - ends, kind="stable")[:_SHOWN]
    shown = (starts[longest], ends[longest])
    parts = dict(_parts(trace, links, host, shown, following[longest]))
    threads = [_watched(trace, links, host, row) for row in listed(following[longest])]
    gaps = _longest(trace, threads, parts, shown, following[longest], window[0])
    give_back()
    return causes, gaps


@dataclass(frozen=True, slots=True)
class _Host:
    """When the host did what a gap is put down to: each time of a thread at most one of these, and waits.

    Only `threads` that launch count: what a watchdog waits for, or a loader reads ahead, keeps no launch up. A gap is
    put down to what the thread did that launched its end; a wait to that of any of them, as one may wait for all.
    """

    threads: Flags  # which threads of the trace
    lanes: _Lanes
    sets: tuple[tuple[str, Spans], ...]  # in lanes
    waits: Spans

    @classmethod
    def of(cls, trace: Trace, threads: Flags, window: tuple[int, int]) -> _Host:
        """These times of a trace within a window."""
        lanes = _Lanes(*window)
        taken = timeline.union(trace.calls.start[:0], trace.calls.start[:0])
        sets: list[tuple[str, Spans]] = []
        for cause, pattern in _HOST_SETS.items():
            every = (_named(trace, each, pattern, threads, lanes) for each in (trace.ops, trace.calls, trace.marks))
            spans = timeline.subtract(timeline.join(*every), taken)
            taken = timeline.join(taken, spans)
            sets.append((cause, spans))
        return cls(threads, lanes, tuple(sets), _named(trace, trace.calls, _SYNC, threads))


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Times of many threads as one: those of each thread lie in a lane of their own, as long as the window."""

    start: int  # [ns]
    end: int

    def of(self, times: Ints, threads: Ints) -> Ints:
        """Where times of these threads lie."""
        import numpy as np

        return (
            np.clip(times, self.start, self.end) - self.start + threads.astype(np.int64) * (self.end - self.start + 1)
        )


def _launching(trace: Trace, links: Links, rows: Ints) -> Flags:
    """Which threads launched any of these activities; all of them where no launch is recorded."""
    import numpy as np

    call = links.call[rows]
    found = np.zeros(len(trace.threads) + 1, bool)  # one more for what is of no thread
    found[trace.calls.thread[call[call != NONE]]] = True
    return found if found.any() else ~found


def _parts(trace: Trace, links: Links, host: _Host, gaps: Spans, following: Ints) -> Iterator[tuple[str, Ints]]:
    """How much of each gap has which cause [ns], cause by cause; together they are the gaps."""
    import numpy as np

    starts, ends = gaps
    call, calls = links.call[following], trace.calls
    known = call != NONE
    launched = np.where(known, calls.start[np.maximum(call, 0)] if len(calls) else 0, starts)
    handed = np.clip(launched, starts, ends)  # until then the host had not launched
    left = np.where(known, handed - starts, 0)
    loading = np.where(known, _loading(trace, following, call, gaps), 0)
    thread = calls.thread[np.maximum(call, 0)] if len(calls) else np.zeros(len(starts), np.int64)
    lane = (host.lanes.of(starts, thread), host.lanes.of(handed, thread))
    for cause, spans in host.sets:
        part = np.where(known, timeline.covered(spans, *lane), 0)
        yield cause, part + loading if cause == START_UP else part
        left = left - part
    waited = timeline.inside(host.waits, starts)
    yield SYNC, np.where(waited, left, 0)
    yield HOST, np.where(waited, 0, left)
    before = launched <= starts
    yield LATENCY, np.where(known & ~before, ends - handed - loading, 0)
    yield QUEUED, np.where(known & before, ends - starts - loading, 0)
    on_host = len(following) > 0 and trace.gpu.device[following[0]] == events.HOST
    yield (BETWEEN if on_host else UNKNOWN), np.where(known, 0, ends - starts)


def _loading(trace: Trace, following: Ints, call: Ints, gaps: Spans) -> Ints:
    """How long the host was in the launch of the kernel that ends a gap [ns], where it loads code: else it is short."""
    import numpy as np

    calls = trace.calls
    if not len(calls):
        return np.zeros(len(following), np.int64)
    start, end = calls.spans(np.maximum(call, 0))
    graphs = np.array([bool(_GRAPH.search(name)) for name in trace.names], bool)
    kernels = (trace.gpu.kind[following] == events.KERNEL) & ~graphs[calls.name[np.maximum(call, 0)]]
    within = np.minimum(end, gaps[1]) - np.maximum(start, gaps[0])
    return np.where(kernels & (within > _LOADING), within, 0)


def _longest(
    trace: Trace, threads: Sequence[Flags], parts: dict[str, Ints], gaps: Spans, following: Ints, window_start: int
) -> list[Gap]:
    """The longest gaps, with what most of each is due to, and what the thread did that launched its end."""
    return [
        Gap(
            at=start - window_start,
            length=end - start,
            cause=max(parts, key=lambda cause: int(parts[cause][at])),
            host=_did(trace, threads[at], start, end),
            next=readable(trace.names[int(trace.gpu.name[following[at]])]),
        )
        for at, (start, end) in enumerate(zip(*map(listed, gaps), strict=True))
    ]


def _watched(trace: Trace, links: Links, host: _Host, row: int) -> Flags:
    """The thread that launched an activity; all that launch where it is not recorded."""
    import numpy as np

    call = int(links.call[row])
    return host.threads if call == NONE else np.arange(len(host.threads)) == trace.calls.thread[call]


_STEP = re.compile(r"ProfilerStep#\d+\Z")  # holds all that the host does, and tells nothing of it


def _did(trace: Trace, threads: Flags, start: int, end: int) -> str:
    """What covers most of a time on these threads; of those that cover it alike, the shortest."""
    import numpy as np

    best = ("", 0, 0)
    for ranges in (trace.calls, trace.ops, trace.marks):
        upto = int(np.searchsorted(ranges.start, end))
        meet = trace.own(ranges, _running(ranges, upto, start))
        meet = meet[threads[ranges.thread[meet]]]
        inside = np.minimum(ranges.start[meet] + ranges.duration[meet], end) - np.maximum(ranges.start[meet], start)
        most = inside > max(best[1], (end - start) // 4)
        for at, cover in zip(listed(meet[most])[-50:], listed(inside[most])[-50:], strict=True):
            length = int(ranges.duration[at])
            if _STEP.match(trace.names[int(ranges.name[at])]):
                continue
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


def _named(
    trace: Trace, ranges: Ranges, pattern: re.Pattern[str], threads: Flags, lanes: _Lanes | None = None
) -> Spans:
    """Where a host event ran on these threads whose name has the pattern; each thread in its lane where there are."""
    import numpy as np

    fitting = np.array([bool(pattern.search(name)) for name in trace.names], bool)
    mine = trace.named(ranges, fitting) & threads[ranges.thread] if len(ranges) else np.zeros(0, bool)
    start, end = ranges.start[mine], ranges.start[mine] + ranges.duration[mine]
    if lanes is not None:
        start, end = (lanes.of(each, ranges.thread[mine]) for each in (start, end))
    return timeline.union(start, end)
