"""Layers over pipeline stages that do not divide them: split, slowest stage, memory, and what stays as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.errors import ShardError
from roofline.training.plan import Cluster, Plan
from roofline.training.search import Pins, alone, search
from roofline.training.stages import Stages
from roofline.training.train import Setting, step, train

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 10,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 128,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
TEN = rl.Model.load(CONFIG)
CLUSTER = Cluster(rl.Device.load("h100-sxm"), network=50e9)
LENGTH = 256


def a_step(pp: int, model=TEN, **more):
    return step(Setting(model, CLUSTER, Plan(pp=pp, accumulate=8, **more), LENGTH))


@pytest.mark.parametrize(
    ("layers", "pp", "counts"),
    [
        (126, 16, (7, *[8] * 14, 7)),  # Llama 3 405B: one layer less on the first and the last
        (61, 16, (3, *[4] * 13, 3, 3)),
        (80, 8, (10,) * 8),
        (3, 2, (2, 1)),
        (5, 1, (5,)),
    ],
)
def test_as_even_as_possible(layers, pp, counts):
    """No two stages differ by more than one; the ends have the fewer."""
    assert Stages(layers, pp).counts == counts


@given(st.integers(1, 200), st.integers(1, 64), st.floats(0, 20), st.floats(0, 20))
def test_the_slowest_stage_is_the_slowest_of_all(layers, pp, before, after):
    """Of every stage by itself, in units of a layer."""
    if pp > layers:
        return
    stages = Stages(layers, pp)
    counts = stages.counts
    assert (sum(counts), max(counts), min(counts)) == (layers, stages.most, stages.fewest)
    every = [float(n) for n in counts]
    every[0] += before
    every[-1] += after
    assert stages.fullest(float(layers), before, after) == pytest.approx(max(every))
    assert max(counts) - min(counts) <= 1
    assert counts.count(min(counts)) == (stages.short or pp)


def test_a_sweep_of_stages_is_what_each_gives():
    """Arrays of pp, divided or not."""
    pp = np.array([1.0, 2.0, 3.0, 4.0, 7.0, 10.0])
    many = step(Setting(TEN, CLUSTER, Plan(pp=pp, accumulate=8), LENGTH))
    for i, each in enumerate(pp):
        one = a_step(int(each))
        for name in ("seconds", "bound_seconds", "floor_seconds", "bubble_share"):
            assert np.broadcast_to(getattr(many, name), 6)[i] == pytest.approx(getattr(one, name)), name
        assert many.footprint.total_bytes[i] == pytest.approx(one.footprint.total_bytes)


def test_the_largest_stage_sets_time_and_bubble():
    """Ten layers over four stages, 2 3 3 2: three layers, or two and the head; the bubble three times that."""
    one, four = a_step(1), a_step(4)
    layers = sum(float(one.seconds_of(row.work) * row.calls) for row in one.rows if row.where == "layers")
    head = sum(float(one.seconds_of(row.work) * row.calls) for row in one.rows if row.where == "after")
    slowest = max(0.3 * layers, 0.2 * layers + head)
    assert four.times.total == pytest.approx(slowest)
    assert four.bubble(four.times) == pytest.approx(3 * slowest)
    assert four.flops == one.flops


def test_uneven_stages_are_no_faster_than_even_ones():
    """Ten layers over four stages take no less than eight over four, and no less than ten over five."""
    eight = rl.Model.load({**CONFIG, "num_hidden_layers": 8})
    assert a_step(4).times.total >= a_step(4, eight).times.total
    assert a_step(4).times.total >= a_step(5).times.total


def test_the_largest_stage_sets_memory():
    """Three layers' weights of ten, or two and an end."""
    held = a_step(4).footprint.weight_bytes
    layer = 4 * 64 * 64 + 3 * 64 * 128 + 2 * 64
    assert held == 2 * max(3 * layer, 2 * layer + 64 * 128 + 64)


def test_search_looks_at_stages_that_do_not_divide():
    """Ten layers, eight GPUs: four stages and eight; each alone as in the sweep."""
    setting = Setting(TEN, CLUSTER, Plan(), LENGTH)
    found = search(setting, 8, 8 * LENGTH, pins=Pins(pp=4))
    assert found.best is not None and found.best.plan.pp == 4
    assert alone(setting, found.best).seconds == pytest.approx(found.best.seconds)
    plan = replace(found.best.plan)
    assert train(replace(setting, plan=plan), 8, 8 * LENGTH).setting.plan.pp == 4
    with pytest.raises(ShardError, match="with pp 8"):
        search(
            Setting(rl.Model.load({**CONFIG, "num_hidden_layers": 4}), CLUSTER, Plan(), LENGTH),
            8,
            LENGTH,
            pins=Pins(pp=8),
        )


def test_llama_405b_as_it_was_trained():
    """126 layers, 16 stages, 8 chunks each: 128 chunks, the first and the last without a layer."""
    model = rl.Model.load("llama-3.1-405b")
    setting = Setting(model, CLUSTER, Plan(64, 8, 16, zero=2, accumulate=32, sequence_parallel=True, chunks=8), 8192)
    found = train(setting, 8192, 64 * 32 * 8192)
    assert found.setting.plan.stages(model.layers).words == "16 stages: 14 of 8 layers, 2 of 7"
