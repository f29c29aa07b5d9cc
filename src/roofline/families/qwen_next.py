"""Qwen 3 Next and 3.5: gated delta networks in three layers of four, attention with a gate in the fourth."""

from dataclasses import replace

from roofline.config import NO_KV_HEADS, Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.parts.base import Part
from roofline.shard import Axis
from roofline.structure import blocks
from roofline.structure.decoder import around, decoder
from roofline.structure.pattern import RECURRENT, Kind
from roofline.structure.recurrent import DELTA_KEYS, gated_delta
from roofline.structure.traits import Traits


@family("qwen3_5_text", reads=DELTA_KEYS)
def qwen3_5(config: Config) -> Model:
    """Qwen 3.5, dense."""
    config.note_absent("kv_heads", NO_KV_HEADS)
    return decoder(config, _traits(config), mixer=_mixer)


@family("qwen3_next", "qwen3_5_moe_text", reads=DELTA_KEYS)
def qwen3_next(config: Config) -> Model:
    """Qwen 3 Next and 3.5 with experts, a gated one of them shared."""
    config.note_absent("kv_heads", NO_KV_HEADS)
    return decoder(config, replace(_traits(config), experts=True, shared_gate=True), mixer=_mixer)


@family("olmo_hybrid", reads=DELTA_KEYS)
def olmo_hybrid(config: Config) -> Model:
    """OLMo Hybrid: norms before the blocks of recurrent layers, behind those of the others, as OLMo 2 has."""
    bias = config.flag("attention_bias", False)
    turned = config.section("rope_parameters").keys.get("rope_theta") is not None
    traits = Traits(qkv_bias=bias, out_bias=bias, head_norm=HeadNorm(whole=True), recurrent_every=4)
    return decoder(config, replace(traits, rotary_dim=None if turned else 0, windowed=False), layer=_olmo)


def _olmo(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> tuple[Part, ...]:
    feed = blocks.mlp(config, traits, hidden)
    if kind.name == RECURRENT:
        return around(hidden, gated_delta(config, hidden, apart=True), feed, traits)
    behind = replace(traits, pre_norm=False, post_norm=True)
    return around(hidden, blocks.attention(config, traits, hidden, kind), feed, behind)


@family("lara_mini", reads=DELTA_KEYS)
def lara(config: Config) -> Model:
    """Lara Mini: recurrent, windowed and full layers as the file lists them, no gates; a shared expert."""
    bias = config.flag("attention_bias", False)
    traits = Traits(qkv_bias=bias, out_bias=bias, head_norm=HeadNorm(), recurrent_every=4)
    return decoder(config, replace(traits, experts=True, tied=True), mixer=_mixer)


def _traits(config: Config) -> Traits:
    bias = config.flag("attention_bias", False)
    rotary = config.rotary_share(0.25)
    gate = "element" if config.flag("attn_output_gate", True) else ""
    return Traits(
        qkv_bias=bias,
        out_bias=bias,
        head_norm=HeadNorm(),
        head_dim=256,
        rotary=rotary,
        gate=gate,
        windowed=False,
        recurrent_every=4,
    )


def _mixer(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    if kind.name == RECURRENT:
        return gated_delta(config, hidden)
    found = blocks.attention(config, traits, hidden, kind)
    return replace(found, gate_bias=traits.qkv_bias)
