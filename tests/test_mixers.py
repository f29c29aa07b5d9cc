"""Latent, indexed and compressed attention, gates, sinks, windows by layer: kernels and cache by hand."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl

# One layer of 4 heads, latents of 16 + 4 numbers a token, q through a latent of 20.
LATENT: dict[str, Any] = {
    **{"model_type": "youtu", "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 1, "vocab_size": 50},
    **{"num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 20},
    **{"qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6, "tie_word_embeddings": True},
}
INDEXED = {
    **LATENT,
    **{"model_type": "deepseek_v32", "index_topk": 5, "index_n_heads": 3, "index_head_dim": 8},
    **{"n_routed_experts": 4, "num_experts_per_tok": 1, "moe_intermediate_size": 8, "first_k_dense_replace": 1},
    **{"num_nextn_predict_layers": 0},
}


def points(keys: dict[str, Any], workload: rl.Workload, **formats: str) -> dict[str, rl.Point]:
    model = rl.Model.load(keys)
    return {point.name: point for point in rl.predict(model, "h100-sxm", workload, rl.Precision(**formats))}


def cache(keys: dict[str, Any], held: int) -> Any:
    return rl.Model.load(keys).cache_bytes(held, rl.Precision(), rl.Shard())


def test_decode_is_absorbed():
    """3 sequences at 100: q and output through the latent space, one KV head of 20 whose first 16 are V."""
    found = points(LATENT, rl.Workload.decode(3, 100))

    assert found["q_absorb"].work.flops == 2 * 3 * 4 * 8 * 16
    assert found["v_absorb"].work.flops == 2 * 3 * 4 * 6 * 16
    assert found["attention"].work.flops == 2 * 3 * 4 * 100 * (20 + 16)
    assert found["attention"].work.cost.memory["kv"] == 3 * 100 * 20 * 2
    assert "kv_b_proj" not in found
    moved = sum(found[name].work.cost.memory["weights"] for name in ("q_absorb", "v_absorb"))
    assert moved == 4 * (8 + 6) * 16 * 2


def test_prefill_is_expanded():
    """2 sequences of 10 on 6 cached: K and V of all 16 positions, then 4 KV heads of 12 and 6."""
    found = points(LATENT, rl.Workload.prefill(2, 10, 6))
    pairs = 10 * 6 + 55

    assert found["kv_b_proj"].work.flops == 2 * 2 * 16 * 4 * 14 * 16
    assert found["kv_b_proj"].work.cost.memory["kv"] == 2 * 16 * 20 * 2
    assert found["attention"].work.flops == 2 * 2 * 4 * pairs * (12 + 6)
    assert "kv" not in found["attention"].work.cost.memory
    assert found["cache_append"].work.bytes == 2 * 20 * 20 * 2
    assert "q_absorb" not in found


def test_mixed_passes_do_both():
    """Decode rows absorbed, prefill rows expanded, each with its name."""
    found = points(LATENT, rl.Workload.mixed(rl.Workload.decode(3, 100), rl.Workload.prefill(1, 10)))

    assert {"q_absorb_decode", "attention_decode", "kv_b_proj_prefill", "attention_prefill"} <= set(found)


def test_latents_are_cached_once_on_every_rank():
    """20 numbers a token, whatever the heads and the ranks; one byte each in FP8."""
    model = rl.Model.load(LATENT)

    assert cache(LATENT, 7) == 7 * 20 * 2
    assert model.cache_bytes(7, rl.Precision(kv="fp8"), rl.Shard(4)) == 7 * 20
    assert model.weight_bytes(rl.Precision(), rl.Shard(2)) < model.weight_bytes(rl.Precision(), rl.Shard())


def test_deepseek_v3_at_131072_tokens_takes_8_gib():
    """61 x (512 + 64) x 2 bytes a token; 25 to 57 times less than heads of their own would."""
    model = rl.Model.load("deepseek-v3")

    assert model.cache_bytes(1, rl.Precision(), rl.Shard()) == 61 * 576 * 2 == 70_272
    assert round(model.cache_bytes(131_072, rl.Precision(), rl.Shard()) / 2**30, 1) == 8.6


def test_an_indexer_scores_all_and_attends_to_the_best():
    """Of 100 positions 5 are read; the scores take 3 heads of 8 over all 100, and one key of each."""
    found = points(INDEXED, rl.Workload.decode(3, 100))

    assert found["indexer_scores"].work.flops == 2 * 3 * 3 * 100 * 8
    assert found["indexer_scores"].work.cost.memory["kv"] == 3 * 100 * 8 * 2
    assert found["attention_sparse"].work.flops == 2 * 3 * 4 * 5 * (20 + 16)
    assert found["attention_sparse"].work.cost.memory["kv"] == 3 * 5 * 20 * 2
    assert cache(INDEXED, 7) == 7 * (20 + 8) * 2


def test_an_indexer_in_a_short_context_selects_all():
    """3 positions are fewer than the best 5."""
    found = points(INDEXED, rl.Workload.decode(1, 3))

    assert found["attention_sparse"].work.cost.memory["kv"] == 3 * 20 * 2


def test_assumptions_say_how_latent_attention_runs():
    """Both ways, and the selection."""
    device = rl.Device.load("h100-sxm")
    decode, prefill, sparse = (
        " ".join(rl.predict(rl.Model.load(keys), device, workload).assumptions)
        for keys, workload in (
            (LATENT, rl.Workload.decode(1)),
            (LATENT, rl.Workload.prefill(1)),
            (INDEXED, rl.Workload.decode(1)),
        )
    )

    assert "absorbed" in decode
    assert "expands" in prefill
    assert "best 5" in sparse


V4: dict[str, Any] = {
    **{"model_type": "deepseek_v4", "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6},
    **{"head_dim": 8, "q_lora_rank": 20, "qk_rope_head_dim": 4, "o_groups": 3, "o_lora_rank": 5, "vocab_size": 50},
    **{"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "n_shared_experts": 1},
    **{"hc_mult": 3, "sliding_window": 4, "compress_ratios": [0, 4, 128], "num_key_value_heads": 1},
    **{"index_topk": 5, "index_n_heads": 3, "index_head_dim": 8, "max_position_embeddings": 2048},
}


def test_compressed_attention_reads_the_window_and_entries():
    """At 300 positions: 4 of the window; with stride 4 the best 5 of 75 entries, with 128 both of 2."""
    found = points(V4, rl.Workload.decode(2, 300))

    assert found["attention_sliding"].work.cost.memory["kv"] == 2 * 4 * 8 * 2
    assert found["attention_compressed_4"].work.cost.memory["kv"] == 2 * (4 + 5) * 8 * 2
    assert found["attention_compressed_128"].work.cost.memory["kv"] == 2 * (4 + 2) * 8 * 2
    assert found["attention_compressed_4"].work.flops == 2 * 2 * 6 * (4 + 5) * 16
    assert found["indexer_scores"].work.cost.memory["kv"] == 2 * 75 * 8 * 2


def test_compressed_attention_caches_the_window_and_entries():
    """300 positions: three windows, 75 and 2 entries of 8, and 75 of the indexer."""
    model = rl.Model.load(V4)

    assert cache(V4, 300) == (3 * 4 * 8 + 75 * 8 + 2 * 8 + 75 * 8) * 2
    assert {each.sort: each.layers for each in model.caches()} == {
        "last 4 tokens": 1,
        "last 4 tokens, best 5 entries of 4": 1,
        "last 4 tokens, entries of 128": 1,
    }
    assert model.cache_bytes_per_token(rl.Precision(), rl.Shard()) == cache(V4, 128) / 128


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ({"compress_ratios": [0]}, "compress_ratios"),
        ({"compress_ratios": [0, 4, "odd"]}, "compress_ratios"),
        ({"compress_ratios": None}, "compress_ratios"),
        ({"layer_types": ["sliding_attention", "odd", "odd"]}, "layer_types"),
        ({"num_experts_per_tok": 9}, "9 experts a token"),
    ],
)
def test_compressed_layers_that_cannot_be(keys, word):
    """One line with the key."""
    with pytest.raises(rl.RooflineError, match=word):
        rl.Model.load({**V4, **keys})


def test_gpt_oss_alternates_windows_and_has_sinks(h100):
    """18 layers see 128 positions, 18 everything; 64 sinks are read with each attention."""
    ledger = rl.predict("gpt-oss-120b", h100, rl.Workload.decode(1, 4096))
    found = {point.name: point for point in ledger if point.work.op == "attention"}

    assert {name: point.count for name, point in found.items()} == {"attention_sliding": 18, "attention": 18}
    assert found["attention_sliding"].work.cost.memory["kv"] == 2 * 128 * 8 * 64 * 2
    assert found["attention"].work.cost.memory["kv"] == 2 * 4096 * 8 * 64 * 2
    assert found["attention"].work.cost.memory["weights"] == 64 * 2


def test_llama_4_sees_chunks(h100):
    """36 layers of chunks of 8,192: at 8,193 positions one, at 8,192 all; 12 see everything and are not rotated."""
    model = rl.Model.load("llama-4-scout")
    seen = {
        context: {
            point.name: point.work.cost.memory["kv"] / (2 * 8 * 128 * 2)
            for point in rl.predict(model, h100, rl.Workload.decode(1, context))
            if point.work.op == "attention"
        }
        for context in (8192, 8193)
    }

    assert seen[8192] == {"attention_chunked": 8192, "attention": 8192}
    assert seen[8193] == {"attention_chunked": 1, "attention": 8193}
    assert sum(point.count for point in rl.predict(model, h100) if point.work.op == "rope") == 36
    assert model.cache_bytes(20_000, rl.Precision(), rl.Shard()) == 4096 * (36 * 8192 + 12 * 20_000)


def test_a_gate_is_part_of_the_qkv_product(h100):
    """AFMoE's has as many outputs as the heads together; Laguna's one a head."""
    from family_cases import CASES, keys_of

    for model_type, outputs in (("afmoe", 60), ("laguna", 6)):
        keys = keys_of(*next(each for each in CASES if each[0] == model_type))
        found = points(keys, rl.Workload.decode(1, 8))
        assert found["qkv_proj"].work.dims["n"] == 60 + 2 * 20 + outputs
        assert "attention_gate" in found


# Published active parameters a token [1e9], and whether the figure has the token table in it.
ACTIVE = {
    "deepseek-v3": (37, 0, False),
    "gpt-oss-120b": (5.1, 1, False),
    "gpt-oss-20b": (3.6, 1, False),
    "kimi-k2": (32, 0, False),
    "qwen3-235b-a22b": (22, 0, True),
    "mixtral-8x7b": (12.9, 1, True),
    "llama-4-scout": (17, 0, True),
}


@pytest.mark.parametrize("name", ACTIVE)
def test_published_active_parameters(name):
    """Within the rounding of the figure."""
    published, digits, with_table = ACTIVE[name]
    counted = rl.Model.load(name).parameters()
    active = counted.active if with_table else counted.active_without_embedding

    assert round(active / 1e9, digits) == published


def test_published_active_parameters_of_qwen3_30b_a3b():
    """3.353e9 with the token table, published as 3.3: cut, not rounded."""
    assert int(rl.Model.load("qwen3-30b-a3b").parameters().active / 1e8) == 33
