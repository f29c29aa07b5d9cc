"""BART and those who took its layers: LayerNorm, biases everywhere, learned positions of each side; Whisper too."""

from typing import NamedTuple

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.ends import Activation, Conv, Norm, Positions
from roofline.parts.tower import Stage
from roofline.shard import Axis
from roofline.structure.sides import MOST_LAYERS, Side, repeated, stack, width_of_heads
from roofline.structure.transducer import KEYS, Ends, Reads, encoder, transducer, vocabulary


class Traits(NamedTuple):
    """What a family fixes: norms before the blocks or behind, positions beyond the config's, norms at the ends.

    `offset` None: positions are computed, and stored nowhere.
    """

    pre_norm: bool = False
    offset: int | None = 2
    embed_norm: bool = True
    final_norm: bool = False


_TRAITS = {
    "bart": Traits(),
    "mvp": Traits(),
    "plbart": Traits(),
    "blenderbot-small": Traits(offset=0),
    "mbart": Traits(pre_norm=True, final_norm=True),
    "blenderbot": Traits(pre_norm=True, offset=0, embed_norm=False, final_norm=True),
    "pegasus": Traits(pre_norm=True, offset=0, embed_norm=False, final_norm=True),
    "marian": Traits(offset=0, embed_norm=False),
    "m2m_100": Traits(pre_norm=True, offset=None, embed_norm=False, final_norm=True),
}


@family(
    *("bart", "mvp", "plbart", "blenderbot-small", "mbart", "blenderbot", "pegasus", "marian", "m2m_100"),
    reads=KEYS,
)
def bart(config: Config) -> Model:
    """BART, mBART, PLBART, MVP, Blenderbot, Pegasus, Marian, M2M-100 and NLLB."""
    traits = _TRAITS[config.model_type]
    rows = config.integer("max_positions", "the learned positions")
    ends = Ends(0 if traits.offset is None else rows + traits.offset, traits.embed_norm, traits.final_norm)
    reads = Stage(1, encoder(vocabulary(config), _side(config, "encoder", traits.pre_norm), ends, shared=True))
    decoder = _side(config, "decoder", traits.pre_norm)
    tied = config.flag("tie_word_embeddings", True)
    return transducer(config, Reads((reads,), rows), decoder, ends, rows, tied)


def _side(config: Config, name: str, pre_norm: bool, k_bias: bool = True) -> Side:
    hidden = config.integer("hidden", "the width of every matrix")
    heads = config.integer(f"{name}_attention_heads", f"the heads of the {name}")
    return Side(
        hidden,
        layers=config.integer(f"{name}_layers", f"the layers of the {name}", most=MOST_LAYERS),
        heads=heads,
        intermediate=config.integer(f"{name}_ffn_dim", f"the width of the {name}'s MLP"),
        head_dim=width_of_heads(config, hidden, heads),
        causal=name == "decoder",
        cross=hidden if name == "decoder" else None,
        pre_norm=pre_norm,
        k_bias=k_bias,
    )


@family("whisper", reads=KEYS)
def whisper(config: Config) -> Model:
    """Whisper: two convolutions over frames of sound, the second of which leaves half of them."""
    side = _side(config, "encoder", True, k_bias=False)
    hidden, bins = side.axis, Axis("mel", config.integer("num_mel_bins", "the numbers of a frame of sound"))
    frames = config.integer("max_source_positions", "the positions of a sound", most=1 << 24)
    front = Conv("conv1", hidden, bins, 3), Activation("conv1_act", hidden)
    halved = Conv("conv2", hidden, hidden, 3, 2), Activation("conv2_act", hidden), Positions(frames, hidden)
    parts = (*repeated(stack(side)), (1, Norm("final_norm", hidden, 1, 2)))
    reads = Stage(2, tuple((1, each) for each in front)), Stage(1, (*((1, each) for each in halved), *parts))
    rows = config.integer("max_target_positions", "the learned positions")
    decoder, tied = _side(config, "decoder", True, k_bias=False), config.flag("tie_word_embeddings", True)
    return transducer(config, Reads(reads, frames, True), decoder, Ends(rows), rows, tied)
