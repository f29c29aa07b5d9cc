"""Costs of real kernels: what a trace of a known model demands, to the FLOP and the byte; how much has a cost."""

from __future__ import annotations

from collections import Counter

import pytest

import roofline as rl
from roofline.trace.events import NONE
from roofline.trace.link import link
from roofline.trace.readers import open_trace

QWEN = "chrome/tracelens__h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
CONFIG = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 24,
    "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 2816, "vocab_size": 151936,
    "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": "bfloat16", "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6, "rope_theta": 1e6,
}  # fmt: skip


@pytest.fixture(scope="module")
def qwen(folder):
    return rl.diagnose(folder / "profiles" / QWEN)


def test_a_prefill_equals_the_exact_ledger(qwen):
    """16 sequences of 559 tokens through Qwen1.5-0.5B without its lm_head: GEMMs and attention, one for one."""
    linear = [each for each in qwen.placed if each.operator in ("aten::addmm", "aten::mm")]
    flash = [each for each in qwen.placed if each.work.op == "attention"]

    assert sum(each.calls for each in linear) == 168
    assert sum(each.calls * each.work.flops for each in linear) == 5_514_536_681_472
    assert sum(each.calls * each.work.bytes for each in linear) == 9_079_308_288
    assert sum(each.calls for each in flash) == 24
    assert sum(each.calls * each.work.flops for each in flash) == 246_184_673_280
    assert sum(each.calls * each.work.bytes for each in flash) == 1_758_461_952

    ledger = rl.predict(rl.Model.load(CONFIG), "h100-sxm", rl.Workload.prefill(sequences=16, new=559))
    by = Counter()
    for point in ledger.kernels:
        by[point.work.op] += point.flops if point.name != "lm_head" else 0
    assert (by["linear"], by["attention"]) == (5_514_536_681_472, 246_184_673_280)


def test_shares_of_the_bound(qwen):
    """GEMMs reach 63 % of their bound, attention 19 %; the whole step 54 %."""
    record = qwen.to_dict()
    by = {each["category"]: each for each in record["categories"]}

    assert by["gemm"]["of_bound"] == pytest.approx(0.629, abs=0.001)
    assert by["attention"]["of_bound"] == pytest.approx(0.193, abs=0.001)
    assert sum(each["bound_seconds"] or 0 for each in record["kernels"]) == pytest.approx(17_197e-6, rel=1e-3)
    assert not [each for each in qwen.placed if each.bound and each.bound_seconds * 1e9 > each.time]


def test_the_tail_of_the_step_before(qwen):
    """509 activities, 13.7 ms, launched before the window: kept, and placed."""
    assert qwen.earlier is not None
    assert (qwen.earlier.activities, qwen.earlier.time) == (509, 13_741_827)
    assert qwen.coverage.share > 0.999


def shaped(folder):
    """The traces that have both kernels and shapes."""
    for path in sorted((folder / "profiles" / "chrome").iterdir()):
        try:
            trace = open_trace(path)
        except rl.RooflineError:
            continue
        lists = any(b'"dims":[[' in b"".join(each.split()) for each in trace.details)
        if len(trace.gpu) and lists and (link(trace).op != NONE).any():
            yield path


def test_coverage(folder):
    """At least 90 % of the compute time in 19 of them; the share is always said, and why the rest has none."""
    shares = {}
    for path in shaped(folder):
        found = rl.diagnose(path)
        assert found.coverage is not None
        shares[path.name] = found.coverage.share
        assert found.coverage.costed + found.coverage.placed + sum(found.coverage.without.values()) == (
            found.coverage.compute
        )
    print(shares)
    assert sum(each >= 0.9 for each in shares.values()) >= 19


def test_what_beats_its_bound_fits_a_cache(folder):
    """Measured below the bound: small tensors in a cache, or an expanded operand; no GEMM, attention or convolution."""
    for path in shaped(folder):
        for each in rl.diagnose(path).placed:
            if each.work.op in ("linear", "attention", "conv") and each.bound is not None and each.time:
                assert each.bound_seconds * 1e9 <= 1.02 * each.time, (path.name, each)


def test_a_server_equals_the_ledger_of_its_model(folder):
    """Qwen3-8B under SGLang: a prefill of 15 x 1,024 tokens, and a decode that a graph replays, by its capture."""
    from roofline.diagnosis.beside import beside

    chrome = folder / "profiles" / "chrome"
    (prefill,) = chrome.glob("tracelens__inference_sglang_prefilldecode*")
    (decode,) = chrome.glob("tracelens__inference_sglang_decode_sglang*")
    (capture,) = chrome.glob("tracelens__inference_sglang_decode_capture*")
    model = rl.Model.load("Qwen/Qwen3-8B")

    sides = beside(rl.diagnose(prefill), model).sides
    assert [each.measured_flops for each in sides] == [213_392_645_160_960, 4_643_094_528_000]
    assert [each.predicted_flops for each in sides] == [each.measured_flops for each in sides]
    products, attention = beside(rl.diagnose(decode, capture=capture), model).sides
    assert products.measured_flops == products.predicted_flops == 484_358_225_920
    # 32 requests attend to 32,785 positions, which is not a whole number each.
    assert attention.measured_flops == 36 * 4 * 32 * 128 * 32_785
