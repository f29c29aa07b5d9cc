"""What a step means for a run: tokens a second, utilisation, days for a budget, and which knob moves it most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, cast

from roofline.errors import BadValue
from roofline.training.fitting import Remedy, remedy
from roofline.training.flows import Flow
from roofline.training.plan import Cluster
from roofline.training.recipe import Recompute
from roofline.training.train import Setting, Step, step
from roofline.training.utilisation import MODELLED, STEP, Mfu, Peak, Run, mfu
from roofline.units import percent, si, significant

Basis = Literal["measured", "measured compute", "derated", "some overlap", "no overlap"]
MORE = 1.1  # how much more of a supply the sensitivity gives


class Knob(NamedTuple):
    """One change, the step's time with it, and the share of the time for a token that it saves."""

    change: str
    seconds: float
    saves: float


@dataclass(frozen=True)
class Answer:
    """A step of single numbers, with the time measured where there is one, and the tokens of a whole run.

    `notes` say what was taken for something else; `measured` is the time of one whole optimizer step [s], `computed`
    that of one without its traffic, but for that of the tensor ranks, which stands between the kernels [s]. Raises
    BadValue for both of them.
    """

    step: Step
    gpus: int
    measured: float | None = None
    budget: int | None = None
    notes: tuple[str, ...] = ()
    computed: float | None = None

    def __post_init__(self) -> None:
        if self.measured is not None and self.computed is not None:
            raise BadValue(
                "A measured time is that of the whole step (--step-time) or of its compute alone (--compute-time), one "
                "of the two."
            )

    @property
    def setting(self) -> Setting:
        """What was trained, on what, how."""
        return self.step.setting

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return int(cast(int, self.setting.tokens))

    @cached_property
    def seconds(self) -> float:
        """The step that MFU and days rest on: as measured, or as its `basis` says [s]."""
        if self.measured is not None:
            return self.measured
        if self.computed is not None:
            return self.computed + self.exposed_seconds
        return float(cast(float, self.step.seconds))

    @property
    def basis(self) -> Basis:
        """What `seconds` are of."""
        if self.measured is not None:
            return "measured"
        if self.computed is not None:
            return "measured compute"
        if self.setting.efficiency is not None:
            return "derated"
        return "some overlap" if self.setting.overlap else "no overlap"

    @cached_property
    def exposed_seconds(self) -> float:
        """Communication beside no compute; where the compute is measured, tensor parallelism is in it [s]."""
        if self.computed is not None:
            return float(cast(float, (1 - self.setting.overlap) * self.step.flow_seconds))
        return float(cast(float, self.step.exposed_seconds))

    @property
    def traffic(self) -> tuple[Flow, ...]:
        """Everything that a rank sends, by kind; tensor parallelism first."""
        tensor = self.step.tensor
        return (*(() if tensor is None else (tensor,)), *self.step.flows)

    @property
    def rest_seconds(self) -> float | None:
        """The step without its exposed communication [s]; None where a measured step is no longer than that."""
        rest = self.seconds - self.exposed_seconds
        return rest if rest > 0 else None

    @property
    def share(self) -> float | None:
        """Exposed communication over the rest of the step; None where a measured step leaves no rest."""
        return None if self.rest_seconds is None else self.exposed_seconds / self.rest_seconds

    @property
    def share_of_step(self) -> float | None:
        """Exposed communication over the whole step, which it makes longer; None as `share` is."""
        return None if self.rest_seconds is None else self.exposed_seconds / self.seconds

    @property
    def tokens_per_second(self) -> float:
        """Of all GPUs together."""
        return self.tokens / self.seconds

    @cached_property
    def days(self) -> float | None:
        """Days for the budget, without failures."""
        return None if self.budget is None else self.budget / self.tokens_per_second / 86_400

    @cached_property
    def gpu_hours(self) -> float | None:
        """GPU-hours for the budget."""
        return None if self.days is None else self.days * 24 * self.gpus

    @cached_property
    def utilisation(self) -> Mfu:
        """MFU and HFU at this step's time."""
        setting, recipe = self.setting, self.setting.recipe
        peak = Peak.of(setting.cluster.device, recipe.precision.compute)
        given = MODELLED if self.measured is None else STEP
        run = Run(self.tokens_per_second, self.gpus, given=given)
        return mfu(setting.model, peak, run, sequence=setting.length, recipe=recipe, recompute=recipe.recompute)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What cannot be, or is probably mixed up: a measured time under its bound, a share over 1."""
        known = self.setting.cluster.device.assumptions
        return (*_too_fast(self), *(each for each in self.utilisation.warnings if each not in known))

    @cached_property
    def remedy(self) -> Remedy | None:
        """What would make a plan fit that does not; None where it does, or where nothing is enough."""
        return remedy(self.setting, self.gpus) if self.step.footprint.fits == 0 else None

    @cached_property
    def knobs(self) -> tuple[Knob, ...]:
        """What a tenth more of each supply, and each choice, would save, most first."""
        now = float(cast(float, self.step.seconds)) / self.tokens
        found: list[Knob] = []
        for change, setting in _changes(self.setting):
            seconds = float(cast(float, step(setting).seconds))
            found.append(Knob(change, seconds, 1 - seconds / cast(float, setting.tokens) / now))
        return tuple(sorted(found, key=lambda each: -each.saves))

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """What the numbers take for granted, in sentences."""
        return tuple(_assumptions(self))


_CHECK = "Check --global-batch, --gpus, --device, the plan and --recompute"


def _too_fast(answer: Answer) -> Iterator[str]:
    """A measured time that is shorter than its bound."""
    step = answer.step
    floor, bound = (float(cast(float, each)) for each in (step.floor_seconds, step.bound_seconds))
    compute = float(cast(float, step.compute_seconds))
    if answer.measured is not None and answer.measured < floor:
        yield (
            f"The measured step of {si(answer.measured, 's')} is {significant(floor / answer.measured)} times faster "
            f"than its floor of {si(floor, 's')}, which cannot be. --step-time is that of a whole optimizer step, "
            f"every micro-batch of it. {_CHECK}"
        )
    elif answer.measured is not None and answer.measured < bound:
        yield (
            f"The measured step of {si(answer.measured, 's')} is {significant(bound / answer.measured)} times faster "
            f"than the bound of {si(bound, 's')}, of kernels one after another: the run overlaps or fuses some, or "
            f"this is not how it ran. {_CHECK}"
        )
    if answer.computed is not None and answer.computed < compute:
        yield (
            f"The measured compute of {si(answer.computed, 's')} is {significant(compute / answer.computed)} times "
            f"faster than its bound of {si(compute, 's')}, of kernels one after another. {_CHECK}"
        )


def _changes(setting: Setting) -> Iterator[tuple[str, Setting]]:
    """Settings beside this one, each with one thing changed."""
    cluster, device, plan = setting.cluster, setting.cluster.device, setting.plan
    more = percent(MORE - 1)

    def on(changed: Cluster) -> Setting:
        return replace(setting, cluster=changed)

    rate = setting.recipe.precision.compute
    peak = {**device.peak, rate: device.peak[rate] * MORE}
    yield f"{more} more {rate} peak", on(replace(cluster, device=replace(device, peak=peak)))
    yield (
        f"{more} more memory bandwidth",
        on(replace(cluster, device=replace(device, bandwidth=device.bandwidth * MORE))),
    )
    if cluster.near is not None:
        yield f"{more} more scale-up bandwidth", on(replace(cluster, busbw=cluster.near * MORE))
    if cluster.network is not None:
        yield f"{more} more network bandwidth", on(replace(cluster, network=cluster.network * MORE))
    if setting.overlap != 1:
        yield "all that can overlap does", replace(setting, overlap=1.0)
    if setting.recipe.recompute.word != "none":
        yield "no recomputation", replace(setting, recipe=replace(setting.recipe, recompute=Recompute()))
    if plan.pp != 1 and plan.schedule != "zero-bubble":
        yield "a zero-bubble schedule", replace(setting, plan=replace(plan, schedule="zero-bubble"))
    yield "twice the micro-batches a step", replace(setting, plan=replace(plan, accumulate=2 * plan.accumulate))


def _assumptions(answer: Answer) -> Iterator[str]:
    setting = answer.setting
    plan, recipe, cluster = setting.plan, setting.recipe, setting.cluster
    yield from answer.notes
    yield from (*cluster.device.assumptions, *setting.model.assumptions)
    if cluster.domain is None and plan.ranks != 1:
        yield "How many devices the link joins is not in the device's file: all ranks are taken as on it (--per-node)"
    unknown = [each.kind for each in answer.step.flows if each.seconds is None]
    if unknown:
        yield (
            f"The network between nodes is not known (--network-busbw): {', '.join(dict.fromkeys(unknown))} traffic "
            "takes no time here, and every time is a lower bound"
        )
    yield "Bounds: each kernel at datasheet peak or bandwidth, one after another, no launch or link latency"
    yield "Backward: two GEMMs for each forward one" + (
        "" if not recipe.flash else "; FlashAttention makes its scores again, 2.5 times the forward"
    )
    if recipe.lora or recipe.frozen:
        yield "Frozen weights have no gradient and no optimizer state"
    yield (
        f"{recipe.optimizer} {'fused' if recipe.fused else 'one tensor pass after another'}: "
        f"{significant(float(cast(float, recipe.update_bytes)))} bytes moved a parameter; {recipe.state_bytes} bytes "
        f"of state, gradients in {recipe.gradients}"
    )
    yield from _of_plan(answer)
    overlap = percent(float(cast(float, setting.overlap)))
    yield f"{overlap} of the traffic that can overlap with compute does (--overlap); the bound has all of it"
    yield (
        f"Memory: {percent(setting.reserve)} of the capacity is kept for fragmentation and libraries (--reserve); "
        f"activations are what the backward pass reads again, {'with' if setting.dropout else 'without'} dropout masks"
    )


def _of_plan(answer: Answer) -> Iterator[str]:
    """What the parallelism takes for granted."""
    plan = answer.setting.plan
    if plan.tp > 1:
        yield "Tensor-parallel collectives stand on the critical path: nothing overlaps them"
    if plan.tp > 1 and plan.ep != 1:
        yield (
            "Every expert is split over the tensor ranks: each sends its 1/tp of the tokens, and their rows are "
            "gathered between the tensor ranks, and scattered"
            if plan.sequence_parallel
            else "Every tensor rank sends all tokens of its group to their experts; --sequence-parallel, which "
            "Megatron-LM wants beside experts over ranks, sends 1/tp of them"
        )
    if answer.traffic:
        yield "Bytes are those of rings; a switch that reduces in the network, or compression, can send less"
    if plan.pp != 1:
        stages = plan.stages(answer.setting.model.layers)
        uneven = "; the ends of the model stand on stages with fewer layers" if stages.short else ""
        yield f"{stages.words}, taken as alike{uneven}: the slowest stage sets the pipeline's pace"
    if plan.zero in (2, 3) and plan.accumulate != 1:
        yield "ZeRO-2 and 3 reduce gradients every micro-batch; ZeRO-3 gathers weights twice every micro-batch"
