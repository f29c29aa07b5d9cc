"""Models and devices as JSON types, by the Structs of `roofline.show.catalogue_schema`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec

from roofline.device import Figure, Sheet
from roofline.dtypes import STORED
from roofline.model import LONG, Model
from roofline.shard import Shard
from roofline.sheets import source_titles
from roofline.show.catalogue_schema import (
    CacheRecord,
    CheckpointRecord,
    DeviceRecord,
    DevicesRecord,
    ModelLine,
    ModelRecord,
    ModelsRecord,
    SparsityRecord,
)
from roofline.show.prediction_schema import SourceRecord
from roofline.workload import Precision


def plain(record: msgspec.Struct) -> dict[str, Any]:
    """A record as JSON types."""
    return cast(dict[str, Any], msgspec.to_builtins(record))


def _figure(figure: Figure) -> SourceRecord:
    return SourceRecord(
        figure.value, figure.status, [source_titles().get(key, key) for key in figure.source], figure.note
    )


def figures(device: Sheet, keys: Sequence[str]) -> dict[str, SourceRecord]:
    """These figures of a device that it has, each with its sources."""
    return {key: _figure(device.figures[key]) for key in keys if key in device.figures}


def _device(sheet: Sheet) -> DeviceRecord:
    known = sheet.bandwidth is not None
    return DeviceRecord(
        id=sheet.id,
        name=sheet.name,
        vendor=sheet.vendor,
        architecture=sheet.architecture,
        form_factor=sheet.form_factor,
        released=sheet.released,
        announced=sheet.announced,
        peaks=dict(sheet.peak),
        bandwidth=sheet.bandwidth,
        cache_bandwidth=dict(sheet.cache_bandwidth),
        capacity_bytes=sheet.capacity,
        capacity_note=sheet.capacity_note,
        l2_bytes=sheet.l2,
        link_bandwidth=sheet.links[0].bandwidth if sheet.links else None,
        sparsity=_sparsity(sheet),
        parts=sheet.parts,
        ridge={rate: sheet.ridge_point(rate) for rate in sheet.peak} if known else {},
        aliases=list(sheet.aliases),
        sources=figures(sheet, tuple(sheet.figures)),
        conflicts=list(sheet.conflicts),
        notes=list(sheet.notes),
        assumptions=list(sheet.assumptions),
    )


def _sparsity(sheet: Sheet) -> SparsityRecord | None:
    found = sheet.sparsity
    return None if found is None else SparsityRecord(found.factor, list(found.rates), found.pattern, found.note)


def devices_record(sheets: Sequence[Sheet]) -> dict[str, Any]:
    """Devices in full, with the source of every figure."""
    return plain(DevicesRecord("roofline.devices/1", [_device(each) for each in sheets]))


def _kv_per_token(model: Model) -> float:
    """Bytes of KV cache that one more token adds, in BF16, before any window is full [byte]."""
    return cast(float, model.cache_bytes_per_token(Precision("bf16"), Shard()))


def _caches(model: Model) -> list[CacheRecord]:
    """The cache by kind of layer."""
    formats = Precision("bf16"), Shard()
    return [
        CacheRecord(
            each.sort,
            each.layers,
            cast(float, each.bytes_per_token(*formats)),
            LONG,
            cast(int, each.bytes(LONG, *formats)),
        )
        for each in model.caches()
    ]


def _checkpoint(model: Model) -> CheckpointRecord | None:
    """What the headers of its weights say."""
    held = model.checkpoint
    if held is None:
        return None
    return CheckpointRecord(
        cast(Literal["safetensors", "gguf"], held.kind),
        len(held.files),
        len(held.tensors),
        held.bytes,
        held.formats,
        held.parts,
    )


def model_record(model: Model) -> dict[str, Any]:
    """One model's counts."""
    return plain(
        ModelRecord(
            schema="roofline.model/1",
            name=model.name,
            parameters=model.parameters(),
            layers=model.layers,
            kv_bytes_per_token=_kv_per_token(model),
            cache=_caches(model),
            weight_bytes=cast(int, model.weight_bytes(Precision("bf16"), Shard())),
            stored_weight_bytes=(
                cast(int, model.weight_bytes(Precision(STORED), Shard())) if model.quantised else None
            ),
            checkpoint=_checkpoint(model),
            max_positions=model.max_positions,
            assumptions=list(model.assumptions),
            sources=dict(model.sources),
        )
    )


def models_record(models: Sequence[tuple[str, Model]]) -> dict[str, Any]:
    """The built-in models, a line each."""
    lines = [
        ModelLine(ident, model.name, model.parameters(), model.layers, _kv_per_token(model)) for ident, model in models
    ]
    return plain(ModelsRecord("roofline.models/1", lines))
