"""Contract over every device and model file, and every way to name one: built in, a file, the Hub."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import roofline as rl
from limits import SMALL_LLAMA, no_hang
from roofline import catalogue
from roofline.errors import ConfigError, DataError, RooflineError, UnknownName

DATA = Path(rl.__file__).parent / "data"
DEVICES = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in sorted((DATA / "devices").iterdir())}
MODELS = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in sorted((DATA / "models").iterdir())}
SOURCES = tomllib.loads((DATA / "sources.toml").read_text("utf-8"))
GIB = 2**30

# Dense BF16 (FP16 where there is none) [TFLOP/s], the trap beside it, bandwidth [GB/s], the vendor's capacity [byte].
PUBLISHED = {
    "a100-sxm-40gb": (312, 624, 1555, 40 * GIB),
    "a100-sxm-80gb": (312, 624, 2039, 80 * GIB),
    "a100-pcie-80gb": (312, 624, 1935, 80 * GIB),
    "a10g": (70, 125, 600, 24 * GIB),
    "b200": (2250, 4500, 7700, 180 * GIB),
    "b300": (2250, 4500, 7700, 270 * GIB),
    "gb200": (2500, 5000, 8000, 186 * GIB),
    "gb300": (2500, 5000, 8000, 279 * GIB),
    "gaudi3": (1677, 1835, 3700, 128 * GIB),
    "h100-nvl": (835.5, 1671, 3900, 94 * GIB),
    "h100-pcie": (756, 1513, 2000, 80 * GIB),
    "h100-sxm": (989.4, 1978.9, 3352.32, 80 * GIB),
    "h20": (148, 632, 4000, 96 * GIB),
    "h200-nvl": (835.5, 1671, 4800, 141 * GIB),
    "h200-sxm": (989.5, 1979, 4800, 141 * GIB),
    "l4": (121, 242, 300, 24 * GIB),
    "l40s": (362.05, 733, 864, 48 * GIB),
    "mi250x": (383, 766, 3276.8, 128 * GIB),
    "mi300x": (1307.4, 2614.9, 5300, 192 * GIB),
    "mi355x": (2516.6, 5033, 8000, 288 * GIB),
    "rtx-4090": (165.2, 330.3, 1008, 24 * GIB),
    "rtx-5090": (209.5, 419, 1792, 32 * GIB),
    "t4": (65, 130, 320, 16 * GIB),
    "tpu-v5e": (197, 394, 820, 17_200_000_000),
    "tpu-v5p": (459, 918, 2765, 95 * GIB),
    "trainium2": (667, 2563, 2900, 96 * GIB),
    "v100-sxm2-32gb": (125, 250, 900, 32 * GIB),
}
# What a figure in base units may be: a slip of a prefix, or of bits for bytes, falls outside.
PLAUSIBLE = {
    "memory.bandwidth": (5e10, 3e13),
    "memory.capacity": (8e9, 5e11),
    "memory.reported": (8e9, 5e11),
    "cache.l2": (1e6, 2e8),
    "cache.last_level": (1e7, 1e9),
    "cache.l2_bandwidth": (1e11, 1e14),
    "cache.last_level_bandwidth": (1e11, 1e14),
    "chip.compute_units": (1, 1100),
    "chip.boost_clock": (5e8, 4e9),
    "chip.power": (50, 2000),
    "peak": (1e12, 5e16),
    "link.bandwidth": (1e10, 2e12),
    "link.domain": (2, 10_000),
    "link.latency": (1e-8, 1e-3),
}
# Machines whose memory is on the chip, and as large as a wafer.
ON_CHIP = {"memory.bandwidth": (1e13, 1e17), "chip.power": (50, 50_000)}
GOOD = SMALL_LLAMA
PARAMETERS = 128_064
CARD = """
id = "mine"
name = "My card"

[memory]
bandwidth = { value = "1 TB/s", status = "measured", source = "my bench" }
capacity = { value = "16 GiB", status = "measured", source = ["my bench", "the box"], note = "twice" }

[peak]
bf16 = { value = "100 TFLOP/s", status = "measured", source = "my bench" }

[link.wire]
bandwidth = { value = "50 GB/s", status = "measured", source = "my bench" }
domain = { value = 2, status = "measured", source = "my bench" }
"""

BANDWIDTH = next(line for line in CARD.splitlines() if line.startswith("bandwidth"))


def clear(call: Callable[[], object], *words: str) -> str:
    """The message of the error that `call` raises: a RooflineError of one printable line with these words."""
    with pytest.raises(RooflineError) as caught, no_hang():
        call()
    message = str(caught.value)
    assert message.isprintable()
    for word in words:
        assert word in message
    return message


# Device files


@pytest.fixture(params=list(DEVICES))
def ident(request: pytest.FixtureRequest) -> str:
    return request.param


def test_every_device_is_listed():
    """One id a file, in the order of the alphabet."""
    assert catalogue.device_ids() == sorted(DEVICES) == [each.id for each in catalogue.device_sheets()]


def test_devices_are_those_whose_bandwidth_is_known():
    """What has none cannot be placed on a roofline, and is listed all the same."""
    known = {each.id for each in catalogue.devices()}
    unknown = {ident for ident, entry in DEVICES.items() if entry["memory"]["bandwidth"] == "unknown"}

    assert unknown
    assert known == set(DEVICES) - unknown


def test_id_is_the_file_name(ident):
    """Lower case, so that a name in any case finds it."""
    assert DEVICES[ident]["id"] == ident == ident.lower()


def test_device_names_are_unique():
    """No id, alias or short name means two devices, in any case."""
    names = [
        name
        for entry in DEVICES.values()
        for name in {each.lower() for each in (entry["id"], *entry.get("aliases", ()), *entry.get("default_for", ()))}
    ]

    assert sorted(set(names)) == sorted(names)


def test_every_name_of_a_device_finds_it(ident):
    """By id, alias and short name, in any case and with spaces around."""
    entry = DEVICES[ident]
    for name in (entry["id"], *entry.get("aliases", ()), *entry.get("default_for", ())):
        for written in (name, name.upper(), f" {name.lower()} "):
            assert catalogue.load_sheet(written).id == ident


def test_every_figure_has_a_known_source(ident):
    """A key of sources.toml, with its title."""
    sheet = catalogue.load_sheet(ident)
    for key, figure in sheet.figures.items():
        assert figure.source, key
        assert set(figure.source) <= set(SOURCES), key
    assert set(sheet.names.source) <= set(SOURCES)


def test_every_derived_figure_says_how(ident):
    """Its note has the formula."""
    for key, figure in catalogue.load_sheet(ident).figures.items():
        assert figure.status != "derived" or figure.note, key


def test_no_source_is_unused():
    """Each is quoted by a figure or a conflict."""
    text = "\n".join(path.read_text("utf-8") for path in (DATA / "devices").iterdir())

    assert [key for key in SOURCES if not re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", text)] == []


def test_every_source_says_what_it_is():
    """Title and kind; an address is https."""
    for key, entry in SOURCES.items():
        assert entry["title"], key
        assert entry["kind"] in {"vendor_quote", "vendor_copy", "catalogue", "measurement"}, key
        assert entry.get("url", "https://").startswith("https://"), key


def test_figures_are_plausible(ident):
    """In base units, each within what its kind can be."""
    ranges = {**PLAUSIBLE, **(ON_CHIP if "SRAM" in DEVICES[ident]["memory"]["type"] else {})}
    for key, figure in catalogue.load_sheet(ident).figures.items():
        kind = "peak" if key.startswith("peak.") else re.sub(r"^link\.[^.]+", "link", key)
        low, high = ranges[kind]
        assert low <= figure.value <= high, key


@pytest.mark.parametrize("ident", PUBLISHED)
def test_published_figures(ident):
    """Dense peak, bandwidth and the vendor's capacity, each to the digit."""
    tflops, _, gbytes, capacity = PUBLISHED[ident]
    device = rl.Device.load(ident)

    assert device.rate("bf16" if "bf16" in device.peak else "fp16") == pytest.approx(tflops * 1e12, rel=1e-12)
    assert device.bandwidth == pytest.approx(gbytes * 1e9, rel=1e-12)
    assert device.figures["memory.capacity"].value == capacity


@pytest.mark.parametrize("ident", PUBLISHED)
def test_peak_is_not_the_figure_printed_beside_it(ident):
    """With sparsity, of another card, or of another clock."""
    device = rl.Device.load(ident)
    assert device.rate("bf16" if "bf16" in device.peak else "fp16") < 0.95 * PUBLISHED[ident][1] * 1e12


def test_rates_are_in_order(ident):
    """Narrower formats are no slower, vector units no faster than tensor cores."""
    peak = catalogue.load_sheet(ident).peak
    rising = [rate for rate in ("fp32-vector", "tf32", "bf16", "fp8", "fp4") if rate in peak]

    assert [peak[rate] for rate in rising] == sorted(peak[rate] for rate in rising)


def test_no_sparse_peak_stands_among_dense_ones(ident):
    """Where a vendor doubles rates by sparsity, FP8 is twice BF16: a sparse one beside it would be four times."""
    sheet = catalogue.load_sheet(ident)
    if sheet.sparsity and {"bf16", "fp8"} <= set(sheet.sparsity.rates):
        assert sheet.peak["fp8"] / sheet.peak["bf16"] == pytest.approx(2, rel=0.03)


def test_sparsity_is_of_tensor_rates_that_are_there(ident):
    """Twice, and of neither FP64 nor vector rates."""
    sparsity = catalogue.load_sheet(ident).sparsity
    if sparsity:
        assert sparsity.factor == 2
        assert sparsity.rates
        assert set(sparsity.rates) <= set(DEVICES[ident]["peak"])
        assert [rate for rate in sparsity.rates if rate == "fp64" or rate.endswith("-vector")] == []


def test_bf16_and_fp16_have_one_rate(ident):
    """On every tensor core here."""
    peak = catalogue.load_sheet(ident).peak
    if {"bf16", "fp16"} <= set(peak):
        assert peak["fp16"] == peak["bf16"]


def test_accumulation_in_fp16_is_faster(ident):
    """A rate of its own where the peak differs: twice, on GeForce."""
    peak = catalogue.load_sheet(ident).peak
    for rate in (each for each in peak if each.endswith("-fp16acc")):
        assert peak[rate] / peak[rate.removesuffix("-fp16acc")] == pytest.approx(2, rel=0.01)


def test_ridge_is_plausible(ident):
    """FLOP/byte at every peak."""
    sheet = catalogue.load_sheet(ident)
    for rate in sheet.peak if sheet.bandwidth else ():
        assert 0.1 < sheet.ridge_point(rate) < 3000, rate


def test_announced_figures_are_of_announced_devices(ident):
    """A device that ships has none."""
    sheet = catalogue.load_sheet(ident)
    assert sheet.announced or "announced" not in {each.status for each in sheet.figures.values()}


def test_a_package_divides_into_its_parts(ident):
    """Units and sizes are whole in each part."""
    sheet = catalogue.load_sheet(ident)
    if sheet.parts > 1:
        assert sheet.part
        for key in ("chip.compute_units", "memory.capacity", "cache.l2"):
            if key in sheet.figures:
                assert sheet.figures[key].value % sheet.parts == 0, key


def test_driver_reports_no_more_than_the_vendor_states(ident):
    """And not less than nine tenths of it."""
    figures = catalogue.load_sheet(ident).figures
    if {"memory.reported", "memory.capacity"} <= set(figures):
        assert 0.9 < figures["memory.reported"].value / figures["memory.capacity"].value <= 1


def test_capacity_is_what_a_program_may_use(ident):
    """The driver's figure where it is known; the note says whose it is."""
    device = catalogue.load_sheet(ident)
    keys = [key for key in ("memory.reported", "memory.capacity") if key in device.figures]
    notes = {"memory.reported": "as the driver reports it", "memory.capacity": "the vendor's figure"}

    assert device.capacity == (device.figures[keys[0]].value if keys else None)
    assert device.capacity_note == (notes[keys[0]] if keys else "unknown")


def test_conflicts_name_a_field_of_the_file_and_a_verdict(ident):
    """Each disagreement is about a figure that is there, and says what was taken."""
    for entry in DEVICES[ident].get("conflict", ()):
        table, *rest = entry["field"].split(".")
        found: Any = DEVICES[ident][table]
        for key in rest:
            found = found[key]
        assert len(entry["values"]) > 1
        assert entry["verdict"]


def test_first_link_is_the_fastest(ident):
    """Tensor parallelism runs on it."""
    links = [link.bandwidth for link in catalogue.load_sheet(ident).links]

    assert links == sorted(links, reverse=True)


def test_l40s_is_no_a100():
    """A tool that does not know the name answers with 312."""
    l40s, a100 = rl.Device.load("NVIDIA L40S"), rl.Device.load("a100")

    assert l40s.rate("bf16") == 362.05e12
    assert l40s.bandwidth < a100.bandwidth
    assert l40s.id != a100.id


def test_gb_and_gib_are_not_mixed_up():
    """80 GB of an A100 are 80 GiB, as the file says; 17.2 GB of a TPU are decimal; bandwidths always are."""
    assert rl.Device.load("a100-sxm-80gb").capacity == 85_899_345_920
    assert rl.Device.load("tpu-v5e").capacity == 17_200_000_000
    assert rl.Device.load("h100-sxm").capacity == 85_176_483_840
    assert rl.Device.load("l40s").capacity == 46_068 * 2**20
    assert rl.Device.load("h200-sxm").bandwidth == 4.8e12


def test_name_that_the_driver_reports():
    """As torch.cuda.get_device_name prints it."""
    device = rl.Device.load("NVIDIA H100 80GB HBM3")

    assert device.id == "h100-sxm"
    assert device.assumptions == ()


@pytest.mark.parametrize(
    ("short", "taken"),
    [
        ("h100", "h100-sxm"),
        ("A100", "a100-sxm-80gb"),
        ("4090", "rtx-4090"),
        ("v5e", "tpu-v5e"),
        ("v100", "v100-sxm2-32gb"),
        ("gh200", "gh200-96gb"),
        ("m4", "apple-m4"),
        ("trn2", "trainium2"),
        ("NVIDIA-H100-80GB-HBM3", "h100-sxm"),
        ("GH100 [H100 SXM5 80GB]", "h100-sxm"),
        ("HGX B200", None),
    ],
)
def test_short_name_says_what_it_is_taken_for(short, taken):
    """There are other boards of that name; what no device expects in its name is not taken for one."""
    if taken is None:
        clear(lambda: rl.Device.load(short), "Unknown device")
        return
    device = rl.Device.load(short)

    assert device.id == taken
    assert any(short in each and taken in each for each in device.assumptions)


@pytest.mark.parametrize(
    "wanted", ["NVIDIA H100", "h100-sx", "rtx", "", " ", "H100\nSXM", "x" * 5000, "a100\0"], ids=lambda x: ascii(x[:12])
)
def test_unknown_device_lists_known_ones(wanted):
    """No device stands in for another."""
    with pytest.raises(UnknownName):
        rl.Device.load(wanted)
    clear(lambda: rl.Device.load(wanted), "Unknown device", "roofline devices")


# A device file of one's own


@pytest.fixture
def card(tmp_path: Path) -> Callable[..., Path]:
    """Write the good device file with some text in place of another."""

    def write(old: str = "", new: str = "", name: str = "card.toml") -> Path:
        assert old in CARD
        path = tmp_path / name
        path.write_text(CARD.replace(old, new, 1), "utf-8")
        return path

    return write


def test_device_from_a_file(card):
    """By path or its text; every figure in base units with its source."""
    path = card()
    device = rl.Device.load(path)

    assert device == rl.Device.load(str(path))
    assert (device.id, device.name) == ("mine", "My card")
    assert (device.bandwidth, device.peak["bf16"], device.capacity) == (1e12, 100e12, 16 * GIB)
    assert (rl.Topology(device, 2).link().bandwidth, device.links[0].domain) == (50e9, 2)
    assert device.figures["memory.capacity"].source == ("my bench", "the box")


def test_device_whose_bandwidth_is_unknown(card):
    """Its file says so in a word: it can be looked at, and nothing can be placed on it."""
    path = card(BANDWIDTH, 'bandwidth = "unknown"')

    assert catalogue.load_sheet(path).bandwidth is None
    clear(lambda: rl.Device.load(path), "mine", "bandwidth", "not known")


def test_device_file_with_all_tables(card):
    """Sparsity, package and names of one's own."""
    tables = """[sparsity]
factor = 2
rates = ["bf16"]

[package]
parts = 2
part = "die"

[recognise]
words = ["My Card"]

[cache]
l2_bandwidth = { value = "5 TB/s", status = "measured", source = "my bench" }

[link.wire]"""
    sheet = catalogue.load_sheet(card("[link.wire]", tables))

    assert sheet.rate("bf16-sparse") == 2e14
    assert (sheet.parts, sheet.part, sheet.names.words) == (2, "die", ("My Card",))
    assert dict(sheet.cache_bandwidth) == {"l2": 5e12}
    assert sheet.cache is None


def test_device_file_in_any_case_and_folder(card, monkeypatch):
    """A suffix of `.TOML`, or a separator in the name, makes a name a file."""
    monkeypatch.chdir(card(name="CARD.TOML").parent)

    assert rl.Device.load("CARD.TOML").id == "mine"
    assert rl.Device.load("./CARD.TOML").id == "mine"


def test_device_without_capacity(card):
    """What is not known stays unknown."""
    line = next(line for line in CARD.splitlines() if line.startswith("capacity"))
    device = rl.Device.load(card(line, ""))

    assert device.capacity is None
    assert rl.memory(rl.predict(rl.Model.load("7B"), device)).fits is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("16 GB", 16_000_000_000),
        ("16 GiB", 17_179_869_184),
        ("16384 MiB", 17_179_869_184),
        ("17179869184 B", 17_179_869_184),
        ("17179869184 bytes", 17_179_869_184),
    ],
)
def test_capacity_in_its_unit(card, written, expected):
    """GB is a power of ten, GiB one of two."""
    assert rl.Device.load(card("16 GiB", written)).capacity == expected


@pytest.mark.parametrize("written", ["1 TB/s", "1000 GB/s", "1e12 B/s", "1TB/s", "1 Tbyte/s", "1 TBps"])
def test_bandwidth_in_its_unit(card, written):
    """Decimal prefixes."""
    assert rl.Device.load(card("1 TB/s", written)).bandwidth == 1e12


@pytest.mark.parametrize(
    "written", ["100 TFLOP/s", "100 TFLOPS", "100 TOP/s", "100 TOPS", "0.1 PFLOP/s", "1e14 FLOP/s"]
)
def test_peak_in_its_unit(card, written):
    """As vendors write it."""
    assert rl.Device.load(card("100 TFLOP/s", written)).peak["bf16"] == 1e14


BAD_CARDS = {
    "bandwidth that is no figure": (BANDWIDTH, 'bandwidth = "fast"', ["memory.bandwidth", "unknown"]),
    "sparsity of no peak": ("[link.wire]", '[sparsity]\nfactor = 2\nrates = ["fp8"]\n[link.wire]', ["fp8", "bf16"]),
    "sparsity of zero": ("[link.wire]", "[sparsity]\nfactor = 0\nrates = []\n[link.wire]", ["sparsity.factor"]),
    "no parts": ("[link.wire]", '[package]\nparts = 0\npart = "die"\n[link.wire]', ["package.parts"]),
    "huge parts": ("[link.wire]", f'[package]\nparts = {10**30}\npart = "die"\n[link.wire]', ["package.parts"]),
    "units as text": ("[link.wire]", '[recognise]\nunits = ["x"]\n[link.wire]', ["recognise.units"]),
    "unknown key of names": ("[link.wire]", '[recognise]\nregex = ".*"\n[link.wire]', ["recognise", "regex"]),
    "unknown key": ('name = "My card"', 'name = "My card"\ncolour = "red"', ["colour"]),
    "unknown key of memory": ("[memory]", '[memory]\nwidth = "5120 bit"', ["memory", "width"]),
    "unknown key of a figure": ('note = "twice"', 'remark = "twice"', ["memory.capacity", "remark"]),
    "misspelt bandwidth": ("bandwidth = {", "bandwith = {", ["memory", "bandwi"]),
    "no id": ('id = "mine"', "", ["id"]),
    "no name": ('name = "My card"', "", ["name"]),
    "no memory": (CARD[CARD.index("[memory]") : CARD.index("[peak]")], "", ["memory"]),
    "no peak": (CARD[CARD.index("[peak]") : CARD.index("[link")], "", ["peak"]),
    "no value": ('value = "1 TB/s", ', "", ["memory.bandwidth", "value"]),
    "no status": ('"1 TB/s", status = "measured"', '"1 TB/s"', ["memory.bandwidth", "status"]),
    "no source": ('"measured", source = "my bench" }\ncap', '"measured" }\ncap', ["memory.bandwidth", "source"]),
    "empty source": ('source = "my bench" }\ncap', 'source = "" }\ncap', ["memory.bandwidth", "source"]),
    "blank source": ('source = "my bench" }\ncap', 'source = " " }\ncap', ["memory.bandwidth", "source"]),
    "list of no sources": ('source = "my bench" }\ncap', "source = [] }\ncap", ["memory.bandwidth", "source"]),
    "bad status": ('"1 TB/s", status = "measured"', '"1 TB/s", status = "guess"', ["memory.bandwidth", "guess"]),
    "possible statuses": ('"1 TB/s", status = "measured"', '"1 TB/s", status = "guess"', ["measured", "derived"]),
    "unit of a rate": ("1 TB/s", "1 TFLOP/s", ["memory.bandwidth", "FLOP/s", "B/s"]),
    "unit of memory": ("1 TB/s", "1 TB", ["memory.bandwidth", "B/s"]),
    "bits": ("1 TB/s", "8 Tbit/s", ["memory.bandwidth", "bit/s"]),
    "no unit": ("1 TB/s", "1000", ["memory.bandwidth", "B/s"]),
    "no number": ("1 TB/s", "fast", ["memory.bandwidth", "fast"]),
    "empty value": ("1 TB/s", "", ["memory.bandwidth"]),
    "negative": ("1 TB/s", "-1 TB/s", ["memory.bandwidth", "-1 TB/s"]),
    "zero": ("1 TB/s", "0 TB/s", ["memory.bandwidth", "0 TB/s"]),
    "nan": ("1 TB/s", "nan B/s", ["memory.bandwidth", "nan"]),
    "inf": ("1 TB/s", "inf B/s", ["memory.bandwidth", "inf"]),
    "1e400": ("1 TB/s", "1e400 B/s", ["memory.bandwidth", "1e400"]),
    "bare number": ('"1 TB/s"', "1.5", ["memory.bandwidth"]),
    "bare whole number": ('"1 TB/s"', "1000", ["memory.bandwidth", "B/s"]),
    "list": ('"1 TB/s"', '["1 TB/s"]', ["memory.bandwidth"]),
    "figure without a table": ('bandwidth = { value = "1 TB/s"', 'bandwidth = "1 TB/s"\nx = { a = 1', ["bandwidth"]),
    "3,000 digits": ("1 TB/s", "9" * 3000 + " B/s", ["memory.bandwidth"]),
    "unit of a peak": ("100 TFLOP/s", "100 TB/s", ["peak.bf16", "FLOP/s"]),
    "peak without value": ('value = "100 TFLOP/s", ', "", ["bf16", "value"]),
    "peak with a bad status": ('"100 TFLOP/s", status = "measured"', '"100 TFLOP/s", status = "x"', ["bf16", "'x'"]),
    "link without bandwidth": ('bandwidth = { value = "50 GB/s"', 'speed = { value = "50 GB/s"', ["wire"]),
    "domain of zero": ("value = 2", "value = 0", ["link.wire.domain", "whole number"]),
    "negative domain": ("value = 2", "value = -2", ["link.wire.domain", "whole number"]),
    "domain as text": ("value = 2", 'value = "2"', ["link.wire.domain", "whole number"]),
    "domain of a half": ("value = 2", "value = 2.5", ["wire", "domain"]),
    "id as a number": ('"mine"', "7", ["id"]),
    "aliases as text": ('name = "My card"', 'name = "My card"\naliases = "x"', ["aliases"]),
    "int of 5,000 digits": ('name = "My card"', f'name = "My card"\nreleased = {"9" * 5000}', []),
    "a thousand lists": ('name = "My card"', f'name = "My card"\nnotes = {"[" * 1000}{"]" * 1000}', []),
    "100,000 brackets": ('name = "My card"', f'name = "My card"\nnotes = {"[" * 100_000}', []),
    "no TOML": ("[memory]", "[memory", []),
    "key twice": ('id = "mine"', 'id = "mine"\nid = "yours"', []),
}


@pytest.mark.parametrize(("old", "new", "words"), BAD_CARDS.values(), ids=BAD_CARDS)
def test_bad_device_file(card, old, new, words):
    """One line that names the file and the key."""
    path = card(old, new)

    with pytest.raises(DataError), no_hang():
        rl.Device.load(path)
    clear(lambda: rl.Device.load(path), str(path), *words)


BAD_BYTES = {
    "empty": b"",
    "binary": bytes(range(256)),
    "not UTF-8": b'id = "\xff"',
    "UTF-16": CARD.encode("utf-16"),
    "NUL": b"\0" * 100,
    "JSON": b'{"id": "mine"}',
}


@pytest.mark.parametrize("content", BAD_BYTES.values(), ids=BAD_BYTES)
def test_file_that_is_no_device_file(tmp_path, content):
    """Whatever the bytes are."""
    path = tmp_path / "card.toml"
    path.write_bytes(content)

    with pytest.raises(DataError):
        rl.Device.load(path)
    clear(lambda: rl.Device.load(path), str(path))


def test_device_file_of_two_megabytes(tmp_path):
    """It is not read."""
    path = tmp_path / "card.toml"
    path.write_bytes(CARD.encode() + b"#" * 2_000_000)

    clear(lambda: rl.Device.load(path), str(path), "0.0625 MiB")


def test_folder_that_looks_like_a_device_file(tmp_path):
    """A directory has no text."""
    (tmp_path / "card.toml").mkdir()

    clear(lambda: rl.Device.load(tmp_path / "card.toml"), str(tmp_path / "card.toml"))


@pytest.mark.parametrize("name", ["missing.toml", "no/such/folder.toml", "no/such/folder", "~/missing.toml"])
def test_missing_device_file(name):
    """It says that there is none."""
    with pytest.raises(UnknownName):
        rl.Device.load(name)
    clear(lambda: rl.Device.load(name), name, "no file")


@pytest.mark.parametrize(
    "name", ["h100\0.toml", "a/\0", "x" * 5000 + ".toml", "/dev/null", "/"], ids=lambda x: ascii(x[:12])
)
def test_impossible_device_file(name):
    """NUL, a name that no file system takes, no regular file."""
    clear(lambda: rl.Device.load(name))


# Model files


@pytest.fixture(params=list(MODELS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_every_model_is_listed():
    """One id a file, in the order of the alphabet."""
    assert catalogue.model_ids() == sorted(MODELS) == [ident for ident, _ in catalogue.models()]


def test_model_has_the_parameters_that_its_file_states(name):
    """Exactly."""
    assert rl.Model.load(name).parameters().total == MODELS[name]["parameters"]


def test_model_states_its_source(name):
    """The config.json that its keys are from, or the calculation."""
    entry = MODELS[name]

    assert rl.Model.load(name).sources == {"config": entry["source"]}
    assert entry["source"].startswith(f"https://huggingface.co/{entry['hub']}" if "hub" in entry else "the hand")


def test_model_is_known_in_any_case(name):
    """By its id, with spaces around too."""
    assert name == name.lower()
    assert rl.Model.load(name) == rl.Model.load(f" {name.upper()} ")


def test_model_is_known_by_its_id_on_the_hub(name):
    """In any case, without a network."""
    if "hub" in MODELS[name]:
        assert rl.Model.load(MODELS[name]["hub"].swapcase()) == rl.Model.load(name)


def test_model_with_a_config_assumes_nothing(name):
    """A built-in file leaves nothing open; abstract ones, and those of more than text, say what is left out."""
    model = rl.Model.load(name)
    left_out = "abstract" in MODELS[name] or model.uncounted or model.apart or model.tower or model.quantised

    assert bool(model.assumptions) is bool(left_out)
    assert not any("Not in the file" in each for each in model.assumptions)


def test_ids_on_the_hub_are_unique():
    """One built-in model each."""
    hubs = [entry["hub"].lower() for entry in MODELS.values() if "hub" in entry]

    assert sorted(set(hubs)) == sorted(hubs)


# A model of one's own


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a model."""
    path = tmp_path / "My-Model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(GOOD))
    return path


@pytest.mark.parametrize("written", [str, Path, lambda path: f"{path}/"], ids=["text", "path", "trailing slash"])
def test_model_from_a_folder(folder, written):
    """Named by the folder."""
    model = rl.Model.load(written(folder))

    assert (model.name, model.parameters().total) == ("My-Model", PARAMETERS)


def test_model_from_its_config(folder):
    """A config.json is named by its folder too."""
    assert rl.Model.load(folder / "config.json").name == "My-Model"


def test_model_from_a_file_of_another_name(folder):
    """Named by the file."""
    path = (folder / "config.json").rename(folder / "tiny.json")

    assert rl.Model.load(path).name == "tiny"


def test_model_from_the_working_folder(folder, monkeypatch):
    """A relative name."""
    monkeypatch.chdir(folder)

    assert rl.Model.load("config.json").parameters() == rl.Model.load(".").parameters()
    assert rl.Model.load("config.json").parameters().total == PARAMETERS


def test_folder_stands_before_a_built_in_name(folder, monkeypatch):
    """What lies there is what is meant."""
    monkeypatch.chdir(folder.parent)
    folder.rename(folder.parent / "gpt2")

    assert rl.Model.load("gpt2").parameters().total == PARAMETERS


def test_model_from_a_dict():
    """The keys as they are, unchanged."""
    keys = dict(GOOD)

    assert rl.Model.load(keys).parameters().total == PARAMETERS
    assert keys == GOOD


def test_model_file_with_a_byte_order_mark(tmp_path):
    """As some editors write it."""
    (tmp_path / "config.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())

    assert rl.Model.load(tmp_path).parameters().total == PARAMETERS


BAD_JSON = {
    "empty": b"",
    "spaces": b" \n",
    "no JSON": b"hidden_size = 64",
    "cut short": json.dumps(GOOD).encode()[:50],
    "two objects": b"{} {}",
    "list": b"[1, 2]",
    "string": b'"llama"',
    "null": b"null",
    "number": b"7",
    "empty object": b"{}",
    "UTF-16": json.dumps(GOOD).encode("utf-16"),
    "UTF-16 without a mark": json.dumps(GOOD).encode("utf-16-le"),
    "not UTF-8": b'{"a": "\xff"}',
    "binary": bytes(range(256)),
    "NUL": b"\0" * 100,
    "100,000 brackets": b"[" * 100_000,
    "100,000 objects": b'{"a":' * 100_000,
    "int of 5,000 digits": b'{"hidden_size": ' + b"9" * 5000 + b"}",
    "lone surrogate": b'{"hidden_size": "\\ud800"}',
}


@pytest.mark.parametrize("content", BAD_JSON.values(), ids=BAD_JSON)
def test_file_that_is_no_config(tmp_path, content):
    """One line that names the file."""
    path = tmp_path / "config.json"
    path.write_bytes(content)

    with pytest.raises(ConfigError):
        rl.Model.load(path)
    clear(lambda: rl.Model.load(path), str(path))


def test_config_of_200_megabytes(tmp_path):
    """It is not read."""
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(200_000_000)

    clear(lambda: rl.Model.load(tmp_path), str(path), "191 MiB", "4 MiB")


@pytest.mark.parametrize(
    ("load", "file"), [(rl.Model.load, "config.json"), (rl.Device.load, "card.toml")], ids=["model", "device"]
)
def test_endless_stream_is_not_read_to_its_end(tmp_path, load, file):
    """A pipe states no size; of 32 MiB no more is taken than a file may have."""
    path = tmp_path / file
    os.mkfifo(path)
    taken: list[int] = []

    def feed() -> None:
        with path.open("wb", buffering=0) as pipe:
            try:
                for _ in range(32):
                    pipe.write(b" " * 2**20)
                    taken.append(1)
            except BrokenPipeError:
                pass

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    clear(lambda: load(path), str(path))
    thread.join(5)
    assert len(taken) < 20


def test_folder_without_a_config(tmp_path):
    """It says what is missing."""
    clear(lambda: rl.Model.load(tmp_path), str(tmp_path), "no config.json")


def test_folder_in_place_of_a_config(tmp_path):
    """A directory of that name has no text."""
    (tmp_path / "config.json").mkdir()

    clear(lambda: rl.Model.load(tmp_path), "config.json")


@pytest.mark.parametrize("missing", ["missing.json", "./missing", "/no/such/config.json", "a/b/c", "../x", "~/model"])
def test_missing_model_file(missing):
    """A name that can only be a file is not looked up elsewhere."""
    with pytest.raises(UnknownName):
        rl.Model.load(missing)
    clear(lambda: rl.Model.load(missing), missing, "no file")


@pytest.mark.parametrize(
    "wanted",
    ["qwen3-8", "llama", "\0", "a\0b", "x\ny", "x" * 100_000, " ", "<script>", "\u202eB8"],
    ids=lambda x: ascii(x[:9]),
)
def test_unknown_model_names_close_ones_or_the_list(wanted):
    """And what else a model can be."""
    with pytest.raises(UnknownName):
        rl.Model.load(wanted)
    message = clear(lambda: rl.Model.load(wanted), "Unknown model", "roofline models", "config.json")
    assert len(message) < 700


@pytest.mark.parametrize(
    "wanted", ["a/\0", "owner/na me", "owner/" + "b" * 5000, "-/-", "a/..", "ow\nner/name"], ids=lambda x: ascii(x[:12])
)
def test_impossible_hub_id(wanted):
    """It is not looked up."""
    clear(lambda: rl.Model.load(wanted), "roofline models")


@pytest.mark.parametrize(
    ("load", "file"), [(rl.Model.load, "config.json"), (rl.Device.load, "card.toml")], ids=["model", "device"]
)
def test_message_about_a_hostile_file_name_is_one_line(tmp_path, load, file):
    """Its newline and its escapes are shown, not printed."""
    path = tmp_path / "a\n\x1b[31mb" / file
    path.parent.mkdir()
    path.write_bytes(b"\xff")

    clear(lambda: load(path), "cannot be read")


# The Hub


class Hub(NamedTuple):
    """A server that speaks enough of the Hub's protocol, and a command line that asks it."""

    asked: list[tuple[str, str]]
    run: Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    files = {"own/good": json.dumps(GOOD).encode(), "own/broken": b"no JSON", "own/list": b"[]", "own/empty": b"{}"}
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            repo, _, path = self.path.lstrip("/").partition("/resolve/main/")
            asked.append((self.command, self.path))
            content = files.get(repo) if path == "config.json" else None
            size = 200_000_000 if repo == "own/huge" else len(content or b"")
            found = content is not None or repo == "own/huge"
            self.send_response(200 if found else 403 if repo == "own/gated" else 404)
            self.send_header("Content-Length", str(size))
            if found:
                self.send_header("ETag", '"0123456789abcdef"')
                self.send_header("X-Repo-Commit", "0123456789" * 4)
            else:
                self.send_header("X-Error-Code", "GatedRepo" if repo == "own/gated" else "RepoNotFound")
            self.end_headers()
            if content is not None and self.command == "GET":
                self.wfile.write(content)

        do_GET = do_HEAD

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()

    def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("HF_") and not key.lower().endswith("_proxy")
        }
        address = f"http://127.0.0.1:{server.server_port}"
        environment = {**kept, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hf"), "COLUMNS": "80", **changes}
        command = [sys.executable, "-c", "from roofline.cli import main; main()", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    yield Hub(asked, run)
    server.shutdown()
    server.server_close()
    thread.join()


def refused(answer: subprocess.CompletedProcess[str], *words: str) -> None:
    assert (answer.returncode, answer.stdout) == (2, "")
    assert re.fullmatch(r"roofline: .+\n", answer.stderr), answer.stderr
    for word in words:
        assert word in answer.stderr


def test_model_from_the_hub(hub):
    """Fetched once, named by its id, with its address as source; then it is known offline."""
    first = hub.run("models", "own/good", "--json")
    again = hub.run("models", "own/good", "--json", HF_HUB_OFFLINE="1")

    assert (first.returncode, first.stderr) == (0, "")
    record = json.loads(first.stdout)
    assert (record["name"], record["parameters"]["total"]) == ("own/good", PARAMETERS)
    assert record["sources"] == {"config": "https://huggingface.co/own/good"}
    assert ("GET", "/own/good/resolve/main/config.json") in hub.asked
    assert again.stdout == first.stdout


@pytest.mark.parametrize(("repo", "status"), [("own/missing", "404"), ("own/gated", "403")])
def test_model_that_the_hub_does_not_give(hub, repo, status):
    """One line with the repository and the answer, and what else to do."""
    refused(hub.run("models", repo), repo, status, "Download its config.json")


@pytest.mark.parametrize("repo", ["own/broken", "own/list", "own/empty"])
def test_bad_config_from_the_hub_is_named_by_its_repository(hub, repo):
    """Not by a file in a cache that nobody knows."""
    refused(hub.run("models", repo), f"{repo}/config.json")


def test_config_of_200_megabytes_on_the_hub(hub):
    """It is not fetched."""
    refused(hub.run("models", "own/huge"), "own/huge", "191 MiB")
    assert all(method == "HEAD" for method, path in hub.asked if "huge" in path)


@pytest.mark.parametrize(
    "changes", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:1"}], ids=["offline", "unreachable"]
)
def test_hub_that_cannot_be_reached(hub, changes):
    """One line: what is missing, and what works without a network."""
    refused(hub.run("models", "own/good", **changes), "own/good", "cannot be reached", "config.json", "built-in")
    assert hub.asked == []


def test_built_in_hub_id_needs_no_network(hub):
    """Nobody is asked."""
    answer = hub.run("models", "Qwen/Qwen3-8B", "--json")

    assert json.loads(answer.stdout)["parameters"]["total"] == 8_190_735_360
    assert hub.asked == []


def test_capacity_is_a_whole_number_of_bytes(ident):
    """It is compared with exact counts."""
    assert isinstance(catalogue.load_sheet(ident).capacity, int | None)
    assert math.isfinite(catalogue.load_sheet(ident).bandwidth or 1.0)


@pytest.mark.parametrize("load", [rl.Model.load, rl.Device.load], ids=["model", "device"])
def test_the_home_of_nobody_is_no_home(load):
    """`~nosuch/x.toml` names a file that is not there."""
    clear(lambda: load("~nosuch-user/x.toml"))


@pytest.mark.parametrize("text", ["a" + ".a" * 20_000 + " = 1", "[" + "a." * 20_000 + "a]"], ids=["key", "header"])
def test_dotted_keys_without_end_take_no_memory(tmp_path, text):
    """A TOML reader keeps every prefix of a dotted key: such a line is refused before it is read."""
    (tmp_path / "card.toml").write_text(text, "utf-8")

    clear(lambda: rl.Device.load(tmp_path / "card.toml"), "4,096 characters")


@pytest.mark.parametrize(("load", "file"), [(rl.Model.load, "config.json"), (rl.Device.load, "card.toml")])
def test_a_pipe_that_nobody_writes_to_does_not_hang(tmp_path, load, file, monkeypatch):
    """After a while without a byte it is no model and no device."""
    monkeypatch.setattr("roofline.files._PATIENCE", 0.05)
    os.mkfifo(tmp_path / file)

    clear(lambda: load(tmp_path / file))


@pytest.mark.parametrize("value", ["1e-5 B/s", "1e308 B/s", "1e-320 B/s"])
def test_figures_beyond_reason_are_refused(tmp_path, value):
    """No memory moves less than a byte a second, or 1e30."""
    text = (Path(rl.__file__).parent / "data" / "devices" / "h100-sxm.toml").read_text("utf-8")
    (tmp_path / "card.toml").write_text(text.replace("3352.32 GB/s", value), "utf-8")

    clear(lambda: rl.Device.load(tmp_path / "card.toml"), "memory.bandwidth")


@pytest.mark.parametrize("name", [None, 5, b"gpt2", [], rl], ids=repr)
@pytest.mark.parametrize("load", [rl.Model.load, rl.Device.load], ids=["model", "device"])
def test_what_is_no_name_is_refused(load, name):
    """Neither text nor a path."""
    clear(lambda: load(name), "Unknown")
