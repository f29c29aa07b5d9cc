"""Predictions as JSON types, by the Structs of `roofline.show.prediction_schema`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from roofline.bound import Point
from roofline.capacity import memory
from roofline.errors import BadValue
from roofline.ledger import Ledger, Total
from roofline.show.catalogue_record import figures, plain
from roofline.show.prediction_schema import (
    AgainstRecord,
    ByHandRecord,
    CrossoverRecord,
    CrossoversRecord,
    EfficiencyRecord,
    KernelRecord,
    LedgerRecord,
    LeverRecord,
    MeasuredRecord,
    MemoryRecord,
    NamedDevice,
    NamedModel,
    OpRecord,
    PriceRecord,
    RatioRecord,
    ReachRecord,
    Resource,
    RowsRecord,
    Sources,
    TimeModel,
    TotalRecord,
    WorkloadRecord,
)
from roofline.verdicts import verdict
from roofline.workload import Rows

if TYPE_CHECKING:
    from roofline.byhand import ByHand
    from roofline.comparison import Measured, Price
    from roofline.crossing import Crossovers


def ledger_record(
    ledger: Ledger, against: Ledger | None = None, measured: Measured | None = None, price: Price | None = None
) -> dict[str, Any]:
    """A scalar ledger as JSON types, with what it stands beside; raises BadValue for one over arrays."""
    return plain(_ledger(ledger, against, measured, price))


def _ledger(
    ledger: Ledger, against: Ledger | None = None, measured: Measured | None = None, price: Price | None = None
) -> LedgerRecord:
    if not isinstance(ledger.total.seconds, (int, float)):
        raise BadValue("A ledger over arrays is no single record. Predict one setting, or read its arrays.")
    shares = ledger.efficiency
    return LedgerRecord(
        schema="roofline.ledger/1",
        model=NamedModel(ledger.model.name, ledger.model.parameters()),
        device=NamedDevice(ledger.device.id, ledger.device.name),
        workload=_workload(ledger),
        time_model=TimeModel(
            "bound" if shares is None else "derated", None if shares is None else EfficiencyRecord(*shares)
        ),
        verdict=verdict(ledger),
        total=_total(ledger),
        kernels=_kernels(ledger),
        levers=[LeverRecord(*each) for each in ledger.levers],
        memory=_memory(ledger),
        assumptions=list(ledger.assumptions),
        sources=Sources(dict(ledger.model.sources), figures(ledger.device, used(ledger))),
        measured=None if measured is None else _measured(measured),
        price=None if price is None else PriceRecord(*price),
        against=None if against is None else _against(ledger, against),
    )


def _measured(measured: Measured) -> MeasuredRecord:
    found = measured.reach
    reach = None if found is None else ReachRecord(*found)
    return MeasuredRecord(*measured[:3], reach, measured.sentence)


def _against(ledger: Ledger, against: Ledger) -> AgainstRecord:
    from roofline.comparison import Comparison

    pair = Comparison(ledger, against)
    rows = [RatioRecord(row.name, row.seconds, row.against, row.ratio, row.against - row.seconds) for row in pair.rows]
    return AgainstRecord(_ledger(pair.against), pair.speed, rows, pair.reason)


def crossovers_record(answer: Crossovers) -> dict[str, Any]:
    """Where the verdicts turn, as JSON types."""
    base, shares = answer.base, answer.efficiency
    return plain(
        CrossoversRecord(
            schema="roofline.crossover/1",
            model=NamedModel(base.model.name, base.model.parameters()),
            device=NamedDevice(base.device.id, base.device.name),
            workload=_workload(base),
            efficiency=None if shares is None else EfficiencyRecord(*shares),
            ridge=answer.ridge,
            crossovers=[CrossoverRecord(*each) for each in answer.found],
            limit_intensity=answer.limit_intensity,
            limit_tokens_per_second=answer.limit_tokens_per_second,
            max_sequences=answer.max_sequences,
            assumptions=list(base.assumptions),
        )
    )


def ops_record(found: ByHand, others: Sequence[ByHand]) -> dict[str, Any]:
    """One operation by hand, as JSON types."""
    device = found.point.device
    record = ByHandRecord(
        **msgspec.structs.asdict(_op(found)),
        schema="roofline.op/1",
        device=NamedDevice(device.id, device.name),
        beside=[_op(each) for each in others],
        assumptions=found.notes,
    )
    return plain(record)


def _op(found: ByHand) -> OpRecord:
    point = found.point
    work, bound = point.work, point.bound
    peak = point.device.peak.get(point.rate)
    reached = cast(float, point.attainable) or None
    return OpRecord(
        op=work.op,
        dims=cast("dict[str, float]", dict(work.dims)),
        options=dict(found.options),
        flops=cast(int, work.flops),
        bytes=cast(int, work.bytes),
        memory_bytes=cast("dict[str, int]", dict(work.cost.memory)),
        link_bytes=_whole(cast(float, work.cost.link_bytes)),
        intensity=cast(float, work.intensity),
        ridge=peak / point.device.bandwidth if peak else None,
        compute_seconds=cast(float, bound.compute),
        memory_seconds=cast(float, bound.memory),
        link_seconds=cast(float, bound.link),
        launch_seconds=cast(float, bound.launch),
        bound_seconds=cast(float, bound.seconds),
        no_overlap_seconds=cast(float, bound.no_overlap),
        bound=bound.by,
        attainable=reached,
        of_peak=reached / peak if reached and peak else None,
        formula={what: each.text for what, each in found.formulas.items()},
    )


def _rows(rows: Rows) -> RowsRecord:
    sizes = (rows.sequences, rows.new, rows.context)
    sequences, new, context = (cast(int, each) for each in sizes)
    phase = cast(Literal["decode", "prefill", "call"], rows.phase)
    return RowsRecord(phase, sequences, new, context, "all" if rows.all_logits else "last")


def _workload(ledger: Ledger) -> WorkloadRecord:
    groups = [_rows(each) for each in ledger.workload.groups]
    precision = ledger.precision
    return WorkloadRecord(
        phase=cast(Literal["decode", "prefill", "mixed", "call"], ledger.workload.phase),
        sequences=groups[0].sequences,
        new_tokens=groups[0].new_tokens,
        context=groups[0].context,
        tokens=cast(int, ledger.workload.tokens),
        groups=groups,
        weights=precision.weights,
        kv=precision.kv,
        activations=precision.activations,
        compute=precision.compute,
        tp=ledger.shard.tp,
        fused=ledger.fused,
        experts_touched=cast("float | None", ledger.workload.spread.touched),
        expert_skew=ledger.workload.spread.skew,
        source=None if ledger.model.encoder is None else cast(int, ledger.model.encoder.source),
    )


def _total(ledger: Ledger) -> TotalRecord:
    total: Total = ledger.total
    return TotalRecord(
        flops=cast(int, total.flops),
        bytes=sum(_moved(point) for point in ledger.kernels),
        intensity=cast(float, total.intensity),
        seconds=cast(float, total.seconds),
        bound_seconds=cast(float, total.bound_seconds),
        floor_seconds=cast(float, total.floor_seconds),
        no_overlap_seconds=cast(float, total.no_overlap_seconds),
        expected_seconds=cast("float | None", total.expected_seconds),
        tokens_per_second=cast(float, total.tokens_per_second),
        decode_tokens_per_second=_rate(ledger, "decode"),
        prefill_tokens_per_second=_rate(ledger, "prefill"),
        bound=cast(Resource, total.bound),
        of_peak=cast(float, total.of_peak),
        ridge=ledger.device.ridge_point(ledger.precision.compute),
    )


def _rate(ledger: Ledger, phase: str) -> float:
    """New tokens a second of the rows of one phase."""
    tokens = sum(cast(int, rows.tokens) for rows in ledger.workload.groups if rows.phase == phase)
    return tokens / cast(float, ledger.total.seconds)


def _kernels(ledger: Ledger) -> list[KernelRecord]:
    whole = cast(float, ledger.total.seconds)
    rows: list[KernelRecord] = []
    for point, time in zip(ledger.kernels, ledger.times, strict=True):
        count, cost = point.count, point.work.cost
        moved = cast("dict[str, int]", cost.memory)
        rows.append(
            KernelRecord(
                name=point.name,
                op=point.work.op,
                part=point.part,
                count=count,
                flops=cast(int, point.flops),
                bytes=_moved(point),
                weight_bytes=count * moved.get("weights", 0) + _routed(point),
                kv_bytes=count * moved.get("kv", 0),
                activation_bytes=count * (moved.get("activations", 0) + moved.get("output", 0)),
                link_bytes=_whole(count * cast(float, cost.link_bytes)),
                intensity=cast(float, cost.intensity),
                seconds=cast(float, time),
                bound_seconds=cast(float, point.bound_seconds),
                expected_seconds=None,
                bound=point.bound.by,
                share=cast(float, time) / whole,
            )
        )
    return rows


def _routed(point: Point) -> int:
    """Bytes of the experts beyond the fewest: an expectation, rounded up."""
    return _whole(point.count * cast(float, point.work.cost.memory.get("routed", 0)))


def _moved(point: Point) -> int:
    """Memory bytes of all calls of a kernel."""
    apart = (cast(int, n) for role, n in point.work.cost.memory.items() if role != "routed")
    return point.count * sum(apart) + _routed(point)


def _whole(n: float) -> int:
    """Bytes on a link as an int: a rank's average, rounded up where the ranks do not divide the buffer."""
    return -int(-n // 1)


def _memory(ledger: Ledger) -> MemoryRecord:
    held = memory(ledger)
    return MemoryRecord(
        weight_bytes=held.weight_bytes,
        kv_bytes=held.kv_bytes,
        activation_bytes=held.activation_bytes,
        total_bytes=held.total_bytes,
        capacity_bytes=held.capacity_bytes,
        fits=held.fits,
        max_sequences=held.max_sequences,
        max_context=held.max_context,
    )


def used(ledger: Ledger) -> tuple[str, ...]:
    """Keys of the device's figures that a ledger rests on."""
    rates = {rate for point in ledger.kernels for rate in point.work.cost.flops}
    links = {name for point in ledger.kernels for name in point.work.cost.links}
    wires = tuple(f"link.{name}.bandwidth" for name in sorted(links))
    return (
        "memory.bandwidth",
        "memory.capacity",
        "memory.reported",
        *(f"peak.{rate}" for rate in sorted(rates)),
        *wires,
    )
