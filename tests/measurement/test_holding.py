"""A measured kernel beside its bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

import roofline as rl
from roofline.measurement.holding import held

FP32 = rl.Precision("fp32", "fp32", "fp32", "fp32")


@pytest.fixture
def ledger() -> rl.Ledger:
    """A decode step of qwen3-0.6b at 100 GB/s and 1 TFLOP/s."""
    base = rl.Device.load("h100-sxm")
    device = replace(base, peak={"fp32": 1e12}, bandwidth=100e9, l2=2**20, cache=2**25, cache_bandwidth={"l2": 1e12})
    return rl.predict("qwen3-0.6b", device, rl.Workload.decode(1, 128), FP32)


def test_a_kernel_slower_than_its_bound_holds(ledger: rl.Ledger):
    """Twice the bound is a ratio of 2, and nothing has to be explained."""
    point = next(each for each in ledger if each.name == "gate_proj")
    (found,) = held(ledger, {"gate_proj": 2 * point.bound.seconds, "other": 1.0})

    assert found.ratio == found.least_ratio == 2
    assert (found.cache, found.reason) == ("", "")


def test_activations_that_stay_in_a_cache(ledger: rl.Ledger):
    """The norm's few KiB were just written: at the cache's tenfold bandwidth half the bound is five times as long."""
    point = next(each for each in ledger if each.name == "input_norm")
    (found,) = held(ledger, {"input_norm": 0.5 * point.bound.seconds})

    assert found.ratio == 0.5
    assert found.cache == "l2"
    assert found.least_ratio == pytest.approx(5)
    assert found.reason.endswith("in use fit the L2 cache of 1 MiB, which gives 1,000 GB/s")


def test_weights_come_again_after_a_pass(ledger: rl.Ledger):
    """2.4 GB of a pass stay in no cache of 32 MiB: that is no reason, and it says so."""
    point = next(each for each in ledger if each.name == "down_proj")
    (found,) = held(ledger, {"down_proj": 0.5 * point.bound.seconds})

    assert found.cache == ""
    assert found.least_ratio == 0.5
    assert found.reason == "faster than the measured bandwidth, and no cache holds its operands"


def test_weights_in_a_large_cache(ledger: rl.Ledger):
    """Where the cache is larger than the pass it is the reason; its bandwidth may not be known."""
    large = ledger.changed(device=replace(ledger.device, cache=2**33))
    point = next(each for each in large if each.name == "down_proj")
    (found,) = held(large, {"down_proj": 0.5 * point.bound.seconds})

    assert found.cache == "last_level"
    assert found.least_ratio == 0.5
    assert found.reason.endswith("last-level cache of 8 GiB, whose bandwidth is not known")


def test_a_peak_measured_too_low(ledger: rl.Ledger):
    """No cache makes arithmetic faster."""
    slow = ledger.changed(device=replace(ledger.device, peak={"fp32": 1e9}))
    point = next(each for each in slow if each.name == "gate_proj")
    (found,) = held(slow, {"gate_proj": 0.9 * point.bound.seconds})

    assert found.point.bound.by == "compute"
    assert found.reason == "faster than the measured peak: the peak is measured too low"
