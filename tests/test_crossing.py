"""Crossovers equal brute force over integers, and never turn where a limit says so."""

from __future__ import annotations

import random

import pytest

import roofline as rl
from roofline.crossing import Line, _kernel
from roofline.errors import BadValue, UnknownName
from roofline.turning import meet, turns
from roofline.verdicts import ATTENTION, GEMMS, SUBJECTS

QWEN = rl.Model.load("qwen3-8b")
H100 = rl.Device.load("h100-sxm")
END = 130


def tiny(draw: random.Random) -> rl.Model:
    """A Mistral of a few layers whose sizes are drawn, some with a window."""
    head_dim, kv_heads = draw.choice([32, 64, 128]), draw.choice([1, 2, 4])
    heads = kv_heads * draw.choice([1, 2, 8])
    return rl.Model.load(
        {
            "model_type": "mistral",
            "hidden_size": draw.choice([256, 512, 1024, 4096]),
            "num_hidden_layers": draw.randint(1, 4),
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": head_dim,
            **({"sliding_window": draw.choice([8, 64, 4096])} if draw.random() < 0.3 else {}),
            "intermediate_size": draw.choice([512, 1536, 8192]),
            "vocab_size": draw.choice([100, 32_000]),
            "tie_word_embeddings": draw.random() < 0.5,
        }
    )


def device(draw: random.Random) -> rl.Device:
    """A device whose ridge lies between 2 and 200 FLOP/byte."""
    peak = 10 ** draw.uniform(12, 14)
    peaks = {"bf16": peak, "fp32-vector": peak / draw.choice([4, 16])}
    return rl.Device("drawn", "drawn", peaks, peak / draw.uniform(2, 200), capacity=80 << 30)


def workload(draw: random.Random) -> rl.Workload:
    if draw.random() < 0.5:
        return rl.Workload.decode(context=draw.choice([1, 17, 300, 8192]))
    return rl.Workload.prefill(sequences=draw.choice([1, 3]), context=draw.choice([0, 100]))


def seconds(ledger: rl.Ledger, subject: str) -> float:
    return sum(point.bound_seconds for point in ledger if SUBJECTS[point.work.op] == subject)


def gain(ledger: rl.Ledger, weights: str) -> float:
    smaller = ledger.changed(precision=rl.Precision(weights=weights))
    return ledger.total.bound_seconds / smaller.total.bound_seconds - 1


def intensity_above(ledger: rl.Ledger) -> bool:
    chosen = [point for point in ledger if SUBJECTS[point.work.op] == GEMMS and point.part != "head"]
    ridge = ledger.device.ridge_point()
    return sum(each.flops for each in chosen) > ridge * sum(each.bytes for each in chosen)


@pytest.mark.parametrize("seed", range(60))
def test_crossovers_equal_brute_force(seed):
    """17 or more questions of a drawn model, device and pass, asked one integer at a time: 60 x 17 cases."""
    draw = random.Random(seed)
    model, on, rows = tiny(draw), device(draw), workload(draw)
    answer = rl.crossovers(model, on, rows)
    found = answer.found
    line = Line(answer.base, "sequences" if rows.phase == "decode" else "new_tokens")
    turned = {each.name for each in found}
    ledgers = [line.at(n) for n in range(1, END + 1)]
    asked = 0
    for name in [*(point.name for point in ledgers[0]), "the pass"]:
        labels = [
            ledger.total.bound if name == "the pass" else next(p.bound.by for p in ledger if p.name == name)
            for ledger in ledgers
        ]
        expected = [(n + 1, labels[n - 1], labels[n]) for n in range(1, END) if labels[n] != labels[n - 1]]
        answers = found if name in turned else _kernel(line, name)  # the vector kernels: asked one by one
        got = [(e.value, e.before, e.after) for e in answers if e.name == name and e.value and e.value <= END]
        assert got == expected, name
        asked += 1
    pairs = {
        "layer GEMMs together": lambda ledger: "compute" if intensity_above(ledger) else "memory",
        "attention or weights": lambda ledger: (
            "attention" if seconds(ledger, ATTENTION) > seconds(ledger, GEMMS) else "weights"
        ),
        "fp8 weights for bf16": lambda ledger: "idle" if gain(ledger, "fp8") < 0.01 else "help",
        "int4 weights for bf16": lambda ledger: "idle" if gain(ledger, "int4") < 0.01 else "help",
    }
    if rows.phase == "decode":
        limit = 0.9 * answer.limit_tokens_per_second
        pairs["most tokens/s"] = lambda ledger: "reached" if ledger.total.tokens_per_second >= limit else "below"
    else:
        one = 1.1 * ledgers[0].total.bound_seconds
        pairs["cost of a short prompt"] = lambda ledger: "dearer" if ledger.total.bound_seconds > one else "as cheap"
    for name, label in pairs.items():
        labels = [label(ledger) for ledger in ledgers]
        expected = [(n + 1, labels[n - 1], labels[n]) for n in range(1, END) if labels[n] != labels[n - 1]]
        answers = [each for each in found if each.name == name and each.axis == line.axis]
        assert [(e.value, e.before, e.after) for e in answers if e.value and e.value <= END] == expected, name
        assert answers[0].before == labels[0], name
        asked += 1
    assert asked >= 17


def test_published_crossover():
    """Q19: all layer GEMMs together pass the ridge of 295 at 330 new tokens (329.17 on the line between)."""
    found = {each.name: each for each in rl.crossovers(QWEN, H100, rl.Workload.prefill()).found}

    assert found["layer GEMMs together"].value == 330
    assert found["layer GEMMs together"].exact == pytest.approx(329.17, abs=0.01)


def test_closed_form_of_a_gemm():
    """2mnk/P = 2(mk + nk + mn)/B: m = r nk / (nk - r(n + k)) with r = P/B, for gate_proj of 12288 x 4096."""
    r, n, k = H100.ridge_point(), 12_288, 4096
    [gate] = rl.crossovers(QWEN, H100, rl.Workload.prefill(), kernel="gate_proj").found

    assert gate.exact == pytest.approx(r * n * k / (n * k - r * (n + k)), rel=1e-9)
    assert gate.value == int(gate.exact) + 1


def test_knee_of_weights_only():
    """D4: the batch at which a 7B's throughput stops growing is the ridge, 295.1."""
    found = {each.name: each for each in rl.crossovers("7B", H100).found}

    assert found["knee of throughput"].exact == pytest.approx(295.2, rel=0.002)


def test_decode_at_8k_never_turns():
    """Q31: the intensity tends to 16.5, and the answer says so."""
    answer = rl.crossovers(QWEN, H100, rl.Workload.decode(context=8192))
    whole = next(each for each in answer.found if each.name == "the pass")

    assert whole.value is None
    assert "tends to 16.4" in whole.reason
    assert answer.limit_intensity == pytest.approx(16.53, rel=0.01)
    assert answer.max_sequences == 56


def test_batching_pays_up_to_a_context():
    """At 303 tokens a batch without end is compute-bound, at 304 none is."""
    found = next(each for each in rl.crossovers(QWEN, H100).found if each.name == "compute-bound by batch")

    assert found.value == 304
    for context, bound in ((303, "compute"), (304, "memory")):
        assert rl.predict(QWEN, H100, rl.Workload.decode(1 << 30, context)).total.bound == bound


def test_short_prompt():
    """Q28: 128 tokens cost 1.104 times one on the A100; a tenth more is reached in between."""
    a100 = rl.Device.load("a100-sxm-80gb")
    answer = rl.crossovers(QWEN, a100, rl.Workload.prefill(), efficiency=(0.8, 0.75))
    short = next(each for each in answer.found if each.name == "cost of a short prompt")

    def cost(n: int) -> float:
        return rl.predict(QWEN, a100.derated(0.8, 0.75), rl.Workload.prefill(new=n)).total.bound_seconds

    assert short.value is not None
    assert cost(short.value - 1) <= 1.1 * cost(1) < cost(short.value)
    assert rl.predict(QWEN, a100, rl.Workload.prefill(new=128)).total.bound_seconds / rl.predict(
        QWEN, a100, rl.Workload.prefill(new=1)
    ).total.bound_seconds == pytest.approx(1.104, rel=0.01)


def test_turns_of_any_label():
    """Two turns, one of them past the dense part of the axis; two within one step of it."""

    def label(n):
        return (n >= 7) * 1 + (n >= 1_000_003) * 1

    assert [tuple(each) for each in turns(label)] == [(7, 0, 1), (1_000_003, 1, 2)]
    assert turns(lambda n: n >= 0) == []
    assert [each.value for each in turns(lambda n: (n >= 1_000_003) * 1 + (n >= 1_000_103) * 1)] == [
        1_000_003,
        1_000_103,
    ]


def test_two_sides_of_a_parabola_meet():
    """n^2 = 10n + 3 at 10.2915, between whole numbers; a straight line at 2.5; nothing before 1."""
    assert meet(lambda n: n * n - 10 * n - 3, 11) == pytest.approx(5 + 28**0.5, rel=1e-12)
    assert meet(lambda n: 2 * n - 5, 3) == 2.5
    assert meet(lambda n: n - 1, 1) is None


@pytest.mark.parametrize("ridge", [3, 5])
def test_where_a_prefill_kernel_turns_exactly(ridge):
    """Causal attention of 8 heads on one KV head of 64 in BF16: 2n(n+1)·8·64/P = (2·2·64n + 2·18·64n)/B.

    So n + 1 = ridge · 40 · 64 / (2 · 8 · 64) = 2.5 ridge.
    """
    keys = {"hidden_size": 512, "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 1}
    model = rl.Model.load({"model_type": "llama", **keys, "head_dim": 64, "intermediate_size": 64, "vocab_size": 10})
    on = rl.Device("drawn", "drawn", {"bf16": ridge * 1e12, "fp32-vector": 1e12}, 1e12)
    [found] = rl.crossovers(model, on, rl.Workload.prefill(), kernel="attention").found

    assert found.exact == pytest.approx(2.5 * ridge - 1, rel=1e-9)


@pytest.mark.parametrize("name", ["mistral-7b-v0.1", "phi-3-mini-4k", "gpt2", "gemma-7b"])
def test_every_kind_of_model_is_answered(name):
    """Windows in every layer, learned positions, heads of 256: no reason is a division by zero."""
    answer = rl.crossovers(name, H100)

    assert all(each.reason for each in answer.found if each.value is None)


def test_a_long_prompt_turns_back():
    """100 prompts on 8k cached: attention is the longer at 1 token, the weights from 8 on, attention again far out."""
    answer = rl.crossovers(QWEN, H100, rl.Workload.prefill(sequences=100, context=8192))
    found = [(each.before, each.after) for each in answer.found if each.name == "attention or weights"]

    assert found == [("attention", "weights"), ("weights", "attention")]


def test_what_grows_without_end_has_no_limit():
    """Causal attention passes any ridge in the end: past the axis, so no limit is claimed."""
    on = rl.Device.load("tpu-v5e").scaled(compute=1e5)
    answer = rl.crossovers("qwen3-0.6b", on, rl.Workload.prefill(), kernel="attention")

    assert answer.found[0].value is None
    assert answer.found[0].reason == "not up to 16,777,216 new tokens"


def test_a_link_is_a_turn_too():
    """Over eight ranks a prefill of the 8B goes from memory to the wire, and its all-reduces never turn to compute."""
    answer = rl.crossovers(QWEN, H100, rl.Workload.prefill(), shard=rl.Shard(8))
    whole = [(each.before, each.after) for each in answer.found if each.name == "the pass"]

    assert ("memory", "link") in whole


def test_refusals():
    """A kernel that is not there, a mixed pass, arrays."""
    with pytest.raises(UnknownName, match="gate_proj"):
        rl.crossovers(QWEN, H100, kernel="gate_prj")
    with pytest.raises(BadValue, match="alone"):
        rl.crossovers(QWEN, H100, rl.Workload.mixed(rl.Workload.decode(), rl.Workload.prefill()))
