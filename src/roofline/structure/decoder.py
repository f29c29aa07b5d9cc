"""The decoder that all families here are relatives of: embedding, layers of a few kinds, norm, head."""

from __future__ import annotations

from collections.abc import Callable

from roofline.config import Config
from roofline.model import Block, Model
from roofline.parts.base import Part
from roofline.parts.ends import Embedding, Head, Norm, Positions, Projection
from roofline.shard import Axis
from roofline.structure import blocks
from roofline.structure.pattern import Kind, kinds, with_own_keys
from roofline.structure.traits import Traits

MOST_LAYERS = 10_000
_SHARING = ("num_kv_shared_layers", "hidden_size_per_layer_input")

Build = Callable[[Config, Traits, Axis, Kind], Part]
Assemble = Callable[[Config, Traits, Axis, Kind], tuple[Part, ...]]


def decoder(
    config: Config,
    traits: Traits,
    *,
    mixer: Build = blocks.mixer,
    feed: Build = blocks.feed,
    layer: Assemble | None = None,
    pattern: Callable[[Config, int, Traits], list[Kind]] = kinds,
) -> Model:
    """A decoder with the shape of the config and the traits of its family.

    A family whose attention, feed-forward block, whole layer or pattern of layers is its own gives what builds it.
    """
    for key in _SHARING:
        if config.count(key) and not traits.shares:
            raise config.fail(
                f"{key} says that layers share inputs or a cache, which this family's do not. Possible: 0."
            )
    hidden = Axis("hidden", config.integer("hidden", "the width of every matrix"))
    layers = config.integer("layers", "how many layers are counted", most=MOST_LAYERS)
    vocab = Axis("vocab", config.integer("vocab", "the embedding and the output head"), uneven="pad")
    tied = config.flag("tie_word_embeddings", traits.tied)
    positions = config.integer("max_positions", "the learned positions", 0) or None
    inner = Axis("hidden", config.integer("word_embed_proj_dim", "the width of the embedding", hidden.size))
    learned = _learned(config, traits, positions)

    before: list[Part] = [Embedding(vocab, inner, learned if inner == hidden else 0)]
    after: list[Part] = []
    if traits.embed_norm:
        before.append(Norm("embed_norm", inner, 0, traits.embed_norm))
    if traits.final_norm:
        after.append(Norm("final_norm", hidden, 1 + traits.parallel if traits.pre_norm else 0, traits.norm_vectors))
    if inner != hidden:
        before.append(Projection("project_in", hidden, inner))
        before += [Positions(learned, hidden)] if learned else []
        after.append(Projection("project_out", inner, hidden))
    after.append(Head(vocab, inner, tied, traits.head_bias))

    def of_kind(kind: Kind) -> tuple[Part, ...]:
        own = config.having({**config.keys, **dict(kind.own)}) if kind.own else config
        if layer is not None:
            return layer(own, traits, hidden, kind)
        return around(hidden, mixer(own, traits, hidden, kind), feed(own, traits, hidden, kind), traits)

    found = with_own_keys(config, pattern(config, layers, traits))
    return Model("", tuple(before), blocks_of(found, of_kind), tuple(after), positions)


def blocks_of(found: list[Kind], of_kind: Callable[[Kind], tuple[Part, ...]]) -> tuple[Block, ...]:
    """One block for each kind of layer, in the order in which they come first."""
    return tuple(
        Block(of_kind(kind), tuple(index for index, each in enumerate(found) if each == kind))
        for kind in dict.fromkeys(found)
    )


def around(hidden: Axis, mixer: Part, feed: Part, traits: Traits) -> tuple[Part, ...]:
    """One layer: the norms of the family around attention and feed-forward block, one after the other or side by side.

    A norm before a block adds what the last block gave to the stream; where there is none, the norm behind the
    block does.
    """
    vectors, parallel = traits.norm_vectors, traits.parallel
    first = Norm("input_norm", hidden, 1 + parallel, vectors)
    between = Norm("mlp_norm", hidden, 0 if parallel else 1, vectors)
    if parallel:
        return (first, mixer, feed) if traits.shared_norm else (first, mixer, between, feed)
    after = 0 if traits.pre_norm else 1
    behind = tuple(Norm(name, hidden, 0, vectors, after) for name in ("attention_post_norm", "mlp_post_norm"))
    before = ((first,), (between,)) if traits.pre_norm else ((), ())
    post = ((behind[0],), (behind[1],)) if traits.post_norm else ((), ())
    return (*before[0], mixer, *post[0], *before[1], feed, *post[1])


def _learned(config: Config, traits: Traits, positions: int | None) -> int:
    """Rows of the table of learned positions; raises ConfigError where their number is missing."""
    if traits.learned is None:
        return 0
    if positions is None:
        config.integer("max_positions", "the rows of the learned positions")
    return (positions or 0) + traits.learned
