"""What a diagnosis says. Times are integer nanoseconds: they add up exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roofline.recognition import Recognition
from roofline.trace.events import Card, Counts, Rank


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
    length: int  # [ns] on the host, from mark to mark
    busy: int  # [ns] in which its activities ran
    warm_up: bool


@dataclass(frozen=True, slots=True)
class Steps:
    """The marked steps; median and spread are those of the steps that are no warm-up."""

    steps: tuple[Step, ...]
    median: int  # [ns]
    least: int
    most: int
    rule: str  # which were left out, and why


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

    @property
    def idle(self) -> int:
        """Time of the window in which nothing ran on the device [ns]."""
        return self.window - self.busy

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as JSON types, schema `roofline.diagnosis/1`."""
        from roofline.show.diagnosis import diagnosis_record

        return diagnosis_record(self)
