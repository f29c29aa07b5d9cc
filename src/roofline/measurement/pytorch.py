"""The ceilings of a PyTorch device. PyTorch comes with the extra `torch`, and is imported when it is asked for."""

from __future__ import annotations

import os
import platform
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from importlib import import_module
from time import perf_counter
from typing import Any

from roofline.errors import BadValue, shown
from roofline.measurement.clock import Step, Timer, host_timer
from roofline.measurement.cpu import dram_size
from roofline.measurement.machine import Cache, Machine, Watch, machine
from roofline.measurement.probes import Tell, run
from roofline.measurement.result import MeasuredDevice, MeasureError, Subject, measured
from roofline.measurement.torch_probes import Bench, probes, rotations
from roofline.recognition import recognise
from roofline.units import GIB, KILO, gib

KINDS = ("cuda", "xpu", "mps", "cpu")
_LEAST_SECONDS = 2.0


def load() -> Any:
    """The module torch; raises MeasureError where it is not installed."""
    try:
        return import_module("torch")
    except ImportError:
        raise MeasureError(
            "PyTorch is not installed, which --backend torch measures with. Install it: pip install 'roofline[torch]'."
        ) from None


def chosen(torch: Any, on: str | None, environment: Mapping[str, str]) -> Any:
    """The device of that name, or the accelerator that is there; raises BadValue for one that is not.

    Of several programs launched together each takes the device of its own rank.
    """
    usable = [kind for kind in KINDS if kind == "cpu" or getattr(torch, kind).is_available()]
    rank = environment.get("LOCAL_RANK", "")
    name = on or (f"{usable[0]}:{rank}" if rank and usable[0] in ("cuda", "xpu") else usable[0])
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in usable:
        raise BadValue(f"--on {shown(on)} is no device that PyTorch finds here. Possible: {', '.join(usable)}.")
    count = getattr(torch, device.type).device_count() if device.type in ("cuda", "xpu") else 1
    if device.index is not None and device.index >= count:
        raise BadValue(f"--on {shown(name)}: PyTorch finds {count} such here, counted from 0.")
    return device


def timer_for(torch: Any, device: Any) -> Timer:
    """A timer by the device's own events, which leaves out what the host does meanwhile; the host's for a processor."""
    if device.type == "cpu":
        return host_timer
    module = getattr(torch, device.type)
    start, end = module.Event(enable_timing=True), module.Event(enable_timing=True)

    def timed(step: Step, calls: int) -> float:
        module.synchronize()
        start.record()
        step(calls)
        end.record()
        end.synchronize()
        module.synchronize()
        return start.elapsed_time(end) / KILO

    return timed


def current(torch: Any, device: Any) -> AbstractContextManager[Any]:
    """The device as the current one meanwhile, whose streams events are recorded on."""
    return getattr(torch, device.type).device(device) if device.type in ("cuda", "xpu") else nullcontext()


@contextmanager
def together(torch: Any, device: Any, environment: Mapping[str, str]) -> Generator[int]:
    """The ranks that torchrun launched, joined while they measure; 1 where there is one program."""
    ranks = int(environment.get("WORLD_SIZE", "1"))
    if ranks == 1 or "RANK" not in environment:
        yield 1
        return
    torch.distributed.init_process_group({"cuda": "nccl", "xpu": "xccl"}.get(device.type, "gloo"))
    try:
        yield ranks
    finally:
        torch.distributed.destroy_process_group()


def measure_torch(on: str | None, seconds: float, *, quick: bool, name: str | None, tell: Tell) -> MeasuredDevice:
    """Measure a PyTorch device in about that many seconds, the library's own start included."""
    begun, watch = perf_counter(), Watch()
    tell(0.0, "PyTorch starts")
    torch = load()
    device, host = chosen(torch, on, os.environ), machine()
    timer = timer_for(torch, device)
    threads = torch.get_num_threads()
    with torch.inference_mode(), current(torch, device), together(torch, device, os.environ) as ranks:
        bench = Bench(torch, device, _size(torch, device, host), threads if device.type == "cpu" else 0, ranks)
        bench.size = bench.layout.whole(bench.size)
        subject, before = _subject(torch, device, host, ranks), _readings(torch, device)
        left = max(_LEAST_SECONDS, seconds - (perf_counter() - begun))
        try:
            found = run(probes(bench, quick, timer), timer, left, tell)
        finally:
            torch.set_num_threads(threads)
        after = _readings(torch, device)
    if before or after:
        subject = replace(subject, facts=(*subject.facts, f"Read from the device: {before} before, {after} after"))
    return measured(found.rows, found.left_out, subject, watch.load(), perf_counter() - begun, name)


def _size(torch: Any, device: Any, host: Machine) -> int:
    """Memory to walk [byte]."""
    if device.type == "cpu":
        return dram_size(host)
    free = host.available
    if device.type in ("cuda", "xpu"):
        free = getattr(torch, device.type).mem_get_info(device)[0]
    return rotations(4 * GIB, _cache(torch, device), free)


def _cache(torch: Any, device: Any) -> int:
    """The L2 cache that the driver reports [byte], 0 where it reports none."""
    if device.type != "cuda":
        return 0
    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0))


def _subject(torch: Any, device: Any, host: Machine, ranks: int) -> Subject:
    from roofline.measurement.session import cpu_subject, host_facts

    how = f"PyTorch {torch.__version__} on {device}, Python {platform.python_version()}, {platform.system()}"
    if device.type == "cpu":
        threads = torch.get_num_threads()
        facts = [*host_facts(host), f"PyTorch may use {threads} of them"]
        return replace(cpu_subject(host, threads, how, facts, turns=False), ranks=ranks)
    name, memory, units = _named(torch, device, host)
    seen = recognise(name, sms=units, memory=memory if device.type != "mps" else None)
    l2 = _cache(torch, device)
    sheet = seen.device() if seen.id is not None else None
    return Subject(
        name,
        sheet.vendor if sheet else "",
        how,
        (Cache(2, l2, 1),) if l2 else (),
        memory,
        tuple([*_facts(torch, device), *host_facts(host)]),
        sheet,
        seen.reason.rstrip("."),
        ranks,
    )


def _named(torch: Any, device: Any, host: Machine) -> tuple[str, int, int | None]:
    """The accelerator's name, memory [byte] and compute units as its driver reports them."""
    if device.type == "mps":
        return f"{host.name} GPU", torch.mps.recommended_max_memory(), None
    found = getattr(torch, device.type).get_device_properties(device)
    units = getattr(found, "multi_processor_count", None)
    return found.name, found.total_memory, units


def _facts(torch: Any, device: Any) -> list[str]:
    """Versions and free memory."""
    facts = [f"{key} {value}" for key, value in (("CUDA", torch.version.cuda), ("HIP", torch.version.hip)) if value]
    if device.type != "cuda":
        return facts
    free, total = torch.cuda.mem_get_info(device)
    facts.append(f"{gib(free)} of {gib(total)} free at the start")
    return facts


def _readings(torch: Any, device: Any) -> str:
    """Clock, power and temperature now, those that can be read; "" where none can."""
    if device.type != "cuda":
        return ""
    said: list[str] = []
    for reading, unit in (("clock_rate", "MHz"), ("power_draw", "mW"), ("temperature", "°C")):
        with suppress(Exception):  # each needs a library of the driver, and fails in its own way
            said.append(f"{getattr(torch.cuda, reading)(device)} {unit}")
    return ", ".join(said)
