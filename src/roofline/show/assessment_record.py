"""An assessment as JSON types."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from roofline.diagnosis.assessment import Assessment, BenchmarkRow, CardState, CollectiveRun, KernelGroup
from roofline.diagnosis.findings import Finding
from roofline.show.assessment_schema import (
    AssessmentRecord,
    BenchmarkRecord,
    CardRecord,
    CollectiveRunRecord,
    CountedKernel,
    SizeRecord,
)
from roofline.show.measured_schema import FindingRecord, MeasuredDevice


def assessment_record(found: Assessment) -> dict[str, Any]:
    """An assessment as JSON types."""
    rows = found.rows
    groups = [each for each in rows if isinstance(each, KernelGroup)]
    device = found.device
    catalogued = device is not None and device.id != "measured"
    return cast(
        dict[str, Any],
        msgspec.to_builtins(
            AssessmentRecord(
                schema="roofline.diagnosis/1",
                kind=cast(Any, found.kind),
                source=found.source,
                format=found.format,
                device=MeasuredDevice(
                    device.id if device is not None and catalogued else None,
                    device.name if device is not None else found.card,
                    found.recognised_from or None,
                    [],
                    None,
                    None if device is None else device.bandwidth,
                    None,
                    {} if device is None else {rate: device.ridge_point(rate) for rate in device.peak},
                ),
                window_s=None,
                busy_s=None,
                idle_s=None,
                breakdown=None,
                measured_s=found.seconds,
                kernels=[_kernel(each) for each in groups],
                cards=[card_record(each) for each in rows if isinstance(each, CardState)],
                collectives=[_collective(each) for each in rows if isinstance(each, CollectiveRun)],
                benchmarks=[_benchmark(each) for each in rows if isinstance(each, BenchmarkRow)],
                coverage=sum(each.share or 0.0 for each in groups if each.flops is not None and each.bytes is not None),
                findings=[finding_record(each) for each in found.findings],
                verdict=found.verdict,
                left_out=dict(found.left_out),
                notes=list(found.notes),
                warnings=list(found.warnings),
            )
        ),
    )


def finding_record(each: Finding) -> FindingRecord:
    """A finding as JSON types."""
    return FindingRecord(each.rule, each.title, each.at_stake, list(each.evidence), each.advice)


def _kernel(each: KernelGroup) -> CountedKernel:
    point = each.point
    return CountedKernel(
        name=each.name,
        readable=each.readable,
        category=each.category,
        grid=each.grid,
        block=each.block,
        calls=each.calls,
        seconds=each.seconds,
        share=each.share,
        flops=each.flops,
        bytes=each.bytes,
        l2_bytes=each.l2_bytes,
        intensity=each.flops / each.bytes if each.flops is not None and each.bytes else None,
        bound=None if point is None else str(point.bound.by),
        bound_seconds=each.bound_seconds,
        of_bound=each.of_bound,
        limit=each.limit,
        cost_from="unknown" if each.bytes is None else "counters",
        traffic=None if point is None else point.traffic,
        dram_share=each.dram_share,
        tool_shares=dict(each.tool),
        flops_by_rate=dict(each.rates),
        ideal_bytes=each.ideal_bytes,
        reread=each.reread,
        remarks=list(each.remarks),
    )


def card_record(each: CardState) -> CardRecord:
    """A card over its samples as JSON types."""
    return CardRecord(
        name=each.name,
        card=each.card,
        device=None if each.device is None else each.device.id,
        samples=each.samples,
        span_s=each.span,
        state=each.verdict,
        sentence=each.sentence,
        states=dict(each.states),
        counters=dict(each.means),
        bandwidth=each.bandwidth,
        flops_per_second=dict(each.flops),
        links=dict(each.links),
    )


def _collective(each: CollectiveRun) -> CollectiveRunRecord:
    of_link = each.busbw / each.link_bandwidth if each.busbw is not None and each.link_bandwidth else None
    return CollectiveRunRecord(
        kind=each.kind,
        ranks=each.ranks,
        nodes=each.nodes,
        ranks_per_node=each.per_node,
        cards=list(each.cards),
        factor=each.factor,
        busbw=each.busbw,
        busbw_bytes=each.at,
        latency_s=each.latency,
        bandwidth=each.bandwidth,
        fit_error=each.fit_error,
        half_bytes=each.half_size,
        link=each.link,
        link_bandwidth=each.link_bandwidth,
        of_link=of_link,
        in_network_reduction=each.in_network,
        disagreeing=each.disagree,
        average_busbw=each.average,
        wrong=each.wrong,
        sizes=[
            SizeRecord(row.size, row.seconds, row.algbw, row.busbw, row.printed_algbw, row.printed_busbw, row.wrong)
            for row in each.rows
        ],
    )


def _benchmark(each: BenchmarkRow) -> BenchmarkRecord:
    return BenchmarkRecord(
        tool=each.tool,
        phase=each.phase,
        model=each.model,
        measured=each.measured,
        unit=each.unit,
        bound=each.bound,
        of_bound=each.of_bound,
        bound_by=each.bound_by,
        reach=list(each.reach) if each.reach is not None else None,
        concurrency=each.concurrency,
        input_tokens=each.input_tokens,
        output_tokens=each.output_tokens,
        ranks=each.ranks,
        per_token_s=each.per_token,
        pass_bound_s=each.step_bound,
        sentence=each.sentence,
        reason=each.reason,
        facts=dict(each.facts),
    )
