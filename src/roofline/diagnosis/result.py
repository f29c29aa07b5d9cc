"""What a diagnosis says. Times are integer nanoseconds: they add up exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.bound import Bound, Point
from roofline.cost import Work
from roofline.device import Device
from roofline.diagnosis.assessment import CardState
from roofline.diagnosis.findings import Finding
from roofline.diagnosis.numbers import real
from roofline.recognition import Recognition
from roofline.trace.events import Card, Counts, Rank
from roofline.units import NS_PER_S

if TYPE_CHECKING:
    from roofline.diagnosis.coverage import Coverage
    from roofline.show.chart import Chart


@dataclass(frozen=True, slots=True)
class Share:
    """One category of a breakdown."""

    category: str
    calls: int
    sum: int  # [ns] of all activities, one after another
    union: int  # [ns] in which any of them ran
    attributed: int  # [ns] of the window that count as this category

    @property
    def hidden(self) -> int:
        """Time in which it ran beside a category that comes before it [ns]."""
        return self.union - self.attributed


@dataclass(frozen=True, slots=True)
class KernelRow:
    """All calls of one kernel."""

    name: str
    readable: str
    category: str
    operator: str  # what launched it most, or ""
    calls: int
    sum: int  # [ns]
    share: float  # of the sum of all activities
    demand: Demanded | None = None  # of the calls whose cost is known; None where none is


@dataclass(frozen=True, slots=True)
class Demanded:
    """What the costed calls of a kernel demand together, and the least time for it.

    `bound` [s] and `by` are None where the device, or a supply that decides, is not known. Kernels that only help
    their operator demand nothing: 0 FLOP, 0 byte.
    """

    calls: int
    time: int  # [ns] that these calls took
    flops: int
    bytes: int
    link_bytes: int
    bound: float | None
    by: str | None
    note: str = ""

    @property
    def of_bound(self) -> float | None:
        """The share of its bound that it reached: 1 is as fast as the device allows."""
        return None if self.bound is None or not self.time else self.bound * NS_PER_S / self.time

    @property
    def intensity(self) -> float | None:
        """Arithmetic intensity [FLOP/byte]; None without memory bytes."""
        return self.flops / self.bytes if self.bytes else None


@dataclass(frozen=True, slots=True)
class Placed:
    """All calls of one kernel with the same work: a dot on the roofline."""

    row: int  # of `kernels`
    operator: str
    shapes: str
    work: Work
    kernel: str
    category: str
    bound: Bound | None
    calls: int
    time: int  # [ns]
    parts: float  # pieces of the work that these calls did: as many as calls, fewer where several share one
    name: str = ""  # the kernel as the file calls it

    @property
    def bound_seconds(self) -> float | None:
        """The bound of all calls, one after another [s]."""
        return None if self.bound is None else self.parts * real(self.bound.seconds)

    @property
    def excess(self) -> float:
        """Seconds beyond the bound; 0 where it is not known, or was beaten."""
        least = self.bound_seconds
        return 0.0 if least is None else max(self.time / NS_PER_S - least, 0.0)


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the device still did of the step before the record: placed beside the end of a recorded step."""

    activities: int
    time: int  # [ns]
    of: int  # activities of the step whose end they equal


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason for which the device was idle."""

    cause: str
    time: int  # [ns]
    gaps: int
    longest: int  # [ns]


@dataclass(frozen=True, slots=True)
class Gap:
    """One time without any activity."""

    at: int  # [ns] since the window began
    length: int  # [ns]
    cause: str
    host: str  # what the host did in it longest, or ""
    next: str  # the activity that ended it


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a training loop or one pass of a server, as the host marked it."""

    name: str
    length: int  # [ns] on the host, or as long as its activities ran where that is longer
    host: int  # [ns] from mark to mark
    busy: int  # [ns] in which its activities ran
    warm_up: bool
    empty: bool  # it is short, and nothing ran on the device
    outside: int  # [ns] of the host's that lie before the first activity of the window or after the last

    @property
    def steady(self) -> bool:
        """Whether it counts."""
        return not self.warm_up and not self.empty


@dataclass(frozen=True, slots=True)
class Steps:
    """The marked steps; median and spread are those of the steady ones."""

    steps: tuple[Step, ...]
    median: int  # [ns]
    least: int
    most: int
    rule: str  # which were left out, and why


@dataclass(frozen=True, slots=True)
class MarkedTime:
    """Ranges that the host marked by one name, or by names that differ in numbers alone, as those of layers.

    Times and activities are those of the outermost of them: what one encloses is in it already.
    """

    name: str
    calls: int  # nested ones too
    host: int  # [ns] of the ranges, one after another
    device: int  # [ns] of the activities, one after another
    activities: int


@dataclass(frozen=True, slots=True)
class Pass:
    """What a server's own annotation says of one pass: exact lengths."""

    name: str
    padded: int | None  # tokens
    context_requests: int
    context_tokens: int
    context_kv: int | None  # positions attended to, all requests together
    generation_requests: int
    generation_tokens: int
    generation_kv: int | None


@dataclass(frozen=True, slots=True)
class Launches:
    """How the host fed the device."""

    linked: int  # activities whose launch is recorded
    unlinked: int
    unlinked_time: int  # [ns] of those that are not
    delay: int | None  # [ns] median from the call to the start of its activity
    delay_most: int | None  # [ns] 95th percentile
    cost: int | None  # [ns] median of a launch on the host
    depth: float | None  # median of the activities that were queued or running at a launch
    starved: float | None  # share of launches that found the device without work
    short: int  # kernels shorter than a launch costs
    short_time: int  # [ns]
    replayed: int  # kernels launched by a graph
    captured: int = 0  # activities of these whose operators a capture tells


@dataclass(frozen=True, slots=True)
class Copies:
    """All copies of one kind."""

    kind: str  # "HtoD", "DtoH", "DtoD", "PtoP"
    pinned: bool | None  # None where there is no host side or the file does not say
    calls: int
    bytes: int
    sum: int  # [ns]


@dataclass(frozen=True, slots=True)
class Communication:
    """Collectives and sends, as the device saw them."""

    calls: int
    union: int  # [ns]
    exposed: int  # [ns] in which nothing was computed beside them
    overlapped: int  # [ns]


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One of several devices of a file, over its own window: from its first activity to its last."""

    device: int
    name: str  # of the card, "" where the file does not say it
    start: int  # [ns] of the window, by the file's clock
    window: int  # [ns]
    busy: int
    compute: int  # [ns] in which anything was computed
    communication: int  # [ns] in which a collective ran
    exposed: int  # [ns] of these without computation beside them
    collectives: int
    kernels: int
    activities: int
    waited: int | None = None  # [ns] in collectives for the last to come; None where they are not the same on all
    last: int | None = None  # collectives that it came to last

    @property
    def idle(self) -> int:
        """Time of its window in which nothing ran on it [ns]."""
        return self.window - self.busy


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Where the time of one device went."""

    source: str
    format: str
    device: int | None
    card: Card | None
    recognition: Recognition | None  # which device the card is
    rank: Rank
    window: int  # [ns]
    busy: int
    breakdown: tuple[Share, ...]
    kernels: tuple[KernelRow, ...]
    causes: tuple[Cause, ...]
    gaps: tuple[Gap, ...]
    steps: Steps | None
    passes: tuple[Pass, ...]
    launches: Launches
    copies: tuple[Copies, ...]
    communication: Communication
    counts: Counts
    bytes: int  # [byte] of text read
    others: Mapping[int, int]  # other devices in the file and the activities on them
    verdict: str
    warnings: tuple[str, ...]
    supply: Device | None = None  # the device that bounds are taken on
    supply_from: str = ""  # what says that it is this one
    placed: tuple[Placed, ...] = ()  # kernels by their work, the costliest first
    coverage: Coverage | None = None
    earlier: Earlier | None = None
    limit: str = ""  # what the verdict names: memory, compute, latency, communication, input, host; "" for none
    findings: tuple[Finding, ...] = ()
    sampled: CardState | None = None  # the hardware's counters while it was busy
    ranges: tuple[MarkedTime, ...] = ()  # what was marked on the host, the most device time first
    alike: tuple[MarkedTime, ...] = ()  # the same with names that differ in numbers alone as one
    collective_times: tuple[int, ...] = ()  # [ns] of each, in order
    devices: tuple[DeviceRow, ...] = ()  # all of the file, where it has several; of one there is nothing to compare

    @property
    def idle(self) -> int:
        """Time of the window in which nothing ran on the device [ns]."""
        return self.window - self.busy

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as JSON types, schema `roofline.diagnosis/1`."""
        from roofline.show.diagnosis_record import diagnosis_record

        return diagnosis_record(self)

    def points(self) -> tuple[Point, ...]:
        """Kernels as measured dots on the device's roofline, the costliest first; none where it is not known."""
        from roofline.diagnosis.points import points

        return points(self)

    def chart(self) -> Chart:
        """The roofline with what was measured; raises BadValue where no kernel has a place on one."""
        from roofline.show.diagnosis_report import diagnosis_chart

        return diagnosis_chart(self)
