"""The JSON of the training commands: one Struct a record."""

from __future__ import annotations

from typing import Literal

import msgspec


class ConventionRecord(msgspec.Struct):
    """One way to count, and the share of the peak that it gives; null with the reason in `unknown`."""

    name: str
    kind: Literal["mfu", "hfu"]
    flops_per_token: float | None
    value: float | None
    peak_rate: str
    peak: float
    formula: str
    source: str
    excludes: str
    unknown: str


class SizeRecord(msgspec.Struct):
    """What is trained, as the conventions see it."""

    name: str
    parameters: float
    total_parameters: float
    attention_width: float | None
    trainable: float


class MfuRecord(msgspec.Struct):
    """`mfu --json`."""

    schema: Literal["roofline.mfu/1"]
    model: SizeRecord
    device: str
    gpus: int
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    padding: float
    sequence: int | None
    recompute: str | None
    conventions: list[ConventionRecord]
    warnings: list[str]
    assumptions: list[str]


class LevelRecord(msgspec.Struct):
    """One level of a collective over nodes."""

    name: str
    ranks: int
    bytes_sent_per_rank: float
    seconds: float


class ShareRecord(msgspec.Struct):
    """Beside a step: share of its time, and of the longer step where that time is without the collective."""

    step_seconds: float
    share: float
    share_of_longer_step: float


class CollectiveRecord(msgspec.Struct):
    """`collective --json`."""

    schema: Literal["roofline.collective/1"]
    kind: str
    bytes: float
    ranks: int
    algorithm: str
    bytes_sent_per_rank: float
    bytes_received_per_rank: float
    steps: int
    seconds: float
    latency_seconds: float
    algbw: float
    busbw: float
    least_bytes_per_rank: float
    bound_seconds: float | None
    levels: list[LevelRecord]
    step: ShareRecord | None
    assumptions: list[str]


class PlanRecord(msgspec.Struct):
    """How the ranks share the work."""

    dp: int
    tp: int
    pp: int
    cp: int
    ep: int
    zero: int
    micro_batch: int
    accumulate: int
    sequence_parallel: bool
    schedule: str
    chunks: int
    shard_group: int


class RecipeRecord(msgspec.Struct):
    """How it is trained."""

    rate: str
    weights: str
    activations: str
    gradients: str
    optimizer: str
    fused: bool
    recompute: str
    flash_attention: bool
    lora: int
    frozen: list[str]
    document: int | None


class StepTimes(msgspec.Struct):
    """Times of one optimizer step [s]; `seconds`, of the kind that `basis` names, is what MFU and days rest on.

    `measured_seconds` is the whole step as given, `measured_compute_seconds` one without its traffic;
    `expected_seconds` is null until there is a calibration.
    """

    seconds: float
    basis: Literal["measured", "measured compute", "derated", "some overlap", "no overlap"]
    bound_seconds: float
    floor_seconds: float
    no_overlap_seconds: float
    compute_seconds: float
    expected_seconds: float | None
    measured_seconds: float | None
    measured_compute_seconds: float | None
    bubble_share: float


class FlowRecord(msgspec.Struct):
    """One kind of traffic: bytes that one rank sends in a step, on which link, how long; null where unknown."""

    kind: str
    what: str
    op: str
    link: Literal["scale-up", "network", "both", "none"]
    ranks: int
    calls: int
    bytes_per_rank: float
    seconds: float | None
    exposed_seconds: float | None
    share: float | None


class CommunicationRecord(msgspec.Struct):
    """All traffic of a step; shares are of the rest of the step, and of the step with it.

    Both are null where a measured step is shorter than its traffic, of which it hides some.
    """

    bytes_per_rank: float
    seconds: float
    exposed_seconds: float
    share: float | None
    share_of_step: float | None
    kinds: list[FlowRecord]


class StepKernel(msgspec.Struct):
    """One row of the step: all calls of a rank of the slowest stage together."""

    name: str
    op: str
    part: str
    stage: Literal["forward", "recomputed", "dx", "dw", "update"]
    count: float
    flops: float
    bytes: float
    link_bytes: float
    intensity: float
    bound_seconds: float
    bound: Literal["compute", "memory", "link", "launch"]
    share: float


class TrainingMemory(msgspec.Struct):
    """Bytes of the fullest rank; `fits_with` are options with which a plan fits that does not."""

    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    activation_bytes: float
    logit_bytes: float
    total_bytes: float
    capacity_bytes: int | None
    reserve: float
    fits: bool | None
    largest_micro_batch: int | None
    fits_with: str | None


class BudgetRecord(msgspec.Struct):
    """Time of a whole run."""

    tokens: int
    days: float
    gpu_hours: float


class KnobRecord(msgspec.Struct):
    """One change and the share of the time for a token that it saves."""

    change: str
    step_seconds: float
    saves: float


class TrainRecord(msgspec.Struct):
    """`train --json`; `stage_layers` are those of each pipeline stage, the first first."""

    schema: Literal["roofline.train/1"]
    model: SizeRecord
    device: str
    gpus: int
    tokens: int
    sequence: int
    plan: PlanRecord
    stage_layers: list[int]
    recipe: RecipeRecord
    time: StepTimes
    tokens_per_second: float
    flops: float
    conventions: list[ConventionRecord]
    communication: CommunicationRecord
    kernels: list[StepKernel]
    memory: TrainingMemory
    budget: BudgetRecord | None
    sensitivity: list[KnobRecord]
    warnings: list[str]
    assumptions: list[str]


class CandidateRecord(msgspec.Struct):
    """One plan of a search, and why it is there."""

    plan: PlanRecord
    recompute: str
    step_seconds: float
    memory_bytes: float
    exposed_seconds: float
    bubble_share: float
    why: str


class SearchRecord(msgspec.Struct):
    """`train --search --json`; `refused` counts plans, or ranks, by the reason against them."""

    schema: Literal["roofline.search/1"]
    looked_at: int
    fitting: int
    pareto: list[CandidateRecord]
    refused: dict[str, int]
    best: TrainRecord | None
