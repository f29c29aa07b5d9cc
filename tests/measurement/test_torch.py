"""The PyTorch backend, with a stand-in for the library: what it chooses, times and reports. No GPU, no PyTorch."""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import roofline as rl
from roofline.device import Figure
from roofline.measurement import pytorch, session, torch_probes
from roofline.measurement.machine import Machine
from roofline.measurement.probes import Unsupported
from roofline.units import GIB, MIB


class Device:
    """`torch.device`: a type and an index."""

    def __init__(self, name: str) -> None:
        kind, _, index = name.partition(":")
        if kind not in pytorch.KINDS:
            raise RuntimeError("Expected one of cpu, cuda, ...")
        self.type, self.index = kind, int(index) if index else None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


class Tensor:
    """A tensor that has a length and does nothing; calls on it are counted."""

    calls = 0

    def __init__(self, n: int = 1) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, part: slice) -> Tensor:
        return Tensor(len(range(*part.indices(self.n))))

    def view(self, *sides: Any) -> Tensor:
        return self if not all(isinstance(each, int) for each in sides) else Tensor(sides[0])

    def __getattr__(self, name: str) -> Any:
        def act(*_: Any, **__: Any) -> Tensor:
            Tensor.calls += 1
            return self

        return act


class Event:
    """An event of a device whose clock advances by a millisecond with each record."""

    now = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.at = 0.0

    def record(self) -> None:
        Event.now += 8.0
        self.at = Event.now

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: Event) -> float:
        return other.at - self.at


def refused(*_: Any, **__: Any) -> None:
    raise RuntimeError("no kernel\nfor this")


@contextmanager
def captured(graph: Any):
    yield graph


def stand_in(accelerator: str = "cuda", count: int = 2) -> Any:
    """A module like torch whose accelerator is an H100."""

    def ones(*sides: Any, **_: Any) -> Tensor:
        shape = sides[0] if sides and isinstance(sides[0], tuple) else sides
        return Tensor(shape[0] if shape else 1)

    def module(there: bool) -> Any:
        return SimpleNamespace(
            is_available=lambda: there,
            device_count=lambda: count,
            synchronize=lambda: None,
            Event=Event,
            mem_get_info=lambda device: (64 * GIB, 80 * GIB),
            device=lambda device: nullcontext(),
            CUDAGraph=lambda: SimpleNamespace(replay=lambda: None),
            graph=captured,
            clock_rate=lambda device: 1980,
            power_draw=refused,
            temperature=refused,
            recommended_max_memory=lambda: 32 * GIB,
            get_device_properties=lambda device: SimpleNamespace(
                name="NVIDIA H100 80GB HBM3",
                total_memory=85176483840,
                multi_processor_count=132,
                L2_cache_size=50 * MIB,
            ),
        )

    functional = SimpleNamespace(linear=lambda *_: None, scaled_dot_product_attention=lambda *_, **__: None)
    distributed = SimpleNamespace(
        init_process_group=lambda name: None,
        destroy_process_group=lambda: None,
        get_backend=lambda: "nccl",
        all_reduce=lambda x: None,
    )
    matmul = SimpleNamespace(allow_tf32=True)
    kinds = ("float32", "float64", "bfloat16", "float16", "int8")
    torch = SimpleNamespace(
        __version__="2.99",
        device=Device,
        ones=ones,
        sum=lambda x: None,
        add=lambda *_, **__: None,
        mm=lambda a, b: None,
        _int_mm=refused,
        get_num_threads=lambda: 3,
        set_num_threads=lambda n: None,
        inference_mode=nullcontext,
        version=SimpleNamespace(cuda="13.0", hip=None),
        nn=SimpleNamespace(functional=functional),
        backends=SimpleNamespace(cuda=SimpleNamespace(matmul=matmul)),
        distributed=distributed,
        **{kind: kind for kind in kinds},
    )
    for kind in pytorch.KINDS:
        setattr(torch, kind, module(kind == accelerator))
    return torch


@pytest.mark.parametrize(
    ("on", "environment", "expected"),
    [
        (None, {}, "cuda"),
        ("cuda:1", {}, "cuda:1"),
        ("cpu", {}, "cpu"),
        (None, {"LOCAL_RANK": "1"}, "cuda:1"),
    ],
)
def test_devices(on: str | None, environment: dict[str, str], expected: str):
    """The accelerator that is there, the one asked for, or that of the rank."""
    assert str(pytorch.chosen(stand_in(), on, environment)) == expected


@pytest.mark.parametrize(
    ("on", "said"),
    [("xpu", "Possible: cuda, cpu"), ("gpu", "Possible: cuda, cpu"), ("cuda:2", "finds 2 such here")],
)
def test_devices_that_are_not_there(on: str, said: str):
    """One line that lists what is."""
    with pytest.raises(rl.RooflineError, match=said):
        pytorch.chosen(stand_in(), on, {})


def test_events_time_a_device():
    """From one record to the next are 8 ms here."""
    timer = pytorch.timer_for(stand_in(), Device("cuda"))
    calls: list[int] = []

    assert timer(calls.append, 5) == pytest.approx(0.008)
    assert calls == [5]


def measured_there(monkeypatch: pytest.MonkeyPatch, torch: Any, **environment: str) -> Any:
    monkeypatch.setitem(sys.modules, "torch", torch)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(session, "_SECONDS", {True: 6.0, False: 6.0})
    return rl.measure("torch", quick=False)


def test_an_accelerator_from_start_to_end(monkeypatch: pytest.MonkeyPatch):
    """Everything is timed or named with its reason; the card is recognised and its shares stand beside."""
    found = measured_there(monkeypatch, stand_in())
    names = {row.probe.name for row in found.rows}

    assert {"launch.eager", "launch.graph", "attention.prefill", "attention.decode"} <= names
    assert {"host copy.to device", "host copy.from device", "skinny.bf16", "memory.triad"} <= names
    assert {"gemm.bf16", "gemm.tf32", "gemm.fp64", "gemm.fp32-vector"} <= names
    left = " ".join(found.left_out)
    assert "GEMM in int8, 4096³: no kernel for this" in left
    assert "GEMM in fp8, 4096³: this PyTorch has no float8_e4m3fn" in left
    assert {"fp8", "int8"}.isdisjoint(found.peak)
    shares = {each.key: each.of_datasheet for each in found.ceilings}
    assert shares["peak.bf16"] == pytest.approx(found.peak["bf16"] / 989.4e12, rel=1e-3)
    assert (found.l2, found.vendor) == (50 * MIB, "NVIDIA")
    assert found.capacity == 85176483840
    assert found.links == ()  # a copy from the host is no link between devices
    assert "Read from the device: 1980 MHz before, 1980 MHz after" in found.environment


def test_a_processor_from_start_to_end(monkeypatch: pytest.MonkeyPatch):
    """One thread and all of PyTorch's, which stand as before at the end; no graphs, no copies from the host."""
    torch = stand_in("none")
    set_to: list[int] = []
    torch.set_num_threads = set_to.append
    found = measured_there(monkeypatch, torch)
    names = {row.probe.name for row in found.rows}

    assert "3 threads" in found.name
    assert {row.probe.threads for row in found.rows if row.probe.name == "memory.copy"} == {1, 3}
    assert set_to[-1] == 3
    assert {"launch.graph", "host copy.to device"}.isdisjoint(names)
    left = " ".join(found.left_out)  # on a machine with no time to spare, with the reason
    assert all(rate in found.peak or f"GEMM in {rate}" in left for rate in ("fp32", "bf16", "fp64"))
    assert not any(line.startswith("Read from the device") for line in found.environment)


def test_what_has_no_name_in_the_catalogue(monkeypatch: pytest.MonkeyPatch):
    """A card that is not recognised is measured all the same, without shares."""
    torch = stand_in()
    torch.cuda.get_device_properties = lambda device: SimpleNamespace(name="A Card 9", total_memory=GIB)
    found = measured_there(monkeypatch, torch)

    assert {each.of_datasheet for each in found.ceilings} == {None}
    assert found.l2 is None


@pytest.mark.parametrize(("threads", "whole"), [(96, True), (2, False)])
def test_a_processor_counts_as_itself_only_whole(threads: int, whole: bool, monkeypatch: pytest.MonkeyPatch):
    """Two threads of a socket of 96 cores are not the socket."""
    sheet = rl.Device.load("epyc-9654")
    known = replace(sheet, figures={**sheet.figures, "chip.compute_units": Figure(96, "quoted", ("a document",))})
    monkeypatch.setattr("roofline.catalogue.load_sheet", lambda name: known)
    host = Machine("AMD EPYC 9654 96-Core Processor", threads, (), GIB, GIB)
    subject = session.cpu_subject(host, threads, "", [], turns=False)

    assert (subject.sheet is not None) == whole
    assert ("2 threads may be less" in subject.sheet_note) != whole


def test_latency_is_that_of_one_kernel(monkeypatch: pytest.MonkeyPatch):
    """A replay of 64 kernels takes 64 times one of them."""
    rows = {row.probe.name: row for row in measured_there(monkeypatch, stand_in()).rows}
    graph = rows["launch.graph"]

    assert graph.probe.demand == 64
    assert graph.value == pytest.approx(graph.samples.best / 64)
    assert rows["launch.eager"].value == rows["launch.eager"].samples.best


def test_ranks_measure_a_link(monkeypatch: pytest.MonkeyPatch):
    """Launched by torchrun, all-reduce gives the link between the ranks."""
    found = measured_there(monkeypatch, stand_in(), WORLD_SIZE="4", RANK="0", LOCAL_RANK="0")

    assert [(each.name, each.domain) for each in found.links] == [("nccl", 4)]
    assert all(len(row.samples.seconds) == 20 for row in found.rows if row.probe.name == "all-reduce")


def test_tf32_is_set_while_it_is_timed_alone():
    """And what was set before stands again, also where the product fails."""
    torch = stand_in()
    bench = torch_probes.Bench(torch, Device("cuda"), GIB)
    seen: list[bool] = []
    settings = torch.backends.cuda.matmul
    torch_probes._precise(bench, lambda count: seen.append(settings.allow_tf32), tf32=False)(1)
    assert (seen, settings.allow_tf32) == ([False], True)
    with pytest.raises(RuntimeError):
        torch_probes._precise(bench, refused, tf32=False)(1)
    assert settings.allow_tf32 is True


def test_apple_has_its_gpu_in_the_processor(monkeypatch: pytest.MonkeyPatch):
    """Its name is the processor's, its memory what the framework recommends."""
    host = Machine("Apple M9", 8, (), 64 * GIB, 32 * GIB)
    subject = pytorch._subject(stand_in("mps"), Device("mps"), host, 1)

    assert (subject.name, subject.memory, subject.caches) == ("Apple M9 GPU", 32 * GIB, ())
    assert pytorch._size(stand_in("mps"), Device("mps"), host) == 4 * GIB


def test_memory_to_walk():
    """Four times the cache, and a quarter of what is free at the most."""
    assert torch_probes.rotations(4 * GIB, 50 * MIB, 64 * GIB) == 4 * GIB
    assert torch_probes.rotations(4 * GIB, 2 * GIB, 64 * GIB) == 8 * GIB
    assert torch_probes.rotations(4 * GIB, 50 * MIB, 8 * GIB) == 2 * GIB


def test_a_refusal_is_one_line():
    """The library's reason, on one line."""
    with pytest.raises(Unsupported, match=r"^no kernel for this$"):
        torch_probes.supported(refused)


def test_too_little_memory_for_a_weight_matrix():
    """Is said."""
    bench = torch_probes.Bench(stand_in(), Device("cuda"), MIB)
    with pytest.raises(Unsupported, match="too little memory"):
        torch_probes._skinny(bench, torch_probes.usual(bench), 1)
