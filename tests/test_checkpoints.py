"""Published checkpoints of encoders, hybrids and models that see: their own totals, difference 0."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl

WHISPER: dict[str, Any] = {
    **{"model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32, "num_mel_bins": 128},
    **{"encoder_attention_heads": 20, "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120},
    **{"max_source_positions": 1500, "max_target_positions": 448, "vocab_size": 51866},
}
FLAN: dict[str, Any] = {
    **{"model_type": "t5", "d_model": 2048, "d_kv": 64, "d_ff": 5120, "num_layers": 24, "num_heads": 32},
    **{"vocab_size": 32128, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
}
CLIP: dict[str, Any] = {
    **{"model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16},
    **{"num_hidden_layers": 24, "image_size": 336, "patch_size": 14},
}
QWEN: dict[str, Any] = {
    **{"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 3584},
    **{"patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 112},
    **{"fullatt_block_indexes": [7, 15, 23, 31], "in_chans": 3},
}
SIGLIP: dict[str, Any] = {
    **{"model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_attention_heads": 16},
    **{"num_hidden_layers": 27, "patch_size": 14, "image_size": 224, "vision_use_head": False},
}

CHECKPOINTS: dict[str, tuple[dict[str, Any], int]] = {
    "openai/whisper-large-v3": (WHISPER, 1_543_490_560),
    "openai/whisper-large-v3-turbo": ({**WHISPER, "decoder_layers": 4}, 808_878_080),
    "google/flan-t5-xl": (FLAN, 2_849_757_184),
    "google/flan-t5-base": ({**FLAN, "d_model": 768, "d_ff": 2048, "num_layers": 12, "num_heads": 12}, 247_577_856),
    "facebook/nllb-200-distilled-600M": (
        {
            **{"model_type": "m2m_100", "d_model": 1024, "encoder_layers": 12, "decoder_layers": 12},
            **{"encoder_attention_heads": 16, "decoder_attention_heads": 16, "encoder_ffn_dim": 4096},
            **{"decoder_ffn_dim": 4096, "vocab_size": 256206, "max_position_embeddings": 1024},
        },
        615_073_792,
    ),
    "BAAI/bge-m3": (
        {
            **{"model_type": "xlm-roberta", "architectures": ["XLMRobertaModel"], "hidden_size": 1024},
            **{"intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 250002},
            **{"max_position_embeddings": 8194, "type_vocab_size": 1},
        },
        567_754_752,
    ),
    "tiiuae/Falcon-H1-0.5B": (
        {
            **{"model_type": "falcon_h1", "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 36},
            **{"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 32784},
            **{"mamba_d_ssm": 1536, "mamba_n_heads": 24, "mamba_d_head": 64, "mamba_n_groups": 1},
            **{"mamba_d_state": 128, "mamba_d_conv": 4, "tie_word_embeddings": False},
        },
        521_411_104,
    ),
    "LiquidAI/LFM2-1.2B": (
        {
            **{"model_type": "lfm2", "hidden_size": 2048, "block_ff_dim": 12288, "num_hidden_layers": 16},
            **{"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536, "conv_L_cache": 3},
            "full_attn_idxs": [2, 5, 8, 10, 12, 14],
        },
        1_170_340_608,
    ),
    "google/recurrentgemma-2b": (
        {
            **{"model_type": "recurrent_gemma", "hidden_size": 2560, "intermediate_size": 15360, "lru_width": 2560},
            **{"num_hidden_layers": 26, "num_attention_heads": 10, "num_key_value_heads": 1, "head_dim": 256},
            **{"conv1d_width": 4, "attention_window_size": 2048, "vocab_size": 256000},
        },
        2_682_862_080,
    ),
    "tiiuae/falcon-mamba-7b": (
        {
            **{"model_type": "falcon_mamba", "hidden_size": 4096, "num_hidden_layers": 64, "state_size": 16},
            **{"conv_kernel": 4, "time_step_rank": 256, "vocab_size": 65024, "tie_word_embeddings": False},
        },
        7_272_665_088,
    ),
    "Qwen/Qwen2.5-VL-7B-Instruct": (
        {
            **{"model_type": "qwen2_5_vl", "hidden_size": 3584, "intermediate_size": 18944, "vision_config": QWEN},
            **{"num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "vocab_size": 152064},
            "tie_word_embeddings": False,
        },
        8_292_166_656,
    ),
    "llava-hf/llava-1.5-7b-hf": (
        {
            **{"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064}},
            "vision_config": CLIP,
        },
        7_063_427_072,
    ),
    "google/paligemma-3b-pt-224": (
        {
            **{"model_type": "paligemma", "projection_dim": 2048, "vision_config": SIGLIP},
            "text_config": {
                **{"model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "vocab_size": 257216},
                **{"num_attention_heads": 8, "num_hidden_layers": 18, "num_key_value_heads": 1},
            },
        },
        2_923_466_480,
    ),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_total_is_the_checkpoint_s(name):
    """Of the file's keys that decide, and nothing else."""
    keys, parameters = CHECKPOINTS[name]

    assert rl.Model.load(keys).parameters().total == parameters


def test_a_table_that_is_not_tied_is_said():
    """Flan-T5's files untie the head, which their checkpoints store; the answer says that it is counted."""
    said = " ".join(rl.Model.load(FLAN).assumptions)

    assert "two tables" in said
    assert rl.Model.load({**FLAN, "tie_word_embeddings": True}).parameters().total == 2_849_757_184 - 32128 * 2048
