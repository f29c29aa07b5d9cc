"""How the host fed the device: launch delay, queue depth, kernels shorter than a launch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.result import Launches
from roofline.trace.events import KERNEL, NONE, Trace
from roofline.trace.link import Links

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_GRAPH = re.compile(r"GraphLaunch")
_LAUNCH = re.compile(r"Launch(?!.*Graph)|LaunchKernel|hipExtModuleLaunch|enqueue", re.IGNORECASE)


def launches(trace: Trace, links: Links, rows: Ints) -> Launches:
    """Launches of one device's activities."""
    gpu, calls = trace.gpu, trace.calls
    call = links.call[rows]
    linked = call != NONE
    replayed = _by_name(trace, calls.name[call[linked]], _GRAPH)
    kernels = gpu.kind[rows] == KERNEL
    plain = kernels.copy()
    plain[linked] &= ~replayed
    single = rows[linked & plain]
    cost, delay, delay_most = _delays(trace, single, links.call[single])
    short = rows[kernels & (gpu.duration[rows] < (cost or 0))]
    depth, starved = _depth(trace, rows, call) if linked.any() else (None, None)
    return Launches(
        linked=int(linked.sum()),
        unlinked=int((~linked).sum()),
        unlinked_time=int(gpu.duration[rows[~linked]].sum()),
        delay=delay,
        delay_most=delay_most,
        cost=cost,
        depth=depth,
        starved=starved,
        short=len(short),
        short_time=int(gpu.duration[short].sum()),
        replayed=int((replayed & kernels[linked]).sum()),
    )


def _delays(trace: Trace, single: Ints, call: Ints) -> tuple[int | None, int | None, int | None]:
    """Medians of what a launch costs the host and of the time until its activity starts, and that one's 95 % [ns]."""
    import numpy as np

    if not len(single):
        return None, None, None
    launching = np.zeros(len(trace.calls), bool)
    launching[call] = True
    delay = trace.gpu.start[single] - trace.calls.start[call]
    median, most = np.percentile(delay, (50, 95), overwrite_input=True)
    return int(np.median(trace.calls.duration[launching])), int(median), int(most)


def _depth(trace: Trace, rows: Ints, call: Ints) -> tuple[float, float]:
    """How many activities were launched and not finished at a launch: the median, and the share of none."""
    import numpy as np

    calls, (starts, ends) = trace.calls, trace.gpu.spans(rows)
    launched = np.sort(np.where(call == NONE, starts, calls.start[np.maximum(call, 0)]))
    del starts
    ends.sort()
    done = np.searchsorted(ends, launched, "right")
    depth = np.maximum(np.arange(len(done)) - done, 0)
    return float(np.median(depth)), int((depth == 0).sum()) / len(depth)


def _by_name(trace: Trace, names: Ints, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    import numpy as np

    fitting = np.array([bool(pattern.search(name)) for name in trace.names], bool)
    return fitting[names] if len(names) else np.zeros(0, bool)
