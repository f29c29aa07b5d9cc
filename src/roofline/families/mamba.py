"""Mamba 1 and 2, and hybrids of them with attention: Jamba, Bamba, Granite 4."""

from dataclasses import replace
from typing import cast

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import Limits
from roofline.parts.base import Part
from roofline.parts.ends import Norm
from roofline.shard import Axis
from roofline.structure import blocks
from roofline.structure.decoder import decoder
from roofline.structure.pattern import FULL, RECURRENT, Kind, indices, with_experts
from roofline.structure.recurrent import Mamba1, Mamba2, mamba1, mamba2, state_format
from roofline.structure.traits import Traits

_WORDS = {"mamba": RECURRENT, "attention": FULL, "linear_attention": RECURRENT, "full_attention": FULL}
_LISTS = ("layers_block_type", "layer_types")
_KEYS = ("mamba_d_state", "mamba_expand", "mamba_n_heads", "state_size", "conv_kernel", "attn_layer_indices")


@family("mamba", "falcon_mamba", reads=_KEYS)
def mamba(config: Config) -> Model:
    """Mamba 1, Falcon Mamba: nothing but recurrent layers, whose every channel has a state of its own."""
    return _alone(config, tied=True)


@family("mamba2", reads=_KEYS)
def mamba_2(config: Config) -> Model:
    """Mamba 2: nothing but recurrent layers, in heads."""
    return _alone(config, tied=False)


def _alone(config: Config, *, tied: bool) -> Model:
    def layer(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> tuple[Part, ...]:
        bias = config.flag("use_bias", False)
        kernel = config.integer("conv_kernel", "the width of the convolution", most=1 << 16)
        state = config.integer("state_size", "the width of the state")
        wide = config.integer("expand", "how wide the layers are", 2) * hidden.size
        conv_bias = config.flag("use_conv_bias", True)
        if tied:
            rank = _rank(config, "time_step_rank", hidden)
            wide = config.integer("intermediate_size", "how wide the layers are", wide)
            return Norm("input_norm", hidden, 1), mamba1(
                config, hidden, Mamba1(wide, state, rank, kernel, bias, conv_bias)
            )
        heads = config.integer("num_heads", "the heads of the layers")
        head_dim = config.integer("head_dim", "the width of a head")
        if heads * head_dim != wide:
            raise config.fail(f"{heads} heads of {head_dim} are not the {wide} that expand says. Correct one of them.")
        groups = config.integer("n_groups", "the groups of B and C")
        chunk = config.integer("chunk_size", "how many tokens are scanned at once", 256)
        sizes = Mamba2(heads, head_dim, groups, state, kernel, chunk, bias, conv_bias, format=state_format(config))
        return Norm("input_norm", hidden, 1), mamba2(config, hidden, sizes)

    return decoder(config, Traits(tied=tied), layer=layer, pattern=_all_recurrent)


def _all_recurrent(config: Config, layers: int, traits: Traits) -> list[Kind]:
    return [Kind(RECURRENT, Limits(), False, False)] * layers


def _rank(config: Config, key: str, hidden: Axis) -> int:
    """The rank of the step's matrix; "auto" is a sixteenth of the stream's width, rounded up."""
    if config.keys.get(key) in (None, "auto"):
        return -(-hidden.size // 16)
    return config.integer(key, "the rank of the step's matrix")


def _named(config: Config, layers: int) -> list[str]:
    """Which layers are recurrent: by a list of words, of the others' indices, or a period and an offset."""
    for key in _LISTS:
        value = config.keys.get(key)
        if value is not None:
            listed = cast("list[object]", value) if isinstance(value, list) else []
            if len(listed) != layers or any(each not in _WORDS for each in listed):
                raise config.fail(f"{key} is no list of {layers} entries. Possible for each: {', '.join(_WORDS)}.")
            return [_WORDS[cast(str, each)] for each in listed]
    full = indices(config, "attn_layer_indices", layers)
    if full is not None:
        return [FULL if index in full else RECURRENT for index in range(layers)]
    if config.find("attn_layer_period") is None:
        return [RECURRENT] * layers
    return [FULL if each else RECURRENT for each in _every(config, "attn_layer", layers)]


def _every(config: Config, name: str, layers: int) -> list[bool]:
    period = config.integer(f"{name}_period", "which layers are of a kind")
    offset = config.integer(f"{name}_offset", "the first of them", least=0)
    return [index % period == offset for index in range(layers)]


def _sizes(config: Config, hidden: Axis, wide: int | None = None) -> Mamba2:
    if wide is None:
        wide = config.integer("mamba_expand", "how wide the recurrent layers are", 2) * hidden.size
    heads = config.integer("mamba_n_heads", "the heads of the recurrent layers")
    head_dim = wide // heads
    if config.keys.get("mamba_d_head") not in (None, "auto"):
        head_dim = config.integer("mamba_d_head", "the width of their heads")
    if heads * head_dim != wide:
        raise config.fail(f"{heads} heads of {head_dim} are not the {wide} that expand says. Correct one of them.")
    return Mamba2(
        heads,
        head_dim,
        groups=config.integer("mamba_n_groups", "the groups of B and C"),
        state=config.integer("mamba_d_state", "the width of the state"),
        kernel=config.integer("mamba_d_conv", "the width of the convolution", most=1 << 16),
        chunk=config.integer("mamba_chunk_size", "how many tokens are scanned at once", 256),
        bias=config.flag("mamba_proj_bias", False),
        conv_bias=config.flag("mamba_conv_bias", True),
        format=state_format(config, "mamba_ssm_cache_dtype"),
    )


def _mixer(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    if kind.name == RECURRENT:
        return mamba2(config, hidden, _sizes(config, hidden))
    return blocks.attention(config, traits, hidden, kind)


@family("bamba", reads=_KEYS)
def bamba(config: Config) -> Model:
    """Bamba: attention in the layers that are listed, half of each head rotated."""
    bias = config.flag("attention_bias", False)
    traits = Traits(qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias", False))
    return decoder(config, replace(traits, rotary=config.rotary_share(0.5)), mixer=_mixer, pattern=_dense)


def _dense(config: Config, layers: int, traits: Traits) -> list[Kind]:
    return [Kind(name, Limits(), True, False) for name in _named(config, layers)]


@family("falcon_h1", reads=_KEYS)
def falcon_h1(config: Config) -> Model:
    """Falcon-H1: attention and Mamba 2 side by side in every layer."""
    bias = config.flag("attention_bias", False)
    traits = Traits(qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias", False))
    return decoder(config, traits, layer=_beside)


def _beside(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> tuple[Part, ...]:
    wide = config.integer("mamba_d_ssm", "how wide the recurrent layers are", 0, least=0)
    sizes = replace(
        _sizes(config, hidden, wide or None),
        normed=config.flag("mamba_rms_norm", False),
        out_bias=config.flag("projectors_bias", False),
    )
    own, attention = mamba2(config, hidden, sizes), blocks.attention(config, traits, hidden, kind)
    feed = blocks.mlp(config, traits, hidden)
    return Norm("input_norm", hidden, 1), own, attention, Norm("mlp_norm", hidden, 2), feed


@family("granitemoehybrid", reads=_KEYS)
def granitemoehybrid(config: Config) -> Model:
    """Granite 4: a shared MLP in every layer, experts beside it where there are any."""
    bias = config.flag("attention_bias", False)
    rotary = None if config.keys.get("position_embedding_type", "rope") == "rope" else 0
    traits = Traits(qkv_bias=bias, out_bias=bias, rotary_dim=rotary, experts=None)
    return decoder(config, traits, mixer=_mixer, feed=_feed, pattern=_routed)


def _routed(config: Config, layers: int, traits: Traits) -> list[Kind]:
    routed = with_experts(config, layers, traits)
    return [Kind(name, Limits(), True, each) for name, each in zip(_named(config, layers), routed, strict=True)]


def _feed(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    if kind.sparse:
        return blocks.experts(config, traits, hidden)
    shared = config.integer("shared_intermediate_size", "the width of the MLP")
    return blocks.mlp(config.having({**config.keys, "intermediate_size": shared}), traits, hidden)


@family("jamba", reads=_KEYS)
def jamba(config: Config) -> Model:
    """Jamba: Mamba 1 with norms of its step, B and C; attention and experts in every so many layers."""
    return decoder(config, Traits(rotary_dim=0, experts=None), mixer=_jamba, pattern=_periods)


def _periods(config: Config, layers: int, traits: Traits) -> list[Kind]:
    few = (config.count("experts") or 0) < 2
    sparse = [False] * layers if few else _every(config, "expert_layer", layers)
    return [Kind(name, Limits(), False, each) for name, each in zip(_named(config, layers), sparse, strict=True)]


def _jamba(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    if kind.name != RECURRENT:
        return blocks.attention(config, traits, hidden, kind)
    wide = config.integer("mamba_expand", "how wide the recurrent layers are", 2) * hidden.size
    state = config.integer("mamba_d_state", "the width of the state")
    rank = _rank(config, "mamba_dt_rank", hidden)
    kernel = config.integer("mamba_d_conv", "the width of the convolution", most=1 << 16)
    bias, conv_bias = config.flag("mamba_proj_bias", False), config.flag("mamba_conv_bias", True)
    return mamba1(config, hidden, Mamba1(wide, state, rank, kernel, bias, conv_bias, normed=True))
