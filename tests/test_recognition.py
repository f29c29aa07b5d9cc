"""Names from drivers, frameworks and profiles to one device, several, or none: every mistake seen elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limits import no_hang
from roofline import sheets
from roofline.device import Figure, Names, Sheet
from roofline.errors import UnknownName
from roofline.recognition import Recognition, recognise

GIB = 2**30

# What drivers and frameworks print, and what it is.
EXACT = {
    "Tesla V100-SXM2-16GB": "v100-sxm2-16gb",
    "Tesla V100-SXM2-32GB": "v100-sxm2-32gb",
    "Tesla V100-PCIE-32GB": "v100-pcie",
    "Tesla T4": "t4",
    "NVIDIA A100-SXM4-40GB": "a100-sxm-40gb",
    "NVIDIA A100-PG509-200": "a100-sxm-40gb",
    "NVIDIA A100-SXM4-80GB": "a100-sxm-80gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "NVIDIA A10": "a10",
    "NVIDIA A10G": "a10g",
    "NVIDIA A30": "a30",
    "NVIDIA A40": "a40",
    "NVIDIA L4": "l4",
    "NVIDIA L40": "l40",
    "NVIDIA L40S": "l40s",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA H100 NVL": "h100-nvl",
    "NVIDIA H200": "h200-sxm",
    "NVIDIA H200 NVL": "h200-nvl",
    "NVIDIA H20": "h20",
    "NVIDIA H800": "h800-sxm",
    "NVIDIA GH200 480GB": "gh200-96gb",
    "NVIDIA GH200 144G HBM3e": "gh200-144gb",
    "NVIDIA B200": "b200",
    "NVIDIA GB200": "gb200",
    "NVIDIA B300 SXM6 AC": "b300",
    "NVIDIA GB300": "gb300",
    "NVIDIA GeForce RTX 3090": "rtx-3090",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtx-pro-6000-ws",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000-se",
    "NVIDIA GB10": "gb10",
    "NVIDIA Thor": "jetson-thor",
    "AMD Instinct MI210": "mi210",
    "AMD Instinct MI300A": "mi300a",
    "AMD Instinct MI300X": "mi300x",
    "AMD Instinct MI300X OAM": "mi300x",
    "AMD Instinct MI308X": "mi308x",
    "AMD Instinct MI325X": "mi325x",
    "AMD Instinct MI350X": "mi350x",
    "AMD Instinct MI355X": "mi355x",
    "Intel(R) Data Center GPU Max 1550": "max-1550",
    "Intel(R) Arc(TM) B580 Graphics": "arc-b580",
    "TPU v4": "tpu-v4",
    "TPU v5 lite": "tpu-v5e",
    "TPU v5e": "tpu-v5e",
    "TPU v5": "tpu-v5p",
    "TPU v5p": "tpu-v5p",
    "TPU v6 lite": "tpu-v6e",
    "TPU7x": "tpu7x",
    "TPU8i": "tpu8i",
    "Apple M1": "apple-m1",
    "Apple M4 Max": "apple-m4-max",
    "AMD EPYC 9654 96-Core Processor": "epyc-9654",
}

# How schedulers, lspci and people write it.
WORDS = {
    "NVIDIA-H100-80GB-HBM3": "h100-sxm",
    "NVIDIA-A100-SXM4-40GB": "a100-sxm-40gb",
    "NVIDIA Corporation GH100 [H100 SXM5 80GB]": "h100-sxm",
    "NVIDIA Corporation GA100 [A100 SXM4 80GB]": "a100-sxm-80gb",
    "NVIDIA H200-SXM-141GB": "h200-sxm",
    "NVIDIA B200-SXM-180GB": "b200",
    "NVIDIA B300": "b300",
    "h100 pcie": "h100-pcie",
    "Nvidia L40S 48GB": "l40s",
    "RTX4090": "rtx-4090",
    "AMD MI300X": "mi300x",
    "Instinct MI355X": "mi355x",
    "Google Cloud TPU v6e": "tpu-v6e",
    "TPU v7x": "tpu7x",
    "Intel Gaudi 3": "gaudi3",
    "Gaudi2": "gaudi2",
}

# Names that others take for a device whose name they contain, or whose figures they lend.
UNKNOWN = {
    "NVIDIA RTX A4000": "a40",
    "NVIDIA RTX A6000": "rtx-6000-ada",
    "Quadro RTX 6000": "rtx-6000-ada",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "rtx-pro-6000-ws",
    "NVIDIA GeForce RTX 4090 D": "rtx-4090",
    "NVIDIA GeForce RTX 4090 Laptop GPU": "rtx-4090",
    "NVIDIA GeForce RTX 3090 Ti": "rtx-3090",
    "NVIDIA GeForce RTX 5090 D v2": "rtx-5090",
    "NVIDIA H800 PCIe": "h800-sxm",
    "NVIDIA H20-3e": "h20",
    "NVIDIA H20 NVL16": "h20",
    "NVIDIA A100-SXM-64GB": "a100-sxm-80gb",
    "NVIDIA A100X": "a100-sxm-80gb",
    "NVIDIA T4G": "t4",
    "NVIDIA T4 32GB": "t4",
    "Tesla V100S-PCIE-32GB": "v100-pcie",
    "Tesla V100-DGXS-32GB": "v100-sxm2-32gb",
    "Tesla V100-SXM3-32GB": "v100-sxm2-32gb",
    "Tesla M4": "apple-m4",
    "Tesla P4": "l4",
    "Quadro GP100": "h100-sxm",
    "NVIDIA GeForce RTX 2080 Ti": "rtx-3090",
    "NVIDIA GeForce RTX 5070": "rtx-5090",
    "AMD Instinct MI100": "mi210",
    "AMD MI210X": "mi210",
    "AMD Instinct MI300X HF": "mi300x",
    "Intel(R) Data Center GPU Max 1100": "max-1550",
    "TPU v4 lite": "tpu-v4",
    "AMD Radeon RX 7900 XTX": "mi300x",
    "TPU v2": "tpu-v4",
    "TPU v3": "tpu-v4",
    "Apple M9": "apple-m1",
    "GRID A100X-40C": "a100-sxm-40gb",
    "GRID A100-40C": "a100-sxm-40gb",
    "GRID T4-16Q": "t4",
    "NVIDIA A10-24Q": "a10",
    "NVIDIA A40-48": "a40",
    "NVIDIA L4-24C": "l4",
    "NVIDIA H100-7-80C": "h100-sxm",
    "NVIDIA GH200-96C": "gh200-96gb",
    "NVIDIA GB200-189C": "gb200",
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb": "a100-sxm-40gb",
    "NVIDIA H100 80GB HBM3 MIG 3g.40gb": "h100-sxm",
    "Intel(R) Xeon(R) CPU E5-2690": "xeon-8480",
    "cpu": "epyc-9654",
    "汉字 H100 NVL": "h100-nvl",
}


@pytest.mark.parametrize(("name", "ident"), (EXACT | WORDS).items(), ids=(EXACT | WORDS))
def test_a_name_is_one_device(name, ident):
    """As it is printed, in other cases, and with spaces around."""
    for written in (name, name.upper(), f"  {name.lower()}\n"):
        found = recognise(written)
        assert (found.status, found.id, found.candidates) == ("recognised", ident, (ident,))
        assert ident in found.reason


@pytest.mark.parametrize(("name", "not_this"), UNKNOWN.items(), ids=UNKNOWN)
def test_another_name_is_none(name, not_this):
    """No device stands in for another: no default, no part of a word, no word more than it has."""
    found = recognise(name)

    assert not_this in sheets.ids()
    assert (found.status, found.id) == ("unknown", None)
    with pytest.raises(UnknownName, match="--device"):
        found.device()


@pytest.mark.parametrize("name", ["NVIDIA A100-SXM4-40GB MIG 1g.5gb", "GRID T4-16Q", "NVIDIA H100-3-40C"])
def test_a_slice_is_called_a_slice(name):
    """Its share of the supplies is not in its name."""
    assert "A slice of a GPU" in recognise(name).reason
    assert "A slice of a GPU" not in recognise("NVIDIA GeForce RTX 4090 Laptop GPU").reason


def test_every_alias_and_name_of_a_device_is_that_device():
    """Of all files."""
    for sheet in sheets.every():
        for name in (sheet.id, sheet.name, *sheet.aliases):
            assert recognise(name).id == sheet.id, name


def test_every_phrase_of_a_device_is_that_device():
    """With every word that it may have beside it, and with the vendor's."""
    for sheet in sheets.every():
        for phrase in sheet.names.words:
            for name in (phrase, f"{sheet.vendor} {phrase}", " ".join((phrase, *sheet.names.also))):
                assert sheet.id in recognise(name).candidates, name


def test_every_family_is_ambiguous_or_decided_by_the_words():
    """Never unknown, and never one of several without a reason."""
    for sheet in sheets.every():
        for family in sheet.names.family:
            found = recognise(family)
            assert found.status in ("ambiguous", "recognised"), family
            assert sheet.id in found.candidates, family


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("NVIDIA H100", {"h100-sxm", "h100-pcie", "h100-nvl"}),
        ("A100", {"a100-sxm-40gb", "a100-sxm-80gb", "a100-pcie-40gb", "a100-pcie-80gb"}),
        ("A100 80GB", {"a100-sxm-80gb", "a100-pcie-80gb"}),
        ("Tesla V100", {"v100-sxm2-16gb", "v100-sxm2-32gb", "v100-pcie"}),
        ("NVIDIA GH200", {"gh200-96gb", "gh200-144gb"}),
        ("gfx90a", {"mi210", "mi250", "mi250x"}),
        ("gfx942:sramecc+:xnack-", {"mi300a", "mi300x", "mi308x", "mi325x"}),
        ("gfx950", {"mi350x", "mi355x"}),
        ("AMD Instinct MI250X / MI250", {"mi250x", "mi250"}),
        ("RTX PRO 6000 Blackwell", {"rtx-pro-6000-ws", "rtx-pro-6000-se"}),
    ],
)
def test_a_name_of_several_is_ambiguous(name, candidates):
    """All of them are named, and what may decide."""
    found = recognise(name)

    assert (found.status, found.id, set(found.candidates)) == ("ambiguous", None, candidates)
    assert "may decide it" in found.reason or "tells them apart" in found.reason
    with pytest.raises(UnknownName):
        found.device()


@pytest.mark.parametrize(
    ("name", "said", "ident"),
    [
        ("NVIDIA H100", {"sms": 114}, "h100-pcie"),
        ("NVIDIA H100", {"sms": 132, "memory": 84_942_979_072}, "h100-sxm"),
        ("NVIDIA H100", {"sms": 132, "memory": 99_861_463_040}, "h100-nvl"),
        ("NVIDIA H100", {"bandwidth": 3.9e12}, "h100-nvl"),
        ("A100", {"memory": 42_505_273_344, "bandwidth": 1.555e12}, None),
        ("V100", {"sms": 80, "memory": 16_945_512_448}, None),
        ("V100 SXM2", {"sms": 80, "memory": 16_945_512_448}, "v100-sxm2-16gb"),
        ("gfx942", {"sms": 304, "memory": 206_141_652_992}, "mi300x"),
        ("gfx942", {"sms": 304, "memory": 274_860_000_000}, "mi325x"),
        ("gfx942", {"sms": 228}, "mi300a"),
        ("gfx942", {"sms": 80}, "mi308x"),
        ("gfx942", {"sms": 304}, None),
        ("gfx90a", {"sms": 110}, "mi250x"),
        ("AMD Instinct MI250X / MI250", {"sms": 110}, "mi250x"),
        ("gfx90a", {"sms": 104}, None),
        ("gfx950", {"sms": 256, "memory": 309_000_000_000}, None),
        ("AMD Radeon Graphics", {"sms": 304, "memory": 206_141_652_992}, "mi300x"),
        ("AMD Radeon Graphics", {"sms": 104, "memory": 68_702_699_520}, None),
    ],
)
def test_units_memory_and_bandwidth_decide_between_several(name, said, ident):
    """What a profile says beside the name; what it cannot decide stays open."""
    found = recognise(name, **said)

    assert found.id == ident
    assert found.status == ("recognised" if ident else "ambiguous")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NVIDIA H100", {"sms": 132, "memory": 102_085_492_736}),
        ("NVIDIA H100 80GB HBM3", {"sms": 16, "memory": 9_500_000_000}),
        ("NVIDIA H100 80GB HBM3", {"sms": 114}),
        ("NVIDIA A100-SXM4-40GB", {"sms": 108, "memory": 85_174_583_296}),
        ("NVIDIA A100-SXM4-80GB", {"sms": 14, "memory": 10_000_000_000}),
        ("NVIDIA H200", {"bandwidth": 3.35e12}),
        ("AMD Instinct MI300X", {"sms": 38}),
        ("AMD Radeon Graphics", {"sms": 96, "memory": 24 * GIB}),
    ],
)
def test_what_contradicts_the_name_refutes_it(name, said):
    """A slice, or another board of that name: it says which figure does not fit."""
    found = recognise(name, **said)

    assert (found.status, found.id) == ("unknown", None)
    assert found.candidates
    assert ", not " in found.reason


def test_what_agrees_is_said():
    """The reason is evidence."""
    found = recognise("NVIDIA H100 80GB HBM3", sms=132, memory=84_942_979_072, bandwidth=3_352_320_000_000)

    assert found.reason == (
        "'NVIDIA H100 80GB HBM3' is h100-sxm; 132 compute units and 79.11 GiB and 3,352 GB/s agree."
    )


@pytest.mark.parametrize("said", [{}, {"sms": 0, "memory": 0, "bandwidth": 0.0}, {"sms": None}])
def test_nothing_said_refutes_nothing(said):
    """Zero is what a runtime prints that does not know."""
    assert recognise("NVIDIA L4", **said).id == "l4"


@pytest.mark.parametrize("name", ["", " ", "\n", "()", "-"])
def test_a_profile_without_a_name(name):
    """Compute units and memory tell the device where no other has both; one figure alone does not."""
    found = recognise(name, sms=304, memory=206_141_652_992)

    assert (found.status, found.id) == ("recognised", "mi300x")
    assert recognise(name).status == "unknown"
    assert recognise(name, sms=304).status == "unknown"
    assert recognise(name, sms=7, memory=3 * GIB).status == "unknown"
    assert recognise(name, sms=104, memory=68_702_699_520).candidates == ("mi210", "mi250")


@pytest.mark.parametrize(
    ("name", "said", "tflops", "memory"),
    [
        ("AMD Instinct MI250X", {}, 191.5, 64),
        ("AMD Instinct MI250X", {"sms": 110, "memory": 68_702_699_520}, 191.5, 64),
        ("AMD Instinct MI250X", {"sms": 220, "memory": 128 * GIB}, 383, 128),
        ("AMD Instinct MI250", {"sms": 104}, 181.05, 64),
        ("TPU7x", {}, 1153.5, 96),
        ("TPU v5p", {}, 459, 95),
        ("AWS Trainium", {}, 95, 16),
        ("Intel(R) Data Center GPU Max 1550", {"memory": 68_702_699_520}, 419.43, 64),
    ],
)
def test_a_framework_sees_a_part_of_the_package(name, said, tflops, memory):
    """One GCD, stack or core is the device; the whole is where the profile says so; TPU v5p is one device."""
    device = recognise(name, **said).device()

    assert device.rate("bf16") == pytest.approx(tflops * 1e12)
    assert device.capacity == pytest.approx(memory * GIB, rel=0.001)


def test_a_recognised_device_is_that_of_the_catalogue():
    """Ready to place work on."""
    assert recognise("NVIDIA L40S").device() == sheets.one("l40s").device()


def test_the_longest_phrase_wins():
    """Of two whose words are all there, the one that expects more of them."""
    short = Sheet("a", "A", {}, 1e12, names=Names(words=("X1",), also=("Pro",)))
    long = Sheet("b", "B", {}, 1e12, names=Names(words=("X1 Pro",)))

    assert recognise("X1 Pro", among=[short, long]).id == "b"
    assert recognise("X1", among=[short, long]).id == "a"


def test_two_of_one_phrase_are_ambiguous():
    """Nothing that a profile has tells them apart."""
    pair = [Sheet(each, each.upper(), {}, 1e12, names=Names(words=("X1",))) for each in "ab"]

    assert recognise("X1", among=pair) == Recognition(
        "X1", "ambiguous", None, ("a", "b"), "'X1' may be a, b: Nothing that a profile has tells them apart."
    )


def test_units_beside_the_count_of_the_package():
    """Some runtimes count something else: the file may list it."""
    units = Figure(8, "measured", ("my bench",))
    sheet = Sheet("a", "A", {}, 1e12, figures={"chip.compute_units": units}, names=Names(("X1",), units=(16,)))

    assert recognise("X1", sms=16, among=[sheet]).id == "a"
    assert recognise("X1", sms=8, among=[sheet]).id == "a"
    assert recognise("X1", sms=4, among=[sheet]).id is None


@given(st.text(max_size=400), st.integers(-(10**20), 10**20), st.floats())
def test_any_text_has_an_answer(name, number, figure):
    """Names come from files: no text and no number stops it, and the answer is one printable line."""
    with no_hang():
        found = recognise(name, sms=number, memory=number, bandwidth=figure)

    assert found.reason.isprintable()
    assert len(found.reason) < 3000
    assert found.status == "unknown" or found.candidates


def test_a_long_name_is_cut():
    """A megabyte is no name."""
    with no_hang():
        assert len(recognise("NVIDIA H100 " * 100_000).reason) < 3000


def test_recognition_imports_little():
    """A trace reader needs neither tables nor arrays for it."""
    script = (
        "import sys; from roofline.recognition import recognise; assert recognise('Tesla T4').id == 't4'; "
        "print(' '.join({name.split('.')[0] for name in sys.modules}))"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert {"rich", "numpy", "cyclopts"} & set(printed.split()) == set()
