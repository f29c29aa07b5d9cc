"""Small configurations of encoders, and of encoders with decoders: what the oracle counts and the tests expect."""

from __future__ import annotations

from typing import Any

SOURCE = 5  # positions of each source, beside 7 of the decoder

T5: dict[str, Any] = {"d_model": 24, "d_kv": 10, "d_ff": 40, "num_layers": 3, "num_heads": 4, "vocab_size": 50}
BART: dict[str, Any] = {
    **{"d_model": 24, "vocab_size": 50, "max_position_embeddings": 32, "pad_token_id": 1},
    **{"encoder_layers": 3, "encoder_attention_heads": 4, "encoder_ffn_dim": 40},
    **{"decoder_layers": 2, "decoder_attention_heads": 6, "decoder_ffn_dim": 44},
}
WHISPER = {**BART, "num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 16}
GEMMA: dict[str, Any] = {
    **{"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 6, "head_dim": 10},
    **{"num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 32, "sliding_window": 4096},
}
BERT: dict[str, Any] = {
    **{"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 50},
    **{"max_position_embeddings": 32, "type_vocab_size": 2, "pad_token_id": 0},
}
VIT: dict[str, Any] = {
    **{"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4},
    **{"image_size": 16, "patch_size": 4, "num_channels": 3},
}

ROWS = {"vocab_size": 50, "max_position_embeddings": 32}

CASES: list[tuple[str, dict[str, Any]]] = [
    ("bart", BART),
    ("bart", {**BART, "tie_word_embeddings": True, "encoder_layers": 1, "decoder_layers": 4}),
    ("blenderbot", BART),
    ("blenderbot-small", BART),
    ("m2m_100", BART),
    ("marian", {**BART, "decoder_vocab_size": 50}),
    ("mbart", BART),
    ("mt5", {**T5, "feed_forward_proj": "gated-gelu"}),
    ("mvp", BART),
    ("pegasus", BART),
    ("plbart", BART),
    ("t5", T5),
    ("t5", {**T5, "num_decoder_layers": 2, "feed_forward_proj": "gated-silu", "relative_attention_num_buckets": 12}),
    ("t5gemma", {"vocab_size": 50, "encoder": GEMMA, "decoder": {**GEMMA, "num_hidden_layers": 3}}),
    ("umt5", {**T5, "feed_forward_proj": "gated-gelu", "num_decoder_layers": 1}),
    ("whisper", WHISPER),
    ("albert", {**BERT, "embedding_size": 14, "num_hidden_groups": 1}),
    ("bert", BERT),
    ("bert", {**BERT, "tie_word_embeddings": False, "num_hidden_layers": 1}),
    ("camembert", BERT),
    ("clip_vision_model", VIT),
    ("data2vec-text", BERT),
    ("deit", {**VIT, "architectures": ["DeiTModel"]}),
    ("distilbert", {"dim": 24, "hidden_dim": 40, "n_layers": 3, "n_heads": 4, **ROWS}),
    ("electra", {**BERT, "embedding_size": 14}),
    ("electra", BERT),
    ("ernie", {**BERT, "use_task_id": True, "task_type_vocab_size": 5}),
    ("eurobert", {**BERT, "num_key_value_heads": 2, "head_dim": 10, "attention_bias": True}),
    ("megatron-bert", BERT),
    ("modernbert", {**BERT, "local_attention": 4, "global_attn_every_n_layers": 2}),
    ("modernbert", {**BERT, "norm_bias": True, "mlp_bias": True, "attention_bias": True, "decoder_bias": False}),
    ("roberta", BERT),
    ("roberta-prelayernorm", BERT),
    ("siglip2_vision_model", {**VIT, "num_patches": 16}),
    ("siglip_vision_model", VIT),
    ("siglip_vision_model", {**VIT, "vision_use_head": False, "num_attention_heads": 2}),
    ("vit", {**VIT, "id2label": {0: "a", 1: "b", 2: "c"}}),
    ("vit", {**VIT, "qkv_bias": False}),
    ("xlm-roberta", BERT),
    ("xlm-roberta-xl", BERT),
]
