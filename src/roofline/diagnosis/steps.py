"""Steps as the host marked them, and what serving engines write into their marks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.passes import GENERATES, NEW, OLD, STEP, told
from roofline.diagnosis.result import Pass, Step, Steps
from roofline.trace import timeline
from roofline.trace.coding import tally
from roofline.trace.events import NONE, Trace, listed
from roofline.trace.link import Links

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_MARKS = (
    re.compile(r"ProfilerStep#\d+\Z"),
    re.compile(r"execute_(?:context_|new_)?\d+"),
    re.compile(r"step\[\w+"),
)
_WARM_UP = 1.5  # times the median of the steps after it: a step that takes longer is warm-up
_REST = 0.5  # of the median of the steps in which something ran: below it one without is the rest of a loop
_MOST_PASSES = 500  # that are shown one by one


def steps(trace: Trace, links: Links, rows: Ints) -> Steps | None:
    """The steps of the first kind of mark that the file has; None where it has none."""
    import numpy as np

    marks = trace.marks
    for pattern in _MARKS:
        fitting = np.array([bool(pattern.match(name)) for name in trace.names], bool)
        mine = np.flatnonzero(fitting[marks.name]) if len(marks) else np.zeros(0, np.int64)
        if len(mine):
            return _steps(trace, links, rows, _one_loop(trace, links, rows, mine))
    return None


def _one_loop(trace: Trace, links: Links, rows: Ints, mine: Ints) -> Ints:
    """The marks of the thread that launched most within its own, without those that lie within another one."""
    import numpy as np

    marks, calls = trace.marks, trace.calls
    threads = list(tally(marks.thread[mine]))
    call = links.call[rows]
    called = call[call != NONE]
    loops = [mine[marks.thread[mine] == thread] for thread in threads]
    loops = [loop[timeline.outermost(*marks.spans(loop))] for loop in loops]
    if len(loops) == 1 or not len(called):
        return loops[0]
    launched = [
        int(
            timeline.inside(
                timeline.union(*marks.spans(loop)), calls.start[called[calls.thread[called] == thread]]
            ).sum()
        )
        for loop, thread in zip(loops, threads, strict=True)
    ]
    return loops[int(np.argmax(launched))]


def _steps(trace: Trace, links: Links, rows: Ints, mine: Ints) -> Steps:
    import numpy as np

    marks, gpu, calls = trace.marks, trace.gpu, trace.calls
    call = links.call[rows]
    launched = np.where(call == NONE, np.iinfo(np.int64).min, calls.start[np.maximum(call, 0)] if len(calls) else 0)
    order = np.argsort(launched, kind="stable")
    times = launched[order]
    taken: list[int] = []
    for start, end in zip(*map(listed, marks.spans(mine)), strict=True):
        own = rows[order[slice(*listed(np.searchsorted(times, (start, end))))]]
        taken.append(timeline.total(timeline.union(*gpu.spans(own))))
    busy, host = np.array(taken, np.int64), marks.duration[mine]
    lengths = np.maximum(host, busy)  # a host that only queues its work has done so long before that is done
    empty = (busy == 0) & (lengths < _REST * np.median(lengths[busy > 0] if busy.any() else 0))
    working = np.flatnonzero(~empty)
    warm = _warm_ups(listed(lengths[working]))
    steady = np.sort(lengths[working[warm:]])
    warm_up = np.zeros(len(mine), bool)
    warm_up[working[:warm]] = True
    columns = map(listed, (lengths, host, busy, warm_up, empty, _outside(trace, rows, mine)))
    names = (trace.names[name] for name in listed(marks.name[mine]))
    return Steps(
        steps=tuple(Step(name, *rest) for name, *rest in zip(names, *columns, strict=True)),
        median=int(np.median(steady)),
        least=int(steady[0]),
        most=int(steady[-1]),
        rule=_rule(warm, int(empty.sum()), len(mine)),
    )


def _outside(trace: Trace, rows: Ints, mine: Ints) -> Ints:
    """How much of each mark lies before the first of these activities or after the last."""
    import numpy as np

    start, end = trace.marks.spans(mine)
    if not len(rows):
        return end - start
    first, last = trace.gpu.start[rows].min(), trace.gpu.spans(rows)[1].max()
    return np.maximum(np.minimum(end, first) - start, 0) + np.maximum(end - np.maximum(start, last), 0)


def _rule(warm: int, empty: int, count: int) -> str:
    out: list[str] = []
    if empty:
        out.append(f"{empty:,} of {count:,} left out, as nothing ran on the device")
    if warm:
        of = f"the first {warm:,} of {count:,}" if not empty else f"{warm:,} more"
        out.append(f"{of} left out as warm-up: longer than {_WARM_UP:g} times the median of the rest")
    return ", ".join(out) or (f"all {count:,} count" if count > 1 else "the only one counts")


def _warm_ups(lengths: list[int]) -> int:
    """How many steps at the beginning are warm-up; one step always remains."""
    from statistics import median

    count = 0
    while count < len(lengths) - 1 and lengths[count] > _WARM_UP * median(lengths[count + 1 :]):
        count += 1
    return count


def passes(trace: Trace) -> tuple[Pass, ...]:
    """What vLLM and SGLang say of each pass: its requests, their new tokens and the positions they attend to."""
    names = [
        trace.names[name]
        for name in listed(trace.marks.name)
        if "execute_" in trace.names[name] or "step[" in trace.names[name]
    ]
    found = [each for each in map(_pass, names[: 2 * _MOST_PASSES]) if each is not None]
    exact = [each for each in found if "execute_" in each.name]  # stands within a mark that says less of the same pass
    return tuple((exact or found)[:_MOST_PASSES])


def _pass(name: str) -> Pass | None:
    if new := NEW.search(name):
        n = [int(each[:18]) for each in new.groups()]
        return Pass(name, n[0], n[1], n[2], n[3], n[6], n[7], n[8])
    if old := OLD.search(name):
        n = [int((each or "0")[:18]) for each in old.groups()]
        return Pass(name, None, n[0], n[1], None, n[3], n[4], None)
    if (step := STEP.search(name)) and "execute_" not in name:
        return _step_of(name, step[1], int(step[2][:18]), told(step))
    return None


def _step_of(name: str, stage: str, requests: int, sums: Mapping[str, int]) -> Pass | None:
    """A step of SGLang; None of one that does not say how many tokens it has, as one that verifies a draft."""
    tokens, kv = sums.get("g_sq", requests if stage == "DECODE" else None), sums.get("g_sk")
    if stage in GENERATES:
        return None if tokens is None else Pass(name, None, 0, 0, None, requests, tokens, kv)
    new, context = sums.get("c_sq", sums.get("toks")), sums.get("c", requests)
    if new is None or not requests:
        return None
    return Pass(name, None, context, new, sums.get("c_sk"), sums.get("g", 0), sums.get("g_sq", 0), kv)
