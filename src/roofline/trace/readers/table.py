"""Timelines as tables: CSV of nsys stats (cuda_gpu_trace), nvprof --print-gpu-trace, and of rocprofv3 and rocprof.

They hold what ran on devices, not what the host did. Columns are known by name: their order, what stands before the
head, and further columns do not matter.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from roofline.errors import TraceError
from roofline.trace.events import COPY, KERNEL, NONE, SET, Activities, Card, Counts, Ranges, Rank, Trace
from roofline.trace.readers.source import Source
from roofline.units import MIB, tool_unit

_LONGEST = MIB  # [byte] of a line
_LATEST = 1 << 62
_MOST_NAMES, _MOST_CARDS = 1 << 18, 1 << 10
_COUNTED = "Dispatch_ID"  # of rocprof-compute, whose passes over counters are no timeline
_HEAD_BYTES = 1 << 20  # in which a table must begin
_NUMBER = re.compile(r"-?\d{1,19}(?:\.\d+)?(?:[eE][+-]?\d{1,3})?\Z")
_LAST_NUMBER = re.compile(r"(\d{1,9})\)?\s*\Z")
_COPY = re.compile(r"\[?CUDA memcpy ([\w-]+)|MEMORY_COPY_?(\w+)|^((?:HOST|DEVICE)_TO_\w+)", re.IGNORECASE)
_SET = re.compile(r"\[?CUDA memset|\bmemset\b|^__amd_rocclr_fillBuffer", re.IGNORECASE)
_WAYS = {"HOST": "H", "DEVICE": "D", "PEER": "P"}

# Our names of columns, and those of the tools; a tool is known by the columns that it needs.
_NAMES = {
    "name": ("Name", "Kernel_Name", "KernelName", "Direction"),
    "start": ("Start", "Start_Timestamp", "BeginNs"),
    "end": ("End_Timestamp", "EndNs"),
    "duration": ("Duration",),
    "device": ("Device", "Agent_Id", "gpu-id", "Destination_Agent_Id"),
    "stream": ("Strm", "Stream", "Stream_Id", "Queue_Id", "queue-id"),
    "correlation": ("CorrId", "Correlation_Id", "Correlation_ID"),
    "moved": ("Bytes", "Size"),
    "source": ("SrcMemKd", "SrcMemType"),
    "target": ("DstMemKd", "DstMemType"),
}
_TOOLS = (
    ("rocprofv3", {"Start_Timestamp", "End_Timestamp", "Kernel_Name"}),
    ("rocprofv3", {"Start_Timestamp", "End_Timestamp", "Direction"}),
    ("rocprof", {"KernelName", "BeginNs", "EndNs"}),
    ("nsys stats", {"Start", "Duration", "Name", "Strm"}),
    ("nsys stats", {"Start", "Duration", "Name", "GrdX"}),
    ("nvprof", {"Start", "Duration", "Name", "Stream"}),
)


@dataclass(frozen=True, slots=True)
class _Head:
    """The columns of a table: where they stand and what their numbers are in [s] or [byte]."""

    tool: str
    at: Mapping[str, int]
    units: dict[str, str]
    delimiter: str
    cells: tuple[str, ...]


def sniff(head: bytes) -> bool:
    """Whether a file that begins like this is text that holds the head of such a table."""
    if b"\0" in head[:4096] or head.lstrip()[:1] in (b"{", b"["):
        return False
    return any(_head(line) is not None for line in head[:_HEAD_BYTES].decode("utf-8", "replace").splitlines())


def _head(line: str) -> _Head | None:
    if len(line) > _LONGEST or not ("Start" in line or "BeginNs" in line):
        return None
    if _COUNTED in line:
        return None
    for delimiter in (",", "\t", ";", "|"):
        cells = _cells(line.removeprefix("\ufeff"), delimiter)
        parted = [_parted(each) for each in cells]
        plain = [name for name, _ in parted]
        there = set(plain)
        for tool, wanted in _TOOLS:
            if wanted <= there:
                at = {
                    ours: plain.index(theirs)
                    for ours, names in _NAMES.items()
                    for theirs in reversed(names)
                    if theirs in plain
                }
                units = {each: unit for each in at if (unit := parted[at[each]][1]) is not None}
                return _Head(tool, at, units, delimiter, tuple(cells))
    return None


def _parted(column: str) -> tuple[str, str | None]:
    """The name and the unit of a column: `Start (ns)`; None where it has no unit."""
    at = column.rfind("(")
    if at < 0 or not column.endswith(")") or column.find(")", at) < len(column) - 1:
        return column, None
    return column[:at].rstrip(), column[at + 1 : -1]


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return [each.strip() for each in next(csv.reader([line], delimiter=delimiter), list[str]())]
    except csv.Error:
        return []


@dataclass(slots=True)
class _Rows:
    """Activities as they are read."""

    columns: dict[str, array[int]] = field(
        default_factory=lambda: {
            name: array("q")
            for name in ("start", "duration", "name", "kind", "device", "stream", "correlation", "moved")
        }
    )
    names: dict[str, int] = field(default_factory=dict[str, int])
    cards: dict[int, str] = field(default_factory=dict[int, str])
    left_out: dict[str, int] = field(default_factory=dict[str, int])
    read: int = 0

    def drop(self, why: str) -> None:
        """Count a row that is left out."""
        self.left_out[why] = self.left_out.get(why, 0) + 1

    def number(self, name: str) -> int:
        """The number of a name."""
        if name not in self.names and len(self.names) >= _MOST_NAMES:
            name = "(one of too many names)"
        return self.names.setdefault(name[:8192], len(self.names))

    def add(self, **row: int) -> None:
        """Add an activity; what a table does not have is NONE."""
        for name, column in self.columns.items():
            column.append(row.get(name, NONE))


def read(source: Source) -> Trace:
    """The activities of a table; raises TraceError where it has none."""
    rows = _Rows()
    tools: list[str] = []
    head: _Head | None = None
    for line in _lines(source.blocks):
        if (found := _head(line)) is not None:
            head = found
            tools.append(found.tool)
        elif head is not None and line.strip():
            _row(line, head, rows)
        elif head is not None and not line.strip() and head.tool == "nsys stats" and rows.read:
            head = None  # another report follows
    if not rows.read:
        raise TraceError(f"{source.name} has the head of a timeline and no row below it: nothing was recorded.")
    return _trace(source, tools[0], rows)


def _lines(blocks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for block in blocks:
        *done, rest = (rest + block).split(b"\n")
        yield from (each[:_LONGEST].decode("utf-8", "replace").rstrip("\r") for each in done)
        rest = rest[-_LONGEST:] if len(rest) > _LONGEST else rest
    if rest:
        yield rest.decode("utf-8", "replace").rstrip("\r")


def _row(line: str, head: _Head, rows: _Rows) -> None:
    cells = _cells(line, head.delimiter)
    if len(cells) < len(head.cells) - 1 or len(cells) <= max(head.at[each] for each in ("name", "start")):
        return  # what the program printed in between, or an end that was cut
    if not head.units and _takes_units(cells, head):
        return
    rows.read += 1
    start = _nanoseconds(cells, head, "start")
    if "duration" in head.at:
        duration = _nanoseconds(cells, head, "duration")
    else:
        end = _nanoseconds(cells, head, "end")
        duration = None if end is None or start is None else end - start
    if start is None or duration is None or duration < 0 or not 0 <= start < _LATEST - duration:
        rows.drop("rows that end before they start or have no time")
        return
    name = cells[head.at["name"]]
    copy, cleared = _COPY.search(name), _SET.search(name)
    rows.add(
        start=start,
        duration=duration,
        name=rows.number(_copied(copy, cells, head) if copy else "Memset (Device)" if cleared else name),
        kind=COPY if copy else SET if cleared else KERNEL,
        device=_device(cells, head, rows),
        stream=_whole(cells, head, "stream"),
        correlation=_whole(cells, head, "correlation"),
        moved=_moved(cells, head),
    )


def _takes_units(cells: list[str], head: _Head) -> bool:
    """Whether a row is the one of units, as nvprof has below its head: they are kept."""
    if head.tool != "nvprof" or _NUMBER.match(cells[head.at["start"]]):
        return False
    head.units.update({each: cells[at] for each, at in head.at.items() if at < len(cells)})
    return True


def _value(cells: list[str], head: _Head, name: str) -> str:
    at = head.at.get(name)
    return cells[at] if at is not None and at < len(cells) else ""


def _nanoseconds(cells: list[str], head: _Head, name: str) -> int | None:
    text = _value(cells, head, name)
    if not _NUMBER.match(text):
        return None
    unit = head.units.get(name, "ns")
    if unit in ("ns", "nsec") and text.lstrip("-").isdecimal():
        return int(text)
    scale = tool_unit(unit)[0] / tool_unit("ns")[0]
    number = float(text) * scale
    return round(number) if abs(number) < _LATEST else None


def _whole(cells: list[str], head: _Head, name: str) -> int:
    text = _value(cells, head, name)
    return int(text) if text.isdecimal() and len(text) < 19 else NONE


def _device(cells: list[str], head: _Head, rows: _Rows) -> int:
    """The number of the device: "NVIDIA A100-SXM4-80GB (0)", "Agent 4", "4"."""
    text = _value(cells, head, "device")
    number = _LAST_NUMBER.search(text)
    at = int(number[1]) if number and (text.endswith(")") or not text.startswith("NVIDIA")) else 0
    name = text[: number.start()].rstrip(" (") if number else text
    if name and name != "Agent" and not name.isdecimal() and len(rows.cards) < _MOST_CARDS:
        rows.cards.setdefault(at, name[:200])
    return at


def _moved(cells: list[str], head: _Head) -> int:
    text = _value(cells, head, "moved")
    if not _NUMBER.match(text):
        return NONE
    number = float(text) * _size(head.units.get("moved", "byte"))
    return round(number) if 0 <= number < _LATEST else NONE


def _size(unit: str) -> float:
    """Bytes of a unit of size; those of the tool's prefixes are decimal."""
    return tool_unit({"B": "byte", "KB": "Kbyte", "MB": "Mbyte", "GB": "Gbyte"}.get(unit, unit))[0]


def _copied(match: re.Match[str], cells: list[str], head: _Head) -> str:
    """A copy as PyTorch's profiler calls it."""
    text = next(each for each in match.groups() if each is not None)
    if "_TO_" in text.upper() or "-to-" in text:
        words = re.split(r"_TO_|-to-", text.upper().replace("-TO-", "_TO_"))
        text = "to".join(_WAYS.get(each.strip("_"), each.strip("_")[:1]) for each in words)
    kinds = [_value(cells, head, each) for each in ("source", "target")]
    return f"Memcpy {text}" + (f" ({kinds[0]} -> {kinds[1]})" if all(kinds) else "")


def _trace(source: Source, tool: str, rows: _Rows) -> Trace:
    import numpy as np

    columns = {name: np.array(column, np.int64) for name, column in rows.columns.items()}
    order = np.argsort(columns["start"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    none = np.full(len(order), NONE, np.int8)
    empty = np.zeros(0, np.int64)
    nothing = Ranges(empty, empty, empty, empty, empty, empty)
    used = {
        word: int((columns["kind"] == kind).sum()) for word, kind in (("kernel", KERNEL), ("copy", COPY), ("set", SET))
    }
    return Trace(
        source=source.name,
        format=f"{tool}, a table of activities",
        gpu=Activities(external=none, detail=none, **columns),
        ops=nothing,
        calls=nothing,
        marks=nothing,
        gpu_marks=nothing,
        names=tuple(rows.names),
        details=(),
        threads=(),
        cards=tuple(Card(number, name, None, None, "") for number, name in sorted(rows.cards.items())),
        rank=Rank(),
        counts=Counts(rows.read, used, rows.left_out),
        bytes=source.read,
        warnings=(
            *source.warnings,
            "a table of activities holds no call of the host: the cause of idle times is not in the file",
        ),
    )
