"""config.json to Model, by which keys are present; nothing that decides is filled in silently."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from roofline.errors import ConfigError, shown
from roofline.files import printable, read_text
from roofline.model import Model
from roofline.units import MIB

# One name inside, whatever the file calls it.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "kv_n_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "head_dim": ("head_dim",),
    "intermediate": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocab": ("vocab_size",),
    "max_positions": ("max_position_embeddings", "n_positions", "max_seq_len"),
    "window": ("sliding_window",),
    "rotary": ("partial_rotary_factor", "rotary_pct"),
}

# Keys of structures that are not counted yet: better no answer than that of another model.
_UNCOUNTED = (
    ("mixture of experts", ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")),
    ("latent attention", ("kv_lora_rank", "q_lora_rank")),
    (
        "linear attention, recurrent or state-space layers",
        (
            "linear_num_key_heads",
            "ssm_state_size",
            "mamba_d_state",
            "mamba_num_heads",
            "hybrid_override_pattern",
            "state_size",
            "linear_attn_config",
            "rwkv_hidden_size",
            "attention_hidden_size",
            "conv_kernel",
            "lru_width",
            "block_types",
        ),
    ),
    ("a text model inside a larger one", ("text_config", "llm_config", "language_config", "thinker_config")),
    ("cross-attention", ("add_cross_attention",)),
    ("multi-query attention by a flag", ("multi_query",)),
    ("an encoder", ("is_encoder_decoder", "encoder_layers", "decoder_layers", "vision_config", "audio_config")),
    ("more than one norm or cache a layer", ("num_kv_shared_layers", "hidden_size_per_layer_input", "layer_configs")),
)

NO_KV_HEADS = "The file names no KV heads: counted as many as attention heads"

_LARGEST = 1 << 48
LARGEST_FILE = 4 * MIB
EXPECTED = "a config.json, a JSON object of a few KiB with a model's keys"


class Config:
    """A config.json with typed access; a missing or impossible key is one clear ConfigError.

    `source` names the file in messages. `assume` collects what the keys left open.
    """

    def __init__(self, keys: Mapping[str, Any], source: str) -> None:
        self.keys = keys
        self.source = source
        self.assumptions: list[str] = []

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
        for key in ALIASES.get(name, (name,)):
            if self.keys.get(key) is not None:
                return key, self.keys[key]
        return None

    def integer(self, name: str, decides: str, default: int | None = None, least: int = 1, most: int = _LARGEST) -> int:
        """The whole number `name`; raises ConfigError where it is absent without a default, or impossible."""
        found = self.find(name)
        if found is None:
            if default is not None:
                return default
            keys = " or ".join(ALIASES.get(name, (name,)))
            raise self.fail(f"the key {keys} is missing; it decides {decides}. Add it.")
        key, value = found
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

    def rotary_share(self, default: float) -> float:
        """The share of each head that is rotated, where any of its keys says so, or the default."""
        if self.find("rotary") is not None:
            return self.share("rotary", default)
        return self.section("rope_parameters").share("rotary", default)

    def having(self, keys: Mapping[str, Any]) -> Config:
        """The same file with these keys instead; assumptions are shared."""
        other = Config(keys, self.source)
        other.assumptions = self.assumptions
        return other

    def section(self, name: str) -> Config:
        """The object under `name` (empty where it is absent), with the same file and assumptions."""
        value = self.keys.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise self.fail(f"{name} is {shown(value)}. Possible: an object with keys of its own.")
        return self.having(cast("Mapping[str, Any]", value or {}))


def read(keys: Mapping[str, Any], name: str, source: str, sources: Mapping[str, str] | None = None) -> Model:
    """The Model of a config.json's keys; raises ConfigError with the key that decides.

    `name` is what to call it; `source` the file's name for messages; `sources` its provenance.
    """
    from roofline.families import family_of

    config = Config(keys, source)
    _refuse(config)
    model = family_of(config)(config)
    if config.keys.get("quantization_config") is not None:
        method = shown(config.section("quantization_config").keys.get("quant_method"), 30)
        config.assume(f"The file says its weights are quantised ({method}): counted as --weights says all the same")
    return replace(model, name=name, assumptions=tuple(config.assumptions), sources=dict(sources or {"config": source}))


def _refuse(config: Config) -> None:
    """Raise ConfigError for a structure that is not counted yet, by the key that says so."""
    for what, names in _UNCOUNTED:
        for key in names:
            value = config.keys.get(key)
            if value:
                says = f"{key} is there, which" if isinstance(value, (Mapping, list)) else f"{key} = {shown(value, 30)}"
                raise config.fail(
                    f"{says} says {what}, which is not counted yet; "
                    "counting it as a dense decoder would be wrong. Possible now: dense decoders."
                )


def load(path: Path, where: str | None = None) -> Mapping[str, Any]:
    """The object in a JSON file, called `where` in messages; raises ConfigError or UnknownName."""
    name = where or printable(path)
    text = read_text(path, LARGEST_FILE, ConfigError, EXPECTED)
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name} is not valid JSON: {error}. Expected: {EXPECTED}.") from None
    except (RecursionError, ValueError):  # lists in lists in lists, a number of thousands of digits
        raise ConfigError(f"{name} is not a config.json: nested or long beyond reason. Expected: {EXPECTED}.") from None
    if not isinstance(parsed, dict):
        raise ConfigError(f"{name} holds a {type(parsed).__name__}. Expected: {EXPECTED}.")
    return cast("Mapping[str, Any]", parsed)
