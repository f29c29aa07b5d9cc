"""States of recurrent families, and what cannot be read of them, by hand."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from family_cases import CASES, keys_of
from roofline.parts.recurrent import SORT

FORMATS = rl.Precision(), rl.Shard()
RWKV6 = {"model_type": "rwkv6", "hidden_size": 128, "num_hidden_layers": 3, "vocab_size": 50}
RWKV7 = {
    **{**RWKV6, "model_type": "rwkv7", "decay_low_rank_dim": 8, "a_low_rank_dim": 8, "v_low_rank_dim": 4},
    "gate_low_rank_dim": 16,
}


def keys(model_type: str, number: int = 0) -> dict[str, Any]:
    return keys_of(*[case for case in CASES if case[0] == model_type][number])


@pytest.mark.parametrize(
    ("given", "layers", "size"),
    [
        (keys("falcon_h1"), 4, 6 * 8 * 8 * 4 + 2 * (48 + 2 * 2 * 8) * 2),  # 6 heads of 8 x 8, 2 columns of x, B and C
        (keys("zamba"), 6, 48 * 8 * 4 + 2 * 48 * 2),  # 48 channels with 8 numbers each
        (keys("zamba2"), 6, 4 * 12 * 8 * 4 + 2 * (48 + 2 * 2 * 8) * 2),
        (keys("kimi_linear"), 3, 4 * 8 * 8 * 4 + 2 * 3 * 32 * 2),
        (keys("lfm2"), 2, 2 * 24 * 2),  # no state, two columns
        (keys("recurrent_gemma"), 2, 32 * 4 + 2 * 32 * 2),
        (keys("minimax"), 3, 6 * 10 * 10 * 4),  # no convolution
        (keys("olmo_hybrid"), 2, 4 * 8 * 6 * 4 + 2 * (2 * 16 + 24) * 2),
        (keys("rwkv"), 3, 3 * 24 * 4 + 24 * 2),  # three numbers a channel, and the token before
        (RWKV6, 3, 2 * 64 * 64 * 4 + 128 * 2),
        (RWKV7, 3, 2 * 64 * 64 * 4 + 128 * 2),
    ],
    ids=lambda each: each["model_type"] if isinstance(each, dict) else "",
)
def test_what_a_sequence_keeps(given, layers, size):
    """A state in FP32 and columns in BF16 of each recurrent layer, whatever the tokens."""
    state = next(each for each in rl.Model.load(given).caches() if each.sort == SORT)

    assert state.layers == layers
    assert state.bytes(1, *FORMATS) == state.bytes(4096, *FORMATS) == layers * size


def test_the_mlp_of_rwkv_keeps_the_token_before():
    """Another 24 numbers a layer in BF16 beside the mixer's."""
    model = rl.Model.load(keys("rwkv"))

    assert model.cache_bytes(100, *FORMATS) == 3 * (3 * 24 * 4 + 24 * 2 + 24 * 2)
    assert model.cache_bytes_per_token(*FORMATS) == 0


def test_shared_blocks_are_stored_once_and_cached_each_time(h100):
    """Zamba's block stands in three layers: one set of weights, three caches of 4 heads of 12, streamed three times."""
    model = rl.Model.load(keys("zamba"))
    ledger = rl.predict(model, h100, rl.Workload.decode(1, 10))
    attention = [point for point in ledger if point.name == "attention"]
    product = [point for point in ledger if point.name == "qkv_proj"]

    assert model.cache_bytes_per_token(*FORMATS) == 3 * 2 * 48 * 2
    assert sum(point.count for point in attention) == 3
    assert sum(point.count * point.work.cost.memory["weights"] for point in product) == 3 * 3 * 48 * 48 * 2
    once = sum(each.parameters for _, part in model.repeats for each in part.weights() if each.name == "q_proj")
    assert once == 48 * 48


def test_attention_and_recurrence_side_by_side(h100):
    """Falcon-H1: both in each of 4 layers; the norm behind them adds what both give."""
    ledger = rl.predict(rl.Model.load(keys("falcon_h1")), h100, rl.Workload.decode(1, 10))
    counts = {point.name: point.count for point in ledger}
    (norm,) = [point for point in ledger if point.name == "mlp_norm"]

    assert counts["attention"] == counts["scan"] == 4
    assert norm.work.dims["added"] == 2


def test_a_layer_of_rwkv_7_but_the_first_mixes_values():
    """Two matrices of rank 4 and a bias in all but the first layer."""
    model = rl.Model.load(RWKV7)
    mixed = sum(times for times, part in model.repeats for each in part.weights() if each.name == "v_1")

    assert mixed == 2


@pytest.mark.parametrize(
    ("model_type", "changes", "says"),
    [
        ("falcon_h1", {"mamba_d_ssm": 47}, "6 heads of 8 are not the 47"),
        ("zamba", {"layers_block_type": ["mamba"]}, "layers_block_type is no list of 6"),
        ("zamba", {"layers_block_type": None, "hybrid_layer_ids": [9]}, "hybrid_layer_ids is"),
        ("zamba", {"num_key_value_heads": 2}, "num_key_value_heads"),
        ("zamba2", {"mamba_headdim": 5}, "4 heads of 5 are not the 48"),
        ("kimi_linear", {"layer_types": None}, "the key full_attn_layers is missing"),
        ("kimi_linear", {"linear_num_heads": None}, "the key linear_num_heads is missing"),
        ("lfm2", {"layer_types": ["conv"] * 3}, "layer_types is no list of 4"),
        ("lfm2", {"layer_types": None, "full_attn_idxs": [4]}, "full_attn_idxs is"),
        ("lfm2", {"block_ffn_dim_multiplier": -1}, "block_ffn_dim_multiplier is -1"),
        ("recurrent_gemma", {"block_types": ["odd"]}, "block_types is"),
        ("recurrent_gemma", {"lru_width": 33}, "lru_width 33 is not divisible"),
        ("minimax", {"attn_type_list": [0, 2, 0, 0]}, "attn_type_list is no list of 4"),
        ("rwkv", {"attention_hidden_size": "24"}, "attention_hidden_size is '24'"),
    ],
)
def test_what_cannot_be_is_one_line(model_type, changes, says):
    with pytest.raises(rl.RooflineError, match=says) as caught:
        rl.Model.load({**keys(model_type), **changes})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", [{"head_size": 60}, {"head_size": 0}, {"hidden_size": "128"}])
def test_heads_of_rwkv_that_cannot_be_are_one_line(change):
    with pytest.raises(rl.RooflineError) as caught:
        rl.Model.load({**RWKV6, **change})
    assert "\n" not in str(caught.value)
