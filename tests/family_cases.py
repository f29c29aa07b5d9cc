"""Small configurations of every family, as a config.json has them: what the oracle counts and the tests expect."""

from __future__ import annotations

from typing import Any

import encoder_cases
import recurrent_cases
import text_cases

BASE: dict[str, Any] = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 50,
    "max_position_embeddings": 32,
}
WIDE = {"head_dim": 10}
PAD = {"pad_token_id": 0}
ROUTED = {"num_experts_per_tok": 2, "moe_intermediate_size": 12}
LATENT = {
    "num_key_value_heads": 6,
    "kv_lora_rank": 16,
    "q_lora_rank": 20,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
}
DEEP = {**LATENT, **ROUTED, "n_routed_experts": 8, "n_group": 1, "topk_group": 1, "pad_token_id": 0}
INDEXED = {"index_topk": 5, "index_n_heads": 3, "index_head_dim": 8}
SLIDING, FULL = "sliding_attention", "full_attention"
MIXED = [SLIDING, SLIDING, FULL, SLIDING]
GPTJ = {"n_embd": 24, "n_layer": 3, "n_head": 4, "vocab_size": 50, "n_positions": 32, "rotary_dim": 4}
GPT2 = {"n_embd": 24, "n_layer": 3, "n_head": 4, "vocab_size": 50, "n_positions": 32}
FALCON = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6, "vocab_size": 50}
NEO = {"hidden_size": 24, "num_layers": 4, "num_heads": 6, "vocab_size": 50, "max_position_embeddings": 32}
V4 = {
    **{key: BASE[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")},
    **{"head_dim": 8, "q_lora_rank": 20, "qk_rope_head_dim": 4, "o_groups": 3, "o_lora_rank": 5},
    **{"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "n_shared_experts": 1},
    **{"hc_mult": 3, "sliding_window": 4, "num_hash_layers": 1, "compress_ratios": [0, 4, 128, 4, 0], **INDEXED},
    **{"max_position_embeddings": 32, "num_key_value_heads": 1},
}
DELTA = {
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 6},
    **{"linear_conv_kernel_dim": 3, "mamba_ssm_dtype": "float32"},
}
LINEAR = "linear_attention"
MAMBA2 = {
    **{"ssm_state_size": 8, "mamba_num_heads": 6, "mamba_head_dim": 10, "n_groups": 2, "conv_kernel": 3},
    **{"chunk_size": 4, "head_dim": 10, "mamba_ssm_cache_dtype": "float32"},
}
OF_MAMBA = {
    **{"mamba_n_heads": 6, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 8, "mamba_d_conv": 3},
    **{"mamba_expand": 2, "mamba_chunk_size": 4, "pad_token_id": 0, "mamba_ssm_cache_dtype": "float32"},
}
MAMBA = {
    **{"hidden_size": 24, "num_hidden_layers": 3, "vocab_size": 50, "state_size": 8, "conv_kernel": 3, "expand": 2},
    "mamba_ssm_dtype": "float32",
}
STEP = {
    **{**BASE, **WIDE, **ROUTED, "n_routed_experts": 8, "share_expert_dim": 14, "sliding_window": 4},
    **{"num_sliding_attention_heads": 6, "layer_types": MIXED, "mlp_layer_types": ["dense", *["sparse"] * 3]},
}

# (model_type, keys beside those of the base)
CASES: list[tuple[str, dict[str, Any]]] = [
    ("afmoe", {**WIDE, **ROUTED, "num_experts": 8, "num_dense_layers": 1, "num_shared_experts": 2}),
    ("apertus", {}),
    ("apertus", {"attention_bias": True, "tie_word_embeddings": True}),
    ("arcee", {**WIDE, "attention_bias": True, "mlp_bias": True}),
    ("bamba", {**OF_MAMBA, "attn_layer_indices": [2], "attention_bias": True}),
    ("bamba", {**OF_MAMBA, "mamba_conv_bias": False, "mamba_proj_bias": True}),
    ("biogpt", {"num_key_value_heads": 6}),
    ("bloom", {"n_layer": 3, "n_head": 6}),
    ("codegen", GPTJ),
    ("cohere", {"use_qk_norm": True}),
    ("cohere", {"attention_bias": True, "tie_word_embeddings": False}),
    ("cohere2", WIDE),
    ("cwm", {**WIDE, "layer_types": MIXED, "sliding_window": 4}),
    ("deepseek_v2", {**DEEP, "n_shared_experts": 2, "first_k_dense_replace": 1}),
    ("deepseek_v2", {**DEEP, "q_lora_rank": None, "attention_bias": True, "n_shared_experts": 2}),
    ("deepseek_v3", {**DEEP, "first_k_dense_replace": 1, "num_nextn_predict_layers": 0}),
    ("deepseek_v32", {**DEEP, **INDEXED, "first_k_dense_replace": 1}),
    ("deepseek_v4", V4),
    ("dots1", {**ROUTED, "n_routed_experts": 8, "n_shared_experts": 2, "first_k_dense_replace": 1}),
    ("ernie4_5", {**WIDE, "use_bias": True}),
    ("ernie4_5_moe", {"moe_k": 2, "moe_intermediate_size": 12, "moe_num_experts": 8, "moe_num_shared_experts": 2}),
    ("ernie4_5_moe", {"moe_k": 2, "moe_intermediate_size": 12, "moe_num_experts": 8, "moe_layer_end_index": 2}),
    ("exaone4", {}),
    ("exaone4", {"sliding_window": None, "layer_types": [FULL] * 4}),
    ("exaone_moe", {**ROUTED, "num_experts": 8, "num_shared_experts": 1, "first_k_dense_replace": 1}),
    ("falcon", {**FALCON, "multi_query": True, "parallel_attn": True}),
    ("falcon", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}),
    ("falcon", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1}),
    ("falcon", {**FALCON, "multi_query": False, "parallel_attn": False, "alibi": True, "bias": True}),
    ("flex_olmo", {**PAD, "num_experts": 8, "num_experts_per_tok": 2}),
    ("gemma2", WIDE),
    ("gemma3_text", {**WIDE, "num_hidden_layers": 7, "sliding_window": 4}),
    (
        "gemma4_text",
        {
            **{**WIDE, "global_head_dim": 16, "num_global_key_value_heads": 1, "attention_k_eq_v": True},
            **{"layer_types": [SLIDING, SLIDING, SLIDING, FULL], "sliding_window": 4, "enable_moe_block": True},
            **{"num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 12},
            **{"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "vocab_size_per_layer_input": 50},
        },
    ),
    (
        "gemma4_text",
        {
            **{**WIDE, "global_head_dim": 16, "num_hidden_layers": 6, "sliding_window": 4, "use_double_wide_mlp": True},
            **{"layer_types": [SLIDING, SLIDING, FULL, SLIDING, SLIDING, FULL], "num_kv_shared_layers": 3},
            **{"hidden_size_per_layer_input": 5, "vocab_size_per_layer_input": 48},
        },
    ),
    (
        "gemma4_text",
        {
            **{**WIDE, "num_hidden_layers": 3, "sliding_window": 4, "layer_types": [SLIDING, FULL, FULL]},
            **{"per_layer_config": {each: {"head_dim": 16, "num_key_value_heads": 1} for each in "12"}},
            **{"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0},
        },
    ),
    ("gemma4_unified_text", {**WIDE, "sliding_window": 4, "layer_types": [SLIDING, FULL, SLIDING, FULL]}),
    ("glm", {**WIDE, **PAD}),
    ("glm4", {**WIDE, **PAD, "attention_bias": False}),
    ("glm4_moe", {**WIDE, **ROUTED, "n_routed_experts": 8, "use_qk_norm": True, "attention_bias": True}),
    ("glm4_moe_lite", {**DEEP, "n_shared_experts": 1}),
    ("glm_moe_dsa", {**DEEP, **INDEXED, "n_shared_experts": 1}),
    ("gpt_bigcode", GPTJ),
    ("gpt_bigcode", {**GPTJ, "multi_query": False}),
    ("gpt_neo", {**NEO, "attention_types": [[["global", "local"], 2]], "window_size": 4}),
    ("gpt_oss", {**WIDE, "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 4}),
    ("gptj", GPTJ),
    ("granite", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    ("granitemoe", {"num_local_experts": 8, "num_experts_per_tok": 2}),
    (
        "granitemoehybrid",
        {
            **{**OF_MAMBA, "layer_types": [LINEAR, LINEAR, FULL, LINEAR], "num_local_experts": 8},
            **{"num_experts_per_tok": 2, "shared_intermediate_size": 14},
        },
    ),
    (
        "granitemoehybrid",
        {**OF_MAMBA, "layer_types": [LINEAR, FULL] * 2, "num_local_experts": 0, "shared_intermediate_size": 14},
    ),
    ("granitemoeshared", {"num_local_experts": 8, "num_experts_per_tok": 2, "shared_intermediate_size": 14}),
    ("hunyuan_v1_dense", {**WIDE, "attention_bias": True}),
    ("hunyuan_v1_moe", {**WIDE, "num_experts": 8, "moe_topk": 2}),
    ("hy_v3", {**WIDE, **ROUTED, "num_experts": 8, "num_shared_experts": 1}),
    ("internlm3", {**WIDE, "attention_bias": False}),
    ("jais2", WIDE),
    (
        "jamba",
        {
            **{**OF_MAMBA, "attn_layer_period": 4, "attn_layer_offset": 2, "num_experts": 8, "num_experts_per_tok": 2},
            **{"expert_layer_period": 2, "expert_layer_offset": 1, "mamba_dt_rank": 5},
        },
    ),
    ("laguna", {**WIDE, **ROUTED, "num_experts": 8, "shared_expert_intermediate_size": 14, "layer_types": MIXED}),
    (
        "llama4_text",
        {
            **{**WIDE, "num_local_experts": 8, "num_experts_per_tok": 1, "intermediate_size_mlp": 44},
            **{"interleave_moe_layer_step": 2, "attention_chunk_size": 4},
        },
    ),
    ("mamba", {**MAMBA, "time_step_rank": 5}),
    ("mamba", {**MAMBA, "use_bias": True, "use_conv_bias": False, "tie_word_embeddings": False}),
    ("mamba2", {**MAMBA, "num_heads": 6, "head_dim": 8, "n_groups": 2, "chunk_size": 4}),
    ("mellum", {**WIDE, **ROUTED, "num_experts": 8, "layer_types": MIXED}),
    (
        "mimo_v2_flash",
        {
            **{**WIDE, **ROUTED, "v_head_dim": 6, "n_routed_experts": 8, "layer_types": MIXED, "sliding_window": 4},
            **{"mlp_layer_types": ["dense", *["sparse"] * 3], "num_attention_heads": 4, "num_key_value_heads": 1},
        },
    ),
    ("minicpm3", {**LATENT, "pad_token_id": 0}),
    ("minimax_m2", {**WIDE, "num_local_experts": 8, "num_experts_per_tok": 2, "rotary_dim": 4}),
    ("ministral", {**WIDE, "layer_types": MIXED, "sliding_window": 4}),
    ("ministral3", WIDE),
    ("mixtral", {"num_local_experts": 8, "num_experts_per_tok": 2}),
    ("mixtral", {**WIDE, "num_local_experts": 4, "num_experts_per_tok": 1, "sliding_window": 4}),
    ("nemotron", {**WIDE, "attention_bias": True, "mlp_bias": True}),
    ("nemotron_h", {**MAMBA2, "hybrid_override_pattern": "M-M*-", "num_hidden_layers": 5}),
    (
        "nemotron_h",
        {
            **{**MAMBA2, **ROUTED, "hybrid_override_pattern": "ME*E", "n_routed_experts": 8, "n_groups": 3},
            **{"moe_shared_expert_intermediate_size": 14, "n_shared_experts": 1, "moe_latent_size": 16},
            **{"use_bias": True, "mlp_bias": False, "use_conv_bias": False},
        },
    ),
    ("olmo", {}),
    ("olmo2", {}),
    ("olmo3", {"sliding_window": 4}),
    ("olmoe", {"num_experts": 8, "num_experts_per_tok": 2}),
    ("persimmon", {"num_attention_heads": 3, "num_key_value_heads": 3}),
    ("phi", {"qk_layernorm": True}),
    ("phimoe", {"num_local_experts": 8, "num_experts_per_tok": 2, "attention_bias": True, "lm_head_bias": True}),
    ("qwen2_moe", {**ROUTED, "num_experts": 8, "shared_expert_intermediate_size": 14}),
    ("qwen2_moe", {**ROUTED, "num_experts": 8, "shared_expert_intermediate_size": 14, "decoder_sparse_step": 2}),
    ("qwen3_5_text", {**WIDE, **DELTA, "attention_bias": True, "layer_types": [LINEAR, FULL, LINEAR, FULL]}),
    (
        "qwen3_5_moe_text",
        {**WIDE, **DELTA, **ROUTED, "num_experts": 8, "shared_expert_intermediate_size": 14},
    ),
    (
        "qwen3_next",
        {
            **{**WIDE, **DELTA, **ROUTED, "num_experts": 8, "shared_expert_intermediate_size": 14},
            **{"mlp_only_layers": [1], "full_attention_interval": 2, "linear_num_value_heads": 2},
        },
    ),
    ("qwen3_moe", {**WIDE, **ROUTED, "num_experts": 8, "mlp_only_layers": [1]}),
    ("sarvam_mla", {**DEEP, "n_shared_experts": 1, "first_k_dense_replace": 1}),
    ("sarvam_moe", {**WIDE, **ROUTED, "n_routed_experts": 8}),
    ("seed_oss", {**WIDE, "attention_out_bias": True}),
    ("smollm3", PAD),
    ("solar_open", {**WIDE, **ROUTED, "n_routed_experts": 8}),
    ("stablelm", {"num_attention_heads": 3, "num_key_value_heads": 1, "qk_layernorm": True, "use_qkv_bias": True}),
    ("stablelm", {"num_attention_heads": 3, "num_key_value_heads": 3, "use_parallel_residual": True}),
    ("starcoder2", {"sliding_window": None}),
    ("vaultgemma", WIDE),
    ("xglm", {"d_model": 24, "ffn_dim": 40, "num_layers": 3, "attention_heads": 6}),
    ("youtu", {**LATENT, "pad_token_id": 0}),
    ("gemma", WIDE),
    ("gpt2", {**GPT2, "n_inner": 40}),
    ("gpt_neox", {"num_key_value_heads": 6}),
    ("llama", {**WIDE, "attention_bias": True, "mlp_bias": True}),
    ("mistral", {"sliding_window": 4}),
    ("mpt", {"d_model": 24, "n_layers": 3, "n_heads": 4, "vocab_size": 50, "max_seq_len": 32}),
    ("opt", {"ffn_dim": 40, "num_key_value_heads": 6, "word_embed_proj_dim": 24}),
    ("phi3", PAD),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    ("qwen3", WIDE),
]
CASES += [*encoder_cases.CASES, *recurrent_cases.CASES, *text_cases.CASES]
# These name their sizes otherwise, so that the base says nothing to them.
OWN_NAMES = {
    *("codegen", "deepseek_v4", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gptj", "mamba", "mamba2", "mpt"),
    *(name for name, _ in encoder_cases.CASES),
    *recurrent_cases.OWN_NAMES,
    *text_cases.OWN_NAMES,
}
XGLM = {"vocab_size": 50, "max_position_embeddings": 32}


def keys_of(model_type: str, changes: dict[str, Any]) -> dict[str, Any]:
    """The keys of a config.json."""
    base = {} if model_type in OWN_NAMES else XGLM if model_type == "xglm" else BASE
    if model_type == "bloom":
        base = {"hidden_size": 24, "vocab_size": 50}
    return {"model_type": model_type, **base, **changes}


def ident(model_type: str, changes: dict[str, Any]) -> str:
    """A name for one case: which of its family's it is."""
    same = [each for kind, each in CASES if kind == model_type]
    return model_type if len(same) == 1 else f"{model_type} {same.index(changes) + 1}"


INDEXED_OTHERWISE = (
    "the selected, absorbed attention is taken as full and expanded, and the sum over the indexer's heads as a "
    "product, as transformers runs them"
)
SCANNED_OTHERWISE = (
    "transformers pads to whole chunks, whose products it takes whole and a head each, where ours are of a query and "
    "what is before it, of q and k a group; its convolution goes over the padding too"
)
STEPPED_OTHERWISE = (
    "of a step, what the state is read by is a product there, and the rest elementwise; its convolution goes over the "
    "padding too"
)
ELEMENTWISE = "the recurrence is elementwise there and no product; its convolution goes over the padding too"
RESIZED_OTHERWISE = "transformers fits the positions to each image by a product, which is added to ours"
# What the oracle counts that is no matrix product of ours, or the other way round: model_type -> what, for the docs.
COUNTED_OTHERWISE = {
    "llama4_text": "transformers runs every expert over every token; ours are taken times experts / top_k",
    "deepseek_v4": "transformers mixes the residual streams by a product, which is added to ours",
    "deepseek_v32": INDEXED_OTHERWISE,
    "glm_moe_dsa": INDEXED_OTHERWISE,
    **dict.fromkeys(("bamba", "granitemoehybrid", "mamba2", "nemotron_h"), SCANNED_OTHERWISE),
    **dict.fromkeys(("jamba", "mamba"), STEPPED_OTHERWISE),
    "siglip2_vision_model": RESIZED_OTHERWISE,
    **dict.fromkeys(
        ("falcon_h1", "kimi_linear", "olmo_hybrid", "zamba2", "bailing_hybrid", "lara_mini"), SCANNED_OTHERWISE
    ),
    **dict.fromkeys(("falcon_mamba", "zamba"), STEPPED_OTHERWISE),
    **dict.fromkeys(("recurrent_gemma", "rwkv"), ELEMENTWISE),
    "minimax": "transformers takes whole products within a chunk, where ours are of a query and what is before it",
    **dict.fromkeys(("lfm2", "lfm2_moe", "lfm3"), "the convolution goes over the padding too"),
    **dict.fromkeys(("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"), SCANNED_OTHERWISE),
}


def products(model: Any, ledger: Any, keys: dict[str, Any]) -> int:
    """FLOPs of every matrix product of a prefill from nothing, with attention whole and expanded, as eager code is."""
    resized = keys["model_type"] == "siglip2_vision_model"
    total = 2 * 2 * keys["num_patches"] ** 2 * keys["hidden_size"] if resized else 0
    for point in ledger:
        total += point.count * _product(point, keys)
    return total


def _product(point: Any, keys: dict[str, Any]) -> int:
    """FLOPs of one kernel's product as eager code has it; none of a kernel that is no product."""
    work, routed = point.work, 1
    if keys["model_type"] == "llama4_text":
        routed = keys["num_local_experts"] // keys["num_experts_per_tok"]
    if work.op in ("linear", "conv", "moe"):
        return work.flops * (routed if work.op == "moe" else 1)
    if work.op == "attention":
        return _whole(work.dims, keys)
    if work.op in ("short-conv", "scan"):
        return _padded(work.dims) if work.op == "short-conv" else _chunks(work.dims, keys["model_type"])
    if point.name.endswith("_mix") and point.name != "hyper_head_mix":
        return 2 * keys["hc_mult"] ** 2 * work.dims["n"]
    return 0


def _whole(dims: Any, keys: dict[str, Any]) -> int:
    """FLOPs of one attention kernel where every query meets every key."""
    new, width = dims["new"], dims["head_dim"]
    value = dims.get("value_dim", width)
    seen, summed = dims.get("source", new), 0
    if "stride" not in dims and value == 0:
        summed = 1  # scores of an indexer, whose heads are summed
    if "stride" in dims:
        seen = new // dims["stride"] + (new if "window" in dims else 0)
    elif "selected" in dims:
        width, value = keys["qk_nope_head_dim"] + keys["qk_rope_head_dim"], keys["v_head_dim"]
    return 2 * dims["sequences"] * dims["heads"] * new * seen * (width + value + summed)


def _padded(dims: Any) -> int:
    """FLOPs of a convolution over the padding before the tokens too."""
    return 2 * dims["sequences"] * dims["channels"] * (dims["new"] + dims["kernel"] - 1) * dims["kernel"]


def _chunks(dims: Any, model_type: str) -> int:
    """FLOPs of the products of a chunked scan as eager code has them: whole chunks, each head's own q and k.

    The delta rule solves its triangle by a solver that is not counted; Mamba-2 passes states on by a product of every
    chunk's with every other's.
    """
    key, value = dims["key_dim"], dims["value_dim"]
    if model_type in ("rwkv", "recurrent_gemma"):
        return 0
    if model_type == "minimax":  # the last chunk is as short as it is, and there is one state
        rest = dims["new"] % dims["chunk"]
        square = (dims["new"] - rest) * dims["chunk"] + rest * rest
        return 2 * dims["sequences"] * dims["heads"] * (square * (key + value) + 2 * dims["new"] * key * value)
    if "chunk" not in dims:  # steps, of which what the state is read by is a product
        return 2 * dims["sequences"] * dims["new"] * dims["heads"] * key * value
    size = dims["chunk"]
    chunks = -(-dims["new"] // size)
    if dims["delta"]:
        each = chunks * (size * size * (2 * key + value) + 3 * size * key * value)
    else:
        each = chunks * (size * size * (key + value) + 2 * size * key * value) + (chunks + 1) ** 2 * key * value
    return 2 * dims["sequences"] * dims["heads"] * each
