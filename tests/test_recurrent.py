"""Recurrent layers: a state that does not grow, a step and a chunked scan, by hand."""

from __future__ import annotations

import numpy as np
import pytest

import roofline as rl
from family_cases import CASES, DELTA, keys_of
from roofline import recurrence
from roofline.parts.recurrent import SORT

RECURRENT = (
    *("nemotron_h", "qwen3_5_text", "qwen3_next", "qwen3_5_moe_text", "bamba", "granitemoehybrid", "jamba"),
    *("mamba", "mamba2", "falcon_mamba", "falcon_h1", "zamba", "zamba2", "kimi_linear", "lfm2", "lfm2_moe"),
    *("recurrent_gemma", "minimax", "olmo_hybrid", "rwkv", "bailing_hybrid", "lara_mini", "lfm3"),
)
HYBRID = [case for case in CASES if case[0] in RECURRENT]
MODELS = [rl.Model.load(keys_of(*case)) for case in HYBRID]
FORMATS = rl.Precision(), rl.Shard()


@pytest.mark.parametrize("model", MODELS, ids=lambda each: each.name)
def test_the_state_does_not_grow_with_context(model):
    """Recurrent layers keep as much of 1 token as of 100,000; what grows is that of the others."""
    kinds = {each.sort: each for each in model.caches()}
    state = kinds[SORT]

    assert state.bytes(1, *FORMATS) == state.bytes(100_000, *FORMATS) > 0
    assert state.bytes_per_token(*FORMATS) == 0
    grown = model.cache_bytes(1001, *FORMATS) - model.cache_bytes(1000, *FORMATS)
    assert grown == model.cache_bytes_per_token(*FORMATS)


def test_state_bytes_by_hand():
    """2 layers of 4 heads of 8 x 6 in FP32, and 2 columns of 2 x 16 + 24 channels in BF16."""
    model = rl.Model.load(keys_of(*HYBRID[[case[0] for case in HYBRID].index("qwen3_5_text")]))
    state = next(each for each in model.caches() if each.sort == SORT)

    assert state.layers == 2
    assert state.bytes(8192, *FORMATS) == 2 * (4 * 8 * 6 * 4 + 2 * (2 * 16 + 24) * 2)


def test_the_format_of_the_state_is_the_file_s():
    """BF16 halves it; a file that says nothing has FP32, and the answer says so; nonsense is refused."""
    keys = keys_of(*HYBRID[[case[0] for case in HYBRID].index("qwen3_5_text")])
    half = rl.Model.load({**keys, "mamba_ssm_dtype": "bfloat16"})
    silent = rl.Model.load({key: each for key, each in keys.items() if key != "mamba_ssm_dtype"})
    sizes = [next(e for e in m.caches() if e.sort == SORT).bytes(1, *FORMATS) for m in (half, silent)]

    assert sizes[1] - sizes[0] == 2 * 4 * 8 * 6 * 2
    assert any("kept in FP32" in each for each in silent.assumptions)
    with pytest.raises(rl.RooflineError, match="mamba_ssm_dtype is 'float7'"):
        rl.Model.load({**keys, "mamba_ssm_dtype": "float7"})


def brute_step(heads: int, key: int, value: int, delta: bool) -> int:
    """FLOPs of one token, element by element: S = a S; (v - kS); S += k v; y = q S."""
    flops = 0
    for _ in range(heads):
        flops += key * value  # decay
        flops += 2 * key * value if delta else 0  # what the state has already
        flops += 2 * key * value  # the new outer product, added
        flops += 2 * key * value  # read by q
    return flops


@pytest.mark.parametrize("delta", [False, True])
def test_a_step(delta):
    work = recurrence.scan(
        sequences=3, new=1, heads=4, groups=2, key_dim=8, value_dim=6, chunk=64, delta=int(delta), context=9
    )

    assert work.cost.flops == {"fp32-vector": 3 * brute_step(4, 8, 6, delta), "bf16": 0}
    assert work.cost.memory["kv"] == 2 * 3 * 4 * 8 * 6 * 4
    assert work.cost.memory["activations"] == 3 * (2 * 2 * 8 + 2 * 4 * 6 + 4) * 2


@pytest.mark.parametrize("new", [2, 7, 8, 9, 64])
@pytest.mark.parametrize("delta", [False, True])
def test_a_chunked_scan(new, delta):
    """Pair by pair within chunks of 8, and every token with the state."""
    heads, groups, key, value, size = 4, 2, 8, 6, 8
    flops = 0
    for start in range(0, new, size):
        rows = min(size, new - start)
        for row in range(rows):
            flops += 2 * (row + 1) * (groups * key + heads * value)  # q and k of a group, scores and v of a head
            flops += 4 * heads * key * value  # out of the state and into it
            if delta:
                flops += 2 * (row + 1) * groups * key  # k and k
                flops += 2 * row * heads * (key + value)  # the solved triangle, of v and of k
                flops += 2 * heads * key * value  # what the state has already
    work = recurrence.scan(
        sequences=2, new=new, heads=heads, groups=groups, key_dim=key, value_dim=value, chunk=size, delta=int(delta)
    )

    assert work.cost.flops["bf16"] == 2 * flops
    assert work.cost.flops["fp32-vector"] == 2 * -(-new // size) * heads * key * value
    assert work.cost.memory["kv"] == 2 * heads * key * value * 4  # written; there was none to read


def test_a_scan_without_chunks_is_steps():
    """Mamba 1: one token after another on the vector units."""
    work = recurrence.scan(sequences=2, new=10, heads=32, groups=1, key_dim=16, value_dim=1)

    assert work.cost.flops == {"fp32-vector": 2 * 10 * 5 * 32 * 16}


def test_a_short_convolution():
    """A multiply-add for each of 4 tokens; 3 columns a sequence are kept."""
    work = recurrence.short_conv(sequences=2, new=5, channels=96, kernel=4, context=1, biases=96)

    assert work.flops == 2 * 2 * 5 * 96 * 4
    assert work.cost.memory == {"weights": 96 * 5 * 2, "kv": 2 * 2 * 3 * 96 * 2, "activations": 2 * 2 * 5 * 96 * 2}


def test_ranks_add_up(h100):
    """Two ranks: half of the heads each."""
    case = next(case for case in HYBRID if case[0] == "nemotron_h")
    model, rows = rl.Model.load(keys_of(*case)), rl.Workload.decode(4, 100)
    whole, half = (rl.predict(model, h100, rows, shard=rl.Shard(tp)) for tp in (1, 2))
    scans = [sum(point.flops for point in each if point.work.op == "scan") for each in (whole, half)]

    assert scans[0] == 2 * scans[1] > 0


@pytest.mark.parametrize("model", MODELS, ids=lambda each: each.name)
def test_arrays_agree_with_ints(model, h100):
    """A sweep over contexts and batches gives what each gives alone."""
    sizes = np.array([1, 8, 64]), np.array([16, 1024, 8192])
    swept = rl.predict(model, h100, rl.Workload.decode(*sizes)).total.bound_seconds
    alone = [
        rl.predict(model, h100, rl.Workload.decode(int(n), int(c))).total.bound_seconds
        for n, c in zip(*sizes, strict=True)
    ]

    assert list(swept) == pytest.approx(alone, rel=1e-12)


def test_decode_of_a_hybrid_reads_its_state(h100):
    """Bytes of the state are those of its layers, read and written, whatever the context."""
    model = rl.Model.load(keys_of("qwen3_5_text", {**DELTA, "head_dim": 10, "full_attention_interval": 4}))
    moved = [
        sum(
            p.count * p.work.cost.memory.get("kv", 0)
            for p in rl.predict(model, h100, rl.Workload.decode(5, context))
            if p.part == "recurrent"
        )
        for context in (100, 10_000)
    ]
    state = next(each for each in model.caches() if each.sort == SORT)

    assert moved == [5 * 2 * state.bytes(1, *FORMATS)] * 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hybrid_override_pattern": "MX"}, "names 'X'"),
        ({"hybrid_override_pattern": ""}, "names nothing"),
        ({"hybrid_override_pattern": None}, "hybrid_override_pattern is missing"),
        ({"hybrid_override_pattern": "M", "n_groups": 4}, "6 heads are not divisible by 4 groups"),
        ({"hybrid_override_pattern": "M", "ssm_state_size": -1}, "ssm_state_size is -1"),
    ],
)
def test_a_pattern_that_cannot_be_is_one_line(changes, says):
    keys = keys_of(*HYBRID[[case[0] for case in HYBRID].index("nemotron_h")])
    with pytest.raises(rl.RooflineError, match=says) as caught:
        rl.Model.load({**keys, **changes})
    assert "\n" not in str(caught.value)


def test_training_goes_back_through_the_scan():
    """Twice the forward products, and every input and its gradient."""
    from roofline.backward import Formats, backward
    from roofline.dtypes import dtype

    bf16 = dtype("bf16")
    work = recurrence.scan(sequences=1, new=128, heads=4, groups=2, key_dim=8, value_dim=6, chunk=64)
    (gradient,) = backward(work, Formats(bf16, bf16, bf16, bf16))

    assert gradient.of == "dx"
    assert gradient.work.flops == 2 * work.flops


@pytest.mark.parametrize(
    ("family", "changes", "says"),
    [
        ("bamba", {"attn_layer_indices": [9]}, "attn_layer_indices is"),
        ("bamba", {"attn_layer_indices": 2}, "attn_layer_indices is"),
        ("bamba", {"mamba_d_head": 7}, "6 heads of 7 are not the 48"),
        ("bamba", {"layers_block_type": ["mamba"]}, "layers_block_type is no list of 4"),
        ("jamba", {"attn_layer_offset": -1}, "attn_layer_offset is -1"),
        ("jamba", {"mamba_dt_rank": 0}, "mamba_dt_rank is 0"),
        ("mamba2", {"head_dim": 9}, "6 heads of 9 are not the 48"),
        ("mamba", {"state_size": "8"}, "state_size is '8'"),
    ],
)
def test_layers_that_cannot_be_are_one_line(family, changes, says):
    case = next(case for case in HYBRID if case[0] == family)
    with pytest.raises(rl.RooflineError, match=says) as caught:
        rl.Model.load({**keys_of(*case), **changes})
    assert "\n" not in str(caught.value)


def test_a_rank_that_no_key_says_is_a_sixteenth():
    """24 wide: two, rounded up."""
    keys = {**keys_of(*next(case for case in HYBRID if case[0] == "mamba")), "time_step_rank": "auto"}
    weights = {each.name: each for _, part in rl.Model.load(keys).repeats for each in part.weights()}

    assert weights["dt_proj"].inp.size == 2
