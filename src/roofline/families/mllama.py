"""Llama 3.2 Vision: layers between the others attend to images; a pass of text alone skips them."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import Limits
from roofline.parts.base import Part
from roofline.parts.encoder import CrossAttention
from roofline.parts.ends import Embedding, Norm, Stored
from roofline.parts.skipped import Skipped
from roofline.shard import Axis
from roofline.structure import blocks
from roofline.structure.decoder import around, decoder
from roofline.structure.pattern import FULL, Kind, listed_layers
from roofline.structure.traits import Traits

_KEYS = ("cross_attention_layers",)
_ACROSS = "cross_attention"
_FURTHER = 8  # rows of the token table that the head has not, for the image's token


@family("mllama_text_model", reads=_KEYS)
def mllama(config: Config) -> Model:
    """Llama 3.2 Vision: the layers that the file lists have attention to images, their own MLP, and two gates."""
    model = decoder(config, Traits(), layer=_layer, pattern=_kinds)
    across = sum(len(block.layers) for block in model.blocks if any(isinstance(each, Skipped) for each in block.parts))
    config.assume(f"{across} of the layers attend to images alone: a pass of text skips them, whose weights are held")
    hidden = Axis("hidden", config.integer("hidden", "the width of every matrix"))
    rows = config.integer("vocab", "the embedding and the output head") + _FURTHER
    return replace(model, before=(Embedding(Axis("vocab", rows, uneven="pad"), hidden), *model.before[1:]))


def _kinds(config: Config, layers: int, traits: Traits) -> list[Kind]:
    across = listed_layers(config, "cross_attention_layers", layers)
    return [Kind(_ACROSS if index in across else FULL, Limits(), True, False) for index in range(layers)]


def _layer(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> tuple[Part, ...]:
    feed = blocks.mlp(config, traits, hidden)
    own = blocks.attention(config, traits, hidden, kind)
    if kind.name == FULL:
        return around(hidden, own, feed, traits)
    across = CrossAttention(hidden, own.heads, own.kv_heads, hidden)
    head = Axis("head_dim", own.heads.unit)
    norms = tuple(Norm(f"cross_{name}_norm", head, 0) for name in ("q", "k"))
    gates = tuple(Stored(f"cross_{name}_gate", Axis("gate", 1)) for name in ("attention", "mlp"))
    return tuple(Skipped(part) for part in (*around(hidden, across, feed, traits), *norms, *gates))
