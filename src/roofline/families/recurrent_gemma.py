"""RecurrentGemma (Griffin): a gated linear recurrence in two layers of three, attention in a window in the third."""

from typing import cast

from roofline.config import Config
from roofline.errors import shown
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import Limits
from roofline.parts.base import Part, Weight
from roofline.parts.recurrent import Recurrent
from roofline.shard import Axis
from roofline.structure import blocks
from roofline.structure.decoder import decoder
from roofline.structure.pattern import RECURRENT, SLIDING, Kind
from roofline.structure.recurrent import MOST_KERNEL, state_format
from roofline.structure.traits import Traits

_KEYS = ("lru_width", "block_types")


@family("recurrent_gemma", reads=_KEYS)
def recurrent_gemma(config: Config) -> Model:
    """RecurrentGemma: the file's MLP width is that of gate and up together; half of each head rotated."""
    wide = config.integer("intermediate", "the width of the MLP")
    bias = config.flag("attention_bias", False)
    traits = Traits(
        mlp_bias=True,
        qkv_bias=bias,
        out_bias=True,
        tied=True,
        rotary=config.rotary_share(0.5),
    )
    halved = config.having({**config.keys, "intermediate_size": wide // 2})
    return decoder(halved, traits, mixer=_mixer, pattern=_kinds)


def _kinds(config: Config, layers: int, traits: Traits) -> list[Kind]:
    """The pattern of `block_types`, again and again."""
    given = cast("object", config.keys.get("block_types"))
    names = (
        cast("list[object]", given) if isinstance(given, list) and given else ["recurrent", "recurrent", "attention"]
    )
    if any(each not in ("recurrent", "attention") for each in names):
        raise config.fail(
            f"block_types is {shown(config.keys.get('block_types'))}. Possible for each: recurrent, attention."
        )
    window = Limits(window=config.integer("attention_window_size", "how far a query sees"))
    own, attends = Kind(RECURRENT, Limits(), False, False), Kind(SLIDING, window, True, False)
    return [own if names[index % len(names)] == "recurrent" else attends for index in range(layers)]


def _mixer(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    if kind.name != RECURRENT:
        return blocks.attention(config, traits, hidden, kind)
    wide = config.integer("lru_width", "how wide the recurrent layers are", hidden.size)
    heads = config.integer("heads", "the blocks of the recurrent gates")
    if wide % heads:
        raise config.fail(f"lru_width {wide} is not divisible by {heads} attention heads. Correct one of them.")
    channels, block = Axis("heads", wide), Axis("block", wide // heads)
    gates = tuple(Weight(f"{name}_gate", channels, block, True) for name in ("input", "recurrent"))
    return Recurrent(
        hidden,
        channels,
        Axis("groups", 1),
        inputs=tuple((f"linear_{name}", (Weight(f"linear_{name}", channels, hidden, True),)) for name in "yx"),
        channels=(channels,),
        kernel=config.integer("conv1d_width", "the width of the convolution", 4, most=MOST_KERNEL),
        conv_bias=True,
        inner=tuple((each.name, (each,)) for each in gates),
        out=Weight("linear_out", hidden, channels, True),
        vectors=(Weight("recurrent_param", channels, kind="vector"),),
        gates=1,
        state=state_format(config, "mamba_ssm_dtype"),
    )
