"""A training step under a plan: its times, what is sent, what is held, and how well the devices are used."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from roofline.bound import bound
from roofline.collectives import all_gather
from roofline.cost import Cost, Work
from roofline.device import Device, check_shares
from roofline.errors import BadValue
from roofline.model import Model
from roofline.num import Num, exact_div, maximum, where
from roofline.training import flows as wires
from roofline.training.conventions import check_causal, check_frozen
from roofline.training.experts import over_ranks
from roofline.training.flows import Flow, flows
from roofline.training.memory import Footprint, footprint
from roofline.training.plan import FAR, NEAR, Cluster, Plan, check
from roofline.training.recipe import Recipe
from roofline.training.step import (
    AFTER,
    BEFORE,
    FORWARD,
    INPUTS,
    LAYERS,
    RECOMPUTED,
    WEIGHTS,
    Row,
    flops,
    micro_batch,
    rows,
    update,
)

_STAGES = (FORWARD, RECOMPUTED, INPUTS, WEIGHTS)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, on what, how: a model, its plan on a cluster, its recipe, sequences of `length` tokens.

    `efficiency` are shares of bandwidth and peak that the derated times assume, None for bounds alone. `overlap` is
    the share of the traffic that can overlap with compute, and does.
    """

    model: Model
    cluster: Cluster
    plan: Plan
    length: int
    recipe: Recipe = field(default_factory=Recipe)
    overlap: Num = 0.0
    efficiency: tuple[float, float] | None = None
    reserve: float = 0.0
    dropout: bool = False

    @property
    def tokens(self) -> Num:
        """Tokens of the global batch."""
        return self.plan.dp * self.plan.micro_batch * self.plan.accumulate * self.length


class Call(NamedTuple):
    """A kernel of the step and how often the rank calls it in all its micro-batches."""

    name: str
    part: str
    stage: str
    work: Work
    calls: Num


class Times(NamedTuple):
    """Seconds of one micro-batch on the slowest pipeline stage, by what they are for."""

    forward: Num
    recomputed: Num
    inputs: Num
    weights: Num

    @property
    def total(self) -> Num:
        """All of them [s]."""
        return self.forward + self.recomputed + self.inputs + self.weights


@dataclass(frozen=True)
class Step:
    """One optimizer step of one rank of the slowest pipeline stage.

    `rows` are of one micro-batch of all layers on the tensor and context ranks' shares. Times [s]:
    `compute_seconds` of kernels and of the tensor ranks' all-reduces, one after another, with the pipeline's bubble
    and the update; `bound_seconds` the same with all other traffic beside it; `floor_seconds` perfect overlap of
    everything, the bubble too; `no_overlap_seconds` everything one after another; `seconds` with the share of
    overlap asked for, at the efficiency asked for. Links without a known bandwidth take no time: the bounds stay
    lower bounds.
    """

    setting: Setting
    rows: tuple[Row, ...]
    update: Row
    flows: tuple[Flow, ...]
    footprint: Footprint

    @cached_property
    def times(self) -> Times:
        """Of a micro-batch at its bound."""
        return self._times(None)

    def _times(self, efficiency: tuple[float, float] | None) -> Times:
        spent: dict[tuple[str, str], Num] = {}
        for row in self.rows:
            seconds = row.calls * _seconds(row.work, self.setting.cluster, efficiency)
            spent[row.where, row.stage] = spent.get((row.where, row.stage), 0) + seconds
        stages = self.setting.plan.stages(self.setting.model.layers)
        layers, before, after = (sum(spent.get((at, each), 0) for each in _STAGES) for at in (LAYERS, BEFORE, AFTER))
        share = stages.slowest(layers, before, after)

        def of(stage: str) -> Num:
            ends = share.before * spent.get((BEFORE, stage), 0) + share.after * spent.get((AFTER, stage), 0)
            return stages.part(spent.get((LAYERS, stage), 0), share.layers) + ends

        return Times(*(of(stage) for stage in _STAGES))

    def bubble(self, times: Times) -> Num:
        """Seconds that a stage waits in a step while the pipeline fills and empties [s].

        1F1B: (p-1)/chunks micro-batches; ZB-H2: (p-1)·(F + B - 2W), where that is above zero.
        """
        plan = self.setting.plan
        if plan.schedule == "zero-bubble":
            before = times.forward + times.recomputed + times.inputs
            return (plan.pp - 1) * maximum(before - 2 * times.weights, 0)
        return exact_div(plan.pp - 1, plan.chunks) * times.total

    def _compute(self, efficiency: tuple[float, float] | None) -> Num:
        times = self.times if efficiency is None else self._times(efficiency)
        last = _seconds(self.update.work, self.setting.cluster, efficiency)
        return self.setting.plan.accumulate * times.total + self.bubble(times) + last

    @cached_property
    def compute_seconds(self) -> Num:
        """Kernels, the tensor ranks' all-reduces, bubble and update, at the bound [s]."""
        return self._compute(None)

    @cached_property
    def bubble_share(self) -> Num:
        """The share of `compute_seconds` that a stage waits."""
        return self.bubble(self.times) / self.compute_seconds

    @property
    def device(self) -> Device:
        """The device with the cluster's ways out as its links."""
        return self.setting.cluster.wired

    def seconds_of(self, work: Work) -> Num:
        """The bound of one call; a collective on a link that is not known takes no time [s]."""
        return _seconds(work, self.setting.cluster, None)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every kernel of the step on a rank that has the largest stage's layers, and both ends of the model."""
        plan, stages = self.setting.plan, self.setting.plan.stages(self.setting.model.layers)
        found: list[Call] = []
        for row in (*self.rows, self.update):
            times = 1 if row is self.update else plan.accumulate
            share = stages.largest(row.calls) if row.where == LAYERS else row.calls
            found.append(Call(row.name, row.part, row.stage, row.work, times * share))
        return tuple(found)

    def on(self, link: str) -> Num:
        """Bytes that one rank sends over a link in a step [byte]."""
        total: Num = 0
        for flow in self.flows:
            total = total + flow.on(link)
        for call in self.calls:
            total = total + call.calls * call.work.cost.links.get(link, 0)
        return total

    @property
    def tensor(self) -> Flow | None:
        """The tensor ranks' collectives as one flow, None where there are none."""
        found = [call for call in self.calls if call.work.cost.links]
        if not found:
            return None
        cost = Cost({}, {}, {}, 0, 0)
        for call in found:
            cost = cost + Cost({}, {}, call.work.cost.links, 0, 0) * call.calls
        work = Work(found[0].work.op, found[0].work.dims, cost)
        known = set(cost.links) <= {each.name for each in self.device.links}
        seconds = self.tensor_seconds if known else None
        return Flow("tp", "activations and their gradients", work, self.setting.plan.tp, 1, False, seconds)

    @cached_property
    def tensor_seconds(self) -> Num:
        """Seconds of the tensor ranks' collectives, which nothing stands beside [s]."""
        total: Num = 0
        for call in self.calls:
            if call.work.cost.links:
                total = total + call.calls * _seconds(call.work, self.setting.cluster, None)
        return total

    @cached_property
    def flow_seconds(self) -> Num:
        """Seconds of all other traffic, one after another, where its link is known [s]."""
        return sum((flow.seconds for flow in self.flows if flow.seconds is not None), start=0)

    @cached_property
    def exposed_seconds(self) -> Num:
        """Seconds of communication that no compute hides, at the overlap asked for [s]."""
        return self.tensor_seconds + (1 - self.setting.overlap) * self.flow_seconds

    @cached_property
    def link_seconds(self) -> Num:
        """The busier of the two links, all of its traffic [s]."""
        cluster = self.setting.cluster
        supply = {each.name: each.bandwidth for each in cluster.wired.links}
        longest: Num = 0.0
        for link, bandwidth in supply.items():
            longest = maximum(longest, self.on(link) / bandwidth)
        return longest

    @cached_property
    def bound_seconds(self) -> Num:
        """What no run of this plan with one kernel after another is faster than [s]."""
        return maximum(self.compute_seconds, self.link_seconds)

    @cached_property
    def floor_seconds(self) -> Num:
        """What no run of this plan is faster than: FLOPs over peak, bytes that nothing saves, each link [s]."""
        plan, device = self.setting.plan, self.setting.cluster.device
        rates: dict[str, Num] = {}
        for row in self.rows:
            for rate, each in row.work.cost.flops.items():
                rates[rate] = rates.get(rate, 0) + row.calls * each * plan.accumulate / plan.pp
        moved = self.update.work.cost.bytes
        compulsory = Cost(rates, {"optimizer": moved}, launches=0)
        return maximum(bound(compulsory, device).seconds, self.link_seconds)

    @cached_property
    def no_overlap_seconds(self) -> Num:
        """Everything one after another [s]."""
        return self.compute_seconds + self.flow_seconds

    @cached_property
    def seconds(self) -> Num:
        """Compute at the efficiency asked for, and the traffic that is not hidden behind it [s]."""
        waits = (1 - self.setting.overlap) * self.flow_seconds
        return maximum(self._compute(self.setting.efficiency) + waits, self.link_seconds)

    @cached_property
    def flops(self) -> Num:
        """FLOPs of the whole step on all ranks, at the compute rate, as run [FLOP]."""
        plan = self.setting.plan
        spread = plan.dp * plan.tp * plan.cp * plan.accumulate
        return spread * flops(self.rows, self.setting.recipe.precision.compute)

    def share(self, step_seconds: float | None = None) -> Num:
        """Exposed communication over the time of the compute: a measured one, or that of the model."""
        base = self.seconds - self.exposed_seconds if step_seconds is None else step_seconds
        return self.exposed_seconds / base


def _seconds(work: Work, cluster: Cluster, efficiency: tuple[float, float] | None) -> Num:
    """The bound of one call; a collective on a link without a known bandwidth takes none."""
    cost = work.cost
    if cost.links and not set(cost.links) <= {each.name for each in cluster.wired.links}:
        cost = Cost(cost.flops, cost.memory)
    found = bound(cost, cluster.wired)
    return (found if efficiency is None else found.derated(*efficiency)).seconds


def step(setting: Setting) -> Step:
    """The step of a setting whose plan is possible; sizes may be arrays."""
    plan, recipe, model = setting.plan, setting.recipe, setting.model
    link = NEAR if setting.cluster.domain is None or plan.tp <= setting.cluster.domain else FAR
    workload = micro_batch(plan.micro_batch, setting.length, recipe)
    found = rows(model, workload, recipe, plan.shard, plan.cp, link)
    if plan.sequence_parallel and plan.tp > 1:
        found = _spread(found, plan.tp)
    found = over_ranks(found, plan, recipe.precision.activations)
    trained = wires.held(model, plan.shard, recipe)
    stages = plan.stages(model.layers)
    mine = exact_div(trained.dense(stages), where(plan.zero > 0, plan.group, 1))
    copies = maximum(exact_div(plan.group, plan.ep), 1)
    mine = mine + exact_div(trained.routed(stages, plan.ep), where(plan.zero > 0, copies, 1))
    return Step(
        setting,
        tuple(found),
        update(mine, recipe),
        tuple(flows(model, plan, setting.cluster, recipe, setting.length)),
        footprint(
            model,
            plan,
            recipe,
            setting.length,
            setting.cluster.device.capacity,
            reserve=setting.reserve,
            dropout=setting.dropout,
        ),
    )


def _spread(found: list[Row], tp: int) -> list[Row]:
    """Sequence parallelism: norms over 1/tp of the tokens; all-reduces as two halves, and a gather more backward.

    Source: Korthikanti et al. 2022, section 4.2.2.
    """
    spread: list[Row] = []
    for row in found:
        if row.work.op == "norm":
            row = row._replace(work=_part(row.work, tp))  # noqa: PLW2901
        spread.append(row)
        if row.work.op == "all-reduce" and row.where == LAYERS and row.stage == INPUTS:
            [link] = row.work.cost.links
            again = all_gather(row.work.dims["bytes"], row.work.dims["ranks"], link=link)
            spread.append(row._replace(name=f"{row.part}_all_gather_dw", stage=WEIGHTS, work=again))
    return spread


def _part(work: Work, ranks: int) -> Work:
    """1/ranks of a kernel's rows; its weights are whole."""
    memory = {
        role: moved if role in ("weights", "gradients") else exact_div(moved, ranks)
        for role, moved in work.cost.memory.items()
    }
    flops = {rate: exact_div(each, ranks) for rate, each in work.cost.flops.items()}
    return Work(work.op, {**work.dims, "m": exact_div(work.dims["m"], ranks)}, Cost(flops, memory))


def train(setting: Setting, gpus: int, global_batch: int) -> Step:
    """The step of one plan of single numbers; raises ShardError, BadValue and UnknownName for what cannot be."""
    if setting.length < 1 or global_batch < 1 or global_batch % setting.length:
        raise BadValue(
            f"A global batch of {global_batch:,} tokens is no whole number of sequences of {setting.length:,} tokens. "
            f"Possible: a multiple of {setting.length:,} above zero."
        )
    if setting.efficiency is not None:
        check_shares(*setting.efficiency)
    check_causal(setting.model)
    check_frozen(setting.model, setting.recipe)
    setting.cluster.device.rate(setting.recipe.precision.compute)
    check(setting.model, setting.plan, gpus, global_batch // setting.length, setting.length)
    return step(setting)
