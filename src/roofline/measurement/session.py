"""One measurement from start to end: backend, time, load, result."""

from __future__ import annotations

import platform
from time import perf_counter

from roofline.errors import BadValue, shown
from roofline.measurement import cpu
from roofline.measurement.clock import host_timer
from roofline.measurement.machine import Machine, Watch, clock_rate, hertz, machine
from roofline.measurement.probes import Tell, run
from roofline.measurement.result import MeasuredDevice, Subject, measured
from roofline.recognition import recognise

BACKENDS = ("numpy", "torch")
_SECONDS = {True: 6.0, False: 45.0}  # for the probes; libraries and memory take a while before


def _silent(share: float, name: str) -> None:
    """Nobody watches."""


def measure_with(
    backend: str, *, on: str | None, quick: bool, name: str | None, progress: Tell | None
) -> MeasuredDevice:
    """What `roofline.measure` does."""
    tell = progress or _silent
    if backend == "numpy":
        if on not in (None, "cpu"):
            raise BadValue(f"NumPy measures the processor, not {shown(on)}. Choose the backend torch, or leave it out.")
        return _numpy(quick, name, tell)
    if backend == "torch":
        from roofline.measurement.pytorch import measure_torch

        return measure_torch(on, _SECONDS[quick], quick=quick, name=name, tell=tell)
    raise BadValue(f"The backend {shown(backend)} is not known. Possible: {', '.join(BACKENDS)}.")


def _numpy(quick: bool, name: str | None, tell: Tell) -> MeasuredDevice:
    import numpy as np

    start, host = perf_counter(), machine()
    before, watch = clock_rate(), Watch()
    library, settable = cpu.blas_library()
    with cpu.probes(host, quick) as probes:
        found = run(probes, host_timer, _SECONDS[quick], tell)
    facts = [*host_facts(host), f"Clock: {hertz(before)} before, {hertz(clock_rate())} after"]
    if not settable:
        facts.append("The threads of the matrix library cannot be set: GEMMs ran with as many as it chooses")
    how = f"NumPy {np.__version__} with {library}, Python {platform.python_version()}, {platform.system()}"
    subject = cpu_subject(host, host.threads, how, facts, turns=True)
    return measured(found.rows, found.left_out, subject, watch.load(), perf_counter() - start, name)


def host_facts(host: Machine) -> list[str]:
    """The processor in sentences."""
    caches = ", ".join(each.text for each in host.caches) or "sizes unknown"
    return [f"Processor: {host.name}, {host.threads} threads; caches {caches}"]


def cpu_subject(host: Machine, threads: int, how: str, facts: list[str], turns: bool) -> Subject:
    """The processor as what is measured, with that many threads at the most."""
    seen = recognise(host.name)
    sheet = seen.device() if seen.id is not None and _whole(seen.id, threads) else None
    note = seen.reason if sheet else f"No datasheet to compare with: {seen.reason}"
    if seen.id is not None and sheet is None:
        note = f"No shares of a datasheet: it is of a whole {seen.id}, and {threads} threads may be less"
    return Subject(
        f"{host.name}, {threads} thread{'s' if threads > 1 else ''}",
        "",
        how,
        host.caches,
        host.memory,
        tuple(facts),
        sheet,
        note.rstrip("."),
        turns=turns,
    )


def _whole(ident: str, threads: int) -> bool:
    """Whether so many threads are all of that device: a datasheet counts for a whole socket."""
    from roofline.catalogue import load_sheet

    units = load_sheet(ident).figures.get("chip.compute_units")
    return units is not None and threads >= units.value
