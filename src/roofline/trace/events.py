"""A trace as columns: what ran on the device, what the host did, how they are numbered and named.

Times are integer nanoseconds. Names, shapes and details are held once and referred to by their index, as a
trace of millions of events has a few thousand distinct ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]
    Flags = NDArray[np.bool_]


def listed(values: Ints) -> list[int]:
    """A column as Python numbers."""
    return cast("list[int]", values.tolist())


# Kinds of device activity.
KERNEL, COPY, SET = 0, 1, 2
NONE = -1  # no such number in the file
HOST = -2  # the device of activities that are operators of the host


@dataclass(frozen=True, slots=True)
class Activities:
    """What ran on devices: kernels, copies and memsets, in order of their start."""

    start: Ints  # [ns]
    duration: Ints  # [ns]
    name: Ints  # index into Trace.names
    kind: Ints  # KERNEL, COPY, SET
    device: Ints  # as the file numbers it
    stream: Ints
    correlation: Ints  # number of the call that launched it, or NONE
    external: Ints  # number of the operator that launched it, or NONE
    moved: Ints  # [byte] of a copy or memset, or NONE
    detail: Ints  # index into Trace.details: launch geometry, collective; or NONE

    @property
    def end(self) -> Ints:
        """When each ended [ns]."""
        return self.start + self.duration

    def spans(self, rows: Ints) -> tuple[Ints, Ints]:
        """When these started and ended [ns]."""
        start = self.start[rows]
        return start, start + self.duration[rows]

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Ranges:
    """What the host did, in order of its start: operators, calls of the runtime, annotations.

    `number` is what others refer to it by: the External id of an operator, the correlation of a call.
    """

    start: Ints  # [ns]
    duration: Ints  # [ns]
    name: Ints  # index into Trace.names
    thread: Ints  # index into Trace.threads
    number: Ints
    detail: Ints  # index into Trace.details: shapes and types of an operator; or NONE
    sequence: Ints | None = None  # by which a gradient and its operator know each other; None where no file has them

    @property
    def end(self) -> Ints:
        """When each ended [ns]."""
        return self.start + self.duration

    def spans(self, rows: Ints) -> tuple[Ints, Ints]:
        """When these started and ended [ns]."""
        start = self.start[rows]
        return start, start + self.duration[rows]

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Card:
    """What a file says of one device; a PyTorch profiler's trace has no clock and no bandwidth of it."""

    number: int
    name: str
    memory: int | None  # [byte]
    multiprocessors: int | None
    capability: str  # "9.0"
    bandwidth: float | None = None  # [byte/s] peak of its memory
    clock: float | None = None  # [Hz] highest of its multiprocessors


@dataclass(frozen=True, slots=True)
class Samples:
    """Counters of one device, sampled beside its activities.

    `values` are as the file has them and by its names, NaN where a sample lacks one.
    """

    device: int  # as activities number it
    time: Ints  # [ns], in order
    values: Mapping[str, NDArray[np.float32]]
    read: int  # values of the file that these are


@dataclass(frozen=True, slots=True)
class Rank:
    """Which process of a distributed run this is; None where the file does not say."""

    rank: int | None = None
    ranks: int | None = None
    backend: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Every event of the file, and what became of it: nothing is dropped in silence."""

    read: int  # events in the file
    used: Mapping[str, int]  # what they were used as
    left_out: Mapping[str, int]  # why they were not used
    lost: int = 0  # could not be read at all: not among `read`


@dataclass(frozen=True, slots=True)
class Trace:
    """One profile of one process."""

    source: str
    format: str
    gpu: Activities
    ops: Ranges
    calls: Ranges
    marks: Ranges  # annotations of the user, and modules, on the host
    gpu_marks: Ranges  # the same as seen on the device; `thread` is the stream
    names: tuple[str, ...]
    details: tuple[bytes, ...]  # JSON objects
    threads: tuple[tuple[Any, Any], ...]  # process and thread, as the file names them
    cards: tuple[Card, ...]
    rank: Rank
    counts: Counts
    bytes: int  # [byte] of text read
    base: int = 0  # [ns] what the times are relative to, where the file says so
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()
    samples: tuple[Samples, ...] = ()
    foreign: Flags | None = None  # of each thread, whether it worked for other devices alone; None where none did

    def own(self, ranges: Ranges, rows: Ints) -> Ints:
        """Those of `rows` of ops or calls that are not of threads which worked for other devices alone."""
        return rows if self.foreign is None else rows[~self.foreign[ranges.thread[rows]]]

    def named(self, ranges: Ranges, fitting: Flags) -> Flags:
        """Which ops or calls have one of the `fitting` names and are not of such threads."""
        found = fitting[ranges.name]
        if self.foreign is not None:
            found &= ~self.foreign[ranges.thread]
        return found
