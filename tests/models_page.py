"""docs/models.md, from the registry of families and the cases that the tests count."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import test_families
from family_cases import CASES, COUNTED_OTHERWISE, ident
from roofline.families import TOWERS, load_all

_HEAD = """\
# Models

A `config.json` is read by its structure: which keys are there decides what is counted. What the keys leave open lies in
one small file a family (`src/roofline/families`). Written by `scripts/models-page` from the registry and the cases that
the tests count.

How a family was checked:

- **counted**: parameters (total, token embedding, routed experts) of so many small configurations equal those of
  transformers on the meta device, difference 0, and so do those of the full size that its class has by default; FLOPs
  of every matrix product of a forward pass, attention and experts included, equal PyTorch's `FlopCounterMode`.
  `scripts/oracle-test` counts again (it installs torch and transformers beside the rest, one command); the other tests
  compare with the counts kept in `tests/golden/families.json`.
- **weights**: as *counted*, with FLOPs of the weight matrices alone.
- **published**: the total of the published checkpoint, whose code is not in transformers.
- **as X**: another name of X's text model, with equal counts.

FlopCounterMode counts nothing of attention on a CPU's fused kernels, so attention runs eagerly there: whole, a mask
leaves nothing out. Ours is causal, windowed or selected; for the comparison its kernels are taken whole. Experts that
loop over what a router chose cannot run without numbers: there they are batched products over the same rows.

| model_type | family | checked |
|---|---|---|
"""
_TAIL = """
Where the two do not count the same:

{otherwise}

## What is not counted yet

Recurrent layers, encoders and cross-attention of other families than those of the table, experts of attention:
refused by the key that says so. Audio towers, and vision towers of other families than below: named in the assumptions,
`vision` is null, and everything is of the text model. Layers that predict further tokens are in no total, as
transformers leaves them out; `parameters.prediction` has them where their structure is known, else null. An unknown
`model_type` is read by its keys, and the answer says on top what that takes for granted and which keys were not read.

## Encoders, and encoders with decoders

An encoder (BERT, ViT and their kin) sees all of its input at once: a prefill pass without a context is all there is,
and a decode step is refused. What stands behind its layers is decided by the class that the file names
(`architectures`): a head for masked tokens, over all of them, a pooler, a classifier. The rows of a vision transformer
are the patches of an image and its class token; the answer says how many an image has.

An encoder with a decoder (T5, BART, Whisper and their kin) reads a source of `--source N` positions, as many as the
decoder's where nothing says it; Whisper's always has the positions of 30 seconds. A prefill pass goes through the
encoder, makes K and V of the source in every layer of the decoder, once, and runs the decoder's new tokens. A decode
step reads these instead: they are a cache that does not grow with the tokens. `--source 512 --new-tokens 1
--phase prefill` is what serving does first. `active` is all of both. Training of either is refused.

T5 small by hand: 6 layers of 8 heads of 64 on each side, 512 wide. One sequence at 100 tokens with a source of 500
keeps 6 layers x 2 x 512 numbers of 100 + 500 positions, 2 bytes each. A step's cross-attention is 4 x 512 x 500 FLOP a
layer; a prefill makes K and V out of 500 rows, 2 x 500 x 512 x 1024 FLOP a layer.

```python
>>> import roofline as rl
>>> t5 = rl.Model.load({{
...     "model_type": "t5", "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8,
...     "vocab_size": 32128, "architectures": ["T5ForConditionalGeneration"],
... }})
>>> t5.parameters().total
60506624
>>> step = rl.predict(t5, "h100-sxm", rl.Workload.decode(1, 100).reading(500))
>>> step.model.cache_bytes(100, rl.Precision(), rl.Shard()) == 6 * 2 * 512 * (100 + 500) * 2
True
>>> sum(point.flops for point in step if point.name == "cross_attention") == 6 * 4 * 512 * 500
True
>>> first = rl.predict(t5, "h100-sxm", rl.Workload.prefill(1, 1).reading(500))
>>> sum(point.flops for point in first if point.name == "cross_kv_proj") == 6 * 2 * 500 * 512 * 1024
True

```

## Vision towers

Counted exactly for {towers}: small ones and the sizes that their classes have by default, against transformers.
A pass is the text model's alone unless it has images (`Workload.seeing(images, tokens)`); a tower is whole on every
rank. `vision` is in the total, but where the family's causal language model in transformers is the text model alone
({apart}): there `vision_apart` has it, and it is in no total.

## Recurrent layers

A sequence keeps a state of fixed size and the last columns before a short convolution, not a cache that grows. A single
new token is a step on the vector units, 5 FLOP an element of the state (7 with the delta rule); more are scanned in
chunks, of the file's size or of 64 with the delta rule, as products at the compute rate. The state has the format that
the file says, else FP32. Mamba 1, RWKV and RecurrentGemma are steps, one token after another. A layer that stands in
several places with one set of weights (Zamba, ALBERT) is stored once, streamed each time, and caches each time.

## Every class of transformers

All {classes} classes that make text or read text or images, at the sizes that they have by default, on the meta device:
{exact} are counted exactly, {part} with what is left out named ({parts}), {alone} build nothing by default, {refused}
are refused. None is counted otherwise. `tests/oracles/walk.py` walks them again.

Exact: {names}.

| refused | why |
|---|---|
{reasons}

## Stored formats

`quantization_config` of a `config.json`, or `hf_quant_config.json` beside it, says how a checkpoint's weights are
stored: FP8 (a scale a matrix or a block), GPTQ, AWQ, bitsandbytes, MXFP4, compressed-tensors, ModelOpt with one
algorithm or one a module. Each matrix gets its format by its module's names, with the modules that the lists leave out,
scales and zero points; that is `--weights stored`, the default where the file says so (`--weights bf16` counts as if it
did not). Tables, routers, norms, convolutions, the vision tower and what the lists name stay in 16 bits; the head too
but with compressed-tensors and ModelOpt, where it must be listed, and with GPTQ's `lm_head`. Scales of activations are
not counted. Arithmetic stays at `--compute`.

## Conventions

- `active` is what one token goes through: everything but the routed experts, and of these `top_k`. Published figures
  differ in whether they have the token table in it, whose rows are looked up: Mixtral's 12.9 B, Qwen3-235B-A22B's 22 B
  and Llama 4 Scout's 17 B have it, DeepSeek-V3's 37 B, Kimi K2's 32 B and gpt-oss-120b's 5.1 B leave it out
  (`active_without_embedding`).
- Experts that are read: as many distinct ones as T tokens reach on average where each chooses k of E evenly,
  E(1 - (1 - k/E)^T); `--experts-touched N` gives their number, `--expert-skew S` a power law. The floor takes k.
- Latent attention of decode rows is absorbed (every head attends to the cached latents), of prefill rows expanded (K
  and V of every position are made first); with an indexer always absorbed.
- A nested config leaves out what is its class's default; those are taken from transformers' classes
  (`src/roofline/data/defaults.json`, written by `scripts/defaults`), and the answer names the sizes it took.
"""


def page() -> str:
    """The whole page."""
    golden = json.loads((Path(__file__).parent / "golden" / "families.json").read_text("utf-8"))
    cases = Counter(model_type for model_type, _ in CASES)
    cases.update(each.model_type for each in test_families.GOLDEN)
    whole = {kind for kind, changes in CASES if golden[ident(kind, changes)]["flops"] is not None}
    published = {keys["model_type"] for keys, _ in test_families.PUBLISHED}
    rows: list[str] = []
    for name, reader in sorted(load_all().items()):
        if name in test_families.SAME:
            checked = f"as {test_families.SAME[name]}"
        elif name in cases:
            checked = f"{'counted' if name in whole else 'weights'}, {cases[name]}"
        else:
            assert name in published
            checked = "published"
        said = (reader.__doc__ or "").split("\n")[0].split(":")[0].rstrip(".")
        rows.append(f"| `{name}` | {said} | {checked} |")
    otherwise = "\n".join(f"- `{name}`: {what}." for name, what in sorted(COUNTED_OTHERWISE.items()))
    apart = [name for name, each in TOWERS.items() if each.apart]
    tail = _TAIL.format(otherwise=otherwise, towers=_listed(TOWERS), apart=_listed(apart), **_walked())
    return _HEAD + "\n".join(rows) + "\n" + tail


def _walked() -> dict[str, object]:
    """What the walk over the classes of transformers found."""
    walked = json.loads((Path(__file__).parent / "golden" / "walk.json").read_text("utf-8"))
    found: dict[str, list[str]] = {"exact": [], "part": [], "alone": [], "refused": []}
    for name, each in walked.items():
        found[state(each)].append(name)
    reasons = (f"| `{name}` | {_short(walked[name]['refused'])} |" for name in found["refused"])
    return {
        **{kind: len(names) for kind, names in found.items()},
        "classes": len(walked),
        "names": _listed(found["exact"]),
        "parts": _listed(found["part"]),
        "reasons": "\n".join(reasons),
    }


def state(found: dict[str, Any]) -> str:
    """What a row of the walk says: "exact", "part" (something is named as left out), "refused", "alone", "other"."""
    if found["counted"] is None:
        return "refused"
    if found["total"] is None:
        return "alone"
    if found["counted"] == found["total"]:
        return "exact"
    return "part" if found["left_out"] else "other"


def _short(reason: str) -> str:
    """The reason of a refusal without what would be possible."""
    for end in (", as which it would be read", ", which is not counted yet", "; it decides", ". "):
        reason = reason.split(end, maxsplit=1)[0]
    strange = reason.partition("is not known here, and ")[2]
    return strange or reason


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
