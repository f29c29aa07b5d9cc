"""`roofline predict` as others call it: options, exit codes, the JSON that checks are written against."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import roofline as rl
from roofline.show.schema import schema

KEYS = {
    "total": {"flops", "bytes", "intensity", "seconds", "bound_seconds", "floor_seconds", "no_overlap_seconds",
              "expected_seconds", "tokens_per_second", "bound", "of_peak"},
    "memory": {"weight_bytes", "kv_bytes", "activation_bytes", "total_bytes", "capacity_bytes", "fits", "max_sequences",
               "max_context"},
}  # fmt: skip
KERNEL = {"name", "op", "part", "count", "flops", "bytes", "weight_bytes", "kv_bytes", "activation_bytes", "link_bytes",
          "intensity", "seconds", "bound_seconds", "expected_seconds", "bound", "share"}  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--sequences", "64", "--efficiency", "0.80/0.75"],
        ["--phase", "prefill", "--new-tokens", "4k", "--logits", "all"],
        ["--tp", "4", "--kv", "fp8", "--weights", "nvfp4", "--compute", "fp8", "--activations", "fp8"],
        ["--prefill-sequences", "2", "--prefill-tokens", "512", "--prefill-context", "1k", "--fused"],
    ],
    ids=lambda options: " ".join(options) or "defaults",
)
def test_json_follows_its_schema(roofline, options):
    """One object with the keys that the interface names, valid against the package's schema."""
    answer = roofline("predict", "qwen3-8b", "--device", "h100-sxm", *options, "--json")

    jsonschema.validate(answer.json, schema("ledger-1"))
    assert answer.json["schema"] == "roofline.ledger/1"
    for section, keys in KEYS.items():
        assert keys <= set(answer.json[section])
    assert all(set(each) == KERNEL for each in answer.json["kernels"])
    assert answer.json["total"]["expected_seconds"] is None
    assert any("Expected times are unknown" in each for each in answer.json["assumptions"])


def test_command_line_and_library_agree(roofline):
    """The JSON is the ledger's to_dict()."""
    answer = roofline("predict", "Qwen/Qwen3-8B", "--device", "h100-sxm", "--sequences", 64, "--kv", "fp8", "--json")
    ledger = rl.predict(
        rl.Model.load("qwen3-8b"), rl.Device.load("h100-sxm"), rl.Workload.decode(64), rl.Precision(kv="fp8")
    )

    assert answer.json == json.loads(json.dumps(ledger.to_dict()))


def test_lengths_are_binary_and_counts_are_not(roofline):
    """--context 8k is 8,192; --sequences 1k is 1,000."""
    workload = roofline("predict", "7B", "--device", "h100-sxm", "--context", "8k", "--sequences", "1k", "--json").json[
        "workload"
    ]

    assert (workload["context"], workload["sequences"]) == (8192, 1000)


def test_defaults_of_a_prefill(roofline):
    """2,048 new tokens on nothing."""
    workload = roofline("predict", "7B", "--device", "h100-sxm", "--phase", "prefill", "--json").json["workload"]

    assert (workload["new_tokens"], workload["context"], workload["tokens"]) == (2048, 0, 2048)


def test_time_model_is_the_bound_unless_derated(roofline):
    """`seconds` is the bound, or the derated time with its shares named."""
    bound, derated = (
        roofline("predict", "7B", "--device", "h100-sxm", "--json", *more).json
        for more in ([], ["--efficiency", "0.5/0.5"])
    )

    assert bound["time_model"] == {"name": "bound", "efficiency": None}
    assert bound["total"]["seconds"] == bound["total"]["bound_seconds"]
    assert derated["time_model"] == {"name": "derated", "efficiency": {"bandwidth": 0.5, "compute": 0.5}}
    assert derated["total"]["seconds"] == 2 * derated["total"]["bound_seconds"]


def test_fp8_arithmetic_has_its_own_peak(roofline):
    """--compute fp8 doubles the peak of the H100 as its file states it; no scaling."""
    slow, fast = (
        roofline(
            *("predict", "qwen3-8b", "--device", "h100-sxm", "--phase", "prefill", "--new-tokens", "8k", "--json"),
            *("--compute", rate),
        ).json["total"]
        for rate in ("bf16", "fp8")
    )

    assert slow["flops"] == fast["flops"]
    assert fast["ridge"] == pytest.approx(1978.9 / 3.35232)


def test_a_folder_a_file_and_a_name_are_the_same_model(roofline, tmp_path):
    """The same keys give the same ledger, wherever they come from."""
    keys = {"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936}  # fmt: skip
    path = tmp_path / "mine" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(keys), "utf-8")
    totals = [
        roofline("predict", name, "--device", "h100-sxm", "--json").json["total"]
        for name in ("qwen3-8b", path, path.parent)
    ]

    assert totals[0] == totals[1] == totals[2]


def test_a_device_of_ones_own(roofline, tmp_path):
    """A TOML file stands wherever a device id does."""
    own = tmp_path / "box.toml"
    text = (Path(rl.__file__).parent / "data" / "devices" / "h100-sxm.toml").read_text("utf-8")
    own.write_text(text.replace('"h100-sxm"', '"box"').replace("3352.32 GB/s", "1 TB/s"), "utf-8")
    answer = roofline("predict", "7B", "--device", own, "--json").json

    assert answer["device"]["id"] == "box"
    assert answer["total"]["seconds"] == 14e9 / 1e12


def test_help_is_short_and_exits_with_0(roofline):
    """--help names every option group on one screen."""
    answer = roofline("predict", "--help")

    assert answer.code == 0
    assert "--prefill-sequences" in answer.out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_answer_that_cannot_be_written_is_one_line():
    """A full disk: exit code 2, one line, no traceback."""
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "roofline", "models"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr == "roofline: The answer cannot be written: No space left on device.\n"


def test_a_reader_that_leaves_is_no_error():
    """`| head` closes the pipe; nothing is said."""
    command = f"{sys.executable} -m roofline models | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert (done.stdout.split()[0], done.stderr) == ("id", "")


def test_a_terminal_without_the_characters_gets_others():
    """ASCII output: a question mark for a bullet, no traceback."""
    command = [sys.executable, "-m", "roofline", "predict", "7B", "--device", "h100-sxm"]
    done = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"})

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"? Bytes are ideal" in done.stdout


@pytest.mark.parametrize(("closed", "code"), [(">&-", 0), ("2>&-", 0), ("<&-", 0), (">&- 2>&-", 0)])
def test_a_closed_stream_is_no_traceback(closed, code):
    """What would go to a closed stream goes nowhere; the exit code stays."""
    command = f"{sys.executable} -m roofline models 7B {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (code, "")


def test_an_error_with_closed_standard_error_keeps_its_code():
    """Exit code 2, whoever listens."""
    command = f"{sys.executable} -m roofline models no-such-model 2>&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (2, b"")


def test_a_bad_hub_address_is_one_line():
    """HF_ENDPOINT that is no URL: exit code 2, one line, nothing on standard output."""
    command = [sys.executable, "-m", "roofline", "models", "own/model"]
    environment = {**os.environ, "HF_ENDPOINT": "http://[bad"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("activations", ["mxfp8", "nvfp4", "int4-g64", "fp6"])
@pytest.mark.parametrize("model", ["gpt2-xl", "qwen2.5-72b", "phi-2"])
@pytest.mark.parametrize("tp", [1, 2])
def test_folded_bytes_are_whole(roofline, model, activations, tp):
    """Whatever the format that is folded, the record follows its schema."""
    options = ("--fused", "--activations", activations, "--json", *(("--tp", tp) if model != "gpt2-xl" else ()))
    jsonschema.validate(roofline("predict", model, "--device", "h100-sxm", *options).json, schema("ledger-1"))
