"""Small configurations of recurrent and hybrid models: what the oracle counts and the tests expect."""

from __future__ import annotations

from typing import Any

LINEAR, FULL = "linear_attention", "full_attention"
STATE = {"mamba_ssm_dtype": "float32"}
FALCON_H1 = {
    **{"mamba_n_heads": 6, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 8, "mamba_d_conv": 3},
    **{"mamba_d_ssm": 48, "mamba_chunk_size": 4, "pad_token_id": 0, "mamba_ssm_cache_dtype": "float32"},
}
ZAMBA = {
    **{"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 6, "num_attention_heads": 4, "vocab_size": 50},
    **{"num_key_value_heads": 4, "n_mamba_heads": 2, "mamba_d_state": 8, "mamba_d_conv": 3, "mamba_expand": 2},
    **{"max_position_embeddings": 32, "layers_block_type": [LINEAR, "hybrid"] * 3, **STATE},
}
ZAMBA2 = {
    **{**ZAMBA, "mamba_headdim": 12, "n_mamba_heads": 4, "mamba_ngroups": 2, "chunk_size": 4, "adapter_rank": 5},
    **{"hybrid_layer_ids": [1, 3, 5], "mamba_ssm_cache_dtype": "float32"},
}
KIMI = {
    **{"num_key_value_heads": 6, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6},
    **{"linear_num_heads": 4, "linear_head_dim": 8, "linear_conv_kernel_dim": 3, "num_experts": 8, "pad_token_id": 0},
    **{"num_experts_per_token": 2, "moe_intermediate_size": 12, "num_shared_experts": 1, **STATE},
    **{"layer_types": [LINEAR, FULL, LINEAR, LINEAR], "mlp_layer_types": ["dense", *["sparse"] * 3]},
    **{"num_expert_group": 1, "topk_group": 1, "q_lora_rank": None},
}
LFM2 = {"conv_L_cache": 3, "layer_types": ["conv", FULL, "conv", FULL], "pad_token_id": 0}
GRIFFIN = {
    **{"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 6, "lru_width": 32, "conv1d_width": 3},
    **{"attention_window_size": 4096, "block_types": ["recurrent", "attention"], **STATE},
}
DELTA = {
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 6},
    **{"linear_conv_kernel_dim": 3, **STATE, "layer_types": [LINEAR, FULL, LINEAR, FULL], "pad_token_id": 0},
}
RWKV = {"hidden_size": 24, "attention_hidden_size": 24, "num_hidden_layers": 3, "vocab_size": 50, **STATE}

CASES: list[tuple[str, dict[str, Any]]] = [
    ("falcon_h1", FALCON_H1),
    (
        "falcon_h1",
        {**FALCON_H1, "mamba_rms_norm": True, "projectors_bias": True, "mamba_proj_bias": True, "mlp_bias": True},
    ),
    (
        "falcon_mamba",
        {
            **{"hidden_size": 24, "num_hidden_layers": 3, "vocab_size": 50, "state_size": 8, "conv_kernel": 3},
            **{"expand": 2, "time_step_rank": 5, **STATE},
        },
    ),
    (
        "bailing_hybrid",
        {
            **{key: each for key, each in KIMI.items() if key not in ("layer_types", "mlp_layer_types")},
            **{"layer_types": [LINEAR, FULL, LINEAR, FULL], "mlp_layer_types": ["dense", *["sparse"] * 3]},
        },
    ),
    ("kimi_linear", KIMI),
    (
        "lara_mini",
        {
            **{**DELTA, "head_dim": 10, "layer_types": [LINEAR, FULL, LINEAR, "sliding_attention"]},
            **{"sliding_window": 4096, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 12},
            "shared_expert_intermediate_size": 14,
        },
    ),
    ("lfm2", {**LFM2, "block_multiple_of": 8, "block_ffn_dim_multiplier": 1.3}),
    ("lfm2", {**LFM2, "block_auto_adjust_ff_dim": False, "conv_bias": True}),
    (
        "lfm2_moe",
        {**LFM2, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "num_dense_layers": 1},
    ),
    (
        "lfm3",
        {**LFM2, "head_dim": 10, "layer_types": ["conv", FULL, "sliding_attention", FULL], "sliding_window": 4096},
    ),
    ("lfm3", {**LFM2, "head_dim": 4, "use_sandwich_norm": False, "use_attention_gate": False, "attention_bias": True}),
    (
        "minimax",
        {
            **{"head_dim": 10, "num_local_experts": 8, "num_experts_per_tok": 2, "block_size": 4, **STATE},
            **{"layer_types": [LINEAR, FULL, LINEAR, LINEAR]},
        },
    ),
    ("olmo_hybrid", DELTA),
    ("recurrent_gemma", GRIFFIN),
    ("recurrent_gemma", {**GRIFFIN, "attention_bias": True, "block_types": ["recurrent"]}),
    ("rwkv", {**RWKV, "intermediate_size": 40}),
    ("rwkv", {**RWKV, "tie_word_embeddings": True}),
    ("zamba", ZAMBA),
    ("zamba", {**ZAMBA, "mamba_dt_rank": 5, "layers_block_type": ["hybrid", LINEAR, LINEAR, "hybrid", LINEAR, LINEAR]}),
    ("zamba2", ZAMBA2),
    (
        "zamba2",
        {**ZAMBA2, "num_mem_blocks": 2, "use_shared_attention_adapter": True, "add_bias_linear": True},
    ),
]
# These name their sizes otherwise, so that the base says nothing to them.
OWN_NAMES = ("falcon_mamba", "rwkv", "zamba", "zamba2")
