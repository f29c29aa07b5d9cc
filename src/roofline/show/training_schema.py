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
