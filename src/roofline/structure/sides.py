"""Layers of an encoder, and of a decoder that attends to one, from their sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.config import Config
from roofline.model import Block
from roofline.parts.attention import Attention, HeadNorm, Limits
from roofline.parts.base import Part
from roofline.parts.encoder import CrossAttention
from roofline.parts.ends import Norm
from roofline.parts.mlp import Mlp
from roofline.shard import Axis

MOST_LAYERS = 10_000


@dataclass(frozen=True, slots=True)
class Side:
    """The layers of one side: sizes, and what is there of norms and biases.

    `norms` vectors of each norm, before the blocks where `pre_norm`, else behind their sum with the stream;
    `post_norm`: behind what the blocks give too. `relative` buckets of learned shifts, in the first layer or in
    `relative_every`. `cross`: the width of an encoder's output that the layers attend to. `limits` of each layer
    where they differ.
    """

    hidden: int
    layers: int
    heads: int
    intermediate: int
    head_dim: int
    kv_heads: int | None = None
    causal: bool = False
    cross: int | None = None
    norms: int = 2
    pre_norm: bool = True
    post_norm: bool = False
    qkv_bias: bool = True
    k_bias: bool = True
    out_bias: bool = True
    gated: bool = False
    mlp_bias: bool = True
    rotary: int = 0
    head_norm: HeadNorm | None = None
    relative: int = 0
    relative_every: bool = False
    limits: tuple[Limits, ...] = ()
    unnormed_first: bool = False

    @property
    def axis(self) -> Axis:
        """The stream."""
        return Axis("hidden", self.hidden)


def width_of_heads(config: Config, hidden: int, heads: int) -> int:
    """The width of a head where no key says it; raises ConfigError where it is no whole number."""
    if hidden % heads:
        raise config.fail(f"a width of {hidden} is not divisible by {heads} attention heads. Correct one of them.")
    return hidden // heads


def stack(side: Side) -> tuple[Block, ...]:
    """One block for each kind of layer, in the order in which they come first."""
    limits = side.limits or (Limits(),) * side.layers
    shifts = [side.relative if index == 0 or side.relative_every else 0 for index in range(side.layers)]
    bare = [side.unnormed_first and index == 0 for index in range(side.layers)]
    found = list(zip(limits, shifts, bare, strict=True))
    return tuple(
        Block(_layer(side, *kind), tuple(index for index, each in enumerate(found) if each == kind))
        for kind in dict.fromkeys(found)
    )


def repeated(blocks: tuple[Block, ...]) -> tuple[tuple[int, Part], ...]:
    """The parts of blocks with how often each comes, kind after kind."""
    return tuple((len(block.layers), part) for block in blocks for part in block.parts)


def _layer(side: Side, limits: Limits, relative: int, bare: bool) -> tuple[Part, ...]:
    hidden = side.axis
    heads = Axis("heads", side.heads, side.head_dim)
    kv_heads = Axis("kv_heads", side.kv_heads or side.heads, side.head_dim, "replicate")
    own = Attention(
        hidden,
        heads,
        kv_heads,
        rotary_dim=side.rotary,
        qkv_bias=side.qkv_bias,
        out_bias=side.out_bias,
        k_bias=side.k_bias,
        head_norm=side.head_norm,
        limits=limits,
        causal=side.causal,
        relative=relative,
    )
    feed = Mlp(hidden, Axis("intermediate", side.intermediate), side.gated, side.mlp_bias)
    across: tuple[tuple[str, Part], ...] = ()
    if side.cross is not None:
        biases = (side.qkv_bias, side.qkv_bias and side.k_bias, side.qkv_bias, side.out_bias)
        across = (("cross", CrossAttention(hidden, heads, kv_heads, Axis("source_hidden", side.cross), biases)),)
    found: list[Part] = []
    for name, block in (("input", own), *across, ("mlp", feed)):
        first = Norm(f"{name}_norm", hidden, 1, side.norms)
        if side.pre_norm and not (bare and name == "input"):
            found.append(first)
        found.append(block)
        if side.post_norm or not side.pre_norm:
            # Behind a block the stream is added before the norm, or after it where one stands before the block too.
            found.append(replace(first, name=f"{name}_post_norm", added=0, after=int(not side.pre_norm)))
    return tuple(found)
