"""Nemotron-H and Nemotron 3: one block a layer, Mamba-2, attention, an MLP or experts, in the order of a pattern."""

from dataclasses import replace
from typing import cast

from roofline.config import Config
from roofline.errors import shown
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import Limits
from roofline.parts.base import Part
from roofline.parts.ends import Norm
from roofline.shard import Axis
from roofline.structure import blocks
from roofline.structure.decoder import decoder
from roofline.structure.pattern import FULL, RECURRENT, Kind
from roofline.structure.recurrent import MAMBA2_KEYS, Mamba2, mamba2, state_format
from roofline.structure.traits import Traits

_LETTERS = {"M": RECURRENT, "*": FULL, "-": "mlp", "E": "moe"}
_WORDS = {"mamba": RECURRENT, "attention": FULL, **{each: each for each in _LETTERS.values()}}


@family("nemotron_h", reads=MAMBA2_KEYS)
def nemotron_h(config: Config) -> Model:
    """Nemotron-H and Nemotron 3 Nano: squared ReLU, no rotary positions, a matrix into and out of narrower experts."""
    names = _names(config)
    counted = config.having({**config.keys, "num_hidden_layers": len(names)})
    traits = Traits(qkv_bias=config.flag("attention_bias", False), out_bias=config.flag("attention_bias", False))
    traits = replace(traits, mlp_bias=config.flag("mlp_bias", False), gated=False, head_dim=128)
    return decoder(
        counted,
        replace(traits, experts=None, rotary_dim=0),
        layer=_layer,
        pattern=lambda _config, _layers, _traits: [Kind(name, Limits(), False, name == "moe") for name in names],
    )


def _names(config: Config) -> list[str]:
    """What each layer is, by a letter of the pattern each or by a list of words."""
    for key, known in (("layers_block_type", _WORDS), ("layer_types", _WORDS), ("hybrid_override_pattern", _LETTERS)):
        value = config.keys.get(key)
        if value is None:
            continue
        listed = list(cast("list[object]", value)) if isinstance(value, (list, str)) else []
        strange: list[object] = [each for each in listed if each not in known]
        if strange or not listed:
            named = shown(strange[0]) if strange else "nothing"
            raise config.fail(f"{key} names {named}. Possible for each layer: {', '.join(known)}.")
        return [known[cast(str, each)] for each in listed]
    raise config.fail("the key hybrid_override_pattern is missing; it decides what each layer is. Add it.")


def _layer(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> tuple[Part, ...]:
    return Norm("input_norm", hidden, 1), _block(config, traits, hidden, kind)


def _block(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    if kind.name == RECURRENT:
        return mamba2(config, hidden, _sizes(config))
    if kind.name == FULL:
        return blocks.attention(config, traits, hidden, kind)
    if not kind.sparse:
        return blocks.mlp(config, traits, hidden)
    found = blocks.experts(config, traits, hidden)
    narrow = config.count("moe_latent_size")
    return found if narrow is None else replace(found, latent=Axis("latent", narrow))


def _sizes(config: Config) -> Mamba2:
    return Mamba2(
        heads=config.integer("mamba_num_heads", "the heads of the recurrent layers"),
        head_dim=config.integer("mamba_head_dim", "the width of their heads"),
        groups=config.integer("n_groups", "the groups of B and C"),
        state=config.integer("ssm_state_size", "the width of the state"),
        kernel=config.integer("conv_kernel", "the width of the convolution"),
        chunk=config.integer("chunk_size", "how many tokens are scanned at once", 128),
        bias=config.flag("use_bias", False),
        conv_bias=config.flag("use_conv_bias", True),
        format=state_format(config, "mamba_ssm_cache_dtype"),
    )
