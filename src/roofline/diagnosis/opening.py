"""A profile opened by the reader that knows its content: a trace, or evidence without a timeline."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from roofline.errors import BadValue, TooMuch, TraceError, one_line
from roofline.evidence import dcgm, nccl_json, ncu, nsys_stats
from roofline.evidence.bench import sniff as is_benchmark
from roofline.evidence.lines import Lines
from roofline.evidence.readers import Evidence, reader_of
from roofline.files import home
from roofline.trace.events import Trace
from roofline.trace.readers import READERS, nsys, refusal
from roofline.trace.readers.leaves import MAGIC
from roofline.trace.readers.source import MOST, Progress, Source, opened
from roofline.trace.readers.span import checked

_JSON = re.compile(rb"\s*(?:\{|\[\s*[{\[\]\"])")
_NCU_REPORT = b"NVR\0"
_SQLITE = "nsys export --type sqlite REPORT.nsys-rep"


def open_profile(
    path: str | os.PathLike[str],
    *,
    most: int = MOST,
    progress: Progress | None = None,
    executor: Executor | None = None,
    workers: int = 1,
) -> Trace | Evidence:
    """What a file holds; raises UnknownName, TraceError or BadValue, each with one clear line."""
    with opened(path, most, progress) as source:
        found = _read(path, source, executor, workers)
        return checked(found) if isinstance(found, Trace) else found


def _read(path: str | os.PathLike[str], source: Source, executor: Executor | None, workers: int) -> Trace | Evidence:
    """What an open file holds."""
    head = source.head
    if head.startswith(MAGIC):
        with _on_disk(path, source) as file:
            return nsys.read(file, source.name, file.stat().st_size)
    if head.startswith(_NCU_REPORT):
        return _ncu_report(path, source)
    for reader in READERS[:-1]:
        if reader.sniff(head):
            return reader.read(source, executor, workers)
    return _of_json(source, executor, workers) if _JSON.match(head) else _of_text(source)


def _of_json(source: Source, executor: Executor | None, workers: int) -> Trace | Evidence:
    if other := _other(source.head):
        raise TraceError(f"{source.name} {other}")
    text = source.head.decode("utf-8", "replace")
    if dcgm.sniff_answer(text) or nsys_stats.sniff_json(text) or nccl_json.sniff(text) or is_benchmark(text):
        return _of_text(source)
    return READERS[-1].read(source, executor, workers)


def _of_text(source: Source) -> Evidence:
    refused = refusal(source.head) or _other(source.head)
    found = reader_of(source.head) if refused is None else None
    if found is None:
        raise TraceError(f"{source.name} {refused or _by_name(source.name) or _text(source.head) or _UNKNOWN}")
    reader, prefix = found
    try:
        return reader.read(Lines(source.blocks, source.warnings, prefix))
    except TooMuch:  # which names the file already
        raise
    except BadValue as error:
        raise TraceError(f"{source.name} {error}") from None


# What a file is that its content does not tell, by how it is called.
_NAMED = {
    (".nsys-rep", ".qdrep", ".qdstrm"): "a report of Nsight Systems in its own format. Export it: "
    "nsys export --type sqlite FILE",
    (".ncu-rep",): "a report of Nsight Compute in its own format. Export it: ncu --import FILE --page raw --csv",
    (".pftrace", ".perfetto-trace", ".proto"): "a Perfetto trace, which is not read. Convert it: traceconv json FILE",
    (".xplane.pb", ".pb"): "an XPlane profile of JAX or XLA, which is not read. "
    "Record with Nsight Systems: roofline record nsys",
    (".etl",): "a log of Windows, which is not read. Record with Nsight Systems",
}


# What a text is that no reader takes, by a line of it, and what to do.
_TEXTS = (
    (
        rb'^[^\S\n]*"?(Total \(MB\)"?,\s*"?Count|NVTX Range"?,|Count"?,"?PID|API Start \(ns\)|Start \(ns\)"?,"?End)',
        "is a report of nsys stats without the times of kernels by themselves. Name that of cuda_gpu_kern_sum or "
        f"cuda_gpu_trace, or the whole: {_SQLITE}.",
    ),
    (
        rb"NVIDIA-SMI \d|NVSMI LOG|^[^\S\n]*#\s*gpu\s+pid\b",
        "is what nvidia-smi prints of one moment, or of processes. Record over time: nvidia-smi dmon, or --query-gpu "
        "with --format=csv and --loop (better DCGM's counters: roofline record dcgm).",
    ),
    (
        rb"^[^\S\n]*(?:\d+, )?\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)?, ",
        "holds rows of nvidia-smi --query-gpu without their head: leave noheader out of --format.",
    ),
    (
        rb"ROCm System Management Interface|^[^\S\n]*GPU,(?>.*?(?:GFX|gfx)).*%",
        "is what rocm-smi or amd-smi prints, which is not read. Record a timeline: rocprofv3 --kernel-trace "
        "--output-format json.",
    ),
)


def _text(head: bytes) -> str:
    """What a text is that is not read, or ""."""
    return next((said for pattern, said in _TEXTS if re.search(pattern, head, re.MULTILINE)), "")


def _by_name(name: str) -> str:
    """What a file is by its name, or ""."""
    return next((f"is {said}." for ends, said in _NAMED.items() if name.lower().endswith(ends)), "")


_UNKNOWN = (
    "is in no format that is read. Name a trace of the PyTorch profiler, an export of Nsight Systems or Compute, "
    "counters of DCGM or nvidia-smi, a log of nccl-tests, a benchmark's result or a training log (roofline record)."
)


_TRACE = "Record a PyTorch profiler's trace: roofline record pytorch."

# Files of other tools that are not read, by how they begin, and what is read instead.
_OTHERS = (
    (
        rb"\s*Dispatch_ID,|device,HBMBw|workload_name,command,",
        "is a table of rocprof-compute, which is not read. "
        "Record a timeline: rocprofv3 --kernel-trace --output-format json",
    ),
    (rb'\s*\{\s*"workload_graph"\s*:', f"is a graph of an execution (Chakra), which has no times of kernels. {_TRACE}"),
    (rb"\s*\[\s*\[\s*-?\d+\s*,", f"is a memory timeline, which has no times of kernels. {_TRACE}"),
    (rb'\s*\{\s*"\$schema"\s*:\s*"[^"]*speedscope', f"is a profile of speedscope, which has no device. {_TRACE}"),
    (
        rb'\s*\[\s*\{\s*"(frame|children|metrics)"\s*:',
        f"is a profile of Triton Proton, which has sums of kernels and no timeline, and is not read. {_TRACE}",
    ),
    (
        rb'\s*"?Domain"?,"?Function"?,',
        "is a table of calls of the host: no kernel is in it. Name the *_kernel_trace.csv.",
    ),
    (
        rb'\s*"?Name"?,"?Calls"?,"?TotalDurationNs"?',
        "is a table of sums of rocprof, which is not read. Name the *_kernel_trace.csv, or the JSON of rocprofv3.",
    ),
    (
        rb'\s*"?(Computing Task|Function / Call Stack|Function)"?[\t,].*?(Time|CPI)',
        f"is a table of Intel VTune, which is not read. {_TRACE}",
    ),
    (
        rb"[^\n]{0,200}\n?[^\n]{0,200}== (L0|CL|Level Zero) Backend|=== (Device|API) Timing (Summary|Results)",
        f"is a summary of Intel's unitrace or onetrace, which is not read. {_TRACE}",
    ),
    (
        rb"\x89HDF|ARROW1|PAR1",
        f"is a table in a binary format (HDF5, Arrow or Parquet), which is not read. Of Nsight Systems: {_SQLITE}.",
    ),
    (
        rb'\s*(?:\[\s*)?\{".{0,4000}?"(CudaEvent|NvtxEvent|TraceProcessEvent)"',
        f"is an export of Nsight Systems as JSON, which is not read. Export it as SQLite: {_SQLITE}.",
    ),
    (
        rb'\s*\[\s*\{\s*"(Total \(MB\)|NVTX Range|Start \(ns\))"',
        f"is a report of nsys stats as JSON, of which sums of kernels alone are read. Export the whole: {_SQLITE}.",
    ),
    (
        rb"\x0a.{0,4}(/device:|/host:|Task Environment)",
        "is an XPlane profile of JAX or XLA, which is not read. Record with Nsight Systems: roofline record nsys.",
    ),
)


def _other(head: bytes) -> str | None:
    """What a known file is that is not read, and what to do; None for any other."""
    return next((said for pattern, said in _OTHERS if re.match(pattern, head, re.DOTALL)), None)


@contextmanager
def _on_disk(path: str | os.PathLike[str], source: Source) -> Generator[Path]:
    """The file itself where it lies here unpacked, else a copy of its text that is gone afterwards."""
    local = home(Path(os.fspath(path))) if "://" not in os.fspath(path) else None
    if local is not None and local.is_file():
        with local.open("rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                yield local
                return
    with NamedTemporaryFile(suffix=".sqlite") as copy:
        for block in source.blocks:
            copy.write(block)
        copy.flush()
        yield Path(copy.name)


def _ncu_report(path: str | os.PathLike[str], source: Source) -> Evidence:
    """A report of Nsight Compute itself, where NVIDIA's module for it is installed."""
    try:
        return ncu.from_module(str(home(Path(os.fspath(path)))))
    except ImportError:
        raise TraceError(f"{source.name} {refusal(source.head)}") from None
    except Exception as error:  # the module's own errors are not known here
        raise TraceError(f"{source.name} cannot be read by ncu_report: {one_line(error)}.") from None
