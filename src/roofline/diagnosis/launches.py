"""How the host fed the device: launch delay, queue depth, kernels shorter than a launch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.result import Launches
from roofline.trace.events import KERNEL, NONE, Trace
from roofline.trace.link import Links
from roofline.trace.memory import give_back

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_GRAPH = re.compile(r"GraphLaunch")
_LAUNCH = re.compile(r"Launch(?!.*Graph)|LaunchKernel|hipExtModuleLaunch|enqueue", re.IGNORECASE)


def launches(trace: Trace, links: Links, rows: Ints, captured: int = 0) -> Launches:
    """Launches of one device's activities; `captured` of them have their operators by a graph's capture."""
    import numpy as np

    gpu, calls = trace.gpu, trace.calls
    call = links.call[rows]
    linked = call != NONE
    replayed = _by_name(trace, calls.name[call[linked]], _GRAPH)
    kernels = gpu.kind[rows] == KERNEL
    plain = kernels.copy()
    plain[linked] &= ~replayed
    single = rows[linked & plain]
    single_call = links.call[single]
    delay = gpu.start[single] - calls.start[single_call] if len(single) else np.zeros(0, np.int64)
    delay = delay[delay >= 0]  # where the clocks of host and device disagree it is not known
    launching = np.zeros(len(calls), bool)
    launching[single_call] = True
    cost = _median(calls.duration[launching])
    short = single[gpu.duration[single] < (cost or 0)]  # those of a graph cost no launch each
    wait, wait_most = _median(delay), int(np.percentile(delay, 95)) if len(delay) else None
    del delay
    depth, starved = _depth(trace, rows, call) if linked.any() else (None, None)
    give_back()
    return Launches(
        linked=int(linked.sum()),
        unlinked=int((~linked).sum()),
        unlinked_time=int(gpu.duration[rows[~linked]].sum()),
        delay=wait,
        delay_most=wait_most,
        cost=cost,
        depth=depth,
        starved=starved,
        short=len(short),
        short_time=int(gpu.duration[short].sum()),
        replayed=int((replayed & kernels[linked]).sum()),
        captured=captured,
    )


def _median(values: Ints) -> int | None:
    import numpy as np

    return int(np.median(values)) if len(values) else None


def _depth(trace: Trace, rows: Ints, call: Ints) -> tuple[float, float]:
    """How many activities were launched and not finished at a launch: the median, and the share of none.

    A graph is one launch, however many kernels it replays.
    """
    import numpy as np

    launched, ends = trace.gpu.spans(rows)  # what no call launched counts as launched at its start
    linked = call != NONE
    launched[linked] = trace.calls.start[call[linked]]
    launched.sort()
    ends.sort()
    seen = np.zeros(len(trace.calls), bool)
    seen[call[linked]] = True
    times = trace.calls.start[seen]
    before = np.searchsorted(launched, times, "left")
    depth = np.maximum(before - np.searchsorted(ends, times, "right"), 0)
    return float(np.median(depth)), int((depth == 0).sum()) / len(depth)


def _by_name(trace: Trace, names: Ints, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    import numpy as np

    fitting = np.array([bool(pattern.search(name)) for name in trace.names], bool)
    return fitting[names] if len(names) else np.zeros(0, bool)
