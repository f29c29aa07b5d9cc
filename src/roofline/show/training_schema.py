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
    """Beside a step: share of its compute time, and of the step that it makes longer."""

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
