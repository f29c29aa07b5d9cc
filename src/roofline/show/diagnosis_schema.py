"""The JSON of a measured run."""

from __future__ import annotations

from typing import Literal

import msgspec

from roofline.show.assessment_schema import CardRecord
from roofline.show.measured_schema import FindingRecord, MeasuredDevice
from roofline.show.prediction_schema import Resource


class BreakdownRecord(msgspec.Struct):
    """Seconds of the window, each counted once; they add up to `window_s`."""

    gemm: float
    attention: float
    convolution: float
    elementwise: float
    normalisation: float
    reduction: float
    embedding: float
    moe: float
    optimiser: float
    communication: float
    copy: float
    other: float
    idle: float


class CategoryRecord(msgspec.Struct):
    """One category in full: `hidden_s` is what ran beside a category that counts first."""

    category: str
    calls: int
    sum_s: float
    union_s: float
    attributed_s: float
    hidden_s: float
    attributed_ns: int
    flops: int
    bytes: int
    costed_s: float
    bound_s: float | None
    of_bound: float | None


class MeasuredKernel(msgspec.Struct):
    """All calls of one kernel; `share` is of the time of all activities, one after another.

    `flops`, `bytes` and `bound_seconds` are of the `costed_calls`, which took `costed_seconds`; `of_bound` is
    bound_seconds over costed_seconds. `shapes` are these calls by operator and shapes.
    """

    name: str
    readable: str
    category: str
    operator: str
    calls: int
    seconds: float
    share: float
    flops: int | None
    bytes: int | None
    intensity: float | None
    bound: Resource | None
    bound_seconds: float | None
    of_bound: float | None
    cost_from: Literal["shapes", "ledger", "counters", "unknown"]
    link_bytes: int | None
    costed_calls: int
    costed_seconds: float
    note: str
    shapes: list[ShapeRecord]


class ShapeRecord(msgspec.Struct):
    """Calls of one kernel with the same work; `flops` and `bytes` are of one piece, `pieces` is how many were done."""

    operator: str
    op: str
    shapes: str
    calls: int
    pieces: float
    seconds: float
    flops: int
    bytes: int
    rate: str
    bound: Resource | None
    bound_seconds: float | None
    of_bound: float | None


class CoverageRecord(msgspec.Struct):
    """Compute time by where its cost is from; `without` by the reason for which it has none."""

    compute_s: float
    from_shapes_s: float
    from_next_step_s: float
    without_s: dict[str, float]
    remedy: str


class EarlierRecord(msgspec.Struct):
    """Activities of the step before the record, each equal to one at the end of a recorded step."""

    activities: int
    seconds: float
    placed: str


class CauseRecord(msgspec.Struct):
    """A reason for which the device was idle; all of them add up to `idle_s`."""

    cause: str
    meaning: str
    seconds: float
    nanoseconds: int
    gaps: int
    longest_s: float


class GapRecord(msgspec.Struct):
    """One of the longest times without any activity."""

    at_s: float
    seconds: float
    cause: str
    host: str
    next: str


class StepRecord(msgspec.Struct):
    """One marked step."""

    name: str
    seconds: float  # [s] on the host, or as long as its activities ran where that is longer
    busy_s: float
    warm_up: bool
    host_s: float
    empty: bool  # it is short, and nothing ran on the device


class StepsRecord(msgspec.Struct):
    """The marked steps; median and spread without warm-up."""

    median_s: float
    least_s: float
    most_s: float
    rule: str
    steps: list[StepRecord]


class PassRecord(msgspec.Struct):
    """What a server's annotation says of one pass."""

    name: str
    padded: int | None
    context_requests: int
    context_tokens: int
    context_kv: int | None
    generation_requests: int
    generation_tokens: int
    generation_kv: int | None


class LaunchesRecord(msgspec.Struct):
    """How the host fed the device."""

    linked: int
    unlinked: int
    unlinked_s: float
    delay_median_s: float | None
    delay_p95_s: float | None
    cost_median_s: float | None
    queue_depth_median: float | None
    starved_share: float | None
    short_kernels: int
    short_kernels_s: float
    graph_replayed: int
    graph_captured: int


class CopiesRecord(msgspec.Struct):
    """All copies of one kind; `pinned` is null where there is no host side or the file does not say."""

    kind: str
    pinned: bool | None
    calls: int
    bytes: int
    seconds: float
    bandwidth: float | None


class CommunicationRecord(msgspec.Struct):
    """Collectives: `exposed_s` is without computation beside them."""

    calls: int
    seconds: float
    exposed_s: float
    overlapped_s: float


class ExchangeRecord(msgspec.Struct):
    """Calls of one collective of one size, as nccl-tests counts `bytes`, `algbw` and `busbw` [byte/s].

    `ranks` and `busbw` are null where the group is not recorded. Waiting for another rank counts as time.
    """

    kind: str
    bytes: int
    ranks: int | None
    calls: int
    seconds: float
    bytes_sent_per_rank: int
    algbw: float | None
    busbw: float | None
    link: str
    link_bandwidth: float | None
    of_link: float | None


class RankRecord(msgspec.Struct):
    """Which process of a distributed run the profile is of."""

    rank: int | None
    ranks: int | None
    backend: str


class EventsRecord(msgspec.Struct):
    """Every event of the file and what became of it; `lost` could not be read."""

    read: int
    used: dict[str, int]
    left_out: dict[str, int]
    lost: int
    text_bytes: int


class MeasuredMfu(msgspec.Struct):
    """Model FLOPs utilisation of the recorded step, from its own operations: a share of the dense peak of `rate`."""

    value: float
    flops: int
    seconds: float
    rate: str
    peak: float


class SideRecord(msgspec.Struct):
    """One kind of kernel, predicted and measured, all calls together."""

    op: str
    predicted_flops: int
    measured_flops: int
    predicted_bytes: int
    measured_bytes: int
    bound_seconds: float
    seconds: float


class BesideRecord(msgspec.Struct):
    """A model's exact ledger beside the recorded step (`--model`); `mfu` is the ledger's FLOPs over the step's peak."""

    model: str
    workload: str
    kernels: list[SideRecord]
    not_in_step: list[str]
    seconds: float
    bound_seconds: float
    mfu: float | None
    unlike: str  # why the step is no pass of this ledger, where it is not: then there is no `mfu`
    notes: list[str]


class RankRowRecord(msgspec.Struct):
    """One rank of several; `waiting_s` is what its collectives took beyond the rank that came last."""

    file: str
    rank: int | None
    window_s: float
    busy_s: float
    compute_s: float
    communication_s: float
    exposed_s: float
    idle_s: float
    waiting_s: float | None
    last_to: int | None


class DeviceRowRecord(msgspec.Struct):
    """One of several devices of a file, over its own window; `device.number` is the one that the rest is of.

    `waiting_s` is how long it waited in collectives for the last to come, null where they are not the same on all.
    """

    device: int
    name: str
    start_s: float
    window_s: float
    busy_s: float
    idle_s: float
    compute_s: float
    communication_s: float
    exposed_s: float
    collectives: int
    kernels: int
    activities: int
    waiting_s: float | None
    last_to: int | None


class MarkedRecord(msgspec.Struct):
    """All ranges of one name that the host marked (NVTX, record_function), and what was launched within them."""

    name: str
    calls: int
    host_s: float
    device_s: float
    activities: int


class DiagnosisRecord(msgspec.Struct):
    """`diagnose --json`; of several files, of the rank that the others wait for, with a row for each in `ranks`."""

    schema: Literal["roofline.diagnosis/1"]
    source: str
    format: str
    device: MeasuredDevice
    window_s: float
    busy_s: float
    idle_s: float
    window_ns: int
    busy_ns: int
    idle_ns: int
    breakdown: BreakdownRecord
    breakdown_ns: dict[str, int]
    categories: list[CategoryRecord]
    kernels: list[MeasuredKernel]
    coverage: float
    coverage_parts: CoverageRecord
    findings: list[FindingRecord]
    verdict: str
    limit: Literal["memory", "compute", "latency", "communication", "input", "host", ""]
    bounds_on: str | None
    bounds_from: str
    earlier: EarlierRecord | None
    idle_causes: list[CauseRecord]
    gaps: list[GapRecord]
    steps: StepsRecord | None
    passes: list[PassRecord]
    launches: LaunchesRecord
    copies: list[CopiesRecord]
    communication: CommunicationRecord
    collectives: list[ExchangeRecord]
    rank: RankRecord
    events: EventsRecord
    other_devices: dict[str, int]
    devices: list[DeviceRowRecord]
    warnings: list[str]
    mfu: MeasuredMfu | None
    beside: BesideRecord | None
    ranks: list[RankRowRecord] | None
    collectives_compared: int
    sampled: CardRecord | None
    ranges: list[MarkedRecord]
