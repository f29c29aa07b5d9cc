"""Gemma 1 to 3: explicit head_dim, tied embeddings; norms on both sides of each block from the second on."""

from roofline.config import NO_KV_HEADS, Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.structure.decoder import decoder
from roofline.structure.traits import Traits


@family("gemma")
def gemma(config: Config) -> Model:
    """Gemma 1: heads of 256, whatever the hidden size; the scaling of the embedding is not counted."""
    config.note_absent("kv_heads", NO_KV_HEADS)
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, head_dim=256, tied=True))


@family("gemma2")
def gemma2(config: Config) -> Model:
    """Gemma 2: every second layer sees everything; soft caps on scores and logits are not counted."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(post_norm=True, qkv_bias=bias, out_bias=bias, tied=True, every=2))


@family("gemma3_text")
def gemma3(config: Config) -> Model:
    """Gemma 3: every sixth layer sees everything; a norm of q and k."""
    bias = config.flag("attention_bias", False)
    return decoder(
        config, Traits(post_norm=True, qkv_bias=bias, out_bias=bias, head_norm=HeadNorm(), tied=True, every=6)
    )


@family("vaultgemma")
def vaultgemma(config: Config) -> Model:
    """VaultGemma: Gemma 2 without the norms behind the blocks."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, tied=True, every=2))
