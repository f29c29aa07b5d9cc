"""Encoders, and encoders with decoders: what a pass runs and what a sequence keeps, by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import roofline as rl
from encoder_cases import BART, BERT, CASES, T5, VIT, WHISPER
from roofline import ops

OTHER = {key: each for key, each in BERT.items() if key != "type_vocab_size"}
FORMATS = rl.Precision(), rl.Shard()


def model_of(model_type: str, keys: dict[str, Any]) -> rl.Model:
    return rl.Model.load({"model_type": model_type, **keys})


def flops(ledger: Any) -> dict[str, int]:
    """FLOPs of every matrix product by name."""
    found: dict[str, int] = {}
    for point in ledger:
        if point.work.op in ("linear", "attention", "conv"):
            found[point.name] = found.get(point.name, 0) + point.flops
    return found


def test_prefill_encodes_the_source_and_makes_its_keys_once(h100):
    """T5 of 3 and 3 layers, 24 wide, 4 heads of 10: 2 sequences of 5 at the source, 7 at the decoder."""
    ledger = rl.predict(model_of("t5", T5), h100, rl.Workload.prefill(2, 7, logits="all").reading(5))
    source, rows, wide, heads = 2 * 5, 2 * 7, 24, 40

    assert flops(ledger) == {
        "encoder_qkv_proj": 3 * 2 * source * 3 * heads * wide,
        "encoder_attention": 3 * 2 * 2 * heads * 5 * 5 * 2,
        "encoder_o_proj": 3 * 2 * source * wide * heads,
        "encoder_up_proj": 3 * 2 * source * 40 * wide,
        "encoder_down_proj": 3 * 2 * source * wide * 40,
        "qkv_proj": 3 * 2 * rows * 3 * heads * wide,
        "attention": 3 * 2 * 2 * heads * 28 * 2,  # 7 · 8 / 2 pairs
        "o_proj": 3 * 2 * rows * wide * heads,
        "cross_q_proj": 3 * 2 * rows * heads * wide,
        "cross_kv_proj": 3 * 2 * source * 2 * heads * wide,
        "cross_attention": 3 * 2 * 2 * heads * 7 * 5 * 2,
        "cross_o_proj": 3 * 2 * rows * wide * heads,
        "up_proj": 3 * 2 * rows * 40 * wide,
        "down_proj": 3 * 2 * rows * wide * 40,
        "lm_head": 2 * rows * 50 * wide,
    }


def test_decode_reads_the_source_and_does_not_encode(h100):
    """BART, 3 sequences at 9 tokens with a source of 20: two layers of 6 heads of 4."""
    ledger = rl.predict(model_of("bart", BART), h100, rl.Workload.decode(3, 9).reading(20))
    found = flops(ledger)
    (cross,) = [point for point in ledger if point.name == "cross_attention"]
    (own,) = [point for point in ledger if point.name == "attention"]

    assert not [name for name in found if name.startswith("encoder")]
    assert "cross_kv_proj" not in found
    assert found["cross_attention"] == 2 * 2 * 2 * 3 * 24 * 20
    assert cross.work.cost.memory["kv"] == 3 * 20 * 2 * 24 * 2
    assert own.work.cost.memory["kv"] == 3 * 9 * 2 * 24 * 2


def test_the_cross_cache_does_not_grow():
    """Two layers of K and V, 24 numbers each: of the source once, of the decoder's tokens one by one."""
    model = model_of("bart", BART).reading(20)

    assert model.cache_bytes(9, *FORMATS) == 2 * 2 * 24 * 2 * (20 + 9)
    assert model.cache_bytes_per_token(*FORMATS) == 2 * 2 * 24 * 2
    assert {each.sort: each.layers for each in model.caches()} == {
        "all tokens": 2,
        "a source of 20 positions": 2,
    }


def test_a_source_is_as_long_as_the_decoder_s_context_where_nothing_says_it(h100):
    """And the answer says so; a sweep has one for each of its contexts."""
    model = model_of("t5", T5)
    one = rl.predict(model, h100, rl.Workload.decode(1, 30))
    swept = rl.predict(model, h100, rl.Workload.decode(1, np.array([10, 30])))

    assert any("30 positions of source, as many as the decoder has" in each for each in one.assumptions)
    assert np.asarray(swept.total.bytes)[1] == one.total.bytes


def test_whisper_always_reads_all_of_its_frames(h100):
    """10 positions out of 20 frames of 8 numbers: two convolutions of 3, the second of which takes every other."""
    ledger = rl.predict(model_of("whisper", WHISPER), h100, rl.Workload.prefill(2, 1))
    found = flops(ledger)

    assert found["encoder_conv1"] == 2 * 2 * 20 * 24 * 8 * 3
    assert found["encoder_conv2"] == 2 * 2 * 10 * 24 * 24 * 3
    assert found["cross_attention"] == 2 * 2 * 2 * 2 * 24 * 10
    with pytest.raises(rl.RooflineError, match="always gives 10 positions"):
        rl.predict(ledger.model, h100, rl.Workload.prefill(2, 1).reading(11))


def test_mixed_passes_encode_what_is_new(h100):
    """Decode rows and prefill rows attend across apart; the encoder reads the latter's sources alone."""
    mixed = rl.Workload.mixed(rl.Workload.decode(3, 9), rl.Workload.prefill(2, 7)).reading(5)
    found = flops(rl.predict(model_of("bart", BART), h100, mixed))

    assert found["cross_attention_decode"] == 2 * 2 * 2 * 3 * 24 * 5
    assert found["cross_attention_prefill"] == 2 * 2 * 2 * 2 * 24 * 7 * 5
    assert found["cross_kv_proj"] == 2 * 2 * (2 * 5) * 2 * 24 * 24


def test_two_ranks_hold_half_of_the_heads(h100):
    """Encoder, decoder and cross-attention alike."""
    model, rows = model_of("t5", T5), rl.Workload.prefill(2, 7).reading(5)
    whole, half = (flops(rl.predict(model, h100, rows, shard=rl.Shard(tp))) for tp in (1, 2))

    for name in ("encoder_attention", "cross_attention", "attention", "encoder_up_proj", "cross_kv_proj"):
        assert whole[name] == 2 * half[name], name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_encoder_decodes_nothing(case, h100):
    """One line that says what is possible; a prefill pass has an answer."""
    model = model_of(*case)
    if not model.unit:
        rl.predict(model, h100, rl.Workload.decode(1, 5))
        return
    for rows in (rl.Workload.decode(1, 5), rl.Workload.prefill(1, 5, 3)):
        with pytest.raises(rl.RooflineError, match="decodes nothing") as caught:
            rl.predict(model, h100, rows)
        assert "\n" not in str(caught.value)
    assert rl.predict(model, h100, rl.Workload.prefill(1, 5)).total.bound_seconds > 0
    assert model.cache_bytes(100, *FORMATS) == 0


def test_every_token_of_bert_sees_every_other(h100):
    """3 layers of 4 heads of 6 over 7 tokens; a head over all of them."""
    found = flops(rl.predict(model_of("bert", BERT), h100, rl.Workload.prefill(2, 7)))

    assert found["attention"] == 3 * 2 * 2 * 2 * 24 * 7 * 7
    assert found["lm_head"] == 2 * 2 * 7 * 50 * 24


def test_an_encoder_keeps_and_appends_nothing(h100):
    """Nor is it said that it would."""
    model = model_of("bert", BERT)
    said = " ".join(rl.predict(model, h100, rl.Workload.prefill(1, 5)).assumptions)

    assert model.caches() == []
    assert "appends" not in said
    assert "Logits of the last" not in said


def test_a_page_has_no_encoder_alone(roofline, tmp_path):
    """Its sliders are a decoder's; an encoder with a decoder has a page, of sources as long as the decoder's tokens."""
    for name, model_type, keys in (("bert", "bert", BERT), ("t5", "t5", T5)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"model_type": model_type, **keys}))
    refused = roofline("page", str(tmp_path / "bert.json"), "-o", str(tmp_path / "a.html"))
    made = roofline("page", str(tmp_path / "t5.json"), "--device", "h100-sxm", "-o", str(tmp_path / "b.html"))

    assert (refused.code, made.code) == (2, 0)
    assert "is an encoder" in refused.err
    assert not (tmp_path / "a.html").exists()


@pytest.mark.parametrize("new", [1, 2, 5, 9])
@pytest.mark.parametrize("window", [1, 3, 20])
def test_a_window_on_either_side(new, window):
    """Pair by pair."""
    pairs = sum(abs(a - b) <= window for a in range(new) for b in range(new))
    sizes = {"sequences": 2, "new": new, "context": 0, "heads": 3, "kv_heads": 3, "head_dim": 4}
    work = ops.attention(**sizes, window=window, causal=False, role="activations")

    assert work.flops == 2 * 2 * 3 * 8 * pairs


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        (None, 16_202, "head for masked tokens"),
        (["BertForMaskedLM"], 16_202, ""),
        (["BertModel"], 16_202 - (24 * 24 + 24 + 48 + 50) + 24 * 25, ""),
        (["BertForSequenceClassification"], 16_202 - (24 * 24 + 24 + 48 + 50) + 24 * 25 + 2 * 25, ""),
        (["BertForTokenClassification"], 16_202 - (24 * 24 + 24 + 48 + 50) + 2 * 25, ""),
        (["BertForPreTraining"], 16_202 + 24 * 25 + 2 * 25, ""),
        (["BertForSomethingElse"], 16_202 - (24 * 24 + 24 + 48 + 50), "is not counted"),
    ],
)
def test_the_class_decides_what_is_behind_the_layers(name, parameters, said):
    """16,202 with the head for masked tokens: a square matrix, a norm and a bias for each of 50 tokens."""
    model = model_of("bert", {**BERT, "architectures": name})

    assert model.parameters().total == parameters
    assert said in " ".join(model.assumptions)


@pytest.mark.parametrize(
    ("model_type", "keys", "says"),
    [
        ("t5", {**T5, "feed_forward_proj": "gated-gelu-new"}, "feed_forward_proj is 'gated-gelu-new'"),
        ("t5", {**T5, "d_kv": "4"}, "d_kv is '4'"),
        ("t5", {key: each for key, each in T5.items() if key != "d_ff"}, "the key d_ff is missing"),
        ("bart", {**BART, "encoder_attention_heads": 5}, "not divisible by 5 attention heads"),
        ("bart", {**BART, "decoder_layers": 10**9}, "decoder_layers is 1000000000"),
        ("whisper", {**WHISPER, "num_mel_bins": None}, "the key num_mel_bins is missing"),
        ("bert", {**BERT, "is_decoder": True}, "is_decoder"),
        ("vit", {**VIT, "patch_size": [4, 5]}, "patch_size is"),
        ("other", {**OTHER, "architectures": ["OtherForMaskedLM"]}, "see each other"),
        ("bert", {**BERT, "per_layer_config": {"0": {"intermediate_size": 9}}}, "per_layer_config"),
        ("albert", {**BERT, "num_hidden_groups": 3}, "num_hidden_groups 3"),
    ],
)
def test_a_config_that_cannot_be_is_one_line(model_type, keys, says):
    with pytest.raises(rl.RooflineError, match=says) as caught:
        model_of(model_type, keys)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("model_type", "keys"), [("t5", T5), ("bert", BERT)])
def test_training_of_them_is_refused(model_type, keys, roofline, tmp_path):
    """With one line, not a number of a decoder alone."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": model_type, **keys}))
    run = ("--device", "h100-sxm", "--gpus", "8")
    answers = (
        roofline("mfu", str(path), *run, "--tokens-per-second", "1000"),
        roofline("train", str(path), *run, "--global-batch", "4096", "--sequence", "16"),
    )

    for answer in answers:
        assert (answer.code, answer.out) == (2, "")
        assert "training is not counted" in answer.err


def test_the_command_reads_a_source(roofline, tmp_path):
    """--source; refused where there is no encoder."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "t5", **T5}))
    given = ("--device", "h100-sxm", "--source", "12", "--json")
    answer = json.loads(roofline("predict", str(path), *given).out)
    refused = roofline("predict", "qwen3-8b", *given)

    assert answer["workload"]["source"] == 12
    assert (refused.code, refused.out) == (2, "")
    assert "has no encoder" in refused.err
