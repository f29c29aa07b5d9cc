"""Gemma 1: Llama's layers with an explicit head_dim and tied embeddings."""

from roofline.config import NO_KV_HEADS, Config
from roofline.families import family
from roofline.families.dense import Traits, decoder
from roofline.model import Model


@family("gemma")
def gemma(config: Config) -> Model:
    """Gemma 1: heads of 256, whatever the hidden size; the scaling of the embedding is not counted."""
    config.note_absent("kv_heads", NO_KV_HEADS)
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, head_dim=256, tied=True))
