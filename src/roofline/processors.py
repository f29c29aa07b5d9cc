"""The processors that this process may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/")
_GROUP = "sys/fs/cgroup"


def allowed() -> frozenset[int]:
    """The numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def at_once(root: Path = _ROOT) -> int:
    """How many threads run at once: a container may have fewer processors' time than it sees processors."""
    cpus = len(allowed())
    with suppress(OSError, ValueError):
        time, period = (root / _GROUP / "cpu.max").read_text().split()
        if time != "max":
            return max(1, min(cpus, int(time) // int(period)))
    return cpus
