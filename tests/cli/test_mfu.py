"""`roofline mfu`: the published shares, what may be mixed up, and one line for what cannot be."""

from __future__ import annotations

import pytest

PALM = ("mfu", "--params", "540.35B", "--layers", "118", "--heads", "48", "--head-dim", "256", "--gpus", "6144")
PALM += ("--peak", "275TFLOP/s", "--tokens-per-second", "238.3e3", "--sequence", "2048")
SEVEN = ("mfu", "--params", "7B", "--layers", "32", "--heads", "32", "--head-dim", "128", "--gpus", "8")
SEVEN += ("--device", "h100-sxm", "--sequence", "4096")
BASE = (*SEVEN, "--tokens-per-second", "72018")


def shares(answer) -> dict[str, float]:
    assert answer.code == 0, answer.err
    return {each["name"]: each["value"] for each in answer.json["conventions"]}


def test_palm(roofline):
    """46.2 % with attention, 45.7 % without, HFU 57.8 % with three quarters of a forward pass run again."""
    found = shares(roofline(*PALM, "--recompute", "0.75", "--json"))
    assert found["palm"] == pytest.approx(0.462, abs=0.0005)
    assert found["6n"] == pytest.approx(0.457, abs=0.0005)
    assert found["hfu-recompute"] == pytest.approx(0.578, abs=0.0005)
    assert shares(roofline(*PALM, "--recompute", "75%", "--json")) == found


def test_step_time_and_batch(roofline):
    """262,144 tokens in 3.64 s are 72,018 tokens/s."""
    found = shares(roofline(*SEVEN, "--step-time", "3.64s", "--global-batch", "262144", "--json"))
    assert found["6n"] == pytest.approx(shares(roofline(*BASE, "--json"))["6n"], rel=1e-5)


def test_per_gpu_and_global(roofline):
    """A GPU's tokens/s times GPUs."""
    found = shares(roofline(*SEVEN, "--tokens-per-second-per-gpu", "9002.25", "--json"))
    assert found == shares(roofline(*BASE, "--json"))


def test_padding_is_not_counted(roofline):
    """5 % of padding takes 5 % off."""
    whole, less, same = (shares(roofline(*BASE, "--padding", each, "--json")) for each in ("0", "0.05", "5%"))
    assert less["palm"] == pytest.approx(0.95 * whole["palm"])
    assert same == less


def test_the_sparse_peak_only_by_name(roofline):
    """Half the share, and a note that says so."""
    dense, sparse = roofline(*BASE, "--json"), roofline(*BASE, "--sparse", "--json")
    assert shares(sparse)["6n"] == pytest.approx(shares(dense)["6n"] / 2)
    assert "sparse" in sparse.json["conventions"][0]["peak_rate"]
    assert any("2 times the dense one" in each for each in sparse.json["warnings"])


def test_a_size_is_a_size_however_it_is_given(roofline):
    """7B and --params 7B: 6N, and unknown what needs layers, heads or tables, for one reason."""
    run = ("--device", "h100", "--gpus", "8", "--tokens-per-second", "72k", "--sequence", "4k", "--recompute", "full")
    named, given = (roofline("mfu", *each, *run, "--json").json["conventions"] for each in (["7B"], ["--params", "7B"]))
    assert named == given
    found = {each["name"]: each for each in named}
    assert found["6n"]["flops_per_token"] == 42e9
    for name in ("6n-no-embedding", "palm", "megatron", "exact", "hfu-full", "hfu-exact"):
        assert found[name]["value"] is None
        assert found[name]["unknown"]


def test_the_rate_in_use(roofline):
    """FP8 has its own peak."""
    found = roofline(*BASE, "--rate", "fp8", "--json").json["conventions"][0]
    assert (found["peak_rate"], found["peak"]) == ("fp8", 1978.9e12)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*SEVEN, "--tokens-per-second-per-gpu", "72018"], ["tokens/s are of all 8 GPUs", "%"]),
        ([*SEVEN, "--tokens-per-second", "190k"], ["at the fp8 rate", "cannot be"]),
        (["mfu", "7B", "--device", "a100", "--gpus", "1", "--tokens-per-second", "12k"], ["the card is h100"]),
        (["mfu", "7B", "--device", "a100", "--gpus", "1", "--tokens-per-second", "40M"], ["off by about"]),
        ([*SEVEN, "--tokens-per-second", "3000"], ["tokens/s", "one GPU"]),
        ([*SEVEN, "--tokens-per-second", "150k"], ["Over 100 %", "hfu-full", "was not all run"]),
    ],
)
def test_what_is_probably_mixed_up(roofline, arguments, words):
    """Over 100 %, or next to nothing: the likeliest mistakes, by name."""
    answer = roofline(*arguments)
    assert answer.code == 0
    notes = " ".join(answer.out.split("convention  ")[0].split())
    for word in words:
        assert word in notes


def test_notes_of_the_recipe(roofline):
    """Padding, frozen parts, adapters, documents and the sparse peak are in the assumptions."""
    options = ("--padding", "0.1", "--lora", "8", "--document", "512", "--sequence", "1k", "--sparse")
    run = ("--device", "h100-sxm", "--gpus", "1", "--tokens-per-second", "9k")
    answer = roofline("mfu", "gpt2", *run, *options)
    notes = " ".join(answer.out.split())
    for word in ("10 % of the tokens", "LoRA of rank 8", "Documents of 512", "sparse", "of N is trained"):
        assert word in notes, notes


def test_text_fits_80_columns_and_names_the_unknown(roofline):
    """Every line within the terminal; what is unknown is there with its reason."""
    out = roofline("mfu", "7B", "--device", "h100", "--gpus", "8", "--tokens-per-second", "72k").out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "unknown" in out and "--sequence" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mfu", "--gpus", "8", "--device", "h100", "--tokens-per-second", "1"], ["MODEL", "--params"]),
        (["mfu", "7B", "--params", "7B", "--gpus", "8", "--device", "h100", "--tokens-per-second", "1"], ["one of"]),
        (["mfu", "7B", "--layers", "3", "--gpus", "8", "--device", "h100", "--tokens-per-second", "1"], ["--params"]),
        (["mfu", "--params", "7B", "--layers", "3", "--gpus", "8", "--device", "h100", "--step-time", "1"], ["way"]),
        ([*SEVEN[:5], "--gpus", "8", "--device", "h100", "--tokens-per-second", "1"], ["--heads"]),
        ([*SEVEN], ["--tokens-per-second", "--step-time"]),
        ([*BASE, "--step-time", "3s", "--global-batch", "4M"], ["one way"]),
        ([*SEVEN, "--step-time", "3s"], ["--global-batch"]),
        ([*SEVEN, "--step-time", "0", "--global-batch", "4M"], ["--step-time", "above zero"]),
        ([*SEVEN, "--step-time", "3s", "--global-batch", "0"], ["--global-batch", "1"]),
        ([*SEVEN, "--step-time", "3kg", "--global-batch", "1"], ["--step-time", "kg"]),
        ([*SEVEN, "--tokens-per-second", "-3"], ["--tokens-per-second", "above zero"]),
        ([*SEVEN, "--tokens-per-second", "nan"], ["--tokens-per-second"]),
        ([*BASE, "--gpus", "0"], ["--gpus"]),
        ([*BASE, "--sequence", "0"], ["--sequence"]),
        ([*BASE, "--padding", "1"], ["padding"]),
        ([*BASE, "--padding", "5 percent"], ["--padding", "0.05", "5%"]),
        ([*BASE, "--padding", "%"], ["--padding"]),
        ([*BASE, "--recompute", "some"], ["--recompute", "selective"]),
        ([*BASE, "--rate", "fp4"], ["fp4", "fp8"]),
        ([*BASE, "--peak", "1PFLOP/s"], ["--peak", "one of the two"]),
        ([*PALM, "--sparse"], ["--sparse", "--device"]),
        (["mfu", "7B", "--device", "tpu-v5e", "--gpus", "1", "--tokens-per-second", "9", "--sparse"], ["sparse"]),
        (["mfu", "gpt2", "--device", "h100", "--gpus", "1", "--tokens-per-second", "9", "--freeze", "x"], ["'x'"]),
    ],
)
def test_one_line_for_what_cannot_be(roofline, arguments, words):
    """Exit code 2, nothing on standard output, one line that names what is possible."""
    answer = roofline(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    for word in words:
        assert word in answer.err
