"""`roofline devices`: the list, its filters and order, one in full, two side by side, the trend, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import roofline as rl
from roofline import catalogue, sheets
from roofline.device import Sheet

SCHEMA = json.loads((Path(rl.__file__).parent / "data" / "schemas" / "devices-1.json").read_text("utf-8"))
CARD = """id = "mine"
name = "My card"

[memory]
bandwidth = { value = "1 TB/s", status = "measured", source = "my bench" }

[peak]
int8 = { value = "100 TOP/s", status = "measured", source = "my bench" }
"""


@pytest.fixture(params=catalogue.device_ids())
def sheet(request: pytest.FixtureRequest) -> Sheet:
    return catalogue.load_sheet(request.param)


def answered(answer: Any) -> str:
    """Standard output of a call that worked, every line within 80 columns."""
    assert (answer.code, answer.err) == (0, "")
    assert [line for line in answer.out.splitlines() if len(line) > 80] == []
    return answer.out


def refused(answer: Any, *words: str) -> None:
    """One line on standard error with these words, and nothing else."""
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    for word in words:
        assert word in answer.err


def row(text: str, ident: str) -> list[str]:
    """The cells of the line of a table that starts with an id."""
    [found] = [line for line in text.splitlines() if line.split()[:1] == [ident]]
    return found.split()


def listed(text: str) -> list[str]:
    """The ids of a list, in its order."""
    known = set(catalogue.device_ids())
    return [line.split()[0] for line in text.splitlines() if line.split() and line.split()[0] in known]


# The list


def test_devices_lists_every_device(roofline):
    """A line each, in the order of the alphabet."""
    text = answered(roofline("devices"))

    assert listed(text) == catalogue.device_ids()
    assert f"{len(catalogue.device_ids())} devices" in text


def test_line_of_a_device(roofline):
    """H100: dense BF16, decimal bandwidth, binary capacity as the driver reports it, the ridge between."""
    text = answered(roofline("devices"))

    assert row(text, "h100-sxm")[-5:] == ["bf16", "989.4", "3,352", "79.33", "295"]
    assert row(text, "t4")[-5:] == ["fp16", "65.00", "320.0", "16.00", "203"]
    assert row(text, "apple-m4")[-5:] == ["fp16-vector", "4.600", "120.0", "unknown", "38.3"]
    assert row(text, "jetson-thor")[-5:] == ["unknown"] * 5


def test_ridge_points_of_the_published_notes(roofline):
    """153 of the A100, 295 of the H100, 206 of the H200, and 40 of the H100 without its tensor cores."""
    text = answered(roofline("devices"))
    vector = answered(roofline("devices", "--rate", "fp16-vector"))

    assert [row(text, each)[-1] for each in ("a100-sxm-80gb", "h100-sxm", "h200-sxm")] == ["153", "295", "206"]
    assert row(vector, "h100-sxm")[-1] == "39.9"


def test_figures_of_a_line_are_whole(roofline):
    """No number is cut short in 80 columns: peak, bandwidth, capacity, ridge."""
    text = answered(roofline("devices"))
    for sheet in catalogue.device_sheets():
        rate, *cells = row(text, sheet.id)[-5:]
        figures = [
            (sheet.peak.get(rate), 1e12),
            (sheet.bandwidth, 1e9),
            (sheet.capacity, 2**30),
            (sheet.ridge_point(rate) if rate in sheet.peak and sheet.bandwidth else None, 1),
        ]
        for cell, (value, unit) in zip(cells, figures, strict=True):
            if value is None:
                assert cell == "unknown"
            else:
                assert float(cell.replace(",", "")) == pytest.approx(value / unit, rel=5e-3)


@pytest.mark.parametrize(
    ("options", "there", "gone"),
    [
        (["--vendor", "amd"], "mi300x", "h100-sxm"),
        (["--vendor", " Google "], "tpu-v4", "mi300x"),
        (["--find", "hopper"], "h20", "b200"),
        (["--find", "HBM3"], "h100-sxm", "l4"),
        (["--rate", "fp4"], "b200", "h100-sxm"),
        (["--rate", "fp64", "--vendor", "NVIDIA"], "a100-sxm-80gb", "mi300x"),
    ],
)
def test_filters(roofline, options, there, gone):
    """By vendor, by text in any case, by a rate that it has."""
    found = listed(answered(roofline("devices", *options)))

    assert there in found
    assert gone not in found


def test_rate_is_shown_with_its_ridge(roofline):
    """FP8 of the H100: 1978.9 TFLOP/s, a ridge of 590."""
    assert row(answered(roofline("devices", "--rate", "fp8")), "h100-sxm")[-5:] == [
        "fp8",
        "1,979",
        "3,352",
        "79.33",
        "590",
    ]


@pytest.mark.parametrize(
    ("sort", "figure"),
    [
        ("bandwidth", lambda sheet: sheet.bandwidth),
        ("memory", lambda sheet: sheet.capacity),
        ("peak", lambda sheet: sheet.peak.get("fp8")),
        ("ridge", lambda sheet: sheet.ridge_point("fp8")),
        ("year", lambda sheet: sheet.released),
    ],
)
def test_order(roofline, sort, figure):
    """Numbers from the largest; a device without the figure is last."""
    found = listed(answered(roofline("devices", "--rate", "fp8", "--sort", sort)))
    figures = [figure(catalogue.load_sheet(each)) or 0 for each in found]

    assert len(found) > 20
    assert figures == sorted(figures, reverse=True)


def test_order_by_vendor(roofline):
    """In the alphabet."""
    vendors = [catalogue.load_sheet(each).vendor for each in listed(roofline("devices", "--sort", "vendor").out)]

    assert vendors == sorted(vendors)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--vendor", "nvdia"], ["'nvdia'", "NVIDIA"]),
        (["--rate", "fp7"], ["'fp7'", "fp8"]),
        (["--find", "hoper"], ["'hoper'", "hopper"]),
        (["--vendor", "amd", "--find", "hopper"], ["'hopper'", "No device is left"]),
        (["--sort", "colour"], ["colour"]),
        (["h100-sx"], ["'h100-sx'", "h100-sxm"]),
        (["h100-sxm", "h200-sx"], ["'h200-sx'", "h200-sxm"]),
        (["NVIDIA H100"], ["h100-nvl", "h100-pcie", "h100-sxm", "memory"]),
        (["NVIDIA GeForce RTX 4090 Laptop GPU"], ["laptop", "rtx-4090"]),
        (["h100", "--vendor", "AMD"], ["--vendor", "list"]),
        (["h100", "--trend"], ["--trend", "list"]),
        (["--csv", "--json"], ["--csv", "--json", "one"]),
        (["a", "b", "c"], ["c"]),
    ],
)
def test_what_cannot_be_chosen(roofline, options, words):
    """One line: what came, and what is close."""
    refused(roofline("devices", *options), *words)


# One in full


def test_device_in_full(roofline, sheet):
    """Every figure with its status, every source and every conflict, note and name."""
    text = answered(roofline("devices", sheet.id))
    words = " ".join(text.split())

    assert " ".join(f"{sheet.name} ({sheet.id})".split()) in words[:120]
    for key, figure in sheet.figures.items():
        cells = " ".join(row(text, key))
        assert figure.status in cells
        for source, number in zip(figure.source, cells.split(figure.status)[1].split(","), strict=True):
            assert f"· {number.strip()} {source}: {sheets.source_titles()[source][:30]}" in words
    assert ("Sources that disagree" in text) is bool(sheet.conflicts)
    for conflict in sheet.conflicts:
        assert " ".join(conflict.verdict.split()) in words
    for said in (*sheet.notes, *sheet.aliases):
        assert " ".join(said.split()) in words


def test_every_device_as_json(roofline):
    """Follows the schema; figures in base units, ridges with them, sources by title."""
    record = roofline("devices", "--json").json
    titles = set(sheets.source_titles().values())

    jsonschema.validate(record, SCHEMA)
    for found in record["devices"]:
        sheet = catalogue.load_sheet(found["id"])
        assert found["peaks"] == dict(sheet.peak)
        assert found["bandwidth"] == sheet.bandwidth
        ridges = {rate: peak / sheet.bandwidth for rate, peak in sheet.peak.items()} if sheet.bandwidth else {}
        assert found["ridge"] == ridges
        assert found["capacity_bytes"] == sheet.capacity
        values = {key: entry["value"] for key, entry in found["sources"].items()}
        assert values == {key: figure.value for key, figure in sheet.figures.items()}
        assert all(title in titles for entry in found["sources"].values() for title in entry["source"])
        assert len(found["conflicts"]) == len(sheet.conflicts)
        assert (found["released"], found["announced"], found["parts"]) == (sheet.released, sheet.announced, sheet.parts)
        assert (found["sparsity"] or {}).get("factor") == (sheet.sparsity and sheet.sparsity.factor)


def test_one_device_as_json_is_its_line_of_all(roofline):
    """The same record."""
    all_of_them = {each["id"]: each for each in roofline("devices", "--json").json["devices"]}

    for ident in ("h100-sxm", "apple-m3", "rubin", "mi250x"):
        assert roofline("devices", ident, "--json").json["devices"] == [all_of_them[ident]]


def test_device_by_hand(roofline):
    """H100 SXM: 132 SMs, 50 MiB of L2, 450 GB/s a direction, and why 989.4 and 3352 it is."""
    text = answered(roofline("devices", "h100-sxm"))
    words = " ".join(text.split())

    assert row(text, "peak.bf16")[1:5] == ["989.4", "TFLOP/s", "295", "quoted"]
    assert row(text, "peak.int8")[1:3] == ["1,979", "TOP/s"]
    assert row(text, "memory.bandwidth")[1:3] == ["3,352", "GB/s"]
    assert row(text, "cache.l2")[1:3] == ["50", "MiB"]
    assert row(text, "link.nvlink.bandwidth")[1:3] == ["450.0", "GB/s"]
    assert row(text, "chip.compute_units")[1] == "132"
    assert "1978.9 TFLOP/s (nv-h100-wp-v104-quoted: with sparsity)" in words
    assert "3000 GB/s (whitepaper V1.02, preliminary)" in words
    assert "sparsity (2:4 structured): 2 times bf16, fp16, fp8, int8, tf32." in words


def test_what_is_not_known_is_said(roofline):
    """Bandwidth of the M3; what is announced; two devices in a package."""
    assert row(answered(roofline("devices", "apple-m3")), "memory.bandwidth") == ["memory.bandwidth", "unknown"]
    assert "rubin is announced: its figures are what is expected" in answered(roofline("devices", "rubin"))
    assert "rubin is announced" in roofline("predict", "7B", "--device", "rubin").out
    assert "package: 2 devices to a framework, each one GCD" in answered(roofline("devices", "mi250x"))


def test_nothing_is_placed_on_a_device_without_a_bandwidth(roofline):
    """One line that says what is missing."""
    refused(roofline("predict", "7B", "--device", "apple-m3"), "apple-m3", "bandwidth", "not known", "--set")
    refused(roofline("op", "linear", "m=8", "n=8", "k=8", "--device", "apple-m3"), "apple-m3", "--set")


def test_a_bandwidth_set_by_hand_makes_a_device(roofline):
    """A hypothetical one: 14 GB of weights at 100 GB/s take 140 ms, and the answer says where that is from."""
    change = ["--set", "device.bandwidth=100GB/s", "device.peak.bf16=4TFLOP/s"]
    record = roofline("predict", "7B", "--device", "apple-m3", *change, "--json").json

    assert record["total"]["seconds"] == pytest.approx(0.14, rel=0.01)
    assert any("100.0 GB/s where none is known" in each for each in record["assumptions"])
    refused(roofline("predict", "7B", "--device", "apple-m3", "--set", "device.bandwidth=x2"), "bandwidth")


def test_short_name_of_a_device_says_what_it_is_taken_for(roofline):
    """Above its figures."""
    assert answered(roofline("devices", "H100")).split("\n")[1] == (
        "H100 is taken as h100-sxm (NVIDIA H100 SXM5 80GB)."
    )


@pytest.mark.parametrize("form", [(), ("--json",), ("--csv",)], ids=["text", "json", "csv"])
def test_device_from_a_file(roofline, tmp_path, form):
    """What is unknown is said to be, and a source without a title stands for itself."""
    path = tmp_path / "card.toml"
    path.write_text(CARD, "utf-8")
    answer = roofline("devices", path, *form)

    if form == ("--json",):
        jsonschema.validate(answer.json, SCHEMA)
        [found] = answer.json["devices"]
        assert (found["capacity_bytes"], found["l2_bytes"], found["link_bandwidth"]) == (None, None, None)
        assert found["sources"]["peak.int8"]["source"] == ["my bench"]
        assert found["ridge"] == {"int8": 100.0}
    elif form:
        assert answer.out.splitlines()[1].startswith("mine,My card,,,false,1000000000000,measured,,,,")
    else:
        assert "my bench" in answered(answer)


# Two side by side


def test_two_side_by_side(roofline):
    """H200 over H100: 1.43 times the bandwidth, the same peak, 0.698 times the ridge; what one lacks is unknown."""
    text = answered(roofline("devices", "h100-sxm", "h200-sxm"))

    assert row(text, "memory.bandwidth")[1:] == ["3,352", "GB/s", "4,800", "GB/s", "1.43", "x"]
    assert row(text, "peak.bf16")[-2:] == ["1.00", "x"]
    assert row(text, "ridge.bf16")[1:] == ["295", "206", "0.698", "x"]
    assert row(text, "peak.fp64")[1:] == ["66.90", "TFLOP/s", "unknown"]


def test_two_side_by_side_with_a_file_and_a_device_without_a_bandwidth(roofline, tmp_path):
    """Any name will do."""
    path = tmp_path / "card.toml"
    path.write_text(CARD, "utf-8")
    text = answered(roofline("devices", path, "apple-m3"))

    assert row(text, "memory.bandwidth")[1:] == ["1,000", "GB/s", "unknown"]
    assert row(text, "ridge.int8")[1:] == ["100", "unknown"]


@pytest.mark.parametrize("pair", [("mi250x", "mi300x"), ("rtx-4090", "l40s"), ("wse-3", "groq-lpu"), ("b300", "rubin")])
def test_every_figure_of_two_stands_in_their_table(roofline, pair):
    """Of one or the other."""
    text = answered(roofline("devices", *pair))
    for ident in pair:
        for key in catalogue.load_sheet(ident).figures:
            assert row(text, key)


def test_two_side_by_side_as_json(roofline):
    """Both records, in the order of the names."""
    record = roofline("devices", "b200", "a100", "--json").json

    jsonschema.validate(record, SCHEMA)
    assert [each["id"] for each in record["devices"]] == ["b200", "a100-sxm-80gb"]
    assert record["devices"][1]["assumptions"] == ["a100 is taken as a100-sxm-80gb (NVIDIA A100 SXM4 80GB)"]


# The trend, CSV, JSON


def test_trend(roofline):
    """The 16-bit ridge of NVIDIA: up to the H100's, down with the H200's memory; FP4 takes the narrowest further."""
    text = answered(roofline("devices", "--trend", "--vendor", "nvidia"))
    lines = {line.split()[-6 if "announced" in line else 1]: line for line in text.splitlines() if "█" in line}

    def sixteen(ident: str) -> str:
        [line] = [line for line in text.splitlines() if f" {ident} " in line]
        return line.split(f" {ident} ")[1].split()[0]

    assert lines
    assert [sixteen(each) for each in ("v100-sxm2-32gb", "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200")] == [
        "139",
        "153",
        "295",
        "206",
        "292",
    ]
    assert "1,875 fp4" in text
    assert "2026 announced" in text
    years = [int(line[:4]) for line in text.splitlines() if "█" in line]
    assert years == sorted(years)


def test_trend_says_what_it_leaves_out(roofline):
    """Devices without a year; a year with one device."""
    text = answered(roofline("devices", "--trend"))
    left = [each.id for each in catalogue.devices() if not each.released and {"bf16", "fp16"} & set(each.peak)]

    assert f"{len(left)} more have a ridge and no year with a source" in " ".join(text.split())
    assert "2018: 203, one device" in text


def test_trend_of_nothing_with_a_year(roofline):
    """No TPU has a year with a source: the table is empty, and it says how many it leaves out."""
    text = answered(roofline("devices", "--trend", "--vendor", "google"))

    assert "█" not in text
    assert "more have a ridge" in text


def test_csv(roofline):
    """A line a device in base units; unknown is empty, a peak has its status and ridge beside it."""
    lines = {each["id"]: each for each in csv.DictReader(io.StringIO(roofline("devices", "--csv").out))}

    assert list(lines) == catalogue.device_ids()
    h100 = lines["h100-sxm"]
    assert (h100["bandwidth"], h100["bandwidth_status"]) == ("3352320000000", "derived")
    assert (h100["peak_bf16"], h100["status_bf16"]) == ("989400000000000", "quoted")
    assert float(h100["ridge_bf16"]) == pytest.approx(295.139, rel=1e-5)
    assert (h100["peak_fp4"], h100["status_fp4"], h100["ridge_fp4"]) == ("", "", "")
    assert lines["apple-m3"]["bandwidth"] == ""
    assert lines["rubin"]["announced"] == "true"


def test_devices_as_json(roofline):
    """Follows the schema, and has every device in order."""
    answer = roofline("devices", "--json")
    record = answer.json

    assert (answer.code, answer.err) == (0, "")
    jsonschema.validate(record, SCHEMA)
    assert [each["id"] for each in record["devices"]] == catalogue.device_ids()


def test_filters_hold_for_every_form(roofline):
    """JSON and CSV list what the table lists."""
    chosen = ["--vendor", "amd", "--rate", "fp8", "--sort", "ridge"]
    ids = listed(answered(roofline("devices", *chosen)))

    assert [each["id"] for each in roofline("devices", *chosen, "--json").json["devices"]] == ids
    assert [line.split(",")[0] for line in roofline("devices", *chosen, "--csv").out.splitlines()[1:]] == ids
