"""The roofline chart as it is laid out: marks where the numbers say, texts that keep apart."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

import roofline as rl
from roofline.show import charts
from roofline.show.dots import Roof
from roofline.show.kinds import KINDS, kind_of
from roofline.show.specs.base import COLOURS, RIGHT
from scene import Scene

TEXTS = ("labels", "flat_labels", "ridge_labels")


def pixel(scene: Scene, axis: str, value: float) -> float:
    """Where a value is on an axis, by the ticks that the axis itself drew."""
    ticks = [item for item in scene.marks[""] if "text" in item and item.get("limit") == 180]
    at = {}
    for item in ticks:
        side = "x" if item.get("align") == "center" else "y"
        if side == axis:
            at[float(item["text"].replace(",", ""))] = item[side]
    (a, pa), (b, pb) = list(sorted(at.items()))[:2]
    return pa + (pb - pa) * math.log(value / a) / math.log(b / a)


@pytest.fixture
def decode(qwen, h100):
    return rl.predict(qwen, h100, rl.Workload.decode(sequences=64, context=8192))


def test_roofs_and_ridge_stand_where_the_device_says(decode, h100):
    """The ridge is at 989.4e12 / 3352.32e9 = 295.1 FLOP/byte; slope and flat meet there, at the peak."""
    scene = Scene(decode.chart())
    slope, flat = scene["slope_rules"][0], scene["flat_rules"][0]
    ridge = pixel(scene, "x", 989.4e12 / 3352.32e9)

    assert slope["x2"] == pytest.approx(ridge, abs=0.01)
    assert flat["x"] == pytest.approx(ridge, abs=0.01)
    assert scene["ridge_rules"][0]["x"] == pytest.approx(ridge, abs=0.01)
    assert slope["y2"] == pytest.approx(pixel(scene, "y", 989.4), abs=0.01)
    assert flat["y"] == pytest.approx(slope["y2"])
    assert flat["x2"] == scene.width
    # The slope goes through bandwidth x intensity: 3.35232 TFLOP/s at 1 FLOP/byte.
    at_one = pixel(scene, "x", 1.0)
    share = (at_one - slope["x"]) / (slope["x2"] - slope["x"])
    assert slope["y"] + share * (slope["y2"] - slope["y"]) == pytest.approx(pixel(scene, "y", 3.35232), abs=0.05)
    assert scene.texts("ridge_labels") == ["ridge 295 FLOP/byte", "ridge 20.0"]
    assert scene.texts("flat_labels") == ["989.4 TFLOP/s bf16", "66.90 TFLOP/s fp32-vector"]
    assert scene.texts("slope_labels") == ["3.352 TB/s"]


def test_dots_stand_at_intensity_and_speed(decode):
    """Attention of 64 sequences at 8k: 3.998 FLOP/byte, on the slope, its area its share of the time."""
    scene = Scene(decode.chart())
    dot = scene["dots"][0]
    attention = next(point for point in decode if point.name == "attention")

    assert dot["description"].startswith("attention: 83 % of the time")
    assert dot["x"] == pytest.approx(pixel(scene, "x", attention.work.intensity), abs=0.01)
    assert dot["y"] == pytest.approx(pixel(scene, "y", 3.35232 * attention.work.intensity), abs=0.01)
    assert (dot["shape"], dot["fill"]) == ("square", KINDS["attention"].light)
    sizes = {item["description"].split(":")[0]: item["size"] for item in scene["dots"]}
    shares = {p.name: p.bound_seconds / decode.total.bound_seconds for p in decode}
    a, b = "attention", "gate_proj"
    assert (sizes[a] - sizes["final_norm"]) / (sizes[b] - sizes["final_norm"]) == pytest.approx(
        (shares[a] - shares["final_norm"]) / (shares[b] - shares["final_norm"]), rel=1e-6
    )


def test_whole_pass_is_a_star(decode):
    """The star is at the pass's own intensity, 13.7 FLOP/byte."""
    scene = Scene(decode.chart())

    assert scene["star"][0]["x"] == pytest.approx(pixel(scene, "x", decode.total.intensity), abs=0.01)
    assert "whole pass" in scene.texts("labels")


def test_kernels_at_one_place_share_a_label(decode):
    """Six GEMMs of a decode step stand at one place: one label names three and counts the rest."""
    labels = Scene(decode.chart()).texts("labels")

    assert "attention · 83 %" in labels
    assert [each for each in labels if "proj" in each] == ["gate_proj, up_proj, down_proj +3 · 17 %"]


def test_a_kernel_without_flops_is_told(decode):
    """The embedding has no place on logarithmic axes, and the chart says so."""
    chart = decode.chart()
    footnote = next(each["value"] for each in chart.spec["signals"] if each["name"] == "footnote")

    assert footnote == ["Not drawn, without FLOPs, <0.1 % of the time: embedding"]
    assert len(Scene(chart)["dots"]) == len(decode) - 1
    assert any(item.get("text") == footnote for item in Scene(chart).marks[""])
    narrow = Scene(chart.sized(390)).marks[""]
    assert any(item.get("text") == ["Not drawn, without FLOPs, <0.1 % of the time:", "embedding"] for item in narrow)


@pytest.mark.parametrize("width", [770, 390])
@pytest.mark.parametrize(
    "workload",
    [
        rl.Workload.decode(1, 8192),
        rl.Workload.decode(64, 8192),
        rl.Workload.decode(256, 512),
        rl.Workload.prefill(1, 4096),
        rl.Workload.mixed(rl.Workload.decode(32, 4096), rl.Workload.prefill(1, 2048)),
    ],
    ids=["one", "batch", "short", "prefill", "mixed"],
)
def test_texts_keep_apart_and_inside(qwen, h100, workload, width):
    """No two texts overlap, none leaves the picture, and the costliest kernel is named, whatever the pass."""
    ledger = rl.predict(qwen, h100, workload)
    scene = Scene(ledger.chart(against=[rl.Device.load("a100-sxm-80gb")]).sized(width))

    assert scene.overlapping(*TEXTS) == []
    for box in scene.boxes("labels", "flat_labels"):
        assert box.left >= 0
        assert box.right <= scene.width + RIGHT
    assert any(item["fontWeight"] == "bold" for item in scene["labels"])


@pytest.mark.parametrize("other", ["h100-sxm", "b200", "tpu-v6e"])
def test_the_text_of_a_slope_keeps_clear_of_dots_and_labels(qwen, h100, other):
    """The rotated figure of the bandwidth is crossed by no label and stands on no dot, whatever stands beside."""
    own = rl.Device.load("tpu-v5e") if other == "tpu-v6e" else h100
    scene = Scene(rl.predict(qwen, own, rl.Workload.decode(64, 2048)).chart(against=[rl.Device.load(other)]).sized(954))
    slope = scene["slope_labels"][0]
    turn = math.radians(slope["angle"])
    points = [(slope["x"] + t * math.cos(turn), slope["y"] - 10 + t * math.sin(turn)) for t in range(-30, 31, 5)]

    for box in scene.boxes("labels"):
        assert not any(box.left < x < box.right and box.top < y < box.bottom for x, y in points)
    for dot in [*scene["dots"], *scene["star"]]:
        assert all(math.dist((dot["x"], dot["y"]), point) > math.sqrt(dot["size"]) / 2 for point in points)


@pytest.mark.parametrize("width", [770, 562, 390])
@pytest.mark.parametrize("other", ["mi300x", "h100-nvl", "b200", "gb200"])
def test_the_figures_of_close_roofs_stand_on_no_roof(qwen, h100, width, other):
    """Roofs of two devices may lie a few pixels apart: no figure of theirs is crossed by a line of either."""
    ledger = rl.predict(qwen, h100, rl.Workload.decode(64, 8192))
    scene = Scene(ledger.chart(against=[rl.Device.load(other)]).sized(width))

    assert scene.overlapping("flat_labels") == []
    for box in scene.boxes("flat_labels"):
        for rule in scene["flat_rules"]:
            assert not (box.top < rule["y"] < box.bottom and rule["x"] < box.right), (box, rule)
    for label in scene["slope_labels"]:
        turn = math.radians(label["angle"])
        side = label["dy"] - 4  # the middle of its letters, across the slope
        middle = (label["x"] - side * math.sin(turn), label["y"] + side * math.cos(turn))
        for rule in scene["slope_rules"]:
            along = (middle[0] - rule["x"]) * math.sin(turn) - (middle[1] - rule["y"]) * math.cos(turn)
            assert abs(along) > 5, (label["text"], rule)


def test_a_figure_without_room_goes_without_its_rate(decode):
    """On a phone the lower roof of another device begins far right: its figure stays on it."""
    scene = Scene(decode.chart(against=[rl.Device.load("a100-sxm-80gb")]).sized(390))
    flat, text = scene["flat_rules"][-1], scene.boxes("flat_labels")[-1]

    assert text.text == "312.0 TFLOP/s"
    assert text.left >= flat["x"]


def test_a_roof_is_drawn_once(decode, h100):
    """Against itself a device has one roof; beside one with other figures each says which it is."""
    own = replace(h100, bandwidth=2 * h100.bandwidth, assumptions=("h100-sxm with figures of your own",))
    beside = rl.predict(decode.model, own, decode.workload).chart(against=[h100])

    assert Scene(decode.chart(against=[h100])).texts("flat_labels") == Scene(decode.chart()).texts("flat_labels")
    assert Scene(decode.chart(against=[rl.Device.load("h100")])).texts("ridge_labels")[0] == "ridge 295 FLOP/byte"
    assert Scene(beside).texts("slope_labels") == ["your h100-sxm 6.705 TB/s", "h100-sxm 3.352 TB/s"]


def test_no_name_stands_on_a_dot(qwen, h100):
    """The star inside the dot of a kernel that takes all of the time is named beside it; so is a dot on another."""
    for workload in (rl.Workload.decode(4096, 2**20), rl.Workload.prefill(4, 8192), rl.Workload.prefill(1, 2048)):
        scene = Scene(rl.predict(qwen, h100, workload, efficiency=(0.8, 0.75)).chart())
        labels = scene.boxes("labels")

        assert "whole pass" in [box.text for box in labels] or workload.groups[0].sequences == 1
        for dot in scene["dots"]:
            half = math.sqrt(dot["size"]) / 2 - 1
            x, y = dot["x"], dot["y"]
            for box in labels:
                apart = box.right < x - half or box.left > x + half or box.bottom < y - half or box.top > y + half
                assert apart, (box, dot["description"])


def test_one_kernel(h100):
    """A single GEMM of 8192: 2731 FLOP/byte, on the flat roof, named, without a star."""
    scene = Scene(charts.roofline([rl.place(rl.ops.linear(m=8192, n=8192, k=8192), h100, name="gemm")]))

    assert len(scene["dots"]) == 1
    assert scene["dots"][0]["x"] == pytest.approx(pixel(scene, "x", 8192 / 3), abs=0.05)
    assert scene["dots"][0]["y"] == pytest.approx(scene["flat_rules"][0]["y"])
    assert scene.texts("labels") == ["gemm · 100 %"]
    assert scene.marks["star"] == []


def test_thirteen_kernels_at_one_intensity(h100):
    """Thirteen kernels share an x, at different speeds: their labels are a few, apart, the costliest first."""
    work = rl.ops.linear(m=64, n=4096, k=4096)
    bound = rl.place(work, h100).bound.seconds
    points = [replace(rl.place(work, h100, name=f"kernel_{n}"), measured=bound * 1.6**n) for n in range(13)]
    scene = Scene(charts.roofline(points))

    assert len({round(item["x"], 6) for item in scene["dots"]}) == 1
    assert len(scene["dots"]) == 13
    assert scene.overlapping(*TEXTS) == []
    assert [item["text"] for item in scene["labels"] if item["fontWeight"] == "bold"] == ["kernel_12 · 0.36 % of bound"]
    assert len(scene.texts("labels")) >= 5


def measured(h100: rl.Device, n: int) -> list[rl.Point]:
    """Kernels of several sizes and kinds, slower than their bounds."""
    draw = random.Random(7)
    points = []
    for index in range(n):
        rows = draw.choice([16, 64, 512, 4096])
        work = draw.choice(
            [
                lambda rows=rows: rl.ops.linear(m=rows, n=draw.choice([1024, 4096, 11008]), k=4096),
                lambda rows=rows: rl.ops.elementwise(n=rows * 4096),
                lambda rows=rows: rl.ops.norm(m=rows, width=4096),
            ]
        )()
        point = rl.place(work, h100, name=f"kernel_{index}", count=draw.choice([1, 1, 4, 36]))
        points.append(replace(point, measured=point.bound.seconds * draw.uniform(1.05, 12)))
    return points


def test_three_hundred_measured_kernels(h100):
    """Only the costly ones are named; each stands below its roof, and those named have a line up to it."""
    points = measured(h100, 300)
    scene = Scene(charts.roofline(points))
    whole = sum(point.count * point.measured for point in points)
    costly = [point for point in points if point.count * point.measured >= 0.01 * whole]

    assert len(scene["dots"]) == 300
    assert 1 <= len(scene["labels"]) <= 19
    assert scene.overlapping(*TEXTS) == []
    assert any(item["fontWeight"] == "bold" for item in scene["labels"])
    assert len(scene["drops"]) == len(costly)
    assert all(drop["y2"] < drop["y"] for drop in scene["drops"])
    assert all("of bound" in text for text in scene.texts("labels") if text != "whole pass")


def test_a_drop_line_ends_on_the_roof(h100):
    """A GEMM at a quarter of its bound: the line goes from its speed up to its roof, and says 25 %."""
    point = rl.place(rl.ops.linear(m=8192, n=8192, k=8192), h100, name="slow")
    scene = Scene(charts.roofline([replace(point, measured=4 * point.bound.seconds)]))
    drop = scene["drops"][0]

    assert drop["y2"] == pytest.approx(scene["flat_rules"][0]["y"])
    assert drop["y"] == pytest.approx(pixel(scene, "y", 989.4 / 4), abs=0.05)
    assert scene.texts("labels") == ["slow · 25 % of bound"]


def test_a_kernel_above_its_roof_is_drawn_there(h100):
    """Twice as fast as its bound: 200 %, inside the plot, never clamped."""
    point = rl.place(rl.ops.linear(m=8192, n=8192, k=8192), h100, name="cached")
    scene = Scene(charts.roofline([replace(point, measured=point.bound.seconds / 2)]))

    assert 0 <= scene["dots"][0]["y"] < scene["flat_rules"][0]["y"]
    assert scene.texts("labels") == ["cached · 200 % of bound"]
    assert scene.marks["drops"] == []


def test_a_kernel_above_the_memory_roof_brings_the_roof_of_the_cache(h100):
    """Where a kernel beats the memory's bound the cache's slope is drawn, if its bandwidth is known."""
    point = rl.place(rl.ops.norm(m=64, width=4096), h100, name="norm")
    cached = replace(h100, cache_bandwidth={"l2": 7.5e12})
    quick = replace(point, device=cached, measured=point.bound.seconds / 1.5)

    assert "L2 7.500 TB/s" in Scene(charts.roofline([quick])).texts("slope_labels")
    assert len(Scene(charts.roofline([replace(quick, measured=2 * point.bound.seconds)]))["slope_rules"]) == 1


def test_kernels_of_unknown_cost_are_told(h100):
    """A kernel whose cost is not known has time alone: it is not drawn, and its share is said."""
    unknown = rl.place(rl.Work("other", {}, rl.Cost()), h100, name="mystery")
    known = rl.place(rl.ops.linear(m=64, n=4096, k=4096), h100, name="gemm")
    points = [replace(known, measured=3e-5), replace(unknown, measured=1e-5)]
    chart = charts.roofline(points)

    assert "Not drawn, cost unknown, 25 % of the time: mystery" in str(chart.spec["signals"])
    assert "gemm" in " ".join(Scene(chart).texts("labels"))


def test_another_device_and_another_ceiling(decode):
    """A second device brings its slope, flat and ridge; an extra ceiling what it has of them."""
    a100 = rl.Device.load("a100-sxm-80gb")
    scene = Scene(charts.ledger_roofline(decode, against=[a100], roofs=[Roof("L2", bandwidth=5.5e12)]))

    assert "a100-sxm-80gb ridge 153 FLOP/byte" in scene.texts("ridge_labels")
    assert [text for text in scene.texts("slope_labels")] == [
        "h100-sxm 3.352 TB/s",
        "a100-sxm-80gb 2.039 TB/s",
        "L2 5.500 TB/s",
    ]
    dashes = [item["strokeDash"] for item in scene["slope_rules"]]
    assert dashes == [[1, 0], [4, 3], [4, 3]]


def test_a_device_alone():
    """The roof of a device without kernels."""
    scene = Scene(charts.roofline([], devices=[rl.Device.load("mi300x")]))

    assert scene.texts("ridge_labels") == ["ridge 247 FLOP/byte"]
    assert scene.marks["dots"] == []


def test_no_device_and_no_rate_are_refused(decode, h100):
    """A clear line each."""
    with pytest.raises(rl.RooflineError, match="needs a device"):
        charts.roofline([])
    bare = replace(h100, id="bare", peak={})
    with pytest.raises(rl.RooflineError, match="bare has none of the rates"):
        charts.roofline([], devices=[bare])


def test_a_sweep_is_no_roofline(qwen, h100):
    """A ledger over an array has no single dot a kernel."""
    import numpy as np

    ledger = rl.predict(qwen, h100, rl.Workload.decode(sequences=np.array([1.0, 2.0]), context=8192))
    with pytest.raises(rl.RooflineError, match="one setting"):
        ledger.chart()


def test_derated_kernels_hang_below_the_roof(qwen, h100):
    """At 80/75 the dots stand at what was asked for, the roof at the datasheet."""
    ledger = rl.predict(qwen, h100, rl.Workload.decode(64), efficiency=(0.8, 0.75))
    scene = Scene(ledger.chart())
    attention = next(point for point in ledger if point.name == "attention")

    assert scene["dots"][0]["y"] == pytest.approx(pixel(scene, "y", 0.8 * 3.35232 * attention.work.intensity), abs=0.05)
    assert "derated" in str(scene.spec["signals"])


def test_every_operation_has_a_kind():
    """What can be predicted is drawn as what it is."""
    assert {name for name in rl.ops.OPS if kind_of(name) == "other"} == set()
    assert kind_of("anything else") == "other"
    assert len({(kind.shape) for kind in KINDS.values()}) == len(KINDS)


def luminance(colour: str) -> float:
    """Relative luminance as of WCAG 2."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: str, b: str) -> float:
    """Contrast ratio as of WCAG 2."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_are_seen_on_their_ground():
    """Dots 3:1 and texts 4.5:1 against the paper, on both grounds."""
    for theme in (0, 1):
        paper = COLOURS["paper"][theme]
        assert min(contrast(kind[1 + theme], paper) for kind in KINDS.values()) >= 3
        assert min(contrast(COLOURS[name][theme], paper) for name in ("ink", "quiet")) >= 4.5
