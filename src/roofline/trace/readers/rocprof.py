"""rocprofv3's JSON: dispatches of kernels, copies, and the calls of the HIP runtime, where it recorded them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from roofline.errors import BadValue, TraceError
from roofline.trace.events import COPY, KERNEL, NONE, Activities, Card, Counts, Ranges, Rank, Trace
from roofline.trace.readers.source import Source
from roofline.units import GIB

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_BEGIN = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"')
_MOST = 2 * GIB  # [byte] of JSON that is held at once
_LATEST = 1 << 62
_CPU, _GPU = 1, 2  # types of agents


class _Handle(msgspec.Struct):
    handle: int = NONE


class _Correlation(msgspec.Struct):
    internal: int = NONE


class _Dispatch(msgspec.Struct):
    agent_id: _Handle = msgspec.field(default_factory=_Handle)
    queue_id: _Handle = msgspec.field(default_factory=_Handle)
    kernel_id: int = NONE


class _Record(msgspec.Struct):
    """A record of any of the buffers that are read."""

    start_timestamp: int = NONE
    end_timestamp: int = NONE
    kind: int = NONE
    operation: int = NONE
    thread_id: int = 0
    correlation_id: _Correlation = msgspec.field(default_factory=_Correlation)
    dispatch_info: _Dispatch = msgspec.field(default_factory=_Dispatch)
    stream_id: _Handle = msgspec.field(default_factory=_Handle)
    src_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    dst_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    bytes: int = NONE


class _Buffers(msgspec.Struct):
    kernel_dispatch: list[_Record] = msgspec.field(default_factory=list[_Record])
    memory_copy: list[_Record] = msgspec.field(default_factory=list[_Record])
    hip_api: list[_Record] = msgspec.field(default_factory=list[_Record])


class _Symbol(msgspec.Struct):
    kernel_id: int = NONE
    formatted_kernel_name: str = ""
    demangled_kernel_name: str = ""
    kernel_name: str = ""


class _Agent(msgspec.Struct):
    id: _Handle = msgspec.field(default_factory=_Handle)
    type: int = 0
    name: str = ""
    product_name: str = ""
    cu_count: int = 0


class _Kind(msgspec.Struct):
    kind: str = ""
    operations: list[str] = msgspec.field(default_factory=list[str])


class _Strings(msgspec.Struct):
    buffer_records: list[_Kind] = msgspec.field(default_factory=list[_Kind])


class _Metadata(msgspec.Struct):
    pid: int = 0


class _Process(msgspec.Struct):
    """One process of the file."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    agents: list[_Agent] = msgspec.field(default_factory=list[_Agent])
    strings: _Strings = msgspec.field(default_factory=_Strings)
    kernel_symbols: list[_Symbol] = msgspec.field(default_factory=list[_Symbol])
    buffer_records: _Buffers = msgspec.field(default_factory=_Buffers)


class _File(msgspec.Struct):
    processes: list[_Process] = msgspec.field(name="rocprofiler-sdk-tool", default_factory=list[_Process])


def sniff(head: bytes) -> bool:
    """Whether a file begins as rocprofv3's JSON does."""
    return bool(_BEGIN.match(head))


def read(source: Source) -> Trace:
    """The activities of the process with the most of them; raises TraceError where there is none."""
    data = bytearray()
    for block in source.blocks:
        data += block
        if len(data) > _MOST:
            raise BadValue(f"{source.name} has more than {_MOST // GIB} GiB of JSON. Record a shorter time, or CSV.")
    try:
        found = msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, RecursionError):
        raise TraceError(
            f"{source.name} begins as rocprofv3's JSON and is no sound one: it was cut, or edited."
        ) from None
    del data
    process = max(found.processes, key=lambda each: len(each.buffer_records.kernel_dispatch), default=None)
    if process is None or not (process.buffer_records.kernel_dispatch or process.buffer_records.memory_copy):
        raise TraceError(f"{source.name} holds no dispatch of a kernel. Record with rocprofv3 --kernel-trace.")
    return _trace(source, process, len(found.processes) - 1)


def _trace(source: Source, process: _Process, others: int) -> Trace:
    import numpy as np

    names: dict[str, int] = {}
    gpu = [each for each in process.agents if each.type == _GPU]
    number = {each.id.handle: at for at, each in enumerate(gpu)}
    kernels, copies = process.buffer_records.kernel_dispatch, process.buffer_records.memory_copy
    activities = [*kernels, *copies]
    symbols = {each.kernel_id: _name(each) for each in process.kernel_symbols}
    called = [symbols.get(each.dispatch_info.kernel_id, "(kernel not in the file)") for each in kernels]
    called += [_copy_name(each, number) for each in copies]
    devices = [number.get(each.dispatch_info.agent_id.handle, NONE) for each in kernels]
    devices += [
        max(number.get(each.dst_agent_id.handle, NONE), number.get(each.src_agent_id.handle, NONE)) for each in copies
    ]
    left_out: dict[str, int] = {}
    good, start, duration = _times(activities, left_out)
    columns = {
        "name": [names.setdefault(each, len(names)) for each in called],
        "kind": [KERNEL] * len(kernels) + [COPY] * len(copies),
        "device": devices,
        "stream": _numbered([each.dispatch_info.queue_id for each in kernels] + [each.stream_id for each in copies]),
        "correlation": [_held(each.correlation_id.internal) for each in activities],
        "moved": [NONE] * len(kernels) + [_held(each.bytes) for each in copies],
    }
    order = np.argsort(start, kind="stable")
    arrays = {key: np.array(value, np.int64)[good][order] for key, value in columns.items()}
    calls = _calls(process, names, left_out)
    none = np.full(len(order), NONE, np.int8)
    empty = np.zeros(0, np.int64)
    nothing = Ranges(empty, empty, empty, empty, empty, empty)
    used = {
        "kernel": int((arrays["kind"] == KERNEL).sum()),
        "copy": int((arrays["kind"] == COPY).sum()),
        "call": len(calls),
    }
    warnings = list(source.warnings)
    if not len(calls):
        warnings.append(
            "no call of the runtime was recorded (--hip-runtime-trace): the cause of idle times is not in it"
        )
    if others:
        warnings.append(f"{others} more processes are in the file: this is the one with the most kernels")
    return Trace(
        source=source.name,
        format="rocprofv3",
        gpu=Activities(start=start[order], duration=duration[order], external=none, detail=none, **arrays),
        ops=nothing,
        calls=calls,
        marks=nothing,
        gpu_marks=nothing,
        names=tuple(names),
        details=(),
        threads=tuple((process.metadata.pid, each) for each in _threads(process)),
        cards=tuple(
            Card(at, each.product_name or each.name, None, each.cu_count or None, "") for at, each in enumerate(gpu)
        ),
        rank=Rank(),
        counts=Counts(len(activities) + len(process.buffer_records.hip_api), used, left_out),
        bytes=source.read,
        warnings=tuple(warnings),
    )


def _numbered(handles: Sequence[_Handle]) -> list[int]:
    """Numbers of handles, which may be of any 64 bits, in the order of their appearance; NONE where there is none."""
    known = {NONE: NONE}
    return [known.setdefault(each.handle, len(known) - 1) for each in handles]


def _held(number: int) -> int:
    """A number, or NONE where it is none that a signed one of 64 bits holds."""
    return number if 0 <= number < _LATEST else NONE


def _name(symbol: _Symbol) -> str:
    return (symbol.formatted_kernel_name or symbol.demangled_kernel_name or symbol.kernel_name)[:8192]


def _copy_name(each: _Record, gpus: dict[int, int]) -> str:
    ways = "".join("D" if agent.handle in gpus else "H" for agent in (each.src_agent_id, each.dst_agent_id))
    return f"Memcpy {ways[0]}to{ways[1]}"


def _times(records: Sequence[_Record], left_out: dict[str, int]) -> tuple[NDArray[np.bool_], Ints, Ints]:
    """Which records can have been, and the starts and durations of those [ns]."""
    import numpy as np

    sane = [(each.start_timestamp, each.end_timestamp) for each in records]
    good = np.array([0 <= start <= end < _LATEST for start, end in sane], bool)
    kept = np.array([each for each, fine in zip(sane, good.tolist(), strict=True) if fine], np.int64).reshape(-1, 2)
    if len(records) > len(kept):
        why = "events that end before they start or have no time"
        left_out[why] = left_out.get(why, 0) + len(records) - len(kept)
    return good, kept[:, 0], kept[:, 1] - kept[:, 0]


def _threads(process: _Process) -> list[int]:
    return sorted({each.thread_id for each in process.buffer_records.hip_api})


def _calls(process: _Process, names: dict[str, int], left_out: dict[str, int]) -> Ranges:
    """Calls of the HIP runtime, in order of their start."""
    import numpy as np

    records = process.buffer_records.hip_api
    good, start, duration = _times(records, left_out)
    kinds = process.strings.buffer_records
    place = {each: at for at, each in enumerate(_threads(process))}

    def name(each: _Record) -> str:
        operations = kinds[each.kind].operations if 0 <= each.kind < len(kinds) else []
        return operations[each.operation] if 0 <= each.operation < len(operations) else "HIP call"

    columns = [
        [names.setdefault(name(each), len(names)) for each in records],
        [place[each.thread_id] for each in records],
        [_held(each.correlation_id.internal) for each in records],
    ]
    order = np.argsort(start, kind="stable")
    called, thread, number = (np.array(each, np.int64)[good][order] for each in columns)
    return Ranges(start[order], duration[order], called, thread, number, np.full(len(order), NONE, np.int8))
