"""Which reader takes a text without a timeline, by what it holds and not by what it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofline.evidence import bench, bench_text, dcgm, nccl, nccl_json, ncu, nsys_stats, smi, training_log
from roofline.evidence.bench import Benchmark
from roofline.evidence.counters import Counters
from roofline.evidence.lines import Lines
from roofline.evidence.nccl import Log
from roofline.evidence.ncu import Report
from roofline.evidence.nsys_stats import Sums
from roofline.evidence.prefixes import Prefix, prefix_of
from roofline.evidence.training_log import TrainingLog

Evidence = Report | Sums | Counters | Log | Benchmark | TrainingLog


@dataclass(frozen=True, slots=True)
class Reader:
    """A format: how a text of it is known, and what reads it; `read` raises BadValue that says what is wrong."""

    name: str
    sniff: Callable[[str], bool]
    read: Callable[[Lines], Evidence]


# What is told apart by a line of its own stands before what is told by a word.
READERS = (
    Reader("Nsight Compute", ncu.sniff, ncu.read),
    Reader("nsys stats", nsys_stats.sniff, nsys_stats.read),
    Reader("nsys stats", nsys_stats.sniff_json, nsys_stats.read_json),
    Reader("nccl-tests", nccl.sniff, nccl.read),
    Reader("nccl-tests", nccl_json.sniff, nccl_json.read),
    Reader("Prometheus", dcgm.sniff_answer, dcgm.read_answer),
    Reader("serving benchmark", bench.sniff, bench.read),
    Reader("serving benchmark", bench_text.sniff, bench_text.read),
    Reader("nvidia-smi", smi.sniff, smi.read),
    Reader("DCGM", dcgm.sniff, dcgm.read),
    Reader("training log", training_log.sniff, training_log.read),
)


def reader_of(head: bytes) -> tuple[Reader, Prefix | None] | None:
    """The reader of a text that begins like this, and what stands before each of its lines; None for no reader."""
    if b"\0" in head[:4096]:
        return None
    text = head.decode("utf-8", "replace")
    prefix = prefix_of(text, _kind)
    lines = text if prefix is None else "\n".join(prefix.parted(each)[1] for each in text.splitlines())
    reader = _reader(lines)
    return None if reader is None else (reader, prefix)


def _kind(text: str) -> str:
    reader = _reader(text)
    return "" if reader is None else reader.name


def _reader(text: str) -> Reader | None:
    return next((each for each in READERS if each.sniff(text)), None)
