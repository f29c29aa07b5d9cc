"""Every convention by hand, and what is unknown where a fact is missing."""

from __future__ import annotations

import pytest

import roofline as rl
from limits import SMALL_LLAMA
from roofline.errors import RooflineError
from roofline.training.conventions import CONVENTIONS, Subject, convention, counted, subject_of
from roofline.training.recipe import Recipe, Recompute
from roofline.training.utilisation import Peak, Run, mfu

FULL = Recompute.named("full")
# The lesson's example: 7e9 parameters, 32 layers of 32 heads of 128, sequences of 4,096.
LESSON = Subject(7_000_000_000, 7_000_000_000, width=32 * 32 * 128, sequence=4096, recompute=FULL, shape=(32, 4096, 50))
N, LHQT = 7_000_000_000, 32 * 32 * 128 * 4096
BY_HAND = {
    "6n": 6 * N,
    "palm": 6 * N + 12 * LHQT,
    "palm-causal": 6 * N + 6 * LHQT,
    "megatron": 72 * 32 * 4096**2 + 12 * 32 * 4096 * 4096 + 6 * 4096 * 50,
    "hfu-full-6n": 8 * N,
    "hfu-full": 8 * N + 16 * LHQT,
    "hfu-selective": 6 * N + 24 * LHQT,
    "hfu-selective-forward": 6 * N + 16 * LHQT,
    "hfu-megatron": 96 * 32 * 4096**2 + 16 * 32 * 4096 * 4096 + 6 * 4096 * 50,
    "hfu-recompute": 8 * N + 16 * LHQT,
}


def per_token(subject: Subject) -> dict[str, object]:
    return {each.convention.name: each.flops_per_token for each in counted(subject, None, 1.0)}


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name):
    """FLOPs a token of the lesson's example."""
    assert per_token(LESSON)[name] == BY_HAND[name]


def test_korthikantis_iteration():
    """72BLsh²(1 + s/6h + V/12Lh) with B = 4: as appendix A has it, for Megatron's 175B."""
    layers, hidden, vocab, length, batch = 96, 12288, 51200, 2048, 4
    subject = Subject(1, 1, sequence=length, shape=(layers, hidden, vocab))
    whole = 72 * batch * layers * length * hidden**2 * (1 + length / (6 * hidden) + vocab / (12 * layers * hidden))
    recomputed = 96 * batch * layers * length * hidden**2 * (1 + length / (6 * hidden) + vocab / (16 * layers * hidden))

    assert per_token(subject)["megatron"] * batch * length == pytest.approx(whole, rel=1e-12)
    assert per_token(subject)["hfu-megatron"] * batch * length == pytest.approx(recomputed, rel=1e-12)


@pytest.mark.parametrize(("text", "parameters", "scores"), [("none", 6, 12), ("0.75", 7.5, 15), ("full", 8, 16)])
def test_a_share_of_the_forward_pass(text, parameters, scores):
    """PaLM ran 75 % of it again: 7.5N + 15LHQT."""
    from dataclasses import replace

    found = per_token(replace(LESSON, recompute=Recompute.named(text)))["hfu-recompute"]
    assert found == parameters * N + scores * LHQT


def test_exact_counts_what_the_model_has():
    """Small Llama, 2 layers of width 64: by hand, GQA and causal pairs, no embedding."""
    model = rl.Model.load(SMALL_LLAMA)
    keys = SMALL_LLAMA
    hidden, wide, vocab = keys["hidden_size"], keys["intermediate_size"], keys["vocab_size"]
    heads, kv = keys["num_attention_heads"], keys["num_key_value_heads"]
    head = hidden // heads
    length = 128
    matrices = keys["num_hidden_layers"] * (
        hidden * head * (heads + 2 * kv) + hidden * heads * head + 3 * hidden * wide
    )
    pairs = keys["num_hidden_layers"] * heads * head * (length + 1) / 2
    subject = subject_of(model, length)
    assert subject.needed == 6 * (matrices + hidden * vocab) + 12 * pairs
    assert subject.unmasked == 6 * (matrices + hidden * vocab) + 12 * pairs * 2 * length / (length + 1)
    assert subject.width == keys["num_hidden_layers"] * heads * head


def test_what_is_run_again_is_in_hfu_exact():
    """Full recomputation: the layers' forward again; FlashAttention makes the scores again: a fifth GEMM."""
    model = rl.Model.load("gpt2")
    length = 1024
    none, full = (subject_of(model, length, recompute=Recompute.named(name)) for name in ("none", "full"))
    head = 2 * 768 * 50257
    forward = none.needed / 3
    scores = 2 * 12 * 768 * (length + 1) / 2
    assert none.executed == pytest.approx(none.needed + scores)
    assert full.executed == pytest.approx(none.executed + forward - head)


def test_lora_leaves_out_the_gradients_of_frozen_weights():
    """Of 6N 4N remain and the adapters' 6."""
    model = rl.Model.load("llama-2-7b")
    full, lora = subject_of(model, 2048), subject_of(model, 2048, Recipe(lora=8))
    assert lora.trainable == 0
    assert per_token(lora)["6n"] == 4 * model.parameters().total
    adapters = 8 * 32 * (4 * (4096 + 4096) + 3 * (4096 + 11008))
    matrices = model.parameters().total - 32000 * 4096 - 65 * 4096
    # The first layer's q, k, v and adapters next to them have an input that needs no gradient.
    spared = 2 * 3 * 4096 * 4096 + 2 * 3 * 8 * 4096
    expected = full.needed - 2 * matrices + 6 * adapters - spared
    assert lora.needed == pytest.approx(expected, rel=1e-9)


def test_documents_have_fewer_pairs():
    """Four documents of 1,024 in 4,096: a quarter of the square, and (d+1)/2 positions a token."""
    model = rl.Model.load("llama-2-7b")
    whole, packed = subject_of(model, 4096), subject_of(model, 4096, Recipe(documents=1024))
    assert whole.needed - packed.needed == 12 * 32 * 4096 * (4097 - 1025) / 2


def test_learned_positions_count_in_n():
    """GPT-2's table of 1,024 positions is in 6N, and not in 6(N - tables)."""
    subject = subject_of(rl.Model.load("gpt2"), 1024)
    assert subject.parameters == 124_439_808
    assert subject.tables == 50257 * 768 + 1024 * 768


def test_what_is_missing_is_unknown_with_a_reason():
    """Without heads or a sequence no attention is counted, and none is guessed."""
    found = {each.convention.name: each for each in counted(Subject(10, 10, unknown="no heads"), 1.0, 100.0)}
    assert found["6n"].value == 0.6
    assert (found["palm"].value, found["palm"].unknown) == (None, "no heads")
    assert "--sequence" in counted(Subject(10, 10, width=1), 1.0, 1.0)[2].unknown
    assert all(each.value is not None or each.unknown for each in found.values())


def test_experts_that_are_not_used_are_a_row_of_their_own():
    """6N of all experts is named for what it is."""
    found = per_token(Subject(13, 47))
    assert (found["6n"], found["6n-total"]) == (78, 282)
    assert "6n-total" not in per_token(Subject(13, 13))


@pytest.mark.parametrize("name", CONVENTIONS)
def test_each_convention_says_what_it_is(name):
    """Formula, source and what it leaves out."""
    each = CONVENTIONS[name]
    assert each.kind in ("mfu", "hfu") and each.kind == ("hfu" if name.startswith("hfu") else "mfu")
    assert each.formula and each.source and each.excludes


def test_a_second_registration_is_refused():
    """Two functions cannot share a name."""
    with pytest.raises(RooflineError, match="registered twice"):
        convention("6n", "mfu", "", "", "")(lambda subject: 0)


def test_a_value_by_name(h100):
    """`value` gives a share, or says why there is none."""
    answer = mfu(Subject(10**9, 10**9), Peak.of(h100), Run(1000.0))
    assert answer.value("6n") == pytest.approx(6e12 / 989.4e12)
    with pytest.raises(RooflineError, match="palm is unknown"):
        answer.value("palm")
    with pytest.raises(RooflineError, match="Unknown convention 'plam'"):
        answer.value("plam")


# Korthikanti et al. 2022, table 5: time and utilisation with sequence parallelism and selective recomputation.
KORTHIKANTI = [
    ("22B", 48, 6144, 4, 8, 1.10, 0.415, 0.437),
    ("175B", 96, 12288, 64, 64, 13.75, 0.514, 0.528),
    ("530B", 105, 20480, 280, 280, 37.83, 0.560, 0.570),
    ("1T", 128, 25600, 512, 512, 71.49, 0.563, 0.570),
]


@pytest.mark.parametrize("row", KORTHIKANTI, ids=lambda row: row[0])
def test_korthikantis_table(row):
    """MFU by `megatron`; HFU by the same with twice the attention, 72BLsh²(1 + s/3h + V/12Lh)."""
    _, layers, hidden, batch, gpus, seconds, printed, printed_hfu = row
    n = 12 * layers * hidden**2 + hidden * 51200  # as appendix A counts it: matrices of the layers, and the logits
    subject = Subject(n, n, width=layers * hidden, shape=(layers, hidden, 51200))
    peak = Peak.stated(312e12)
    answer = mfu(subject, peak, Run.of_step(seconds, batch * 2048, gpus), sequence=2048)

    assert answer.value("megatron") == pytest.approx(printed, abs=0.003)
    assert answer.value("palm") == pytest.approx(answer.value("megatron"), rel=1e-12)
    assert answer.value("hfu-selective") == pytest.approx(printed_hfu, abs=0.003)


def test_megatron_turing_as_palm_has_it():
    """Chowdhery et al. 2022, appendix B: 65.43e3 tokens/s on 2,240 A100s are 29.7 %, with attention 30.2 %."""
    subject = Subject(530 * 10**9, 530 * 10**9, width=105 * 128 * 160)
    answer = mfu(subject, Peak.of(rl.Device.load("a100-sxm-80gb")), Run(65.43e3, 2240), sequence=2048)
    assert answer.value("6n") == pytest.approx(0.297, abs=0.001)
    assert answer.value("palm") == pytest.approx(0.302, abs=0.001)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Run(0.0), "0.0 tokens/s is no rate"),
        (lambda: Run(1.0, 0), "0 GPUs"),
        (lambda: Run(1.0, True), "True GPUs"),
        (lambda: Run.of_step(0.0, 1), "0.0 s is no measurement"),
        (lambda: Run.of_step(1.0, 0), "0 tokens trains nothing"),
        (lambda: Run(1.0, padding=1.0), "share of padding"),
    ],
)
def test_a_run_that_cannot_be_is_one_line(call, words):
    """What came, and what is possible."""
    with pytest.raises(RooflineError, match=words):
        call()


def test_experts_in_the_assumptions():
    """N is of a token, beside the whole."""
    answer = mfu(Subject(13 * 10**9, 47 * 10**9), Peak.stated(1e15), Run(1e3))
    assert any("13,000,000,000 parameters that a token goes through" in each for each in answer.assumptions)
    assert answer.value("6n-total") == pytest.approx(6 * 47e12 / 1e15)


def test_megatron_needs_a_sequence():
    """Unknown, not guessed."""
    found = {each.convention.name: each for each in counted(Subject(1, 1, shape=(1, 2, 3)), 1.0, 1.0)}
    assert "--sequence" in found["megatron"].unknown
