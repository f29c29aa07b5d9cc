"""How a cluster's ranks share a model's training: the plan, its checks, and which link each group is on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from roofline.device import Device, Link
from roofline.errors import BadValue, ShardError, UnknownName, shown
from roofline.model import Model
from roofline.num import Num, where
from roofline.parts.base import Pass
from roofline.shard import Shard
from roofline.training.stages import Stages, too_many
from roofline.workload import Precision, Workload

NEAR, FAR = "scale-up", "network"
STAGES = (0, 1, 2, 3)  # of ZeRO
SCHEDULES = {
    "1f1b": "one forward, one backward (Narayanan et al. 2019, 2021); interleaved with more than one chunk a stage",
    "zero-bubble": "ZB-H2: gradients of weights fill the gaps (Qi et al. 2023)",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Ranks of each kind of parallelism, and what one rank runs at a time.

    `dp` data, `tp` tensor, `pp` pipeline, `cp` context, `ep` expert parallelism (inside dp · cp); `zero` 0 to 3 (3 is
    FSDP); `micro_batch` sequences at a time, `accumulate` times a step; `chunks` of layers a pipeline stage;
    `sequence_parallel` splits the norms over the tensor ranks; `shard_group` ranks share one copy (HSDP; 0: all of
    dp · cp). All but `tp` may be arrays.
    """

    dp: Num = 1
    tp: int = 1
    pp: Num = 1
    cp: Num = 1
    ep: Num = 1
    zero: Num = 0
    micro_batch: Num = 1
    accumulate: Num = 1
    sequence_parallel: bool = False
    schedule: str = "1f1b"
    chunks: Num = 1
    shard_group: Num = 0

    @property
    def ranks(self) -> Num:
        """Devices in all."""
        return self.dp * self.tp * self.pp * self.cp

    @property
    def replicas(self) -> Num:
        """Ranks that hold the same dense parameters, between which gradients are summed."""
        return self.dp * self.cp

    @property
    def group(self) -> Num:
        """Ranks that share one copy under ZeRO: all replicas, or an HSDP group."""
        return where(self.shard_group > 0, self.shard_group, self.replicas)

    def stages(self, layers: int) -> Stages:
        """So many layers over the pipeline's stages."""
        return Stages(layers, self.pp)

    @property
    def shard(self) -> Shard:
        """The split of one layer's axes."""
        return Shard(self.tp)


@dataclass(frozen=True)
class Cluster:
    """Devices of a kind, `per_node` on a fast link, and what carries bytes [byte/s a rank, one direction].

    `busbw` stands for the device's own link, `network` between nodes; None where it is not known. Without
    `per_node` the device's link says how many it joins.
    """

    device: Device
    per_node: int | None = None
    busbw: float | None = None
    network: float | None = None

    @cached_property
    def domain(self) -> int | None:
        """Devices on one scale-up link; None where nothing says, and all are taken as on it."""
        if self.per_node is not None:
            return self.per_node
        return self.device.links[0].domain if self.device.links else 1

    @cached_property
    def near(self) -> float | None:
        """Bandwidth of the scale-up link [byte/s]."""
        if self.busbw is not None:
            return self.busbw
        return self.device.links[0].bandwidth if self.device.links else None

    def inside(self, span: Num) -> Num:
        """1 where a group that spans that many ranks is on one scale-up link, else 0."""
        return 1 if self.domain is None else where(span <= self.domain, 1, 0)

    @cached_property
    def wired(self) -> Device:
        """The device with its two ways out as links; those that are not known are not there."""
        links = [Link(name, each) for name, each in ((NEAR, self.near), (FAR, self.network)) if each is not None]
        return replace(self.device, links=tuple(links))


def check(model: Model, plan: Plan, gpus: int, sequences: int, length: int) -> None:
    """Refuse a plan of single numbers that cannot be; raises ShardError and BadValue, one line each."""
    for error in impossible(model, plan, gpus, sequences, length):
        raise error
    if plan.schedule not in SCHEDULES:
        raise UnknownName.of("schedule", plan.schedule, SCHEDULES)


def impossible(model: Model, plan: Plan, gpus: int, sequences: int, length: int) -> Iterator[Exception]:
    """Why a plan of single numbers cannot be: each reason as the error to raise."""
    numbers = list(_no_numbers(plan))
    yield from numbers
    if not numbers:
        yield from _ranks(plan, gpus)
        yield from _stages(model, plan)
        yield from _batch(plan, sequences, length)
        yield from _axes(model, plan.shard)
        yield from _no_experts(model, plan)


def _no_experts(model: Model, plan: Plan) -> Iterator[Exception]:
    """Expert ranks of a model that has none, or fewer experts than ranks."""
    ep, experts = cast(int, plan.ep), experts_of(model)
    if (ep != 1 and experts % ep) or ep > max(experts, 1):
        possible = f"Possible: {_divisors(experts)}." if experts else "It has no experts; possible: 1."
        yield ShardError(f"{ep} expert-parallel ranks do not divide the {experts} experts of a layer. {possible}")


def experts_of(model: Model) -> int:
    """Routed experts of a layer; 0 where there are none."""
    run = Pass(Workload.prefill(1, 1), Precision("bf16"), Shard())
    parts = (part for block in model.blocks for part in block.parts)
    grouped = (kernel.work for part in parts for kernel in part.kernels(run) if kernel.work.op == "moe")
    return min((cast(int, work.dims["experts"]) for work in grouped), default=0)


def _no_numbers(plan: Plan) -> Iterator[Exception]:
    for name in ("dp", "tp", "pp", "cp", "ep", "micro_batch", "accumulate", "chunks"):
        value = getattr(plan, name)
        if value.__class__ is not int or value < 1:
            yield BadValue(f"{name} is {shown(value)}. Possible: a whole number from 1.")
    if plan.zero.__class__ is not int or plan.zero not in STAGES:
        yield no_stage(plan.zero)


def no_stage(zero: object) -> BadValue:
    """The error for a stage that ZeRO does not have."""
    return BadValue(f"ZeRO has no stage {shown(zero)}. Possible: 0 (DDP), 1, 2, 3 (FSDP).")


def _ranks(plan: Plan, gpus: int) -> Iterator[Exception]:
    """Ranks that are not the devices, and groups that do not divide them."""
    replicas, group = cast(int, plan.replicas), cast(int, plan.shard_group)
    if plan.ranks != gpus:
        product = f"dp {plan.dp} x tp {plan.tp} x pp {plan.pp} x cp {plan.cp} = {plan.ranks}"
        yield ShardError(f"{product} ranks are not the {gpus:,} GPUs. Make the product {gpus:,}.")
    if group and replicas % group:
        yield ShardError(f"HSDP groups of {group} do not divide the {replicas} data-parallel ranks (dp x cp).")
    if replicas % cast(int, plan.ep):
        yield ShardError(
            f"Expert parallelism of {plan.ep} does not divide the {replicas} data-parallel ranks (dp x cp)."
        )


def _stages(model: Model, plan: Plan) -> Iterator[Exception]:
    """Stages without layers, and chunks that do not divide the micro-batches."""
    pp, chunks, times = (cast(int, each) for each in (plan.pp, plan.chunks, plan.accumulate))
    if too_many(model.layers, pp, chunks):
        stages = f"{pp} pipeline stages" + (f" of {chunks} chunks" if chunks != 1 else "")
        possible = f"up to {model.layers} in all" if model.layers else "1, as a size alone has no layers"
        yield ShardError(f"{stages} are more than the {model.layers} layers. Possible: {possible}.")
    if chunks != 1 and times % pp:
        yield ShardError(
            f"Interleaved chunks need micro-batches that {pp} stages divide, not {times} (Narayanan et al. 2021)."
        )


def _batch(plan: Plan, sequences: int, length: int) -> Iterator[Exception]:
    """Sequences that do not divide over ranks, and tokens that do not over context ranks."""
    cp = cast(int, plan.cp)
    if cp != 1 and length % (2 * cp):
        yield ShardError(
            f"Context parallelism of {cp} needs sequences of a multiple of {2 * cp} tokens, two chunks a rank, "
            f"not {length:,}."
        )
    run = plan.dp * plan.micro_batch * plan.accumulate
    if run != sequences:
        yield ShardError(
            f"dp {plan.dp} x micro-batch {plan.micro_batch} x accumulate {plan.accumulate} are {run} sequences a step, "
            f"not the {sequences:,} of the global batch."
        )


def _axes(model: Model, shard: Shard) -> Iterator[Exception]:
    """Axes that the tensor ranks do not divide."""
    try:
        check_axes(model, shard)
    except ShardError as error:
        yield error


def check_axes(model: Model, shard: Shard) -> None:
    """Refuse tensor ranks that do not divide heads or widths; raises ShardError."""
    for _, part in model.repeats:
        for weight in part.weights():
            shard.units(weight.out)
            if weight.inp is not None:
                shard.units(weight.inp)


def _divisors(n: int) -> str:
    found = [each for each in range(1, n + 1) if n % each == 0]
    return ", ".join(str(each) for each in found[:12]) + (", …" if len(found) > 12 else "")
