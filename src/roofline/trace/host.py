"""A run on the processor alone: the operators that do the work stand where a device's kernels would."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roofline.trace.events import HOST, KERNEL, NONE, Activities, Trace
from roofline.trace.link import link

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]
    Flags = NDArray[np.bool_]

_OWN = 2  # an operator works where what it calls takes less than one part in so many of its time

# Operators that move nothing: views of what is there, and room for what is not there yet.
_NOTHING = re.compile(
    r"aten::(empty\w*|new_empty\w*|as_strided_?|_?(reshape_alias|view|unsafe_view)\w*|view_as\w*|t_?|transpose_?|mT"
    r"|expand\w*|permute|movedim|select|slice|narrow|unsqueeze_?|squeeze_?|detach_?|alias|unflatten|flatten|chunk|split\w*"
    r"|unsafe_(chunk|split)\w*|tensor_split|unbind|unfold|diagonal|resize_\w*|resolve_(conj|neg)|lift\w*|set_|swapaxes"
    r"|broadcast_to|numpy_T|result_type|can_cast|is_\w+|to|reshape|contiguous|_has_\w+|size|stride|dim|numel)\Z"
)


def on_host(trace: Trace) -> Trace:
    """The same trace with the host's working operators as the activities of a device, where nothing else is one.

    An operator works where it spends at least half of its time itself; what it calls is then its own. What does
    not move or compute anything, and what lies between operators, is no activity. A file with calls of a device's
    runtime, or without operators, comes back as it is: its operators only launched something.
    """
    import numpy as np

    ops = trace.ops
    if len(trace.gpu) or len(trace.calls) or not len(ops):
        return trace
    working = np.flatnonzero(_working(trace, link(trace).parent))
    none = np.full(len(working), NONE, np.int64)
    numbered = replace(ops, number=np.arange(1, len(ops) + 1, dtype=np.int64))
    gpu = Activities(
        start=ops.start[working],
        duration=ops.duration[working],
        name=ops.name[working],
        kind=np.full(len(working), KERNEL, np.int64),
        device=np.full(len(working), HOST, np.int64),
        stream=ops.thread[working],
        correlation=none,
        external=numbered.number[working],
        moved=none,
        detail=none,
    )
    return replace(trace, gpu=gpu, ops=numbered)


def _working(trace: Trace, parent: Ints) -> Flags:
    """Which operators do the work; none of them lies within another."""
    import numpy as np

    ops = trace.ops
    called = np.zeros(len(ops), np.int64)
    inner = parent != NONE
    np.add.at(called, parent[inner], ops.duration[inner])
    moves = np.array([not _NOTHING.fullmatch(name) for name in trace.names], bool)[ops.name]
    own = moves & (ops.duration > 0) & (_OWN * called <= ops.duration)
    # From the outermost to the innermost: what lies within a working one is part of it.
    within = np.zeros(len(ops), bool)
    level = np.flatnonzero(~inner)
    children = np.argsort(parent, kind="stable")
    firsts = np.searchsorted(parent[children], np.arange(len(ops)), "left")
    lasts = np.searchsorted(parent[children], np.arange(len(ops)), "right")
    while len(level):
        counts = lasts[level] - firsts[level]
        around = np.repeat(level, counts)
        offsets = np.arange(len(around)) - np.repeat(np.cumsum(counts) - counts, counts)
        below = children[np.repeat(firsts[level], counts) + offsets]
        within[below] = within[around] | own[around]
        level = below
    return own & ~within
