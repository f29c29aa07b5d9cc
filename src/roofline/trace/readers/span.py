"""How long the times of a trace are together: sums of them must fit 64 bits."""

from __future__ import annotations

from roofline.errors import TraceError
from roofline.trace.events import Trace

_MOST = float(1 << 62)  # [ns] some 146 years


def checked(trace: Trace) -> Trace:
    """The trace itself; raises TraceError where it spans more than a century, or its durations are more together.

    They are summed as doubles, which do not wrap.
    """
    import numpy as np

    every = [each for each in (trace.gpu, trace.ops, trace.calls, trace.marks, trace.gpu_marks) if len(each)]
    if not every:
        return trace
    first = min(int(each.start.min()) for each in every)
    last = max(float(np.max(each.start.astype(np.float64) + each.duration)) for each in every)
    longest = max(float(each.duration.sum(dtype=np.float64)) for each in every)
    if last - first > _MOST or longest > _MOST:
        raise TraceError(
            f"{trace.source} has events that take or span more than a century together: its times cannot be trusted. "
            "Record it again."
        )
    return trace
