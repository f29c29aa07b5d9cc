"""What files without a timeline say: the judged form of counters, collectives, benchmarks and logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roofline.bound import Point
from roofline.device import Device
from roofline.diagnosis.findings import Finding


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """All launches of one kernel with one grid. `point` is one launch of mean cost, None where no bound is known.

    Shares are fractions of the peak: `dram_share` of measured bytes over time and peak bandwidth, those of the tool
    as it prints them (means over launches weighed by time).
    """

    name: str
    readable: str
    category: str
    grid: str
    block: str
    calls: int
    seconds: float | None
    share: float | None  # of the time of all kernels
    flops: float | None  # all calls together
    bytes: float | None
    l2_bytes: float | None
    point: Point | None
    limit: str  # "memory", "compute", "latency", "cache" or ""
    dram_share: float | None
    tool: Mapping[str, float]  # the tool's own shares, by our names
    rates: Mapping[str, float]  # FLOPs by rate, all calls together
    ideal_bytes: float | None = None
    remarks: tuple[str, ...] = ()
    estimates: Mapping[str, float] = field(default_factory=dict[str, float])  # what the tool's own rules could win

    @property
    def bound_seconds(self) -> float | None:
        """The least time of all calls [s]."""
        return None if self.point is None else float(self.point.bound_seconds)  # pyright: ignore[reportArgumentType]

    @property
    def of_bound(self) -> float | None:
        """Share of the bound that was reached."""
        bound = self.bound_seconds
        return None if bound is None or not self.seconds else bound / self.seconds

    @property
    def reread(self) -> float | None:
        """Measured bytes over those that the shapes ask for."""
        return None if not self.ideal_bytes or self.bytes is None else self.bytes / self.ideal_bytes


@dataclass(frozen=True, slots=True)
class CardState:
    """One card over its samples. `states` are shares of the samples in each state; rates are estimates."""

    name: str
    card: str
    samples: int
    span: float | None  # [s]
    means: Mapping[str, float]
    states: Mapping[str, float]
    verdict: str
    sentence: str
    device: Device | None
    bandwidth: float | None  # [byte/s] DRAM_ACTIVE times the peak
    flops: Mapping[str, float]  # [FLOP/s] the most that the busy pipes can have done, by rate
    links: Mapping[str, float]  # share of a link, by its name


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """One size of a collective: printed and recomputed bandwidths [byte/s], the shorter of its timings [s]."""

    size: int
    seconds: float
    algbw: float
    busbw: float | None
    printed_algbw: float
    printed_busbw: float
    wrong: float | None


@dataclass(frozen=True, slots=True)
class CollectiveRun:
    """One run: `latency` and `bandwidth` of the fit time = latency + size x factor / bandwidth."""

    kind: str
    ranks: int | None
    nodes: int | None
    per_node: int | None
    cards: tuple[str, ...]
    device: Device | None
    factor: float | None
    rows: tuple[CollectiveRow, ...]
    latency: float | None  # [s]
    bandwidth: float | None  # [byte/s] bus bandwidth that the fit tends to
    fit_error: float | None  # median relative error of the fit
    busbw: float | None  # [byte/s] the largest that was reached
    at: int | None  # [byte] the size it was reached at
    half_size: float | None  # [byte] at which latency and transfer take as long
    link: str
    link_bandwidth: float | None  # [byte/s]
    in_network: bool
    disagree: int  # timings whose bandwidths are not those printed
    average: float | None
    wrong: int | None


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """A measured rate beside its bound; None with a reason where the bound is not known."""

    tool: str
    phase: str
    model: str
    measured: float | None  # [tokens/s] of all devices
    unit: str
    bound: float | None
    of_bound: float | None
    reach: tuple[float, float, float] | None  # what such kernels reach elsewhere: quartiles
    per_token: float | None  # [s]
    step_bound: float | None  # [s] of one pass
    bound_by: str
    concurrency: float | None
    input_tokens: float | None
    output_tokens: float | None
    ranks: int | None
    sentence: str
    reason: str = ""
    facts: Mapping[str, float] = field(default_factory=dict[str, float])


Detail = tuple[KernelGroup, ...] | tuple[CardState, ...] | tuple[CollectiveRun, ...] | tuple[BenchmarkRow, ...]


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a file without a timeline says. `kind` names what `rows` are: kernels, cards, collectives, benchmarks."""

    source: str
    format: str
    kind: str
    card: str
    device: Device | None
    recognised_from: str
    verdict: str
    findings: tuple[Finding, ...]
    rows: Detail
    seconds: float | None  # [s] of all that was measured, one after another
    left_out: Mapping[str, int]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The assessment as JSON types, with the keys of `roofline.diagnosis/1`."""
        from roofline.show.assessment_record import assessment_record

        return assessment_record(self)
