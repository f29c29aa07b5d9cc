"""config.json to Model, by which keys are present; nothing that decides is filled in silently."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from roofline.errors import ConfigError, shown
from roofline.files import printable, read_text
from roofline.model import Model
from roofline.units import MIB

if TYPE_CHECKING:
    from roofline.checkpoints.tensors import Checkpoint

# One name inside, whatever the file calls it.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": (
        *("num_key_value_heads", "kv_n_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
        "num_attention_groups",
    ),
    "head_dim": ("head_dim", "kv_channels"),
    "intermediate": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "max_positions": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
    "window": ("sliding_window", "window_size", "sliding_window_size"),
    "rotary": ("partial_rotary_factor", "rotary_pct", "rope_pct"),
    "pattern": ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts"),
    "top_k": (
        *("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_top_k", "moe_topk", "moe_k"),
        *("top_k_experts", "num_selected_experts"),
    ),
    "expert_intermediate": ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size"),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "shared_intermediate": (
        *("shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim"),
        "moe_shared_expert_intermediate_size",
    ),
    "dense_layers": ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"),
    "moe_layers": ("moe_layers", "moe_layers_enum"),
    "sparse_step": ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"),
    "prediction": ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers", "mtp_num_layers"),
}

# Keys of structures that are not counted yet: better no answer than that of another model.
_UNCOUNTED = (
    (
        "linear attention, recurrent or state-space layers",
        (
            *("mamba_d_state", "mamba_expand", "state_size", "linear_attn_config", "rwkv_hidden_size"),
            *("attention_hidden_size", "lru_width", "block_types", "attn_type_list", "conv_L_cache"),
            *("linear_num_key_heads", "linear_conv_kernel_dim", "ssm_state_size", "mamba_num_heads"),
            *("hybrid_override_pattern", "conv_kernel"),
        ),
    ),
    ("cross-attention", ("add_cross_attention", "cross_attention_layers")),
    ("an encoder", ("is_encoder_decoder", "encoder_layers", "decoder_layers")),
    ("a layer of its own for each entry", ("layer_configs", "block_configs")),
    ("experts of attention", ("num_attention_experts", "moa_num_experts")),
    ("experts without weights", ("zero_expert_num",)),
    ("models that think and talk", ("thinker_config",)),
)
_TIED = "tie_word_embeddings"
_SINGLE = "per_layer_config"
# Where a larger model has its text model, and what it has beside it.
_TEXTS = ("text_config", "llm_config", "language_config")
# A nested config leaves out what is its class's default, and may leave out these too; a file of its own may not.
DECIDING = frozenset(
    {
        *("hidden", "layers", "heads", "kv_heads", "intermediate", "vocab", "experts", "top_k", "max_positions"),
        *("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "index_topk"),
    }
)

# What some files list with an entry for each layer; it counts where all entries are the same.
_BY_LAYER = frozenset(
    (
        "experts",
        "top_k",
        "expert_intermediate",
        "shared_experts",
        "shared_intermediate",
        "num_attention_heads_per_layer",
    )
)

NO_KV_HEADS = "The file names no KV heads: counted as many as attention heads"

_LARGEST = 1 << 48
_MOST_KEYS = 10_000  # that are looked through for what is not read
_STEEPEST = 1 << 16
LARGEST_FILE = 4 * MIB
LARGEST_LIST = 32 * MIB  # of hf_quant_config.json, which may have an entry for each module
EXPECTED = "a config.json, a JSON object of a few KiB with a model's keys"


# Parts of names of keys that change no size.
_HARMLESS = (
    *("token", "dropout", "drop", "init", "rope", "eps", "dtype", "cache", "version", "architectures", "auto_map"),
    *("_name", "act", "scal", "loss", "aux", "topk", "group", "label", "output_", "return_", "max_length", "quantiz"),
    *(
        "model_type",
        "norm_top",
        "score",
        "scoring",
        "hidden_act",
        "pretraining_tp",
        "ep_size",
        "tokenizer",
        "attn_impl",
    ),
    *("jitter", "z_loss", "torchscript", "pruned", "problem", "beam", "ngram", "penalty", "temperature", "sample"),
)


class Config:
    """A config.json with typed access; a missing or impossible key is one clear ConfigError.

    `source` names the file in messages. `assume` collects what the keys left open. `defaults` are those of the class
    that reads the family in transformers, `taken` the sizes that the file took from there.
    """

    def __init__(self, keys: Mapping[str, Any], source: str, *, nested: bool = False) -> None:
        self.keys = keys
        self.source = source
        self.nested = nested
        self.assumptions: list[str] = []
        self.taken: dict[str, Any] = {}
        self.asked: set[str] = set()

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """What the family's class in transformers has for a key that is absent."""
        return class_defaults().get(self.model_type, {}).get("keys", {})

    @property
    def model_type(self) -> str:
        """The family that the file names, or ""."""
        found = self.keys.get("model_type")
        return found if isinstance(found, str) else ""

    def fail(self, message: str) -> ConfigError:
        """The error to raise, with the file's name in front."""
        return ConfigError(f"{self.source}: {message}")

    def assume(self, text: str) -> None:
        """Note something that the file leaves open."""
        self.assumptions.append(text)

    def note_absent(self, name: str, text: str) -> None:
        """Assume `text` where the file does not have the key `name`."""
        if self.find(name) is None:
            self.assume(text)

    def find(self, name: str) -> tuple[str, Any] | None:
        """The key in the file that stands for `name`, and its value; null counts as absent."""
        names = ALIASES.get(name, (name,))
        self.asked.update(names)
        for key in names:
            if self.keys.get(key) is not None:
                return key, self.keys[key]
        if any(key in self.keys for key in names) or (name in DECIDING and not self.nested):
            return None
        for key in names:
            if self.defaults.get(key) is not None:
                if self.defaults[key] and not isinstance(self.defaults[key], bool):
                    self.taken[key] = self.defaults[key]
                return key, self.defaults[key]
        return None

    def count(self, name: str) -> int | None:
        """The whole number `name`; None where it is absent, zero or otherwise nothing."""
        found = self.find(name)
        return self.integer(name, "how many there are", least=0) if found is not None and found[1] else None

    def integer(self, name: str, decides: str, default: int | None = None, least: int = 1, most: int = _LARGEST) -> int:
        """The whole number `name`; raises ConfigError where it is absent without a default, or impossible."""
        found = self.find(name)
        if found is None:
            if default is not None:
                return default
            keys = " or ".join(ALIASES.get(name, (name,)))
            raise self.fail(f"the key {keys} is missing; it decides {decides}. Add it.")
        key, value = found
        value = _same(value) if name in _BY_LAYER else value
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.fail(
                f"{key} is {shown(value)}; it decides {decides}. Possible: a whole number from {least} to {most:,}."
            )
        return value

    def flag(self, name: str, default: bool) -> bool:
        """The truth value `name`, or the default; raises ConfigError for anything else."""
        found = self.find(name)
        if found is None:
            return default
        if not isinstance(found[1], bool):
            raise self.fail(f"{found[0]} is {shown(found[1])}. Possible: true or false.")
        return found[1]

    def share(self, name: str, default: float) -> float:
        """The number `name` from 0 to 1, or the default; raises ConfigError for anything else."""
        found = self.find(name)
        if found is None:
            return default
        key, value = found
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise self.fail(f"{key} is {shown(value)}. Possible: a number from 0 to 1.")
        return float(value)

    def ratio(self, name: str, default: float) -> float:
        """The number `name` above 0 and of a sane size, or the default; raises ConfigError for anything else."""
        found = self.find(name)
        if found is None:
            return default
        key, value = found
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < _STEEPEST:
            raise self.fail(f"{key} is {shown(value)}. Possible: a number above 0 and below {_STEEPEST:,}.")
        return float(value)

    def rotary_share(self, default: float) -> float:
        """The share of each head that is rotated, where any of its keys says so, or the default."""
        if self.find("rotary") is not None:
            return self.share("rotary", default)
        return self.section("rope_parameters").share("rotary", default)

    def having(self, keys: Mapping[str, Any]) -> Config:
        """The same file with these keys instead; assumptions are shared."""
        other = Config(keys, self.source, nested=self.nested)
        other.assumptions, other.taken, other.asked = self.assumptions, self.taken, self.asked
        return other

    def note_unread(self, what: str) -> None:
        """Assume `what` of the keys that say something that may be a size, and that nothing has asked for."""
        looked = islice(self.keys.items(), _MOST_KEYS)
        unread = (key for key, value in looked if value and key not in self.asked)
        sizes = list(islice((key for key in unread if not any(part in key.lower() for part in _HARMLESS)), 13))
        if sizes:
            listed = ", ".join(shown(each, 40) for each in sizes[:12]) + (", …" if len(sizes) > 12 else "")
            self.assume(f"{what}: {listed}")

    def section(self, name: str) -> Config:
        """The object under `name` (empty where it is absent), with the same file and assumptions."""
        value = self.keys.get(name)
        self.asked.add(name)
        if value is not None and not isinstance(value, Mapping):
            raise self.fail(f"{name} is {shown(value)}. Possible: an object with keys of its own.")
        return self.having(cast("Mapping[str, Any]", value or {}))


def _same(value: object) -> object:
    """The one value of a list with an entry for each layer that are all the same; anything else as it is."""
    if not isinstance(value, list):
        return value
    listed = cast("list[object]", value)
    return listed[0] if listed and all(each == listed[0] for each in listed) else listed


def read(
    keys: Mapping[str, Any],
    name: str,
    source: str,
    sources: Mapping[str, str] | None = None,
    quantization: Mapping[str, Any] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Model:
    """The Model of a config.json's keys; raises ConfigError with the key that decides.

    `name` is what to call it; `source` the file's name for messages; `sources` its provenance;
    `quantization` are the keys of an hf_quant_config.json beside it; `checkpoint` is what the headers of its weights
    say, which then decide their formats.
    """
    from roofline.besides import parts_beside
    from roofline.families import family_of, reads

    whole = Config(keys, source)
    config = _text(whole)
    reader = family_of(config)
    _refuse(config, reads(reader))
    model = reader(config)
    if config.keys.get(_SINGLE) and _SINGLE not in config.asked:
        raise config.fail(f"{_SINGLE} says keys of single layers, which is not counted for this family. Leave it out.")
    tower, beside = parts_beside(whole, config)
    uncounted = (*beside, *_further(config, model))
    _note(config)
    if model.encoder is None and not model.unit:
        model = _stored(whole, config, model, quantization, checkpoint)
    elif checkpoint is not None or quantization or whole.keys.get("quantization_config"):
        config.assume("How an encoder's weights are stored is not read: every weight counted in --weights")
    return replace(
        model,
        name=name,
        assumptions=tuple(config.assumptions),
        sources=dict(sources or {"config": source}),
        uncounted=uncounted,
        tower=tower,
    )


def says_formats(keys: Mapping[str, Any]) -> bool:
    """Whether a config.json says itself how its weights are stored."""
    inner = [keys.get(name) for name in _TEXTS]
    sections = [keys, *(cast("Mapping[str, Any]", each) for each in inner if isinstance(each, Mapping))]
    return any(each.get("quantization_config") is not None for each in sections)


def _stored(
    whole: Config, config: Config, model: Model, beside: Mapping[str, Any] | None, checkpoint: Checkpoint | None
) -> Model:
    """The model with the formats of its weights: by its headers where they were read, else as its file says."""
    if checkpoint is None:
        from roofline.storage import stored

        return stored(whole, config, model, beside)
    from roofline import headers

    found = headers.stored(checkpoint, model)
    config.assumptions += found.assumptions[len(model.assumptions) :]
    return found


def _text(config: Config) -> Config:
    """The config of the text model: a section of a larger one, or the file itself.

    Whether the embedding is tied is the larger model's to say, where it says so.
    """
    for key in _TEXTS:
        if config.keys.get(key) is not None:
            inner = dict(config.section(key).keys)
            if config.keys.get(_TIED) is not None:
                inner[_TIED] = config.keys[_TIED]
            found = Config(inner, config.source, nested=True)
            found.assumptions = config.assumptions
            config.asked.update((key, _TIED))
            return _text(found)
    return config


def _refuse(config: Config, read: frozenset[str]) -> None:
    """Raise ConfigError for a structure that is not counted yet, by a key that the family does not read."""
    for what, names in _UNCOUNTED:
        for key in names:
            value = config.keys.get(key)
            if value and key not in read:
                says = f"{key} is there, which" if isinstance(value, (Mapping, list)) else f"{key} = {shown(value, 30)}"
                raise config.fail(
                    f"{says} says {what}, which is not counted yet; counting it as another decoder would be wrong. "
                    "Possible now: decoders of attention, latent attention and experts."
                )


def _further(config: Config, model: Model) -> list[str]:
    """Notes the layers that predict further tokens, which no count has; names them where they cannot be counted."""
    layers = config.count("prediction")
    if not layers:
        return []
    kind = "layer predicts further tokens" if layers == 1 else "layers predict further tokens"
    outside = "left out of every other count and time, as transformers leaves it out"
    if not model.apart:
        config.assume(f"{layers} more {kind}: not counted, {outside}")
        return ["prediction"]
    config.assume(f"{layers} more {kind}, {model.parameters().prediction:,} parameters: {outside}")
    return []


def _note(config: Config) -> None:
    """Note what the file left to defaults."""
    if config.taken:
        taken = ", ".join(f"{key} {value}" for key, value in config.taken.items())
        source = class_defaults()[config.model_type]["source"]
        config.assume(f"Not in the file, so as in {source}: {taken}")


@cache
def class_defaults() -> Mapping[str, Any]:
    """For each family what its class in transformers has for keys that a file leaves out, and which class that is."""
    return json.loads((Path(__file__).parent / "data" / "defaults.json").read_text("utf-8"))


def load(path: Path, where: str | None = None, most: int = LARGEST_FILE) -> Mapping[str, Any]:
    """The object in a JSON file of up to `most` bytes, `where` in messages; raises ConfigError or UnknownName."""
    return parse(read_text(path, most, ConfigError, EXPECTED), where or printable(path))


def parse(text: str, name: str) -> Mapping[str, Any]:
    """The object in a JSON text, called `name` in messages; raises ConfigError."""
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name} is not valid JSON: {error}. Expected: {EXPECTED}.") from None
    except (RecursionError, ValueError):  # lists in lists in lists, a number of thousands of digits
        raise ConfigError(f"{name} is not a config.json: nested or long beyond reason. Expected: {EXPECTED}.") from None
    if not isinstance(parsed, dict):
        raise ConfigError(f"{name} holds a {type(parsed).__name__}. Expected: {EXPECTED}.")
    return cast("Mapping[str, Any]", parsed)
