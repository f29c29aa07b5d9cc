"""Judgement of a measured run: where its time went, and why."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from roofline.cost import Work
    from roofline.device import Device
    from roofline.diagnosis.assessment import Assessment
    from roofline.diagnosis.ranks import Run as Ranks
    from roofline.diagnosis.result import Diagnosis
    from roofline.model import Model
    from roofline.trace.events import Trace
    from roofline.workload import Precision


def diagnose(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    model: Model | None = None,
    device: Device | None = None,
    precision: Precision | None = None,
    tp: int | None = None,
    sequences: int | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    work: Work | None = None,
    capture: str | os.PathLike[str] | None = None,
    gpu: int | None = None,
    most: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    executor: Executor | None = None,
    workers: int = 1,
) -> Diagnosis | Assessment | Ranks:
    """Where the time of a profiled run went; of counters, collectives and benchmarks what they say of a limit.

    The file may be packed, or a URL; of several, one a rank, traces are laid beside each other. `model`, `device`,
    `precision`, `tp`, `work`, and of a benchmark `sequences` at once and the lengths of requests, say what ran, where
    the file does not. `capture` is a trace of the pass that captured
    the graphs that this one replays: their kernels have the operators that it recorded. `gpu` is the number of the
    device, of a trace that has several; without it the one with the most activities.

    `most` bounds the text that is read [byte]; `progress` is called with the bytes of the file read and its size;
    `executor` helps with a large file in `workers` other processes, or reads several files side by side. Raises
    RooflineError for a file that cannot be read or holds no trace.
    """
    from roofline.diagnosis.opening import open_profile
    from roofline.errors import BadValue
    from roofline.files import printable
    from roofline.trace.events import Trace
    from roofline.trace.readers.source import MOST

    limit = MOST if most is None else most
    if not isinstance(path, str | os.PathLike):
        if len(path) != 1 and capture is not None:
            raise BadValue("A capture is of one trace, and several were named. Name the one that replays it.")
        if len(path) != 1 and gpu is not None:
            raise BadValue("A GPU's number is of one trace, and several were named. Name the one that has this GPU.")
        if len(path) != 1:
            from roofline.diagnosis.ranks import diagnose_ranks

            return diagnose_ranks(path, limit, device, executor, progress)
        path = path[0]
    found = open_profile(path, most=limit, progress=progress, executor=executor, workers=workers)
    if isinstance(found, Trace):
        from roofline.diagnosis.judge import diagnose_trace

        return diagnose_trace(found, device, None if capture is None else _captured(capture, limit), gpu)
    if gpu is not None:
        raise BadValue("A GPU's number is of a trace with several; this file has no timeline. Leave --gpu out.")
    if capture is not None:
        raise BadValue("A capture is of a trace that replays graphs; this file has no timeline. Leave --capture out.")
    from roofline.diagnosis.assess import assess
    from roofline.diagnosis.benchmarks import Run
    from roofline.workload import Precision

    ran = Run(model, device, precision or Precision(), tp, work, sequences, input_tokens, output_tokens)
    return assess(found, printable(os.fspath(path)), ran)


def _captured(path: str | os.PathLike[str], most: int) -> Trace:
    from roofline.diagnosis.opening import open_profile
    from roofline.errors import BadValue
    from roofline.files import printable
    from roofline.trace.events import Trace

    found = open_profile(path, most=most)
    if isinstance(found, Trace):
        return found
    raise BadValue(f"{printable(os.fspath(path))} captures no graph: it has no timeline. Name a profiler's trace.")
