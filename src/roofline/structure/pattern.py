"""Which layer is of which kind: what its queries see, whether they are rotated, whether it has experts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, cast

from roofline.config import Config
from roofline.errors import shown
from roofline.parts.attention import Limits
from roofline.structure.traits import Traits

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
RECURRENT = "linear_attention"
_SPARSE, _DENSE = ("sparse", "moe", "hash_moe"), ("dense",)


class Kind(NamedTuple):
    """One kind of layer: its attention's name and limits, whether q and k are rotated, whether it has experts.

    `stride`: positions that become one cached entry, 0 where none do; `shared`: K and V are an earlier layer's;
    `own`: keys that these layers have instead of the file's.
    """

    name: str
    limits: Limits
    rotated: bool
    sparse: bool
    stride: int = 0
    shared: bool = False
    own: tuple[tuple[str, int | bool], ...] = ()


def kinds(config: Config, layers: int, traits: Traits) -> list[Kind]:
    """The kind of every layer, from the first to the last; raises ConfigError for a pattern that is none."""
    names = attention_kinds(config, layers, traits)
    limits = {name: _limits(config, name) for name in dict.fromkeys(names)}
    rotated = _rotated(config, names, traits)
    sparse = with_experts(config, layers, traits)
    return [
        Kind(name, limits[name], turned, routed) for name, turned, routed in zip(names, rotated, sparse, strict=True)
    ]


# Keys that a layer may have of its own; others decide what is read before the layers are built.
_OWN = (
    *("head_dim", "num_key_value_heads", "num_attention_heads", "intermediate_size", "moe_intermediate_size"),
    *("num_experts", "num_local_experts", "n_routed_experts", "num_experts_per_tok", "attention_k_eq_v"),
)


def with_own_keys(config: Config, found: list[Kind]) -> list[Kind]:
    """The kinds with what `per_layer_config` says of single layers; raises ConfigError for what is not counted."""
    given = config.section("per_layer_config").keys
    for name, keys in given.items():
        index = int(name) if re.fullmatch(r"\d{1,6}", name) else len(found)
        if index >= len(found) or not isinstance(keys, Mapping):
            raise config.fail(
                f"per_layer_config names {shown(name, 20)}. Possible: an object for a layer from 0 to {len(found) - 1}."
            )
        own = cast("Mapping[str, object]", keys)
        for key, value in own.items():
            if key not in _OWN or not isinstance(value, int):
                raise config.fail(
                    f"per_layer_config has {shown(key, 40)} {shown(value, 40)} for layer {index}, which is not "
                    f"counted. Possible: numbers for {', '.join(_OWN)}."
                )
        found[index] = found[index]._replace(own=tuple(sorted(cast("Mapping[str, int]", keys).items())))
    return found


def _limits(config: Config, name: str) -> Limits:
    if name == SLIDING:
        return Limits(window=config.integer("window", "how far a query sees"))
    if name == CHUNKED:
        return Limits(chunk=config.integer("attention_chunk_size", "how far a query sees"))
    return Limits()


def attention_kinds(config: Config, layers: int, traits: Traits) -> list[str]:
    """The name of each layer's attention.

    `use_sliding_window: false` (or its absence, where the family's windows need it) leaves the window out whatever
    its size; `layer_types` says which layers have it, or a pattern: of every so many layers the last is full.
    Qwen2's `max_window_layers` are full before the sliding ones start.
    """
    on = config.flag("use_sliding_window", traits.windowed)
    types = config.find("layer_types")
    if types is not None:
        listed = _listed(config, types[1], layers, traits.recurrent_every is not None)
        return [FULL if each == SLIDING and not on else each for each in listed]
    if traits.recurrent_every is not None:
        every = config.integer("full_attention_interval", "which layers are no recurrent ones", traits.recurrent_every)
        return [RECURRENT if (index + 1) % every else FULL for index in range(layers)]
    unrotated = config.find("no_rope_layers")
    if config.find("attention_chunk_size") is not None:
        return [CHUNKED if each else FULL for each in _rope_layers(config, layers, unrotated)]
    if not on or config.find("window") is None:
        return [FULL] * layers
    every = _every(config, traits.every)
    if every is not None:
        return [SLIDING if every == 0 or (index + 1) % every else FULL for index in range(layers)]
    full = config.integer("max_window_layers", "how many layers see everything", 0, least=0)
    full = min(full, layers) if config.find("use_sliding_window") else 0
    return [FULL] * full + [SLIDING] * (layers - full)


def _every(config: Config, default: int | None) -> int | None:
    """Of so many layers the last sees everything; 0: none does."""
    found = config.find("pattern")
    if found is not None and isinstance(found[1], str):  # EXAONE writes it out: LLLG
        if not found[1] or set(found[1][:-1]) - {"L"} or found[1][-1] != "G":
            raise config.fail(f"{found[0]} is {shown(found[1])}, which is not counted. Possible: a number, or LLLG.")
        return len(found[1])
    if default is None and found is None:
        return None
    return config.integer("pattern", "which layers see everything", default, least=0)


def _listed(config: Config, types: object, layers: int, recurrent: bool = False) -> list[str]:
    known = (FULL, SLIDING, CHUNKED, *([RECURRENT] if recurrent else []))
    also = {"attention": FULL, "indexed_attention": FULL, "global": FULL, "local": SLIDING}
    listed = cast("list[object]", types) if isinstance(types, list) else []
    if len(listed) != layers:
        raise config.fail(f"layer_types has {len(listed)} entries. Possible: a list of {layers}, one for each layer.")
    found: list[str] = []
    for each in listed:
        name = also.get(each, each) if isinstance(each, str) else each
        if not isinstance(name, str) or name not in known:
            raise config.fail(f"layer_types names {shown(each)}, which is not counted. Possible: {', '.join(known)}.")
        found.append(name)
    return found


def _rotated(config: Config, names: list[str], traits: Traits) -> list[bool]:
    """Whether each layer rotates q and k: by its own key, or by the kind of its attention."""
    unrotated = config.find("no_rope_layers")
    if unrotated is not None or config.find("no_rope_layer_interval") is not None:
        return _rope_layers(config, len(names), unrotated)
    mixed = traits.rotary_kinds and len(set(names)) > 1
    return [not mixed or name in traits.rotary_kinds for name in names]


def _rope_layers(config: Config, layers: int, listed: tuple[str, object] | None) -> list[bool]:
    """`no_rope_layers`, which has a 1 where a layer is rotated, or all but the last of each interval."""
    if listed is not None and listed[1]:
        flags = cast("list[object]", listed[1]) if isinstance(listed[1], list) else []
        if len(flags) != layers or any(each not in (0, 1) for each in flags):
            raise config.fail(f"{listed[0]} is no list of {layers} times 0 or 1, one for each layer. Correct it.")
        return [bool(each) for each in flags]
    every = config.integer("no_rope_layer_interval", "which layers are rotated", 4)
    return [bool((index + 1) % every) for index in range(layers)]


def with_experts(config: Config, layers: int, traits: Traits) -> list[bool]:
    """Which layers have experts: those that every key which is there allows.

    Raises ConfigError where a family that has none has keys of them, or the other way round.
    """
    if config.count("experts") is None or not config.flag("is_moe", True):
        if traits.experts:
            config.integer("experts", "how many experts there are")
        return [False] * layers
    if traits.experts is False:
        key = (config.find("experts") or ("",))[0]
        raise config.fail(
            f"{key} says experts, which model_type {shown(config.model_type, 40)} has not. Correct one of them."
        )
    types = config.find("mlp_layer_types")
    if types is not None:
        return _typed(config, types[1], layers)
    named = indices(config, "moe_layers", layers)
    if named is not None:
        return [index in named for index in range(layers)]
    dense = indices(config, "mlp_only_layers", layers) or set()
    listed = config.find("moe_layer_freq")
    if listed is not None and isinstance(listed[1], list):
        flags = cast("list[object]", listed[1])
        if len(flags) != layers or any(each not in (0, 1) for each in flags):
            raise config.fail(f"moe_layer_freq is no list of {layers} times 0 or 1. Correct it.")
        return [bool(each) and index not in dense for index, each in enumerate(flags)]
    routed = _routed(config, layers, traits.dense_layers)
    return [index in routed and index not in dense for index in range(layers)]


def _routed(config: Config, layers: int, dense: int) -> set[int]:
    """The layers that have experts by the first and last one and the step between them."""
    first = config.integer("dense_layers", "the layers without experts", dense, least=0)
    last = config.integer("moe_layer_end_index", "the last layer with experts", layers - 1, least=-1)
    from_first = config.integer("moe_layer_freq", "how often a layer has experts", 1)
    step = config.integer("sparse_step", "how often a layer has experts", 1)
    between = range(first, min(last if last >= 0 else layers - 1, layers - 1) + 1)
    return {index for index in between if index % from_first == 0 and (index + 1) % step == 0}


def _typed(config: Config, types: object, layers: int) -> list[bool]:
    listed = cast("list[object]", types) if isinstance(types, list) else []
    if len(listed) != layers or any(each not in _SPARSE + _DENSE for each in listed):
        raise config.fail(
            f"mlp_layer_types is no list of {layers} entries, one for each layer. "
            f"Possible for each: {', '.join(_DENSE + _SPARSE)}."
        )
    return [each in _SPARSE for each in listed]


def indices(config: Config, key: str, layers: int, first: int = 0) -> set[int] | None:
    """The layers, from 0, that a key lists by numbers from `first`, or as text of them with commas.

    None where it is absent; raises ConfigError for anything else.
    """
    found = config.find(key)
    if found is None:
        return None
    value = found[1]
    if isinstance(value, str):
        listed: list[object] = [
            int(each) if re.fullmatch(r"\s*\d{1,6}\s*", each) else each for each in value.split(",")
        ]
    else:
        listed = cast("list[object]", value) if isinstance(value, list) else [None]
    if any(each.__class__ is not int or not first <= cast(int, each) < layers + first for each in listed):
        most = layers + first - 1
        raise config.fail(f"{found[0]} is {shown(found[1])}. Possible: a list of layers from {first} to {most}.")
    return {cast(int, each) - first for each in listed}


def listed_layers(config: Config, key: str, layers: int, first: int = 0) -> set[int]:
    """The same where the key must be there."""
    found = indices(config, key, layers, first)
    if found is None:
        raise config.fail(f"the key {key} is missing; it decides what each layer is. Add it.")
    return found
