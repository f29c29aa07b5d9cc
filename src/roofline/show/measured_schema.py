"""What the JSON of every measured file has: its device, and findings."""

from __future__ import annotations

import msgspec


class MeasuredDevice(msgspec.Struct):
    """The device that a profile is of: `id` is null where the file does not tell which of the candidates it is."""

    id: str | None
    name: str
    recognised_from: str | None
    candidates: list[str]
    number: int | None
    bandwidth: float | None  # as the file says it [byte/s]
    clock: float | None  # [Hz]
    ridge: dict[str, float]  # of the known peaks over that bandwidth [FLOP/byte]


class FindingRecord(msgspec.Struct):
    """What could be changed, and the seconds at stake."""

    rule: str
    title: str
    at_stake_s: float | None
    evidence: list[str]
    advice: str
