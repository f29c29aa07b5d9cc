"""Nsight Systems: SQLite exports of every schema from 2023 on, into the same columns as any trace.

Tables are there only where they have rows, and columns come and go with the version: each is asked for by name.
Correlation ids repeat in every process, so calls and activities are joined within one. NVTX ranges that PyTorch's
emit_nvtx wrote are operators, all others are marks of the user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import TraceError
from roofline.trace.events import COPY, KERNEL, NONE, SET, Activities, Card, Counts, Ranges, Rank, Trace
from roofline.trace.readers.sqlite import Tables, tables, text_of, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_KERNELS, _CALLS, _NVTX = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
_COPIES, _SETS = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"
_GRAPHS, _GPUS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "TARGET_INFO_GPU"
_DEVICES, _STRINGS = "TARGET_INFO_CUDA_DEVICE", "StringIds"
_RANGES = (59, 60, 70, 71)  # push and pop, start and end; of NVTX and of its text form
_LAST = 1 << 62  # [ns]
_PID = ~0xFFFFFF  # a thread's global id without its lowest 24 bits is its process's
_MOST_NAMES = 1 << 18  # distinct names of ranges that are kept apart
_LONGEST_NAME = 1 << 13

# ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND
_OPER = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
} | {11: "HtoD", 12: "DtoH", 13: "DtoD"}  # the last of unified memory
_KIND = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device", 6: "Managed"}
_Columns = dict[str, Any]
_VERSION = re.compile(r"_v\d{3,}\Z")
_OPERATOR = re.compile(r"(?P<name>[\w:.<>~ ]{1,400}?), (?:seq = \d+|op_id = \d+)")
_SIZES = re.compile(r"sizes = (\[.{0,8000}?\])(?:, input_op_ids|\s*\Z)")


@dataclass(slots=True)
class _Words:
    """Names, numbered as they come: texts, and ids of strings whose texts are looked up at the end."""

    numbers: dict[str | int, int] = field(default_factory=dict[str | int, int])

    def number(self, name: str | int) -> int:
        """The number of a text or of a string's id."""
        if name not in self.numbers and len(self.numbers) >= _MOST_NAMES:
            name = "(one of too many names)"
        return self.numbers.setdefault(name if isinstance(name, int) else name[:_LONGEST_NAME], len(self.numbers))

    def of(self, ids: Ints) -> Ints:
        """The numbers of an array of ids."""
        import numpy as np

        distinct, inverse = np.unique(ids, return_inverse=True)
        return np.array([*map(self.number, distinct.tolist()), 0], np.int32)[inverse.reshape(-1)]

    def texts(self, there: Tables) -> tuple[str, ...]:
        """Every name by its number; a call of the runtime is without the version that its name ends with."""
        wanted = {each for each in self.numbers if isinstance(each, int)}
        strings = _strings(there, wanted)
        return tuple(
            each if isinstance(each, str) else _VERSION.sub("", strings.get(each, "(name not in the file)"))
            for each in self.numbers
        )


class _Store:
    """Columns that grow by chunks, each in the smallest type that holds it."""

    def __init__(self, *names: str) -> None:
        self.parts: dict[str, list[Any]] = {name: [] for name in names}

    def add(self, **columns: Any) -> None:
        """Add a chunk to every column."""
        for name, values in columns.items():
            self.parts[name].append(values if name in _WIDE else _small(values))

    def columns(self, longest_first: bool = False) -> _Columns:
        """The columns in order of their start; of ranges that start together the longest first."""
        import numpy as np

        found: _Columns = {}
        for name in list(self.parts):
            parts = self.parts.pop(name)
            found[name] = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        start = found["start"]
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable").astype(np.int32)
            for name in found:
                found[name] = found[name][order]
        return _longest_first(found) if longest_first else found


_WIDE = ("start",)


def _longest_first(columns: _Columns) -> _Columns:
    """Columns in order of their start, with the longest first of those that start together."""
    import numpy as np

    start, duration = columns["start"], columns["duration"]
    wrong = (start[1:] == start[:-1]) & (duration[1:] > duration[:-1])
    if wrong.any():
        tied = np.flatnonzero(np.isin(start, start[:-1][wrong]))
        order = tied[np.lexsort((-duration[tied].astype(np.int64), start[tied]))]
        for values in columns.values():
            values[tied] = values[order]
    return columns


def _small(values: Any) -> Any:
    """Whole numbers in 16 or 32 bits where all of them fit."""
    import numpy as np

    if len(values):
        least, most = int(values.min()), int(values.max())
        for kind in (np.int16, np.int32):
            if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
                return values.astype(kind)
    return values


@dataclass(slots=True)
class _Reading:
    """What is put together while a file is read."""

    tables: Tables
    words: _Words = field(default_factory=_Words)
    processes: dict[int, int] = field(default_factory=dict[int, int])
    threads: dict[int, int] = field(default_factory=dict[int, int])
    warnings: list[str] = field(default_factory=list[str])
    left_out: dict[str, int] = field(default_factory=dict[str, int])
    read: int = 0

    def drop(self, count: int, why: str) -> None:
        """Count what is left out."""
        if count:
            self.left_out[why] = self.left_out.get(why, 0) + count

    def chunks(self, table: str, *names: str) -> Iterator[list[Ints]]:
        """Start, end and other columns of a table, a chunk at a time, without rows that cannot have been."""
        if self.tables.has(table, "start", "end"):
            for columns in self.tables.numbers(table, ("start", "end", *names)):
                yield self.sound(columns)

    def sound(self, columns: list[Ints]) -> list[Ints]:
        """Columns, of which the first are start and end, without rows that cannot have been."""
        start, end = columns[:2]
        good = (start >= 0) & (end >= start) & (end < _LAST)
        self.read += len(start)
        count = int(good.sum())
        self.drop(len(start) - count, "events that end before they start or have no time")
        return columns if count == len(start) else [each[good] for each in columns]

    def key(self, globals_: Ints, correlations: Ints) -> Ints:
        """Correlation ids that are unique over processes, in which they repeat; NONE stays."""
        import numpy as np

        good = (correlations >= 0) & (correlations < 1 << 31)
        return np.where(
            good, (_numbered(self.processes, globals_ & _PID) << 31) + np.where(good, correlations, 0), NONE
        )

    def thread(self, globals_: Ints) -> Ints:
        """The place of each thread among all."""
        return _numbered(self.threads, globals_)


def _numbered(known: dict[int, int], values: Ints) -> Ints:
    """Values by the order in which they first came."""
    import numpy as np

    distinct, inverse = np.unique(values, return_inverse=True)
    numbers = [known.setdefault(each, len(known)) for each in distinct.tolist()]
    return np.array([*numbers, 0], np.int64)[inverse.reshape(-1)]


def read(path: Path, name: str, size: int, executor: Executor | None = None) -> Trace:
    """The trace in an export; raises TraceError for a file that is damaged or holds none of its tables.

    `executor` reads the ranges of a large file in another process meanwhile.
    """
    with tables(path, name) as found:
        if not is_export(found):
            raise TraceError(
                f"{name} is an SQLite file, but no export of Nsight Systems: it has none of its tables. "
                "Export one: nsys export --type sqlite REPORT.nsys-rep"
            )
        apart = executor.submit(read_ranges, path, name) if executor is not None and found.has(_NVTX) else None
        return _read(_Reading(found), name, size, apart)


def read_ranges(path: Path, name: str) -> _Marks:
    """The NVTX ranges of an export alone."""
    with tables(path, name) as found:
        return _marks(_Reading(found))


@dataclass(slots=True)
class _Marks:
    """Operators and marks as columns, with names and threads of their own numbering."""

    ops: _Columns
    marks: _Columns
    names: tuple[str, ...]
    details: tuple[bytes, ...]
    threads: tuple[int, ...]
    read: int
    left_out: dict[str, int]

    def joined(self, reading: _Reading) -> None:
        """Number names and threads as `reading` does, and count what was read there."""
        import numpy as np

        names = np.array([*map(reading.words.number, self.names), 0], np.int32)
        threads = np.array([*(reading.threads.setdefault(each, len(reading.threads)) for each in self.threads), 0])
        for columns in (self.ops, self.marks):
            columns["name"] = _small(names[columns["name"]])
            columns["thread"] = _small(threads[columns["thread"]])
        reading.read += self.read
        for why, count in self.left_out.items():
            reading.drop(count, why)


def _marks(reading: _Reading) -> _Marks:
    ranges = _Nvtx(reading)
    ranges.take()
    ops, marks = ranges.ops.columns(longest_first=True), ranges.marks.columns(longest_first=True)
    names, threads = reading.words.texts(reading.tables), tuple(reading.threads)
    return _Marks(ops, marks, names, tuple(ranges.details), threads, reading.read, reading.left_out)


def _read(reading: _Reading, name: str, size: int, apart: Future[_Marks] | None) -> Trace:
    import numpy as np

    there = reading.tables
    gpu = _activities(reading)
    calls = _calls(reading)
    ranges = _marks(_Reading(there)) if apart is None else apart.result()
    ranges.joined(reading)
    ops, marks = ranges.ops, ranges.marks
    none = np.broadcast_to(np.int16(NONE), len(gpu["start"]))
    _remarks(reading, len(none))
    used = {
        "kernel": int((gpu["kind"] == KERNEL).sum()),
        "copy": int((gpu["kind"] == COPY).sum()),
        "set": int((gpu["kind"] == SET).sum()),
        "call": len(calls["start"]),
        "op": len(ops["start"]),
        "mark": len(marks["start"]),
    }
    return Trace(
        source=name,
        format=_format(there),
        gpu=Activities(external=none, detail=none, **gpu),
        ops=_ranges(ops),
        calls=_ranges(calls),
        marks=_ranges(marks),
        gpu_marks=_ranges({key: value[:0] for key, value in marks.items()}),
        names=reading.words.texts(there),
        details=ranges.details,
        threads=tuple(((each >> 24) & 0xFFFFFF, each & 0xFFFFFF) for each in reading.threads),
        cards=_cards(there),
        rank=Rank(),
        counts=Counts(reading.read, used, reading.left_out),
        bytes=size,
        warnings=tuple(reading.warnings),
    )


def _ranges(columns: _Columns) -> Ranges:
    import numpy as np

    none = np.broadcast_to(np.int16(NONE), len(columns["start"]))
    return Ranges(**{"number": none, "detail": none, **columns})


_ACTIVITY = ("start", "duration", "name", "kind", "device", "stream", "correlation", "moved")


def _activities(reading: _Reading) -> _Columns:
    """Kernels, copies, memsets and whole graphs, in order of their start."""
    import numpy as np

    there, words, store = reading.tables, reading.words, _Store(*_ACTIVITY)
    cards = _card_numbers(there)
    common = ("deviceId", "streamId", "correlationId", "globalPid")

    def add(kind: int, columns: list[Ints], names: Ints, moved: Ints) -> None:
        start, end, device, stream, correlation, process = columns[:6]
        store.add(
            start=start,
            duration=end - start,
            name=names,
            kind=np.full(len(start), kind, np.int8),
            device=_devices(cards, device, process),
            stream=np.clip(stream, NONE, _LARGEST),
            correlation=reading.key(process, correlation),
            moved=np.maximum(moved, NONE),
        )

    name = "demangledName" if there.has(_KERNELS, "demangledName") else "shortName"
    for chunk in reading.chunks(_KERNELS, *common, name):
        add(KERNEL, chunk, words.of(chunk[6]), np.full(len(chunk[0]), NONE, np.int64))
    for chunk in reading.chunks(_COPIES, *common, "bytes", "copyKind", "srcKind", "dstKind"):
        add(COPY, chunk, _coded(chunk[7:10], lambda row: _copy_name(*row), words), chunk[6])
    for chunk in reading.chunks(_SETS, *common, "bytes"):
        add(SET, chunk, np.full(len(chunk[0]), words.number("Memset (Device)")), chunk[6])
    graphs = 0
    for chunk in reading.chunks(_GRAPHS, *common, "graphId"):
        graphs += len(chunk[0])
        add(
            KERNEL,
            chunk,
            _coded(chunk[6:7], lambda row: _graph_name(*row), words),
            np.full(len(chunk[0]), NONE, np.int64),
        )
    if graphs:
        reading.warnings.append(
            f"{graphs:,} graph launches were recorded as one block each: the kernels in them are not in the file "
            "(record with --cuda-graph-trace=node)"
        )
    return store.columns()


_LARGEST = (1 << 31) - 1


def _graph_name(graph: int) -> str:
    return f"CUDA graph {graph} as one block" if graph >= 0 else "CUDA graph as one block"


def _coded(columns: list[Ints], name: Callable[[list[int]], str], words: _Words) -> Ints:
    """A word for each row of columns, made once for each distinct row."""
    import numpy as np

    if not len(columns[0]):
        return columns[0]
    distinct, inverse = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return np.array([words.number(name(row)) for row in distinct.T.tolist()], np.int64)[inverse.reshape(-1)]


def _copy_name(oper: int, source: int, target: int) -> str:
    """A copy as PyTorch's profiler calls it: "Memcpy HtoD (Pageable -> Device)"."""
    ways = f" ({_KIND[source]} -> {_KIND[target]})" if source in _KIND and target in _KIND else ""
    return f"Memcpy {_OPER.get(oper, 'copy')}{ways}"


_MOST_DEVICES = 1 << 10


def _card_numbers(there: Tables) -> list[tuple[int, int, int]]:
    """Which card a process's number of a device is: (card, number, process id)."""
    found: list[tuple[int, int, int]] = []
    if there.has(_DEVICES, "gpuId", "cudaId", "pid"):
        for columns in there.numbers(_DEVICES, ("gpuId", "cudaId", "pid")):
            found += [(gpu, cuda, pid) for gpu, cuda, pid in zip(*(each.tolist() for each in columns), strict=True)]
    return [each for each in found[:_MOST_DEVICES] if 0 <= each[0] <= _LARGEST]


def _devices(cards: list[tuple[int, int, int]], devices: Ints, processes: Ints) -> Ints:
    """The card of each activity."""
    import numpy as np

    found = np.clip(devices, NONE, _LARGEST)
    pids = (processes >> 24) & 0xFFFFFF
    for gpu, cuda, pid in cards:
        if gpu != cuda:
            found[(devices == cuda) & (pids == pid)] = gpu
    return found


def _calls(reading: _Reading) -> _Columns:
    """Calls of the runtime, in order of their start."""
    store = _Store("start", "duration", "name", "thread", "number")
    for start, end, thread, correlation, name in reading.chunks(_CALLS, "globalTid", "correlationId", "nameId"):
        store.add(
            start=start,
            duration=end - start,
            name=reading.words.of(name),
            thread=reading.thread(thread),
            number=reading.key(thread, correlation),
        )
    return store.columns()


def _strings(there: Tables, wanted: set[int]) -> dict[int, str]:
    """The texts of these ids."""
    found: dict[int, str] = {}
    if wanted and there.has(_STRINGS, "id", "value"):
        for chunk in there.rows(_STRINGS, ("id", "value")):
            found.update((ident, text_of(value)[:_LONGEST_NAME]) for ident, value in chunk if ident in wanted)
    return found


class _Nvtx:
    """NVTX ranges as they are read: operators of PyTorch, and marks; their names and shapes once each."""

    def __init__(self, reading: _Reading) -> None:
        self.reading = reading
        self.ops = _Store("start", "duration", "name", "thread", "detail")
        self.marks = _Store("start", "duration", "name", "thread")
        self.details: dict[bytes, int] = {}
        self.known: dict[object, int] = {}  # the place of a text, or of an id of one, in `kinds`
        self.kinds: list[tuple[bool, int, int]] = []  # whether an operator, numbers of its name and shapes
        self.strings: dict[int, str] = {}

    def take(self) -> None:
        """Read all ranges; other events of NVTX are counted."""
        reading, there = self.reading, self.reading.tables
        if not there.has(_NVTX, "start", "end", "eventType", "globalTid"):
            return
        text = '"text"' if there.has(_NVTX, "text") else "NULL"
        if there.has(_NVTX, "textId"):
            self.strings = _strings(there, _ids(there))
            text = f'CASE WHEN {text} IS NULL THEN "textId" ELSE {text} END'
        ranges = f'"eventType" IN {_RANGES}'
        others = sum(len(chunk) for chunk in there.rows(_NVTX, ("eventType",), f"NOT ({ranges})"))
        reading.read += others
        reading.drop(others, "NVTX events that are no ranges")
        numbers = [there.or_absent(_NVTX, each) for each in ("start", "end", "globalTid")]
        for chunk in there.rows(_NVTX, (*numbers, f"{text} AS name"), ranges):
            start, end, thread, names = zip(*chunk, strict=True)
            self._add([whole(start), whole(end), whole(thread), self._codes(names)])

    def _add(self, columns: list[Ints]) -> None:
        import numpy as np

        start, end, thread, code = self.reading.sound(columns)
        operator, name, detail = np.array([*self.kinds, (False, 0, NONE)], np.int32).T[:, code]
        threads = self.reading.thread(thread)
        is_op = operator.astype(bool)
        for store, mine in ((self.ops, is_op), (self.marks, ~is_op)):
            more = {"detail": detail[mine]} if store is self.ops else {}
            store.add(start=start[mine], duration=(end - start)[mine], name=name[mine], thread=threads[mine], **more)

    def _codes(self, names: tuple[object, ...]) -> Ints:
        """The place in `kinds` of each text."""
        import numpy as np

        known = self.known
        for each in set(names) - known.keys():
            kind = self._kind(each)
            if len(self.kinds) >= _MOST_NAMES:
                kind = (False, self.reading.words.number("(one of too many names)"), NONE)
                known[each] = self.kinds.index(kind) if kind in self.kinds[-2:] else len(self.kinds)
            else:
                known[each] = len(self.kinds)
            if known[each] == len(self.kinds):
                self.kinds.append(kind)
        codes = np.fromiter(map(known.__getitem__, names), np.int64, len(names))
        if len(known) > _MOST_NAMES:
            known.clear()  # a file with another text in every range: each is looked at again
        return codes

    def _kind(self, name: object) -> tuple[bool, int, int]:
        """Whether a text is an operator's, the number of its name, and of its shapes."""
        text = text_of(name) if isinstance(name, bytes) else self.strings.get(name, "") if isinstance(name, int) else ""
        match = _OPERATOR.match(text)
        if match is None:
            return False, self.reading.words.number(text or "(no text)"), NONE
        return True, self.reading.words.number(match["name"]), self._detail(text)

    def _detail(self, text: str) -> int:
        sizes = _SIZES.search(text)
        if sizes is None or len(self.details) >= _MOST_NAMES:
            return NONE
        try:
            shapes = json.loads(sizes[1])
        except (ValueError, RecursionError):
            return NONE
        return self.details.setdefault(json.dumps({"Input Dims": shapes}).encode(), len(self.details))


def _ids(there: Tables) -> set[int]:
    """Ids of strings that NVTX events name."""
    import numpy as np

    found: set[int] = set()
    for (ids,) in there.numbers(_NVTX, ("textId",)):
        found.update(each for each in np.unique(ids).tolist() if each >= 0)
    return found


def _cards(there: Tables) -> tuple[Card, ...]:
    """What the file says of its cards: also their clock and bandwidth."""
    wanted = ("id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor", "memoryBandwidth", "clockRate")
    if not there.has(_GPUS, "name"):
        return ()
    found: list[Card] = []
    for chunk in there.rows(_GPUS, wanted):
        for number, name, memory, count, major, minor, bandwidth, clock in chunk[:_MOST_DEVICES]:
            found.append(
                Card(
                    number if isinstance(number, int) else len(found),
                    text_of(name)[:200],
                    _positive(memory),
                    _positive(count),
                    f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) else "",
                    _positive(bandwidth),
                    _positive(clock),
                )
            )
        break
    return tuple(found)


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and 0 < value < _LAST else None


def _format(there: Tables) -> str:
    """The tool and the version of the schema, where the file says it."""
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if there.has(table, "name", "value"):
            for chunk in there.rows(table, ("name", "value")):
                for name, value in chunk:
                    if name == b"EXPORT_SCHEMA_VERSION":
                        return f"Nsight Systems, schema {text_of(value)[:20] or value}"
    return "Nsight Systems"


def _remarks(reading: _Reading, activities: int) -> None:
    """What the answer lacks because the file does."""
    there = reading.tables
    if not activities:
        reading.warnings.append(
            "no kernel was recorded: nothing is said of how a GPU was used (record with --trace=cuda,nvtx)"
        )
    elif not there.has(_CALLS):
        reading.warnings.append("no call of the runtime was recorded: the cause of idle times is not in the file")


def is_export(there: Tables) -> bool:
    """Whether a file has any table of an export."""
    names = ("META_DATA_EXPORT", "EXPORT_META_DATA", "ANALYSIS_FILE", _KERNELS, _CALLS, _NVTX, _STRINGS, _GPUS)
    return any(each in there.columns for each in names)
