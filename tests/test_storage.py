"""Quantised checkpoints: which matrices are stored in which format, and their bytes, one worked example a format."""

from __future__ import annotations

import json
from typing import Any

import pytest

import roofline as rl
from roofline import config as configs
from roofline.errors import RooflineError
from roofline.modules import Names

HIDDEN, WIDE, LAYERS, VOCAB = 256, 512, 3, 1000
DENSE = {
    **{"model_type": "qwen3", "hidden_size": HIDDEN, "intermediate_size": WIDE, "num_hidden_layers": LAYERS},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": VOCAB},
    **{"tie_word_embeddings": False, "max_position_embeddings": 64},
}
EXPERTS = {
    **{**DENSE, "model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128},
}
# Rows and columns of the matrices of a dense layer.
ATTENTION = {"q": (256, 256), "k": (128, 256), "v": (128, 256), "o": (256, 256)}
MLP = {"gate": (512, 256), "up": (512, 256), "down": (256, 512)}
MATRICES = [*ATTENTION.values(), *MLP.values()]
INSIDE = sum(rows * columns for rows, columns in MATRICES)
FORMATS = rl.Precision("stored"), rl.Shard()


def model(quantization: Any, keys: Any = DENSE, beside: Any = None) -> rl.Model:
    found = keys if quantization is None else {**keys, "quantization_config": quantization}
    return configs.read(found, "tiny", "config.json", None, beside)


def stored(quantization: Any, keys: Any = DENSE, beside: Any = None) -> int:
    return model(quantization, keys, beside).weight_bytes(*FORMATS)


def kept(keys: Any = DENSE) -> int:
    """Bytes of a model in 16 bits."""
    return 2 * model(None, keys).parameters().total


def test_without_a_word_all_is_16_bits():
    assert stored(None) == kept()
    assert not model(None).quantised


def test_fp8_in_blocks():
    """One byte an element, an FP32 scale for each 128 x 128, blocks at the edge whole; tables and head stay."""
    blocks = sum(-(-rows // 100) * -(-columns // 128) for rows, columns in MATRICES)
    found = stored({"quant_method": "fp8", "weight_block_size": [100, 128]})

    assert found == kept() - 2 * LAYERS * INSIDE + LAYERS * (INSIDE + 4 * blocks)


def test_fp8_with_one_scale():
    """Seven matrices a layer, a scale of 4 bytes each."""
    assert stored({"quant_method": "fp8"}) == kept() - LAYERS * INSIDE + LAYERS * 7 * 4


def test_what_the_list_names_stays():
    """The second layer's MLP, every o_proj, in the words of each method."""
    mlp, out = sum(a * b for a, b in MLP.values()), 256 * 256
    listed = ["model.layers.1.mlp", "o_proj"]
    less = kept() - LAYERS * INSIDE + LAYERS * 7 * 4
    found = stored({"quant_method": "fp8", "modules_to_not_convert": listed})

    assert found == less + mlp - 3 * 4 + LAYERS * (out - 4)


def test_gptq():
    """4 bits, FP16 scale and 4-bit zero point for each 64 inputs of an output, an int32 for each input's group."""
    groups = sum(rows * -(-columns // 64) for rows, columns in MATRICES)
    inputs = sum(columns for _, columns in MATRICES)
    found = stored({"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": True, "desc_act": False})

    assert found == kept() - 2 * LAYERS * INSIDE + LAYERS * (INSIDE // 2 + groups * 20 // 8 + 4 * inputs)


def test_gptq_leaves_out_what_dynamic_says():
    """A minus before an expression: no attention."""
    attention = sum(a * b for a, b in ATTENTION.values())
    keys = {"quant_method": "gptq", "bits": 8, "group_size": -1}
    less = stored({**keys, "dynamic": {"-:.*self_attn.*": {}}})
    rows, columns = (sum(each[side] for each in MLP.values()) for side in (0, 1))

    assert less == kept() - LAYERS * (INSIDE - attention) + LAYERS * (rows * 3 + 4 * columns)


def test_awq():
    """As GPTQ without the inputs' groups; without zero points two bytes a group."""
    groups = sum(rows * -(-columns // 128) for rows, columns in MATRICES)
    keys = {"quant_method": "awq", "bits": 4, "group_size": 128}

    assert stored({**keys, "zero_point": True}) == kept() - LAYERS * INSIDE * 3 // 2 + LAYERS * groups * 20 // 8
    assert stored({**keys, "zero_point": False}) == kept() - LAYERS * INSIDE * 3 // 2 + LAYERS * groups * 2


def test_bitsandbytes():
    """NF4: FP32 for each 64; twice quantised a byte for each, and FP32 for each 256 of these; int8: FP32 a row."""
    four = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    base = kept() - LAYERS * INSIDE * 3 // 2
    rows = sum(rows for rows, _ in MATRICES)

    assert stored(four) == base + LAYERS * INSIDE // 64 * 4
    twice = stored({**four, "bnb_4bit_use_double_quant": True})
    assert twice == base + LAYERS * (INSIDE // 64 + INSIDE // (64 * 256) * 4)
    assert stored({"quant_method": "bitsandbytes", "load_in_8bit": True}) == kept() - LAYERS * (INSIDE - 4 * rows)


def test_mxfp4_is_of_the_experts():
    """gpt-oss: 4 bits and a byte for each 32, of the experts' matrices and nothing else."""
    keys = {**EXPERTS, "model_type": "gpt_oss", "num_local_experts": 8, "intermediate_size": 128, "sliding_window": 8}
    experts = 8 * 3 * HIDDEN * 128
    named = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    found = stored({"quant_method": "mxfp4", "modules_to_not_convert": named}, keys)

    assert found == kept(keys) - LAYERS * (2 * experts - experts * 17 // 32)


GROUP = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}


def compressed(
    weights: dict[str, Any], ignore: list[str], packed: str = "pack-quantized", **more: Any
) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, **more}
    return {"quant_method": "compressed-tensors", "format": packed, "ignore": ignore, "config_groups": {"g": group}}


def test_compressed_tensors_of_the_experts_alone():
    """The ignore list of a large mixture: head, attention, shared experts; int4 in groups of 32 with 16-bit scales."""
    ignore = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]
    experts = 8 * 3 * HIDDEN * 128

    assert stored(compressed(GROUP, ignore), EXPERTS) == kept(EXPERTS) - LAYERS * (2 * experts - experts * 9 // 16)


@pytest.mark.parametrize(
    ("weights", "packed", "extra"),
    [
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, "float-quantized", lambda r, c: r * c + 2 * r),
        ({"num_bits": 8, "type": "float", "strategy": "tensor"}, "float-quantized", lambda r, c: r * c + 2),
        ({"num_bits": 8, "type": "int", "strategy": "channel"}, "int-quantized", lambda r, c: r * c + 2 * r),
        (
            {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]},
            "float-quantized",
            lambda r, c: r * c + 2 * (r // 128) * (c // 128),
        ),
        (
            {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
            "nvfp4-pack-quantized",
            lambda r, c: r * c // 2 + r * c // 16 + 4,
        ),
        (
            {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32},
            "mxfp4-pack-quantized",
            lambda r, c: r * c // 2 + r * c // 32,
        ),
        ({**GROUP, "symmetric": False}, "pack-quantized", lambda r, c: r * c // 2 + r * c // 32 * 20 // 8),
    ],
    ids=["channel", "tensor", "int8", "block", "nvfp4", "mxfp4", "zero"],
)
def test_compressed_tensors_by_strategy(weights, packed, extra):
    """Every matrix of the layers, and the head where it is not ignored."""
    inside = sum(extra(rows, columns) for rows, columns in MATRICES)
    bare = kept() - 2 * LAYERS * INSIDE

    assert stored(compressed(weights, ["lm_head"], packed)) == bare + LAYERS * inside
    head = VOCAB * HIDDEN
    with_head = stored(compressed({"num_bits": 8, "type": "float", "strategy": "tensor"}, []))
    assert with_head == bare + LAYERS * (INSIDE + 7 * 2) - 2 * head + head + 2


def test_modelopt_with_one_algorithm():
    """NVFP4: half a byte, a byte for each 16, 4 bytes a matrix; what is excluded stays, by globs too."""
    beside = {"producer": {}, "quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]}}
    inside = sum(rows * columns * 9 // 16 + 4 for rows, columns in MATRICES)

    assert stored(None, DENSE, beside) == kept() - 2 * LAYERS * INSIDE + LAYERS * inside
    beside["quantization"]["exclude_modules"] = ["*lm_head*", "model.layers.0.*", "model.layers.2*"]
    assert stored(None, DENSE, beside) == kept() - 2 * INSIDE + inside


# Bytes of a matrix of r rows and c columns in each of ModelOpt's algorithms.
ALGORITHMS = {
    "FP8": lambda r, c: r * c + 4,
    "FP8_PER_CHANNEL_PER_TOKEN": lambda r, c: r * c + 4 * r,
    "FP8_PB_WO": lambda r, c: r * c + 4 * -(-r // 128) * -(-c // 128),
    "MXFP8": lambda r, c: r * c + r * c // 32,
    "NVFP4": lambda r, c: r * c // 2 + r * c // 16 + 4,
    "W4A8_NVFP4_FP8": lambda r, c: r * c // 2 + r * c // 16 + 4,
    "W4A8_MXFP4_FP8": lambda r, c: r * c // 2 + r * c // 32,
    "W4A16_AWQ": lambda r, c: r * c // 2 + 2 * r * c // 128,
    "W8A16": lambda r, c: r * c + 4 * r,
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_of_modelopt(algorithm):
    """As hf_quant_config.json names them; all matrices of the layers, the head excluded."""
    beside = {"quantization": {"quant_algo": algorithm, "exclude_modules": ["lm_head"], "kv_cache_quant_algo": None}}
    inside = sum(ALGORITHMS[algorithm](rows, columns) for rows, columns in MATRICES)

    assert stored(None, DENSE, beside) == kept() - 2 * LAYERS * INSIDE + LAYERS * inside


def test_mixed_precision_beside_a_config():
    """hf_quant_config.json with an entry for each module: FP8 of every o_proj, NVFP4 of every MLP, nothing else."""
    entries: dict[str, Any] = {}
    for layer in range(LAYERS):
        entries[f"model.layers.{layer}.self_attn.o_proj"] = {"quant_algo": "FP8"}
        for name in MLP:
            entries[f"model.layers.{layer}.mlp.{name}_proj"] = {"quant_algo": "NVFP4", "group_size": 16}
    beside = {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": entries}}
    mlp = sum(2 * r * c - (r * c // 2 + r * c // 16 + 4) for r, c in MLP.values())

    assert stored(None, DENSE, beside) == kept() - LAYERS * (256 * 256 - 4) - LAYERS * mlp


def test_modelopt_with_a_format_for_each_module():
    """Thousands of entries: FP8 attention in all layers, NVFP4 experts in every second, nothing else."""
    count = 64
    keys = {**EXPERTS, "num_hidden_layers": count}
    entries: dict[str, Any] = {}
    for layer in range(count):
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            entries[f"model.layers.{layer}.self_attn.{name}"] = {"quant_algo": "FP8"}
        for expert in range(8 if layer % 2 else 0):
            for name in ("gate_proj", "up_proj", "down_proj"):
                module = f"model.layers.{layer}.mlp.experts.{expert}.{name}"
                entries[module] = {"quant_algo": "NVFP4", "group_size": 16}
    assert len(entries) > 1000
    found = model({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": entries}, keys)
    attention, expert = sum(a * b for a, b in ATTENTION.values()), HIDDEN * 128

    assert found.weight_bytes(*FORMATS) == (
        kept(keys) - count * (attention - 4 * 4) - 32 * 24 * (2 * expert - (expert * 9 // 16 + 4))
    )
    assert sorted(len(block.layers) for block in found.blocks) == [32, 32]


def test_the_answer_says_how_much_is_in_which_format():
    """Counts that add up to the whole."""
    found = model({"quant_method": "fp8"})
    [said] = [each for each in found.assumptions if "stored (fp8)" in each]

    assert f"{LAYERS * INSIDE:,} parameters in fp8" in said
    assert f"{found.parameters().total - LAYERS * INSIDE:,} parameters in 16 bits" in said


def test_a_pass_reads_what_is_stored(h100):
    """A decode step of a quantised checkpoint reads it by default; asked for BF16, twice as much."""
    found = model({"quant_method": "fp8", "weight_block_size": [128, 128]})
    default, asked = (rl.predict(found, h100, precision=each) for each in (None, rl.Precision("bf16")))
    weights = [
        sum(p.count * p.work.cost.memory.get("weights", 0) for p in each if p.part in ("attention", "mlp"))
        for each in (default, asked)
    ]
    vectors = LAYERS * 2 * 2 * 64  # of the norms of q and k

    assert default.precision.weights == "stored"
    assert rl.predict(found, h100, precision=rl.Precision(kv="fp8")).precision.weights == "stored"
    assert weights[1] - vectors == 2 * LAYERS * INSIDE
    assert weights[0] - vectors == LAYERS * (INSIDE + 4 * sum(r // 128 * c // 128 for r, c in MATRICES))


def test_matrices_of_one_input_in_two_formats_are_two_kernels(h100):
    """q in FP8 and k and v in 16 bits: two GEMMs, whose bytes are theirs."""
    found = model({"quant_method": "fp8", "modules_to_not_convert": ["k_proj", "v_proj"]})
    rows = [point for point in rl.predict(found, h100) if point.name == "qkv_proj"]

    assert [point.work.dims["n"] for point in rows] == [256, 256]
    assert [point.work.cost.memory["weights"] for point in rows] == [256 * 256 + 4, 2 * 256 * 256]


def test_a_rank_stores_its_share():
    """Two ranks of FP8 hold half of every matrix each; half of k and v has as many scales, as it is half a block."""
    found = model({"quant_method": "fp8", "weight_block_size": [128, 128]})
    whole, half = (found.weight_bytes(rl.Precision("stored"), rl.Shard(tp)) for tp in (1, 2))
    vectors = 2 * (LAYERS * (2 * HIDDEN + 2 * 64) + HIDDEN)

    assert 2 * half - whole == vectors + LAYERS * 2 * 2 * 4


def test_the_command_takes_what_the_file_says(roofline, tmp_path):
    """predict in a folder with hf_quant_config.json: stored by default, and both ways by option."""
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    beside = {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    found = {}
    for name, option in (("default", []), ("stored", ["--weights", "stored"]), ("bf16", ["--weights", "bf16"])):
        answer = roofline("predict", str(tmp_path), "--device", "h100-sxm", "--json", *option)
        found[name] = json.loads(answer.out)["memory"]["weight_bytes"]

    assert found["default"] == found["stored"] == stored(None, DENSE, beside) < found["bf16"] == kept()


def test_stored_is_a_format_of_weights_alone():
    with pytest.raises(RooflineError, match="kv are in no checkpoint"):
        rl.Precision(kv="stored")


@pytest.mark.parametrize(
    ("quantization", "says"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size is"),
        ({"quant_method": "fp8", "weight_block_size": [128, float("nan")]}, "weight_block_size is"),
        ({"quant_method": "fp8", "modules_to_not_convert": "lm_head"}, "modules_to_not_convert is 'lm_head'"),
        ({"quant_method": "fp8", "modules_to_not_convert": [7]}, "names 7"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["x" * 1000]}, "names of modules of up to"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["re:(a+)+$"]}, "repeats too much"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["re:("]}, "no regular expression"),
        ({"quant_method": "gptq", "bits": "4"}, "bits is '4'"),
        ({"quant_method": "gptq"}, "bits is missing"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": []}, "dynamic is"),
        ({"quant_method": "awq", "bits": 4, "group_size": 0}, "group_size is 0"),
        ({"quant_method": "bitsandbytes"}, "load_in_4bit and load_in_8bit are missing"),
        ({"quant_method": "compressed-tensors"}, "config_groups is missing"),
        (compressed({"num_bits": 4, "strategy": "spiral"}, []), "strategy is 'spiral'"),
        (compressed({"num_bits": 4, "strategy": "block"}, []), "block_structure is None"),
        ({"quant_method": "modelopt", "quant_algo": "FP3"}, "quant_algo is 'FP3'"),
        (7, "quantization_config is 7"),
    ],
)
def test_what_cannot_be_is_one_line(quantization, says):
    with pytest.raises(RooflineError, match=says) as caught:
        model(quantization)
    assert "\n" not in str(caught.value)


def test_an_unknown_method_is_said():
    """Counted as --weights says, and the answer says so."""
    found = model({"quant_method": "quip"})

    assert not found.quantised
    assert any("'quip'" in each and "not known here" in each for each in found.assumptions)


@pytest.mark.parametrize(
    ("pattern", "path", "means"),
    [
        ("gate", "model.layers.0.mlp.gate", True),
        ("gate", "model.layers.0.mlp.gate_proj", False),
        ("model.layers.1", "model.layers.1.mlp.up_proj", True),
        ("model.layers.1", "model.layers.11.mlp.up_proj", False),
        ("model.layers.*.self_attn", "model.layers.3.self_attn.q_proj", True),
        ("*.mlp.gate", "model.layers.3.mlp.gate", True),
        ("*.mlp.gate", "model.layers.3.mlp.gate_proj", False),
        ("model.layers.1?.mlp*", "model.layers.12.mlp.up_proj", True),
        ("model.layers.1?.mlp*", "model.layers.1.mlp.up_proj", False),
        (r"re:.*mlp\.(gate|up)_proj.*", "model.layers.0.mlp.gate_proj", True),
        (r"re:.*mlp\.(gate|up)_proj.*", "model.layers.0.mlp.experts.0.gate_proj", False),
        ("lm_head", "lm_head", True),
        ("", "lm_head", False),
    ],
)
def test_names(pattern, path, means):
    """A plain name means a module and all in it, or every module called so; never a part of a word."""
    assert (path in Names([pattern], "here")) is means


def test_models_say_both(roofline, tmp_path):
    """16 bits and as stored, in text and JSON."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**DENSE, "quantization_config": {"quant_method": "fp8"}}))
    record = json.loads(roofline("models", str(path), "--json").out)

    assert record["weight_bytes"] == kept()
    assert record["stored_weight_bytes"] == stored({"quant_method": "fp8"})
    assert "as stored" in roofline("models", str(path)).out


def test_more_expressions_than_can_be_read_are_one_line():
    """A hostile list ends at once."""
    many = [f"re:.*layers.{index}.x" for index in range(6000)]
    with pytest.raises(RooflineError, match="more than 5,000 expressions"):
        model({"quant_method": "fp8", "modules_to_not_convert": many})
    with pytest.raises(RooflineError, match="too many expressions for 9,000 layers"):
        model({"quant_method": "fp8", "modules_to_not_convert": many[:100]}, {**DENSE, "num_hidden_layers": 9000})
