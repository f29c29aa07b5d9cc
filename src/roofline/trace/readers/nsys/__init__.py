"""Nsight Systems: SQLite exports of every schema from 2023 on, into the same columns as any trace.

Tables are there only where they have rows, and columns come and go with the version: each is asked for by name.
Correlation ids repeat in every process, so calls and activities are joined within one. NVTX ranges that PyTorch's
emit_nvtx wrote are operators, all others are marks of the user.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from roofline.errors import TraceError
from roofline.trace.events import COPY, KERNEL, NONE, SET, Activities, Counts, Ranges, Rank, Trace
from roofline.trace.readers.nsys import activities, metrics, target
from roofline.trace.readers.nsys.ranges import Nvtx
from roofline.trace.readers.nsys.reading import CALLS, KERNELS, NVTX, STRINGS, Reading
from roofline.trace.readers.sqlite import Tables, tables

if TYPE_CHECKING:
    from roofline.trace.readers.nsys.reading import Columns


def read(path: Path, name: str, size: int) -> Trace:
    """The trace in an export; raises TraceError for a file that is damaged or holds none of its tables."""
    with tables(path, name) as found:
        if not is_export(found):
            raise TraceError(f"{name} {_other(found)}")
        return _read(Reading(found), name, size)


# Databases of other tools, by how a table of theirs begins, and what to do about each.
_OTHERS = (
    ("rocpd_", "is a database of rocprofv3 (rocpd), which is not read. Convert it: rocpd convert -i FILE -f csv"),
    ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "is a profile of nvprof, which is not read. Record with nsys"),
    ("rocprof", "is a database of rocprof, which is not read. Record with rocprofv3 --output-format json"),
    ("LevelZero", "is a database of Intel's tools, which is not read. Record a PyTorch profiler's trace"),
)


def _other(found: Tables) -> str:
    """What an SQLite file is that is no export, and what to do."""
    for begin, said in _OTHERS:
        if any(each.startswith(begin) for each in found.columns):
            return f"{said}."
    return (
        "is an SQLite file, but no export of Nsight Systems: it has none of its tables. "
        "Export one: nsys export --type sqlite REPORT.nsys-rep"
    )


def is_export(there: Tables) -> bool:
    """Whether a file has any table of an export."""
    names = ("META_DATA_EXPORT", "EXPORT_META_DATA", "ANALYSIS_FILE", KERNELS, CALLS, NVTX, STRINGS, target.GPUS)
    return any(each in there.columns for each in names)


def _read(reading: Reading, name: str, size: int) -> Trace:
    import numpy as np

    there = reading.tables
    gpu = activities.activities(reading)
    calls = activities.calls(reading)
    activities.renumber(gpu, calls)
    nvtx = Nvtx(reading)
    ops, marks = nvtx.take()
    samples = metrics.samples(reading)
    none = np.broadcast_to(np.int16(NONE), len(gpu["start"]))
    _remarks(reading, len(none), bool(samples))
    used = {
        "kernel": int((gpu["kind"] == KERNEL).sum()),
        "copy": int((gpu["kind"] == COPY).sum()),
        "set": int((gpu["kind"] == SET).sum()),
        "call": len(calls["start"]),
        "op": len(ops["start"]),
        "mark": len(marks["start"]),
        "sample": sum(each.read for each in samples),
    }
    return Trace(
        source=name,
        format=target.form(there),
        gpu=Activities(external=none, detail=none, **gpu),
        ops=_ranges(ops),
        calls=_ranges(calls),
        marks=_ranges(marks),
        gpu_marks=_ranges({key: value[:0] for key, value in marks.items()}),
        names=reading.words.texts(there),
        details=tuple(nvtx.details),
        threads=tuple(((each >> 24) & 0xFFFFFF, each & 0xFFFFFF) for each in reading.threads.values),
        cards=target.cards(there),
        rank=Rank(),
        counts=Counts(reading.read, used, reading.left_out),
        bytes=size,
        warnings=tuple(reading.warnings),
        samples=samples,
    )


def _ranges(columns: Columns) -> Ranges:
    import numpy as np

    none = np.broadcast_to(np.int16(NONE), len(columns["start"]))
    return Ranges(**{"number": none, "detail": none, **columns})


def _remarks(reading: Reading, count: int, sampled: bool) -> None:
    """What the answer lacks because the file does."""
    if not count:
        said = "nothing is said of which kernels used a GPU" if sampled else "nothing is said of how a GPU was used"
        reading.warnings.append(f"no kernel was recorded: {said} (record with --trace=cuda,nvtx)")
    elif not reading.tables.has(CALLS):
        reading.warnings.append("no call of the runtime was recorded: the cause of idle times is not in the file")
