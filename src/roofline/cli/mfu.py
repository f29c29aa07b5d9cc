"""`roofline mfu`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.catalogue import load_model, load_sheet
from roofline.cli.options import print_json
from roofline.cli.training_options import (
    Amount,
    Batch,
    Gpus,
    Layers,
    Length,
    Parameters,
    Peak,
    Recomputed,
    Seconds,
    Share,
    Some,
    recipe_of,
)
from roofline.errors import BadValue
from roofline.model import Model
from roofline.training import utilisation
from roofline.training.conventions import NO_HEADS, Subject

_SIZE = "Size without a model"
_RATE = "What was measured"
_PEAK = "Peak"
_RECIPE = "How it is trained"


def mfu(
    model: str | None = None,
    /,
    *,
    params: Annotated[Parameters | None, Parameter(group=_SIZE)] = None,
    layers: Annotated[Layers | None, Parameter(group=_SIZE)] = None,
    heads: Annotated[Some | None, Parameter(group=_SIZE)] = None,
    head_dim: Annotated[Some | None, Parameter(group=_SIZE)] = None,
    device: Annotated[str | None, Parameter(group=_PEAK)] = None,
    peak: Annotated[Peak | None, Parameter(group=_PEAK)] = None,
    rate: Annotated[str, Parameter(group=_PEAK)] = "bf16",
    sparse: Annotated[bool, Parameter(group=_PEAK, negative=())] = False,
    gpus: Annotated[Gpus, Parameter(group=_RATE)],
    tokens_per_second: Annotated[Amount | None, Parameter(group=_RATE)] = None,
    tokens_per_second_per_gpu: Annotated[Amount | None, Parameter(group=_RATE)] = None,
    step_time: Annotated[Seconds | None, Parameter(group=_RATE)] = None,
    global_batch: Annotated[Batch | None, Parameter(group=_RATE)] = None,
    padding: Annotated[Share, Parameter(group=_RATE)] = 0.0,
    sequence: Annotated[Length | None, Parameter(group=_RECIPE)] = None,
    recompute: Annotated[Recomputed | None, Parameter(group=_RECIPE)] = None,
    lora: Annotated[Some | None, Parameter(group=_RECIPE)] = None,
    freeze: Annotated[str | None, Parameter(group=_RECIPE, negative=())] = None,
    document: Annotated[Length | None, Parameter(group=_RECIPE)] = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """MFU and HFU of a training run, under every convention.

    Parameters
    ----------
    model
        A built-in name (roofline models), a Hugging Face id, a folder, a config.json, or 7B.
    params
        N, the parameters that a token goes through, as 540.35B.
    layers
        Layers, for the attention of a size without a model.
    heads
        Attention heads of a layer.
    head_dim
        Elements of a head.
    device
        A device id (roofline devices) or a device's TOML file.
    peak
        A peak that is in no file, as 275TFLOP/s, in place of --device.
    rate
        The rate in use, whose dense peak is the denominator, as bf16, fp8, tf32.
    sparse
        The sparse peak for denominator: a mistake, unless the GEMMs are sparse.
    gpus
        How many GPUs (chips) trained.
    tokens_per_second
        Tokens a second of all GPUs together, as 238.3k.
    tokens_per_second_per_gpu
        Tokens a second of one GPU.
    step_time
        Measured time of one whole optimizer step, as 3.64s, with --global-batch.
    global_batch
        Tokens of one optimizer step, as 4M.
    padding
        Share of the tokens that is padding, as 0.05 or 5%.
    sequence
        Tokens of a sequence; 8k is 8192. Without it attention is unknown.
    recompute
        none, selective, full, or the share of a forward pass that was run again, as 0.75.
    lora
        Rank of LoRA adapters on every matrix of the layers, whose own weights are frozen.
    freeze
        Frozen parts, as embedding,mlp, or all: their weights get no gradient.
    document
        Tokens of each document packed into a sequence, masked from the others.
    json
        One JSON object instead of text.
    """
    run = _run(gpus, tokens_per_second, tokens_per_second_per_gpu, (step_time, global_batch), padding)
    chosen = recipe_of(rate if device is not None else "bf16", recompute, lora, freeze, document)
    subject = _subject(model, params, (layers, heads, head_dim))
    answer = utilisation.mfu(
        subject,
        _peak(device, peak, rate, sparse),
        run,
        sequence=sequence,
        recipe=chosen,
        recompute=None if recompute is None else chosen.recompute,
    )
    if json:
        from roofline.show.training_record import mfu_record

        print_json(mfu_record(answer))
        return 0
    from roofline.show.terminal import show
    from roofline.show.training_text import mfu_text

    show(mfu_text(answer))
    return 0


def _subject(
    model: str | None, params: int | None, shape: tuple[int | None, int | None, int | None]
) -> Model | Subject:
    """The model, or the size that stands for one."""
    if (model is None) == (params is None):
        raise BadValue("A run needs a MODEL or --params N, one of the two. Known models: roofline models.")
    if model is not None:
        if any(each is not None for each in shape):
            raise BadValue("--layers, --heads and --head-dim go with --params. A MODEL has its own.")
        return load_model(model)
    given = [each for each in shape if each is not None]
    if given and len(given) < len(shape):
        raise BadValue("Attention needs --layers, --heads and --head-dim, all three of them.")
    width = given[0] * given[1] * given[2] if given else None
    assert params is not None
    return Subject(params, params, width=width, unknown="" if given else NO_HEADS)


def _peak(device: str | None, peak: float | None, rate: str, sparse: bool) -> utilisation.Peak:
    """The denominator."""
    if (device is None) == (peak is None):
        raise BadValue("The peak is that of --device or --peak, one of the two. Known devices: roofline devices.")
    if device is not None:
        return utilisation.Peak.of(load_sheet(device), rate.lower(), sparse)
    if sparse:
        raise BadValue("--sparse goes with --device: a --peak is taken as it is given.")
    assert peak is not None
    return utilisation.Peak.stated(peak, rate.lower())


def _run(
    gpus: int,
    tokens_per_second: float | None,
    per_gpu: float | None,
    step: tuple[float | None, int | None],
    padding: float,
) -> utilisation.Run:
    """What was measured, in one of three ways."""
    seconds, batch = step
    ways = [tokens_per_second is not None, per_gpu is not None, seconds is not None or batch is not None]
    if sum(ways) != 1 or (seconds is None) != (batch is None):
        raise BadValue(
            "What was measured is needed in one way: --tokens-per-second, --tokens-per-second-per-gpu, or --step-time "
            "with --global-batch."
        )
    if tokens_per_second is not None:
        return utilisation.Run(tokens_per_second, gpus, padding)
    if per_gpu is not None:
        return utilisation.Run(per_gpu * gpus, gpus, padding, utilisation.PER_GPU)
    assert seconds is not None and batch is not None
    return utilisation.Run.of_step(seconds, batch, gpus, padding)
