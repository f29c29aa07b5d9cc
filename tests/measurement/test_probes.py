"""Probes and the runner."""

from __future__ import annotations

import pytest

from measurement.test_clock import Machine
from roofline import collectives, ops
from roofline.measurement.clock import Samples
from roofline.measurement.probes import Probe, Row, Unsupported, label, run, shape
from roofline.units import MIB


def probe(name: str = "memory.copy", supply="bandwidth", work=None, prepare=None, **rest) -> Probe:
    return Probe(name, supply, work or ops.copy(n=1000), prepare or (lambda: lambda calls: None), **rest)


def ran(probes, machine: Machine, seconds: float):
    told: list[tuple[float, str]] = []
    found = run(probes, machine.timer, seconds, lambda share, what: told.append((share, what)), machine.clock)
    return found, told


def test_values_are_demand_over_time():
    """2,000 bytes in 2 s, 16 FLOP in 2 s, a launch of 2 s; sent bytes are those of one rank."""
    samples = Samples((2.0, 4.0, 4.0))
    gemm = ops.linear(m=2, n=2, k=2, compute="fp32")
    reduce = collectives.all_reduce(1000, 4)

    assert Row(probe(), samples).value == 1000
    assert Row(probe(), samples).median == 500
    assert Row(probe("gemm.fp32", "peak", gemm), samples).value == 8
    assert Row(probe("all-reduce", "link", reduce), samples).value == 750
    assert Row(probe("launch", "latency", ops.elementwise(n=1)), samples).value == 2
    assert [probe(supply=each).unit for each in ("bandwidth", "peak", "link", "latency")] == [
        "B/s",
        "FLOP/s",
        "B/s",
        "s",
    ]


def test_time_is_shared_by_weight():
    """Three parts of the time go to the probe of weight 3, and the whole is kept."""
    machine = Machine(each=0.01)
    heavy, light = (probe(prepare=lambda: machine.step, weight=weight) for weight in (3.0, 1.0))
    found, told = ran([heavy, light], machine, 4.0)

    assert [round(len(row.samples.seconds), -1) for row in found.rows] == [300, 100]
    assert machine.now == pytest.approx(4.0, abs=0.1)
    assert [round(share, 2) for share, _ in told] == [0.0, 0.75, 1.0]


def test_a_slow_machine_leaves_out_what_is_optional():
    """What must be measured is; the rest is named."""
    machine = Machine(each=1.0)
    must, may = probe(prepare=lambda: machine.step), probe(prepare=lambda: machine.step, optional=True)
    found, _ = ran([must, may], machine, 1.0)

    assert len(found.rows) == 1
    assert found.left_out == ("copy: the time was up",)


def test_a_product_that_would_take_too_long_is_left_out():
    """A GEMM of 512 times the FLOPs of one that took a second is not begun with three seconds left."""
    machine = Machine(each=1.0)
    small, large = (
        probe("gemm.fp32", "peak", ops.linear(m=n, n=n, k=n), lambda: machine.step, optional=n > 8) for n in (8, 64)
    )
    found, _ = ran([small, large], machine, 8.0)

    assert len(found.rows) == 1
    assert found.left_out == ("GEMM in fp32, 64³: it would take too long",)


def test_what_a_library_refuses_is_left_out_with_its_reason():
    """Nothing is guessed in its place."""

    def refuse():
        raise Unsupported("no kernel for this format")

    found, _ = ran([probe("gemm.fp8", "peak", ops.linear(m=2, n=2, k=2), refuse)], Machine(each=1.0), 1.0)

    assert found.rows == ()
    assert found.left_out == ("GEMM in fp8, 2³: no kernel for this format",)


def test_labels():
    """A probe in words."""
    assert label(probe(threads=2, working_set=MIB)) == "copy 1 MiB, 2 threads"
    assert (
        label(probe("gemm.fp32", "peak", ops.linear(m=2, n=3, k=4), threads=1)) == "GEMM in fp32, 2 x 3 x 4, 1 thread"
    )
    assert shape(probe("all-reduce", "link", collectives.all_reduce(8, 2))).startswith("bytes 8")
