"""Levers: each gain is the difference of two ledgers, and what does not help is shown with its number."""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.errors import RooflineError
from roofline.workload import Precision

QWEN = rl.Model.load("qwen3-8b")
H100 = rl.Device.load("h100-sxm")

PASSES = [
    rl.Workload.decode(1, 8192),
    rl.Workload.decode(64, 8192),
    rl.Workload.decode(1024, 512),
    rl.Workload.prefill(),
    rl.Workload.prefill(new=64, context=4096),
    rl.Workload.mixed(rl.Workload.decode(32, 2048), rl.Workload.prefill(new=512)),
]


def again(ledger: rl.Ledger, lever) -> rl.Ledger:
    """The second ledger of a lever, predicted from its words alone."""
    workload, precision, shard = ledger.workload, ledger.precision, ledger.shard
    device, fused = ledger.device, ledger.fused
    first = workload.groups[0]
    words = lever.change
    if lever.name == "batch":
        workload = workload.resized(sequences=int(words.split()[0].replace(",", "")))
    elif lever.name == "context":
        workload = workload.resized(context=first.context // 2)
    elif lever.name == "weights":
        precision = Precision(words.split()[0], precision.kv, precision.activations, precision.compute)
    elif lever.name == "kv":
        precision = Precision(precision.weights, words.split()[0], precision.activations, precision.compute)
    elif lever.name == "compute":
        precision = Precision("fp8", precision.kv, "fp8", "fp8")
    elif lever.name == "fused":
        fused = True
    elif lever.name == "tp":
        shard = rl.Shard(int(words.split()[-1]))
    else:
        assert lever.name == "device"
        device = {
            "twice the bandwidth": device.scaled(bandwidth=2),
            "twice every peak": device.scaled(compute=2),
            "twice the link bandwidth": device.scaled(link=2),
        }[words]
    return rl.predict(ledger.model, device, workload, precision, shard=shard, efficiency=ledger.efficiency, fused=fused)


@pytest.mark.parametrize("efficiency", [None, (0.8, 0.75)])
@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("workload", PASSES, ids=range(len(PASSES)))
def test_gains_are_the_difference_of_two_ledgers(workload, tp, efficiency):
    """To the digit, for every lever, with its seconds and whether it fits."""
    ledger = rl.predict(QWEN, H100, workload, shard=rl.Shard(tp), efficiency=efficiency)

    assert len(ledger.levers) >= 7
    for lever in ledger.levers:
        after = again(ledger, lever)
        assert lever.gain == after.total.tokens_per_second / ledger.total.tokens_per_second - 1
        assert lever.seconds == after.total.seconds
        assert lever.fits == rl.memory(after).fits
        assert lever.ranks == after.shard.tp // tp


def test_largest_gain_first():
    """Ranked by what they gain."""
    gains = [each.gain for each in rl.predict(QWEN, H100).levers]

    assert gains == sorted(gains, reverse=True)


def test_twice_the_tensor_cores_do_nothing_for_one_token():
    """Q29's question: 0 %, exactly."""
    lever = next(each for each in rl.predict(QWEN, H100).levers if each.change == "twice every peak")

    assert lever.gain == 0
    assert not lever.helps


def test_a_lever_that_cannot_be_is_left_out():
    """Three KV heads over two ranks, a format with no smaller one, a batch past all reason."""
    odd = rl.Model.load(
        {
            "model_type": "llama",
            "hidden_size": 96,
            "intermediate_size": 33,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "vocab_size": 10,
        }
    )
    names = {each.name for each in rl.predict(odd, H100, precision=rl.Precision(weights="int4", kv="fp8")).levers}

    assert "tp" not in names
    assert "weights" not in names
    assert "kv" in names
    most = rl.predict("7B", H100, rl.Workload.decode(1 << 40, 0)).levers
    assert "batch" not in {each.name for each in most}
    assert "kv" not in {each.name for each in most}


def test_arrays_have_no_levers():
    """A ledger over arrays is asked one setting at a time."""
    import numpy as np

    with pytest.raises(RooflineError, match="one setting"):
        _ = rl.predict(QWEN, H100, rl.Workload.decode(np.array([1.0, 2.0]))).levers
