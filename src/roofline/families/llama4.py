"""Llama 4: chunks of attention, experts beside a shared one in every layer or in every few."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.parts.base import Part
from roofline.shard import Axis
from roofline.structure import blocks
from roofline.structure.decoder import decoder
from roofline.structure.pattern import Kind
from roofline.structure.traits import Traits


@family("llama4_text")
def llama4(config: Config) -> Model:
    """Llama 4: a norm of q and k without parameters where they are rotated."""
    bias = config.flag("attention_bias", False)
    return decoder(
        config, Traits(qkv_bias=bias, out_bias=bias, experts=True, shared_experts=1), mixer=_attention, feed=_feed
    )


def _attention(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    normed = kind.rotated and config.flag("use_qk_norm", True)
    return blocks.attention(config, replace(traits, head_norm=HeadNorm(vectors=0) if normed else None), hidden, kind)


def _feed(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    """The MLP of a layer without experts has a width of its own."""
    if kind.sparse:
        return blocks.experts(config, traits, hidden)
    wide = config.integer("intermediate_size_mlp", "the width of the MLP")
    return blocks.mlp(config.having({**config.keys, "intermediate_size": wide}), traits, hidden)
