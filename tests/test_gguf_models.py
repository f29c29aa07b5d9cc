"""GGUF files of each architecture: their keys and tensors give the model that its config.json would, counts by golden.

The tensors are written by their names in GGUF files; what a file says of them in its keys is written as its makers do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from family_cases import CASES, ident, keys_of
from roofline.gguf import ARCHITECTURES
from stored_files import gguf_bytes

GOLDEN = json.loads((Path(__file__).parent / "golden" / "families.json").read_text("utf-8"))
NAMES = {
    **{"attention.q_proj": "attn_q", "attention.k_proj": "attn_k", "attention.v_proj": "attn_v"},
    **{"attention.o_proj": "attn_output", "attention.q_a_proj": "attn_q_a", "attention.q_b_proj": "attn_q_b"},
    **{"attention.kv_a_proj": "attn_kv_a_mqa", "attention.kv_b_proj": "attn_kv_b", "attention.sinks": "attn_sinks"},
    **{"attention.q_norm": "attn_q_norm", "attention.k_norm": "attn_k_norm", "attention.q_a_norm": "attn_q_a_norm"},
    **{"attention.kv_a_norm": "attn_kv_a_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up"},
    **{"mlp.down_proj": "ffn_down", "moe.router": "ffn_gate_inp", "moe.shared_gate": "ffn_gate_inp_shexp"},
    **{f"moe.experts_{each}_proj": f"ffn_{each}_exps" for each in ("gate", "up", "down")},
    **{f"moe.shared_{each}_proj": f"ffn_{each}_shexp" for each in ("gate", "up", "down")},
    **{"norm.input_norm": "attn_norm", "norm.mlp_norm": "ffn_norm", "norm.attention_post_norm": "post_attention_norm"},
    **{"norm.mlp_post_norm": "post_ffw_norm"},
}
ENDS = {"embedding.embed_tokens": "token_embd", "head.lm_head": "output", "norm.final_norm": "output_norm"}
# What the keys of a config.json are in a GGUF file, behind its architecture.
KEYS = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "sliding_window": "attention.sliding_window",
    "num_experts": "expert_count",
    "num_local_experts": "expert_count",
    "n_routed_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "n_shared_experts": "expert_shared_count",
    "first_k_dense_replace": "leading_dense_block_count",
    "q_lora_rank": "attention.q_lora_rank",
    "kv_lora_rank": "attention.kv_lora_rank",
}
LATENT = "kv_lora_rank"


def named(model: rl.Model) -> Iterator[tuple[str, Any]]:
    """Every weight of a model with its name in a GGUF file; a bias of a norm with that of its scale."""
    for block in model.blocks:
        for layer in block.layers:
            for part in block.parts:
                for weight in part.weights():
                    yield f"blk.{layer}.{NAMES[f'{part.label}.{weight.name}'.removesuffix('_bias')]}", weight
    for part in (*model.before, *model.after):
        for weight in part.weights():
            yield ENDS[f"{part.label}.{weight.name}".removesuffix("_bias")], weight


def tensors(model: rl.Model) -> dict[str, tuple[int, tuple[int, ...]]]:
    """The tensors of a file of this model, in FP32."""
    found: dict[str, tuple[int, tuple[int, ...]]] = {}
    for name, weight in named(model):
        copies = () if weight.experts is None else (weight.experts.size,)
        shape = (weight.out.elements, *([weight.inp.elements] if weight.inp else []))
        found[f"{name}.{'bias' if weight.name.endswith('_bias') else 'weight'}"] = (0, (*copies, *shape))
        if weight.bias:
            found[f"{name}.bias"] = (0, (*copies, shape[0]))
    return found


def metadata(architecture: str, keys: dict[str, Any], model: rl.Model) -> dict[str, object]:
    """The keys of a file that is made of this config."""
    found: dict[str, object] = {"general.architecture": architecture}
    given = {**configured(keys), **keys}
    for name, called in KEYS.items():
        if isinstance(given.get(name), int) and not isinstance(given[name], bool) and given[name]:
            found[f"{architecture}.{called}"] = given[name]
    if architecture == "gpt-oss":
        found["gpt-oss.expert_feed_forward_length"] = given["intermediate_size"]
    heads = given["num_attention_heads"]
    head = given.get("head_dim") or given["hidden_size"] // heads
    rotated = int(head * given.get("partial_rotary_factor", 1))
    found[f"{architecture}.rope.dimension_count"] = rotated
    if LATENT in keys:
        rope, nope = given["qk_rope_head_dim"], given["qk_nope_head_dim"]
        found |= {
            f"{architecture}.attention.key_length": given[LATENT] + rope,
            f"{architecture}.attention.key_length_mla": nope + rope,
            f"{architecture}.attention.value_length": given[LATENT],
            f"{architecture}.attention.value_length_mla": given["v_head_dim"],
            f"{architecture}.attention.head_count_kv": 1,
            f"{architecture}.rope.dimension_count": rope,
        }
    return found


def configured(keys: dict[str, Any]) -> dict[str, Any]:
    """What a family's class has for keys that are not there."""
    path = Path(rl.__file__).parent / "data" / "defaults.json"
    return json.loads(path.read_text("utf-8")).get(keys["model_type"], {}).get("keys", {})


def cases() -> list[Any]:
    """Each architecture with each case of its family whose layers are all of one kind in a GGUF file."""
    families: dict[str, list[str]] = {"mixtral": ["llama"], "deepseek_v3": ["deepseek2"], "mistral": ["llama"]}
    for architecture, (family, _) in ARCHITECTURES.items():
        families.setdefault(family, []).append(architecture)
    left_out = {"mlp_only_layers", "decoder_sparse_step"}  # dense layers among those of experts
    return [
        pytest.param(architecture, keys_of(*case), ident(*case), id=f"{architecture} {ident(*case)}")
        for case in CASES
        for architecture in families.get(keys_of(*case)["model_type"], [])
        if not left_out & set(keys_of(*case)) and "qk_layernorm" not in keys_of(*case) and architecture != "apertus"
    ]


@pytest.mark.parametrize(("architecture", "keys", "name"), cases())
def test_a_file_is_the_model_of_its_config(tmp_path, architecture, keys, name):
    """The parameters that transformers counts for the config, and every byte of the file."""
    same = rl.Model.load(keys)
    written = tensors(same)
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_bytes(metadata(architecture, keys, same), written))
    model = rl.Model.load(path)

    assert model.parameters().total == GOLDEN[name]["parameters"]
    assert model.weight_bytes(rl.Precision("stored"), rl.Shard()) == 4 * sum(math.prod(s) for _, s in written.values())
    assert not any("in no header" in each or "its keys say" in each for each in model.assumptions)
