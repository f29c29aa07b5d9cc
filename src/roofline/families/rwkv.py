"""RWKV 4 to 7: a state of fixed size, each token mixed with the one before it; no attention anywhere."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.config import Config
from roofline.families import family
from roofline.model import Block, Model
from roofline.parts.base import Part, Weight
from roofline.parts.channelmix import ChannelMix
from roofline.parts.ends import Embedding, Head, Norm
from roofline.parts.recurrent import Recurrent
from roofline.shard import Axis
from roofline.structure.recurrent import state_format
from roofline.structure.sides import MOST_LAYERS

_KEYS = ("attention_hidden_size", "rwkv_hidden_size")


@dataclass(frozen=True, slots=True)
class _Sizes:
    """What every version has: the stream, its heads, the width of the MLP."""

    hidden: Axis
    wide: Axis
    heads: int
    head: int

    @property
    def values(self) -> Axis:
        """The heads of the state."""
        return Axis("heads", self.heads, self.head)

    def vectors(self, *names: str) -> tuple[Weight, ...]:
        """Vectors as wide as the stream."""
        return tuple(Weight(name, self.hidden, kind="vector") for name in names)

    def low(self, name: str, rank: int, bias: bool = False) -> tuple[Weight, ...]:
        """A matrix into a low rank and one out of it."""
        axis = Axis("rank", rank)
        return Weight(f"{name}_1", axis, self.hidden), Weight(f"{name}_2", self.values, axis, bias)


def _sizes(config: Config, width: int | None, wide: int) -> _Sizes:
    hidden = Axis("hidden", config.integer("hidden", "the width of every matrix"))
    if width is None:
        return _Sizes(hidden, Axis("intermediate", wide), hidden.size, 1)
    if hidden.size % width:
        raise config.fail(f"a width of {hidden.size} is not divisible by heads of {width}. Correct one of them.")
    return _Sizes(hidden, Axis("intermediate", wide), hidden.size // width, width)


def _products(*weights: Weight) -> tuple[tuple[str, tuple[Weight, ...]], ...]:
    return tuple((each.name, (each,)) for each in weights)


def _model(config: Config, sizes: _Sizes, kinds: list[tuple[Part, Part]], first: bool) -> Model:
    """Embedding, a norm behind it, layers of two norms and two mixers, a norm, a head."""
    vocab = Axis("vocab", config.integer("vocab", "the embedding and the output head"), uneven="pad")
    hidden = sizes.hidden
    norms = Norm("input_norm", hidden, 1, 2), Norm("mlp_norm", hidden, 1, 2)
    found: dict[tuple[Part, ...], tuple[int, ...]] = {}
    for index, (time, channel) in enumerate(kinds):
        parts = (norms[0], time, norms[1], channel)
        found[parts] = (*found.get(parts, ()), index)
    before = (Embedding(vocab, hidden), *((Norm("embed_norm", hidden, 0, 2),) if first else ()))
    head = Head(vocab, hidden, config.flag("tie_word_embeddings", False))
    blocks = tuple(Block(parts, layers) for parts, layers in found.items())
    return Model("", before, blocks, (Norm("final_norm", hidden, 1, 2), head))


def _layers(config: Config) -> int:
    return config.integer("layers", "how many layers are counted", most=MOST_LAYERS)


@family("rwkv", reads=_KEYS)
def rwkv4(config: Config) -> Model:
    """RWKV 4: a decayed mean of values weighed by keys, a number of each a channel."""
    width = config.integer("hidden", "the width of every matrix")
    sizes = _sizes(config, None, config.integer("intermediate", "the width of the MLP", 4 * width))
    hidden, own = sizes.hidden, Axis("heads", config.integer("attention_hidden_size", "the width of the mixer", width))
    inner = tuple(Weight(name, own, hidden) for name in ("key", "value", "receptance"))
    mixes = sizes.vectors("time_mix_key", "time_mix_value", "time_mix_receptance")
    decays = tuple(Weight(name, own, kind="vector") for name in ("time_decay", "time_first"))
    time = Recurrent(
        hidden,
        own,
        Axis("groups", 1, 3),  # numerator, denominator and the largest exponent so far, of each channel
        inputs=_products(*inner),
        channels=(),
        kernel=1,
        out=Weight("output", hidden, own),
        vectors=(*decays, *mixes),
        gates=0,
        state=state_format(config, "mamba_ssm_dtype"),
        shifted=1,
    )
    channel = ChannelMix(hidden, sizes.wide, ("time_mix_key", "time_mix_receptance"), True)
    return _model(config, sizes, [(time, channel)] * _layers(config), True)


@family("rwkv5", "rwkv6", reads=_KEYS)
def rwkv5(config: Config) -> Model:
    """RWKV 5 and 6 (Eagle and Finch): a matrix for each head; from 6 on mixes and decays out of low ranks."""
    width = config.integer("hidden", "the width of every matrix")
    wide = config.count("intermediate") or int(width * 3.5) // 32 * 32
    head = config.integer("head_size", "the width of a head", 64)
    sizes = _sizes(config, head, wide)
    hidden, values, sixth = sizes.hidden, sizes.values, config.model_type == "rwkv6"
    inner = [Weight(name, values, hidden) for name in ("receptance", "key", "value", "gate")]
    vectors = [*sizes.vectors("time_decay", "time_faaaa"), *sizes.vectors("ln_x", "ln_x_bias")]
    if sixth:
        mix, decay = (64, 128) if width >= 4096 else (32, 64)
        mixes = Axis("mixes", 5, mix)
        vectors += sizes.vectors(*(f"time_maa_{name}" for name in "xwkvrg"))
        low = (
            Weight("time_maa_w1", mixes, hidden),
            Weight("time_maa_w2", Axis("mixed", 5, width), Axis("rank", mix)),
        )
        inner = [*low, *sizes.low("time_decay_w", decay), *inner]
    else:
        vectors += sizes.vectors(*(f"time_mix_{name}" for name in ("key", "value", "receptance", "gate")))
    time = Recurrent(
        hidden,
        values,
        values,
        inputs=_products(*inner),
        channels=(),
        kernel=1,
        out=Weight("output", hidden, values),
        vectors=tuple(vectors),
        gates=head if sixth else 0,
        state=state_format(config, "mamba_ssm_dtype"),
        shifted=1,
    )
    channel = ChannelMix(hidden, sizes.wide, ("time_mix_key", "time_mix_receptance"), True)
    return _model(config, sizes, [(time, channel)] * _layers(config), True)


@family("rwkv7", reads=_KEYS)
def rwkv7(config: Config) -> Model:
    """RWKV 7 (Goose): the delta rule with rates and decays out of low ranks; no gate in the MLP."""
    width = config.integer("hidden", "the width of every matrix")
    wide = config.count("intermediate") or int(config.ratio("hidden_ratio", 4.0) * width)
    sizes = _sizes(config, config.integer("head_dim", "the width of a head", 64), wide)
    hidden, values = sizes.hidden, sizes.values
    ranks = {
        name: config.integer(f"{key}_low_rank_dim", f"the rank of the {what}")
        for name, key, what in (
            ("w", "decay", "decays"),
            ("a", "a", "rates"),
            ("v", "v", "values' mix"),
            ("g", "gate", "gate"),
        )
    }
    names = [f"x_{name}" for name in "rwkvag"] + ["k_k", "k_a", "r_k", "ln_x", "ln_x_bias"]

    def time(first: bool) -> Recurrent:
        mixed = ("w", "a") if first else ("w", "a", "v")
        low = [each for name in mixed for each in sizes.low(name, ranks[name], True)]
        low += sizes.low("g", ranks["g"])
        return Recurrent(
            hidden,
            values,
            values,
            inputs=_products(*(Weight(f"{name}_proj", values, hidden) for name in "rkv"), *low),
            channels=(),
            kernel=1,
            out=Weight("o_proj", hidden, values),
            vectors=sizes.vectors(*names),
            delta=True,
            gates=2 * sizes.head,
            state=state_format(config, "mamba_ssm_dtype"),
            shifted=1,
        )

    channel = ChannelMix(hidden, sizes.wide, ("x_k",), False)
    layers = _layers(config)
    return _model(config, sizes, [(time(index == 0), channel) for index in range(layers)], True)
