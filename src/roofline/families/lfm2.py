"""LFM2: short convolutions between gates, attention in some layers; with experts too."""

from dataclasses import replace
from typing import cast

from roofline.config import Config
from roofline.errors import shown
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm, Limits
from roofline.parts.base import Part
from roofline.parts.shortconv import ShortConv
from roofline.shard import Axis
from roofline.structure import blocks
from roofline.structure.decoder import decoder
from roofline.structure.pattern import FULL, RECURRENT, SLIDING, Kind, listed_layers, with_experts
from roofline.structure.traits import Traits

_KEYS = ("conv_L_cache",)
_WORDS = {"conv": RECURRENT, "short_conv": RECURRENT, RECURRENT: RECURRENT, FULL: FULL, SLIDING: SLIDING}


@family("lfm2", reads=_KEYS)
def lfm2(config: Config) -> Model:
    """LFM2: a gated MLP whose width the file may have fitted."""
    wide = config.integer("block_ff_dim" if config.find("block_ff_dim") else "intermediate", "the width of the MLP")
    if config.flag("block_auto_adjust_ff_dim", True):
        found = config.find("block_ffn_dim_multiplier")
        factor = found[1] if found else 1.0
        if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor < 1 << 16:
            raise config.fail(f"block_ffn_dim_multiplier is {shown(factor)}. Possible: a number above 0.")
        of = config.integer("block_multiple_of", "what the MLP's width is a multiple of", 256)
        wide = of * -(-int(factor * int(2 * wide / 3)) // of)
    fitted = config.having({**config.keys, "intermediate_size": wide})
    return decoder(fitted, Traits(head_norm=HeadNorm(), tied=True), mixer=_mixer, pattern=_kinds)


@family("lfm2_moe", reads=_KEYS)
def lfm2_moe(config: Config) -> Model:
    """LFM2 with experts behind its first layers."""
    traits = Traits(head_norm=HeadNorm(), tied=True, experts=True)
    return decoder(config, traits, mixer=_mixer, pattern=_kinds)


@family("lfm3", reads=_KEYS)
def lfm3(config: Config) -> Model:
    """LFM3: norms behind the blocks and a gate a head by a key each; attention sees a window or everything."""
    bias = config.flag("attention_bias", False)
    after = config.flag("use_sandwich_norm", True)
    gate = "head" if config.flag("use_attention_gate", True) else ""
    traits = Traits(head_norm=HeadNorm(), tied=True, post_norm=after, gate=gate, qkv_bias=bias, out_bias=bias)
    return decoder(config, traits, mixer=_mixer, pattern=_kinds)


def _kinds(config: Config, layers: int, traits: Traits) -> list[Kind]:
    sparse = with_experts(config, layers, replace(traits, dense_layers=2 if traits.experts else 0))
    names = _names(config, layers)
    near = Limits(window=config.integer("window", "how far a query sees")) if SLIDING in names else Limits()
    return [
        Kind(name, near if name == SLIDING else Limits(), name != RECURRENT, each)
        for name, each in zip(names, sparse, strict=True)
    ]


def _names(config: Config, layers: int) -> list[str]:
    """Which layers are attention's: by a list of words, or of their indices."""
    types = config.keys.get("layer_types")
    if types is not None:
        listed = cast("list[object]", types) if isinstance(types, list) else []
        if len(listed) != layers or any(not isinstance(each, str) or each not in _WORDS for each in listed):
            raise config.fail(f"layer_types is no list of {layers} entries. Possible for each: {', '.join(_WORDS)}.")
        return [_WORDS[cast(str, each)] for each in listed]
    full = listed_layers(config, "full_attn_idxs", layers)
    return [FULL if index in full else RECURRENT for index in range(layers)]


def _mixer(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    if kind.name != RECURRENT:
        return blocks.attention(config, traits, hidden, kind)
    kernel = config.integer("conv_L_cache", "the width of the convolution", most=1 << 16)
    channels = Axis("heads", hidden.size)
    return ShortConv(hidden, channels, kernel, config.flag("conv_bias", False))
