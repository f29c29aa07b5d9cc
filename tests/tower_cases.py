"""Small vision towers of every family: what the oracle counts and the tests expect."""

from __future__ import annotations

from typing import Any

TEXT = {
    **{"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 6, "head_dim": 4},
    **{"num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 32},
}
ROUTED = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12}
LATENT = {
    **{"kv_lora_rank": 16, "q_lora_rank": 20, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6},
    **{"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_key_value_heads": 6, "first_k_dense_replace": 1},
}
CLIP = {
    **{"hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 2, "patch_size": 4},
    **{"image_size": 16, "model_type": "clip_vision_model"},
}
SIGLIP = {**CLIP, "model_type": "siglip_vision_model"}
INTERN = {
    **{**CLIP, "model_type": "internvl_vision", "image_size": [16, 16], "patch_size": [4, 4]},
    **{"use_absolute_position_embeddings": True, "norm_type": "rms_norm", "use_qk_norm": True, "use_mask_token": True},
}
GLM = {
    **{"hidden_size": 12, "intermediate_size": 20, "depth": 3, "num_heads": 2, "patch_size": 4, "image_size": 16},
    **{"out_hidden_size": 24, "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3},
}
QWEN = {
    **{"depth": 3, "hidden_size": 12, "intermediate_size": 20, "num_heads": 2, "patch_size": 4, "out_hidden_size": 24},
    **{"num_position_embeddings": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3},
}
VIT = {"hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 2, "patch_size": 4}
FULL = ["full_attention"] * 2

# model_type -> (keys of the text model, keys of the tower, keys beside them)
TOWERS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "gemma3": ({}, {**VIT, "image_size": 16, "vision_use_head": False}, {"mm_tokens_per_image": 4}),
    "aya_vision": ({}, {**SIGLIP, "vision_use_head": False}, {"downsample_factor": 2}),
    "cohere2_vision": ({}, SIGLIP, {"downsample_factor": 2, "alignment_intermediate_size": 36}),
    "glm46v": ({"pad_token_id": 0}, {**GLM, "attention_bias": True}, {}),
    "glm4v": ({"pad_token_id": 0}, GLM, {}),
    "glm4v_moe": ({**ROUTED, "n_routed_experts": 4}, GLM, {}),
    "idefics3": ({}, {**CLIP, "model_type": "idefics3_vision"}, {"scale_factor": 2}),
    "internvl": ({}, INTERN, {"downsample_ratio": 0.5}),
    "llava": ({}, CLIP, {"multimodal_projector_bias": False}),
    "llava_next": ({}, {**CLIP, "model_type": "siglip_vision_model"}, {"image_grid_pinpoints": [[16, 16]]}),
    "llava_next_video": ({}, CLIP, {"image_grid_pinpoints": [[16, 16]]}),
    "llava_onevision": ({}, {**SIGLIP, "vision_use_head": False}, {"image_grid_pinpoints": [[16, 16]]}),
    "deepseek_vl": ({}, SIGLIP, {}),
    "glmga": ({"pad_token_id": 0}, GLM, {}),
    "lfm2_vl": (
        {"conv_L_cache": 3, "layer_types": ["conv", "full_attention"], "pad_token_id": 0},
        {**VIT, "model_type": "siglip2_vision_model", "num_patches": 16, "vision_use_head": False},
        {"downsample_factor": 2, "projector_hidden_size": 18},
    ),
    "lighton_ocr": ({}, {**VIT, "model_type": "pixtral"}, {"spatial_merge_size": 2}),
    "qianfan_ocr": ({}, {**INTERN, "model_type": "qianfan_ocr_vision"}, {"downsample_ratio": 0.5}),
    "shieldgemma2": ({}, {**VIT, "image_size": 16, "vision_use_head": False}, {"mm_tokens_per_image": 4}),
    "video_llama_3": ({}, {**VIT, "model_type": "video_llama_3_vision"}, {}),
    "paligemma": ({"head_dim": 4}, {**SIGLIP, "vision_use_head": False}, {"projection_dim": 24}),
    "qwen2_5_vl": (
        {},
        {**QWEN, "window_size": 8, "fullatt_block_indexes": [1]},
        {},
    ),
    "smolvlm": ({}, {**CLIP, "model_type": "smolvlm_vision"}, {"scale_factor": 2}),
    "vipllava": ({}, CLIP, {"vision_feature_layer": [-1, 0]}),
    "gemma4": (
        {"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "global_head_dim": 8, "layer_types": FULL},
        {**VIT, "num_key_value_heads": 2, "head_dim": 6, "position_embedding_size": 30, "pooling_kernel_size": 3},
        {},
    ),
    "kimi_k25": (
        {**LATENT, "moe_intermediate_size": 12, "num_experts_per_tok": 2},
        {**VIT, "pos_emb_height": 5, "pos_emb_width": 6, "merge_kernel_size": [2, 2]},
        {"projection_hidden_size": 12},
    ),
    "llama4": (
        {"num_local_experts": 4, "intermediate_size_mlp": 44, "pad_token_id": 0},
        {
            **{**VIT, "image_size": 16, "pixel_shuffle_ratio": 0.5, "intermediate_size": 48, "projector_input_dim": 18},
            **{"projector_output_dim": 18, "vision_output_dim": 18},
        },
        {},
    ),
    "mistral3": ({"model_type": "mistral"}, {**VIT, "model_type": "pixtral"}, {"spatial_merge_size": 2}),
    "qwen2_vl": (
        {},
        {**QWEN, "embed_dim": 12, "mlp_ratio": 3, "hidden_size": 24},
        {},
    ),
    "qwen3_5": ({"linear_num_key_heads": 2, "linear_num_value_heads": 2}, QWEN, {}),
    "qwen3_5_moe": ({**ROUTED, "shared_expert_intermediate_size": 8}, QWEN, {}),
    "qwen3_vl": ({}, {**QWEN, "deepstack_visual_indexes": [0, 2]}, {}),
    "qwen3_vl_moe": (ROUTED, {**QWEN, "deepstack_visual_indexes": []}, {}),
    "step3p7": (
        {"layer_types": FULL, "moe_layers_enum": "1", **ROUTED, "share_expert_dim": 8},
        {**VIT, "image_size": 16, "mlp_ratio": 2.5},
        {},
    ),
}


def keys_of(model_type: str) -> dict[str, Any]:
    """The keys of a config.json."""
    text, tower, beside = TOWERS[model_type]
    inner = {**TEXT, **_UNTIED, "model_type": _TEXT_TYPES.get(model_type, f"{model_type}_text"), **text}
    return {"model_type": model_type, "text_config": inner, "vision_config": tower, **_UNTIED, **beside}


_UNTIED = {"tie_word_embeddings": False}
_TEXT_TYPES = {
    **{"kimi_k25": "deepseek_v3", "mistral3": "mistral", "aya_vision": "cohere2", "cohere2_vision": "cohere2"},
    **{"glm46v": "glm4v_text", "idefics3": "llama", "smolvlm": "llama", "internvl": "qwen2", "llava": "llama"},
    **{"llava_next": "mistral", "llava_next_video": "llama", "llava_onevision": "qwen2", "paligemma": "gemma"},
    **{"vipllava": "llama", "deepseek_vl": "llama", "glmga": "glm4v_text", "lfm2_vl": "lfm2", "qianfan_ocr": "qwen3"},
    **{"lighton_ocr": "qwen3", "shieldgemma2": "gemma3_text", "video_llama_3": "qwen2"},
}
