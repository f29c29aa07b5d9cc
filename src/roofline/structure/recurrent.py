"""Recurrent layers from the keys of a config: gated delta networks, Mamba 1 and 2."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.config import Config
from roofline.dtypes import DTYPES
from roofline.errors import shown
from roofline.parts.base import Weight
from roofline.parts.recurrent import Recurrent
from roofline.shard import Axis

DELTA_CHUNK = 64  # tokens that the published kernels of the delta rule take at once; no config names it
_FORMATS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
DELTA_KEYS = ("linear_num_key_heads", "linear_conv_kernel_dim")
MAMBA2_KEYS = ("ssm_state_size", "mamba_num_heads", "hybrid_override_pattern", "conv_kernel", "mamba_expand")
MOST_KERNEL = 1 << 16


def state_format(config: Config, *keys: str) -> str:
    """The number format of the state, where a key says it; FP32 where none does."""
    for key in keys:
        found = config.find(key)
        if found is not None:
            name = _FORMATS.get(str(found[1]), str(found[1]))
            if name not in DTYPES or DTYPES[name].block:
                raise config.fail(f"{key} is {shown(found[1])}. Possible: {', '.join(_FORMATS)}.")
            return name
    config.assume("The recurrent state is kept in FP32: the file does not say its format")
    return "fp32"


def gated_delta(config: Config, hidden: Axis, apart: bool = False) -> Recurrent:
    """A gated delta network: q and k of the key heads, v and z of the value heads, two numbers a value head.

    `apart`: each has a product of its own.
    """
    heads = config.integer("linear_num_value_heads", "the value heads of the recurrent layers")
    groups = config.integer("linear_num_key_heads", "the key heads of the recurrent layers")
    if heads % groups:
        raise config.fail(f"{heads} value heads are not divisible by {groups} key heads. Correct one of them.")
    values = Axis("heads", heads, config.integer("linear_value_head_dim", "the width of a value head"))
    keys = Axis("kv_heads", groups, config.integer("linear_key_head_dim", "the width of a key head"), "replicate")
    each = Axis("heads", heads)
    widths = (("q", keys), ("k", keys), ("v", values), ("z", values))
    qkvz = tuple(Weight(f"in_proj_{name}", axis, hidden) for name, axis in widths)
    ba = tuple(Weight(f"in_proj_{name}", each, hidden) for name in "ba")
    together = (("in_proj_qkvz", qkvz), ("in_proj_ba", ba))
    return Recurrent(
        hidden,
        values,
        keys,
        inputs=tuple((weight.name, (weight,)) for weight in (*qkvz, *ba)) if apart else together,
        channels=(keys, keys, values),
        kernel=config.integer("linear_conv_kernel_dim", "the width of the convolution", most=MOST_KERNEL),
        out=Weight("out_proj", hidden, values),
        vectors=tuple(Weight(name, each, kind="vector") for name in ("A_log", "dt_bias")),
        norm=Axis("value_dim", values.unit),
        chunk=DELTA_CHUNK,
        delta=True,
        gates=2,
        state=state_format(config, "mamba_ssm_dtype", "mamba_ssm_cache_dtype"),
    )


def delta_by_channel(
    config: Config, hidden: Axis, heads: int, width: int, kernel: int, *, low_rank: bool = True
) -> Recurrent:
    """Kimi's delta attention: a decay for every channel of a head, it and the gate out of a low rank or not."""
    values = Axis("heads", heads, width)
    low, each = Axis("rank", width), Axis("heads", heads)
    qkv = tuple(Weight(f"{name}_proj", values, hidden) for name in "qkv")
    whole = tuple((f"{name}_proj", (Weight(f"{name}_proj", values, hidden),)) for name in "fg")
    gates = tuple(
        (weight.name, (weight,))
        for name in "fg"
        for weight in (Weight(f"{name}_a_proj", low, hidden), Weight(f"{name}_b_proj", values, low))
    )
    return Recurrent(
        hidden,
        values,
        values,
        inputs=(("qkv_proj", qkv), *(gates if low_rank else whole), ("b_proj", (Weight("b_proj", each, hidden),))),
        channels=(values, values, values),
        kernel=kernel,
        out=Weight("o_proj", hidden, values),
        vectors=(Weight("A_log", each, kind="vector"), Weight("dt_bias", values, kind="vector")),
        norm=Axis("value_dim", width),
        chunk=DELTA_CHUNK,
        delta=True,
        gates=width + 1,
        state=state_format(config, "mamba_ssm_dtype", "mamba_ssm_cache_dtype"),
    )


@dataclass(frozen=True, slots=True)
class Mamba2:
    """The sizes of a Mamba-2 layer, under whatever keys a family has them."""

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    chunk: int
    bias: bool = False
    conv_bias: bool = True
    normed: bool = True
    out_bias: bool | None = None
    format: str = "fp32"


def mamba2(config: Config, hidden: Axis, sizes: Mamba2) -> Recurrent:
    """One matrix makes z, x, B, C and a step for each head; a norm times the gate stands before the last."""
    if sizes.heads % sizes.groups:
        raise config.fail(f"{sizes.heads} heads are not divisible by {sizes.groups} groups. Correct one of them.")
    heads = Axis("heads", sizes.heads, sizes.head_dim)
    groups = Axis("kv_heads", sizes.groups, sizes.state, "replicate")
    each = Axis("heads", sizes.heads)
    made = (("z", heads), ("x", heads), ("B", groups), ("C", groups), ("dt", each))
    return Recurrent(
        hidden,
        heads,
        groups,
        inputs=(("in_proj", tuple(Weight(f"in_proj_{name}", axis, hidden, sizes.bias) for name, axis in made)),),
        channels=(heads, groups, groups),
        kernel=sizes.kernel,
        conv_bias=sizes.conv_bias,
        out=Weight("out_proj", hidden, heads, sizes.bias if sizes.out_bias is None else sizes.out_bias),
        vectors=tuple(Weight(name, each, kind="vector") for name in ("A_log", "dt_bias", "D")),
        norm=heads if sizes.normed else None,
        chunk=sizes.chunk,
        state=sizes.format,
    )


@dataclass(frozen=True, slots=True)
class Mamba1:
    """The sizes of a Mamba-1 layer, under whatever keys a family has them; `normed`: norms of its step, B and C.

    `groups` of channels have a step, B and C each of their own.
    """

    wide: int
    state: int
    rank: int
    kernel: int
    bias: bool = False
    conv_bias: bool = True
    normed: bool = False
    groups: int = 1


def mamba1(config: Config, hidden: Axis, sizes: Mamba1) -> Recurrent:
    """A Mamba-1 layer: every channel is a head of one element, with a step of its own out of a low rank."""
    channels, groups = Axis("heads", sizes.wide), Axis("groups", sizes.groups, sizes.state)
    low = Axis("rank", sizes.rank)
    norms = (("dt_norm", low), ("b_norm", groups), ("c_norm", groups)) if sizes.normed else ()
    return Recurrent(
        hidden,
        channels,
        groups,
        inputs=(("in_proj", tuple(Weight(f"in_proj_{name}", channels, hidden, sizes.bias) for name in "xz")),),
        channels=(channels,),
        kernel=sizes.kernel,
        conv_bias=sizes.conv_bias,
        inner=(
            ("x_proj", (Weight("x_proj", Axis("step", sizes.rank + 2 * sizes.state), channels),)),
            ("dt_proj", (Weight("dt_proj", channels, low, True),)),
        ),
        out=Weight("out_proj", hidden, channels, sizes.bias),
        vectors=(
            Weight("A_log", Axis("heads", sizes.wide, sizes.state), kind="vector"),
            Weight("D", channels, kind="vector"),
            *(Weight(name, axis, kind="vector") for name, axis in norms),
        ),
        state=state_format(config, "mamba_ssm_dtype", "mamba_ssm_cache_dtype"),
    )
