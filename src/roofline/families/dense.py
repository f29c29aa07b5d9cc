"""The dense decoder that all families here are relatives of, and the traits in which they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from roofline.config import Config
from roofline.errors import shown
from roofline.model import Block, Model
from roofline.parts.attention import Attention
from roofline.parts.base import Part
from roofline.parts.ends import Embedding, Head, Norm, Positions, Projection
from roofline.parts.mlp import Mlp
from roofline.shard import Axis

MOST_LAYERS = 10_000


@dataclass(frozen=True, slots=True)
class Traits:
    """What a family fixes without a key in its config.json.

    `norm_vectors`: 1 RMSNorm (scale), 2 LayerNorm (scale and bias). `learned`: rows of the position
    table beyond max_positions, None without such a table. `parallel`: attention and MLP both read the
    stream, and `shared_norm` the same normed rows. `windowed`: a `sliding_window` counts although
    `use_sliding_window` is absent.
    """

    norm_vectors: int = 1
    gated: bool = True
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    qk_norm: bool = False
    rotary: float = 1.0
    learned: int | None = None
    tied: bool = False
    parallel: bool = False
    shared_norm: bool = False
    final_norm: bool = True
    intermediate: int | None = None
    head_dim: int | None = None
    windowed: bool = True


def decoder(config: Config, traits: Traits) -> Model:
    """A decoder of identical layers with the shape of the config and the traits of its family."""
    hidden = Axis("hidden", config.integer("hidden", "the width of every matrix"))
    layers = config.integer("layers", "how many layers are counted", most=MOST_LAYERS)
    vocab = Axis("vocab", config.integer("vocab", "the embedding and the output head"), uneven="pad")
    wide = config.integer("intermediate", "the width of the MLP", traits.intermediate)
    tied = config.flag("tie_word_embeddings", traits.tied)
    positions = config.integer("max_positions", "the learned positions", 0) or None
    inner = Axis("hidden", config.integer("word_embed_proj_dim", "the width of the embedding", hidden.size))
    learned = _learned(config, traits, positions)

    before: list[Part] = [Embedding(vocab, inner, learned if inner == hidden else 0)]
    after: list[Part] = []
    if traits.final_norm:
        after.append(Norm("final_norm", hidden, 1 + traits.parallel, traits.norm_vectors))
    if inner != hidden:
        before.append(Projection("project_in", hidden, inner))
        before += [Positions(learned, hidden)] if learned else []
        after.append(Projection("project_out", inner, hidden))
    after.append(Head(vocab, inner, tied, traits.head_bias))

    mlp = Mlp(hidden, Axis("intermediate", wide), traits.gated, traits.mlp_bias)
    seen = windows(config, layers, traits.windowed)
    blocks = tuple(
        Block(
            _layer(hidden, attention(config, traits, hidden, window), mlp, traits),
            tuple(index for index, each in enumerate(seen) if each == window),
        )
        for window in dict.fromkeys(seen)
    )
    return Model("", tuple(before), blocks, tuple(after), positions)


def _layer(hidden: Axis, mixer: Attention, mlp: Mlp, traits: Traits) -> tuple[Part, ...]:
    """One layer: norm, attention, norm, MLP; or both beside each other."""
    first = Norm("input_norm", hidden, 1 + traits.parallel, traits.norm_vectors)
    between = Norm("mlp_norm", hidden, 0 if traits.parallel else 1, traits.norm_vectors)
    return (first, mixer, mlp) if traits.shared_norm else (first, mixer, between, mlp)


def attention(config: Config, traits: Traits, hidden: Axis, window: int | None) -> Attention:
    """The attention of the config's heads; raises ConfigError where the head counts contradict."""
    heads = config.integer("heads", "the attention heads")
    kv_heads = config.integer("kv_heads", "the KV heads", heads)
    if heads % kv_heads:
        raise config.fail(f"{heads} attention heads are not divisible by {kv_heads} KV heads. Correct one of them.")
    if config.find("head_dim") is None and traits.head_dim is None and hidden.size % heads:
        raise config.fail(
            f"hidden size {hidden.size} is not divisible by {heads} attention heads and there is no head_dim, "
            "which would decide the width of a head. Add it or correct one of them."
        )
    head_dim = config.integer("head_dim", "the width of a head", traits.head_dim or hidden.size // heads)
    return Attention(
        hidden,
        Axis("heads", heads, head_dim),
        Axis("kv_heads", kv_heads, head_dim, uneven="replicate"),
        rotary_dim=int(head_dim * traits.rotary),
        qkv_bias=traits.qkv_bias,
        out_bias=traits.out_bias,
        qk_norm=traits.qk_norm,
        window=window,
    )


def _learned(config: Config, traits: Traits, positions: int | None) -> int:
    """Rows of the table of learned positions; raises ConfigError where their number is missing."""
    if traits.learned is None:
        return 0
    if positions is None:
        config.integer("max_positions", "the rows of the learned positions")
    return (positions or 0) + traits.learned


def windows(config: Config, layers: int, default: bool = True) -> list[int | None]:
    """The window of each layer's attention: None where it is full, else its tokens.

    `use_sliding_window: false` (or its absence, where `default` is False) leaves the window out whatever
    its size; `layer_types` says which layers have it; Qwen2's `max_window_layers` are full before the
    sliding ones start.
    """
    types = config.keys.get("layer_types")
    named = isinstance(types, list) and "sliding_attention" in cast("list[object]", types)
    on = config.flag("use_sliding_window", default) and (named or config.find("window") is not None)
    window = config.integer("window", "how far a query sees") if on else None
    if types is not None:
        return _by_type(config, cast(object, types), layers, window)
    if window is None:
        return [None] * layers
    full = config.integer("max_window_layers", "how many layers see everything", 0, least=0)
    full = min(full, layers) if config.find("use_sliding_window") else 0
    return [None] * full + [window] * (layers - full)


def _by_type(config: Config, types: object, layers: int, window: int | None) -> list[int | None]:
    known = {"full_attention": None, "sliding_attention": window}
    listed = cast("list[object]", types) if isinstance(types, list) else []
    if len(listed) != layers:
        raise config.fail(f"layer_types has {len(listed)} entries. Possible: a list of {layers}, one for each layer.")
    found: list[int | None] = []
    for each in listed:
        if not isinstance(each, str) or each not in known:
            raise config.fail(f"layer_types names {shown(each)}, which is not counted. Possible: {', '.join(known)}.")
        found.append(known[each])
    return found
