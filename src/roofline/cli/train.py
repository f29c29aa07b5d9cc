"""`roofline train`."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from roofline.catalogue import load_device, load_model
from roofline.cli.options import Ranks, print_json
from roofline.cli.options import efficiency as shares
from roofline.cli.training_options import (
    Batch,
    Busbw,
    Gpus,
    Length,
    Recomputed,
    Seconds,
    Share,
    Some,
    Stage,
    recipe_of,
)
from roofline.errors import BadValue, ShardError
from roofline.show.progress import busy
from roofline.training import search as searching
from roofline.training.answer import Answer
from roofline.training.plan import Cluster, Plan
from roofline.training.train import Setting
from roofline.training.train import train as trained

_PLAN = "Plan"
_CLUSTER = "Cluster"
_RECIPE = "How it is trained"


def train(
    model: str,
    /,
    *,
    device: Annotated[str, Parameter(group=_CLUSTER)],
    gpus: Annotated[Gpus, Parameter(group=_CLUSTER)],
    global_batch: Batch,
    sequence: Length,
    dp: Annotated[Gpus | None, Parameter(group=_PLAN)] = None,
    tp: Annotated[Ranks | None, Parameter(group=_PLAN)] = None,
    pp: Annotated[Gpus | None, Parameter(group=_PLAN)] = None,
    ep: Annotated[Gpus | None, Parameter(group=_PLAN)] = None,
    cp: Annotated[Gpus | None, Parameter(group=_PLAN)] = None,
    zero: Annotated[Stage | None, Parameter(group=_PLAN)] = None,
    shard_group: Annotated[Gpus | None, Parameter(group=_PLAN)] = None,
    micro_batch: Annotated[Some | None, Parameter(group=_PLAN)] = None,
    accumulate: Annotated[Some | None, Parameter(group=_PLAN)] = None,
    sequence_parallel: Annotated[bool, Parameter(group=_PLAN, negative=())] = False,
    schedule: Annotated[Literal["1f1b", "zero-bubble"], Parameter(group=_PLAN)] = "1f1b",
    chunks: Annotated[Some | None, Parameter(group=_PLAN)] = None,
    search: Annotated[bool, Parameter(group=_PLAN, negative=())] = False,
    busbw: Annotated[Busbw | None, Parameter(group=_CLUSTER)] = None,
    network_busbw: Annotated[Busbw | None, Parameter(group=_CLUSTER)] = None,
    per_node: Annotated[Gpus | None, Parameter(group=_CLUSTER)] = None,
    overlap: Annotated[Share, Parameter(group=_CLUSTER)] = 0.0,
    efficiency: Annotated[str | None, Parameter(group=_CLUSTER, allow_leading_hyphen=True, negative=())] = None,
    reserve: Annotated[Share, Parameter(group=_CLUSTER)] = 0.0,
    step_time: Seconds | None = None,
    compute_time: Seconds | None = None,
    budget: Batch | None = None,
    rate: Annotated[str, Parameter(group=_RECIPE)] = "bf16",
    recompute: Annotated[Recomputed | None, Parameter(group=_RECIPE)] = None,
    gradients: Annotated[str, Parameter(group=_RECIPE)] = "bf16",
    optimizer: Annotated[str, Parameter(group=_RECIPE)] = "adamw",
    unfused: Annotated[bool, Parameter(group=_RECIPE, negative=())] = False,
    stored_scores: Annotated[bool, Parameter(group=_RECIPE, negative=())] = False,
    dropout: Annotated[bool, Parameter(group=_RECIPE, negative=())] = False,
    lora: Annotated[Some | None, Parameter(group=_RECIPE)] = None,
    freeze: Annotated[str | None, Parameter(group=_RECIPE, negative=())] = None,
    document: Annotated[Length | None, Parameter(group=_RECIPE)] = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """A training step: its bound, what is sent and what is held, and the time of a whole run.

    Parameters
    ----------
    model
        A built-in name (roofline models), a Hugging Face id, a folder, a config.json, or 7B.
    device
        A device id (roofline devices) or a device's TOML file.
    gpus
        Devices in all; dp x tp x pp x cp.
    global_batch
        Tokens of one optimizer step, as 4M.
    sequence
        Tokens of a sequence; 8k is 8192.
    dp
        Data-parallel ranks; what the others leave of --gpus.
    tp
        Tensor-parallel ranks; 1.
    pp
        Pipeline stages; 1.
    ep
        Expert-parallel ranks, inside dp x cp; 1.
    cp
        Context-parallel ranks, which split each sequence; 1.
    zero
        ZeRO stage: 0 (DDP, the default), 1, 2, or 3 (FSDP).
    shard_group
        Ranks that share one copy (HSDP); all data-parallel ranks.
    micro_batch
        Sequences that one rank runs at a time; 1 with a pipeline, else what --accumulate leaves.
    accumulate
        Micro-batches a step; what --micro-batch leaves.
    sequence_parallel
        Split norms and the residual stream over the tensor ranks; a search always does.
    schedule
        Of the pipeline: 1f1b, or zero-bubble.
    chunks
        Chunks of layers a pipeline stage has (interleaved); 1.
    search
        Look at every plan with the ranks, stages and recomputation that are given, and show the best and what saves
        memory.
    busbw
        Measured bus bandwidth inside a node, as 400GB/s or a log of nccl-tests, in place of the device's link.
    network_busbw
        Bus bandwidth of a rank between nodes, as 40GB/s.
    per_node
        Devices on one scale-up link; as the device's file says.
    overlap
        Share of the traffic that can overlap with compute, and does, as 0.9 or 90%.
    efficiency
        BANDWIDTH/COMPUTE, as 0.80/0.50: times at these shares of bandwidth and peak.
    reserve
        Share of the memory that fragmentation and libraries take, as 5%.
    step_time
        Measured time of one whole optimizer step, as 3.64s: its MFU, and how far it is from its bound.
    compute_time
        Measured time of one optimizer step without its traffic, as 3.64s: the traffic is added to it.
    budget
        Tokens of the whole run, as 15T.
    rate
        Rate that GEMMs and attention run at.
    recompute
        none, selective, full, or a share of the forward pass, as 0.75; none.
    gradients
        Format of the gradients, as bf16 or fp32.
    optimizer
        adamw, sgd-momentum, or sgd.
    unfused
        The optimizer as one kernel a tensor pass, not one fused kernel.
    stored_scores
        Attention that stores its scores, not FlashAttention.
    dropout
        Count dropout masks in the activations.
    lora
        Rank of LoRA adapters on every matrix of the layers, whose own weights are frozen.
    freeze
        Frozen parts, as embedding,mlp, or all.
    document
        Tokens of each document packed into a sequence, masked from the others.
    json
        One JSON object instead of text.
    """
    cluster = Cluster(load_device(device), per_node, busbw, network_busbw)
    recipe = recipe_of(
        rate,
        recompute,
        lora,
        freeze,
        document,
        gradients=gradients,
        optimizer=optimizer,
        fused=not unfused,
        flash=not stored_scores,
    )
    if search and (step_time is not None or compute_time is not None):
        given = "--step-time" if step_time is not None else "--compute-time"
        raise BadValue(f"{given} was measured of one plan, and --search looks at many. Leave one of them.")
    pins = searching.Pins(dp, tp, pp, cp, ep, zero, micro_batch, accumulate, chunks, recompute)
    tp, pp, cp, ep, zero, chunks = tp or 1, pp or 1, cp or 1, ep or 1, zero or 0, chunks or 1
    data = _data(gpus, dp, tp * pp * cp, search)
    asked, global_batch = global_batch, _whole(global_batch, sequence, data * (micro_batch or 1) * (accumulate or 1))
    taken = () if asked == global_batch else (_taken(asked, global_batch, sequence, data),)
    micro, times = (1, 1) if search else _batches(global_batch // sequence, data, pp, micro_batch, accumulate)
    plan = Plan(data, tp, pp, cp, ep, zero, micro, times, sequence_parallel, schedule, chunks, shard_group or 0)
    setting = Setting(load_model(model), cluster, plan, sequence, recipe, overlap, shares(efficiency), reserve, dropout)
    if search:
        with busy("Looking at plans"):
            found = searching.search(setting, gpus, global_batch, pins=pins)
        best = None if found.best is None else searching.alone(setting, found.best)
        return _found(found, None if best is None else Answer(best, gpus, None, budget, taken), json)
    answer = Answer(trained(setting, gpus, global_batch), gpus, step_time, budget, taken, compute_time)
    return _shown(answer, json)


def _shown(answer: Answer, json: bool) -> int:
    """The answer on standard output, and the exit code."""
    fits = answer.step.footprint.fits
    if json:
        from roofline.show.training_record import train_record

        print_json(train_record(answer))
    else:
        from roofline.show.terminal import show
        from roofline.show.train_text import train_text

        show(train_text(answer))
    return 3 if fits == 0 else 0


def _found(found: searching.Found, answer: Answer | None, json: bool) -> int:
    """The best plan, and those that save memory."""
    if json:
        from roofline.show.training_record import search_record

        print_json(search_record(found, answer))
    else:
        from roofline.show.terminal import show
        from roofline.show.train_text import search_text

        show(search_text(found, answer))
    return 3 if answer is None else 0


def _data(gpus: int, dp: int | None, others: int, search: bool = False) -> int:
    """Data-parallel ranks: as given, or what the others leave; the most that a search can have."""
    if dp is not None:
        return dp
    if gpus % others and search:
        return gpus  # the search says why nothing divides
    if gpus % others:
        raise ShardError(
            f"tp x pp x cp = {others} do not divide the {gpus:,} GPUs. Make their product a divisor of {gpus:,}."
        )
    return gpus // others


_NEAR = 0.1


def _whole(tokens: int, sequence: int, ranks: int) -> int:
    """The multiple of whole sequences for every data-parallel rank that is next to a batch of `tokens`, as 4M.

    Where that is over a tenth away, the next whole number of sequences; raises BadValue for less than one.
    """
    for unit in (sequence * ranks, sequence):
        near = round(tokens / unit) * unit
        if near and abs(near - tokens) <= _NEAR * tokens:
            return near
    raise BadValue(
        f"--global-batch: {tokens:,} tokens are no whole number of sequences of {sequence:,}. Possible: multiples of "
        f"{sequence:,}."
    )


def _taken(asked: int, taken: int, sequence: int, ranks: int) -> str:
    sequences = taken // sequence
    return f"A global batch of {asked:,} tokens is taken as {taken:,}: {sequences:,} sequences over {ranks} data ranks"


def _batches(sequences: int, dp: int, pp: int, micro: int | None, times: int | None) -> tuple[int, int]:
    """Micro-batch and accumulation, of which one follows from the other."""
    each, rest = divmod(sequences, dp)
    if rest or not each:
        raise ShardError(
            f"The {sequences:,} sequences of the global batch do not divide over dp {dp}. Make it a multiple of {dp} "
            "sequences."
        )
    if micro is None and times is None:
        return (1, each) if pp > 1 else (each, 1)
    given, name = (times, "--accumulate") if micro is None else (micro, "--micro-batch")
    assert given is not None
    if each % given:
        raise ShardError(f"{name} {given} does not divide the {each:,} sequences of each data-parallel rank.")
    other = each // given
    return (other, given) if micro is None else (given, other if times is None else times)
