"""The PyTorch backend on a real processor, the loop from measuring to comparing, and all-reduce of two programs.

Nothing is judged by the second: ratios only, with room for other programs on the machine.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import roofline as rl

pytestmark = pytest.mark.oracle
ROOT = Path(__file__).parents[2]
NOISE = 0.5  # a kernel may take half its bound where other programs kept the ceilings from being reached


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("closed_loop", ROOT / "benchmarks" / "closed_loop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(benchmark: ModuleType):
    """The loop, with one thread: two that wait for each other take many times as long on a busy machine."""
    import torch

    before = torch.get_num_threads()
    try:
        return benchmark.loop(threads=1)
    finally:
        torch.set_num_threads(before)


def test_the_processor_is_measured_in_every_way(found):
    """Main memory, FP32 and BF16, each with its scatter; the rest timed or named."""
    device = found.device

    assert device.bandwidth > 0
    assert {"fp32", "bf16"} <= set(device.peak)
    assert {figure.status for figure in device.figures.values()} == {"measured"}
    names = {row.probe.name for row in device.rows}
    assert {"memory.copy", "memory.read", "memory.triad", "memory.write", "skinny.fp32", "launch.eager"} <= names


def test_every_kernel_of_the_ledger_was_measured(found, benchmark: ModuleType):
    """The trace has a mark for each, as many calls as the ledger counts."""
    for rows in found.phases.values():
        assert [each.point.name for each in rows] == [point.name for point in _ledger(found, benchmark)]


def _ledger(found, benchmark: ModuleType) -> rl.Ledger:
    return rl.predict(rl.Model.load(benchmark.CONFIG), found.device, rl.Workload.decode(1, 128), benchmark.FP32)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_no_kernel_beats_its_bound(found, phase: str, capsys: pytest.CaptureFixture[str]):
    """Measured over bound is above one less noise; where it is below one a cache is named, whose own bound holds."""
    with capsys.disabled():
        print(f"\n{phase}: " + ", ".join(f"{each.point.name} {each.ratio:.2f}" for each in found.phases[phase]))
    for each in found.phases[phase]:
        assert each.least_ratio > NOISE, f"{each.point.name}: {each.ratio:.2f}, {each.reason}"
        assert each.reason or each.ratio >= 1


def test_the_diagnosis_of_the_trace_closes_the_loop(found, benchmark: ModuleType):
    """`roofline diagnose` on the measured device: the GEMM FLOPs of every pass of the ledger, none above its bound."""
    model, device = rl.Model.load(benchmark.CONFIG), found.device
    workloads = {"prefill": rl.Workload.prefill(1, benchmark.PROMPT), "decode": rl.Workload.decode(1, benchmark.PROMPT)}
    expected = sum(
        benchmark.PASSES[phase] * point.flops
        for phase, workload in workloads.items()
        for point in rl.predict(model, device, workload, benchmark.FP32)
        if point.work.op == "linear"
    )
    products = [each for each in found.diagnosis.kernels if each.category == "gemm"]

    assert sum(each.demand.flops for each in products if each.demand is not None) == expected
    assert all(each.demand.of_bound < 1 / NOISE for each in products)
    assert found.diagnosis.coverage.share > 0.9
    assert found.diagnosis.findings == ()


def test_the_large_kernels_are_near_their_bounds(found):
    """GEMMs of a prefill and the weights of a decode step reach a tenth of their bound at the least."""
    for phase, names in (("prefill", ("gate_proj", "down_proj")), ("decode", ("gate_proj", "lm_head"))):
        for each in found.phases[phase]:
            if each.point.name in names:
                assert each.ratio < 10


def test_the_transformer_computes_what_the_ledger_counts(benchmark: ModuleType):
    """Decoding the last token of a prompt gives the logits that the prefill gave: the cache is used as it should."""
    from contextlib import nullcontext

    import torch

    model = benchmark.Transformer(torch, lambda name: nullcontext(), {**benchmark.CONFIG, "num_hidden_layers": 2})
    caches = [torch.zeros(2, model.kv, 16, model.dim) for _ in model.layers]
    ids = torch.arange(16)
    with torch.inference_mode():
        whole = model.run(ids, caches, 0)
        again = model.run(ids[15:], caches, 15)

    assert torch.allclose(whole, again, atol=1e-3)


def test_flops_are_those_of_the_ledger(benchmark: ModuleType):
    """PyTorch's own counter finds the GEMM FLOPs that the ledger has."""
    from contextlib import nullcontext

    import torch
    from torch.utils.flop_counter import FlopCounterMode

    model = benchmark.Transformer(torch, lambda name: nullcontext(), benchmark.CONFIG)
    caches = [torch.zeros(2, model.kv, benchmark.PROMPT, model.dim) for _ in model.layers]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.run(torch.arange(benchmark.PROMPT), caches, 0)
    counted = counter.get_flop_counts()["Global"]
    device = rl.Device.load("h100-sxm")
    ledger = rl.predict(rl.Model.load(benchmark.CONFIG), device, rl.Workload.prefill(1, benchmark.PROMPT))
    gemms = sum(point.flops for point in ledger if point.work.op == "linear")

    assert counted[torch.ops.aten.mm] == gemms


def test_two_programs_measure_the_link_between_them(tmp_path: Path):
    """Under torchrun both take part, one answers, and its file has the link."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    path = tmp_path / "box.toml"
    measure = ["-m", "roofline", "measure", "--backend", "torch", "--on", "cpu", "--quick", "--json", "-o", str(path)]
    done = subprocess.run([*command, *measure], capture_output=True, text=True, check=False, timeout=300)

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    link = rl.Device.load(path).links[0]
    assert (link.name, link.domain) == ("gloo", 2)
    reached = [row["value"] for row in answer["rows"] if row["name"] == "all-reduce"]
    assert link.bandwidth == pytest.approx(max(reached), rel=1e-3)
