"""A trace of the processor alone: which operators do the work, and what the answer says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import roofline as rl
from roofline.diagnosis.result import Diagnosis
from roofline.trace.events import HOST, listed
from roofline.trace.host import on_host
from roofline.trace.readers import open_trace

DEVICE = """
id = "tiny-cpu"
name = "Tiny CPU"
vendor = "none"
[memory]
bandwidth = { value = "10 GB/s", status = "measured", source = ["here"] }
[peak]
fp32 = { value = "100 GFLOP/s", status = "measured", source = ["here"] }
fp32-vector = { value = "100 GFLOP/s", status = "measured", source = ["here"] }
"""


def op(
    name: str, start: float, length: float, dims: Any = None, thread: int = 1, cat: str = "cpu_op"
) -> dict[str, Any]:
    args = {} if dims is None else {"Input Dims": dims, "Input type": ["float"] * len(dims)}
    times = {"ts": start, "dur": length}
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": thread, **times, "args": args}


# Two layers: a product that works through aten::addmm, which itself copies; a view and an allocation that do nothing.
EVENTS = [
    op("aten::linear", 0, 1000, [[64, 256], [512, 256], [512]]),
    op("aten::t", 5, 10, [[512, 256]]),
    op("aten::addmm", 20, 970, [[512], [64, 256], [256, 512], [], []]),
    op("aten::copy_", 30, 100, [[64, 512], [64, 512], []]),
    op("aten::relu", 1100, 200, [[64, 512]]),
    op("aten::clamp_min", 1110, 180, [[64, 512], []]),
    op("aten::empty", 1115, 5, [[]]),
    op("aten::view", 1400, 300, [[64, 512], []]),
    op("aten::sum", 1200, 150, [[64, 512], []], thread=2),
]


def traced(tmp_path: Path, events: list[dict[str, Any]] = EVENTS, **more: Any) -> Path:
    path = tmp_path / "cpu.json"
    path.write_text(json.dumps({"traceEvents": events, **more}), "utf-8")
    return path


def test_who_works(tmp_path: Path):
    """An operator works where it spends at least half of its time itself; what it calls is its own.

    linear spends 20 of 1000 us itself, addmm 870 of 970; relu 20 of 200, clamp_min 175 of 180; views do nothing.
    """
    found = on_host(open_trace(traced(tmp_path)))
    gpu = found.gpu

    assert [found.names[each] for each in listed(gpu.name)] == ["aten::addmm", "aten::clamp_min", "aten::sum"]
    assert listed(gpu.duration) == [970_000, 180_000, 150_000]
    assert set(listed(gpu.device)) == {HOST}
    assert len(set(listed(gpu.stream))) == 2


def test_the_answer_has_costs_and_no_advice(tmp_path: Path):
    """Window 20 to 1350 us; busy 970 + (1110 to 1350) = 1210; the product has 2*64*512*256 FLOP and four operands."""
    found = rl.diagnose(traced(tmp_path))
    assert isinstance(found, Diagnosis)

    assert (found.window, found.busy, found.idle) == (1_330_000, 1_210_000, 120_000)
    assert sum(each.attributed for each in found.breakdown) + found.idle == found.window
    assert [each.cause for each in found.causes] == ["between operators"]
    product = next(each for each in found.kernels if each.name == "aten::addmm")
    assert product.demand is not None
    assert product.demand.flops == 2 * 64 * 512 * 256
    assert product.demand.bytes == 4 * (64 * 256 + 256 * 512 + 64 * 512 + 512)
    assert found.findings == ()
    assert found.limit == ""
    assert "it says nothing of a GPU" in found.warnings[0]
    assert found.to_dict()["device"]["name"] == "the host's processor"


def test_a_measured_processor_gives_bounds(tmp_path: Path, roofline):
    """On a device of 100 GFLOP/s: 16.8 MFLOP take 168 us at least, 17 % of the 970."""
    device = tmp_path / "tiny-cpu.toml"
    device.write_text(DEVICE, "utf-8")
    answer = roofline("diagnose", str(traced(tmp_path)), "--device", str(device))
    found = rl.diagnose(traced(tmp_path), device=rl.Device.load(device))
    assert isinstance(found, Diagnosis)
    product = next(each for each in found.kernels if each.name == "aten::addmm")

    assert answer.code == 0
    assert "Tiny CPU" in " ".join(answer.out.split())
    assert "launched outside" not in " ".join(answer.out.split())
    assert product.demand is not None
    assert product.demand.bound is not None
    assert round(product.demand.bound * 1e6) == 168


def test_operators_that_launched_are_no_work(tmp_path: Path):
    """With calls of a device's runtime, or a card that they may have run on, operators are not taken for work."""
    launch = op("cudaLaunchKernel", 25, 5, cat="cuda_runtime")
    launched = rl.diagnose(traced(tmp_path, [*EVENTS, launch]))
    card = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000}
    beside = rl.diagnose(traced(tmp_path, deviceProperties=[card]))

    for found in (launched, beside):
        assert isinstance(found, Diagnosis)
        assert found.window == 0
        assert found.verdict.startswith("No device activity in this file")
