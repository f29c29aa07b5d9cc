"""The catalogue beside the facts that it was made from: every figure equal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofline.catalogue import devices

IDS = {
    "a100-sxm-40gb": "nvidia-a100-sxm4-40gb",
    "a100-sxm-80gb": "nvidia-a100-sxm4-80gb",
    "b200": "nvidia-b200-sxm-180gb",
    "h100-nvl": "nvidia-h100-nvl-94gb",
    "h100-pcie": "nvidia-h100-pcie-80gb",
    "h100-sxm": "nvidia-h100-sxm5-80gb",
    "h200-sxm": "nvidia-h200-sxm-141gb",
    "l40s": "nvidia-l40s",
    "mi300x": "amd-mi300x-192gb",
    "rtx-4090": "nvidia-rtx-4090",
    "tpu-v5e": "google-tpu-v5e",
}


def rate(key: str) -> str:
    """`fp16_tensor_fp16_accumulate` as this project names rates."""
    match = re.fullmatch(r"(\w+?)_(tensor|vector|matrix)(_fp16_accumulate)?", key)
    assert match is not None
    return match[1] + ("-vector" if match[2] == "vector" else "") + ("-fp16acc" if match[3] else "")


@pytest.fixture(scope="session")
def facts(folder: Path) -> dict[str, Any]:
    """The facts by their id."""
    parsed = yaml.safe_load((folder / "devices" / "devices.yaml").read_text("utf-8"))
    return {each["id"]: each for each in parsed["devices"]}


@pytest.mark.parametrize("device", devices(), ids=lambda device: device.id)
def test_every_figure_is_that_of_the_facts(facts, device):
    """Peaks, bandwidth, capacity, L2 and links."""
    found = facts[IDS[device.id]]
    peaks = {**found.get("peak_dense_flops_per_s", {}), **found.get("peak_dense_ops_per_s", {})}
    memory = found["memory"]
    reported = memory.get("capacity_reported_by_driver_bytes", memory["capacity_bytes"])["value"]

    assert device.peak == {rate(key): pytest.approx(each["value"], rel=1e-12) for key, each in peaks.items()}
    assert device.bandwidth == pytest.approx(found["memory_bandwidth_bytes_per_s"]["value"], rel=1e-12)
    assert device.capacity == reported
    assert device.l2 == found.get("l2_bytes", {}).get("value")
    link = found.get("scale_up_link") or found["pcie"]
    one_way = link.get("per_direction_bytes_per_s", {"value": link.get("total_bytes_per_s", {}).get("value", 0) / 2})
    assert device.links[0].bandwidth == pytest.approx(one_way["value"], rel=1e-12)
