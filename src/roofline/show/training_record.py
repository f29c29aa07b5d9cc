"""Answers about training as JSON types, by the Structs of `roofline.show.training_schema`."""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from roofline.show.training_schema import (
    CollectiveRecord,
    ConventionRecord,
    LevelRecord,
    MfuRecord,
    ShareRecord,
    SizeRecord,
)
from roofline.training.utilisation import Mfu
from roofline.training.wire import Collective


def _plain(record: msgspec.Struct) -> dict[str, Any]:
    return cast(dict[str, Any], msgspec.to_builtins(record))


def mfu_record(answer: Mfu) -> dict[str, Any]:
    """A run's utilisation under every convention."""
    subject, run, peak = answer.subject, answer.run, answer.peak
    conventions = [
        ConventionRecord(
            name=each.convention.name,
            kind=cast(Literal["mfu", "hfu"], each.convention.kind),
            flops_per_token=cast("float | None", each.flops_per_token),
            value=cast("float | None", each.value),
            peak_rate=peak.rate,
            peak=peak.flops_per_second,
            formula=each.convention.formula,
            source=each.convention.source,
            excludes=each.convention.excludes,
            unknown=each.unknown,
        )
        for each in answer.conventions
    ]
    return _plain(
        MfuRecord(
            schema="roofline.mfu/1",
            model=SizeRecord(
                answer.name,
                cast(float, subject.parameters),
                cast(float, subject.total),
                cast("float | None", subject.width),
                subject.trainable,
            ),
            device=peak.owner,
            gpus=run.gpus,
            tokens_per_second=run.tokens_per_second,
            tokens_per_second_per_gpu=run.tokens_per_second / run.gpus,
            padding=run.padding,
            sequence=cast("int | None", subject.sequence),
            recompute=None if subject.recompute is None else subject.recompute.name,
            conventions=conventions,
            warnings=list(answer.warnings),
            assumptions=list(answer.assumptions),
        )
    )


def collective_record(answer: Collective, step_seconds: float | None = None) -> dict[str, Any]:
    """One collective, and its share of a step where one is given."""
    moved = answer.traffic
    step = None
    if step_seconds is not None:
        share = answer.seconds / step_seconds
        step = ShareRecord(step_seconds, share, share / (1 + share))
    return _plain(
        CollectiveRecord(
            schema="roofline.collective/1",
            kind=answer.kind,
            bytes=answer.size,
            ranks=answer.ranks,
            algorithm=answer.algorithm,
            bytes_sent_per_rank=moved.sent,
            bytes_received_per_rank=moved.received,
            steps=moved.steps,
            seconds=answer.seconds,
            latency_seconds=answer.latency_seconds,
            algbw=answer.algbw,
            busbw=answer.busbw,
            least_bytes_per_rank=answer.least_bytes,
            bound_seconds=answer.bound_seconds,
            levels=[LevelRecord(each.name, each.ranks, each.sent, each.seconds) for each in answer.levels],
            step=step,
            assumptions=list(answer.notes),
        )
    )
