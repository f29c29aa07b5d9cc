"""One operation by hand: any registered one, its formulas equal to its numbers."""

from __future__ import annotations

import re

import pytest

import roofline as rl
from roofline.bound import demands
from roofline.byhand import beside, by_hand, names, usage
from roofline.errors import BadValue, UnknownName
from roofline.hypothetical import changed_device

H100 = rl.Device.load("h100-sxm")
SIZES = {"head_dim": 128, "heads": 32, "kv_heads": 8, "ranks": 8, "bytes": "14GB"}


def words(name: str) -> list[str]:
    """The required dims of an operation, each with a size."""
    keys = [part.partition("=")[0] for part in usage(name).split() if not part.startswith("[")]
    return [f"{key}={SIZES.get(key, 96)}" for key in keys]


@pytest.mark.parametrize("name", names())
def test_every_operation_by_hand(name):
    """Formulas with the numbers put in give the number that is printed."""
    found = by_hand(name, words(name), H100)

    assert found.formulas
    for formula in found.formulas.values():
        numbers = re.sub(r"(?<=\d),(?=\d)", "", formula.numbers)
        assert eval(numbers, {"ceil_div": lambda a, b: -(-a // b), "power": pow}) == formula.value, formula
    assert max(each.seconds for each in demands(found.point.work.cost, H100)) == pytest.approx(
        found.point.bound.seconds, rel=1e-12
    )


def test_square_gemm():
    """G1 to G3: 2,731 FLOP/byte, 1.11 ms against 0.12 ms, compute-bound."""
    found = by_hand("linear", ["m=8k", "n=8192", "k=8192"], H100)

    assert found.formulas["FLOP bf16"].text == "2 * m * n * k"
    assert found.formulas["FLOP bf16"].numbers == "2 * 8,192 * 8,192 * 8,192"
    assert found.point.work.intensity == pytest.approx(2730.67, rel=1e-5)
    assert found.point.bound.by == "compute"


def test_branches_are_chosen():
    """A decode step's formula has no `where` in it: the branch of these sizes is shown."""
    found = by_hand(
        "attention", ["sequences=64", "new=1", "context=8k", "heads=32", "kv_heads=8", "head_dim=128"], H100
    )

    assert "where" not in found.formulas["FLOP bf16"].text
    assert found.formulas["FLOP bf16"].value == 4 * 64 * 32 * 128 * 8192


def test_math_path_beside_the_tiled_kernel():
    """4,096 tokens, 32 heads: scores are written, read, written and read: 4 x 32 x 4096^2 x 2 bytes."""
    dims = ["sequences=1", "new=4k", "context=0", "heads=32", "kv_heads=8", "head_dim=128"]
    [other] = beside(by_hand("attention", dims, H100), H100)

    assert other.point.work.cost.memory["scores"] == 4 * 32 * 4096**2 * 2
    assert other.point.work.flops == 4 * 32 * 4096**2 * 128 + 5 * 32 * 4096**2
    assert other.point.bound.by == "memory"
    assert beside(by_hand("linear", ["m=1", "n=1", "k=1"], H100), H100) == []


def test_what_is_left_out_is_named():
    """INT4 unpacking, three kernels as one, one step of a ring."""
    assert any("unpacking" in each for each in by_hand("linear", ["m=1", "n=8", "k=8", "weights=int4"], H100).notes)
    dims = ["sequences=1", "new=4k", "context=0", "heads=32", "kv_heads=8", "head_dim=128"]
    assert any("3 kernels" in each for each in by_hand("attention-math", dims, H100).notes)
    assert any("one step" in each for each in by_hand("all-reduce", ["bytes=1GB", "ranks=8"], H100).notes)


def test_share_of_peak_is_of_its_own_rate():
    """The math path's softmax runs on the vector units: 274.9 GFLOP of BF16 in 1.311 ms are 209.6 TFLOP/s."""
    dims = ["sequences=1", "new=4k", "context=0", "heads=32", "kv_heads=8", "head_dim=128"]
    point = by_hand("attention-math", dims, H100).point

    assert point.rate == "bf16"
    assert point.attainable == pytest.approx(274_877_906_944 / point.bound.seconds, rel=1e-12)


def test_launches_and_latency_are_demands():
    """A norm of one row on a device with 5 us a launch: the row that decides is there."""
    work = rl.ops.norm(m=1, width=4096)
    rows = demands(work.cost, changed_device(H100, {"launch": "5us"}))

    assert [(each.resource, each.seconds) for each in rows][-1] == ("launch", 5e-6)


def test_a_k_is_1024_in_a_size_and_1000_in_a_count():
    """As everywhere: lengths are binary, other counts SI."""
    assert by_hand("softmax", ["m=1k", "width=1k"], H100).point.work.dims["m"] == 1024
    assert by_hand("elementwise", ["n=1k"], H100).point.work.dims["n"] == 1000
    assert by_hand("copy", ["n=1KiB"], H100).point.work.dims["n"] == 1024
    assert by_hand("all-reduce", ["bytes=14e9B", "ranks=8"], H100).point.work.dims["bytes"] == 14_000_000_000


@pytest.mark.parametrize(
    ("name", "given", "error", "says"),
    [
        ("liner", [], UnknownName, "linear"),
        ("linear", ["m=1"], BadValue, "lacks n, k"),
        ("linear", ["m=1", "m=2"], BadValue, "twice"),
        ("linear", ["m"], BadValue, "KEY=VALUE"),
        ("linear", ["m=one", "n=1", "k=1"], BadValue, "m: 'one'"),
        ("linear", ["m=1", "n=1", "q=1"], UnknownName, "m=N n=N k=N"),
        ("linear", ["m=1", "n=1", "k=1", "weights=fp9"], UnknownName, "dtype"),
        (
            "attention",
            ["sequences=1", "new=1", "context=1", "heads=1", "kv_heads=1", "head_dim=1", "causal=maybe"],
            BadValue,
            "true or false",
        ),
        ("copy", ["n=1.5B"], BadValue, "whole number"),
        ("all-reduce", ["bytes=1GB", "ranks=16"], UnknownName, "past the 8"),
        ("all-reduce", ["bytes=1GB", "ranks=0"], BadValue, "1 or more"),
    ],
)
def test_refusals(name, given, error, says):
    """One line with how it is written."""
    with pytest.raises(error, match=says):
        by_hand(name, given, H100)
