"""MiMo V2 Flash: windowed layers have twice the KV heads and sinks; V is narrower than K; no shared expert."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.base import Part
from roofline.shard import Axis
from roofline.structure import blocks
from roofline.structure.decoder import decoder
from roofline.structure.pattern import SLIDING, Kind
from roofline.structure.traits import Traits


@family("mimo_v2_flash")
def mimo(config: Config) -> Model:
    """MiMo V2 Flash; which layers see everything and which have experts must be listed."""
    for key in ("layer_types", "mlp_layer_types"):
        if config.keys.get(key) is None:
            raise config.fail(f"{key} is missing; it decides the kind of each layer. Add it.")
    return decoder(config, Traits(qkv_bias=config.flag("attention_bias", False), experts=True), mixer=_attention)


def _attention(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    found = blocks.attention(config, traits, hidden, kind)
    value = config.integer("v_head_dim", "the width of V's heads", found.heads.unit)
    windowed = kind.name == SLIDING
    kv_heads = replace(found.kv_heads, size=found.kv_heads.size * (2 if windowed else 1))
    rotary = int(found.heads.unit * config.rotary_share(1.0))
    return replace(found, kv_heads=kv_heads, value_dim=value, sinks=windowed, rotary_dim=rotary)
