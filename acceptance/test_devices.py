"""The catalogue beside the facts that it was made from: every figure of every device, its status, its conflicts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofline.catalogue import device_sheets, load_sheet
from roofline.device import Sheet

# The facts record the capacity of these as printed only; the file names a list or a page that has it.
PRINTED = {
    "arc-b580": "12 GB",
    "b100": "192 GB",
    "gaudi2": "96 GB",
    "gaudi3": "128 GB",
    "gh200-144gb": "144 GB HBM3e",
    "gh200-96gb": "96 GB HBM3",
    "h20": "96 GB",
    "h800-sxm": "80 GB",
    "mi455x": "432 GB",
    "rtx-pro-6000-se": "96 GB",
    "rubin": "288 GB",
    "max-1550": "128 GB",
}


def rate(key: str) -> str:
    """`fp16_tensor_fp16_accumulate` as this project names rates."""
    match = re.fullmatch(r"(\w+?)_(tensor|vector|matrix)(_fp16_accumulate)?", key)
    assert match is not None
    return match[1] + ("-vector" if match[2] == "vector" else "") + ("-fp16acc" if match[3] else "")


@pytest.fixture(scope="session")
def facts(folder: Path) -> list[dict[str, Any]]:
    """The facts of every device."""
    return yaml.safe_load((folder / "devices" / "devices.yaml").read_text("utf-8"))["devices"]


@pytest.fixture(scope="session")
def pairs(facts: list[dict[str, Any]]) -> list[tuple[dict[str, Any], Sheet]]:
    """The facts of each device, and its sheet: the id of the facts is a name of it."""
    return [(found, load_sheet(found["id"])) for found in facts]


def status(figure: dict[str, Any], sheet: Sheet) -> str:
    """The status of a fact in this project's words."""
    if figure["status"] != "secondary":
        return figure["status"]
    if not figure.get("quoted"):
        return "catalogue"
    return "announced" if sheet.announced else "quoted"


def test_every_device_is_there(pairs):
    """Each is one device, and there is no other."""
    assert len(pairs) == 88
    assert sorted(sheet.id for _, sheet in pairs) == [each.id for each in device_sheets()]


def test_every_peak_and_its_status(pairs):
    """Equal, and none more."""
    for found, sheet in pairs:
        peaks = {**found.get("peak_dense_flops_per_s", {}), **found.get("peak_dense_ops_per_s", {})}
        assert sheet.peak == {rate(key): pytest.approx(each["value"], rel=1e-12) for key, each in peaks.items()}
        for key, each in peaks.items():
            assert sheet.figures[f"peak.{rate(key)}"].status == status(each, sheet), (sheet.id, key)


def test_every_bandwidth_and_its_status(pairs):
    """Equal, and unknown where the facts have none. Each source carries the figure's."""
    for found, sheet in pairs:
        figure = found.get("memory_bandwidth_bytes_per_s")
        assert sheet.bandwidth == (figure and pytest.approx(figure["value"], rel=1e-12)), sheet.id
        if figure and sheet.id != "h100-sxm":  # from clock and width, which the figure quoted confirms
            assert sheet.figures["memory.bandwidth"].status == status(figure, sheet), sheet.id


def test_every_capacity(pairs):
    """What the driver reports, else the vendor's; a whole card where one of its stacks reports."""
    for found, sheet in pairs:
        memory = found["memory"]
        figure = memory.get("capacity_reported_by_driver_bytes", memory.get("capacity_bytes"))
        if sheet.id == "max-1550":
            assert sheet.capacity == 2 * figure["value"]
        elif figure:
            assert sheet.capacity == figure["value"], sheet.id
        else:
            assert (sheet.capacity is not None) is (sheet.id in PRINTED), sheet.id
        if sheet.id in PRINTED:
            assert memory["capacity_as_printed"] == PRINTED[sheet.id]
            assert sheet.figures["memory.capacity"].value == int(PRINTED[sheet.id].split()[0]) * 2**30


def test_caches_units_clocks_power_and_years(pairs):
    """Equal, with their status."""
    keys = {
        "l2_bytes": "cache.l2",
        "last_level_cache_bytes": "cache.last_level",
        "compute_units": "chip.compute_units",
        "boost_clock_hz": "chip.boost_clock",
        "tdp_w": "chip.power",
    }
    for found, sheet in pairs:
        for theirs, ours in keys.items():
            if theirs in found:
                figure = sheet.figures[ours]
                assert figure.value == pytest.approx(found[theirs]["value"], rel=1e-12), (sheet.id, ours)
                assert figure.status == status(found[theirs], sheet), (sheet.id, ours)
        assert sheet.released == found.get("release_year", {}).get("value")


def test_links(pairs):
    """One direction; a link to a CPU or inside a package joins no devices, and one without a total is left out."""
    for found, sheet in pairs:
        link = found.get("scale_up_link")
        if link is None or sheet.id in ("gh200-96gb", "mi250x", "mi355x"):
            continue
        one_way = link.get("per_direction_bytes_per_s") or {"value": link["total_bytes_per_s"]["value"] / 2}
        assert sheet.links[0].bandwidth == pytest.approx(one_way["value"], rel=1e-12), sheet.id
        domain = found.get("scale_up_domain_devices")
        assert sheet.links[0].domain == (domain and domain["value"]), sheet.id


def test_every_conflict_is_kept(pairs):
    """As a conflict of a figure, or told in a note where there is no figure."""
    for found, sheet in pairs:
        told = len(sheet.conflicts) + len(sheet.notes)
        assert told >= len(found.get("conflicts", ())), sheet.id
        fields = {each.field for each in sheet.conflicts}
        for conflict in found.get("conflicts", ()):
            if conflict["field"] == "memory_bandwidth_bytes_per_s":
                assert "memory.bandwidth" in fields, sheet.id
            elif re.fullmatch(r"\w+_(tensor|matrix|vector)", conflict["field"]):
                assert f"peak.{rate(conflict['field'])}" in fields, (sheet.id, conflict["field"])


def test_ridge_points(pairs):
    """As the facts have them, rounded to a tenth."""
    for found, sheet in pairs:
        for key, value in found.get("ridge_point_flops_per_byte", {}).items():
            if sheet.id != "rtx-pro-6000-se":  # the facts have these at the bandwidth that was not taken
                assert sheet.ridge_point(rate(key)) == pytest.approx(value, abs=0.051), (sheet.id, key)
