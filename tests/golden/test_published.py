"""Every published figure is reproduced, through the command line where it has one."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import roofline as rl

PUBLISHED = tomllib.loads((Path(__file__).parent / "published.toml").read_text("utf-8"))
SMALL = {"norm", "activation", "rope"}
GIB = 2**30


def rows(section: str) -> list[Any]:
    return [pytest.param(row, id=row["id"]) for row in PUBLISHED[section]["rows"]]


def share(kernels: list[dict[str, Any]], chosen: Callable[[dict[str, Any]], bool]) -> float:
    return sum(each["share"] for each in kernels if chosen(each))


def intensity(kernels: list[dict[str, Any]], chosen: Callable[[dict[str, Any]], bool]) -> float:
    picked = [each for each in kernels if chosen(each)]
    return sum(each["flops"] for each in picked) / sum(each["bytes"] for each in picked)


FIGURES: dict[str, Callable[[dict[str, Any]], float]] = {
    "gib": lambda a: a["total"]["bytes"] / GIB,
    "resident_gib": lambda a: (a["memory"]["weight_bytes"] + a["memory"]["kv_bytes"]) / GIB,
    "qkv_intensity": lambda a: intensity(a["kernels"], lambda k: k["name"] == "qkv_proj"),
    "small_intensity": lambda a: intensity(a["kernels"], lambda k: k["op"] in SMALL),
    "attention_share": lambda a: share(a["kernels"], lambda k: k["op"] == "attention"),
    "small_share": lambda a: share(a["kernels"], lambda k: k["op"] in SMALL),
    "gemm_share": lambda a: share(a["kernels"], lambda k: k["op"] == "linear"),
    "layer_gemm_share": lambda a: share(a["kernels"], lambda k: k["op"] == "linear" and k["part"] != "head"),
}


def figure(answer: dict[str, Any], name: str) -> float:
    return FIGURES[name](answer) if name in FIGURES else answer["total"][name]


def check(answer: Any, row: dict[str, Any]) -> None:
    assert answer.code == row.get("code", 0)
    assert figure(answer.json, row["figure"]) == pytest.approx(row["value"], rel=row["tolerance"])


@pytest.mark.parametrize("row", rows("ridge"))
def test_ridge_points(roofline, row):
    """Peak over bandwidth, for tensor cores and vector units."""
    [device] = roofline("devices", row["device"], "--json").json["devices"]

    assert device["ridge"][row["rate"]] == pytest.approx(row["value"], rel=row["tolerance"])


@pytest.mark.parametrize("row", rows("decode"))
def test_decode(roofline, row):
    """The lesson's decode points; batches that do not fit are answered and marked."""
    section = PUBLISHED["decode"]
    check(
        roofline(
            *("predict", section["model"], "--device", row["device"], "--efficiency", section["efficiency"]),
            *("--sequences", row["sequences"], "--context", row["context"], "--json"),
            *("--weights", row.get("weights", "bf16")),
        ),
        row,
    )


@pytest.mark.parametrize("row", rows("bound"))
def test_bounds(roofline, row):
    """The note's hand calculation, at the bound."""
    check(
        roofline(
            *("predict", row["model"], "--device", "h100-sxm", "--json"),
            *("--sequences", row["sequences"], "--context", row["context"]),
        ),
        row,
    )


@pytest.mark.parametrize("row", rows("prefill"))
def test_prefill(roofline, row):
    """The lesson's prefill points."""
    section = PUBLISHED["prefill"]
    check(
        roofline(
            *("predict", section["model"], "--device", row["device"], "--efficiency", section["efficiency"]),
            *("--phase", "prefill", "--new-tokens", row["new_tokens"], "--json"),
        ),
        row,
    )


def test_bandwidth_ratio_of_h200_to_h100(h100):
    """R5: 1.432 times."""
    assert rl.Device.load("h200-sxm").bandwidth / h100.bandwidth == pytest.approx(1.432, rel=0.001)


def test_nvlink_is_one_direction(h100):
    """R6: 450 GB/s; the 900 that is printed is both directions."""
    assert rl.Topology(h100, 8).link().bandwidth == 450e9


def test_l2_of_the_h100(h100):
    """R7: 50 MB printed, 50 MiB reported."""
    assert h100.l2 == 52_428_800


def test_square_gemm(h100):
    """G1, G2, G3, G6: 8192 cubed is n/3 FLOP/byte, 1.11 ms of compute, 0.12 ms of memory."""
    point = rl.place(rl.ops.linear(m=8192, n=8192, k=8192), h100)

    assert point.work.intensity == pytest.approx(2730.67, rel=0.001)
    assert point.bound.compute == pytest.approx(1.11e-3, rel=0.005)
    assert point.bound.memory == pytest.approx(0.12e-3, rel=0.01)
    assert point.bound.no_overlap == pytest.approx(1.2314e-3, rel=0.002)
    assert point.bound.by == "compute"


def test_matrix_vector_product():
    """G4: below 1 FLOP/byte."""
    assert rl.ops.linear(m=1, n=4096, k=4096).intensity == pytest.approx(0.99951, rel=0.0001)


def test_fused_bias_add(h100):
    """G5: a bias add in the epilogue saves a read and a write of y: 268,435,456 bytes, 0.080 ms."""
    apart = rl.ops.elementwise(n=8192 * 8192, reads=1, writes=1)

    assert apart.bytes == 268_435_456
    assert rl.place(apart, h100).bound.seconds == pytest.approx(0.080e-3, rel=0.005)


def test_elementwise_add(h100):
    """E1, E2, E3, E4: 1/6 FLOP/byte in BF16, 1/12 in FP32; 0.5587 TFLOP/s, 0.0565 % of the tensor peak."""
    add = rl.place(rl.ops.elementwise(n=1 << 20), h100)
    reached = add.work.flops / add.bound.seconds

    assert add.work.intensity == pytest.approx(1 / 6, rel=0.0001)
    assert rl.ops.elementwise(n=1 << 20, activations="fp32").intensity == pytest.approx(1 / 12, rel=0.0001)
    assert reached == pytest.approx(0.5587e12, rel=0.005)
    assert reached / h100.rate("bf16") == pytest.approx(0.0565e-2, rel=0.005)


def test_compute_time_of_weights_only_decode(h100):
    """D3: 0.014 ms of compute against 4.18 ms of memory."""
    ledger = rl.predict(rl.Model.load("7B"), h100, rl.Workload.decode(context=0))

    assert ledger.kernels[0].bound.compute == pytest.approx(0.014e-3, rel=0.02)


def test_batch_at_which_weights_only_throughput_stops_growing(h100):
    """D4: 295.2 sequences: memory-bound at 295, compute-bound at 296, and the ridge in between."""
    model = rl.Model.load("7B")
    one = rl.predict(model, h100, rl.Workload.decode(context=0)).total

    assert h100.ridge_point() / one.intensity == pytest.approx(295.2, rel=0.002)
    assert [rl.predict(model, h100, rl.Workload.decode(n, 0)).total.bound for n in (295, 296)] == ["memory", "compute"]


def test_cache_of_the_example_model(roofline):
    """K1, K2: 131,072 bytes a token, 512 MiB a request of 4,096 tokens."""
    assert roofline("models", "7B-example", "--json").json["kv_bytes_per_token"] == 131_072
    answer = roofline("predict", "7B-example", "--device", "h100-sxm", "--context", 4096, "--json").json
    assert answer["memory"]["kv_bytes"] == 536_870_912


def test_attention_work_of_one_token():
    """K3: 4 x 32 layers x 32 heads x 128 x 4,096, exactly; the token's own position is among the 4,096."""
    work = rl.ops.attention(sequences=1, new=1, context=4096, heads=32, kv_heads=8, head_dim=128)

    assert 32 * work.flops == 2_147_483_648


@pytest.mark.parametrize(
    ("model", "context", "value"), [("7B-example", 4096, 30), ("Qwen3-8B", 8192, 16.53)], ids=["K4", "Q31"]
)
def test_intensity_that_decode_tends_to(h100, model, context, value):
    """K4, Q31: what one more sequence adds, FLOPs over bytes; far below the ridge at any batch."""
    loaded = rl.Model.load(model)
    more, less = (rl.predict(loaded, h100, rl.Workload.decode(n, context)).total for n in (10_001, 10_000))

    assert (more.flops - less.flops) / (more.bytes - less.bytes) == pytest.approx(value, rel=0.01)


@pytest.mark.parametrize(
    ("kv_heads", "kv", "value"), [(8, "bf16", 4.0), (8, "fp8", 8.0), (32, "bf16", 1.0), (1, "bf16", 32.0)]
)
@pytest.mark.parametrize("sequences", [1, 64])
@pytest.mark.parametrize("context", [512, 8192])
def test_attention_flops_for_each_cache_byte(kv_heads, kv, value, sequences, context):
    """Q17, Q33: 2 x query heads / (KV heads x bytes), whatever the batch and the context."""
    work = rl.ops.attention(
        sequences=sequences, new=1, context=context, heads=32, kv_heads=kv_heads, head_dim=128, kv=kv
    )

    assert work.flops / work.cost.memory["kv"] == value


def test_prefill_crossover(qwen, h100):
    """Q19: the layers' weight GEMMs together pass the ridge at about 330 new tokens."""

    def together(tokens: int) -> float:
        ledger = rl.predict(qwen, h100, rl.Workload.prefill(new=tokens))
        gemms = [each for each in ledger if each.work.op == "linear" and each.part != "head"]
        return sum(each.work.flops for each in gemms) / sum(each.work.bytes for each in gemms)

    crossover = next(tokens for tokens in range(200, 500) if together(tokens) >= h100.ridge_point())
    assert crossover == pytest.approx(330, rel=0.03)


def test_one_maximum_over_the_pass_is_less_than_the_sum(qwen, h100):
    """Q32: 40.71 ms as a sum of kernels, 31.14 ms as one maximum over all bytes."""
    total = rl.predict(qwen, h100, rl.Workload.decode(1024, 512)).total

    assert total.bound_seconds == pytest.approx(40.71e-3, rel=0.002)
    assert max(total.flops / h100.rate("bf16"), total.bytes / h100.bandwidth) == pytest.approx(31.14e-3, rel=0.002)
    assert total.floor_seconds < 31.14e-3


def test_every_kernel_of_a_short_prefill_on_the_a100_is_memory_bound(qwen):
    """Q18, Q28: so 128 tokens cost 1.10 times what one costs."""
    a100 = rl.Device.load("a100-sxm-80gb")
    short, one = (rl.predict(qwen, a100, rl.Workload.prefill(new=n), efficiency=(0.80, 0.75)) for n in (128, 1))

    assert {each.bound.by for each in short} == {"memory"}
    assert short.total.seconds / one.total.seconds == pytest.approx(1.10, abs=0.01)


def test_same_rows_same_gemms(qwen, h100):
    """Decode of 64 sequences and a prefill of 64 tokens: equal FLOPs and bytes, row for row."""
    decode = rl.predict(qwen, h100, rl.Workload.decode(sequences=64))
    prefill = rl.predict(qwen, h100, rl.Workload.prefill(new=64, logits="all"))
    gemms = [{p.name: (p.count, p.work) for p in ledger if p.work.op == "linear"} for ledger in (decode, prefill)]

    assert gemms[0] == gemms[1]
    assert len(gemms[0]) == 6
