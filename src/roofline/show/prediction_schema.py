"""The JSON of a prediction: ledgers, crossovers, operations by hand."""

from __future__ import annotations

from typing import Literal

import msgspec

from roofline.model import Parameters

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
