"""An error of the input is exit code 2, nothing on standard output and one line on standard error."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from limits import SMALL_LLAMA, no_hang

GOOD = SMALL_LLAMA
PREDICT = ("predict", "Qwen3-8B", "--device", "h100-sxm")
# Names as a file could carry them: escapes, control and direction characters, markup of HTML and of Rich.
HOSTILE = {
    "ANSI escape": "a\x1b[31mb\x1b[0m",
    "C1 escape": "a\x9b31mb",
    "newline": "a\nroofline: b",
    "carriage return": "a\rb",
    "tab": "a\tb",
    "bell": "a\ab",
    "backspace": "a\b\bb",
    "right to left": "a\u202eb",
    "zero width": "a\u200bb",
    "script": "<script>b",
    "markup": "[red]b",
    "closing markup": "[b]",
    "emoji code": ":smile:",
    "braces": "{0}%s",
}
SHOWN = ("<script>b", "[red]b", "[b]", ":smile:", "{0}%s")


def refused(answer: Any, *words: str) -> None:
    """Exit code 2 and one line of printable text on standard error alone, with these words."""
    assert (answer.code, answer.out) == (2, "")
    assert re.fullmatch(r"roofline: [^\n]+\n", answer.err), answer.err
    assert answer.err.rstrip("\n").isprintable()
    assert "Traceback" not in answer.err
    for word in words:
        assert word in answer.err


def plain(text: str) -> None:
    """Lines of printable text."""
    assert [line for line in text.split("\n") if not line.isprintable()] == []


# Names and options


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope"], ["nope", "predict", "--help"]),
        (["--nope"], ["--nope"]),
        (["predict"], ["MODEL"]),
        (["predict", "Qwen3-8B"], ["--device"]),
        (["predict", "--device", "h100-sxm"], ["MODEL"]),
        (["predict", "Qwen3-8B", "extra", "--device", "h100-sxm"], ["extra"]),
        (["predict", "Qwen3-8", "--device", "h100-sxm"], ["model", "'Qwen3-8'", "qwen3-8b"]),
        (["predict", "", "--device", "h100-sxm"], ["config.json"]),
        (["predict", "missing.json", "--device", "h100-sxm"], ["missing.json"]),
        (["predict", "owner/missing", "--device", "h100-sxm"], ["owner/missing", "cannot be reached"]),
        (["predict", "Qwen3-8B", "--device", "h100-sx"], ["device", "'h100-sx'", "h100-sxm"]),
        (["predict", "Qwen3-8B", "--device", ""], ["device", "''"]),
        (["predict", "Qwen3-8B", "--device", "missing.toml"], ["missing.toml"]),
        (["predict", "Qwen3-8B", "--device", "/"], ["/"]),
        ([*PREDICT, "--device", "h200-sxm"], ["--device"]),
        ([*PREDICT, "--nope"], ["--nope"]),
        ([*PREDICT, "--nope", "3"], ["--nope"]),
        ([*PREDICT, "-x"], ["-x"]),
        ([*PREDICT, "--no-json"], ["--no-json"]),
        ([*PREDICT, "--no-fused"], ["--no-fused"]),
        ([*PREDICT, "--json=perhaps"], ["--json", "perhaps"]),
        ([*PREDICT, "--fused", "perhaps"], ["perhaps"]),
        (["models", "nope"], ["model", "'nope'"]),
        (["models", "gpt2", "opt-6.7b"], ["opt-6.7b"]),
        (["models", "--nope"], ["--nope"]),
        (["models", "nope", "--json"], ["model", "'nope'"]),
        (["devices", "nope"], ["device", "'nope'"]),
        (["devices", "b200", "l40s", "t4"], ["t4"]),
        (["devices", "--nope"], ["--nope"]),
        (["devices", "nope", "--json"], ["device", "'nope'"]),
    ],
    ids=lambda value: " ".join(value)[-40:] if isinstance(value, list) else "",
)
def test_wrong_command_line(roofline, arguments, words):
    """What came, and what is possible."""
    refused(roofline(*arguments), *words)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--phase", "train", ["decode", "prefill"]),
        ("--phase", "Decode ", ["decode", "prefill"]),
        ("--logits", "none", ["last", "all"]),
        ("--weights", "bf17", ["dtype", "bf16"]),
        ("--weights", "", ["dtype", "bf16"]),
        ("--kv", "int3", ["dtype", "int4"]),
        ("--activations", "float", ["dtype"]),
        ("--compute", "bf17", ["rate", "bf16"]),
        ("--compute", "fp4", ["rate", "fp8"]),
        ("--compute", "", ["rate"]),
    ],
)
def test_unknown_word_of_an_option(roofline, option, value, words):
    """The value is named, and those that are possible."""
    refused(roofline(*PREDICT, option, value), value, *words)


@pytest.mark.parametrize(
    ("device", "rate"), [("a100-sxm-80gb", "fp8"), ("tpu-v5e", "fp8"), ("h100-sxm", "fp4"), ("l40s", "fp64")]
)
def test_device_without_the_rate(roofline, device, rate):
    """None is scaled from another; the known ones are listed."""
    refused(
        roofline("predict", "Qwen3-8B", "--device", device, "--compute", rate), device, repr(rate), "bf16", "none is"
    )


COUNTS = ("--sequences", "--prefill-sequences", "--tp")
LENGTHS = ("--new-tokens", "--context", "--prefill-tokens", "--prefill-context")
NO_NUMBERS = {
    "negative": "-1",
    "fraction": "1.5",
    "word": "many",
    "empty": "",
    "blank": " ",
    "exponent": "1e3",
    "nan": "nan",
    "inf": "inf",
    "hexadecimal": "0x10",
    "another script": "\u0663",
    "two": "1 2",
    "unit": "8 tokens",
    "an option": "--json",
    "escape": "\x1b[31m\n",
    "30 digits": "9" * 30,
    "a million digits": "9" * 1_000_000,
}


@pytest.mark.parametrize("value", NO_NUMBERS.values(), ids=NO_NUMBERS)
@pytest.mark.parametrize("option", [*COUNTS, *LENGTHS])
def test_size_that_is_no_whole_number(roofline, option, value):
    """The option is named, and how to write one."""
    refused(roofline(*PREDICT, option, value), option, "Write a ")


@pytest.mark.parametrize("option", [*COUNTS, "--new-tokens", "--prefill-tokens"])
def test_size_of_zero(roofline, option):
    """The option is named, and the least that is possible."""
    refused(roofline(*PREDICT, option, 0), option, "1")


@pytest.mark.parametrize("option", [*COUNTS, *LENGTHS])
def test_absurd_size(roofline, option):
    """The option is named, and the most that is possible."""
    refused(roofline(*PREDICT, option, "9999999999G"), option)


@pytest.mark.parametrize(
    "option",
    [*COUNTS, *LENGTHS, "--device", "--phase", "--logits", "--weights", "--kv", "--activations", "--compute"],
)
def test_option_without_its_value(roofline, option):
    """At the end of the line."""
    refused(roofline("predict", "Qwen3-8B", *(() if option == "--device" else PREDICT[2:]), option), option)


@pytest.mark.parametrize(
    "value",
    [
        *("", "0.8", "0.8/", "/", "0.8/0.7/0.6", "180%/75%", "a/b", "\x1b[31m/1"),
        *("0/1", "1/0", "-0.5/0.5", "1.01/1", "1/2", "nan/1", "1/nan", "inf/1"),
    ],
    ids=ascii,
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_bad_efficiency(roofline, value, form):
    """Two shares above 0 and up to 1."""
    refused(roofline(*PREDICT, "--efficiency", value, *form), "--efficiency", "0.80/0.75")


@pytest.mark.parametrize("value", ["1e-320/1", "1/1e-320"])
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_efficiency_too_small_for_a_finite_time(roofline, value, form):
    """No number, and no traceback."""
    refused(roofline(*PREDICT, "--efficiency", value, *form), "efficiency")


@pytest.mark.parametrize(
    ("option", "value"),
    [("--prefill-sequences", 4), ("--prefill-tokens", 4), ("--prefill-context", 4), ("--prefill-context", 0)],
)
def test_prefill_rows_beside_a_prefill(roofline, option, value):
    """They join decode rows only."""
    refused(roofline(*PREDICT, "--phase", "prefill", option, value), "--phase", "decode")


# Tensor parallelism


@pytest.mark.parametrize(
    ("model", "device", "tp", "words"),
    [
        ("Qwen3-8B", "h100-sxm", 3, ["3 ranks", "32 heads", "1, 2, 4, 8"]),
        ("Qwen2.5-7B", "h100-sxm", 8, ["8 ranks", "28 heads", "1, 2, 4, 7"]),
        ("Qwen3-8B", "h100-sxm", 16, ["16 ranks", "8 devices", "nvlink"]),
        ("Qwen3-8B", "h100-nvl", 4, ["4 ranks", "2 devices"]),
        ("Qwen3-8B", "h100-sxm", 4097, ["4097"]),
        ("gpt2", "h100-sxm", 5, ["5 ranks", "12 heads"]),
    ],
)
def test_ranks_that_cannot_be(roofline, model, device, tp, words):
    """Not dividing, beyond the link, beyond reason."""
    refused(roofline("predict", model, "--device", device, "--tp", tp), *words)


def test_ranks_that_do_not_divide_a_large_axis(roofline):
    """7e9 weights over 3 ranks: the possible ones are listed at once, not after counting to 7e9."""
    with no_hang():
        refused(roofline("predict", "7B", "--device", "h100-sxm", "--tp", 3), "3 ranks", "1, 2, 4, 5")


def test_ranks_that_do_not_divide_a_width_from_a_file(roofline, tmp_path):
    """2^47 + 1 is odd."""
    (tmp_path / "config.json").write_text(json.dumps({**GOOD, "intermediate_size": 2**47 + 1}))

    with no_hang():
        refused(roofline("predict", tmp_path, "--device", "h100-sxm", "--tp", 2), "2 ranks", str(2**47 + 1))


def test_ranks_without_a_link(roofline, tmp_path):
    """A device file without a [link.*] table joins nothing."""
    device(tmp_path / "card.toml", link=None)

    refused(roofline("predict", "Qwen3-8B", "--device", tmp_path / "card.toml", "--tp", 2), "2 ranks", "[link.NAME]")


# Files


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["JSON"]),
        (b"{", ["JSON"]),
        (b"[]", ["list"]),
        (b"null", ["NoneType"]),
        (b"{}", ["hidden_size"]),
        (b"\xff\xfe{\x00}\x00", ["text"]),
        (b"\x00\x01\x02", ["JSON"]),
        (b"[" * 100_000, []),
        (b'{"hidden_size": ' + b"9" * 5000 + b"}", []),
        (b'{"a": "\x1b[31m"}', ["JSON"]),
    ],
    ids=["empty", "cut short", "list", "null", "no keys", "UTF-16", "binary", "deep", "long number", "escape"],
)
@pytest.mark.parametrize("command", ["models", "predict"])
def test_file_that_is_no_config(roofline, tmp_path, command, content, words):
    """The file is named."""
    path = tmp_path / "config.json"
    path.write_bytes(content)

    refused(roofline(command, path, *(("--device", "h100-sxm") if command == "predict" else ())), str(path), *words)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", None),
        ("hidden_size", 0),
        ("hidden_size", -64),
        ("hidden_size", "64"),
        ("hidden_size", 64.5),
        ("hidden_size", float("nan")),
        ("hidden_size", float("inf")),
        ("hidden_size", [64]),
        ("hidden_size", True),
        ("hidden_size", 2**60),
        ("hidden_size", "\x1b[31m\n\u202e"),
        ("num_attention_heads", 7),
        ("num_key_value_heads", 3),
        ("vocab_size", 1e300),
        ("tie_word_embeddings", "false"),
        ("num_experts", 8),
        ("kv_lora_rank", 512),
        ("q_lora_rank", 512),
        ("is_encoder_decoder", "\x1b]0;title\x07"),
    ],
    ids=ascii,
)
def test_config_with_a_bad_key(roofline, tmp_path, key, value):
    """File and key are named."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**GOOD, key: value}))
    word = {"num_attention_heads": "7 attention heads", "num_key_value_heads": "3 KV heads"}.get(key, key)

    refused(roofline("models", path), str(path), word)


def test_folder_without_a_config(roofline, tmp_path):
    """It says what is missing."""
    refused(roofline("models", tmp_path), str(tmp_path), "no config.json")


def test_config_of_200_megabytes(roofline, tmp_path):
    """It is not read."""
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(200_000_000)

    refused(roofline("models", tmp_path), "191 MiB")


def figure(value: str) -> str:
    return f'{{ value = "{value}", status = "measured", source = "my bench" }}'


def device(path: Path, **changes: Any) -> Path:
    """Write a device file; `changes` replace its names and figures, None leaves one out."""
    names = {"id": "mine", "name": "My card", "link": "wire", "rate": "bf16", "capacity": "16 GiB", "note": "by hand"}
    names |= {"source": "my bench", "field": "memory.type", "bandwidth": "1 TB/s", "peak": "100 TFLOP/s", **changes}
    quoted = {key: json.dumps(value) for key, value in names.items()}
    lines = [f"id = {quoted['id']}", f"name = {quoted['name']}", f"notes = [{quoted['note']}]", "[memory]"]
    lines.append(f'bandwidth = {{ value = {quoted["bandwidth"]}, status = "measured", source = {quoted["source"]} }}')
    if names["capacity"] is not None:
        lines.append(f"capacity = {figure(names['capacity'])}")
    lines += ["[peak]", f"{quoted['rate']} = {figure(names['peak'])}"]
    if names["link"] is not None:
        lines += [f"[link.{quoted['link']}]", f"bandwidth = {figure('50 GB/s')}"]
    lines += [
        "[[conflict]]",
        f"field = {quoted['field']}",
        f"values = [{quoted['note']}]",
        f"verdict = {quoted['note']}",
    ]
    path.write_text("\n".join(lines), "utf-8")
    return path


@pytest.mark.parametrize("command", ["devices", "predict"])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bandwidth": "1 TFLOP/s"}, ["memory.bandwidth"]),
        ({"bandwidth": "-1 TB/s"}, ["memory.bandwidth"]),
        ({"bandwidth": "nan B/s"}, ["memory.bandwidth"]),
        ({"bandwidth": "\x1b[31m"}, ["memory.bandwidth"]),
        ({"peak": "100 TB/s"}, ["peak.bf16"]),
        ({"source": ""}, ["memory.bandwidth", "source"]),
        ({"id": 7}, ["id"]),
        ({"name": ["x"]}, ["name"]),
    ],
    ids=ascii,
)
def test_bad_device_file(roofline, tmp_path, command, changes, words):
    """File and key are named."""
    path = device(tmp_path / "card.toml", **changes)
    arguments = ("devices", path) if command == "devices" else ("predict", "Qwen3-8B", "--device", path)

    refused(roofline(*arguments), str(path), *words)


@pytest.mark.parametrize(
    "content", [b"", b"id = ", b"\xff\x00", b"[" * 100_000], ids=["empty", "cut", "binary", "deep"]
)
def test_file_that_is_no_device_file(roofline, tmp_path, content):
    """The file is named."""
    path = tmp_path / "card.toml"
    path.write_bytes(content)

    refused(roofline("devices", path), str(path))


@pytest.mark.parametrize("changes", [{"bandwidth": "1e-320 B/s"}, {"peak": "1e-320 FLOP/s"}], ids=str)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_device_too_slow_for_a_finite_time(roofline, tmp_path, changes, form):
    """1e-320 B/s: no number, and no traceback."""
    path = device(tmp_path / "card.toml", **changes)

    refused(roofline("predict", "Qwen3-8B", "--device", path, *form))


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("name", ["devices", "predict"])
def test_device_too_fast_is_answered_or_refused(roofline, tmp_path, form, name):
    """1e308 of everything: whatever comes, it is finite."""
    path = device(tmp_path / "card.toml", bandwidth="1e308 B/s", peak="1e308 FLOP/s", capacity="1e308 B")
    answer = roofline(name, *(["Qwen3-8B", "--device"] if name == "predict" else []), path, *form)

    if answer.code == 2:
        refused(answer)
    else:
        plain(answer.out)
        assert not re.search(r"\b(inf|nan|NaN|Infinity)\b", answer.out)


# Names from files are data


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("command", ["models", "predict"])
def test_hostile_name_of_a_model(roofline, tmp_path, command, form, name):
    """A folder's name is shown as text, whole in JSON."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**GOOD, "model_type": name, "quantization_config": {name: name}}))
    answer = roofline(
        command,
        folder,
        *(["--device", "h100-sxm"] if command == "predict" else []),
        *(["--json"] if form == "json" else []),
    )

    assert (answer.code, answer.err) == (0, "")
    plain(answer.out)
    if form == "json":
        assert (answer.json["model"] if command == "predict" else answer.json)["name"] == name
    elif name in SHOWN:
        assert answer.out.startswith(name)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_name_of_a_model_in_an_error(roofline, tmp_path, name):
    """Folder, family and layer types of a file that is refused."""
    folder = tmp_path / name
    folder.mkdir()
    keys = {**GOOD, "model_type": name, "sliding_window": 8, "layer_types": [name] * 4}
    (folder / "config.json").write_text(json.dumps(keys))
    answer = roofline("models", folder)

    refused(answer, "layer_types")
    if name in SHOWN:
        assert name in answer.err


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("arguments", [("models",), ("devices",), ("predict",)], ids=" ".join)
def test_hostile_word_on_the_command_line(roofline, arguments, name):
    """Of a model, a device or an option."""
    for line in (
        (*arguments, name),
        (*arguments, f"./{name}.json"),
        (*arguments, f"{name}.toml"),
        (*arguments, f"--{name}"),
        (name,),
        (*PREDICT, "--weights", name),
        (*PREDICT, "--compute", name),
        (*PREDICT, "--phase", name),
        ("predict", "Qwen3-8B", "--device", name),
    ):
        refused(roofline(*line))


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("form", ["text", "json"])
def test_hostile_names_in_a_device_file(roofline, tmp_path, form, name):
    """Id, name, note, source, link and conflict of the catalogue page."""
    path = device(tmp_path / "card.toml", id=name, name=name, note=name, source=name, link=name, field=name)
    answer = roofline("devices", path, *(["--json"] if form == "json" else []))

    assert (answer.code, answer.err) == (0, "")
    plain(answer.out)
    if form == "json":
        [record] = answer.json["devices"]
        assert (record["id"], record["name"], record["notes"]) == (name, name, [name])
    elif name in SHOWN:
        assert answer.out.startswith(f"{name} ({name})")


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("capacity", ["80 GiB", None], ids=["capacity", "no capacity"])
def test_hostile_names_of_a_device_in_a_prediction(roofline, tmp_path, form, capacity, name):
    """The title, the memory line and the assumptions name the device and its link."""
    path = device(tmp_path / "card.toml", id=name, name=name, source=name, link=name, capacity=capacity)
    answer = roofline("predict", "Qwen3-8B", "--device", path, "--tp", 2, *(["--json"] if form == "json" else []))

    assert (answer.code, answer.err) == (0, "")
    plain(answer.out)
    if form == "json":
        assert answer.json["device"] == {"id": name, "name": name}
    elif name in SHOWN:
        assert f"on 2 x {name}" in answer.out.split("\n")[0]


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_rate_of_a_device_file(roofline, tmp_path, name):
    """A rate that only such a file has, asked for by name."""
    path = device(tmp_path / "card.toml", rate=name, capacity="80 GiB")
    answer = roofline("predict", "Qwen3-8B", "--device", path, "--compute", name)

    assert (answer.code, answer.err) == (0, "")
    plain(answer.out)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_of_a_device_in_an_error(roofline, tmp_path, name):
    """A rate that it lacks, more ranks than its link joins, a bad figure under such a key."""
    path = device(tmp_path / "card.toml", id=name, link=None)
    refused(roofline("predict", "Qwen3-8B", "--device", path, "--compute", "fp8"), "'fp8'")
    refused(roofline("predict", "Qwen3-8B", "--device", path, "--tp", 2), "2 ranks")
    bad = device(tmp_path / "bad.toml", rate=name, peak="1 TB/s")
    refused(roofline("devices", bad), "peak.")
