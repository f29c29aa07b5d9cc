"""The verdict names what bounds the pass, with its number, and what else weighs."""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.ops import OPS
from roofline.verdicts import SUBJECTS, verdict

H100 = rl.Device.load("h100-sxm")
QWEN = rl.Model.load("qwen3-8b")


def test_attention_of_a_large_batch():
    """The lesson's sentence: attention, 83 %, 4.0 FLOP/byte, the ridge."""
    said = verdict(rl.predict(QWEN, H100, rl.Workload.decode(64), efficiency=(0.8, 0.75)))

    assert said == (
        "Memory-bound: attention over the KV cache takes 83 % of the pass at 4.0 FLOP/byte; the ridge is at 295."
    )


@pytest.mark.parametrize(
    ("workload", "begins", "helps", "idle"),
    [
        (rl.Workload.decode(1), "Memory-bound: the weight GEMMs take 93 %", "batch", "twice every peak"),
        (rl.Workload.prefill(new=8192), "Compute-bound: the weight GEMMs take", "compute", "fp8 weights"),
        (rl.Workload.prefill(new=200_000), "Compute-bound: attention over the KV cache takes", "compute", "fp8 KV"),
        (rl.Workload.prefill(new=8, context=500_000), "Memory-bound: attention", "kv", "twice every peak"),
    ],
)
def test_each_regime(workload, begins, helps, idle):
    """One token, a long prompt, a very long one, a short one on a long cache: verdict, and levers computed."""
    ledger = rl.predict(QWEN, H100, workload)

    assert verdict(ledger).startswith(begins)
    assert helps in {each.name for each in ledger.levers if each.helps}
    assert any(each.change.startswith(idle) for each in ledger.levers if not each.helps)


def test_a_mixed_pass_is_judged_by_its_longest_attention():
    """64 decode rows beside a short prefill: the decode rows' attention takes the time."""
    workload = rl.Workload.mixed(rl.Workload.decode(64), rl.Workload.prefill(new=128))
    said = verdict(rl.predict(QWEN, H100, workload))

    assert said.startswith("Memory-bound: attention over the KV cache of the decode rows takes 82 %")


def test_the_wire():
    """8B over eight cards: the collectives of a prefill take most, and a faster link is the help."""
    ledger = rl.predict(QWEN, H100, rl.Workload.prefill(new=8192), shard=rl.Shard(8))

    assert verdict(ledger).startswith("Communication-bound: the collectives take 44 % of the pass.")
    assert "ridge" not in verdict(ledger)
    assert next(each for each in ledger.levers if each.change == "twice the link bandwidth").gain > 0.25


def test_small_kernels():
    """Layers of width 64: norms, RoPE and activation take most, and folding them is the help."""
    keys = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 1}
    model = rl.Model.load({"model_type": "llama", **keys, "vocab_size": 100, "tie_word_embeddings": True})
    ledger = rl.predict(model, H100, rl.Workload.prefill(sequences=4096, new=4))

    assert verdict(ledger).startswith("Memory-bound: the small kernels take 47 %")
    assert next(each for each in ledger.levers if each.name == "fused").gain > 0.3


def test_every_operation_has_a_subject():
    """A kernel whose operation has no name to a reader would be judged as another."""
    assert set(SUBJECTS) == set(OPS)


def test_a_full_window_is_not_helped_by_another_context():
    """Mistral past its 4,096 tokens: 8k and 32k read the same cache, and the lever shows it."""
    mistral = rl.Model.load("mistral-7b-v0.1")
    ledgers = [rl.predict(mistral, H100, rl.Workload.decode(512, context)) for context in (8192, 32_768)]

    assert ledgers[0].total.bound_seconds == ledgers[1].total.bound_seconds
    assert next(each for each in ledgers[1].levers if each.name == "context").gain == 0


def test_what_else_weighs_is_said():
    """53 % compute and 38 % memory: both are named."""
    workload = rl.Workload.mixed(rl.Workload.decode(64, 2048), rl.Workload.prefill(new=512))
    said = verdict(rl.predict(QWEN, H100, workload))

    assert said.startswith("Compute-bound: the weight GEMMs take 53 %")
    assert said.endswith("Memory bounds attention over the KV cache of the decode rows, another 38 %.")


@pytest.mark.parametrize("efficiency", [(1.0, 0.1), (0.1, 1.0), (0.5, 0.5)])
def test_an_efficiency_leaves_the_verdict_alone(efficiency):
    """The verdict is of the undiscounted device, its shares too."""
    workload = rl.Workload.decode(64, 2048)

    assert verdict(rl.predict(QWEN, H100, workload, efficiency=efficiency)) == verdict(rl.predict(QWEN, H100, workload))
