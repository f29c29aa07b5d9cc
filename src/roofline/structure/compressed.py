"""The layers of DeepSeek V4, from the keys of a config: how much each compresses, and its attention."""

from __future__ import annotations

from typing import cast

from roofline.config import Config
from roofline.errors import shown
from roofline.parts.attention import Limits
from roofline.parts.compressed import CompressedAttention, Compressor
from roofline.shard import Axis
from roofline.structure import blocks
from roofline.structure.pattern import SLIDING, Kind
from roofline.structure.traits import Traits

INDEXED, HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"
_RATIOS = {0: SLIDING, 4: INDEXED, 128: HEAVY}
_STRIDES = {kind: ratio for ratio, kind in _RATIOS.items()}


def kinds(config: Config, layers: int, traits: Traits) -> list[Kind]:
    """Every layer has experts, and the window; they differ in how many positions one entry stands for.

    `compress_ratios` says it by number, `layer_types` by name. Raises ConfigError.
    """
    window = Limits(window=config.integer("window", "how far a query sees"))
    rates = config.section("compress_rates")
    known = {
        kind: rates.integer(kind, "how many positions are one entry", stride, least=min(stride, 1))
        for kind, stride in _STRIDES.items()
    }
    return [Kind(name, window, True, True, known[name]) for name in _names(config, layers)]


def _names(config: Config, layers: int) -> list[str]:
    found = config.find("layer_types") or config.find("compress_ratios")
    if found is None:
        raise config.fail("compress_ratios is missing; it decides what each layer caches. Add it.")
    entries = cast("list[object]", found[1])[:layers] if isinstance(found[1], list) else []
    names = [_name(each) for each in entries]
    if len(names) < layers or "" in names:
        possible = ", ".join(f"{ratio} ({kind})" for ratio, kind in _RATIOS.items())
        given = shown(cast(object, found[1]), 60)
        raise config.fail(f"{found[0]} is {given}. Possible: a list of {layers} of {possible}.")
    return names


def _name(entry: object) -> str:
    """The kind that an entry says, or ""."""
    if isinstance(entry, str):
        return entry if entry in _STRIDES else ""
    return _RATIOS.get(entry, "") if isinstance(entry, int) and not isinstance(entry, bool) else ""


def attention(config: Config, hidden: Axis, kind: Kind) -> CompressedAttention:
    """The attention of one kind of layer; raises ConfigError where the groups do not divide the heads."""
    heads, _, head_dim = blocks.heads_of(config, Traits(), hidden)
    groups = config.integer("o_groups", "the groups of the output projection")
    if heads * head_dim % groups:
        raise config.fail(f"o_groups {groups} does not divide {heads} heads of {head_dim}. Correct one of them.")
    indexed = kind.name == INDEXED
    width = config.integer("index_head_dim", "the width of an indexer's head")
    return CompressedAttention(
        hidden,
        Axis("heads", heads, head_dim),
        config.integer("q_lora_rank", "the width of q's latent"),
        Axis("heads", groups, config.integer("o_lora_rank", "the width of a group's output")),
        kind.limits.window or 0,
        config.integer("qk_rope_head_dim", "the rotated part of a head"),
        Compressor("compressor", head_dim, kind.stride, 1 + indexed) if kind.stride else None,
        Compressor("indexer", width, kind.stride, 2) if indexed else None,
        config.integer("index_n_heads", "the heads of the indexer"),
        config.integer("index_topk", "how many entries a query attends to") if indexed else None,
    )
