"""Every family against transformers and PyTorch themselves, on the meta device; `-m oracle` runs these."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tower_cases
from family_cases import CASES, ident, keys_of
from roofline import config as configs
from roofline.families import load_all
from test_families import GOLDEN as DENSE
from tower_cases import TOWERS

pytestmark = pytest.mark.oracle
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "families.json").read_text("utf-8"))

# Read by structure as another family, or not in transformers: no class of their own builds a text model there.
NOT_THERE = {
    *("baichuan", "chatglm", "deepseek", "internlm", "internlm2", "kimi_k2", "qwen", "step3p5", "step3p7"),
    *("glm4v_moe_text", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen3_vl_text"),
    *("qwen3_vl_moe_text", "step3p7_text", "emu3_text_model", "glm4v_text", "minimax_m1", "minimax_text_01"),
    *("mllama_text_model", "phi4_multimodal", "rwkv5", "rwkv6", "rwkv7"),
}
# Their class's defaults build no model, or leave a size open; what is changed so that they do.
FULL_SIZE: dict[str, dict[str, Any]] = {
    "dbrx": {
        "attn_config": {"kv_n_heads": 8, "rope_theta": 5e5, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        **{"d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352},
    },
    "deit": {"architectures": ["DeiTModel"]},
    "deepseek_v2": {"num_experts_per_tok": 6, "n_routed_experts": 160, "first_k_dense_replace": 1},
    "dots1": {"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6},
    "gemma4_text": {"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "global_head_dim": 512},
    "glm4_moe": {"head_dim": 128},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 16},
    "lfm2_moe": {"num_hidden_layers": 4, "layer_types": ["conv", "conv", "full_attention", "conv"]},
    "ministral": {"head_dim": 128},
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
}


FULL_TOWERS: dict[str, dict[str, Any]] = {
    "aya_vision": {"vision_config": {"model_type": "siglip_vision_model", "num_attention_heads": 16}},
    "glm4v_moe": {"text_config": {"head_dim": 128}},
}


@pytest.mark.parametrize("case", CASES, ids=[ident(*case) for case in CASES])
def test_the_golden_counts_are_those_of_today(case):
    """What the file has is what the installed transformers and PyTorch count."""
    from oracle import count

    assert count(keys_of(*case))._asdict() == GOLDEN[ident(*case)]


@pytest.mark.parametrize("golden", DENSE, ids=lambda each: f"{each.model_type} {each.changes}")
def test_dense_golden_counts_are_those_of_today(golden):
    """The same for the first families' own figures."""
    from oracle import build, parameters

    assert parameters(build({"pad_token_id": 0, **golden.config}))[0] == golden.parameters


@pytest.mark.parametrize("model_type", sorted(set(load_all()) - NOT_THERE))
def test_full_size(model_type):
    """The sizes that the family's class has by default, or with what it needs beside them: parameters are equal."""
    import transformers
    from oracle import build, parameters

    changes = FULL_SIZE.get(model_type, {})
    default = transformers.AutoConfig.for_model(model_type, **changes)
    keys = {**json.loads(default.to_json_string(use_diff=False)), **changes}
    counted = configs.read(keys, model_type, "config.json").parameters()

    total, embedding, experts = parameters(build({"model_type": model_type, **changes}))
    assert (counted.total, counted.embedding, counted.experts) == (total, embedding, experts)


def test_no_class_of_transformers_is_counted_otherwise_in_silence():
    """Each at the sizes it has by default: exact, refused with a reason, or with what is left out named."""
    from walk import walk

    from models_page import state

    found = dict(walk())
    golden = json.loads((Path(__file__).parents[1] / "golden" / "walk.json").read_text("utf-8"))

    assert [name for name, each in found.items() if state(each) == "other"] == []
    assert {name: state(each) for name, each in found.items()} == {name: state(each) for name, each in golden.items()}


@pytest.mark.parametrize("model_type", sorted(TOWERS))
def test_the_golden_towers_are_those_of_today(model_type):
    """The same for the vision towers."""
    from oracle import tower

    golden = json.loads((Path(__file__).parents[1] / "golden" / "towers.json").read_text("utf-8"))
    assert tower(tower_cases.keys_of(model_type)) == golden[model_type]


@pytest.mark.parametrize("model_type", sorted(TOWERS))
def test_full_size_towers(model_type):
    """The sizes that the larger model's class has by default, or with what it needs beside them."""
    import transformers
    from oracle import tower

    changes = FULL_TOWERS.get(model_type, {})
    keys = json.loads(transformers.AutoConfig.for_model(model_type, **changes).to_json_string(use_diff=False))
    counted = configs.read(keys, model_type, "config.json").parameters()

    assert (counted.vision or 0) + counted.vision_apart == tower({"model_type": model_type, **changes})
