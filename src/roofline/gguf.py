"""The keys of a config.json as the metadata of a GGUF file has them, by architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from roofline import config as configs
from roofline.checkpoints.gguf import Counted
from roofline.checkpoints.tensors import Checkpoint
from roofline.errors import ConfigError, shown
from roofline.headers import elements
from roofline.model import Model

# Keys of a GGUF file behind its architecture, and what a config.json calls them.
_KEYS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "leading_dense_block_count": "first_k_dense_replace",
    "nextn_predict_layers": "num_nextn_predict_layers",
}
_EXPERTS = ("ffn_gate_exps", "ffn_up_exps", "ffn_gate_up_exps")


@dataclass(frozen=True, slots=True)
class _File:
    """A GGUF file: its architecture, its metadata, and the lengths of its tensors by their names."""

    architecture: str
    checkpoint: Checkpoint
    shapes: Mapping[str, tuple[int, ...]]

    def get(self, key: str) -> Any:
        """What the metadata says under a key of the architecture, None where it is absent or no more than counted."""
        found = self.checkpoint.metadata.get(f"{self.architecture}.{key}")
        return None if isinstance(found, Counted) else found

    def has(self, name: str) -> bool:
        """Whether a layer has a tensor of this name; of the first layers some may differ from the rest."""
        return any(f"blk.{layer}.{name}" in self.shapes for layer in (0, self.last // 2, self.last))

    @property
    def last(self) -> int:
        """The last layer."""
        count = self.get("block_count")
        return max(count - 1, 0) if isinstance(count, int) else 0


_Keys = dict[str, Any]
_Change = Callable[[_File, _Keys], None]


def _nothing(file: _File, keys: _Keys) -> None:
    """The keys as they are."""


def _experts_alone(file: _File, keys: _Keys) -> None:
    """Every layer's feed-forward is of experts, whose width is the one that a config calls intermediate."""
    keys["intermediate_size"] = keys.pop("moe_intermediate_size", keys.get("intermediate_size"))
    keys["num_local_experts"] = keys.pop("num_experts", None)


def _llama(file: _File, keys: _Keys) -> None:
    """Llama, Mistral, Mixtral: one architecture, told apart by whether there are experts."""
    if keys.get("num_experts"):
        keys["model_type"] = "mixtral"
        _experts_alone(file, keys)
    _bias(file, keys)


def _bias(file: _File, keys: _Keys) -> None:
    """Which matrices have a bias: the file has them, or has them not."""
    keys["attention_bias"] = file.has("attn_q.bias") or file.has("attn_qkv.bias")
    keys["use_bias"] = keys["use_qkv_bias"] = keys["attention_bias"]
    keys["attention_out_bias"] = file.has("attn_output.bias")
    keys["mlp_bias"] = file.has("ffn_down.bias")
    keys["lm_head_bias"] = "output.bias" in file.shapes


def _relative(file: _File, keys: _Keys) -> None:
    """An architecture that is not known, as a relative of Llama's."""
    keys["attention_bias"] = file.has("attn_q.bias")
    keys["mlp_bias"] = file.has("ffn_down.bias")
    keys["use_qk_norm"] = file.has("attn_q_norm.weight")


def _phimoe(file: _File, keys: _Keys) -> None:
    _bias(file, keys)
    _experts_alone(file, keys)


def _rotary(file: _File, keys: _Keys) -> None:
    """The share of a head that is rotated."""
    width, heads = file.get("rope.dimension_count"), keys.get("num_attention_heads")
    dim = keys.get("head_dim") or (keys.get("hidden_size", 0) // heads if isinstance(heads, int) and heads else 0)
    if isinstance(width, int) and dim:
        keys["partial_rotary_factor"] = width / dim
    _bias(file, keys)
    keys["qk_layernorm"] = file.has("attn_q_norm.weight")
    keys["use_parallel_residual"] = not file.has("ffn_norm.weight")


def _cohere(file: _File, keys: _Keys) -> None:
    _bias(file, keys)
    keys["use_qk_norm"] = file.has("attn_q_norm.weight")


def _deepseek(file: _File, keys: _Keys) -> None:
    """Latent attention, whose lengths the file has in two ways: of heads, or of what is cached."""
    rope = file.get("rope.dimension_count")
    head = file.get("attention.key_length_mla") or file.get("attention.key_length")
    keys["q_lora_rank"] = file.get("attention.q_lora_rank")
    keys["kv_lora_rank"] = file.get("attention.kv_lora_rank")
    keys["qk_rope_head_dim"] = rope
    if isinstance(head, int) and isinstance(rope, int):
        keys["qk_nope_head_dim"] = head - rope
    keys["v_head_dim"] = file.get("attention.value_length_mla") or file.get("attention.value_length")
    keys["num_key_value_heads"] = keys.get("num_attention_heads")
    keys["n_routed_experts"] = keys.pop("num_experts", None)
    keys.pop("head_dim", None)
    keys["attention_bias"] = file.has("attn_q_a.bias") or file.has("attn_kv_a_mqa.bias")
    if file.has("exp_probs_b.bias"):
        keys["model_type"] = "deepseek_v3"


def _glm_moe(file: _File, keys: _Keys) -> None:
    keys["n_routed_experts"] = keys.pop("num_experts", None)
    keys["use_qk_norm"] = file.has("attn_q_norm.weight")
    _rotary(file, keys)


def _after_prediction(file: _File, keys: _Keys) -> None:
    """Layers that predict further tokens are blocks of the file, and no layers of the config."""
    further = keys.get("num_nextn_predict_layers")
    if isinstance(further, int) and isinstance(keys.get("num_hidden_layers"), int):
        keys["num_hidden_layers"] -= further


# Architectures whose files say enough, the family that reads them, and what its config calls otherwise.
ARCHITECTURES: Mapping[str, tuple[str, _Change]] = {
    "llama": ("llama", _llama),
    "arcee": ("arcee", _bias),
    "apertus": ("apertus", _bias),
    "cohere2": ("cohere2", _cohere),
    "command-r": ("cohere", _cohere),
    "deepseek2": ("deepseek_v2", _deepseek),
    "dots1": ("dots1", _glm_moe),
    "ernie4_5": ("ernie4_5", _bias),
    "exaone4": ("exaone4", _nothing),
    "gemma": ("gemma", _nothing),
    "gemma2": ("gemma2", _nothing),
    "gemma3": ("gemma3_text", _nothing),
    "glm4": ("glm4", _rotary),
    "glm4moe": ("glm4_moe", _glm_moe),
    "gpt-oss": ("gpt_oss", _experts_alone),
    "granite": ("granite", _llama),
    "granitemoe": ("granitemoe", _experts_alone),
    "hunyuan-dense": ("hunyuan_v1_dense", _bias),
    "internlm2": ("llama", _llama),
    "minimax-m2": ("minimax_m2", _experts_alone),
    "mistral3": ("mistral", _nothing),
    "nemotron": ("nemotron", _rotary),
    "olmo": ("olmo", _nothing),
    "olmo2": ("olmo2", _nothing),
    "olmoe": ("olmoe", _experts_alone),
    "phi2": ("phi", _rotary),
    "phi3": ("phi3", _rotary),
    "phimoe": ("phimoe", _phimoe),
    "qwen2": ("qwen2", _nothing),
    "qwen2moe": ("qwen2_moe", _nothing),
    "qwen2vl": ("qwen2", _nothing),
    "qwen3": ("qwen3", _bias),
    "qwen3moe": ("qwen3_moe", _bias),
    "qwen3vl": ("qwen3", _bias),
    "qwen3vlmoe": ("qwen3_moe", _bias),
    "seed_oss": ("seed_oss", _bias),
    "smollm3": ("smollm3", _llama),
    "stablelm": ("stablelm", _rotary),
    "starcoder2": ("starcoder2", _bias),
}


def model(checkpoint: Checkpoint, name: str) -> Model:
    """The model of a GGUF file, each weight as it is stored; raises ConfigError where the file does not say enough.

    Of an architecture that is not known here, and of one whose keys say more or less parameters than its tensors hold,
    that is said; an unknown one is refused where they differ.
    """
    file = _file(checkpoint)
    keys = _keys(file)
    known = file.architecture in ARCHITECTURES
    try:
        found = configs.read(
            keys, name, checkpoint.source, {"config": f"the metadata of {checkpoint.source}"}, checkpoint=checkpoint
        )
    except ConfigError as error:
        raise _unknown(file, str(error)) if not known else error from None
    held, counted = elements(checkpoint), found.parameters().text
    if held == counted:
        return found
    differ = f"its keys say {counted:,} parameters, and its tensors hold {held:,}"
    if not known:
        raise _unknown(file, f"{differ}.")
    note = f"{checkpoint.source}: {differ}: {counted - held:+,}"
    return replace(found, assumptions=(note, *found.assumptions))


def _unknown(file: _File, why: str) -> ConfigError:
    reason = why.removeprefix(f"{file.checkpoint.source}: ").partition(" Possible:")[0]
    return ConfigError(
        f"{file.checkpoint.source}: the architecture {shown(file.architecture)} is not known here, and as a relative "
        f"of Llama it cannot be read: {reason} Name its config.json."
    )


def _file(checkpoint: Checkpoint) -> _File:
    architecture = checkpoint.metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise ConfigError(
            f"{checkpoint.source}: general.architecture is {shown(architecture)}; it decides how the file is read. "
            "Name a model's first file, or its config.json."
        )
    return _File(architecture, checkpoint, {each.name: each.shape for each in checkpoint.tensors})


def _keys(file: _File) -> _Keys:
    """The keys of a config.json that this file stands for."""
    table = file.shapes.get("token_embd.weight")
    if table is None or len(table) != 2:
        raise ConfigError(
            f"{file.checkpoint.source}: it has no table of tokens (token_embd.weight), so it is no language model. "
            "Name one, or its config.json."
        )
    family, change = ARCHITECTURES.get(file.architecture, (file.architecture, _relative))
    keys: _Keys = {"model_type": family, "vocab_size": table[0]}
    for key, ours in _KEYS.items():
        value = file.get(key)
        if value is not None and value != 0:
            keys[ours] = _one(file, key, value)
    keys["tie_word_embeddings"] = "output.weight" not in file.shapes
    _after_prediction(file, keys)
    if not any(file.has(f"{name}.weight") for name in _EXPERTS):
        for key in ("num_experts", "num_experts_per_tok"):
            keys.pop(key, None)
    change(file, keys)
    return keys


def _one(file: _File, key: str, value: Any) -> Any:
    """The one number of a list with an entry for each layer; raises ConfigError where they differ."""
    if not isinstance(value, list):
        return value
    listed = cast("list[Any]", value)
    if not listed or any(each != listed[0] for each in listed):
        raise ConfigError(
            f"{file.checkpoint.source}: {file.architecture}.{key} is {shown(listed)}, another for some layers than for "
            "others, which is not read yet. Name its config.json."
        )
    return listed[0]
