"""The JSON of two runs side by side."""

from __future__ import annotations

from typing import Literal

import msgspec


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

    `share` and `noise` are of what is `judged`: the median step, the window (for the same work, where both hold other
    amounts of it), or the bound of a ledger.
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
