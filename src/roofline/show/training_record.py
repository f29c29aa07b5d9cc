"""Answers about training as JSON types, by the Structs of `roofline.show.training_schema`."""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from roofline.bound import bound
from roofline.cost import Cost
from roofline.num import Num
from roofline.show.training_schema import (
    BudgetRecord,
    CandidateRecord,
    CollectiveRecord,
    CommunicationRecord,
    ConventionRecord,
    FlowRecord,
    KnobRecord,
    LevelRecord,
    MfuRecord,
    PlanRecord,
    RecipeRecord,
    SearchRecord,
    ShareRecord,
    SizeRecord,
    StepKernel,
    StepTimes,
    TrainingMemory,
    TrainRecord,
)
from roofline.training.answer import Answer
from roofline.training.flows import Flow
from roofline.training.plan import FAR, NEAR, Plan
from roofline.training.recipe import Recipe
from roofline.training.search import Found
from roofline.training.train import Call
from roofline.training.utilisation import Mfu
from roofline.training.wire import Collective


def _plain(record: msgspec.Struct) -> dict[str, Any]:
    return cast(dict[str, Any], msgspec.to_builtins(record))


def mfu_record(answer: Mfu) -> dict[str, Any]:
    """A run's utilisation under every convention."""
    subject, run, peak = answer.subject, answer.run, answer.peak
    return _plain(
        MfuRecord(
            schema="roofline.mfu/1",
            model=_size(answer),
            device=peak.owner,
            gpus=run.gpus,
            tokens_per_second=run.tokens_per_second,
            tokens_per_second_per_gpu=run.tokens_per_second / run.gpus,
            padding=run.padding,
            sequence=cast("int | None", subject.sequence),
            recompute=None if subject.recompute is None else subject.recompute.name,
            conventions=_conventions(answer),
            warnings=list(answer.warnings),
            assumptions=list(answer.assumptions),
        )
    )


def _size(answer: Mfu) -> SizeRecord:
    subject = answer.subject
    return SizeRecord(
        answer.name,
        cast(float, subject.parameters),
        cast(float, subject.total),
        cast("float | None", subject.width),
        subject.trainable,
    )


def _conventions(answer: Mfu) -> list[ConventionRecord]:
    peak = answer.peak
    return [
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


def _f(n: Num | None) -> float:
    return float(cast(float, n))


def plan_record(plan: Plan) -> PlanRecord:
    """A plan of single numbers."""
    return PlanRecord(
        dp=cast(int, plan.dp),
        tp=plan.tp,
        pp=cast(int, plan.pp),
        cp=cast(int, plan.cp),
        ep=cast(int, plan.ep),
        zero=cast(int, plan.zero),
        micro_batch=cast(int, plan.micro_batch),
        accumulate=cast(int, plan.accumulate),
        sequence_parallel=plan.sequence_parallel,
        schedule=plan.schedule,
        chunks=cast(int, plan.chunks),
        shard_group=cast(int, plan.shard_group),
    )


def _recipe(recipe: Recipe) -> RecipeRecord:
    return RecipeRecord(
        rate=recipe.precision.compute,
        weights=recipe.precision.weights,
        activations=recipe.precision.activations,
        gradients=recipe.gradients,
        optimizer=recipe.optimizer,
        fused=recipe.fused,
        recompute=recipe.recompute.name,
        flash_attention=recipe.flash,
        lora=recipe.lora,
        frozen=sorted(recipe.frozen),
        document=recipe.documents,
    )


def _train(answer: Answer) -> TrainRecord:
    step, used = answer.step, answer.utilisation
    budget = None
    if answer.budget is not None:
        budget = BudgetRecord(answer.budget, _f(answer.days), _f(answer.gpu_hours))
    return TrainRecord(
        schema="roofline.train/1",
        model=_size(used),
        device=answer.setting.cluster.device.id,
        gpus=answer.gpus,
        tokens=answer.tokens,
        sequence=answer.setting.length,
        plan=plan_record(answer.setting.plan),
        stage_layers=list(answer.setting.plan.stages(answer.setting.model.layers).counts),
        recipe=_recipe(answer.setting.recipe),
        time=StepTimes(
            seconds=answer.seconds,
            basis=answer.basis,
            bound_seconds=_f(step.bound_seconds),
            floor_seconds=_f(step.floor_seconds),
            no_overlap_seconds=_f(step.no_overlap_seconds),
            compute_seconds=_f(step.compute_seconds),
            expected_seconds=None,
            measured_seconds=answer.measured,
            measured_compute_seconds=answer.computed,
            bubble_share=_f(step.bubble_share),
        ),
        tokens_per_second=answer.tokens_per_second,
        flops=_f(step.flops),
        conventions=_conventions(used),
        communication=_communication(answer),
        kernels=[_kernel(each, answer) for each in step.calls],
        memory=_memory(answer),
        budget=budget,
        sensitivity=[KnobRecord(*each) for each in answer.knobs],
        warnings=list(answer.warnings),
        assumptions=list(answer.assumptions),
    )


def train_record(answer: Answer) -> dict[str, Any]:
    """One step, its traffic, memory and kernels."""
    return _plain(_train(answer))


def _kernel(call: Call, answer: Answer) -> StepKernel:
    cost, step = call.work.cost, answer.step
    known = set(cost.links) <= {each.name for each in step.device.links}
    by = bound(cost if known else Cost(cost.flops, cost.memory), step.device).by
    seconds = _f(call.calls * step.seconds_of(call.work))
    return StepKernel(
        name=call.name,
        op=call.work.op,
        part=call.part,
        stage=cast(Any, call.stage),
        count=cast(float, call.calls),
        flops=cast(float, call.calls * cost.total_flops),
        bytes=cast(float, call.calls * cost.bytes),
        link_bytes=cast(float, call.calls * cost.link_bytes),
        intensity=_f(cost.intensity),
        bound_seconds=seconds,
        bound=by if known else "link",
        share=seconds / _f(step.compute_seconds),
    )


def _communication(answer: Answer) -> CommunicationRecord:
    kinds = [_flow(each, answer) for each in answer.traffic]
    return CommunicationRecord(
        bytes_per_rank=sum(each.bytes_per_rank for each in kinds),
        seconds=sum(each.seconds or 0.0 for each in kinds),
        exposed_seconds=answer.exposed_seconds,
        share=answer.share,
        share_of_step=answer.share_of_step,
        kinds=kinds,
    )


def link_of(flow: Flow) -> Literal["scale-up", "network", "both", "none"]:
    """The link that carries a flow."""
    near, far = bool(flow.on(NEAR)), bool(flow.on(FAR))
    return "both" if near and far else "scale-up" if near else "network" if far else "none"


def _flow(flow: Flow, answer: Answer) -> FlowRecord:
    rest = answer.rest_seconds
    exposed = None
    if flow.seconds is not None:
        exposed = _f(flow.seconds * (1 - answer.setting.overlap) if flow.overlaps else flow.seconds)
    return FlowRecord(
        kind=flow.kind,
        what=flow.what,
        op=flow.work.op,
        link=link_of(flow),
        ranks=int(_f(flow.ranks)),
        calls=int(_f(flow.calls)),
        bytes_per_rank=_f(flow.sent),
        seconds=None if flow.seconds is None else _f(flow.seconds),
        exposed_seconds=exposed,
        share=None if exposed is None or rest is None else exposed / rest,
    )


def _memory(answer: Answer) -> TrainingMemory:
    held, remedy = answer.step.footprint, answer.remedy
    most = held.largest_micro_batch
    return TrainingMemory(
        weight_bytes=_f(held.weight_bytes),
        gradient_bytes=_f(held.gradient_bytes),
        optimizer_bytes=_f(held.optimizer_bytes),
        activation_bytes=_f(held.activation_bytes),
        logit_bytes=_f(held.logit_bytes),
        total_bytes=_f(held.total_bytes),
        capacity_bytes=held.capacity_bytes,
        reserve=held.reserve,
        fits=None if held.fits is None else bool(held.fits),
        largest_micro_batch=None if most is None else int(_f(most)),
        fits_with=None if remedy is None else remedy.options,
    )


def search_record(found: Found, answer: Answer | None) -> dict[str, Any]:
    """The best plan and the Pareto set."""
    return _plain(
        SearchRecord(
            schema="roofline.search/1",
            looked_at=found.looked_at,
            fitting=found.fitting,
            pareto=[
                CandidateRecord(
                    plan_record(each.plan),
                    each.recompute,
                    each.seconds,
                    each.memory_bytes,
                    each.exposed_seconds,
                    each.bubble_share,
                    each.why,
                )
                for each in found.pareto
            ],
            refused=dict(found.refused),
            best=None if answer is None else _train(answer),
        )
    )
