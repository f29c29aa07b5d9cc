"""Charts beside the roofline: time, memory, sweeps, ridge points."""

from __future__ import annotations

import itertools
import re
import runpy
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline.show import charts
from scene import Scene


@pytest.fixture(scope="module")
def ledger() -> rl.Ledger:
    return rl.predict("qwen3-8b", "h100-sxm", rl.Workload.decode(sequences=32, context=8192))


def lengths(scene: Scene) -> dict[str, float]:
    """Width of each segment [px] by its description."""
    return {item["description"].split(":")[0]: item["x2"] - item["x"] for item in scene["segments"]}


def test_time_is_stacked_by_share(ledger):
    """Each kernel's segment is its share of the whole bar; kinds stand together, the longest kind first."""
    scene = Scene(charts.time({"": ledger}))
    total = ledger.total.bound_seconds

    for point in ledger:
        assert lengths(scene)[point.name] == pytest.approx(scene.width * point.bound_seconds / total, abs=0.02)
    assert scene["segments"][0]["description"].startswith("attention")
    colours = [item["fill"] for item in scene["segments"]]
    assert len([1 for a, b in itertools.pairwise(colours) if a != b]) == len(set(colours)) - 1
    assert scene.overlapping("segment_labels") == []


@pytest.mark.parametrize("width", [770, 390])
def test_a_legend_has_room_for_wider_fonts(width):
    """Names of kinds end before the next one's sign and inside the picture, in a font a fifth wider too."""
    model = rl.Model.load("deepseek-v3")
    ledger = rl.predict(model, "h100-sxm", rl.Workload.decode(64, 8192), shard=rl.Shard(8))
    scene = Scene(charts.time({"": ledger}).sized(width))
    boxes = scene.boxes("legend_labels")

    assert "communication" in [box.text for box in boxes]
    for box in boxes:
        end = box.left + 1.2 * (box.right - box.left)
        beside = [other.left - 19 for other in boxes if other.top == box.top and other.left > box.left]
        assert end < min([scene.width + 22, *beside])


def test_time_of_several_rows(ledger):
    """Rows are bars below each other, on one scale."""
    prefill = rl.predict("qwen3-8b", "h100-sxm", rl.Workload.prefill(1, 4096))
    scene = Scene(charts.time({"decode": ledger, "prefill": prefill}))

    assert len({item["y"] for item in scene["segments"]}) == 2
    ends = sorted(
        max(item["x2"] for item in scene["segments"] if item["y"] == y) for y in {i["y"] for i in scene["segments"]}
    )
    assert ends[1] == pytest.approx(scene.width)
    assert ends[0] / ends[1] == pytest.approx(ledger.total.bound_seconds / prefill.total.bound_seconds, rel=1e-3)


def test_time_of_measured_points(h100):
    """Points with a measured time are as long as that."""
    point = rl.place(rl.ops.linear(m=64, n=4096, k=4096), h100, name="gemm", count=3)
    scene = Scene(charts.time({"run": [replace(point, measured=2e-5), replace(point, name="other", measured=1e-5)]}))

    assert lengths(scene)["gemm"] == pytest.approx(2 * lengths(scene)["other"])


def test_memory_that_fits_has_room_left(ledger):
    """15.26 of 79.33 GiB are weights; what is free is drawn to the device's end."""
    held = rl.memory(ledger)
    scene = Scene(charts.memory(held))
    capacity = 85176483840

    assert lengths(scene)["weights"] == pytest.approx(scene.width * held.weight_bytes / capacity, abs=0.02)
    assert lengths(scene)["free"] == pytest.approx(scene.width * (1 - held.total_bytes / capacity), abs=0.02)
    assert scene["limit_rules"][0]["x"] == pytest.approx(scene.width)
    assert scene.texts("limit_labels") == ["79.33 GiB on the device"]


def test_memory_that_does_not_fit_passes_the_limit():
    """The bar goes past the capacity, and nothing is free."""
    held = rl.memory(rl.predict("qwen3-8b", "h100-sxm", rl.Workload.decode(sequences=64, context=8192)))
    scene = Scene(charts.memory(held))

    assert scene["limit_rules"][0]["x"] == pytest.approx(scene.width * held.capacity_bytes / held.total_bytes)
    assert "free" not in lengths(scene)


def test_memory_of_an_unknown_device():
    """Without a capacity there is no limit to draw."""
    scene = Scene(charts.memory(rl.Memory(100, 50, 25, None)))

    assert lengths(scene)["weights"] == pytest.approx(scene.width * 100 / 175)
    assert scene.marks["limit_rules"] == []


def test_sweep_marks_the_knee_and_what_fits():
    """Qwen3-8B at 8k: the first slope (205 tokens/s a sequence) meets the most (2,621) at 12.8; 56 fit."""
    batches = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256])
    ledger = rl.predict("qwen3-8b", "h100-sxm", rl.Workload.decode(sequences=batches, context=8192))
    rates = ledger.total.tokens_per_second
    scene = Scene(charts.sweep(ledger))
    knee = rates[-1] / rates[0]

    assert scene.texts("knee_labels") == ["knee at 12.8"]
    assert scene["knee_rules"][0]["x"] == pytest.approx(scene.width * np.log2(knee) / 8, abs=0.05)
    assert [item["fill"] for item in scene["dots"]] == ["#1f2328"] * 6 + ["#ffffff"] * 3
    heights = [scene.height - item["y"] for item in scene["dots"]]
    assert heights[3] / heights[8] == pytest.approx(rates[3] / rates[8], rel=1e-3)


def test_sweeps_that_are_none_are_refused(ledger):
    """One batch, or sizes of zero."""
    with pytest.raises(rl.RooflineError, match="array of sequences"):
        charts.sweep(ledger)
    for batches in ([1], [0, 2]):
        with pytest.raises(rl.RooflineError, match="two batches"):
            charts.throughput(batches, [5.0] * len(batches))


def test_a_sweep_that_still_grows_has_no_knee():
    """Where the throughput grows with the batch to the end, no knee is drawn."""
    scene = Scene(charts.throughput([1, 2], [100.0, 210.0]))

    assert scene.marks["knee_labels"] == []


def test_no_name_of_a_ridge_stands_on_another():
    """Names of the whole catalogue keep clear of each other and of every dot."""
    scene = Scene(charts.ridges())

    assert scene.overlapping("labels") == []
    for box in scene.boxes("labels"):
        for dot in scene["dots"]:
            x, y = dot["x"], dot["y"]
            assert not (box.left < x + 3 and x - 3 < box.right and box.top < y + 3 and y - 3 < box.bottom), (box, dot)


def test_ridges_by_year():
    """Each device with the rate and a year, at its own ridge: 295 of an H100 from 2022, 153 of an A100 from 2020."""
    scene = Scene(charts.ridges())
    said = {item["description"]: item for item in scene["dots"]}
    h100 = said["NVIDIA H100 SXM5 80GB, 2022: 295 FLOP/byte"]
    a100 = said["NVIDIA A100 SXM4 80GB, 2020: 153 FLOP/byte"]

    assert h100["x"] > a100["x"]
    assert h100["y"] < a100["y"]
    assert scene.overlapping("labels") == []


def test_ridges_of_devices_without_the_rate_are_refused(h100):
    """With what to do."""
    with pytest.raises(rl.RooflineError, match="Choose another rate"):
        charts.ridges([replace(h100, released=None)])


def test_pictures_of_the_docs_are_up_to_date():
    """docs/pictures holds what scripts/pictures draws, in its words and figures, and the docs show no other."""
    root = Path(__file__).parents[2]
    script = runpy.run_path(str(root / "scripts" / "pictures"), run_name="pictures")
    drawn = script["pictures"]()
    folder = root / "docs" / "pictures"

    assert {each.name for each in folder.iterdir()} == {f"{name}{end}.svg" for name in drawn for end in ("", "-dark")}
    for name, chart in drawn.items():
        texts = [ET.fromstring(svg).itertext() for svg in (chart.svg(), (folder / f"{name}.svg").read_text("utf-8"))]
        assert list(texts[0]) == list(texts[1])
    pages = "".join(page.read_text("utf-8") for page in (root / "README.md", *(root / "docs").glob("*.md")))
    shown = re.findall(r'(?:\]\(|src="|srcset=")(?:docs/)?(pictures/[^")]+)', pages)
    assert shown
    assert {each.removeprefix("pictures/") for each in shown} <= {each.name for each in folder.iterdir()}
    assert not re.search(r"\]\((?!pictures)[^)]+\.(svg|png)\)", pages)
