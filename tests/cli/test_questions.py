"""The one-minute questions through the command line."""

from __future__ import annotations

import jsonschema
import pytest

from roofline.show.schema import schema

LESSON = ("predict", "qwen3-8b", "--device", "h100-sxm", "--efficiency", "0.80/0.75")


def rate(answer) -> float:
    return answer.json["total"]["tokens_per_second"]


def test_four_times_the_batch(roofline):
    """Q26: 256 sequences give 1.139 times the tokens of 64."""
    answer = roofline(*LESSON, "--sequences", 256, "--against", "sequences=64", "--json")

    assert answer.json["against"]["speed"] == pytest.approx(1.139, rel=0.002)


def test_a_newer_card(roofline):
    """Q27: 1.644, for the bandwidth; Q30: 234.8 tokens/s on the H200."""
    answer = roofline(*LESSON, "--against", "a100-sxm-80gb", "--json")

    assert answer.json["against"]["speed"] == pytest.approx(1.644, rel=0.001)
    assert "= 1.644" in answer.json["against"]["reason"]
    h200 = roofline("predict", "qwen3-8b", "--device", "h200-sxm", "--efficiency", "0.80/0.75", "--json")
    assert rate(h200) == pytest.approx(234.8, rel=0.002)


@pytest.mark.parametrize(
    ("sequences", "context", "expected"),
    [(1, 8192, 163.95), (64, 8192, 1841.6), (256, 8192, 2097.0), (256, 512, 18330.8)],
)
def test_twice_the_tensor_cores(roofline, sequences, context, expected):
    """Q29: unchanged."""
    rows = ("--sequences", sequences, "--context", context)
    answer = roofline(*LESSON, *rows, "--set", "device.peak.bf16=x2", "--json")

    assert rate(answer) == pytest.approx(expected, rel=0.0015)
    assert answer.json["sources"]["device"]["peak.bf16"]["status"] == "hypothetical"
    assert any("hypothetical" in each for each in answer.json["assumptions"])


def test_short_prompt(roofline):
    """Q28: a prompt of 128 costs 1.104 times an almost empty one on the A100."""
    base = ("predict", "qwen3-8b", "--device", "a100-sxm-80gb", "--phase", "prefill", "--efficiency", "0.80/0.75")
    answer = roofline(*base, "--new-tokens", 128, "--against", "new-tokens=1", "--json")
    ledger, other = answer.json["total"], answer.json["against"]["ledger"]["total"]

    assert ledger["seconds"] / other["seconds"] == pytest.approx(1.104, rel=0.01)


def test_crossover_of_a_prefill(roofline):
    """Q19: about 330 new tokens, as JSON that follows its schema."""
    answer = roofline("crossover", "qwen3-8b", "--device", "h100-sxm", "--phase", "prefill", "--json")
    found = {each["name"]: each for each in answer.json["crossovers"]}

    assert found["layer GEMMs together"]["value"] == pytest.approx(330, rel=0.03)
    jsonschema.validate(answer.json, schema("crossover-1"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("crossover", "qwen3-8b", "--device", "h100-sxm"),
        ("crossover", "qwen3-8b", "--device", "h100-sxm", "--efficiency", "0.8/0.75", "--kernel", "qkv_proj"),
        ("crossover", "7B", "--device", "h100-sxm", "--set", "device.bandwidth=x2"),
        ("op", "linear", "m=8192", "n=8192", "k=8192", "--device", "h100-sxm"),
        (
            "op",
            "attention",
            "sequences=1",
            "new=512",
            "context=0",
            "heads=8",
            "kv_heads=8",
            "head_dim=64",
            "--device",
            "h100-sxm",
            "--set",
            "device.peak.bf16=x2",
        ),
        ("op", "all-reduce", "bytes=14GB", "ranks=8", "--device", "h100-sxm"),
        ("op", "copy", "n=0", "--device", "mi300x"),
        ("op", "elementwise", "n=1M", "rate=fp64", "--device", "h100-sxm"),
        (*LESSON, "--against", "weights=fp8 kv=fp8 fused=true", "--measured", 120, "--price", 2.5),
    ],
    ids=range(9),
)
def test_answers_as_text(roofline, arguments):
    """They fit 80 columns and are not empty."""
    answer = roofline(*arguments)

    assert answer.code == 0
    assert answer.err == ""
    assert max(len(line) for line in answer.out.splitlines()) <= 80
    assert len(answer.out.splitlines()) > 4


def test_another_device_with_other_settings(roofline):
    """A device and options in one, by place or by name; a field that is set again is set anew."""
    for against in ("a100-sxm-80gb efficiency=0.5/0.5", "efficiency=0.5/0.5 device=a100-sxm-80gb"):
        answer = roofline(*LESSON, "--set", "device.bandwidth=x2", "--against", against, "--json").json["against"]
        assert answer["ledger"]["device"]["id"] == "a100-sxm-80gb"
        assert answer["ledger"]["time_model"]["efficiency"] == {"bandwidth": 0.5, "compute": 0.5}
    again = roofline(*LESSON, "--set", "device.bandwidth=x2", "--against", "device.bandwidth=x3", "--json").json
    assert again["against"]["speed"] == pytest.approx(2 / 3, rel=1e-3)


def test_op_as_json(roofline):
    """The figures of a GEMM, and the math path beside attention, by their schema."""
    answer = roofline("op", "linear", "m=8192", "n=8192", "k=8192", "--device", "h100-sxm", "--json").json
    jsonschema.validate(answer, schema("op-1"))
    assert answer["intensity"] == pytest.approx(2730.67, rel=1e-5)
    assert answer["compute_seconds"] == pytest.approx(1.11e-3, rel=0.005)
    assert answer["memory_seconds"] == pytest.approx(0.12e-3, rel=0.01)
    assert answer["bound"] == "compute"
    dims = ("sequences=1", "new=4k", "context=0", "heads=32", "kv_heads=8", "head_dim=128")
    tiled = roofline("op", "attention", *dims, "--device", "h100-sxm", "--json").json
    jsonschema.validate(tiled, schema("op-1"))
    assert tiled["beside"][0]["bytes"] / tiled["bytes"] == pytest.approx(43.7, rel=0.01)


def test_measured_and_price(roofline):
    """Shares and dollars in the ledger's JSON."""
    answer = roofline("predict", "qwen3-8b", "--device", "h100-sxm", "--measured", 120, "--price", 2.5, "--json").json

    assert answer["measured"]["of_bound"] == pytest.approx(0.5855, abs=1e-3)
    assert answer["price"]["per_million_tokens"] == pytest.approx(3.388, rel=1e-3)
    assert answer["against"] is None
    jsonschema.validate(answer, schema("ledger-1"))


@pytest.mark.parametrize("kind", ["pytorch", "nsys", "ncu", "dcgm", "nccl"])
def test_record(roofline, kind):
    """A script on standard output, and what reads its output."""
    answer = roofline("record", kind)

    assert answer.code == 0
    assert "# Then: roofline diagnose" in answer.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*LESSON, "--set", "device.bandwidth="), "FIELD=VALUE"),
        ((*LESSON, "--set", "bandwidth=x2"), "device.FIELD or model.FIELD"),
        ((*LESSON, "--against", "h101"), "h100"),
        ((*LESSON, "--against", ""), "--against"),
        ((*LESSON, "--against", "weights"), "Unknown device 'weights'"),
        ((*LESSON, "--against", "weights=fp8 a100-sxm-80gb"), "FIELD=VALUE"),
        ((*LESSON, "--against", "weights=fp8 kv"), "FIELD=VALUE"),
        ((*LESSON, "--against", "wieghts=fp8"), "weights"),
        ((*LESSON, "--against", "sequences=0"), "--sequences"),
        ((*LESSON, "--against", "fused=perhaps"), "fused"),
        ((*LESSON, "--measured", "-3"), "above zero"),
        ((*LESSON, "--measured", "fast"), "measured"),
        ((*LESSON, "--price", "nan"), "above zero"),
        (("crossover", "qwen3-8b", "--device", "h100-sxm", "--kernel", "qkv"), "qkv_proj"),
        (("crossover", "qwen3-8b", "--device", "h100-sxm", "--prefill-tokens", "8"), "alone"),
        (("op", "liner", "--device", "h100-sxm"), "linear"),
        (("op", "linear", "m=1", "n=1", "--device", "h100-sxm"), "lacks k"),
        (("op", "linear", "m=1", "n=1", "k=1", "--device", "h100-sxm", "--set", "model.layers=2"), "model"),
        (("op", "linear", "m=1", "n=1", "k=1", "compute=fp3", "--device", "h100-sxm"), "no known peak"),
        (("record", "perf"), "pytorch"),
    ],
)
def test_bad_input(roofline, arguments, says):
    """One clear line on standard error, nothing on standard output, exit code 2."""
    answer = roofline(*arguments)

    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err
    assert answer.err.count("\n") == 1
