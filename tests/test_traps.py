"""Mistakes that other tools make, each with the right number. All of Qwen3-8B in BF16 on an H100 unless said."""

from __future__ import annotations

import pytest

import roofline as rl

GIB = 2**30


def test_grouped_queries_are_counted(qwen, h100):
    """64 sequences at 8k hold 72 GiB of cache, not the 288 of 32 KV heads."""
    held = rl.memory(rl.predict(qwen, h100, rl.Workload.decode(64)))

    assert held.kv_bytes == 72 * GIB
    assert held.fits is False


def test_explicit_head_dim_is_used():
    """Qwen3-0.6B's heads are 128 wide though hidden / heads is 64."""
    assert rl.Model.load("Qwen3-0.6B").parameters().total == 596_049_920


def test_tied_embeddings_are_stored_once_and_streamed_all_the_same(h100):
    """Qwen3-0.6B's table is stored once; a decode step streams it as lm_head."""
    model = rl.Model.load("Qwen3-0.6B")
    head = next(p for p in rl.predict(model, h100) if p.name == "lm_head")

    assert model.parameters().embedding == 151_936 * 1024 == 155_582_464
    assert head.work.cost.memory["weights"] == 2 * 155_582_464


def test_the_embedding_table_is_not_streamed(qwen, h100):
    """A decode step streams 15,136,194,560 bytes of matrices: all but the input table."""
    ledger = rl.predict(qwen, h100)
    streamed = sum(p.count * p.work.cost.memory["weights"] for p in ledger if p.work.op == "linear")

    assert streamed == 15_136_194_560
    assert next(p for p in ledger if p.name == "embedding").work.bytes == 2 * 4096 * 2


def test_lm_head_has_its_factor_of_two(qwen, h100):
    """2 x vocabulary x hidden FLOPs."""
    head = next(p for p in rl.predict(qwen, h100) if p.name == "lm_head")

    assert head.work.flops == 2 * 151_936 * 4096


def test_a_gated_mlp_has_three_matrices(qwen, h100):
    """3 x 4096 x 12288 parameters a layer, in FLOPs as in bytes."""
    ledger = rl.predict(qwen, h100)
    mlp = [p for p in ledger if p.part == "mlp" and p.work.op == "linear"]

    assert sum(p.work.flops for p in mlp) == 2 * 3 * 4096 * 12_288
    assert sum(p.work.cost.memory["weights"] for p in mlp) == 2 * 3 * 4096 * 12_288


def test_qk_norms_are_counted(qwen):
    """8,190,735,360 parameters; without the norms of q and k 9,216 fewer."""
    assert qwen.parameters().total == 8_190_735_360


def test_prefill_attention_is_causal(qwen, h100):
    """4,096 tokens: 61.850 TFLOP of GEMMs and attention, not the 66.797 of the full square."""
    ledger = rl.predict(qwen, h100, rl.Workload.prefill(new=4096))
    flops = sum(p.count * p.work.flops for p in ledger if p.work.op in ("linear", "attention"))

    assert flops == pytest.approx(61.850e12, rel=1e-5)


def test_logits_of_a_prefill_are_the_last_positions(qwen, h100):
    """One row through lm_head, unless all are asked for."""
    rows = {
        logits: next(
            p for p in rl.predict(qwen, h100, rl.Workload.prefill(new=4096, logits=logits)) if p.name == "lm_head"
        )
        for logits in ("last", "all")
    }

    assert rows["last"].work.dims["m"] == 1
    assert rows["all"].work.dims["m"] == 4096


def test_decode_attention_has_its_flops(qwen, h100):
    """19,968,032,768 FLOPs of GEMMs and attention a token at 8k: attention over the context is among them."""
    ledger = rl.predict(qwen, h100)

    assert sum(p.count * p.work.flops for p in ledger if p.work.op in ("linear", "attention")) == 19_968_032_768


def test_cache_is_read_once(qwen, h100):
    """1,207,959,552 bytes at 8k: K and V of each position once."""
    ledger = rl.predict(qwen, h100)

    assert sum(p.count * p.work.cost.memory.get("kv", 0) for p in ledger) == 8192 * 147_456


def test_decode_can_be_compute_bound(qwen, h100):
    """4,096 sequences at 16 tokens take some 62.7 ms of arithmetic; bytes alone would be 8 ms."""
    total = rl.predict(qwen, h100, rl.Workload.decode(4096, 16)).total

    assert total.bound == "compute"
    assert total.floor_seconds == pytest.approx(62.7e-3, rel=0.01)


def test_bandwidth_is_decimal(h100):
    """3,352 GB/s are 3.352e12 bytes a second; as GiB the bound would be 7 % too fast."""
    assert h100.bandwidth == pytest.approx(3.352e12, rel=0.001)


def test_memory_is_binary(roofline):
    """15.26 GiB of weights are 16.38 GB: printed as GiB."""
    answer = roofline("predict", "Qwen3-8B", "--device", "h100-sxm")

    assert "weights 15.26 GiB" in answer.out


@pytest.mark.parametrize(
    ("device", "dense"),
    [
        ("h100-sxm", 989.4e12),
        ("h200-sxm", 989.5e12),
        ("b200", 2250e12),
        ("l40s", 362.05e12),
        ("a100-sxm-80gb", 312e12),
        ("rtx-4090", 165.2e12),
        ("mi300x", 1307.4e12),
    ],
)
def test_peaks_are_dense(device, dense):
    """The sparse figure is twice as high on most cards, and is no denominator."""
    assert rl.Device.load(device).rate("bf16") == dense


def test_no_rate_is_scaled_from_another():
    """The A100 has no FP8 path: an error that names what it has, not twice its BF16."""
    with pytest.raises(rl.RooflineError, match=r"no known peak for the rate 'fp8'.*bf16"):
        rl.Device.load("a100-sxm-80gb").rate("fp8")


def test_no_card_stands_in_for_another():
    """An unknown device is an error, not an A100."""
    with pytest.raises(rl.RooflineError, match="Unknown device 'rtx-9999'"):
        rl.Device.load("rtx-9999")


def test_weight_only_quantisation_shrinks_bytes_and_not_arithmetic(qwen, h100):
    """INT4 weights: the same FLOPs at the same rate, a quarter of the weight bytes."""
    bf16, int4 = (rl.predict(qwen, h100, precision=rl.Precision(weights=each)) for each in ("bf16", "int4"))

    assert bf16.total.flops == int4.total.flops
    assert all(a.work.cost.flops == b.work.cost.flops for a, b in zip(bf16, int4, strict=True))
    gemms = [
        sum(p.count * p.work.cost.memory["weights"] for p in each if p.work.op == "linear") for each in (bf16, int4)
    ]
    assert gemms[0] == 4 * gemms[1]


def test_sliding_windows_are_neither_full_nor_nothing(h100):
    """Mistral-7B reads 4,096 positions at 8k and keeps as many."""
    ledger = rl.predict(rl.Model.load("mistral-7b-v0.1"), h100)
    attention = next(p for p in ledger if p.work.op == "attention")

    assert attention.work.cost.memory["kv"] == 4096 * 2 * 8 * 128 * 2
    assert rl.memory(ledger).kv_bytes == 4096 * 32 * 2 * 8 * 128 * 2


@pytest.mark.parametrize(
    ("name", "bits"), [("int4-g128", 4 + 20 / 128), ("mxfp4", 4.25), ("nvfp4", 4.5), ("mxfp8", 8.25)]
)
def test_scales_of_weights_without_a_shape(h100, name, bits):
    """7e9 parameters in blocks along the rows: bits and their share of a scale, not a scale for each."""
    ledger = rl.predict("7B", h100, precision=rl.Precision(weights=name))

    assert ledger.total.bytes == pytest.approx(7e9 * bits / 8, rel=1e-6)


def test_a_prefill_of_one_token_attends_to_itself_and_to_what_was_cached(h100):
    """Context is what is cached before a prefill: one token on 100 sees 101; a decode step at 101 is the same."""
    model = rl.Model.load("llama-2-7b")
    prefill, decode = (
        rl.predict(model, h100, each)
        for each in (rl.Workload.prefill(new=1, context=100), rl.Workload.decode(context=101))
    )

    assert [p.work.cost for p in prefill] == [p.work.cost for p in decode]
    assert rl.memory(prefill).kv_bytes == rl.memory(decode).kv_bytes == 101 * 32 * 2 * 32 * 128 * 2
