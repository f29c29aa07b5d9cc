"""How many experts a pass touches: by counting, by hand, and against trials."""

from __future__ import annotations

import random
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.errors import BadValue
from roofline.num import Expr
from roofline.routing import Routing, Spread


@pytest.mark.parametrize(("experts", "top_k", "tokens"), [(4, 1, 3), (4, 2, 2), (5, 2, 3), (3, 3, 2)])
def test_expectation_by_counting_every_choice(experts, top_k, tokens):
    """The mean over all ways in which the tokens can choose."""
    choices = list(combinations(range(experts), top_k))
    reached = [len(set().union(*each)) for each in product(choices, repeat=tokens)]

    assert Routing(experts, top_k, tokens).touched == pytest.approx(sum(reached) / len(reached), rel=1e-12)


def test_by_hand():
    """DeepSeek-V3's 8 of 256: one token touches 8, 64 tokens 222.4, 4,096 tokens all of them."""
    touched = [Routing(256, 8, tokens).touched for tokens in (1, 64, 4096)]

    assert touched[0] == 8
    assert touched[1] == pytest.approx(222.44, abs=0.01)
    assert touched[2] == pytest.approx(256)


def test_one_token_touches_a_whole_number():
    """8 of 384 is no fraction that a float holds; the count is exact all the same."""
    assert Routing(384, 8, 1).touched == 8
    assert isinstance(Routing(384, 8, 1).touched, int)


@given(
    experts=st.integers(1, 64),
    top_k=st.integers(1, 8),
    tokens=st.integers(1, 5000),
    skew=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
)
@settings(deadline=None, max_examples=80)
def test_between_the_fewest_and_the_most(experts, top_k, tokens, skew):
    """Whatever the spread."""
    routing = Routing(max(experts, top_k), top_k, tokens, Spread(skew))

    assert routing.fewest - 1e-9 <= routing.touched <= routing.most + 1e-9


def test_a_skew_touches_fewer():
    """The steeper, the fewer."""
    touched = [Routing(128, 8, 64, Spread(skew)).touched for skew in (0.0, 0.5, 1.0, 2.0, 10.0)]

    assert touched == sorted(touched, reverse=True)
    assert touched[0] > touched[-1] + 50


def test_a_skew_against_trials():
    """Each expert taken by its own chance, as the formula does: the mean of many draws."""
    draw = random.Random(1)
    routing = Routing(16, 2, 10, Spread(1.0))
    weights = [(place + 1.0) ** -1.0 for place in range(16)]
    chances = [min(1.0, 2 * each / sum(weights)) for each in weights]
    trials = [sum(any(draw.random() < chance for _ in range(10)) for chance in chances) for _ in range(4000)]

    assert routing.touched == pytest.approx(sum(trials) / len(trials), rel=0.02)


def test_arrays_and_formulas():
    """The same numbers over an axis, and as text."""
    tokens = np.array([1.0, 2.0, 64.0])
    formula = Routing(128, 8, Expr.var("tokens")).touched

    for skew in (0.0, 1.0):
        swept = Routing(128, 8, tokens, Spread(skew)).touched
        assert list(swept) == pytest.approx([Routing(128, 8, int(n), Spread(skew)).touched for n in tokens])
    assert isinstance(formula, Expr)
    assert formula.evaluate(tokens=64) == pytest.approx(Routing(128, 8, 64).touched)


def test_the_busiest_rank():
    """An even part; or the most popular expert, which stays on one rank."""
    assert Routing(128, 8, 64).busiest(4) == 1 / 4
    assert Routing(8, 1, 64, Spread(10.0)).busiest(4) == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("skew", [-1, 11, float("nan"), "x", None])
def test_bad_skew(skew):
    """One line that says what is possible."""
    with pytest.raises(BadValue, match="skew"):
        Spread(skew)


@pytest.mark.parametrize("touched", [0, -3, float("inf"), "x"])
def test_bad_number_of_experts(touched):
    """At least one."""
    with pytest.raises(BadValue, match="experts touched"):
        Spread(touched=touched)


MOE = {
    **{"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "vocab_size": 100},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 16, "num_experts_per_tok": 2},
}


@pytest.fixture
def moe() -> rl.Model:
    return rl.Model.load(MOE)


def matrices(ledger: rl.Ledger) -> float:
    """Bytes of experts read in a layer."""
    points = [point for point in ledger if point.work.op == "moe"]
    return sum(point.work.cost.memory["weights"] + point.work.cost.memory["routed"] for point in points)


@pytest.mark.parametrize(("tokens", "touched"), [(1, 2), (4096, 16)])
def test_bytes_follow_the_experts_touched(moe, h100, tokens, touched):
    """One token reads its two experts, thousands of tokens all of them."""
    ledger = rl.predict(moe, h100, rl.Workload.decode(tokens, 100))

    assert matrices(ledger) == pytest.approx(touched * 3 * 64 * 96 * 2, rel=1e-6)


def test_given_experts_are_taken(moe, h100):
    """64 tokens that reach five experts read five."""
    ledger = rl.predict(moe, h100, rl.Workload.decode(64, 100).routed(touched=5))

    assert matrices(ledger) == 5 * 3 * 64 * 96 * 2
    assert any("5.0 of 16 experts are read a layer (as asked for)" in each for each in ledger.assumptions)


def test_the_floor_takes_the_fewest(moe, h100):
    """However many are expected, the floor is the same; the bound is not."""
    even, least = (
        rl.predict(moe, h100, rl.Workload.decode(64, 100).routed(touched=touched)).total for touched in (None, 2)
    )

    assert even.floor_seconds == pytest.approx(least.floor_seconds)
    assert even.bound_seconds > least.bound_seconds
    assert even.floor_seconds <= least.bound_seconds


@pytest.mark.parametrize("touched", [1, 17, 100])
def test_experts_that_cannot_be_touched(moe, h100, touched):
    """64 tokens of 2 reach 2 to 16."""
    with pytest.raises(BadValue, match="touch 2 to 16"):
        rl.predict(moe, h100, rl.Workload.decode(64, 100).routed(touched=touched))


def test_a_dense_model_has_no_experts_to_choose(qwen, h100):
    """Said, not ignored."""
    with pytest.raises(BadValue, match="no experts"):
        rl.predict(qwen, h100, rl.Workload.decode(64, 100).routed(skew=1.0))


def test_a_sweep_over_tokens_equals_each_alone(moe, h100):
    """Arrays of sequences, with an expectation in them."""
    sequences = np.array([1.0, 3.0, 64.0])
    swept = rl.predict(moe, h100, rl.Workload.decode(sequences, 100)).total.bound_seconds

    for n, found in zip(sequences, swept, strict=True):
        alone = rl.predict(moe, h100, rl.Workload.decode(int(n), 100)).total.bound_seconds
        assert found == pytest.approx(alone, rel=1e-12)
    assert any("follow the tokens" in each for each in rl.predict(moe, h100, rl.Workload.decode(sequences)).assumptions)


def test_records_have_whole_bytes_that_add_up(moe, h100):
    """Expectations are rounded up a kernel; the total is their sum."""
    record = rl.predict(moe, h100, rl.Workload.decode(7, 100).routed(skew=0.7)).to_dict()

    assert record["total"]["bytes"] == sum(each["bytes"] for each in record["kernels"])
    for each in record["kernels"]:
        assert each["bytes"] == each["weight_bytes"] + each["kv_bytes"] + each["activation_bytes"]
    assert record["workload"]["expert_skew"] == 0.7
    assert record["workload"]["experts_touched"] is None


def test_command_line(roofline, tmp_path):
    """Both options, and what they cannot be."""
    import json

    path = tmp_path / "config.json"
    path.write_text(json.dumps(MOE))
    common = ("predict", path, "--device", "h100-sxm", "--sequences", 64)

    assert roofline(*common, "--experts-touched", 4, "--json").json["workload"]["experts_touched"] == 4
    assert "power law of exponent 1.2" in " ".join(roofline(*common, "--expert-skew", 1.2).out.split())
    assert roofline(*common, "--experts-touched", 40).code == 2
    assert "--expert-skew" in roofline(*common, "--expert-skew", "much").err


@pytest.mark.parametrize("tp", [2, 4])
def test_every_rank_has_its_part_of_every_expert(moe, h100, tp):
    """Weights of a rank are a part of the whole; the sum over ranks is taken once a layer."""
    whole, part = (rl.predict(moe, h100, rl.Workload.decode(64, 100), shard=rl.Shard(n)) for n in (1, tp))

    assert matrices(part) * tp == pytest.approx(matrices(whole))
    assert [point.count for point in part if point.name == "moe_all_reduce"] == [4]


def test_experts_at_a_width_of_their_own():
    """Latent experts: 64 into 16, experts of 16 x 8, back to 64; their matrices by hand, and read once each."""
    from roofline.parts.base import Pass
    from roofline.parts.moe import Experts
    from roofline.shard import Axis

    part = Experts(
        Axis("hidden", 64), Axis("experts", 4), 2, Axis("intermediate", 8), gated=False, latent=Axis("l", 16)
    )
    stored = sum(each.parameters for each in part.weights())
    rows = {each.name: each.work for each in part.kernels(Pass(rl.Workload.decode(100), rl.Precision(), rl.Shard()))}

    assert stored == 4 * 64 + 2 * 64 * 16 + 4 * 2 * 16 * 8
    assert rows["latent_down"].flops == rows["latent_up"].flops == 2 * 100 * 64 * 16
    assert rows["experts_up_proj"].flops == rows["experts_down_proj"].flops == 2 * 100 * 2 * 16 * 8
