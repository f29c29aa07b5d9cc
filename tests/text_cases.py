"""Small configurations of further text models: what the oracle counts and the tests expect."""

from __future__ import annotations

from typing import Any

SLIDING, FULL = "sliding_attention", "full_attention"
NEAR = {"sliding_window": 4}
MIXED = [SLIDING, SLIDING, FULL, SLIDING]
WIDE, PAD = {"head_dim": 10}, {"pad_token_id": 0}
ROUTED = {"num_experts_per_tok": 2, "moe_intermediate_size": 12}
GPT = {"n_embd": 24, "n_layer": 3, "n_head": 4, "vocab_size": 50, "n_positions": 32}
LATENT = {
    **{"num_key_value_heads": 6, "kv_lora_rank": 16, "q_lora_rank": 20, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4},
    **{"v_head_dim": 6, **ROUTED, "n_routed_experts": 8, "n_group": 1, "topk_group": 1, **PAD},
}

CASES: list[tuple[str, dict[str, Any]]] = [
    ("apertus1p5_text", {**PAD, "attention_bias": True}),
    ("aria_text", {**WIDE, **PAD, "moe_num_experts": 8, "moe_num_shared_experts": 3, "moe_topk": 2}),
    ("axk1", {**LATENT, "n_shared_experts": 1, "mlp_layer_types": ["dense", *["sparse"] * 3]}),
    ("bitnet", {"attention_bias": True}),
    (
        "cohere2_moe",
        {**WIDE, **PAD, "num_experts": 8, "num_experts_per_tok": 2, "mlp_layer_types": ["sparse"] * 4},
    ),
    ("ctrl", {**GPT, "dff": 40}),
    ("exaone", WIDE),
    (
        "flint",
        {**WIDE, **ROUTED, "num_experts": 8, "shared_expert_intermediate_size": 14, "layer_types": MIXED, **NEAR},
    ),
    ("gpt-sw3", GPT),
    ("granite_swa", {"layer_types": MIXED, **NEAR, "mlp_bias": True, "tie_word_embeddings": False}),
    ("granitemoe_swa", {"num_local_experts": 8, "num_experts_per_tok": 2, "layer_types": MIXED, **NEAR}),
    ("helium", {"head_dim": 4, **PAD}),
    ("hyperclovax", {**WIDE, "use_post_norm": True}),
    ("hyperclovax", {"use_post_norm": False, "attention_bias": True, "mlp_bias": True}),
    ("iquestcoder", {**WIDE, **PAD}),
    (
        "kolibri1",
        {**WIDE, **ROUTED, "num_local_experts": 8, "shared_expert_intermediate_size": 14, "layer_types": MIXED, **NEAR},
    ),
    ("modernbert-decoder", {**PAD, "num_attention_heads": 4, "global_attn_every_n_layers": 2, "local_attention": 8}),
    ("nanochat", {"num_key_value_heads": 3, "tie_word_embeddings": True}),
    ("openai-gpt", GPT),
]
# These name their sizes otherwise, so that the base says nothing to them.
OWN_NAMES = ("ctrl", "gpt-sw3", "openai-gpt")
