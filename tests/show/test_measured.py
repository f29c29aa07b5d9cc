"""A measured device as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

import roofline as rl
from measurement.test_result import IDLE, ROWS, SUBJECT, device, walked
from roofline import ops
from roofline.measurement.clock import Samples
from roofline.measurement.machine import Load
from roofline.measurement.probes import Probe, Row
from roofline.show.measured import measured_record, measured_text
from roofline.show.terminal import console
from roofline.units import MIB

LEFT_OUT = [*(f"copy {n} MiB: the time was up" for n in range(4)), "GEMM in fp8, 64³: no kernel: for this"]
LAUNCH = Row(Probe("launch.eager", "latency", ops.elementwise(n=1), lambda: lambda calls: None), Samples((5e-6, 7e-6)))


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def lines(found) -> list[str]:
    out = console()
    with out.capture() as captured:
        out.print(measured_text(found))
    return [line.rstrip() for line in captured.get().splitlines()]


def row_of(shown: list[str], start: str) -> list[str]:
    return next(line for line in shown if line.startswith(start)).split()


def test_ceilings_then_sizes_then_the_rest():
    """80 columns; each ceiling with its scatter; caches by size; launches and products below."""
    shown = lines(device(rows=[*ROWS, LAUNCH], left_out=LEFT_OUT))

    assert max(map(len, shown)) <= 80
    assert shown[0] == "Some CPU(R) 9, 2 threads, measured (box)"
    assert " ".join(row_of(shown, "main memory")[2:]) == "20.0 GB/s 20.0 GB/s 0 % copy 256 MiB, 2 threads"
    assert row_of(shown, "fp32 peak")[2:4] == ["150", "GFLOP/s"]
    assert "datasheet" not in " ".join(shown[:6])
    assert [line.split()[:3] for line in shown if "MiB  " in line][:2] == [["4", "MiB", "50.0"], ["256", "MiB", "20.0"]]
    assert row_of(shown, "launch, eager")[-6:] == ["5.00", "us", "6.00", "us", "23", "%"]
    assert "· Left out, the time was up: copy 0 MiB; copy 1 MiB; and 2 more." in shown
    assert any("no kernel" in line for line in shown)


def test_shares_of_the_datasheet():
    """A column where there is a datasheet, unknown where it lacks the figure."""
    sheet = rl.Device.load("h100-sxm")
    shown = lines(device(subject=replace(SUBJECT, sheet=sheet), rows=[*ROWS, walked(3000e9, 512 * MIB, slow=1.1)]))

    assert row_of(shown, "main memory")[8:10] == ["89.5", "%"]
    assert "unknown" in row_of(shown, "fp32 peak")


def test_a_busy_machine_is_on_top():
    """Before any figure."""
    shown = lines(device(load=Load(0.7, 0.0, 2)))

    assert shown[1].startswith("The machine was busy (other programs took 70 %")


def test_names_are_data():
    """A processor's name that holds markup or control characters is shown as it is, or as escapes."""
    shown = lines(device(subject=replace(SUBJECT, name="[red]\x1b[2J")))

    assert shown[0].startswith("[red]\\x1b[2J")


def test_record():
    """Every ceiling and row with its unit."""
    record = measured_record(device(rows=[*ROWS, LAUNCH], load=IDLE, left_out=LEFT_OUT))

    assert record["schema"] == "roofline.measure/1"
    assert {each["key"] for each in record["ceilings"]} >= {"memory.bandwidth", "peak.fp32", "cache.l2_bandwidth"}
    assert record["rows"][-1] | {"unit": "s", "value": 5e-6, "samples": 2} == record["rows"][-1]
    assert record["left_out"] == LEFT_OUT
