"""`roofline train`: shares of the lesson, plans, search, and one line for what cannot be."""

from __future__ import annotations

import contextlib
import importlib
import json

import pytest

from limits import SMALL_LLAMA
from roofline.units import si

LESSON = ("train", "7B", "--device", "h100-sxm", "--gpus", "16", "--sequence", "4096", "--network-busbw", "40GB/s")


@pytest.fixture
def small(tmp_path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**SMALL_LLAMA, "num_hidden_layers": 4, "hidden_size": 64}), "utf-8")
    return str(path)


BASE = ("--device", "h100-sxm", "--gpus", "8", "--global-batch", "4096", "--sequence", "128")


@pytest.mark.parametrize(
    ("extra", "share", "longer"),
    [
        (["--global-batch", "524288", "--compute-time", "3.64s"], 0.180288, 0.152749),
        (["--global-batch", "2097152", "--accumulate", "4", "--compute-time", "14.56s"], 0.045072, 0.043128),
        (["--global-batch", "524288", "--compute-time", "3.64s", "--zero", "3"], 0.270433, 0.212866),
        (["--global-batch", "524288", "--compute-time", "3.64s", "--overlap", "1"], 0.0, 0.0),
    ],
)
def test_shares_of_the_lesson(roofline, extra, share, longer):
    """14 GB of gradients over 16 ranks at 40 GB/s, beside a measured compute time."""
    found = roofline(*LESSON, *extra, "--json").json["communication"]
    assert found["share"] == pytest.approx(share, rel=1e-4)
    assert found["share_of_step"] == pytest.approx(longer, rel=1e-4)


def test_a_plan_in_json(roofline, small):
    """Everything that the text says, in numbers that add up."""
    plan = ("--tp", "2", "--pp", "2", "--zero", "1", "--micro-batch", "2", "--sequence-parallel", "--budget", "1M")
    answer = roofline("train", small, *BASE, *plan, "--recompute", "full", "--json")
    assert answer.code == 0, answer.err
    found = answer.json
    assert (found["plan"]["dp"], found["plan"]["accumulate"]) == (2, 8)
    held = found["memory"]
    parts = ("weight_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes", "logit_bytes")
    assert sum(held[each] for each in parts) == held["total_bytes"]
    kinds = found["communication"]["kinds"]
    assert {each["kind"] for each in kinds} == {"tp", "pp", "zero"}
    assert sum(each["bytes_per_rank"] for each in kinds) == pytest.approx(found["communication"]["bytes_per_rank"])
    assert found["time"]["floor_seconds"] < found["time"]["bound_seconds"] < found["time"]["no_overlap_seconds"]
    assert {each["stage"] for each in found["kernels"]} == {"forward", "recomputed", "dx", "dw", "update"}
    assert found["budget"]["gpu_hours"] == pytest.approx(found["budget"]["days"] * 24 * 8)
    assert any(each["name"] == "exact" and each["value"] > 0 for each in found["conventions"])


def test_stages_of_unequal_layers(roofline, small):
    """Four layers over three stages: how many each has, in text and JSON."""
    plan = (*BASE[:2], "--gpus", "3", "--global-batch", "4096", "--sequence", "128", "--pp", "3", "--micro-batch", "1")
    found = roofline("train", small, *plan, "--json").json
    assert found["stage_layers"] == [1, 2, 1]
    assert "3 stages: 1 of 2 layers, 2 of 1" in " ".join(roofline("train", small, *plan).out.split())


def test_text_fits_80_columns(roofline, small):
    """Verdict, times, stages, traffic, memory, knobs, assumptions."""
    plan = (
        "--tp",
        "2",
        "--pp",
        "2",
        "--micro-batch",
        "1",
        "--efficiency",
        "0.8/0.5",
        "--budget",
        "1M",
        "--document",
        "64",
    )
    out = roofline("train", small, *BASE, *plan, "--schedule", "zero-bubble").out
    assert max(len(line) for line in out.splitlines()) <= 80
    for word in (
        "bound",
        "derated",
        "floor",
        "update",
        "dX",
        "Fits",
        "time per token",
        "days",
        "Assumptions",
        "bubble",
    ):
        assert word in out


def test_a_measured_step_is_the_whole_step(roofline):
    """100 ms given are 100 ms shown, 47 times under the bound; the same MFU as of `mfu`, over 100 % in its words."""
    run = ("llama-3.1-8b", "--device", "h100-sxm", "--gpus", "8", "--global-batch", "524288", "--sequence", "8k")
    step = ("--step-time", "0.1s", "--recompute", "full")
    found = roofline("train", *run, *step, "--zero", "3", "--micro-batch", "1", "--json").json
    other = roofline("mfu", *run, *step, "--json").json
    assert (found["time"]["seconds"], found["time"]["basis"]) == (0.1, "measured")
    assert found["conventions"] == other["conventions"]
    assert other["warnings"] == found["warnings"][1:]
    out = " ".join(roofline("train", *run, *step, "--zero", "3", "--micro-batch", "1").out.split())
    for word in (
        "measured 100.0 ms",
        "times faster than its floor",
        "cannot be",
        "0.0203 times the bound",
        "some of it",
    ):
        assert word in out, out


def test_the_time_that_mfu_and_days_rest_on_is_on_top_and_named(roofline, small):
    """In the text and in JSON, whatever it is of."""
    for extra, basis in (
        ([], "no overlap"),
        (["--overlap", "50%"], "some overlap"),
        (["--efficiency", "80%/50%"], "derated"),
        (["--step-time", "1s"], "measured"),
        (["--compute-time", "1s"], "measured compute"),
    ):
        run = ("train", small, *BASE, "--budget", "1M", *extra)
        time = roofline(*run, "--json").json["time"]
        assert time["basis"] == basis
        lines = roofline(*run).out.splitlines()
        top = next(line for line in lines if "tokens/s" in line)
        assert top.startswith(basis)
        said = " ".join(roofline(*run).out.split())
        shown = si(time["seconds"], "s")
        assert shown in top
        assert f"of the step of {shown} ({basis}):" in said
        assert f"of steps of {shown} ({basis}):" in said


def test_a_convention_over_100_percent_is_explained_as_mfu_does(roofline):
    """PaLM's full square is not run: at the bound of long sequences it counts more than the peak."""
    run = ("llama-3.1-8b", "--device", "h100-sxm", "--gpus", "8", "--global-batch", "512k", "--sequence", "64k")
    found = roofline("train", *run, "--recompute", "full", "--zero", "3", "--json").json
    [note] = found["warnings"]
    assert note.startswith("Over 100 %, as what they count was not all run")
    assert "palm" in note
    whole = roofline(
        "mfu",
        *run[:5],
        "--tokens-per-second",
        str(found["tokens_per_second"]),
        "--sequence",
        "64k",
        "--recompute",
        "full",
        "--json",
    )
    assert note in whole.json["warnings"]


def test_what_does_not_fit_is_answered_and_marked(roofline):
    """Exit code 3."""
    answer = roofline(*LESSON, "--global-batch", "524288", "--unfused", "--gradients", "fp32")
    assert answer.code == 3
    assert "Does not fit" in answer.out
    assert "No micro-batch fits. It fits with" in " ".join(answer.out.split())


@pytest.mark.parametrize(
    ("run", "wanted"),
    [
        # 8 B parameters of 2 + 2 + 12 bytes: 128 GB on each, and over eight GPUs 16.
        (["llama-3.1-8b", "--gpus", "8", "--micro-batch", "1"], ["--zero"]),
        (["llama-3.1-8b", "--gpus", "8", "--zero", "3"], ["--micro-batch"]),
        (["llama-3.1-8b", "--gpus", "1", "--global-batch", "64k"], ["--gpus"]),
        (["llama-3.1-70b", "--gpus", "16", "--zero", "3", "--micro-batch", "1"], ["--recompute"]),
        (["llama-3.1-405b", "--gpus", "64", "--micro-batch", "1"], ["--zero", "--gpus"]),
    ],
)
def test_what_would_make_it_fit(roofline, run, wanted):
    """In this order: micro-batch, ZeRO, recomputation, ranks, GPUs; run again with it, it fits."""
    base = ("--device", "h100-sxm", "--sequence", "8k", "--network-busbw", "50GB/s")
    batch = () if "--global-batch" in run else ("--global-batch", "4M")
    answer = roofline("train", *run, *base, *batch, "--json")
    assert answer.code == 3
    options = answer.json["memory"]["fits_with"].split()
    given = [each for each in options if each.startswith("--")]
    assert set(wanted) <= set(given), options
    kept = dict(zip(run[1::2], run[2::2], strict=True))
    flags = [each for each in given if each == "--sequence-parallel"]
    pairs = [each for each in options if each != "--sequence-parallel"]
    changed = kept | dict(zip(pairs[::2], pairs[1::2], strict=True))
    words = [word for pair in changed.items() for word in pair]
    again = roofline("train", run[0], *words, *flags, *base, *batch, "--json")
    assert again.code == 0, (options, again.err)
    assert again.json["memory"]["fits_with"] is None


def test_what_nothing_makes_fit(roofline, tmp_path):
    """A megabyte of memory: said in one line."""
    path = tmp_path / "box.toml"
    capacity = 'capacity = { value = "1 MB", status = "measured", source = "a test" }'
    path.write_text(BOX.replace("[memory]", f"[memory]\n{capacity}"), "utf-8")
    run = ("--device", str(path), "--gpus", "1", "--global-batch", "1k", "--sequence", "1k")
    answer = roofline("train", "gpt2", *run)
    assert answer.code == 3
    assert "Nor does it with ZeRO-3, full recomputation" in " ".join(answer.out.split())


def test_lora_in_text(roofline, small):
    """Frozen weights are named."""
    out = roofline("train", small, *BASE, "--lora", "4", "--stored-scores", "--dropout", "--reserve", "0.1").out
    assert "Frozen weights have no gradient" in out


def test_a_device_of_unknown_capacity(roofline, small, tmp_path):
    """Held bytes without a verdict; a link without a domain joins all; interleaved chunks and ZeRO-3 are named."""
    path = tmp_path / "box.toml"
    path.write_text(BOX, "utf-8")
    base = ("--device", str(path), "--gpus", "8", "--global-batch", "4096", "--sequence", "128")
    plan = ("--pp", "2", "--chunks", "2", "--zero", "3", "--micro-batch", "2")
    out = roofline("train", small, *base, *plan).out
    for word in ("The capacity is unknown", "2 chunks", "taken as on it", "ZeRO-2 and 3"):
        assert word in " ".join(out.split())
    assert roofline("train", small, *base, *plan, "--json").json["memory"]["fits"] is None
    assert roofline("train", small, *base, "--search").code == 0


BOX = """
id = "box"
name = "A box"
[memory]
bandwidth = { value = "1 TB/s", status = "measured", source = "a test" }
[peak]
bf16 = { value = "100 TFLOP/s", status = "measured", source = "a test" }
[link.wire]
bandwidth = { value = "100 GB/s", status = "measured", source = "a test" }
"""


def test_an_unknown_network(roofline, small):
    """Printed unknown, with what to give."""
    base = ("--device", "h100-sxm", "--gpus", "16", "--global-batch", "4096", "--sequence", "128")
    out = roofline("train", small, *base).out
    assert "unknown" in out and "--network-busbw" in out


def test_search(roofline, small):
    """The best plan in full, the Pareto set, and why not the others."""
    answer = roofline("train", small, *BASE, "--search", "--json").json
    assert answer["best"]["plan"] == answer["pareto"][0]["plan"]
    assert answer["best"]["time"]["seconds"] == pytest.approx(answer["pareto"][0]["step_seconds"])
    out = roofline("train", small, *BASE, "--search").out
    assert "fastest that fits" in out and "plans divide" in out
    pinned = " ".join(roofline("train", small, *BASE, "--search", "--tp", "2", "--recompute", "full").out.split())
    assert "sequence-parallel, recompute full" in pinned
    assert max(len(line) for line in out.splitlines()) <= 80


@pytest.mark.parametrize(
    ("option", "value", "shown"),
    [
        ("--dp", "2", 2),
        ("--tp", "4", 4),
        ("--pp", "2", 2),
        ("--cp", "2", 2),
        ("--ep", "1", 1),
        ("--zero", "3", 3),
        ("--micro-batch", "2", 2),
        ("--accumulate", "4", 4),
        ("--chunks", "2", 2),
        ("--shard-group", "2", 2),
        ("--schedule", "zero-bubble", "zero-bubble"),
    ],
)
def test_an_option_beside_search_holds(roofline, small, option, value, shown):
    """Every plan that is shown has it."""
    found = roofline("train", small, *BASE, "--search", option, value, "--json")
    assert found.code == 0, found.err
    name = option.strip("-").replace("-", "_")
    assert {each["plan"][name] for each in found.json["pareto"]} == {shown}
    assert found.json["best"]["plan"][name] == shown


def test_recomputation_and_budget_beside_search(roofline, small):
    """As given; a batch that is taken for another is said there too."""
    options = dict(zip(BASE[::2], BASE[1::2], strict=True)) | {"--global-batch": "4000", "--recompute": "full"}
    words = (word for pair in options.items() for word in pair)
    found = roofline("train", small, *words, "--search", "--budget", "1M", "--json").json
    assert {each["recompute"] for each in found["pareto"]} == {"full"}
    assert found["best"]["budget"]["tokens"] == 1_000_000
    assert any("is taken as" in each for each in found["best"]["assumptions"])


def test_a_search_says_that_it_is_under_way(roofline, small, monkeypatch):
    """On a terminal, while it looks; one plan alone is quick."""
    said: list[str] = []

    @contextlib.contextmanager
    def busy(what: str):
        said.append(what)
        yield

    monkeypatch.setattr(importlib.import_module("roofline.cli.train"), "busy", busy)
    assert roofline("train", small, *BASE, "--json").code == 0
    assert said == []
    assert roofline("train", small, *BASE, "--search", "--tp", "2", "--json").code == 0
    assert said == ["Looking at plans"]


def test_search_where_nothing_fits(roofline):
    """405B on one card: exit code 3 and the smallest need."""
    one = ("--device", "rtx-4090", "--gpus", "1", "--global-batch", "8k", "--sequence", "1000")
    answer = roofline("train", "llama-3.1-405b", *one, "--search")
    assert answer.code == 3
    assert "do not fit" in answer.out
    found = roofline("train", "llama-3.1-405b", *one, "--search", "--json")
    assert (found.code, found.json["best"], found.json["pareto"]) == (3, None, [])


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--tp", "3"], ["3", "8 GPUs"]),
        (["--dp", "3"], ["dp 3", "8 GPUs"]),
        (["--global-batch", "100"], ["100 tokens"]),
        (["--dp", "4"], ["not the 8 GPUs"]),
        (["--gpus", "16", "--tp", "16"], ["16 ranks do not divide the 8 heads"]),
        (["--pp", "8"], ["8 pipeline stages", "4 layers"]),
        (["--zero", "4"], ["no stage 4", "3 (FSDP)"]),
        (["--zero", "-1"], ["--zero"]),
        (["--global-batch", "0"], ["--global-batch"]),
        (["--global-batch", "100"], ["--global-batch", "128"]),
        (["--accumulate", "3"], ["--accumulate 3", "4 sequences"]),
        (["--micro-batch", "3"], ["--micro-batch 3", "4 sequences"]),
        (["--micro-batch", "2", "--accumulate", "4"], ["accumulate 4", "not the 32"]),
        (["--overlap", "2"], ["--overlap"]),
        (["--step-time", "0s"], ["--step-time"]),
        (["--step-time", "1s", "--compute-time", "1s"], ["--step-time", "--compute-time", "one of the two"]),
        (["--optimizer", "lion"], ["lion", "adamw"]),
        (["--gradients", "bf17"], ["bf17"]),
        (["--schedule", "gpipe"], ["1f1b"]),
        (["--rate", "fp4"], ["fp4", "fp8"]),
        (["--busbw", "400"], ["--busbw"]),
        (["--freeze", "brain"], ["brain", "mlp"]),
        (["--efficiency", "2/1"], ["--efficiency"]),
        (["--search", "--gpus", "16"], ["--network-busbw"]),
        (["--search", "--step-time", "1s"], ["--step-time", "--search", "one plan"]),
        (["--search", "--compute-time", "1s"], ["--compute-time", "--search", "one plan"]),
        (["--search", "--tp", "3"], ["with tp 3", "8 GPUs"]),
        (["--search", "--pp", "3"], ["with pp 3", "tp 1, 2, 4, 8: no pp, dp and micro-batch"]),
        (["--search", "--zero", "4"], ["no stage 4"]),
        (["--search", "--tp", "8", "--dp", "8"], ["with dp 8, tp 8"]),
        (["--document", "100"], ["whole"]),
    ],
)
def test_one_line_for_what_cannot_be(roofline, small, extra, words):
    """Exit code 2, nothing on standard output."""
    options = dict(zip(BASE[::2], BASE[1::2], strict=True))
    flags = [word for word in extra if word == "--search"]
    pairs = [word for word in extra if word != "--search"]
    options |= dict(zip(pairs[::2], pairs[1::2], strict=True))
    answer = roofline("train", small, *flags, *(word for pair in options.items() for word in pair))
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1), answer.out
    for word in words:
        assert word in answer.err


def test_a_round_batch_is_taken_as_whole_sequences(roofline, small):
    """4M tokens are four million, which no sequence of 8,192 divides: what is next, and the answer says so."""
    options = dict(zip(BASE[::2], BASE[1::2], strict=True)) | {"--global-batch": "4M", "--sequence": "8k"}
    answer = roofline("train", small, *(word for pair in options.items() for word in pair), "--json").json
    [note] = [each for each in answer["assumptions"] if "is taken as" in each]

    assert note.startswith("A global batch of 4,000,000 tokens is taken as ")
    taken = int(note.split("taken as ")[1].split(":")[0].replace(",", ""))
    assert taken % 8192 == 0
    assert abs(taken - 4_000_000) < 0.1 * 4_000_000
