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
    launching = np.zeros(len(calls), bool)
    launching[single_call] = True
    cost = _median(calls.duration[launching])
    short = rows[kernels & (gpu.duration[rows] < (cost or 0))]
    depth = (
        _depth(*gpu.spans(rows), np.where(linked, calls.start[np.maximum(call, 0)], gpu.start[rows]))
        if linked.any()
        else None
    )
    return Launches(
        linked=int(linked.sum()),
        unlinked=int((~linked).sum()),
        unlinked_time=int(gpu.duration[rows[~linked]].sum()),
        delay=_median(delay),
        delay_most=int(np.percentile(delay, 95)) if len(delay) else None,
        cost=cost,
        depth=None if depth is None else float(np.median(depth)),
        starved=None if depth is None else int((depth == 0).sum()) / len(depth),
        short=len(short),
        short_time=int(gpu.duration[short].sum()),
        replayed=int((replayed & kernels[linked]).sum()),
        captured=captured,
    )


def _median(values: Ints) -> int | None:
    import numpy as np

    return int(np.median(values)) if len(values) else None


def _depth(starts: Ints, ends: Ints, launched: Ints) -> Ints:
    """How many activities were launched and not finished at each launch."""
    import numpy as np

    order = np.sort(launched)
    return np.maximum(np.arange(len(order)) - np.searchsorted(np.sort(ends), order, "right"), 0)


def _by_name(trace: Trace, names: Ints, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    import numpy as np

    fitting = np.array([bool(pattern.search(name)) for name in trace.names], bool)
    return fitting[names] if len(names) else np.zeros(0, bool)
