"""The JSON of the catalogue: models and devices."""

from __future__ import annotations

from typing import Literal

import msgspec

from roofline.device import Conflict
from roofline.model import Parameters
from roofline.show.prediction_schema import SourceRecord


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
