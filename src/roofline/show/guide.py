"""The walk through what batching, context, formats and hardware do to a decode pass, step by step.

A step sets controls and says what to see; its figures are worked out by the page, none is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Step(NamedTuple):
    """A step: the controls that it sets on those of `START`, and its text with figures in braces.

    `{tokens}` is of the step itself, `{name.tokens}` of the setting that `beside` changes by that name.
    """

    title: str
    set: Mapping[str, Any]
    text: str
    beside: Mapping[str, Mapping[str, Any]] = {}


BATCH = 4 * 256
MODEL = "qwen3-8b"  # the model that the texts are true of
START: Mapping[str, Any] = {
    **{"model": MODEL, "device": "h100-sxm", "phase": "decode", "sequences": 1, "context": 8192, "tp": 1},
    **{"weights": "bf16", "kv": "bf16", "activations": "bf16", "compute": "bf16", "fused": False},
    **{"times": "derated", "eb": 80, "ec": 75, "against": ""},
}

STEPS = (
    Step(
        "One token",
        {},
        "A decode step for one user moves {bytes} to do {flops}: {intensity} FLOP for each byte, where the device "
        "could do {ridge}. It reaches {of_peak} of the peak, {tokens} tokens/s. Nearly all of the time goes into "
        "reading weights.",
    ),
    Step(
        "Sixty-four tokens",
        {"sequences": 64},
        "Sixty-four users share one reading of the weights: {tokens} tokens/s in place of {one.tokens}. The weight "
        "GEMMs climb with the batch. Attention does not: each cache is read for its own query alone, and it now takes "
        "{attention} of the pass. See below whether all those caches fit.",
        {"one": {"sequences": 1}},
    ),
    Step(
        "Two hundred and fifty-six, and why it stops",
        {"sequences": 256},
        "Four times the batch gives {tokens} tokens/s in place of {before.tokens}: {gain.before} more. Attention takes "
        "{attention}. A further sequence brings its FLOPs and its bytes in one ratio, so its dot stays where it is.",
        {"before": {"sequences": 64}},
    ),
    Step(
        "A shorter context",
        {"sequences": 256, "context": 512},
        "The same batch at 512 tokens of context: {tokens} tokens/s in place of {before.tokens}. Attention is down to "
        "{attention}. A shorter context is what helps where a larger batch no longer does.",
        {"before": {"sequences": 256}},
    ),
    Step(
        "Smaller weights: FP8",
        {"weights": "fp8"},
        "One token again, with weights of one byte: {tokens} tokens/s in place of {before.tokens}. The arithmetic is "
        "the same; there are fewer bytes to wait for.",
        {"before": {}},
    ),
    Step(
        "Smaller weights: INT4",
        {"weights": "int4"},
        "With half a byte for each weight: {tokens} tokens/s, {gain.before} more than in BF16.",
        {"before": {}},
    ),
    Step(
        "A100 against H100",
        {"against": "a100-sxm-80gb"},
        "One token on both: {tokens} against {other.tokens} tokens/s, {times.other} times as fast. That is the ratio "
        "of the bandwidths. The H100 has {peaks.other} times the arithmetic, and a single stream sees none of it.",
        {"other": {"device": "a100-sxm-80gb"}},
    ),
    Step(
        "1,024 tokens, where the format no longer matters",
        {"sequences": BATCH, "context": 512, "weights": "int4"},
        "A batch of 1,024 at 512 tokens: {tokens} tokens/s with INT4 weights, {bf16.tokens} with BF16. The weight "
        "GEMMs are past the ridge, so fewer bytes of weights save no time.",
        {"bf16": {"sequences": BATCH, "context": 512}},
    ),
    Step(
        "Would twice the tensor cores help?",
        {"sequences": 64, "peak_times": 2},
        "The batch of sixty-four on a device with twice the peak and the same memory: {tokens} tokens/s in place of "
        "{before.tokens}. The ridge moves to {ridge} FLOP/byte and every memory-bound kernel stays where it was. "
        "Bandwidth, a smaller cache or a shorter context would have helped.",
        {"before": {"sequences": 64}},
    ),
)
