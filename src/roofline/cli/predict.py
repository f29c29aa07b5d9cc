"""`roofline predict`."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from roofline.capacity import memory
from roofline.catalogue import load_device, load_model
from roofline.cli.options import Context, Ranks, Sequences, Tokens, print_json
from roofline.cli.options import efficiency as shares
from roofline.errors import BadValue
from roofline.ledger import predict as predicted
from roofline.shard import Shard
from roofline.workload import Precision, Workload

_ROWS = "Rows"
_FORMATS = "Formats"


def predict(
    model: str,
    /,
    *,
    device: str,
    phase: Annotated[Literal["decode", "prefill"], Parameter(group=_ROWS)] = "decode",
    sequences: Annotated[Sequences, Parameter(group=_ROWS)] = 1,
    new_tokens: Annotated[Tokens | None, Parameter(group=_ROWS)] = None,
    context: Annotated[Context | None, Parameter(group=_ROWS)] = None,
    logits: Annotated[Literal["last", "all"], Parameter(group=_ROWS)] = "last",
    prefill_sequences: Annotated[Sequences | None, Parameter(group=_ROWS)] = None,
    prefill_tokens: Annotated[Tokens | None, Parameter(group=_ROWS)] = None,
    prefill_context: Annotated[Context | None, Parameter(group=_ROWS)] = None,
    weights: Annotated[str, Parameter(group=_FORMATS)] = "bf16",
    kv: Annotated[str, Parameter(group=_FORMATS)] = "bf16",
    activations: Annotated[str, Parameter(group=_FORMATS)] = "bf16",
    compute: Annotated[str, Parameter(group=_FORMATS)] = "bf16",
    tp: Ranks = 1,
    efficiency: Annotated[str | None, Parameter(allow_leading_hyphen=True, negative=())] = None,
    fused: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """The most that a model can do on a device, kernel by kernel, and what limits it.

    Parameters
    ----------
    model
        A built-in name (roofline models), a Hugging Face id, a folder, a config.json, or 7B (weights only).
    device
        A device id (roofline devices) or a device's TOML file.
    phase
        decode: one new token a sequence. prefill: many.
    sequences
        Sequences in the pass.
    new_tokens
        New tokens of each sequence; 1 in decode, 2048 in prefill. 8k is 8192.
    context
        In decode the tokens that the new one attends to, itself among them; 8k. In prefill, and
        before several new tokens, those cached already; 0.
    logits
        Of a prefill: of the last position, or of all.
    prefill_sequences
        Prefill rows beside the decode rows (chunked prefill): their sequences.
    prefill_tokens
        New tokens of each of these; 2048.
    prefill_context
        Tokens cached before them; 0.
    weights
        Format of every weight matrix, as bf16, fp8, int4, int4-g128, mxfp4, nvfp4.
    kv
        Format of the KV cache.
    activations
        Format of the activations.
    compute
        Rate that GEMMs and attention run at, as bf16, fp8, int8, tf32.
    tp
        Ranks of tensor parallelism.
    efficiency
        BANDWIDTH/COMPUTE, as 0.80/0.75: times at these shares of bandwidth and peak.
    fused
        Fold the small kernels into the kernels beside them.
    json
        One JSON object instead of text.
    """
    workload = _workload(
        phase, sequences, (new_tokens, context, logits), (prefill_sequences, prefill_tokens, prefill_context)
    )
    ledger = predicted(
        load_model(model),
        load_device(device),
        workload,
        Precision(weights, kv, activations, compute),
        shard=Shard(tp),
        efficiency=shares(efficiency),
        fused=fused,
    )
    if json:
        record = ledger.to_dict()
        print_json(record)
        return 3 if record["memory"]["fits"] is False else 0
    from roofline.show.text import ledger_text, show

    held = memory(ledger)
    show(ledger_text(ledger, held))
    return 3 if held.fits is False else 0


def _workload(
    phase: str,
    sequences: int,
    rows: tuple[int | None, int | None, str],
    beside: tuple[int | None, int | None, int | None],
) -> Workload:
    """The pass that the options describe, with the defaults of its phase."""
    new, context, logits = rows
    if phase == "prefill":
        if any(each is not None for each in beside):
            raise BadValue(
                "--prefill-sequences and its kin add prefill rows to a decode pass. Leave --phase at decode."
            )
        return Workload.prefill(sequences, 2048 if new is None else new, context or 0, logits)
    decode = Workload.decode(sequences, 8192 if context is None else context, 1 if new is None else new)
    if all(each is None for each in beside):
        return decode
    count, tokens, cached = beside
    chunk = Workload.prefill(1 if count is None else count, 2048 if tokens is None else tokens, cached or 0, logits)
    return Workload.mixed(decode, chunk)
