"""What fits: exact bytes, and the largest batch and context against brute force."""

from __future__ import annotations

from dataclasses import replace

import pytest

import roofline as rl
from roofline.capacity import memory_of

DEVICE = rl.Device.load("h100-sxm")


def held(model: str, workload: rl.Workload, tp: int = 1, **formats: str) -> rl.Memory:
    return memory_of(rl.Model.load(model), DEVICE, workload, rl.Precision(**formats), rl.Shard(tp))


def test_by_hand():
    """Qwen3-8B, 64 sequences at 8k: weights, 64 x 8192 x 147,456 bytes of cache; of activations lm_head moves most."""
    found = held("qwen3-8b", rl.Workload.decode(64))

    assert found.weight_bytes == 2 * 8_190_735_360
    assert found.kv_bytes == 64 * 8192 * 147_456
    assert found.activation_bytes == 64 * 151_936 * 2 + 64 * 4096 * 2
    assert found.capacity_bytes == 85_176_483_840
    assert found.fits is False


@pytest.mark.parametrize("model", ["qwen3-8b", "llama-2-7b", "gpt2", "mistral-7b-v0.1", "7b-example"])
@pytest.mark.parametrize(
    "workload", [rl.Workload.decode(3, 4000), rl.Workload.prefill(2, 1500, 100)], ids=["decode", "prefill"]
)
def test_largest_batch_and_context_fit_and_one_more_does_not(model, workload):
    """`max_sequences` and `max_context` are the last that fit."""
    found = held(model, workload)

    assert found.max_sequences is not None
    assert held(model, workload.resized(sequences=found.max_sequences)).fits
    assert not held(model, workload.resized(sequences=found.max_sequences + 1)).fits
    if found.max_context is not None:
        assert held(model, workload.resized(context=found.max_context)).fits
        assert not held(model, workload.resized(context=found.max_context + 1)).fits


def test_windows_bound_the_cache():
    """With every layer sliding no context is too long."""
    assert held("mistral-7b-v0.1", rl.Workload.decode()).max_context is None


def test_nothing_fits():
    """405B parameters in BF16 on one card: no batch and no context."""
    found = held("llama-3.1-405b", rl.Workload.decode())

    assert (found.fits, found.max_sequences, found.max_context) == (False, 0, 0)


def test_ranks_share():
    """70B over 4 ranks: a quarter of the matrices and of the cache each."""
    one, four = (held("llama-3.1-70b", rl.Workload.decode(8), tp=n) for n in (1, 4))

    assert four.kv_bytes * 4 == one.kv_bytes
    assert four.weight_bytes * 4 == one.weight_bytes + 3 * 2 * (2 * 80 + 1) * 8192
    assert four.fits


def test_scales_are_stored():
    """INT4 in groups of 128 stores 20 bits more a group."""
    plain, grouped = (
        held("qwen3-8b", rl.Workload.decode(), weights=each).weight_bytes for each in ("int4", "int4-g128")
    )

    assert grouped - plain == 8_190_427_136 // 128 * 20 // 8


def test_unknown_capacity_is_unknown():
    """Without a capacity there is no verdict on it."""
    bare = replace(DEVICE, capacity=None)
    found = rl.memory(rl.predict(rl.Model.load("qwen3-8b"), bare))

    assert (found.fits, found.max_sequences, found.max_context) == (None, None, None)


def test_the_largest_batch_is_whole_where_a_buffer_is_not():
    """An all-gather of a padded vocabulary over 32 ranks may take a fraction of a byte."""
    pass_ = rl.Workload.prefill(sequences=3, new=7)
    for ranks in (2, 4):
        ledger = rl.predict("gpt2", "h100-sxm", pass_, rl.Precision(activations="int4"), shard=rl.Shard(ranks))
        held = rl.memory(ledger)

        assert isinstance(held.max_sequences, int)
        assert isinstance(held.max_context, int)
