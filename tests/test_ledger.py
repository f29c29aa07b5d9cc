"""What holds for every ledger, whatever the model, the device and the sizes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.catalogue import devices as catalogue_devices
from roofline.catalogue import load_model, model_ids

DEVICES = {each.id: each for each in catalogue_devices() if "bf16" in each.peak}
MODELS = {ident: rl.Model.load(ident) for ident in model_ids()}

models = st.sampled_from(sorted(MODELS))
devices = st.sampled_from(sorted(DEVICES))
sequences = st.integers(1, 5_000)
contexts = st.integers(0, 1 << 20)
news = st.integers(1, 20_000)
formats = st.sampled_from(["bf16", "fp8", "int4", "int4-g128", "mxfp4", "nvfp4", "fp8-block128", "fp32"])


@st.composite
def workloads(draw: st.DrawFn) -> rl.Workload:
    """Decode, prefill or both."""
    decode = rl.Workload.decode(draw(sequences), draw(contexts), draw(st.integers(1, 8)))
    prefill = rl.Workload.prefill(
        draw(st.integers(1, 64)), draw(news), draw(contexts), draw(st.sampled_from(["last", "all"]))
    )
    return draw(st.sampled_from([decode, prefill, rl.Workload.mixed(decode, prefill)]))


@st.composite
def settings_of(draw: st.DrawFn) -> dict[str, Any]:
    """Any built-in model on any device at any of its tensor rates, in any formats, over ranks that divide it."""
    device = DEVICES[draw(devices)]
    model = MODELS[draw(models)]
    rate = draw(st.sampled_from(sorted(each for each in device.peak if not each.endswith("-vector"))))
    shard = rl.Shard(draw(st.sampled_from([1, 2, 4, 8])))
    try:
        rl.predict(model, device, shard=shard)
    except rl.RooflineError:
        shard = rl.Shard()
    return {
        "model": model,
        "device": device,
        "precision": rl.Precision(
            weights=draw(formats),
            kv=draw(st.sampled_from(["bf16", "fp8", "nvfp4", "mxfp8", "int4"])),
            activations=draw(st.sampled_from(["bf16", "fp8", "fp32"])),
            compute=rate,
        ),
        "shard": shard,
        "fused": draw(st.booleans()),
        "efficiency": draw(st.sampled_from([None, (0.8, 0.75)])),
    }


@st.composite
def ledgers(draw: st.DrawFn) -> rl.Ledger:
    """Any pass in any setting."""
    return rl.predict(workload=draw(workloads()), **draw(settings_of()))


@given(ledgers())
@settings(max_examples=200, deadline=None)
def test_a_kernel_takes_at_least_its_bytes_and_its_flops(ledger):
    """bound >= bytes/bandwidth and >= FLOPs/peak of each rate that is known."""
    for point in ledger:
        assert point.bound.seconds >= point.work.bytes / ledger.device.bandwidth
        for rate, flops in point.work.cost.flops.items():
            if rate in ledger.device.peak:
                assert point.bound.seconds >= flops / ledger.device.peak[rate]


@given(ledgers())
@settings(max_examples=200, deadline=None)
def test_totals_are_sums_and_the_floor_is_below_them(ledger):
    """FLOPs and bytes add up exactly, seconds to rounding; floor <= sum <= no overlap; derated times are longer."""
    total = ledger.total
    assert total.flops == sum(p.count * p.work.flops for p in ledger)
    assert total.bytes == sum(p.count * p.work.bytes for p in ledger)
    assert total.seconds == pytest.approx(math.fsum(ledger.times))
    assert total.bound_seconds == pytest.approx(math.fsum(p.count * p.bound.seconds for p in ledger))
    assert total.floor_seconds <= total.bound_seconds * (1 + 1e-12)
    assert total.bound_seconds <= total.no_overlap_seconds * (1 + 1e-12)
    assert total.bound_seconds <= total.seconds * (1 + 1e-12)


@given(ledgers())
@settings(max_examples=100, deadline=None)
def test_record_adds_up(ledger):
    """What JSON says of the kernels adds up to what it says of the whole; shares to 1; its ints are ints."""
    record = ledger.to_dict()
    kernels = record["kernels"]
    for key in ("flops", "bytes"):
        assert record["total"][key] == sum(each[key] for each in kernels)
        assert isinstance(record["total"][key], int)
    for each in kernels:
        assert each["bytes"] == each["weight_bytes"] + each["kv_bytes"] + each["activation_bytes"]
    assert math.fsum(each["share"] for each in kernels) == pytest.approx(1)
    held = record["memory"]
    assert held["total_bytes"] == held["weight_bytes"] + held["kv_bytes"] + held["activation_bytes"]
    assert held["fits"] == (held["total_bytes"] <= held["capacity_bytes"])


@given(settings_of(), sequences, contexts, st.integers(2, 4_000), st.booleans(), st.data())
@settings(max_examples=150, deadline=None)
def test_more_of_anything_takes_no_less(setting, n, context, new, decode, data):
    """FLOPs, bytes, every time and the cache are monotone in sequences, context and new tokens."""
    more = data.draw(st.sampled_from([(1, 0, 0), (0, 1, 0), (0, 0, 1), (37, 1000, 13)]))

    def at(n: int, context: int, new: int) -> tuple[float, ...]:
        workload = rl.Workload.decode(n, context) if decode else rl.Workload.prefill(n, new, context)
        ledger = rl.predict(workload=workload, **setting)
        total = ledger.total
        return (
            *(total.flops, total.bytes, total.bound_seconds, total.floor_seconds, total.no_overlap_seconds),
            sum(rows_bytes(ledger)),
        )

    less = at(n, context, new)
    larger = at(n + more[0], context + more[1], new + more[2])
    assert all(a <= b * (1 + 1e-12) for a, b in zip(less, larger, strict=True))


def rows_bytes(ledger: rl.Ledger) -> list[int]:
    """Resident cache of each group."""
    return [ledger.model.resident_cache(rows, ledger.precision, ledger.shard) for rows in ledger.workload.groups]


@pytest.mark.parametrize("model", sorted(MODELS))
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_arrays_equal_scalars(model, phase):
    """A ledger over arrays is, element by element, the ledgers of its settings: bit for bit.

    To twelve digits where an expectation of experts is in it, which is no polynomial.
    """
    grid = list(itertools.product([1, 3, 64, 1000], [0, 1, 511, 8192, 100_000]))
    n, context = (np.array(each, dtype=float) for each in zip(*grid, strict=True))
    device = DEVICES["h100-sxm"]

    def load(n, context):
        return rl.Workload.decode(n, context) if phase == "decode" else rl.Workload.prefill(n, 300, context)

    array = rl.predict(MODELS[model], device, load(n, context), efficiency=(0.8, 0.75)).total
    scalars = [rl.predict(MODELS[model], device, load(a, b), efficiency=(0.8, 0.75)).total for a, b in grid]
    for name in (
        "flops",
        "bytes",
        "intensity",
        "seconds",
        "bound_seconds",
        "floor_seconds",
        "tokens_per_second",
        "of_peak",
    ):
        expected = np.array([getattr(each, name) for each in scalars], dtype=float)
        found = np.broadcast_to(getattr(array, name), expected.shape)
        routed = MODELS[model].parameters().experts > 0
        assert np.allclose(found, expected, rtol=1e-12, atol=0) if routed else np.array_equal(found, expected), name
    assert list(array.bound) == [each.bound for each in scalars]


def whole(work: rl.Work) -> tuple[int, int]:
    return work.flops, work.cost.memory.get("weights", 0)


@pytest.mark.parametrize("tp", [2, 4, 8])
@pytest.mark.parametrize("model", ["qwen3-8b", "llama-3.1-70b", "mistral-7b-v0.1", "gemma-7b", "mpt-7b"])
@given(workload=workloads(), weights=st.sampled_from(["bf16", "fp8", "int4", "int4-g32", "nvfp4"]))
@settings(max_examples=20, deadline=None)
def test_tensor_parallelism_conserves(model, tp, workload, weights):
    """The ranks' GEMMs and attention add up to the whole: FLOPs, streamed and stored weights, cache."""
    loaded, device = MODELS[model], DEVICES["h100-sxm"]
    precision = rl.Precision(weights=weights)
    one = rl.predict(loaded, device, workload, precision)
    many = rl.predict(loaded, device, workload, precision, shard=rl.Shard(tp))
    split = {p.name: (p.count, *whole(p.work), p.work.cost.memory.get("kv", 0)) for p in many}
    for point in one:
        if point.work.op in ("linear", "attention"):
            count, flops, weights, kv = split[point.name]
            assert count == point.count
            assert (tp * flops, tp * weights) == whole(point.work)
            assert tp * kv == point.work.cost.memory.get("kv", 0)
    norms = sum(
        repeat.times * each.bytes(one.precision, one.shard)
        for repeat in loaded.repeats
        for each in repeat.part.weights()
        if each.inp is None
    )
    stored = [loaded.weight_bytes(each.precision, each.shard) for each in (one, many)]
    assert tp * (stored[1] - norms) == stored[0] - norms


def test_collectives_of_a_split_layer():
    """Two all-reduces a layer of tokens x hidden, one after the embedding, one all-gather of the logits."""
    ledger = rl.predict(MODELS["llama-3.1-70b"], DEVICES["h100-sxm"], rl.Workload.decode(32), shard=rl.Shard(8))
    found = {p.name: (p.work.op, p.count, p.work.dims["bytes"]) for p in ledger if p.work.cost.links}

    assert found == {
        "embedding_all_reduce": ("all-reduce", 1, 32 * 8192 * 2),
        "attention_all_reduce": ("all-reduce", 80, 32 * 8192 * 2),
        "mlp_all_reduce": ("all-reduce", 80, 32 * 8192 * 2),
        "head_all_gather": ("all-gather", 1, 32 * 128_256 * 2),
    }
    layer = next(p for p in ledger if p.name == "mlp_all_reduce")
    assert layer.work.cost.link_bytes == 2 * 7 * 32 * 8192 * 2 / 8
    assert layer.bound.by == "link"
    assert layer.bound.seconds == layer.work.cost.link_bytes / 450e9


def test_kv_heads_are_replicated_where_ranks_outnumber_them():
    """8 ranks and 2 KV heads: each rank holds one whole KV head, four ranks the same."""
    model = load_model({**tiny(), "num_key_value_heads": 2, "num_attention_heads": 8})
    eight = rl.predict(model, DEVICES["h100-sxm"], rl.Workload.decode(), shard=rl.Shard(8))
    attention = next(p for p in eight if p.work.op == "attention")

    assert (attention.work.dims["heads"], attention.work.dims["kv_heads"]) == (1, 1)
    assert eight.model.cache_bytes(100, eight.precision, eight.shard) == 2 * 2 * 16 * 100 * 2


def tiny() -> dict[str, object]:
    """A Llama of two layers."""
    return {
        "model_type": "llama",
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "vocab_size": 1000,
        "tie_word_embeddings": False,
    }


def test_vocabulary_is_padded_and_it_says_so():
    """A vocabulary that the ranks do not divide is padded, as engines do; the answer says it."""
    model = load_model({**tiny(), "vocab_size": 1001})
    ledger = rl.predict(model, DEVICES["h100-sxm"], rl.Workload.decode(), shard=rl.Shard(2))

    assert next(p for p in ledger if p.name == "lm_head").work.dims["n"] == 501
    assert any("padded" in each for each in ledger.assumptions)


def test_mixed_pass_shares_every_weight_gemm():
    """Chunked prefill: 64 decode rows and 2 x 512 prefill rows go through each GEMM once; attention is apart."""
    decode, prefill = rl.Workload.decode(64, 4096), rl.Workload.prefill(2, 512, 1024)
    model, device = MODELS["qwen3-8b"], DEVICES["h100-sxm"]
    mixed, a, b = (rl.predict(model, device, each) for each in (rl.Workload.mixed(decode, prefill), decode, prefill))
    rows = {p.name: p for p in mixed}

    assert rows["qkv_proj"].work.dims["m"] == 64 + 1024
    assert rows["lm_head"].work.dims["m"] == 64 + 2
    for name, alone in (("attention_decode", a), ("attention_prefill", b)):
        assert rows[name].work == next(p for p in alone if p.name == "attention").work
    assert mixed.total.flops == a.total.flops + b.total.flops
    weights = [
        sum(p.count * p.work.cost.memory.get("weights", 0) for p in each if p.work.op == "linear")
        for each in (mixed, a)
    ]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("model", sorted(MODELS))
@pytest.mark.parametrize("tp", [1, 4])
def test_folding_keeps_flops_and_weights_and_saves_bytes(model, tp):
    """`fused`: the small kernels are gone, their FLOPs are not; bytes and seconds do not grow."""
    loaded, device = MODELS[model], DEVICES["a100-sxm-80gb"]
    shard = rl.Shard(1 if model.startswith(("gpt2", "phi-3")) and tp > 1 else tp)
    apart, fused = (
        rl.predict(loaded, device, rl.Workload.prefill(new=700), shard=shard, fused=each) for each in (False, True)
    )

    assert {p.work.op for p in fused} & {"norm", "activation", "rope"} == set()
    assert fused.total.flops == apart.total.flops
    assert weight_bytes(fused) == weight_bytes(apart)
    assert fused.total.bytes <= apart.total.bytes
    assert fused.total.bound_seconds <= apart.total.bound_seconds * (1 + 1e-12)
    assert fused.total.floor_seconds == pytest.approx(apart.total.floor_seconds)


def weight_bytes(ledger: rl.Ledger) -> int:
    return sum(p.count * p.work.cost.memory.get("weights", 0) for p in ledger)


def test_folding_by_hand():
    """One Llama layer: a norm leaves one read of the stream, a gated pair one of g, RoPE nothing."""
    model = load_model({**tiny(), "num_hidden_layers": 1})
    apart, fused = (
        {
            p.name: p.work.cost.memory["activations"]
            for p in rl.predict(model, DEVICES["h100-sxm"], rl.Workload.prefill(new=10, logits="all"), fused=each)
            if p.name != "lm_head"
        }
        for each in (False, True)
    )
    stream, wide = 10 * 128 * 2, 10 * 256 * 2

    extra = {name: moved - apart[name] for name, moved in fused.items()}
    assert extra.pop("embedding") == extra.pop("o_proj") == extra.pop("down_proj") == stream
    assert extra.pop("up_proj") == wide
    assert set(extra.values()) == {0}


def test_efficiency_moves_times_alone():
    """Bounds and the verdict stay; a memory-bound pass takes 1/0.8 as long; `of_peak` is of the whole peak."""
    model, device = MODELS["qwen3-8b"], DEVICES["h100-sxm"]
    bound = rl.predict(model, device)
    derated = rl.predict(model, device, efficiency=(0.8, 1.0))

    assert [p.bound for p in derated] == [p.bound for p in bound]
    assert derated.total.bound == bound.total.bound
    assert derated.total.seconds == pytest.approx(bound.total.bound_seconds / 0.8)
    assert derated.total.of_peak == pytest.approx(bound.total.of_peak * 0.8)


@pytest.mark.parametrize("share", [0, -0.5, 1.5, float("nan"), "0.8"])
def test_an_efficiency_that_is_no_share_is_refused(share):
    """Both are above 0 and up to 1."""
    for pair in ((share, 1), (1, share), share):
        with pytest.raises(rl.RooflineError, match=r"efficiency"):
            rl.predict("7B", "h100-sxm", efficiency=pair)


@pytest.mark.parametrize("n", [np.int64(5), np.float64(5), np.array(5), np.uint8(5), 5.0], ids=repr)
def test_a_numpy_scalar_is_its_number(n):
    """A size read out of an array gives the very record that the int gives."""
    records = [rl.predict("qwen3-8b", "h100-sxm", rl.Workload.decode(each)).to_dict() for each in (n, 5)]

    assert records[0] == records[1]


@pytest.mark.parametrize("name", ["model", "device", "workload", "precision", "shard"])
@pytest.mark.parametrize("given", [5, 1.5, b"x", [1], {}], ids=repr)
def test_what_is_no_such_thing_is_refused(name, given):
    """One clear line, whatever is given for one of the five."""
    arguments = {"model": "7B", "device": "h100-sxm", name: given}
    with pytest.raises(rl.RooflineError, match=f"The {name} is"):
        rl.predict(**arguments)


def test_a_device_without_a_vector_peak_says_so():
    """The TPU's vector peak is not known: small kernels are bounded by memory, and the answer says so."""
    ledger = rl.predict(MODELS["qwen3-0.6b"], DEVICES["tpu-v5e"])

    assert any("fp32-vector" in each for each in ledger.assumptions)
    assert rl.predict(MODELS["qwen3-0.6b"], DEVICES["h100-sxm"]).kernels[1].bound.unknown == ()


def test_floor_has_compulsory_bytes_only():
    """Each weight once, the cache read, the logits written: worked out for one decode step of Qwen3-8B."""
    ledger = rl.predict(MODELS["qwen3-8b"], DEVICES["h100-sxm"])
    matrices, norms, looked_up = 15_136_194_560, 2 * (36 * (2 * 4096 + 2 * 128) + 4096), 4096 * 2
    cache, logits = 8192 * 147_456, 151_936 * 2

    assert ledger.total.floor_seconds == (matrices + norms + looked_up + cache + logits) / 3352.32e9


def test_prediction_defaults_are_stated():
    """A decode step of one sequence at 8k in BF16 on one device."""
    workload = rl.predict(MODELS["qwen3-8b"], DEVICES["h100-sxm"]).to_dict()["workload"]

    assert (workload["phase"], workload["sequences"], workload["context"], workload["new_tokens"]) == (
        "decode",
        1,
        8192,
        1,
    )
    assert (workload["weights"], workload["kv"], workload["tp"], workload["fused"]) == ("bf16", "bf16", 1, False)
