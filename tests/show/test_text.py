"""Terminal text: 80 columns, no colour in a pipe, hostile names as text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import roofline as rl

COMMANDS = [
    ["predict", "qwen3-8b", "--device", "h100-sxm"],
    [
        "predict",
        "llama-3.1-405b",
        "--device",
        "h100-sxm",
        "--tp",
        "8",
        "--efficiency",
        "0.8/0.75",
        "--prefill-sequences",
        "4",
    ],
    [
        "predict",
        "qwen3-8b",
        "--device",
        "tpu-v5e",
        "--fused",
        "--weights",
        "int4-g128",
        "--phase",
        "prefill",
        "--new-tokens",
        "32k",
    ],
    ["predict", "7B", "--device", "mi300x", "--sequences", "1M"],
    ["predict", "7B", "--device", "l40s", "--sequences", "1099511627776", "--efficiency", "0.01/0.01"],
    ["predict", "qwen3-8b", "--device", "mi300x", "--phase", "prefill", "--new-tokens", "1099511627776"],
    ["devices"],
    ["devices", "h100-sxm"],
    ["devices", "mi300x"],
    ["models"],
    ["models", "gpt-neox-20b"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_line_fits_80_columns(roofline, command):
    """No line is wider than 80, and no number is cut short."""
    answer = roofline(*command)

    assert answer.code in (0, 3)
    assert answer.err == ""
    assert max(len(line) for line in answer.out.splitlines()) <= 80
    assert "\x1b" not in answer.out
    if command[0] == "predict":
        assert not re.search(r"\d…|…\d", answer.out)


def test_a_wide_terminal_cuts_nothing(roofline, monkeypatch):
    """With room, names are whole."""
    monkeypatch.setenv("COLUMNS", "160")

    assert "…" not in roofline("devices").out


def test_the_answer_says_which_device_a_short_name_is(roofline):
    """h100 is taken as the SXM card, and the answer says so."""
    assert "h100 is taken as h100-sxm" in roofline("predict", "7B", "--device", "h100").out


@pytest.mark.parametrize(
    "name", ["[red]bold[/red]", "<script>alert(1)</script>", "a\x1b[31mred", "r\u202etl", "line\nbreak"]
)
def test_hostile_names_are_text(roofline, tmp_path, name):
    """A name from a file is printed as it is, its control characters as escapes."""
    folder = tmp_path / name.replace("/", "_")
    folder.mkdir()
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps({**config, "num_attention_heads": 1, "vocab_size": 10}), "utf-8")
    answer = roofline("predict", folder, "--device", "h100-sxm")

    assert answer.code == 0
    assert "\x1b" not in answer.out
    assert "\u202e" not in answer.out
    shown = name.replace("/", "_").encode("unicode_escape").decode().replace("\\\\", "\\")
    assert shown in " ".join(answer.out.split("\n")).replace("  ", " ")


def test_what_does_not_fit_is_marked(roofline):
    """Exit code 3, the answer in full, and how much would fit."""
    answer = roofline("predict", "qwen3-8b", "--device", "h100-sxm", "--sequences", 64)

    assert answer.code == 3
    assert "Does not fit: 87.28 GiB of 79.33 GiB (as the driver reports it)" in answer.out
    assert "Largest batch at this context: 56" in answer.out
    assert "lm_head" in answer.out


def test_a_pass_that_fits_to_the_byte_fits(roofline, tmp_path):
    """A prefill from nothing on a device of just its size: it fits, and no token more was cached before."""
    needs = roofline("predict", "qwen3-0.6b", "--device", "h100-sxm", "--phase", "prefill", "--json").json["memory"]
    text = (Path(rl.__file__).parent / "data" / "devices" / "h100-sxm.toml").read_text("utf-8")
    own = tmp_path / "box.toml"
    own.write_text(text.replace('"85176483840 B"', f'"{needs["total_bytes"]} B"'), "utf-8")
    answer = roofline("predict", "qwen3-0.6b", "--device", own, "--phase", "prefill")

    assert answer.code == 0
    assert "Largest batch at this context: 1. Longest context before the new tokens at this batch: 0" in " ".join(
        answer.out.split()
    )
