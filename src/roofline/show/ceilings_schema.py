"""The JSON of the ceilings of a machine."""

from __future__ import annotations

from typing import Literal

import msgspec

from roofline.show.catalogue_schema import DeviceRecord


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
