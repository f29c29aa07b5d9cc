"""The JSON of what files without a timeline say: the keys of a diagnosis, null where only a timeline has them."""

from __future__ import annotations

from typing import Literal

import msgspec

from roofline.show.measured_schema import FindingRecord, MeasuredDevice


class CountedKernel(msgspec.Struct):
    """All launches of one kernel and grid; shares are fractions of a peak, `tool_shares` as the tool prints them."""

    name: str
    readable: str
    category: str
    grid: str
    block: str
    calls: int
    seconds: float | None
    share: float | None
    flops: float | None
    bytes: float | None
    l2_bytes: float | None
    intensity: float | None
    bound: str | None
    bound_seconds: float | None
    of_bound: float | None
    limit: str
    cost_from: Literal["counters", "unknown"]
    traffic: Literal["dram", "ideal"] | None
    dram_share: float | None
    tool_shares: dict[str, float]
    flops_by_rate: dict[str, float]
    ideal_bytes: float | None
    reread: float | None
    remarks: list[str]


class CardRecord(msgspec.Struct):
    """One card: means of its counters in base units, shares of its samples by state, estimates from the peaks."""

    name: str
    card: str
    device: str | None
    samples: int
    span_s: float | None
    state: str
    sentence: str
    states: dict[str, float]
    counters: dict[str, float]
    bandwidth: float | None
    flops_per_second: dict[str, float]
    links: dict[str, float]


class SizeRecord(msgspec.Struct):
    """One size of a collective: `algbw` and `busbw` of size and time, beside the printed ones."""

    bytes: int
    seconds: float
    algbw: float
    busbw: float | None
    printed_algbw: float
    printed_busbw: float
    wrong: float | None


class CollectiveRunRecord(msgspec.Struct):
    """One run; `latency_s` and `bandwidth` of the fit, `busbw` the most that was reached, at `busbw_bytes`."""

    kind: str
    ranks: int | None
    nodes: int | None
    ranks_per_node: int | None
    cards: list[str]
    factor: float | None
    busbw: float | None
    busbw_bytes: int | None
    latency_s: float | None
    bandwidth: float | None
    fit_error: float | None
    half_bytes: float | None
    link: str
    link_bandwidth: float | None
    of_link: float | None
    in_network_reduction: bool
    disagreeing: int
    average_busbw: float | None
    wrong: int | None
    sizes: list[SizeRecord]


class BenchmarkRecord(msgspec.Struct):
    """A measured rate beside its bound; `reach` are quartiles of what such kernels reach elsewhere."""

    tool: str
    phase: str
    model: str
    measured: float | None
    unit: str
    bound: float | None
    of_bound: float | None
    bound_by: str
    reach: list[float] | None
    concurrency: float | None
    input_tokens: float | None
    output_tokens: float | None
    ranks: int | None
    per_token_s: float | None
    pass_bound_s: float | None
    sentence: str
    reason: str
    facts: dict[str, float]


class AssessmentRecord(msgspec.Struct):
    """`diagnose --json` of a file without a timeline: `kind` names the list that is filled."""

    schema: Literal["roofline.diagnosis/1"]
    kind: Literal["kernels", "cards", "collectives", "benchmarks"]
    source: str
    format: str
    device: MeasuredDevice
    window_s: float | None
    busy_s: float | None
    idle_s: float | None
    breakdown: dict[str, float] | None
    measured_s: float | None
    kernels: list[CountedKernel]
    cards: list[CardRecord]
    collectives: list[CollectiveRunRecord]
    benchmarks: list[BenchmarkRecord]
    coverage: float
    findings: list[FindingRecord]
    verdict: str
    left_out: dict[str, int]
    notes: list[str]
    warnings: list[str]
