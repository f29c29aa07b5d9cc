"""Kimi Linear: delta attention with a decay a channel, latent attention in some layers, experts."""

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import Limits
from roofline.parts.base import Part
from roofline.parts.ends import Activation, Projection
from roofline.shard import Axis
from roofline.structure import blocks
from roofline.structure.decoder import around, decoder
from roofline.structure.pattern import FULL, RECURRENT, Kind, attention_kinds, listed_layers, with_experts
from roofline.structure.recurrent import DELTA_KEYS, MOST_KERNEL, delta_by_channel
from roofline.structure.traits import Traits

_OWN = "linear_attn_config"


@family("kimi_linear", reads=(*DELTA_KEYS, _OWN))
def kimi_linear(config: Config) -> Model:
    """Kimi Linear: which layers attend to everything is a list of words, or of numbers from 1."""
    return decoder(config, Traits(latent=True, experts=True), mixer=_mixer, pattern=_kinds)


@family("bailing_hybrid", reads=DELTA_KEYS)
def bailing(config: Config) -> Model:
    """Ling 2.5 and its kin: decays and gates out of whole matrices; a gate a head on latent attention."""
    return decoder(config, Traits(latent=True, experts=True), layer=_gated, pattern=_grouped)


def _gated(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> tuple[Part, ...]:
    feed = blocks.feed(config, traits, hidden, kind)
    if kind.name != FULL:
        heads, width, kernel = _sizes(config)
        own = delta_by_channel(config, hidden, heads, width, kernel, low_rank=False)
        return around(hidden, own, feed, traits)
    mixer = blocks.latent(config, hidden)
    gate = Projection("attention_gate_proj", Axis("heads", mixer.heads), hidden, label="attention")
    scaled = Activation("attention_gate", Axis("heads", mixer.heads, mixer.value), "attention")
    first, *rest = around(hidden, mixer, feed, traits)
    return (first, gate, rest[0], scaled, *rest[1:])


def _grouped(config: Config, layers: int, traits: Traits) -> list[Kind]:
    every = config.integer("layer_group_size", "which layers attend to everything", 6)
    names = attention_kinds(config, layers, Traits(recurrent_every=every))
    sparse = with_experts(config, layers, traits)
    return [Kind(name, Limits(), True, each) for name, each in zip(names, sparse, strict=True)]


def _kinds(config: Config, layers: int, traits: Traits) -> list[Kind]:
    sparse = with_experts(config, layers, traits)
    return [Kind(name, Limits(), True, each) for name, each in zip(_names(config, layers), sparse, strict=True)]


def _names(config: Config, layers: int) -> list[str]:
    if config.find("layer_types") is not None:
        return attention_kinds(config, layers, Traits(recurrent_every=4))
    full = listed_layers(config.section(_OWN), "full_attn_layers", layers, first=1)
    return [FULL if index in full else RECURRENT for index in range(layers)]


def _mixer(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    if kind.name == FULL:
        return blocks.latent(config, hidden)
    heads, width, kernel = _sizes(config)
    return delta_by_channel(config, hidden, heads, width, kernel)


def _sizes(config: Config) -> tuple[int, int, int]:
    """Heads, their width and that of the convolution, under either names."""
    own = config.section(_OWN)
    heads, width, kernel = (
        (own.integer(theirs, what, most=most) if own.keys else config.integer(ours, what, most=most))
        for theirs, ours, what, most in (
            ("num_heads", "linear_num_heads", "the heads of the recurrent layers", 1 << 20),
            ("head_dim", "linear_head_dim", "the width of their heads", 1 << 20),
            ("short_conv_kernel_size", "linear_conv_kernel_dim", "the width of the convolution", MOST_KERNEL),
        )
    )
    return heads, width, kernel
