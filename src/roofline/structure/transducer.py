"""An encoder with a decoder that attends to its output, from the two sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from roofline.config import Config
from roofline.model import Model
from roofline.parts.base import Part
from roofline.parts.encoder import Encoder
from roofline.parts.ends import Embedding, Head, Norm
from roofline.parts.tower import Stage
from roofline.shard import Axis
from roofline.structure.sides import Side, repeated, stack

KEYS = ("is_encoder_decoder", "encoder_layers", "decoder_layers", "add_cross_attention")


@dataclass(frozen=True, slots=True)
class Ends:
    """What is around the layers of a side: rows of learned positions, a norm behind the embedding, one at the end."""

    positions: int = 0
    embed_norm: bool = False
    final_norm: bool = True


class Reads(NamedTuple):
    """An encoder's stages, the positions that it was made for, and whether it always gives so many."""

    stages: tuple[Stage, ...]
    most: int | None = None
    fixed: bool = False


def vocabulary(config: Config) -> Axis:
    """The tokens of the two sides."""
    return Axis("vocab", config.integer("vocab", "the embedding and the output head"), uneven="pad")


def around(side: Side, ends: Ends) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """The norms behind the embedding and at the end."""
    first = (Norm("embed_norm", side.axis, 0, side.norms),) if ends.embed_norm else ()
    last = (Norm("final_norm", side.axis, int(side.pre_norm), side.norms),) if ends.final_norm else ()
    return first, last


def encoder(vocab: Axis, side: Side, ends: Ends, *, shared: bool) -> tuple[tuple[int, Part], ...]:
    """The parts of an encoder of tokens."""
    first, last = around(side, ends)
    table = Embedding(vocab, side.axis, ends.positions, shared)
    return (
        (1, table),
        *((1, each) for each in first),
        *repeated(stack(side)),
        *((1, each) for each in last),
    )


def transducer(
    config: Config,
    reads: Reads,
    side: Side,
    ends: Ends,
    positions: int | None,
    tied: bool,
) -> Model:
    """The model whose decoder is `side`, made for so many `positions`, and whose encoder `reads` so.

    The table of tokens is the decoder's, to whose head it may be `tied`.
    """
    vocab = vocabulary(config)
    first, last = around(side, ends)
    before = (Embedding(vocab, side.axis, ends.positions), *first)
    after = (*last, Head(vocab, side.axis, tied))
    found = Encoder(reads.stages, reads.most or 1, reads.fixed, reads.most)
    model = Model("", before, stack(side), after, positions, encoder=found)
    return model.reading(found.source)
