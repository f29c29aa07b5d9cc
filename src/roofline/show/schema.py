"""The JSON of every answer: one Struct a record, from which the schema files of the package are made."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from roofline.device import Conflict
from roofline.model import Parameters
from roofline.show.assessment_schema import AssessmentRecord, CardRecord
from roofline.show.measured_schema import FindingRecord, MeasuredDevice
from roofline.show.training_schema import CollectiveRecord, MfuRecord, SearchRecord, TrainRecord

Resource = Literal["compute", "memory", "link", "launch"]


class NamedModel(msgspec.Struct):
    """The model of a ledger."""

    name: str
    parameters: Parameters


class NamedDevice(msgspec.Struct):
    """The device of a ledger."""

    id: str
    name: str


class RowsRecord(msgspec.Struct):
    """Sequences of one kind in a pass."""

    phase: Literal["decode", "prefill", "call"]
    sequences: int
    new_tokens: int
    context: int
    logits: Literal["last", "all"]


class WorkloadRecord(msgspec.Struct):
    """What was run, defaults included."""

    phase: Literal["decode", "prefill", "mixed", "call"]
    sequences: int
    new_tokens: int
    context: int
    tokens: int
    groups: list[RowsRecord]
    weights: str
    kv: str
    activations: str
    compute: str
    tp: int
    fused: bool
    experts_touched: float | None
    expert_skew: float
    source: int | None


class EfficiencyRecord(msgspec.Struct):
    """The shares that a derated time assumes."""

    bandwidth: float
    compute: float


class TimeModel(msgspec.Struct):
    """What `seconds` means."""

    name: Literal["bound", "derated"]
    efficiency: EfficiencyRecord | None


class TotalRecord(msgspec.Struct):
    """The whole pass of one rank."""

    flops: int
    bytes: int
    intensity: float
    seconds: float
    bound_seconds: float
    floor_seconds: float
    no_overlap_seconds: float
    expected_seconds: float | None
    tokens_per_second: float
    decode_tokens_per_second: float
    prefill_tokens_per_second: float
    bound: Resource
    of_peak: float
    ridge: float


class KernelRecord(msgspec.Struct):
    """One row: all `count` calls together."""

    name: str
    op: str
    part: str
    count: int
    flops: int
    bytes: int
    weight_bytes: int
    kv_bytes: int
    activation_bytes: int
    link_bytes: int
    intensity: float
    seconds: float
    bound_seconds: float
    expected_seconds: float | None
    bound: Resource
    share: float


class MemoryRecord(msgspec.Struct):
    """What one rank holds."""

    weight_bytes: int
    kv_bytes: int
    activation_bytes: int
    total_bytes: int
    capacity_bytes: int | None
    fits: bool | None
    max_sequences: int | None
    max_context: int | None


class SourceRecord(msgspec.Struct):
    """Where a figure is from."""

    value: float
    status: str
    source: list[str]
    note: str


class Sources(msgspec.Struct):
    """Where the facts are from."""

    model: dict[str, str]
    device: dict[str, SourceRecord]


class LeverRecord(msgspec.Struct):
    """One change and what it does: `gain` in tokens a second, as a share of those before."""

    name: str
    change: str
    seconds: float
    tokens_per_second: float
    gain: float
    fits: bool | None
    ranks: int


class ReachRecord(msgspec.Struct):
    """Shares of their bound that such kernels reach where they were measured: quartiles."""

    low: float
    median: float
    high: float
    basis: str


class MeasuredRecord(msgspec.Struct):
    """A measured rate beside the bound."""

    tokens_per_second: float
    of_bound: float
    of_derated: float | None
    reach: ReachRecord | None
    sentence: str


class PriceRecord(msgspec.Struct):
    """What tokens cost, in dollars."""

    per_device_hour: float
    devices: int
    per_million_tokens: float
    per_million_measured: float | None


class RatioRecord(msgspec.Struct):
    """A kernel of two ledgers; `difference` is the other's seconds less this one's."""

    name: str
    seconds: float
    against_seconds: float
    ratio: float | None
    difference: float


class AgainstRecord(msgspec.Struct):
    """A second ledger; `speed` is this one's tokens a second over the other's."""

    ledger: LedgerRecord
    speed: float
    kernels: list[RatioRecord]
    reason: str


class LedgerRecord(msgspec.Struct):
    """`predict --json`."""

    schema: Literal["roofline.ledger/1"]
    model: NamedModel
    device: NamedDevice
    workload: WorkloadRecord
    time_model: TimeModel
    verdict: str
    total: TotalRecord
    kernels: list[KernelRecord]
    levers: list[LeverRecord]
    memory: MemoryRecord
    assumptions: list[str]
    sources: Sources
    measured: MeasuredRecord | None
    price: PriceRecord | None
    against: AgainstRecord | None


class CrossoverRecord(msgspec.Struct):
    """Where something turns: `value` is the first whole number at which `after` holds."""

    name: str
    kind: Literal["verdict", "longer", "gain", "rate", "cost", "reach", "knee"]
    axis: Literal["sequences", "new_tokens", "context"]
    value: int | None
    exact: float | None
    before: str
    after: str
    threshold: float | None
    reason: str


class CrossoversRecord(msgspec.Struct):
    """`crossover --json`; `limit_*` as the batch grows without end, null in prefill."""

    schema: Literal["roofline.crossover/1"]
    model: NamedModel
    device: NamedDevice
    workload: WorkloadRecord
    efficiency: EfficiencyRecord | None
    ridge: float
    crossovers: list[CrossoverRecord]
    limit_intensity: float | None
    limit_tokens_per_second: float | None
    max_sequences: int | None
    assumptions: list[str]


class OpRecord(msgspec.Struct):
    """One way to run an operation: its demand and its least times; `formula` traced from the code."""

    op: str
    dims: dict[str, float]
    options: dict[str, str]
    flops: int
    bytes: int
    memory_bytes: dict[str, int]
    link_bytes: int
    intensity: float
    ridge: float | None
    compute_seconds: float
    memory_seconds: float
    link_seconds: float
    launch_seconds: float
    bound_seconds: float
    no_overlap_seconds: float
    bound: Resource
    attainable: float | None
    of_peak: float | None
    formula: dict[str, str]


class ByHandRecord(OpRecord):
    """`op --json`: an operation, and beside it another way to run it where there is one."""

    schema: Literal["roofline.op/1"]
    device: NamedDevice
    beside: list[OpRecord]
    assumptions: list[str]


class CacheRecord(msgspec.Struct):
    """What a sequence caches in the layers of one kind, in BF16; `long_bytes` at `long_tokens` tokens."""

    sees: str
    layers: int
    bytes_per_token: float
    long_tokens: int
    long_bytes: int


class CheckpointRecord(msgspec.Struct):
    """What the headers of a checkpoint say: how many files and tensors, and bytes by format and by part [byte]."""

    kind: Literal["safetensors", "gguf"]
    files: int
    tensors: int
    bytes: int
    formats: dict[str, int]
    parts: dict[str, int]


class ModelRecord(msgspec.Struct):
    """`models NAME --json`; `stored_weight_bytes` where the checkpoint's file says formats of its weights.

    `checkpoint` is what its headers say, null where they were not read.
    """

    schema: Literal["roofline.model/1"]
    name: str
    parameters: Parameters
    layers: int
    kv_bytes_per_token: float
    cache: list[CacheRecord]
    weight_bytes: int
    stored_weight_bytes: int | None
    checkpoint: CheckpointRecord | None
    max_positions: int | None
    assumptions: list[str]
    sources: dict[str, str]


class ModelLine(msgspec.Struct):
    """One model of `models --json`."""

    id: str
    name: str
    parameters: Parameters
    layers: int
    kv_bytes_per_token: float


class ModelsRecord(msgspec.Struct):
    """`models --json`."""

    schema: Literal["roofline.models/1"]
    models: list[ModelLine]


class SparsityRecord(msgspec.Struct):
    """What structured sparsity multiplies the peaks of some rates by; none of `peaks` counts it."""

    factor: int
    rates: list[str]
    pattern: str
    note: str


class DeviceRecord(msgspec.Struct):
    """One device of `devices --json`."""

    id: str
    name: str
    vendor: str
    architecture: str
    form_factor: str
    released: int | None
    announced: bool
    peaks: dict[str, float]
    bandwidth: float | None
    cache_bandwidth: dict[str, float]
    capacity_bytes: int | None
    capacity_note: str
    l2_bytes: int | None
    link_bandwidth: float | None
    sparsity: SparsityRecord | None
    parts: int
    ridge: dict[str, float]
    aliases: list[str]
    sources: dict[str, SourceRecord]
    conflicts: list[Conflict]
    notes: list[str]
    assumptions: list[str]


class DevicesRecord(msgspec.Struct):
    """`devices --json`, with one device or all."""

    schema: Literal["roofline.devices/1"]
    devices: list[DeviceRecord]


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
    host_s: float = 0.0
    empty: bool = False  # it is short, and nothing ran on the device


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
    unlike: str = ""  # why the step is no pass of this ledger, where it is not: then there is no `mfu`
    notes: list[str] = []


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


class ChangeRecord(msgspec.Struct):
    """One line before and after; `matched_by` says how the two were found to be the same, "" where one is missing."""

    name: str
    shapes: str
    before_s: float
    after_s: float
    difference_s: float
    difference_ns: int
    calls_before: int
    calls_after: int
    status: Literal["faster", "slower", "same", "appeared", "vanished"]
    matched_by: str
    before_name: str


class ComparisonRecord(msgspec.Struct):
    """`compare --json`: the differences of `changes` in nanoseconds add up to `difference_ns`.

    `share` and `noise` are of what is `judged`: the median step, the window, or the bound of a ledger.
    """

    schema: Literal["roofline.comparison/1"]
    before: str
    after: str
    kind: Literal["profile", "ledger"]
    before_s: float
    after_s: float
    difference_s: float
    difference_ns: int
    judged: str
    judged_before_s: float
    judged_after_s: float
    share: float
    noise: float | None
    failed: bool | None
    changes: list[ChangeRecord]
    warnings: list[str]


class TimedRecord(msgspec.Struct):
    """One thing that was timed: `value` is the fastest run, `median` the middle one, in `unit`; seconds of one call."""

    name: str
    op: str
    dims: dict[str, float]
    rate: str
    threads: int
    working_set_bytes: int
    supply: Literal["bandwidth", "peak", "link", "latency"]
    unit: Literal["B/s", "FLOP/s", "s"]
    value: float
    median: float
    spread: float
    samples: int
    seconds: float
    median_seconds: float


class CeilingRecord(msgspec.Struct):
    """A figure of the device and what it is from; `of_datasheet` is its share of the datasheet's, where known."""

    key: str
    value: float
    median: float
    spread: float
    samples: int
    name: str
    of_datasheet: float | None


class MeasureRecord(msgspec.Struct):
    """`measure --json`; `toml` is the device file."""

    schema: Literal["roofline.measure/1"]
    device: DeviceRecord
    ceilings: list[CeilingRecord]
    rows: list[TimedRecord]
    left_out: list[str]
    warnings: list[str]
    environment: list[str]
    toml: str


SCHEMAS: dict[str, type[msgspec.Struct]] = {
    "ledger-1": LedgerRecord,
    "crossover-1": CrossoversRecord,
    "op-1": ByHandRecord,
    "model-1": ModelRecord,
    "models-1": ModelsRecord,
    "devices-1": DevicesRecord,
    "diagnosis-1": DiagnosisRecord,
    "mfu-1": MfuRecord,
    "collective-1": CollectiveRecord,
    "train-1": TrainRecord,
    "search-1": SearchRecord,
    "assessment-1": AssessmentRecord,
    "measure-1": MeasureRecord,
    "comparison-1": ComparisonRecord,
}


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a record, as it stands in the package's `data/schemas`."""
    return msgspec.json.schema(SCHEMAS[name])
