"""Memory of training by hand: Korthikanti's activations, every stage of ZeRO, what fits."""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.training.memory import footprint
from roofline.training.plan import Plan
from roofline.training.recipe import Recipe, Recompute

S, H, A, L, V = 64, 32, 4, 4, 96
GPT = rl.Model.load({"model_type": "gpt2", "vocab_size": V, "n_embd": H, "n_layer": L, "n_head": A, "n_positions": S})
SBH = S * H
STORED = Recipe(flash=False)


def activations(plan: Plan, recipe: Recipe, *, dropout: bool = True) -> float:
    """Activation bytes of one layer for one sequence."""
    return footprint(GPT, plan, recipe, S, None, dropout=dropout).activation_bytes / L


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_korthikanti_tensor_parallel(tp):
    """sbh(10 + 24/t + 5as/ht): equation 2."""
    assert activations(Plan(tp=tp), STORED) == SBH * (10 + 24 / tp + 5 * A * S / (H * tp))


@pytest.mark.parametrize("tp", [2, 4])
def test_korthikanti_sequence_parallel(tp):
    """sbh/t (34 + 5as/h): equation 4."""
    assert activations(Plan(tp=tp, sequence_parallel=True), STORED) == SBH / tp * (34 + 5 * A * S / H)


def test_selective_and_flash_have_no_square():
    """34sbh: table 2; FlashAttention keeps none of the scores either."""
    selective = Recipe(flash=False, recompute=Recompute.named("selective"))
    assert activations(Plan(), selective) == activations(Plan(), Recipe()) == 34 * SBH


def test_without_dropout_there_are_no_masks():
    """32sbh, and 2as²b of the softmax's output where it is stored."""
    assert activations(Plan(), Recipe(), dropout=False) == 32 * SBH
    assert activations(Plan(), STORED, dropout=False) == 32 * SBH + 2 * A * S * S


def test_full_recomputation_keeps_inputs():
    """2sbh a layer, and one layer's own while it runs again."""
    found = footprint(GPT, Plan(), Recipe(recompute=Recompute.named("full")), S, None, dropout=True)
    assert found.activation_bytes == 2 * SBH * L + 34 * SBH
    half = footprint(GPT, Plan(), Recipe(recompute=Recompute.named("0.5")), S, None, dropout=True)
    assert half.activation_bytes == (1 + 17) * SBH * L + 34 * SBH


def test_gated_and_grouped():
    """Llama: norms 2·2sbh, qkv and MLP inputs 2·2sbh, q, K, V, o_proj's input, gate, up and down_proj's input."""
    keys = {"hidden_size": H, "intermediate_size": 80, "num_hidden_layers": 1, "num_attention_heads": 4}
    keys |= {"num_key_value_heads": 2, "vocab_size": V, "max_position_embeddings": S}
    llama = rl.Model.load({"model_type": "llama", **keys})
    found = footprint(llama, Plan(), Recipe(), S, None).activation_bytes
    assert found == 2 * S * (4 * H + H + 2 * H // 2 + H + 3 * 80)


@pytest.mark.parametrize(
    ("zero", "each"),
    [(0, 2 + 2 + 12), (1, 2 + 2 + 12 / 64), (2, 2 + (2 + 12) / 64), (3, 16 / 64)],
)
def test_stages_of_zero(zero, each):
    """Rajbhandari et al. 2020, figure 1: 7.5e9 parameters on 64 ranks: 120, 31.4, 16.6 and 1.88 GB."""
    model = rl.Model.load("7B")
    found = footprint(model, Plan(dp=64, zero=zero), Recipe(), 1024, None)
    assert found.static_bytes == pytest.approx(7e9 * each)


def test_hsdp_shards_within_its_group():
    """Sixteen ranks in groups of four: a quarter each."""
    model = rl.Model.load("7B")
    whole = footprint(model, Plan(dp=16), Recipe(), 8, None).static_bytes
    assert footprint(model, Plan(dp=16, zero=3, shard_group=4), Recipe(), 8, None).static_bytes == whole / 4


def test_pipeline_keeps_as_many_micro_batches_as_stages():
    """Four stages: a fourth of the layers each, four micro-batches in flight on the first; chunks keep more."""
    one = footprint(GPT, Plan(), Recipe(), S, None).activation_bytes
    four = footprint(GPT, Plan(pp=4, accumulate=8), Recipe(), S, None)
    assert (four.activation_bytes, four.logit_bytes) == (one, 0)
    two = footprint(GPT, Plan(pp=2, accumulate=8, chunks=2), Recipe(), S, None).activation_bytes
    assert two == one * (1 + 1 / 4)
    assert footprint(GPT, Plan(pp=4, accumulate=2), Recipe(), S, None).activation_bytes == one / 2
    late = footprint(GPT, Plan(pp=2, accumulate=8, schedule="zero-bubble"), Recipe(), S, None)
    assert late.activation_bytes == one * 3 / 2


def test_the_last_stage_may_be_the_fuller():
    """One micro-batch: as many activations on both ends, and the logits on the last."""
    found = footprint(GPT, Plan(pp=2, accumulate=1), Recipe(), S, None)
    assert found.logit_bytes == 4 * S * V


def test_logits_are_fp32():
    """Korthikanti: 4sbV/t."""
    assert footprint(GPT, Plan(tp=2), Recipe(), S, None).logit_bytes == 4 * S * V / 2


def test_context_ranks_share_the_tokens():
    """Half of everything that grows with tokens."""
    one, two = (footprint(GPT, Plan(cp=cp), Recipe(), S, None) for cp in (1, 2))
    assert two.activation_bytes == one.activation_bytes / 2
    assert two.logit_bytes == one.logit_bytes / 2


def test_lora_keeps_no_state_of_what_is_frozen():
    """Gradients and states of the adapters alone."""
    full, lora = (footprint(GPT, Plan(), Recipe(lora=rank), S, None) for rank in (0, 2))
    adapters = 2 * L * ((H + H) * 4 + 2 * (H + 4 * H))
    assert lora.optimizer_bytes == 12 * adapters
    assert lora.gradient_bytes == 2 * adapters
    assert lora.weight_bytes == full.weight_bytes


def test_the_largest_micro_batch_fits_and_one_more_does_not():
    """At a capacity that holds some."""
    capacity = 8_000_000
    most = int(footprint(GPT, Plan(), Recipe(), S, capacity, reserve=0.1).largest_micro_batch)
    assert footprint(GPT, Plan(micro_batch=most), Recipe(), S, capacity, reserve=0.1).fits == 1
    assert footprint(GPT, Plan(micro_batch=most + 1), Recipe(), S, capacity, reserve=0.1).fits == 0
    assert footprint(GPT, Plan(), Recipe(), S, None).fits is None
