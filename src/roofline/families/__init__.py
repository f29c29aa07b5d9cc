"""What the keys of a config.json do not decide: one small file a family, found by `model_type`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, NamedTuple

from roofline.errors import RooflineError, shown

if TYPE_CHECKING:
    from roofline.config import Config
    from roofline.model import Model
    from roofline.parts.tower import Tower

    Reader = Callable[[Config], Model]

    TowerReader = Callable[[Config, int], Tower]

FAMILIES: dict[str, Reader] = {}
TOWERS: dict[str, Towered] = {}
_READS: dict[Reader, frozenset[str]] = {}


class Towered(NamedTuple):
    """How a tower is read: its reader, and whether it is `apart` or there in files that do not mention it."""

    read: TowerReader
    apart: bool
    absent: bool


def tower(*model_types: str, apart: bool = False, absent: bool = False) -> Callable[[TowerReader], TowerReader]:
    """Register the reader of the vision tower of these larger models; a second registration is refused.

    `apart`: the causal language model of the family in transformers is the text model alone, so that the tower is in
    no count and no time unless images are asked for. `absent`: the class builds a tower where a file has none.
    """

    def register(reader: TowerReader) -> TowerReader:
        for name in model_types:
            if name in TOWERS:
                raise RooflineError(f"The vision tower of {name!r} is registered twice.")
            TOWERS[name] = Towered(reader, apart, absent)
        return reader

    return register


def family(*model_types: str, reads: Iterable[str] = ()) -> Callable[[Reader], Reader]:
    """Register the reader of these `model_type`s; a second registration is refused.

    `reads` are keys of structures that others are refused for, as recurrent layers.
    """

    def register(reader: Reader) -> Reader:
        _READS[reader] = frozenset(reads)
        for name in model_types:
            if name in FAMILIES:
                raise RooflineError(f"The model_type {name!r} is registered twice.")
            FAMILIES[name] = reader
        return reader

    return register


def reader_of(model_type: str) -> Reader | None:
    """The registered reader of a `model_type`, or None."""
    _load(model_type)
    return FAMILIES.get(model_type)


def tower_of(model_type: str) -> Towered | None:
    """How the vision tower of a larger model of this `model_type` is read, or None."""
    _load(model_type)
    return TOWERS.get(model_type)


@cache
def _load(model_type: str) -> None:
    """Import the files that write the name: one of them registers it, and the others are left alone."""
    named = f'"{model_type}"'.encode("utf-8", "replace")
    for each in iter_modules(__path__) if model_type else ():
        if named in (Path(__path__[0]) / f"{each.name}.py").read_bytes():
            import_module(f"{__name__}.{each.name}")


def reads(reader: Reader) -> frozenset[str]:
    """The keys of structures that this reader counts and others do not."""
    return _READS.get(reader, frozenset())


def load_all() -> dict[str, Reader]:
    """Every registered family, after importing each file of this folder."""
    for each in iter_modules(__path__):
        import_module(f"{__name__}.{each.name}")
    return FAMILIES


# Keys that no decoder with RMSNorm, a gated MLP and attention has: what they belong to is not guessed at.
_FOREIGN = (
    *("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "layernorm_epsilon", "norm_eps"),
    *("use_bias", "mlp_type", "type_vocab_size", "activation_function", "rotary_pct", "do_layer_norm_before"),
    *("sliding_window_pattern", "query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping"),
    *("no_rope_layers", "attn_layer_period", "cross_attention_layers", "multi_query", "attn_config", "ffn_config"),
    *("lambda_std_dev", "keep_window_size", "H_cycles", "gated_norm_rank", "index_topk_blocks", "laurel_rank"),
    *("num_kv_shared_layers", "hidden_size_per_layer_input", "compress_ratios", "hc_mult", "o_lora_rank"),
)
_SEEING_ALL = ("ForMaskedLM", "ForImageClassification", "EncoderModel")
_GATED = ("silu", "swish", "swiglu")
_SIZES = ("hidden", "layers", "heads", "vocab")


def family_of(config: Config) -> Reader:
    """The reader for a config: its family's, or for an unknown one that of its structure, and the answer says so.

    Raises ConfigError for an unknown family with a key that no relative of Llama has, or without one that
    each has.
    """
    return reader_of(config.model_type) or _by_structure


def _by_structure(config: Config) -> Model:
    """A decoder as the keys of an unknown family say, with notes of what that takes for granted."""
    from roofline.config import NO_KV_HEADS
    from roofline.parts.attention import HeadNorm
    from roofline.structure.decoder import decoder
    from roofline.structure.traits import Traits

    name = shown(config.keys.get("model_type"), 40)
    strange = _strange(config)
    if strange:
        raise config.fail(
            f"model_type {name} is not known here, and {strange} is not what a relative of Llama has, as which it "
            f"would be read. Possible: {', '.join(sorted(load_all()))}."
        )
    latent = config.count("kv_lora_rank") is not None
    routed = ", experts without biases" if config.count("experts") else ""
    config.assume(
        f"model_type {name} is not known here: read as a decoder with RMSNorm, a gated MLP{routed}, "
        f"{'latent attention' if latent else 'rotary positions'} and no biases but where a key says so"
    )
    if not latent:
        config.note_absent("kv_heads", NO_KV_HEADS)
    config.note_absent("tie_word_embeddings", "The file does not tie the embedding to lm_head: counted as two tables")
    bias = config.flag("attention_bias", False)
    normed = config.flag("use_qk_norm", False)
    head_norm = HeadNorm() if normed and not latent else None
    traits = Traits(qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias", False), head_norm=head_norm)
    model = decoder(config, replace(traits, latent=None, experts=None))
    config.note_unread("Keys that may change the counts and are not read")
    return model


def _strange(config: Config) -> str:
    """What shows that a config is no relative of Llama's, or ""."""
    from roofline.config import ALIASES

    wide = "expert_intermediate" if config.find("expert_intermediate") else "intermediate"
    for name in (*_SIZES, wide):
        if config.keys.get("model_type") is not None and config.find(name) is None:
            return f"no {ALIASES[name][0]}"
    for key in _FOREIGN:
        if config.keys.get(key) is not None:
            return key
    window = config.find("window") is not None and config.flag("use_sliding_window", True)
    if window and config.keys.get("layer_types") is None:
        return "a sliding_window without layer_types"
    named = str(config.keys.get("architectures"))
    if any(each in named for each in _SEEING_ALL):
        return f"the class {shown(named, 60)}, whose tokens see each other,"
    act = config.keys.get("hidden_act")
    return "" if act is None or act in _GATED else f"hidden_act {shown(act, 20)}"
