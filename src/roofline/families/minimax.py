"""MiniMax 01 and M1: lightning attention, whose state decays at a fixed rate, and full attention in some layers."""

from typing import cast

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import Limits
from roofline.parts.base import Part, Weight
from roofline.parts.recurrent import Recurrent
from roofline.shard import Axis
from roofline.structure import blocks
from roofline.structure.decoder import decoder
from roofline.structure.pattern import FULL, RECURRENT, Kind, attention_kinds, with_experts
from roofline.structure.recurrent import state_format
from roofline.structure.traits import Traits

_KEYS = ("attn_type_list",)


@family("minimax", "minimax_text_01", "minimax_m1", reads=_KEYS)
def minimax(config: Config) -> Model:
    """MiniMax 01 and M1: experts as wide as `intermediate_size`; a norm and a gate behind lightning attention."""
    rotary = config.integer("rotary_dim", "the rotated part of a head", 0, least=0) or None
    return decoder(config, Traits(experts=True, rotary_dim=rotary), mixer=_mixer, pattern=_kinds)


def _kinds(config: Config, layers: int, traits: Traits) -> list[Kind]:
    sparse = with_experts(config, layers, traits)
    return [Kind(name, Limits(), name == FULL, each) for name, each in zip(_names(config, layers), sparse, strict=True)]


def _names(config: Config, layers: int) -> list[str]:
    """By a list of words, or one with a 1 where a layer sees everything; else every second one does."""
    given = config.keys.get("attn_type_list")
    if given is None:
        if config.find("layer_types") is not None:
            return attention_kinds(config, layers, Traits(recurrent_every=2))
        return [RECURRENT if (index + 1) % 2 == 0 else FULL for index in range(layers)]
    listed = cast("list[object]", given) if isinstance(given, list) else []
    if len(listed) != layers or any(each not in (0, 1) for each in listed):
        raise config.fail(f"attn_type_list is no list of {layers} times 0 or 1, one for each layer. Correct it.")
    return [FULL if each else RECURRENT for each in listed]


def _mixer(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    if kind.name == FULL:
        return blocks.attention(config, traits, hidden, kind)
    heads, _, width = blocks.heads_of(config, traits, hidden)
    values = Axis("heads", heads, width)
    qkv = tuple(Weight(f"{name}_proj", values, hidden) for name in "qkv")
    return Recurrent(
        hidden,
        values,
        values,
        inputs=(("qkv_proj", qkv), ("output_gate", (Weight("output_gate", values, hidden),))),
        channels=(),
        kernel=1,
        out=Weight("out_proj", hidden, values),
        norm=values,
        chunk=config.integer("block_size" if config.find("block_size") else "block", "the tokens of a scan", 256),
        gates=0,
        state=state_format(config, "mamba_ssm_dtype"),
    )
