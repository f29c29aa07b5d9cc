"""Cohere's Command: one LayerNorm for attention and MLP side by side."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.structure.decoder import decoder
from roofline.structure.pattern import SLIDING
from roofline.structure.traits import Traits


def _traits(config: Config, every: int | None = None) -> Traits:
    bias = config.flag("attention_bias", False)
    normed = config.flag("use_qk_norm", False)
    return Traits(
        qkv_bias=bias,
        out_bias=bias,
        head_norm=HeadNorm(whole=True) if normed else None,
        parallel=True,
        shared_norm=True,
        tied=True,
        every=every,
        rotary_kinds=() if every is None else (SLIDING,),
    )


@family("cohere")
def cohere(config: Config) -> Model:
    """Command R: a norm of q and k, with a scale for each head, where `use_qk_norm` says so."""
    return decoder(config, _traits(config))


@family("cohere2_moe")
def cohere2_moe(config: Config) -> Model:
    """Command A with experts."""
    return decoder(config, replace(_traits(config, every=4), experts=True))


@family("cohere2")
def cohere2(config: Config) -> Model:
    """Command R7B and A: every fourth layer sees everything and is not rotated."""
    return decoder(config, _traits(config, every=4))
