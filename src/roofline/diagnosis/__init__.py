"""Judgement of a measured run: where its time went, and why."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from roofline.diagnosis.result import Diagnosis


def diagnose(
    path: str | os.PathLike[str],
    *,
    most: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    executor: Executor | None = None,
    workers: int = 1,
) -> Diagnosis:
    """Where the time of a profiled run went; the file may be packed, or a URL.

    `most` bounds the text that is read [byte]; `progress` is called with the bytes of the file read and its size;
    `executor` helps with a large file in `workers` other processes. Raises RooflineError for a file that cannot
    be read or holds no trace.
    """
    from roofline.diagnosis.judge import diagnose_trace
    from roofline.trace.readers import MOST, open_trace

    return diagnose_trace(
        open_trace(path, most=MOST if most is None else most, progress=progress, executor=executor, workers=workers)
    )
