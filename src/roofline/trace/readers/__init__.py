"""Readers of profiles, chosen by what a file holds and not by what it is called."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from roofline.errors import TraceError
from roofline.trace.events import Trace
from roofline.trace.readers import chrome, rocprof, table
from roofline.trace.readers.leaves import MAGIC
from roofline.trace.readers.source import MOST, Progress, Source, opened
from roofline.trace.readers.span import checked

Read = Callable[[Source, Executor | None, int], Trace]


@dataclass(frozen=True, slots=True)
class Reader:
    """A format: how its first bytes are known, and what reads it."""

    name: str
    sniff: Callable[[bytes], bool]
    read: Read


def _json(head: bytes) -> bool:
    return head.lstrip()[:1] in (b"{", b"[")


# The widest stands last.
READERS = (
    Reader("rocprofv3", rocprof.sniff, lambda source, executor, workers: rocprof.read(source)),
    Reader("table of activities", table.sniff, lambda source, executor, workers: table.read(source)),
    Reader("PyTorch profiler", _json, chrome.read),
)

# What a file is that no reader takes, by its first bytes, and what to do about it.
_OTHERS = (
    (b"QDSTRM", "is a report of Nsight Systems in its own format. Export it: nsys export --type sqlite FILE"),
    (b"NVPROF", "is a report of Nsight Systems in its own format. Export it: nsys export --type sqlite FILE"),
    (b"NVR\0", "is a report of Nsight Compute in its own format. Export it: ncu --import FILE --page raw --csv"),
    (b"version https://git-lfs", "is a Git LFS pointer, not the file itself. Fetch it: git lfs pull"),
    (b"<!doctype html", "is a web page, no profile. Download the file itself, as by its raw link."),
    (b"<html", "is a web page, no profile. Download the file itself, as by its raw link."),
    (b"<?xml", "is XML, no profile. Download the file itself."),
)


def open_trace(
    path: str | os.PathLike[str],
    *,
    most: int = MOST,
    progress: Progress | None = None,
    executor: Executor | None = None,
    workers: int = 1,
) -> Trace:
    """The trace in a file; raises UnknownName, TraceError or BadValue, each with one clear line.

    `most` bounds the text read [byte]; `executor` decodes pieces of a large file in `workers` other processes.
    """
    with opened(path, most, progress) as source:
        head = source.head
        for reader in READERS:
            if reader.sniff(head):
                return checked(reader.read(source, executor, workers))
        raise TraceError(f"{source.name} {refusal(head) or _what(head)}")


def refusal(head: bytes) -> str | None:
    """What a file is that no reader takes, by its first bytes, and what to do; None where that is not known."""
    if not head.strip():
        return "is empty. Was the profiler stopped before it wrote the file?"
    start = head.lstrip().lower()
    for magic, answer in _OTHERS:
        if magic.lower() in start[:64]:
            return answer
    return None


def _what(head: bytes) -> str:
    """What a file that nobody knows is, as far as a reader of traces can tell."""
    if head.startswith(MAGIC):
        return "is an SQLite database, no JSON trace. Name a trace of the PyTorch profiler (.json, .json.gz)."
    if head[:512].isascii() and b"\0" not in head[:512]:
        return "is text, but no JSON trace. Name a trace of the PyTorch profiler (.json, .json.gz)."
    return "is in no format that is read. Name a trace of the PyTorch profiler (.json, .json.gz)."
