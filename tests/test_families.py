"""Every family against transformers: exact parameters and matrix-product FLOPs of tiny models.

The figures are from transformers 5.24: `AutoModelForCausalLM.from_config` on the meta device, parameters summed
with tied ones once, and the FLOPs of its mm and addmm calls over a forward pass of 2 sequences of 7 tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

import roofline as rl
from family_cases import CASES, keys_of
from roofline import config as configs
from roofline.errors import ConfigError, RooflineError
from roofline.families import FAMILIES, family, load_all

LLAMA = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 50,
    "max_position_embeddings": 32,
}
NEOX = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vocab_size": 50,
    "max_position_embeddings": 32,
}
GPT2 = {"n_embd": 24, "n_layer": 3, "n_head": 4, "vocab_size": 50, "n_positions": 32}
OPT = {
    "hidden_size": 24,
    "ffn_dim": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vocab_size": 50,
    "max_position_embeddings": 32,
}
MPT = {"expansion_ratio": 4, "d_model": 24, "n_layers": 3, "n_heads": 4, "vocab_size": 50, "max_seq_len": 32}
SHAPES = {"gpt2": GPT2, "gpt_neox": NEOX, "opt": OPT, "mpt": MPT}
SEQUENCES, NEW = 2, 7


class Golden(NamedTuple):
    model_type: str
    changes: dict[str, Any]
    parameters: int
    flops: int

    @property
    def config(self) -> dict[str, Any]:
        return {"model_type": self.model_type, **SHAPES.get(self.model_type, LLAMA), **self.changes}

    @property
    def model(self) -> rl.Model:
        return configs.read(self.config, "tiny", "config.json")


GOLDEN = [
    Golden("llama", {}, 15_816, 404_544),
    Golden("llama", {"tie_word_embeddings": True}, 14_616, 404_544),
    Golden("llama", {"attention_bias": True}, 16_008, 404_544),
    Golden("llama", {"mlp_bias": True}, 16_128, 404_544),
    Golden(
        "llama",
        {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1, "head_dim": 10},
        21_912,
        557_760,
    ),
    Golden("mistral", {"sliding_window": 8}, 15_816, 404_544),
    Golden("mistral", {"sliding_window": None, "head_dim": 10, "tie_word_embeddings": True}, 21_528, 598_080),
    Golden("qwen2", {}, 15_936, 404_544),
    Golden(
        "qwen2",
        {"tie_word_embeddings": True, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
        14_736,
        404_544,
    ),
    Golden("qwen3", {"head_dim": 10}, 22_788, 598_080),
    Golden("qwen3", {"head_dim": 4, "attention_bias": True, "tie_word_embeddings": True}, 14_832, 404_544),
    Golden("gemma", {"head_dim": 10}, 21_528, 598_080),
    Golden("gemma", {"head_dim": 10, "attention_bias": True, "num_key_value_heads": 1}, 20_400, 557_760),
    Golden("gemma", {"head_dim": 4, "tie_word_embeddings": False}, 15_816, 404_544),
    Golden("phi", {}, 13_394, 323_904),
    Golden("phi", {"num_key_value_heads": 6}, 15_794, 388_416),
    Golden("phi", {"tie_word_embeddings": True}, 12_194, 323_904),
    Golden("phi3", {"sliding_window": 8}, 15_816, 404_544),
    Golden("phi3", {"tie_word_embeddings": True}, 14_616, 404_544),
    Golden("gpt2", {}, 23_688, 614_208),
    Golden("gpt2", {"n_inner": 40}, 15_456, 388_416),
    Golden("gpt2", {"n_inner": None, "tie_word_embeddings": False}, 24_888, 614_208),
    Golden("gpt_neox", {}, 15_888, 388_416),
    Golden("gpt_neox", {"use_parallel_residual": False}, 15_888, 388_416),
    Golden("gpt_neox", {"attention_bias": False}, 15_600, 388_416),
    Golden("gpt_neox", {"tie_word_embeddings": True}, 14_688, 388_416),
    Golden("opt", {}, 15_504, 388_416),
    Golden("opt", {"word_embed_proj_dim": 16, "do_layer_norm_before": False}, 15_824, 398_720),
    Golden("opt", {"word_embed_proj_dim": 16, "tie_word_embeddings": False}, 16_672, 398_720),
    Golden("opt", {"do_layer_norm_before": False}, 15_456, 388_416),
    Golden("opt", {"enable_bias": False}, 15_024, 388_416),
    Golden("opt", {"layer_norm_elementwise_affine": False}, 15_168, 388_416),
    Golden("opt", {"_remove_final_layer_norm": True}, 15_456, 388_416),
    Golden(
        "opt",
        {"enable_bias": False, "layer_norm_elementwise_affine": False, "tie_word_embeddings": False},
        15_888,
        388_416,
    ),
    Golden("mpt", {}, 22_104, 614_208),
    Golden("mpt", {"tie_word_embeddings": False}, 23_304, 614_208),
]


def cases() -> list[Any]:
    return [
        pytest.param(each, id=f"{each.model_type} {', '.join(f'{k}={v}' for k, v in each.changes.items())}".strip())
        for each in GOLDEN
    ]


def test_every_registered_family_has_a_golden_count():
    """A new family comes with a count from elsewhere: here, in golden/families.json, or a published one below."""
    counted = {each.model_type for each in GOLDEN} | {model_type for model_type, _ in CASES}
    published = {each["model_type"] for each, _ in PUBLISHED}

    assert set(load_all()) == counted | published | set(SAME)


# Other names of a family's text model, which the file of a larger model has, and what it is read as.
SAME = {
    "glm4v_moe_text": "glm4_moe",
    "glm4v_text": "glm4",
    "emu3_text_model": "llama",
    "internlm": "internlm2",
    "minimax_m1": "minimax",
    "minimax_text_01": "minimax",
    "kimi_k2": "deepseek_v3",
    "phi4_multimodal": "phi3",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_vl_text": "qwen3",
    "step3p5": "step3p7",
    "step3p7_text": "step3p7",
}
# Families whose code is not in transformers: parameters of the published checkpoints.
PUBLISHED: list[tuple[dict[str, Any], int]] = [
    (  # internlm/internlm2-7b
        {
            **{"model_type": "internlm2", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32},
            **{"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 92544, "bias": False},
        },
        7_737_708_544,
    ),
    (  # baichuan-inc/Baichuan2-7B-Base
        {
            **{"model_type": "baichuan", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32},
            **{"num_attention_heads": 32, "vocab_size": 125696, "max_position_embeddings": 4096},
        },
        7_505_973_248,
    ),
    (  # baichuan-inc/Baichuan2-13B-Base
        {
            **{"model_type": "baichuan", "hidden_size": 5120, "intermediate_size": 13696, "num_hidden_layers": 40},
            **{"num_attention_heads": 40, "vocab_size": 125696, "model_max_length": 4096},
        },
        13_896_668_160,
    ),
    (  # Qwen/Qwen-7B
        {
            **{"model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32},
            **{"num_attention_heads": 32, "vocab_size": 151936, "tie_word_embeddings": False},
        },
        7_721_324_544,
    ),
    (  # THUDM/chatglm3-6b
        {
            **{"model_type": "chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 28},
            **{"num_attention_heads": 32, "multi_query_attention": True, "multi_query_group_num": 2},
            **{"padded_vocab_size": 65024, "kv_channels": 128, "add_qkv_bias": True, "add_bias_linear": False},
        },
        6_243_584_000,
    ),
    (  # deepseek-ai/deepseek-moe-16b-base
        {
            **{"model_type": "deepseek", "hidden_size": 2048, "intermediate_size": 10944, "num_hidden_layers": 28},
            **{"moe_intermediate_size": 1408, "num_attention_heads": 16, "num_key_value_heads": 16},
            **{"n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_layer_freq": 1},
            **{"first_k_dense_replace": 1, "vocab_size": 102400, "tie_word_embeddings": False},
        },
        16_375_728_128,
    ),
    (  # databricks/dbrx-base
        {
            **{"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352},
            "attn_config": {"kv_n_heads": 8, "clip_qkv": 8, "rope_theta": 500000},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        },
        131_596_523_520,
    ),
    (  # the text model of meta-llama/Llama-3.2-11B-Vision, as transformers' MllamaForCausalLM has it
        {
            **{
                "model_type": "mllama_text_model",
                "hidden_size": 4096,
                "intermediate_size": 14336,
                "vocab_size": 128256,
            },
            **{"num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8},
            "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38],
        },
        9_775_192_080,
    ),
    (  # MiniMaxAI/MiniMax-Text-01
        {
            **{"model_type": "minimax_text_01", "hidden_size": 6144, "num_hidden_layers": 80, "head_dim": 128},
            **{"num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 9216, "vocab_size": 200064},
            **{"num_local_experts": 32, "num_experts_per_tok": 2, "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 10},
        },
        456_089_655_296,
    ),
    (  # moonshotai/Kimi-Linear-48B-A3B-Instruct, without the 256 numbers that shift the choice in 26 layers
        {
            **{"model_type": "kimi_linear", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 27},
            **{"moe_intermediate_size": 1024, "num_attention_heads": 32, "num_key_value_heads": 32},
            **{"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128},
            **{"num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1, "first_k_dense_replace": 1},
            **{"moe_layer_freq": 1, "vocab_size": 163840, "tie_word_embeddings": False},
            "linear_attn_config": {
                **{"full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128, "num_heads": 32},
                "short_conv_kernel_size": 4,
            },
        },
        49_122_681_728 - 26 * 256,
    ),
    (  # RWKV 5 World 1.5B: 13 D²L + 14 DL + 4 D + 2 DV
        {"model_type": "rwkv5", "hidden_size": 2048, "num_hidden_layers": 24, "vocab_size": 65536},
        1_577_754_624,
    ),
    (  # RWKV 6 World 1.6B: 13 D²L + 464 DL + 4 D + 2 DV (Peng et al. 2024)
        {"model_type": "rwkv6", "hidden_size": 2048, "num_hidden_layers": 24, "vocab_size": 65536},
        1_599_873_024,
    ),
    (  # RWKV 6 World 7B, whose ranks are twice as wide
        {"model_type": "rwkv6", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 65536},
        7_635_746_816,
    ),
    (  # RWKV 7 World 1.5B
        {
            **{"model_type": "rwkv7", "hidden_size": 2048, "num_hidden_layers": 24, "vocab_size": 65536},
            **{"decay_low_rank_dim": 96, "a_low_rank_dim": 96, "v_low_rank_dim": 64, "gate_low_rank_dim": 256},
        },
        1_527_404_544,
    ),
    (  # the text model of stepfun-ai/Step-3.5-Flash's kin by hand: two layers, one of them with experts
        {
            **{"model_type": "step3p7", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2},
            **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 100},
            **{"moe_intermediate_size": 8, "num_experts": 6, "num_experts_per_tok": 2, "share_expert_dim": 8},
            **{"first_k_dense_replace": 1, "sliding_window": 4, "layer_types": ["full_attention", "sliding_attention"]},
        },
        2 * (64 * (4 + 2 + 2 + 4) * 16 + 2 * 16 + 64 * 4 + 2 * 64) + 3 * 64 * 96 + 6 * 64 + 7 * 3 * 64 * 8 + 201 * 64,
    ),
]


@pytest.mark.parametrize(("keys", "parameters"), PUBLISHED, ids=lambda each: each["model_type"] if each is dict else "")
def test_published_parameters(keys, parameters):
    """The checkpoints' own totals, of the text model where the class adds a tower to a file without one."""
    assert configs.read(keys, "published", "config.json").parameters().text == parameters


@pytest.mark.parametrize("name", SAME)
def test_another_name_is_the_same_family(name):
    """The text model of a larger model has the counts of the family alone."""
    keys = {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
    keys |= {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 4}
    deep, routed = (
        SAME[name].startswith("deepseek"),
        SAME[name] not in ("qwen2", "qwen3", "internlm2", "llama", "phi3", "glm4"),
    )
    used = {
        key: value
        for key, value in keys.items()
        if key == "head_dim" or ("expert" in key or "moe" in key) * routed or ("lora" in key or "_head_" in key) * deep
    }
    both = {**LLAMA, **used, "tie_word_embeddings": False, "attention_bias": False}
    first, second = (configs.read({**both, "model_type": kind}, "tiny", "config.json") for kind in (name, SAME[name]))

    # What a larger model's class adds is beside its text model.
    first, second = (replace(each, tower=None) for each in (first, second))
    assert first.parameters() == second.parameters()


@pytest.mark.parametrize("golden", cases())
def test_parameters_are_those_of_transformers(golden):
    """Exactly, with every bias, norm and position."""
    assert golden.model.parameters().total == golden.parameters


@pytest.mark.parametrize("golden", cases())
def test_matrix_products_are_those_of_transformers(golden):
    """FLOPs of every weight GEMM over 14 tokens with logits of all."""
    workload = rl.Workload.prefill(SEQUENCES, NEW, logits="all")
    ledger = rl.predict(golden.model, rl.Device.load("h100-sxm"), workload)

    assert sum(point.count * point.work.flops for point in ledger if point.work.op == "linear") == golden.flops


@pytest.mark.parametrize("golden", cases())
def test_stored_bytes_are_two_a_parameter(golden):
    """In BF16 on one rank nothing is stored but the parameters."""
    assert golden.model.weight_bytes(rl.Precision(), rl.Shard()) == 2 * golden.model.parameters().total


@pytest.mark.parametrize("golden", cases())
def test_a_known_family_assumes_nothing(golden):
    """Its keys and its traits decide everything."""
    assert golden.model.assumptions == ()


@pytest.mark.parametrize("golden", cases())
def test_embedding_is_the_token_table(golden):
    """50 rows of the width of the embedding, positions apart."""
    assert golden.model.parameters().embedding == 50 * golden.changes.get("word_embed_proj_dim", 24)


def test_a_layer_may_have_keys_of_its_own():
    """The MLP of one layer of three is 36 wide, not 40."""
    whole = Golden("llama", {}, 0, 0).model.parameters().total
    narrow = Golden("llama", {"per_layer_config": {"1": {"intermediate_size": 36}}}, 0, 0).model

    assert narrow.parameters().total == whole - 3 * 24 * 4
    assert [block.layers for block in narrow.blocks] == [(0, 2), (1,)]


def test_layers_that_attend_to_images_are_held_and_skipped(h100):
    """Llama 3.2 Vision: of three layers one; a pass of text goes through the other two, and caches there."""
    across = {"model_type": "mllama_text_model", "cross_attention_layers": [1]}
    model = configs.read({**LLAMA, **across}, "tiny", "config.json")
    counts = {point.name: point.count for point in rl.predict(model, h100, rl.Workload.decode(1, 9))}

    assert counts["attention"] == counts["up_proj"] == 2
    assert "cross_attention" not in counts
    assert model.cache_bytes(9, rl.Precision(), rl.Shard()) == 2 * 2 * 9 * 2 * 4 * 2
    assert any("1 of the layers attend to images alone" in each for each in model.assumptions)
    with pytest.raises(ConfigError, match="cross_attention_layers"):
        configs.read({**LLAMA, **across, "cross_attention_layers": [3]}, "tiny", "config.json")


def test_flops_of_a_decode_step_by_hand():
    """Llama with 1 layer of 8 hidden, 2 heads and 1 KV head of 4, 16 wide, 10 tokens; 3 sequences at 5 positions."""
    model = configs.read(
        {
            "model_type": "llama",
            "hidden_size": 8,
            "intermediate_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "vocab_size": 10,
        },
        "tiny",
        "config.json",
    )
    ledger = rl.predict(model, rl.Device.load("h100-sxm"), rl.Workload.decode(sequences=3, context=5))

    assert {point.name: point.work.flops for point in ledger} == {
        "embedding": 0,
        "input_norm": 4 * 3 * 8,  # 3 an element, 1 for the tensor added
        "qkv_proj": 2 * 3 * (8 + 4 + 4) * 8,
        "rope": 3 * 3 * (2 + 1) * 4,
        "attention": 4 * 3 * 2 * 4 * 5,
        "o_proj": 2 * 3 * 8 * 8,
        "mlp_norm": 4 * 3 * 8,
        "gate_proj": 2 * 3 * 16 * 8,
        "up_proj": 2 * 3 * 16 * 8,
        "act_mul": 3 * 3 * 16,
        "down_proj": 2 * 3 * 8 * 16,
        "final_norm": 4 * 3 * 8,
        "lm_head": 2 * 3 * 10 * 8,
    }
    assert ledger.total.flops == 4956


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({"model_type": "llama"}, 1),
        ({"model_type": "phi"}, 0.5),
        ({"model_type": "phi", "partial_rotary_factor": 0.25}, 0.25),
        ({"model_type": "phi3", "partial_rotary_factor": 0.75}, 0.75),
        ({"model_type": "gpt_neox", "attention_bias": False}, 0.25),
        ({"model_type": "gpt_neox", "rotary_pct": 1.0}, 1),
    ],
    ids=str,
)
def test_rotated_part_of_a_head(changes, factor):
    """3 FLOP for each rotated element of 6 query and 6 KV heads of 8."""
    model = configs.read({**LLAMA, "hidden_size": 48, "num_key_value_heads": 6, **changes}, "tiny", "config.json")
    [rope] = [point for point in rl.predict(model, rl.Device.load("h100-sxm")) if point.name == "rope"]

    assert rope.work.flops == 3 * 12 * 8 * factor


@pytest.mark.parametrize("model_type", ["gpt2", "opt", "mpt"])
def test_learned_positions_and_alibi_rotate_nothing(model_type):
    """No rotary kernel."""
    model = next(each for each in GOLDEN if each.model_type == model_type).model

    assert not [point for point in rl.predict(model, rl.Device.load("h100-sxm")) if point.work.op == "rope"]


def test_parallel_blocks_read_the_stream_once_where_they_share_a_norm():
    """Phi has one norm a layer; GPT-NeoX has two, whose second adds nothing."""
    device = rl.Device.load("h100-sxm")
    phi, neox, turns = (
        {point.name: point for point in rl.predict(each.model, device) if point.work.op == "norm"}
        for each in (
            Golden("phi", {}, 0, 0),
            Golden("gpt_neox", {}, 0, 0),
            Golden("gpt_neox", {"use_parallel_residual": False}, 0, 0),
        )
    )

    assert list(phi) == ["input_norm", "final_norm"]
    assert {name: point.work.dims["added"] for name, point in neox.items()} == {
        "input_norm": 2,
        "mlp_norm": 0,
        "final_norm": 2,
    }
    assert {name: point.work.dims["added"] for name, point in turns.items()} == {
        "input_norm": 1,
        "mlp_norm": 1,
        "final_norm": 1,
    }


def test_expansion_ratio_of_mpt_is_the_width_of_its_mlp():
    """By hand, as transformers takes 4 whatever the key: a ratio of 2 has 2 x 24 x 48 a layer in place of 96."""
    assert Golden("mpt", {"expansion_ratio": 2}, 0, 0).model.parameters().total == 22_104 - 3 * 2 * 24 * 48


def test_grouped_kv_heads_of_mpt():
    """`attn_config.kv_n_heads`, which transformers does not read: k and v are 24 x 6 in place of 24 x 24."""
    model = Golden("mpt", {"attn_config": {"kv_n_heads": 1}}, 0, 0).model

    assert model.parameters().total == 22_104 - 3 * 2 * 24 * 18
    assert model.cache_bytes(1, rl.Precision(), rl.Shard()) == 2 * 6 * 3 * 2


def test_multi_query_attention_of_mpt_is_not_read_as_multi_head():
    """`attn_config.attn_type` means one KV head, whose cache is a quarter; better no answer than 4 heads."""
    try:
        model = Golden("mpt", {"attn_config": {"attn_type": "multiquery_attention"}}, 0, 0).model
    except ConfigError as error:
        assert "attn_type" in str(error)
    else:
        assert model.cache_bytes(1, rl.Precision(), rl.Shard()) == 2 * 6 * 3 * 2


@pytest.mark.parametrize(
    ("model_type", "changes", "key"),
    [
        ("mpt", {"no_bias": False}, "no_bias"),
        ("mpt", {"attn_config": {"qk_ln": True}}, "qk_ln"),
        ("mpt", {"attn_config": [1]}, "attn_config"),
        ("mpt", {"attn_config": {"kv_n_heads": 0}}, "kv_n_heads"),
        ("mpt", {"attn_config": {"alibi": False}}, "alibi"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention"),
    ],
    ids=str,
)
def test_what_a_family_does_not_count_is_refused(model_type, changes, key):
    """The key is named, and no number is given."""
    with pytest.raises(ConfigError, match=key):
        _ = Golden(model_type, changes, 0, 0).model


def test_a_second_registration_is_refused():
    """Two readers of one model_type would depend on the order of imports."""
    before = dict(load_all())

    with pytest.raises(RooflineError, match="'llama' is registered twice"):
        family("llama")(before["llama"])
    assert before == FAMILIES


@pytest.mark.parametrize(
    ("model_type", "changes", "key"),
    [
        ("gpt_neo", {"attention_types": [["odd", 2]]}, "attention_types"),
        ("gpt_neo", {"attention_types": 5}, "attention_types"),
        ("gemma4_text", {"num_kv_shared_layers": 4}, "num_kv_shared_layers"),
        ("mimo_v2_flash", {"layer_types": None}, "layer_types"),
        ("laguna", {"num_attention_heads_per_layer": [6, 6, 6, 3]}, "num_attention_heads_per_layer"),
        ("laguna", {"num_attention_heads_per_layer": 3}, "num_attention_heads_per_layer"),
        ("deepseek_v4", {"o_groups": 7}, "o_groups"),
        ("llama", {"num_kv_shared_layers": 2}, "num_kv_shared_layers"),
        ("llama", {"per_layer_config": {"9": {}}}, "per_layer_config names '9'"),
        ("llama", {"per_layer_config": {"1": 3}}, "per_layer_config names '1'"),
        ("llama", {"per_layer_config": {"1": {"hidden_size": 3}}}, "per_layer_config has 'hidden_size' 3"),
        ("llama", {"per_layer_config": {"1": {"head_dim": "a"}}}, "per_layer_config has 'head_dim' 'a'"),
    ],
    ids=str,
)
def test_what_a_family_of_its_own_layers_does_not_count_is_refused(model_type, changes, key):
    """The key is named, and no number is given."""
    case = next(each for each in CASES if each[0] == model_type)

    with pytest.raises(ConfigError, match=key):
        configs.read({**keys_of(*case), **changes}, "tiny", "config.json")
