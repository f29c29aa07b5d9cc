"""What a config.json is read as, and that everything else is one clear error, never a guess."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import roofline as rl
from limits import SMALL_LLAMA
from roofline import config as configs
from roofline.errors import ConfigError, RooflineError

# 4 layers of 8 query heads and 2 KV heads of 8. A layer: q, o 64 x 64; k, v 64 x 16; MLP 3 x 64 x 96; two norms.
GOOD: dict[str, Any] = SMALL_LLAMA
PARAMETERS = 4 * (2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 96 + 2 * 64) + 2 * 100 * 64 + 64
DECIDING = {
    "hidden_size": "the width of every matrix",
    "intermediate_size": "the width of the MLP",
    "num_hidden_layers": "layers",
    "num_attention_heads": "the attention heads",
    "vocab_size": "the embedding",
}
LEARNED = {"model_type": "gpt2", "n_embd": 24, "n_layer": 1, "n_head": 2, "vocab_size": 50, "n_positions": 32}


def read(without: tuple[str, ...] = (), **changes: Any) -> rl.Model:
    keys = {key: value for key, value in {**GOOD, **changes}.items() if key not in without}
    return configs.read(keys, "model", "config.json")


def refused(without: tuple[str, ...] = (), **changes: Any) -> str:
    """The message of the ConfigError that these keys cause: one line that names the file."""
    with pytest.raises(ConfigError) as caught:
        read(without, **changes)
    message = str(caught.value)
    assert message.startswith("config.json: ")
    assert "\n" not in message
    return message


def cache(model: rl.Model, positions: int = 1) -> Any:
    """Bytes of BF16 cache of one sequence."""
    return model.cache_bytes(positions, rl.Precision(), rl.Shard())


def kernels(model: rl.Model, name: str) -> list[rl.Point]:
    return [point for point in rl.predict(model, rl.Device.load("h100-sxm")) if point.name == name]


def attends(model: rl.Model) -> list[rl.Point]:
    return [*kernels(model, "attention"), *kernels(model, "attention_sliding")]


def windows(model: rl.Model) -> dict[Any, int]:
    """Layers by the window of their attention, None where it is full."""
    return {point.work.dims.get("window"): point.count for point in attends(model)}


# What is read


def test_counts_by_hand():
    """The plain decoder, every matrix once."""
    assert read().parameters().total == PARAMETERS == 128_064


@pytest.mark.parametrize(
    ("key", "alias"),
    [
        ("hidden_size", "n_embd"),
        ("hidden_size", "d_model"),
        ("num_hidden_layers", "n_layer"),
        ("num_hidden_layers", "n_layers"),
        ("num_hidden_layers", "num_layers"),
        ("num_attention_heads", "n_head"),
        ("num_attention_heads", "n_heads"),
        ("num_key_value_heads", "kv_n_heads"),
        ("intermediate_size", "n_inner"),
        ("intermediate_size", "ffn_dim"),
        ("intermediate_size", "ffn_hidden_size"),
        ("max_position_embeddings", "n_positions"),
        ("max_position_embeddings", "max_seq_len"),
    ],
)
def test_aliases_mean_the_same(key, alias):
    """Whatever the file calls a size, the model is the same."""
    assert read((key,), **{alias: GOOD[key]}) == read()


def test_null_under_one_name_gives_way_to_another():
    """`n_inner: null` beside a real `intermediate_size` is no answer."""
    assert read(n_embd=None, n_inner=None) == read()


def test_explicit_head_dim_is_not_hidden_over_heads():
    """As in Qwen3-0.6B: 8 heads of 16 on a hidden size of 64, so q and o are 64 x 128, k and v 64 x 32."""
    model = read(head_dim=16)

    assert model.parameters().total == PARAMETERS + 4 * (2 * 64 * 64 + 2 * 64 * 16)
    assert kernels(model, "attention")[0].work.dims["head_dim"] == 16
    assert cache(model) == 2 * 2 * 16 * 4 * 2


def test_null_head_dim_is_hidden_over_heads():
    """`head_dim: null` is an absent one."""
    assert read(head_dim=None) == read()


@pytest.mark.parametrize("absent", [True, False], ids=["absent", "null"])
def test_no_kv_heads_is_multi_head_attention(absent):
    """Every query head then has its K and V: 2 x 8 x 8 numbers a layer and position."""
    model = read(("num_key_value_heads",)) if absent else read(num_key_value_heads=None)

    assert cache(model) == 2 * 8 * 8 * 4 * 2
    assert model == read(num_key_value_heads=8)


def test_one_kv_head_is_multi_query_attention():
    """k and v are 64 x 8, and a position caches 2 x 8 numbers a layer."""
    model = read(num_key_value_heads=1)

    assert model.parameters().total == PARAMETERS - 4 * 2 * 64 * 8
    assert cache(model) == 2 * 1 * 8 * 4 * 2


def test_tied_embedding_is_stored_once():
    """One table of 100 x 64 less."""
    model = read(tie_word_embeddings=True)

    assert model.parameters().total == PARAMETERS - 100 * 64
    assert model.weight_bytes(rl.Precision(), rl.Shard()) == 2 * (PARAMETERS - 100 * 64)


@pytest.mark.parametrize("tied", [True, False])
def test_lm_head_is_streamed_tied_or_not(tied):
    """The output GEMM reads its 100 x 64 matrix either way."""
    [head] = kernels(read(tie_word_embeddings=tied), "lm_head")

    assert head.work.cost.memory["weights"] == 100 * 64 * 2


def test_whole_float_is_a_whole_number():
    """64.0 is 64, and counts stay exact ints."""
    model = read(hidden_size=64.0, vocab_size=100.0)

    assert model == read()
    assert type(model.parameters().total) is int


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_theta": math.nan},
        {"rms_norm_eps": math.inf},
        {"initializer_range": "NaN"},
        {"torch_dtype": 7},
        {"bos_token_id": [1, 2]},
        {"architectures": None},
        {"\x1b[31m": "\n"},
    ],
    ids=repr,
)
def test_keys_that_do_not_decide_may_hold_anything(changes):
    """Only what a count hangs on is looked at."""
    assert read(**changes) == read()


def test_quantisation_is_assumed_away_in_words():
    """Weights are counted in the format that was asked for, and the answer says so."""
    assert any("quantised" in each for each in read(quantization_config={"bits": 4}).assumptions)


def test_known_family_needs_no_assumption():
    """A llama says everything."""
    assert read().assumptions == ()


def test_unknown_model_type_is_answered_with_an_assumption_that_names_it():
    """The numbers are those of the plain decoder, and the answer says so."""
    model = read(model_type="brand_new")

    assert model.parameters().total == PARAMETERS
    [assumption] = model.assumptions
    assert "'brand_new'" in assumption


@pytest.mark.parametrize("name", [None, 5, ["llama"], {}, "", "LLAMA"], ids=repr)
def test_model_type_that_is_no_known_name_is_an_unknown_one(name):
    """Whatever stands there, it is named and nothing breaks."""
    assert "model_type" in read(model_type=name).assumptions[0]


@pytest.mark.parametrize("key", ["attention_bias", "mlp_bias"])
def test_biases_of_an_unknown_family_are_counted_where_a_key_says_so(key):
    """As the assumption promises: no biases but where a key says so."""
    assert read(model_type="brand_new", **{key: True}).parameters().total > PARAMETERS


# What is refused because it is not counted yet


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("linear_num_key_heads", 16),
        ("linear_attn_config", {"num_heads": 32}),
        ("ssm_state_size", 128),
        ("state_size", 16),
        ("mamba_d_state", 128),
        ("mamba_num_heads", 64),
        ("hybrid_override_pattern", "M-M*"),
        ("rwkv_hidden_size", 64),
        ("is_encoder_decoder", True),
        ("encoder_layers", 12),
        ("num_kv_shared_layers", 15),
        ("hidden_size_per_layer_input", 256),
        ("add_cross_attention", True),
        ("zero_expert_num", 2),
        ("thinker_config", {"text_config": {}}),
        ("layer_types", ["conv", "full_attention", "conv", "full_attention"]),
        ("layer_types", ["linear_attention", "full_attention"] * 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("model_type", ["llama", "brand_new"])
def test_structures_that_are_not_counted_are_refused(model_type, key, value):
    """The key that says so is named; a dense decoder in its place would be a wrong answer."""
    message = refused(model_type=model_type, **{key: value})

    assert key in message
    assert "Possible" in message


@pytest.mark.parametrize(
    "key", ["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "kv_lora_rank", "q_lora_rank"]
)
def test_structures_that_a_family_does_not_have_are_refused(key):
    """A Llama has neither experts nor latent attention: with keys of them it is no Llama."""
    message = refused(**{key: 8})

    assert key in message
    assert "model_type 'llama'" in message


@pytest.mark.parametrize(
    ("key", "value", "missing"),
    [
        ("num_experts", 8, "num_experts_per_tok"),
        ("n_routed_experts", 64, "num_experts_per_tok"),
        ("kv_lora_rank", 512, "qk_rope_head_dim"),
        ("q_lora_rank", 512, "q_lora_rank"),
    ],
)
def test_structures_of_an_unknown_family_need_all_their_keys(key, value, missing):
    """No size of experts or latents is filled in."""
    assert missing in refused(model_type="brand_new", **{key: value})


@pytest.mark.parametrize(("model_type", "key"), [("mixtral", "num_local_experts"), ("deepseek_v3", "n_routed_experts")])
def test_a_family_with_experts_or_latents_is_no_dense_decoder_without_their_keys(model_type, key):
    """A file that was cut is refused by the key that it lacks."""
    assert key in refused(model_type=model_type)


@pytest.mark.parametrize("part", ["vision", "audio"])
def test_what_stands_beside_the_text_model_is_named(part):
    """Not counted, and not left out silently."""
    model = read(**{f"{part}_config": {"hidden_size": 1024}})

    assert model.parameters().total == PARAMETERS
    assert any(part in each and "not counted" in each for each in model.assumptions)
    assert (model.parameters().vision is None) == (part == "vision")


def test_a_text_model_inside_a_larger_one():
    """Its section is read; what it leaves out is its class's default, and the answer says so."""
    inner = {key: value for key, value in GOOD.items() if key not in ("num_attention_heads", "vocab_size")}
    model = configs.read({"model_type": "llava", "text_config": inner}, "model", "config.json")

    assert model.parameters().embedding == 32_000 * 64
    assert any("num_attention_heads 32" in each and "LlamaConfig" in each for each in model.assumptions)


@pytest.mark.parametrize("tied", [True, False])
def test_tying_is_the_larger_models_to_say(tied):
    """Of two keys the outer one counts."""
    text = {**GOOD, "tie_word_embeddings": not tied}
    model = configs.read({"tie_word_embeddings": tied, "text_config": text}, "model", "config.json")

    assert model.tied is tied


def test_a_nested_config_that_is_none():
    """One line with its key."""
    with pytest.raises(ConfigError, match="text_config"):
        configs.read({"text_config": [1]}, "model", "config.json")


def test_an_unknown_family_with_experts_and_latents_is_read_by_structure():
    """By the keys alone it has the parameters of the family that has the same; the answer says what was assumed."""
    keys = {key: value for key, value in GOOD.items() if key != "model_type"}
    deep = {
        **{"kv_lora_rank": 16, "q_lora_rank": 20, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6},
        **{"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "n_shared_experts": 1},
        **{"first_k_dense_replace": 1, "num_nextn_predict_layers": 0, "num_key_value_heads": 8},
    }
    known, unknown = (
        configs.read({"model_type": kind, **keys, **deep, "odd_key": 3}, "model", "config.json")
        for kind in ("deepseek_v3", "brand_new")
    )

    assert known.parameters() == unknown.parameters()
    assert known.assumptions == ()
    assert "experts" in unknown.assumptions[0]
    assert "latent attention" in unknown.assumptions[0]
    assert any("odd_key" in each for each in unknown.assumptions)


def test_layers_that_predict_further_tokens_stand_apart():
    """Two norms, a join, a norm, and a layer like the last: in no other count, and named."""
    deep = {
        **{"kv_lora_rank": 16, "q_lora_rank": 20, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6},
        **{"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "n_shared_experts": 1},
        **{"first_k_dense_replace": 1, "num_key_value_heads": 8, "model_type": "deepseek_v3"},
    }
    without, one, two = (
        read(num_nextn_predict_layers=count, **{k: v for k, v in deep.items() if k != "x"}) for count in (0, 1, 2)
    )
    layer = sum(each.parameters for part in one.blocks[-1].parts for each in part.weights())

    assert without.parameters().total == one.parameters().total == two.parameters().total
    assert one.parameters().prediction == layer + 3 * 64 + 2 * 64 * 64
    assert two.parameters().prediction == 2 * layer + 6 * 64 + 4 * 64 * 64
    assert any("predicts further tokens" in each for each in one.assumptions)


@pytest.mark.parametrize("value", [None, 0, False, {}, []], ids=repr)
@pytest.mark.parametrize("key", ["num_experts", "kv_lora_rank", "is_encoder_decoder", "vision_config"])
def test_structures_that_are_switched_off_are_none(key, value):
    """A file of a dense model may carry the keys of others."""
    assert read(**{key: value}) == read()


def test_cross_attention_of_gpt2_is_not_left_out():
    """It adds 7,344 parameters to these 23,688; transformers counts 31,032 on three layers of width 24."""
    keys = {**LEARNED, "n_layer": 3, "add_cross_attention": True}

    with pytest.raises(ConfigError, match="add_cross_attention"):
        configs.read(keys, "model", "config.json")


def test_multi_query_by_a_flag_is_not_read_as_multi_head():
    """Falcon's and GPT-BigCode's flag means one KV head, an eighth of this cache; better no answer than 8 heads."""
    try:
        model = read(("num_key_value_heads",), model_type="brand_new", multi_query=True)
    except ConfigError as error:
        assert "multi_query" in str(error)
    else:
        assert cache(model) == cache(read(num_key_value_heads=1))


# What cannot be


@pytest.mark.parametrize("key", DECIDING)
def test_missing_key_is_named_with_what_it_decides(key):
    """No size is filled in."""
    message = refused((key,))

    assert key in message
    assert "missing" in message
    assert DECIDING[key] in message


@pytest.mark.parametrize("key", DECIDING)
def test_null_is_missing(key):
    """`null` is no size."""
    assert key in refused(**{key: None})


def test_learned_positions_need_their_number():
    """A table of positions has rows."""
    keys = {key: value for key, value in LEARNED.items() if key != "n_positions"}

    with pytest.raises(ConfigError, match="n_positions"):
        configs.read(keys, "model", "config.json")


BAD_VALUES = {
    "zero": "0",
    "negative": "-1",
    "string": '"64"',
    "true": "true",
    "false": "false",
    "list": "[64]",
    "object": '{"a": 64}',
    "fraction": "64.5",
    "NaN": "NaN",
    "Infinity": "Infinity",
    "-Infinity": "-Infinity",
    "1e400": "1e400",
    "huge": str(1 << 60),
    "huge float": "1e300",
    "400 digits": "9" * 400,
    "control characters": '"\\u001b[31m\\n\\u0000"',
}


@pytest.mark.parametrize("value", BAD_VALUES.values(), ids=BAD_VALUES)
@pytest.mark.parametrize("key", [*DECIDING, "num_key_value_heads", "head_dim", "max_position_embeddings"])
def test_impossible_value_is_named_with_what_is_possible(tmp_path: Path, key, value):
    """From a file: the message has the file, the key, the value and what is possible, in one printable line."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**GOOD, key: "HERE"}).replace('"HERE"', value))

    with pytest.raises(ConfigError) as caught:
        rl.Model.load(path)
    message = str(caught.value)
    assert str(path) in message
    assert f"{key} is " in message
    assert "Possible: a whole number" in message
    assert message.isprintable()
    assert len(message) < len(str(path)) + 250


@pytest.mark.parametrize("value", ["false", 0, 1, [], {}, 0.5, math.nan], ids=repr)
@pytest.mark.parametrize("key", ["tie_word_embeddings", "attention_bias", "mlp_bias"])
def test_flag_is_true_or_false(key, value):
    """ "false" in quotes would count as true elsewhere."""
    message = refused(**{key: value})

    assert key in message
    assert "Possible: true or false" in message


@pytest.mark.parametrize("value", [1.5, -0.1, math.nan, math.inf, "0.5", True, [0.5]], ids=repr)
def test_share_is_a_number_from_0_to_1(value):
    """The part of a head that is rotated."""
    message = refused(model_type="phi", partial_rotary_factor=value)

    assert "partial_rotary_factor" in message
    assert "0 to 1" in message


def test_heads_are_divisible_by_kv_heads():
    """8 query heads do not share 3 KV heads evenly."""
    message = refused(num_key_value_heads=3)

    assert "8 attention heads" in message
    assert "3 KV heads" in message


def test_kv_heads_are_no_more_than_heads():
    """16 KV heads for 8 query heads contradict."""
    assert "16 KV heads" in refused(num_key_value_heads=16)


@pytest.mark.parametrize("head_dim", [{}, {"head_dim": None}], ids=["absent", "null"])
def test_hidden_size_is_divisible_by_heads_without_head_dim(head_dim):
    """62 over 8 is no width; the message names the key that would decide."""
    message = refused(hidden_size=62, **head_dim)

    assert "62" in message
    assert "head_dim" in message


def test_hidden_size_need_not_be_divisible_with_head_dim():
    """q and o are 62 x 64, k and v 62 x 16."""
    model = read(hidden_size=62, head_dim=8)

    assert model.parameters().total == 4 * (2 * 62 * 64 + 2 * 62 * 16 + 3 * 62 * 96 + 2 * 62) + 2 * 100 * 62 + 62


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(10**5000, id="an int of 5,001 digits"),
        pytest.param(-(10**5000), id="a negative one"),
        pytest.param([10**5000], id="inside a list"),
    ],
)
@pytest.mark.parametrize("key", ["hidden_size", "num_experts", "tie_word_embeddings"])
def test_int_too_long_to_print_is_an_error_of_the_config(key, value):
    """Python refuses to print such a number, in a dict as it comes; the message must not die of it."""
    assert key in refused(**{key: value})


@pytest.mark.parametrize("key", ["hidden_size", "num_experts", "tie_word_embeddings"])
def test_value_too_deep_to_print_is_an_error_of_the_config(key):
    """100,000 lists in each other."""
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]

    assert key in refused(**{key: value})


# Windows


def test_sliding_window_of_mistral():
    """4,096 positions are seen and kept, of 8,192."""
    model = read(model_type="mistral", sliding_window=4096)

    assert windows(model) == {4096: 4}
    assert cache(model, 8192) == cache(model, 4096) == 4096 * cache(model)


@pytest.mark.parametrize("changes", [{}, {"sliding_window": None}], ids=["absent", "null"])
def test_no_window_is_full_attention(changes):
    """As in Mistral 0.2 and later."""
    assert windows(read(model_type="mistral", **changes)) == {None: 4}


@pytest.mark.parametrize("model_type", ["qwen2", "qwen3", "mistral", "brand_new"])
def test_window_that_is_switched_off_is_none(model_type):
    """`use_sliding_window: false` leaves the window out whatever its size."""
    model = read(model_type=model_type, head_dim=8, use_sliding_window=False, sliding_window=16, max_window_layers=2)

    assert windows(model) == {None: 4}


@pytest.mark.parametrize("model_type", ["qwen2", "qwen3"])
def test_window_of_qwen_is_off_by_default(model_type):
    """A `sliding_window` alone says nothing there."""
    assert windows(read(model_type=model_type, head_dim=8, sliding_window=16)) == {None: 4}


@pytest.mark.parametrize(
    ("full", "expected"), [(0, {16: 4}), (1, {None: 1, 16: 3}), (3, {None: 3, 16: 1}), (4, {None: 4}), (28, {None: 4})]
)
@pytest.mark.parametrize("model_type", ["qwen2", "qwen3"])
def test_first_layers_of_qwen_see_everything(model_type, full, expected):
    """`max_window_layers` layers are full before the sliding ones start."""
    model = read(model_type=model_type, head_dim=8, use_sliding_window=True, sliding_window=16, max_window_layers=full)

    assert windows(model) == expected


def test_layer_types_mix_full_and_sliding_layers():
    """Three layers keep 16 positions, one keeps all 1,000: (3 x 16 + 1000) x 2 x 16 numbers of 2 bytes."""
    types = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    model = read(model_type="brand_new", sliding_window=16, layer_types=types)

    assert windows(model) == {None: 1, 16: 3}
    assert cache(model, 1000) == (3 * 16 + 1000) * 2 * 16 * 2
    assert model.parameters().total == PARAMETERS


def test_layer_types_stand_before_max_window_layers():
    """Where both are there, the list is the more exact."""
    types = ["sliding_attention"] * 3 + ["full_attention"]
    model = read(model_type="qwen2", use_sliding_window=True, sliding_window=16, max_window_layers=2, layer_types=types)

    assert windows(model) == {None: 1, 16: 3}


@pytest.mark.parametrize("changes", [{}, {"sliding_window": None}], ids=["absent", "null"])
def test_sliding_layers_need_a_window(changes):
    """A list that names sliding layers and no size decides nothing about them."""
    types = ["sliding_attention"] * 3 + ["full_attention"]

    assert "sliding_window" in refused(model_type="brand_new", layer_types=types, **changes)


@pytest.mark.parametrize("window", [{}, {"sliding_window": 16}], ids=["no window", "window"])
@pytest.mark.parametrize(
    "types",
    [
        ["full_attention"] * 3,
        ["full_attention"] * 5,
        "full_attention",
        {"full_attention": 4},
        4,
        True,
    ],
    ids=repr,
)
def test_layer_types_is_a_list_with_a_type_for_each_layer(types, window):
    """Another length contradicts num_hidden_layers."""
    message = refused(layer_types=types, **window)

    assert "layer_types" in message
    assert "a list of 4" in message


@pytest.mark.parametrize("window", [{}, {"sliding_window": 16}], ids=["no window", "window"])
@pytest.mark.parametrize("kind", ["mamba", "", None, 1, True, math.nan, ["full_attention"], {}], ids=repr)
def test_unknown_layer_type_is_named(kind, window):
    """A kind of layer that is not counted is no attention, window or not."""
    message = refused(layer_types=[*["full_attention"] * 3, kind], **window)

    assert repr(kind) in message
    assert "full_attention, sliding_attention" in message


@pytest.mark.parametrize("value", [0, -1, "4096", True, 3.5, math.nan, [4096]], ids=repr)
def test_window_is_a_whole_number(value):
    """It decides how far a query sees."""
    assert "sliding_window" in refused(model_type="mistral", sliding_window=value)


# Rotary share


def test_rotary_share_is_read_where_transformers_5_writes_it():
    """`rope_parameters.partial_rotary_factor` of a saved Phi: a quarter of each head, not the default half."""
    top = read(model_type="phi", partial_rotary_factor=0.25)
    nested = read(model_type="phi", rope_parameters={"rope_theta": 10000.0, "partial_rotary_factor": 0.25})

    assert kernels(nested, "rope")[0].work.flops == kernels(top, "rope")[0].work.flops == 3 * (8 + 2) * 8 // 4


# Anything


NAMES = sorted(
    {*GOOD, *LEARNED, *(alias for each in configs.ALIASES.values() for alias in each)}
    | {"sliding_window", "use_sliding_window", "max_window_layers", "layer_types", "head_dim", "attention_bias"}
    | {
        "mlp_bias",
        "attn_config",
        "word_embed_proj_dim",
        "partial_rotary_factor",
        "rotary_pct",
        "no_bias",
        "qk_layernorm",
    }
    | {
        "expansion_ratio",
        "rope_parameters",
        "num_experts",
        "vision_config",
        "quantization_config",
        "tie_word_embeddings",
    }
)
FAMILIES = ["llama", "mistral", "qwen2", "qwen3", "gemma", "phi", "phi3", "gpt2", "gpt_neox", "opt", "mpt", "else"]
NUMBERS = st.integers() | st.integers(0, 64) | st.floats() | st.sampled_from([1e400, 2**48, 2**48 + 1, -0.0, 4.0])
WORDS = st.text(max_size=8) | st.sampled_from(["full_attention", "sliding_attention", "\x1b[31m", "64"])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
LIKELY = st.fixed_dictionaries(
    {},
    optional={
        "sliding_window": NUMBERS,
        "use_sliding_window": st.booleans() | JSON,
        "max_window_layers": st.integers(-1, 9),
        "layer_types": st.lists(WORDS | JSON, min_size=4, max_size=4),
        "head_dim": st.integers(0, 16),
        "num_key_value_heads": st.integers(0, 9),
        "tie_word_embeddings": st.booleans(),
    },
)


@settings(
    max_examples=300, deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    family=st.sampled_from(FAMILIES),
    gone=st.sets(st.sampled_from(sorted(GOOD)), max_size=1),
    likely=LIKELY,
    changed=st.dictionaries(st.sampled_from(NAMES), JSON, max_size=2),
)
def test_any_config_is_a_model_or_a_clear_error(family, gone, likely, changed):
    """Keys lost, values replaced by any JSON: never anything but a RooflineError of one line."""
    mutated = {**GOOD, "model_type": family, **likely, **changed}
    try:
        model = rl.Model.load({key: value for key, value in mutated.items() if key not in gone})
    except RooflineError as error:
        assert str(error).isprintable()
    else:
        ledger = rl.predict(model, rl.Device.load("h100-sxm"), rl.Workload.decode(2, 64))
        assert ledger.total.flops > 0
        assert model.parameters().total > 0


def test_layers_beyond_reason_are_refused_at_once():
    """A list of a billion layers is no model, and takes no memory to refuse."""
    assert "10,000" in refused(num_hidden_layers=10**9)


DEEP = {
    **{"model_type": "deepseek_v32", "num_key_value_heads": 8, "kv_lora_rank": 16, "q_lora_rank": 20},
    **{"qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6, "n_routed_experts": 8, "num_experts_per_tok": 2},
    **{"moe_intermediate_size": 12, "n_shared_experts": 1, "first_k_dense_replace": 1},
    **{"index_topk": 5, "index_n_heads": 3, "index_head_dim": 8},
}


@pytest.mark.parametrize(
    "key",
    [
        *("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "n_routed_experts"),
        *("num_experts_per_tok", "index_topk"),
    ],
)
def test_missing_key_of_latents_experts_and_indexer(key):
    """No size of these is filled in for a file of its own."""
    keys = {name: value for name, value in DEEP.items() if name != key}

    assert key in refused(**keys)


@pytest.mark.parametrize("key", ["first_k_dense_replace", "n_shared_experts", "moe_intermediate_size", "q_lora_rank"])
def test_documented_default_is_named(key):
    """What the family's class has for an absent key is counted, and the answer says so with its source."""
    keys = {name: value for name, value in DEEP.items() if name != key}
    model = read(**keys)

    assert any(key in each and "DeepseekV32Config of transformers" in each for each in model.assumptions)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"mlp_layer_types": ["dense"]}, "mlp_layer_types"),
        ({"mlp_layer_types": ["dense", "odd", "sparse", "sparse"]}, "mlp_layer_types"),
        ({"mlp_only_layers": [9]}, "mlp_only_layers"),
        ({"mlp_only_layers": "1,x"}, "mlp_only_layers"),
        ({"moe_layers_enum": "1,22222222222"}, "moe_layers_enum"),
        ({"moe_layer_freq": [0, 1]}, "moe_layer_freq"),
        ({"moe_layer_freq": 0}, "moe_layer_freq"),
        ({"num_experts_per_tok": 9}, "9 experts a token"),
        ({"num_experts_per_tok": [2, 3, 2, 2]}, "num_experts_per_tok"),
        ({"moe_intermediate_size": 0}, "moe_intermediate_size"),
        ({"n_routed_experts": 1 << 40}, "n_routed_experts"),
        ({"sliding_window_pattern": "GL", "sliding_window": 4}, "sliding_window_pattern"),
        ({"no_rope_layers": [1, 2, 1, 1]}, "no_rope_layers"),
        ({"q_lora_rank": None}, "q_lora_rank"),
    ],
    ids=str,
)
def test_patterns_that_cannot_be(changes, word):
    """One line that names the key."""
    assert word in refused(**{**DEEP, **changes})


@pytest.mark.parametrize(
    ("changes", "layers"),
    [
        ({}, [1, 2, 3]),
        ({"first_k_dense_replace": 2}, [2, 3]),
        ({"mlp_layer_types": ["sparse", "dense", "sparse", "dense"]}, [0, 2]),
        ({"mlp_only_layers": [2]}, [1, 3]),
        ({"moe_layers_enum": "1,3"}, [1, 3]),
        ({"moe_layer_freq": 2}, [2]),
        ({"moe_layer_freq": [0, 1, 0, 1]}, [1, 3]),
        ({"moe_layer_end_index": 2}, [1, 2]),
        ({"moe_layer_end_index": -1}, [1, 2, 3]),
        ({"decoder_sparse_step": 2}, [1, 3]),
        ({"first_k_dense_replace": 4}, []),
        ({"num_experts_per_tok": [2, 2, 2, 2]}, [1, 2, 3]),
    ],
    ids=str,
)
def test_which_layers_have_experts(changes, layers):
    """Every key that is there has its say."""
    model = read(**{**DEEP, **changes})

    assert [
        index
        for index in range(4)
        for block in model.blocks
        if index in block.layers and any(part.label == "moe" for part in block.parts)
    ] == layers


@pytest.mark.parametrize(
    ("changes", "limits"),
    [
        ({"sliding_window_pattern": 2, "sliding_window": 7}, {7: 2, None: 2}),
        ({"sliding_window_pattern": "LLG", "sliding_window": 7}, {7: 3, None: 1}),
        ({"layer_types": ["local", "global", "attention", "local"], "sliding_window": 7}, {7: 2, None: 2}),
        ({"sliding_window_pattern": 2, "sliding_window": 7, "use_sliding_window": False}, {None: 4}),
    ],
    ids=str,
)
def test_patterns_of_windows(changes, limits):
    """Of every so many layers the last sees everything."""
    assert windows(read(model_type="mistral", **changes)) == limits


def test_what_stands_beside_a_text_model_under_other_names_is_named():
    """Fuyu's image patches have no section of their own: their keys are named."""
    model = configs.read({"patch_size": 30, "num_channels": 3, "text_config": GOOD}, "model", "config.json")

    assert any("beside the text model" in each and "patch_size" in each for each in model.assumptions)


TEXT = json.dumps(GOOD)
HOSTILE = {
    "truncated": (TEXT[: len(TEXT) // 2], "not valid JSON"),
    "empty": ("", "not valid JSON"),
    "zeros": ("\0" * 1000, "not valid JSON"),
    "objects 100,000 deep": ('{"a":' * 100_000, "nested or long beyond reason"),
    "lists 100,000 deep": ('{"hidden_size":' + "[" * 100_000 + "]" * 100_000 + "}", "nested or long beyond reason"),
    "a number of 100,000 digits": (TEXT[:-1] + ',"x":' + "9" * 100_000 + "}", "nested or long beyond reason"),
    "2 million keys": ("{" + ",".join(f'"{i}":1' for i in range(2_000_000)) + "}", "more than the 4 MiB that are read"),
    "400,000 keys": ("{" + ",".join(f'"{i:x}":1' for i in range(400_000)) + "}", "hidden_size"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_file_is_one_line_at_once(tmp_path: Path, name):
    """Seconds at the most, and a line that fits a screen."""
    text, says = HOSTILE[name]
    path = tmp_path / "config.json"
    path.write_text(text)
    start = time.process_time()
    with pytest.raises(ConfigError, match=says) as caught:
        rl.Model.load(path)

    assert time.process_time() - start < 5
    assert str(caught.value).isprintable() and len(str(caught.value)) < len(str(path)) + 250


def test_two_million_keys_of_a_dict_are_looked_through_only_so_far():
    """A known family does not mind them; of an unknown one the first that say something are named."""
    many = {f"k{i}": 1 for i in range(2_000_000)}
    start = time.process_time()
    known = rl.Model.load({**GOOD, **many})
    unknown = rl.Model.load({**{key: each for key, each in GOOD.items() if key != "model_type"}, **many})

    assert known.parameters() == rl.Model.load(GOOD).parameters()
    assert any("are not read: 'k0'" in each for each in unknown.assumptions)
    assert max(map(len, unknown.assumptions)) < 300
    assert time.process_time() - start < 20


def test_values_nested_beyond_reason_are_one_line():
    """As no file could hold them: built in memory, 100,000 deep."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for key in ("hidden_size", "quantization_config", "layer_types", "num_attention_heads"):
        with pytest.raises(ConfigError) as caught:
            rl.Model.load({**GOOD, key: deep})
        assert str(caught.value).isprintable() and len(str(caught.value)) < 250
