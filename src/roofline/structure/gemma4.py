"""The layers of Gemma 4, from the keys of a config: wider heads where everything is seen, experts beside the MLP."""

from __future__ import annotations

from dataclasses import replace

from roofline.config import Config
from roofline.parts.attention import Attention
from roofline.parts.base import Part
from roofline.parts.ends import Norm
from roofline.parts.inputs import LayerInput
from roofline.shard import Axis
from roofline.structure import blocks
from roofline.structure.pattern import FULL, Kind
from roofline.structure.traits import Traits


def _attention(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Attention:
    """Wider heads, fewer KV heads and V out of K's matrix where everything is seen."""
    found = replace(blocks.attention(config, traits, hidden, kind), shares_cache=kind.shared)
    if kind.name != FULL:
        return found
    tied, own = config.flag("attention_k_eq_v", False), dict(kind.own)
    # What the layer itself has comes first; the class has 512 where nothing says it.
    width = own.get("head_dim") or config.integer("global_head_dim", "the width of a head that sees everything", 512)
    fewer = config.count("num_global_key_value_heads") if tied and "num_key_value_heads" not in own else None
    kv_heads = replace(found.kv_heads, size=fewer or found.kv_heads.size, unit=width)
    turned = int(width * config.section("rope_parameters").section(FULL).share("partial_rotary_factor", 1.0))
    return replace(
        found, heads=replace(found.heads, unit=width), kv_heads=kv_heads, rotary_dim=turned, tied_values=tied
    )


def layer(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> tuple[Part, ...]:
    """Norms around attention and MLP; experts read the stream beside the MLP, with norms of their own."""
    mixer, mlp = _attention(config, traits, hidden, kind), blocks.mlp(config, traits, hidden)
    if kind.shared and config.flag("use_double_wide_mlp", False):
        mlp = replace(mlp, intermediate=Axis("intermediate", 2 * mlp.intermediate.size))
    before = (Norm("input_norm", hidden, 1), mixer, Norm("attention_post_norm", hidden, 0), Norm("mlp_norm", hidden, 1))
    if not config.flag("enable_moe_block", False):
        return (*before, mlp, *_last(config, hidden))
    routed = replace(blocks.experts(config, traits, hidden), correction=True, scales=Axis("scales", hidden.size))
    first, second = Norm("mlp_own_post_norm", hidden, 0), Norm("experts_post_norm", hidden, 0, after=1)
    return (*before, mlp, first, Norm("experts_norm", hidden, 0), routed, second, *_last(config, hidden))


def _last(config: Config, hidden: Axis) -> tuple[Part, ...]:
    """The norm behind the MLP, and what a layer does with an input of its own, where it has one."""
    width = config.count("hidden_size_per_layer_input")
    if width is None:
        return (Norm("mlp_post_norm", hidden, 0),)
    return (Norm("mlp_post_norm", hidden, 0, after=1), LayerInput(hidden, width), Norm("layer_input_norm", hidden, 0))
