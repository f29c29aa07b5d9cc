"""Models by the headers of their weights: each format in bytes by hand, and what does not agree is said."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from roofline.errors import RooflineError
from stored_files import Shapes, dense, gguf_bytes, safetensors

HIDDEN, WIDTH, HEADS, KV, VOCAB, DIM, LAYERS = 256, 512, 4, 2, 96, 64, 3
CONFIG: dict[str, Any] = {
    **{"model_type": "qwen3", "hidden_size": HIDDEN, "intermediate_size": WIDTH, "num_hidden_layers": LAYERS},
    **{"num_attention_heads": HEADS, "num_key_value_heads": KV, "head_dim": DIM, "vocab_size": VOCAB},
    **{"max_position_embeddings": 512, "tie_word_embeddings": False},
}
MOE: dict[str, Any] = {**CONFIG, "model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2}
MOE |= {"moe_intermediate_size": 128, "decoder_sparse_step": 1, "norm_topk_prob": True}
GPT_OSS: dict[str, Any] = {**CONFIG, "model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2}
GPT_OSS |= {"intermediate_size": 128, "sliding_window": 8, "attention_bias": True}
AS_STORED = rl.Precision("stored"), rl.Shard()
PLAIN = dense(LAYERS, HIDDEN, WIDTH, HEADS, KV, VOCAB, DIM)


def folder(path: Path, tensors: Shapes, config: dict[str, Any] | None = None) -> rl.Model:
    (path / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    safetensors(path / "model.safetensors", tensors)
    return rl.Model.load(path)


def matrices(tensors: Shapes) -> dict[str, tuple[int, int]]:
    """Module and lengths of the matrices of the layers."""
    return {
        name.removesuffix(".weight"): (shape[0], shape[1])
        for name, (_, shape) in tensors.items()
        if ".layers." in name and len(shape) == 2
    }


def quantised(**tensors: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The model with other tensors instead of the weight of each matrix: functions of its rows and columns."""
    found = dict(PLAIN)
    for module, (rows, columns) in matrices(PLAIN).items():
        del found[f"{module}.weight"]
        for name, make in tensors.items():
            kind, shape = make(rows, columns)
            found[f"{module}.{name}"] = (kind, tuple(shape))
    return found


def stored(tensors: Shapes) -> int:
    bits = {"F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "I32": 32, "I64": 64, "U8": 8, "I8": 8}
    return sum(math.prod(shape) * bits[kind] // 8 for kind, shape in tensors.values())


def says(model: rl.Model, words: str) -> bool:
    return any(words in each for each in model.assumptions)


def test_sixteen_bits_change_nothing_but_what_is_said(tmp_path):
    """A plain checkpoint: the model of its config, with what its header says beside it."""
    model = folder(tmp_path, PLAIN)
    bare = rl.Model.load(tmp_path / "config.json")

    assert model.blocks == bare.blocks and not model.quantised
    assert model.checkpoint is not None and model.checkpoint.bytes == 2 * bare.parameters().total
    assert says(model, f"{len(PLAIN)} tensors, {2 * bare.parameters().total:,} bytes")
    assert not says(model, "The model counts") and not says(model, "in no header")


def test_fp32(tmp_path):
    """4 bytes a parameter, norms and embedding too; a pass reads as much by default."""
    model = folder(tmp_path, {name: ("F32", shape) for name, (_, shape) in PLAIN.items()})
    total = model.parameters().total

    assert model.weight_bytes(*AS_STORED) == 4 * total
    assert rl.memory(rl.predict(model, "h100-sxm")).weight_bytes == 4 * total
    read = sum(p.count * p.work.cost.memory.get("weights", 0) for p in rl.predict(model, "h100-sxm"))
    assert read == 4 * (total - VOCAB * HIDDEN + HIDDEN)  # of the table, one row


def fp8_block(rows: int, columns: int) -> tuple[str, tuple[int, ...]]:
    return "F32", (-(-rows // 128), -(-columns // 128))


def group(size: int, kind: str = "F16", pack: int = 1):
    return lambda rows, columns: (kind, (columns // size, rows // pack))


FORMATS: dict[str, tuple[dict[str, Any], Any]] = {
    "fp8": (
        {"weight": lambda r, c: ("F8_E4M3", (r, c)), "weight_scale": lambda r, c: ("F32", ())},
        lambda r, c: r * c + 4,
    ),
    "fp8 a row": (
        {"weight": lambda r, c: ("F8_E4M3", (r, c)), "weight_scale": lambda r, c: ("BF16", (r, 1))},
        lambda r, c: r * c + 2 * r,
    ),
    "fp8 blocks": (
        {"weight": lambda r, c: ("F8_E4M3", (r, c)), "weight_scale_inv": fp8_block},
        lambda r, c: r * c + 4 * -(-r // 128) * -(-c // 128),
    ),
    "awq": (  # 4 bits in int32 along the outputs, scales and zero points a group of 128 inputs
        {
            "qweight": lambda r, c: ("I32", (c, r // 8)),
            "scales": group(128),
            "qzeros": group(128, "I32", 8),
        },
        lambda r, c: r * c // 2 + r * c // 128 * 2 + r * c // 128 // 2,
    ),
    "gptq": (  # along the inputs, and the group of each input
        {
            "qweight": lambda r, c: ("I32", (c // 8, r)),
            "scales": group(64),
            "qzeros": group(64, "I32", 8),
            "g_idx": lambda r, c: ("I32", (c,)),
        },
        lambda r, c: r * c // 2 + r * c // 64 * 2 + r * c // 64 // 2 + 4 * c,
    ),
    "compressed": (
        {
            "weight_packed": lambda r, c: ("I32", (r, c // 8)),
            "weight_scale": lambda r, c: ("BF16", (r, c // 32)),
            "weight_shape": lambda r, c: ("I64", (2,)),
        },
        lambda r, c: r * c // 2 + r * c // 32 * 2 + 16,
    ),
    "nf4": (
        {
            "weight": lambda r, c: ("U8", (r * c // 2, 1)),
            "weight.absmax": lambda r, c: ("F32", (r * c // 64,)),
            "weight.quant_map": lambda r, c: ("F32", (16,)),
            "weight.quant_state.bitsandbytes__nf4": lambda r, c: ("U8", (77,)),
        },
        lambda r, c: r * c // 2 + r * c // 64 * 4 + 64 + 77,
    ),
    "int8": (
        {"weight": lambda r, c: ("I8", (r, c)), "SCB": lambda r, c: ("F32", (r,))},
        lambda r, c: r * c + 4 * r,
    ),
    "nvfp4": (
        {
            "weight": lambda r, c: ("U8", (r, c // 2)),
            "weight_scale": lambda r, c: ("F8_E4M3", (r, c // 16)),
            "weight_scale_2": lambda r, c: ("F32", ()),
            "input_scale": lambda r, c: ("F32", ()),
        },
        lambda r, c: r * c // 2 + r * c // 16 + 8,
    ),
    "mxfp4": (
        {"weight_packed": lambda r, c: ("U8", (r, c // 2)), "weight_scale": lambda r, c: ("U8", (r, c // 32))},
        lambda r, c: r * c // 2 + r * c // 32,
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_by_what_is_stored(tmp_path, name):
    """Numbers, scales, zero points and indices of each matrix, by hand; the head and the table stay in 16 bits."""
    tensors, each = FORMATS[name]
    written = quantised(**tensors)
    model = folder(tmp_path, written)
    inside = sum(each(rows, columns) for rows, columns in matrices(PLAIN).values())
    beside = stored({name: each for name, each in PLAIN.items() if name.removesuffix(".weight") not in matrices(PLAIN)})

    assert model.weight_bytes(*AS_STORED) == inside + beside == stored(written)
    assert len(model.blocks) == 1 and not says(model, "The model counts")


def test_a_rank_holds_its_share_of_scales(tmp_path):
    """Two ranks of FP8 in blocks: half of each matrix, with the blocks that it has."""
    model = folder(tmp_path, quantised(**FORMATS["fp8 blocks"][0]))
    half = model.weight_bytes(rl.Precision("stored"), rl.Shard(2))
    vectors = 2 * (LAYERS * (2 * HIDDEN + 2 * DIM) + HIDDEN)
    kv_scales = LAYERS * 2 * 2 * 4  # 64 rows of k and of v are half a block

    assert 2 * half == model.weight_bytes(*AS_STORED) + vectors + kv_scales


def test_layers_that_are_stored_differently(tmp_path):
    """FP8 in all but the first layer: two blocks, and what is said of each format."""
    mixed = {
        name: PLAIN.get(name, each)
        for name, each in quantised(**FORMATS["fp8"][0]).items()
        if not name.startswith("model.layers.0.")
    } | {name: each for name, each in PLAIN.items() if name.startswith("model.layers.0.")}
    for module in matrices(PLAIN):
        if not module.startswith("model.layers.0."):
            mixed[f"{module}.weight"] = ("F8_E4M3", matrices(PLAIN)[module])
    model = folder(tmp_path, mixed)
    inside = sum(rows * columns for rows, columns in matrices(PLAIN).values())

    assert [block.layers for block in model.blocks] == [(0,), (1, 2)]
    assert model.weight_bytes(*AS_STORED) == stored(mixed)
    assert says(model, f"{inside * 2 // 3:,} parameters in fp8")


def expert(module: str, experts: int, width: int, kind: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    shapes = {"gate_proj": (width, HIDDEN), "up_proj": (width, HIDDEN), "down_proj": (HIDDEN, width)}
    return {
        f"{module}.experts.{number}.{name}.weight": (kind, shape)
        for number in range(experts)
        for name, shape in shapes.items()
    }


def routed(kinds: list[str]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The model with four experts in each layer; `kinds` are the formats of the experts."""
    found = {name: each for name, each in PLAIN.items() if ".mlp." not in name}
    for layer in range(LAYERS):
        module = f"model.layers.{layer}.mlp"
        found[f"{module}.gate.weight"] = ("BF16", (4, HIDDEN))
        for number, kind in enumerate(kinds):
            one = expert(module, number + 1, 128, kind)
            found |= {name: each for name, each in one.items() if f".experts.{number}." in name}
    return found


@pytest.mark.parametrize("kinds", [["BF16"] * 4, ["F8_E4M3"] * 4, ["BF16", "F8_E4M3", "F8_E4M3", "BF16"]])
def test_a_module_for_each_expert(tmp_path, kinds):
    """All of them are counted, alike or not."""
    model = folder(tmp_path, routed(kinds), MOE)
    assert model.weight_bytes(*AS_STORED) == stored(routed(kinds))
    assert not says(model, "in no header")


def test_experts_in_one_tensor_with_their_biases(tmp_path):
    """gpt-oss: blocks of 16 bytes and a scale for each 32 numbers; gate beside up."""
    tensors = {name: each for name, each in PLAIN.items() if ".mlp." not in name and "q_norm" not in name}
    tensors = {name: each for name, each in tensors.items() if "k_norm" not in name}
    for layer in range(LAYERS):
        module = f"model.layers.{layer}"
        tensors |= {
            f"{module}.self_attn.sinks": ("BF16", (HEADS,)),
            f"{module}.self_attn.q_proj.bias": ("BF16", (HEADS * DIM,)),
            f"{module}.self_attn.k_proj.bias": ("BF16", (KV * DIM,)),
            f"{module}.self_attn.v_proj.bias": ("BF16", (KV * DIM,)),
            f"{module}.self_attn.o_proj.bias": ("BF16", (HIDDEN,)),
            f"{module}.mlp.router.weight": ("BF16", (4, HIDDEN)),
            f"{module}.mlp.router.bias": ("BF16", (4,)),
            f"{module}.mlp.experts.gate_up_proj_blocks": ("U8", (4, 256, HIDDEN // 32, 16)),
            f"{module}.mlp.experts.gate_up_proj_scales": ("U8", (4, 256, HIDDEN // 32)),
            f"{module}.mlp.experts.gate_up_proj_bias": ("BF16", (4, 256)),
            f"{module}.mlp.experts.down_proj_blocks": ("U8", (4, HIDDEN, 4, 16)),
            f"{module}.mlp.experts.down_proj_scales": ("U8", (4, HIDDEN, 4)),
            f"{module}.mlp.experts.down_proj_bias": ("BF16", (4, HIDDEN)),
        }
    model = folder(tmp_path, tensors, GPT_OSS)
    experts = LAYERS * 4 * 3 * 128 * HIDDEN

    assert model.weight_bytes(*AS_STORED) == stored(tensors)
    assert model.parameters().experts - LAYERS * 4 * (256 + HIDDEN) == experts
    assert says(model, "4 bits packed in uint8, scales for each 32")


def test_a_layer_that_is_missing_is_said(tmp_path):
    """Its matrices are counted at 16 bits, and the answer says which and by how much it differs."""
    model = folder(tmp_path, {name: each for name, each in PLAIN.items() if ".layers.2." not in name})
    missing = sum(math.prod(each[1]) for name, each in PLAIN.items() if ".layers.2." in name)

    assert says(model, "7 matrices of the model are in no header")
    assert says(model, f"{2 * missing:+,}")


def test_lengths_that_are_not_the_config_s_are_said(tmp_path):
    tensors = {name: (kind, (shape[0] * 2, *shape[1:])) for name, (kind, shape) in PLAIN.items()}
    assert says(folder(tmp_path, tensors), "have other lengths there")


def test_parts_that_are_not_counted_are_said(tmp_path):
    """A vision tower in the file of a text model."""
    model = folder(tmp_path, {**PLAIN, "visual.blocks.0.attn.qkv.weight": ("BF16", (30, 10))})
    assert says(model, "-600; of what is stored, vision 600 bytes are of other parts")


GGUF_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
ENDS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
META: dict[str, object] = {
    **{"general.architecture": "qwen3", "qwen3.block_count": LAYERS, "qwen3.embedding_length": HIDDEN},
    **{"qwen3.feed_forward_length": WIDTH, "qwen3.attention.head_count": HEADS, "qwen3.context_length": 512},
    **{"qwen3.attention.head_count_kv": KV, "qwen3.attention.key_length": DIM, "qwen3.attention.value_length": DIM},
    "tokenizer.ggml.tokens": ["a", "b"],
}


def as_gguf(tied: bool = False) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Norms in F32, matrices in q4_K, v and down of the first layer in q6_K, the table in q8_0."""
    found: dict[str, tuple[int, tuple[int, ...]]] = {}
    for name, (_, shape) in PLAIN.items():
        module = name.removesuffix(".weight")
        if module in ENDS:
            called = ENDS[module]
        else:
            layer, _, rest = module.removeprefix("model.layers.").partition(".")
            called = f"blk.{layer}.{GGUF_NAMES[rest]}"
        if tied and called == "output":
            continue
        first = called.startswith("blk.0.") and called.endswith(("attn_v", "ffn_down"))
        found[f"{called}.weight"] = (
            0 if len(shape) == 1 else 8 if called == "token_embd" else 14 if first else 12,
            shape,
        )
    return found


BYTES = {0: (1, 4), 8: (32, 34), 12: (256, 144), 14: (256, 210)}


@pytest.mark.parametrize("tied", [False, True])
def test_gguf_is_a_model_by_itself(tmp_path, tied):
    """Structure from its metadata, bytes from its blocks: those of every tensor, each once."""
    path = tmp_path / "tiny-Q4_K_M.gguf"
    path.write_bytes(gguf_bytes(META, as_gguf(tied)))
    model = rl.Model.load(path)
    total = sum(math.prod(shape) // BYTES[kind][0] * BYTES[kind][1] for kind, shape in as_gguf(tied).values())

    assert (model.name, model.layers, model.tied, model.max_positions) == ("tiny-Q4_K_M", LAYERS, tied, 512)
    assert model.parameters().total == sum(math.prod(shape) for _, shape in as_gguf(tied).values())
    assert model.weight_bytes(*AS_STORED) == total
    assert [block.layers for block in model.blocks] == [(0,), (1, 2)]
    assert not says(model, "The model counts")


def test_a_tied_head_is_read_in_the_format_of_the_table(tmp_path):
    """q8_0: 34 bytes for each 32."""
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf_bytes(META, as_gguf(tied=True)))
    [head] = [point for point in rl.predict(rl.Model.load(path), "h100-sxm") if point.name == "lm_head"]
    assert head.work.cost.memory["weights"] == VOCAB * HIDDEN // 32 * 34


def test_unknown_architecture_whose_tensors_agree(tmp_path):
    """Read as a relative of Llama where its keys say as many parameters as its tensors hold, and that is said."""
    path = tmp_path / "new.gguf"
    keys = {key.replace("qwen3", "novum"): each for key, each in META.items()} | {"general.architecture": "novum"}
    plain = {name: each for name, each in as_gguf().items() if "_q_norm" not in name and "_k_norm" not in name}
    path.write_bytes(gguf_bytes(keys, plain))
    assert says(rl.Model.load(path), "model_type 'novum' is not known here")
    path.write_bytes(gguf_bytes(keys, {**plain, "blk.0.ffn_extra.weight": (0, (7,))}))
    with pytest.raises(RooflineError, match=r"'novum' is not known here, .*its tensors hold .*Name its config.json"):
        rl.Model.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"general.architecture": 7}, "general.architecture is 7"),
        ({"qwen3.block_count": 0}, "num_hidden_layers or n_layer"),
        ({"qwen3.attention.head_count_kv": [1, 2, 2]}, "another for some layers than for others"),
        ({"qwen3.embedding_length": float("nan")}, "hidden_size is nan"),
        ({"qwen3.embedding_length": "wide"}, "hidden_size is 'wide'"),
        ({"qwen3.block_count": 1 << 31}, "number of layers|layers|has|too many"),
    ],
)
def test_metadata_that_cannot_be_is_one_line(tmp_path, changes, message):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf_bytes({**META, **changes}, as_gguf()))
    with pytest.raises(RooflineError, match=message) as caught:
        rl.Model.load(path)
    assert "\n" not in str(caught.value)


def test_no_language_model(tmp_path):
    path = tmp_path / "mmproj.gguf"
    path.write_bytes(gguf_bytes({"general.architecture": "clip"}, {"v.patch_embd.weight": (1, (8, 8))}))
    with pytest.raises(RooflineError, match="no table of tokens"):
        rl.Model.load(path)


def test_the_commands_take_a_checkpoint(roofline, tmp_path):
    """models and predict of a folder, of a file in it, and of a GGUF file."""
    folder(tmp_path, {name: ("F32", shape) for name, (_, shape) in PLAIN.items()})
    path = tmp_path / "other" / "tiny.gguf"
    path.parent.mkdir()
    path.write_bytes(gguf_bytes(META, as_gguf()))
    for where, kind in ((tmp_path, "safetensors"), (tmp_path / "model.safetensors", "safetensors"), (path, "gguf")):
        record = roofline("models", where, "--json").json
        assert record["checkpoint"]["kind"] == kind
        assert record["checkpoint"]["bytes"] == record["stored_weight_bytes"]
        assert sum(record["checkpoint"]["parts"].values()) == record["checkpoint"]["bytes"]
        answer = roofline("predict", where, "--device", "h100-sxm", "--json")
        assert answer.json["memory"]["weight_bytes"] == record["stored_weight_bytes"]
    assert "gguf headers" in roofline("models", path).out and "q4_K" in roofline("models", path).out
    assert roofline("models", tmp_path / "config.json", "--json").json["checkpoint"] is None


def test_bad_checkpoint_is_one_line_and_nothing_else(roofline, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 8)
    answer = roofline("predict", tmp_path, "--device", "h100-sxm")

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1 and "name its config.json" in answer.err
    assert roofline("predict", tmp_path / "config.json", "--device", "h100-sxm").code == 0


def test_weights_without_a_config(tmp_path):
    safetensors(tmp_path / "model.safetensors", PLAIN)
    with pytest.raises(RooflineError, match="has no config"):
        rl.Model.load(tmp_path)


def test_a_gguf_file_has_no_fields_to_set(roofline, tmp_path):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf_bytes(META, as_gguf()))
    answer = roofline("predict", path, "--device", "h100-sxm", "--set", "model.kv_heads=1")
    assert answer.code == 2 and "GGUF file" in answer.err


# What a config.json says of the same formats, where nothing is stored beside them that it does not mention.
SAID: dict[str, dict[str, Any]] = {
    "fp8": {"quant_method": "fp8"},
    "fp8 blocks": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 64},
    "int8": {"quant_method": "bitsandbytes", "load_in_8bit": True},
}


@pytest.mark.parametrize("name", SAID)
def test_headers_and_config_agree(tmp_path, name):
    """The same bytes by what a file says and by what is stored, matrix by matrix."""
    by_headers = folder(tmp_path, quantised(**FORMATS[name][0]))
    by_config = rl.Model.load({**CONFIG, "quantization_config": SAID[name]})

    assert by_headers.weight_bytes(*AS_STORED) == by_config.weight_bytes(*AS_STORED)
    halves = [each.weight_bytes(rl.Precision("stored"), rl.Shard(2)) for each in (by_headers, by_config)]
    assert abs(halves[0] - halves[1]) <= len(matrices(PLAIN))  # scales and zero points rounded up together, or apart


def test_headers_stand_over_what_a_config_says(tmp_path):
    """A config that says FP8 of weights in BF16: what is stored is counted."""
    model = folder(tmp_path, PLAIN, {**CONFIG, "quantization_config": {"quant_method": "fp8"}})
    assert model.weight_bytes(*AS_STORED) == 2 * model.parameters().total


def test_gguf_beside_a_config(tmp_path):
    """The config says the structure, the one GGUF file how it is stored; of several none is meant."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "q4.gguf").write_bytes(gguf_bytes(META, as_gguf()))
    model = rl.Model.load(tmp_path)
    assert model.weight_bytes(*AS_STORED) == rl.Model.load(tmp_path / "q4.gguf").weight_bytes(*AS_STORED)
    assert model.name == tmp_path.name
    (tmp_path / "q8.gguf").write_bytes(gguf_bytes(META, as_gguf()))
    assert rl.Model.load(tmp_path).checkpoint is None


NATIVE = {
    "self_attn.q_proj": "attention.wq",
    "self_attn.k_proj": "attention.wk",
    "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.up_proj": "feed_forward.w3",
    "mlp.down_proj": "feed_forward.w2",
    "embed_tokens": "tok_embeddings",
    "lm_head": "output",
}


def test_names_of_a_model_s_own_code(tmp_path):
    """layers.0.attention.wq and its kin, without any prefix: all found, as FP32 shows."""
    written = {}
    for name, (_, shape) in PLAIN.items():
        called = name.removeprefix("model.")
        for ours, theirs in NATIVE.items():
            called = called.replace(ours, theirs)
        written[called] = ("F32", shape)
    model = folder(tmp_path, written)

    assert model.weight_bytes(*AS_STORED) == 4 * model.parameters().total
    assert not says(model, "in no header")
