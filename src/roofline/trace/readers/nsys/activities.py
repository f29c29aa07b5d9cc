"""What ran on the cards, and the calls of the runtime that launched it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from roofline.trace.coding import tally
from roofline.trace.events import COPY, KERNEL, NONE, SET, listed
from roofline.trace.readers.nsys.reading import BITS as _BITS
from roofline.trace.readers.nsys.reading import CALLS, KERNELS, Columns, Reading, Store
from roofline.trace.readers.nsys.target import LARGEST, card_numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_COPIES, _SETS = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"
_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_COMMON = ("deviceId", "streamId", "correlationId", "globalPid")

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


class _Activities:
    """Columns of activities as they are read."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.cards = card_numbers(reading.tables)
        self.store = Store("start", "duration", "name", "kind", "device", "stream", "correlation", "moved")
        self.users: dict[int, set[int]] = {}  # processes that ran kernels on a device

    def add(self, kind: int, columns: list[Ints], names: Ints, moved: Ints | None = None) -> None:
        """Add a chunk: start, end, device, stream, correlation and process, of whatever kind."""
        import numpy as np

        start, end, device, stream, correlation, process = columns[:6]
        if kind == KERNEL and not self.cards:
            for each in tally(device):
                self.users.setdefault(each, set()).update(tally(self.reading.users.of(process[device == each])))
        self.store.add(
            start=start,
            duration=end - start,
            name=names,
            kind=np.full(len(start), kind, np.int8),
            device=_devices(self.cards, device, process),
            stream=np.clip(stream, NONE, LARGEST),
            correlation=self.reading.key(process, correlation),
            moved=np.full(len(start), NONE, np.int8) if moved is None else np.maximum(moved, NONE),
        )

    def named(self, columns: list[Ints], name: Callable[[tuple[int, ...]], str]) -> Ints:
        """A word for each row of columns, made once for each distinct row."""
        import numpy as np

        if not len(columns[0]):
            return np.zeros(0, np.int32)
        rows, which = np.unique(np.stack(columns), axis=1, return_inverse=True)  # any numbers, as the file has them
        words = [self.reading.words.number(name(tuple(listed(row)))) for row in rows.T]
        return np.array(words, np.int32)[which.reshape(-1)]


def activities(reading: Reading) -> Columns:
    """Kernels, copies, memsets and whole graphs, in order of their start."""
    import numpy as np

    there, words, found = reading.tables, reading.words, _Activities(reading)
    name = next((each for each in ("demangledName", "shortName") if there.has(KERNELS, each)), "mangledName")
    for chunk in reading.chunks(KERNELS, *_COMMON, name):
        found.add(KERNEL, chunk, words.of(chunk[6]))
    for chunk in reading.chunks(_COPIES, *_COMMON, "bytes", "copyKind", "srcKind", "dstKind"):
        found.add(COPY, chunk, found.named(chunk[7:10], _copy_name), chunk[6])
    for chunk in reading.chunks(_SETS, *_COMMON, "bytes"):
        found.add(SET, chunk, np.full(len(chunk[0]), words.number("Memset (Device)")), chunk[6])
    graphs = 0
    for chunk in reading.chunks(_GRAPHS, *_COMMON, "graphId"):
        graphs += len(chunk[0])
        found.add(KERNEL, chunk, found.named(chunk[6:7], _graph_name))
    if graphs:
        reading.warnings.append(
            f"{graphs:,} graph launches were recorded as one block each: the kernels in them are not in the file "
            "(record with --cuda-graph-trace=node)"
        )
    for device, users in found.users.items():
        if len(users) > 1:
            reading.warnings.append(
                f"{len(users)} processes ran kernels on device {device}, and the file does not say whether that is one "
                "card: where each saw a card of its own by this number (CUDA_VISIBLE_DEVICES), they are together here"
            )
    return found.store.columns()


def _graph_name(row: tuple[int, ...]) -> str:
    return f"CUDA graph {row[0]} as one block" if row[0] >= 0 else "CUDA graph as one block"


def _copy_name(row: tuple[int, ...]) -> str:
    """A copy as PyTorch's profiler calls it: "Memcpy HtoD (Pageable -> Device)"."""
    oper, source, target = row
    ways = f" ({_KIND[source]} -> {_KIND[target]})" if source in _KIND and target in _KIND else ""
    return f"Memcpy {_OPER.get(oper, 'copy')}{ways}"


def _devices(cards: list[tuple[int, int, int]], devices: Ints, processes: Ints) -> Ints:
    """The card of each activity."""
    import numpy as np

    found = np.clip(devices, NONE, LARGEST)
    pids = (processes >> 24) & 0xFFFFFF
    for gpu, cuda, pid in cards:
        if gpu != cuda:
            found[(devices == cuda) & (pids == pid)] = gpu
    return found


def calls(reading: Reading) -> Columns:
    """Calls of the runtime, in order of their start."""
    store = Store("start", "duration", "name", "thread", "number")
    for start, end, thread, correlation, name in reading.chunks(CALLS, "globalTid", "correlationId", "nameId"):
        store.add(
            start=start,
            duration=end - start,
            name=reading.words.of(name),
            thread=reading.threads.of(thread),
            number=reading.key(thread, correlation),
        )
    return store.columns()


def renumber(gpu: Columns, called: Columns) -> None:
    """Write the numbers that join activities to calls in half the room, where they fit."""
    import numpy as np

    columns = [(each, name) for each, name in ((gpu, "correlation"), (called, "number")) if len(each[name])]
    if not any(each[name].dtype == np.int64 for each, name in columns):
        return
    most = processes = 1
    for each, name in columns:
        values = each[name].astype(np.int64)
        most = max(most, 1 + int((values & _LOW)[values != NONE].max(initial=0)))
        processes = max(processes, 1 + (int(values.max()) >> _BITS))
    if processes * most > LARGEST:
        return
    for each, name in columns:
        values = each.pop(name).astype(np.int64)
        each[name] = np.where(values == NONE, NONE, (values >> _BITS) * most + (values & _LOW)).astype(np.int32)


_LOW = (1 << _BITS) - 1
