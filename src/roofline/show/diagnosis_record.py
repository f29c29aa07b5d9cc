"""A diagnosis as JSON types. Names are data: they come from a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from roofline.diagnosis.beside import Beside, utilisation
from roofline.diagnosis.exchanges import Exchange, exchanges
from roofline.diagnosis.findings import Finding
from roofline.diagnosis.idle import MEANING
from roofline.diagnosis.numbers import real, whole
from roofline.diagnosis.ranks import RankRow, Run
from roofline.diagnosis.result import Demanded, DeviceRow, Diagnosis, Earlier, KernelRow, Launches, Pass, Placed, Steps
from roofline.show.assessment_record import card_record
from roofline.show.diagnosis_schema import (
    BesideRecord,
    BreakdownRecord,
    CategoryRecord,
    CauseRecord,
    CommunicationRecord,
    CopiesRecord,
    CoverageRecord,
    DeviceRowRecord,
    DiagnosisRecord,
    EarlierRecord,
    EventsRecord,
    ExchangeRecord,
    GapRecord,
    LaunchesRecord,
    MarkedRecord,
    MeasuredKernel,
    MeasuredMfu,
    PassRecord,
    RankRecord,
    RankRowRecord,
    ShapeRecord,
    SideRecord,
    StepRecord,
    StepsRecord,
)
from roofline.show.measured_schema import FindingRecord, MeasuredDevice
from roofline.show.words import setting
from roofline.trace.classify import COMPUTE
from roofline.trace.events import HOST
from roofline.units import NS_PER_S

_SHAPES = 40  # of one kernel in the JSON


def _s(nanoseconds: int) -> float:
    return nanoseconds / NS_PER_S


def _maybe(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else _s(nanoseconds)


def diagnosis_record(found: Diagnosis, model: Beside | None = None, run: Run | None = None) -> dict[str, Any]:
    """A diagnosis as JSON types, with a model's ledger beside it and the other ranks of its run."""
    parts = {each.category: each.attributed for each in found.breakdown} | {"idle": found.idle}
    counts = found.counts
    record = DiagnosisRecord(
        schema="roofline.diagnosis/1",
        source=found.source,
        format=found.format,
        device=_device(found),
        window_s=_s(found.window),
        busy_s=_s(found.busy),
        idle_s=_s(found.idle),
        window_ns=found.window,
        busy_ns=found.busy,
        idle_ns=found.idle,
        breakdown=BreakdownRecord(**{name: _s(value) for name, value in parts.items()}),
        breakdown_ns=parts,
        categories=_categories(found),
        kernels=_kernels(found),
        coverage=0.0 if found.coverage is None else found.coverage.share,
        coverage_parts=_coverage(found),
        findings=[_finding(each) for each in (*(() if run is None else run.findings), *found.findings)],
        verdict=found.verdict,
        limit=found.limit,  # pyright: ignore[reportArgumentType]
        bounds_on=None if found.supply is None else found.supply.id,
        bounds_from=found.supply_from,
        earlier=None
        if found.earlier is None
        else EarlierRecord(found.earlier.activities, _s(found.earlier.time), earlier(found.earlier)),
        idle_causes=[
            CauseRecord(each.cause, MEANING[each.cause], _s(each.time), each.time, each.gaps, _s(each.longest))
            for each in found.causes
        ],
        gaps=[GapRecord(_s(each.at), _s(each.length), each.cause, each.host, each.next) for each in found.gaps],
        steps=None if found.steps is None else _steps(found.steps),
        passes=[_pass(each) for each in found.passes],
        launches=_launches(found.launches),
        copies=[
            CopiesRecord(each.kind, each.pinned, each.calls, each.bytes, _s(each.sum), bandwidth(each.bytes, each.sum))
            for each in found.copies
        ],
        communication=CommunicationRecord(
            found.communication.calls,
            _s(found.communication.union),
            _s(found.communication.exposed),
            _s(found.communication.overlapped),
        ),
        collectives=[_exchange(each) for each in exchanges(found)],
        rank=RankRecord(found.rank.rank, found.rank.ranks, found.rank.backend),
        events=EventsRecord(counts.read, dict(counts.used), dict(counts.left_out), counts.lost, found.bytes),
        other_devices={str(device): count for device, count in found.others.items()},
        devices=_devices(found.devices),
        warnings=list(found.warnings),
        mfu=_mfu(found),
        beside=None if model is None else _beside(model),
        ranks=None if run is None else [_rank(each) for each in run.ranks],
        collectives_compared=0 if run is None else run.collectives,
        sampled=None if found.sampled is None else card_record(found.sampled),
        ranges=[
            MarkedRecord(each.name, each.calls, _s(each.host), _s(each.device), each.activities)
            for each in found.ranges
        ],
    )
    return msgspec.to_builtins(record)


def _exchange(each: Exchange) -> ExchangeRecord:
    return ExchangeRecord(
        each.kind,
        each.bytes,
        each.ranks,
        each.calls,
        _s(each.time),
        each.sent,
        each.algbw,
        each.busbw,
        each.link,
        each.link_bandwidth,
        each.of_link,
    )


def _finding(each: Finding) -> FindingRecord:
    return FindingRecord(each.rule, each.title, each.at_stake, list(each.evidence), each.advice)


def _mfu(found: Diagnosis) -> MeasuredMfu | None:
    each = utilisation(found)
    return None if each is None else MeasuredMfu(each.value, each.flops, each.seconds, each.rate, each.peak)


def _beside(each: Beside) -> BesideRecord:
    sides = [
        SideRecord(
            side.op,
            side.predicted_flops,
            side.measured_flops,
            side.predicted_bytes,
            side.measured_bytes,
            side.bound,
            side.seconds,
        )
        for side in each.sides
    ]
    total = each.ledger.total
    return BesideRecord(
        model=each.ledger.model.name,
        workload=setting(each.ledger),
        kernels=sides,
        not_in_step=list(each.without),
        seconds=each.seconds,
        bound_seconds=real(total.bound_seconds),
        mfu=each.mfu,
        unlike=each.unlike,
        notes=list(each.notes),
    )


def _rank(row: RankRow) -> RankRowRecord:
    found = row.found
    return RankRowRecord(
        file=row.name,
        rank=found.rank.rank,
        window_s=_s(found.window),
        busy_s=_s(found.busy),
        compute_s=_s(sum(each.attributed for each in found.breakdown if each.category in COMPUTE)),
        communication_s=_s(found.communication.union),
        exposed_s=_s(found.communication.exposed),
        idle_s=_s(found.idle),
        waiting_s=_maybe(row.waited),
        last_to=row.last,
    )


def _devices(rows: Sequence[DeviceRow]) -> list[DeviceRowRecord]:
    first = min((each.start for each in rows), default=0)
    return [
        DeviceRowRecord(
            device=each.device,
            name=each.name,
            start_s=_s(each.start - first),
            window_s=_s(each.window),
            busy_s=_s(each.busy),
            idle_s=_s(each.idle),
            compute_s=_s(each.compute),
            communication_s=_s(each.communication),
            exposed_s=_s(each.exposed),
            collectives=each.collectives,
            kernels=each.kernels,
            activities=each.activities,
            waiting_s=_maybe(each.waited),
            last_to=each.last,
        )
        for each in rows
    ]


def bandwidth(moved: int, time: int) -> float | None:
    """Bytes a second of a copy; None where one of both is not known [byte/s]."""
    return moved / _s(time) if time > 0 and moved > 0 else None


def _device(found: Diagnosis) -> MeasuredDevice:
    known, asked, card = found.recognition, found.supply, found.card
    bandwidth, clock = (card.bandwidth, card.clock) if card is not None else (None, None)
    name = device_name(found)
    if known is None:
        asked_for = (None, None) if asked is None else (asked.id, found.supply_from)
        return MeasuredDevice(asked_for[0], name, asked_for[1], [], found.device, bandwidth, clock, {})
    ident = known.id if asked is None else asked.id
    said = found.supply_from or known.reason
    return MeasuredDevice(ident, name, said, list(known.candidates), found.device, bandwidth, clock, ridges(found))


def ridges(found: Diagnosis) -> dict[str, float]:
    """Peaks of the recognised device over the bandwidth that the file itself states [FLOP/byte]."""
    known, card = found.recognition, found.card
    if known is None or known.id is None or card is None or not card.bandwidth:
        return {}
    return {rate: peak / card.bandwidth for rate, peak in known.device().peak.items()}


def device_name(found: Diagnosis) -> str:
    """What the file calls it; where that is nothing, the id of the device that it is."""
    known = found.recognition.id if found.recognition is not None else None
    if found.device == HOST:
        return "the host's processor" if found.supply is None else found.supply.name
    return (found.card.name if found.card is not None else "") or known or ""


def earlier(each: Earlier) -> str:
    """Where the activities before the record belong."""
    return f"tail of the step before: they equal the last {each.activities:,} of a recorded step of {each.of:,}"


def _coverage(found: Diagnosis) -> CoverageRecord:
    parts = found.coverage
    if parts is None:
        return CoverageRecord(0.0, 0.0, 0.0, {}, "")
    without = {why: _s(time) for why, time in sorted(parts.without.items(), key=lambda each: -each[1])}
    return CoverageRecord(_s(parts.compute), _s(parts.costed), _s(parts.placed), without, parts.remedy())


def _categories(found: Diagnosis) -> list[CategoryRecord]:
    return [
        CategoryRecord(
            each.category,
            each.calls,
            _s(each.sum),
            _s(each.union),
            _s(each.attributed),
            _s(each.hidden),
            each.attributed,
            *together(row.demand for row in found.kernels if row.category == each.category),
        )
        for each in found.breakdown
    ]


def together(demands: Iterable[Demanded | None]) -> tuple[int, int, float, float | None, float | None]:
    """FLOPs, bytes, seconds of the costed calls, their bound, and its share of these seconds."""
    known = [each for each in demands if each is not None]
    flops, moved = sum(each.flops for each in known), sum(each.bytes for each in known)
    seconds = _s(sum(each.time for each in known))
    bounded = [each for each in known if each.bound is not None]
    if not bounded:
        return flops, moved, seconds, None, None
    least, took = sum(each.bound or 0.0 for each in bounded), _s(sum(each.time for each in bounded))
    return flops, moved, seconds, least, least / took if took else None


def _kernels(found: Diagnosis) -> list[MeasuredKernel]:
    shapes: dict[int, list[Placed]] = {}
    for each in found.placed:
        shapes.setdefault(each.row, []).append(each)
    return [_kernel(row, shapes.get(at, [])) for at, row in enumerate(found.kernels)]


def _kernel(row: KernelRow, shapes: list[Placed]) -> MeasuredKernel:
    demand = row.demand
    return MeasuredKernel(
        name=row.name,
        readable=row.readable,
        category=row.category,
        operator=row.operator,
        calls=row.calls,
        seconds=_s(row.sum),
        share=row.share,
        flops=None if demand is None else demand.flops,
        bytes=None if demand is None else demand.bytes,
        intensity=None if demand is None else demand.intensity,
        bound=None if demand is None else demand.by,  # pyright: ignore[reportArgumentType]
        bound_seconds=None if demand is None else demand.bound,
        of_bound=None if demand is None else demand.of_bound,
        cost_from="unknown" if demand is None else "shapes",
        link_bytes=None if demand is None else demand.link_bytes,
        costed_calls=0 if demand is None else demand.calls,
        costed_seconds=0.0 if demand is None else _s(demand.time),
        note="" if demand is None else demand.note,
        shapes=[_shape(each) for each in shapes[:_SHAPES]],
    )


def _shape(each: Placed) -> ShapeRecord:
    cost, seconds, least = each.work.cost, _s(each.time), each.bound_seconds
    return ShapeRecord(
        operator=each.operator,
        op=each.work.op,
        shapes=each.shapes,
        calls=each.calls,
        pieces=each.parts,
        seconds=seconds,
        flops=whole(cost.total_flops),
        bytes=whole(cost.bytes),
        rate=max(cost.flops, key=lambda rate: real(cost.flops[rate]), default=""),
        bound=None if each.bound is None else each.bound.by,
        bound_seconds=least,
        of_bound=least / seconds if least is not None and seconds else None,
    )


def _steps(steps: Steps) -> StepsRecord:
    rows = [
        StepRecord(each.name, _s(each.length), _s(each.busy), each.warm_up, _s(each.host), each.empty)
        for each in steps.steps
    ]
    return StepsRecord(_s(steps.median), _s(steps.least), _s(steps.most), steps.rule, rows)


def _pass(each: Pass) -> PassRecord:
    return PassRecord(
        each.name,
        each.padded,
        each.context_requests,
        each.context_tokens,
        each.context_kv,
        each.generation_requests,
        each.generation_tokens,
        each.generation_kv,
    )


def _launches(each: Launches) -> LaunchesRecord:
    return LaunchesRecord(
        linked=each.linked,
        unlinked=each.unlinked,
        unlinked_s=_s(each.unlinked_time),
        delay_median_s=_maybe(each.delay),
        delay_p95_s=_maybe(each.delay_most),
        cost_median_s=_maybe(each.cost),
        queue_depth_median=each.depth,
        starved_share=each.starved,
        short_kernels=each.short,
        short_kernels_s=_s(each.short_time),
        graph_replayed=each.replayed,
        graph_captured=each.captured,
    )
