"""From rows to a device and its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import roofline as rl
from roofline import collectives, ops
from roofline.files import write_text
from roofline.measurement.clock import Samples
from roofline.measurement.machine import Cache, Load
from roofline.measurement.probes import Probe, Row
from roofline.measurement.result import MeasureError, Subject, ceilings, level_of, measured
from roofline.units import KIB, MIB

CACHES = (Cache(1, 32 * KIB, 2), Cache(2, 512 * KIB, 2), Cache(3, 16 * MIB, 1))
SUBJECT = Subject("Some CPU(R) 9, 2 threads", "", "NumPy 2", CACHES, 2**34, ("Processor: Some CPU",), turns=True)
IDLE = Load(0.01, 0.0, 2)


def walked(value: float, working_set: int, threads: int = 2, name: str = "memory.copy", slow: float = 1.0) -> Row:
    """A walk of a millisecond at that many byte/s, whose slower runs take `slow` times as long."""
    work = ops.copy(n=int(value / 2000))
    probe = Probe(name, "bandwidth", work, lambda: lambda calls: None, threads=threads, working_set=working_set)
    return Row(probe, Samples((0.001, *[0.001 * slow] * 4)))


def gemm(value: float, rate: str = "fp32", n: int = 1024) -> Row:
    work = ops.linear(m=n, n=n, k=n, weights="fp32", activations="fp32", compute=rate)
    probe = Probe(f"gemm.{rate}", "peak", work, lambda: lambda calls: None, rate=rate, threads=2)
    return Row(probe, Samples((2 * n**3 / value,) * 5))


ROWS = (
    walked(20e9, 256 * MIB),
    walked(18e9, 256 * MIB, threads=1),
    walked(90e9, 512 * KIB),
    walked(50e9, 4 * MIB),
    walked(200e9, 32 * KIB, threads=1),
    gemm(150e9),
    gemm(100e9, n=512),
    gemm(70e9, "fp64"),
    gemm(999e9, "fp8", n=64),
)


def device(rows=ROWS, subject=SUBJECT, load=IDLE, name: str | None = "box", left_out=()):
    return measured(rows, left_out, subject, load, 7.4, name)


def test_supplies_are_the_best_rows():
    """Main memory is the largest working set; a plateau is its level's; a peak needs a product worth the name."""
    found = device()

    assert found.id == "box"
    assert found.bandwidth == 20e9
    assert found.cache_bandwidth == {"l2": 90e9, "last_level": 50e9}
    assert found.peak == {"fp32": 150e9, "fp64": 70e9}
    assert (found.l2, found.cache, found.capacity) == (MIB, 16 * MIB, 2**34)
    assert found.warnings == ()


def test_a_measured_device_is_a_device():
    """It predicts, derates and places; its file gives the same bounds."""
    found = device()
    precision = rl.Precision("fp32", "fp32", "fp32", "fp32")
    workload = rl.Workload.decode(sequences=1, context=128)
    ledger = rl.predict("qwen3-0.6b" if "qwen3-0.6b" in rl_models() else "Qwen3-8B", found, workload, precision)

    assert isinstance(found, rl.Device)
    assert ledger.total.bound == "memory"
    assert found.derated(bandwidth=0.5).bandwidth == 10e9


def rl_models() -> list[str]:
    from roofline.catalogue import model_ids

    return model_ids()


def test_the_file_is_read_back(tmp_path: Path):
    """Every figure is measured, with source, note and scatter, and the same to four digits."""
    found = device(rows=[*ROWS[1:], walked(20.4999e9, 256 * MIB, slow=1.25)])
    path = tmp_path / "box.toml"
    found.save(path)
    again = rl.Device.load(path)

    assert again.bandwidth == pytest.approx(20.4999e9, rel=1e-3)
    assert (again.peak, again.cache_bandwidth, again.id) == (found.peak, found.cache_bandwidth, "box")
    assert {each.status for each in again.figures.values()} == {"measured"}
    figure = again.figures["memory.bandwidth"]
    assert figure.source[0].startswith("roofline measure, 20")
    assert figure.note == "copy 256 MiB, 2 threads: the fastest of 5; median 16.40 GB/s, spread 20 %"
    assert any("NumPy 2" in note for note in again.notes)
    assert found.warnings == ("Runs scatter, so a repetition may differ by as much: spread of memory.bandwidth 20 %",)


def test_a_busy_machine_is_said():
    """In the warnings, in the file and among a prediction's assumptions."""
    found = device(load=Load(0.6, 0.0, 2))

    assert "other programs took 60 %" in found.warnings[0]
    assert found.warnings[0] in found.assumptions
    assert "was busy" in found.toml


def test_too_little_memory_beside_the_cache_is_said():
    """A walk over less than twice the cache may be served by it."""
    found = device(rows=[walked(20e9, 24 * MIB)])

    assert "may include the cache's" in found.warnings[0]


def test_levels():
    """A working set shows a level where it fits it with room, and does not fit the one below."""
    assert level_of(64 * KIB, 2, CACHES) is None  # both L1 together
    assert level_of(48 * KIB, 2, CACHES) == CACHES[0]
    assert level_of(512 * KIB, 2, CACHES) == CACHES[1]
    assert level_of(512 * KIB, 1, CACHES) is None  # all of one core's
    assert level_of(MIB, 2, CACHES) is None
    assert level_of(8 * MIB, 1, CACHES) == CACHES[2]
    assert level_of(15 * MIB, 1, CACHES) is None


def test_calls_too_short_for_many_threads_are_no_evidence():
    """Sixty-four threads that take turns in the interpreter do not show a cache."""
    many = walked(90e9, 512 * KIB, threads=2)
    short = Row(many.probe, Samples((5e-6,) * 5))
    keys = [each.key for each in ceilings([ROWS[0], short], SUBJECT)]

    assert keys == ["memory.bandwidth"]
    assert len(ceilings([ROWS[0], short], replace(SUBJECT, turns=False))) == 2


def test_shares_of_the_datasheet():
    """Of a recognised device each ceiling has its share: 20 of 3,352 GB/s."""
    sheet = rl.Device.load("h100-sxm")
    found = device(subject=replace(SUBJECT, sheet=sheet, sheet_note="It is an H100"))
    shares = {each.key: each.of_datasheet for each in found.ceilings}

    assert shares["memory.bandwidth"] == pytest.approx(20 / 3352.32)
    assert shares["peak.fp32"] is None
    assert any(line.startswith("memory.bandwidth is 0.597 %") for line in found.environment)


def test_a_cache_without_a_plateau_is_not_given():
    """Where a cache is no faster than main memory, as in a shared one, there is no figure, and a sentence."""
    found = device(rows=[ROWS[0], ROWS[2], walked(19e9, 4 * MIB)])

    assert found.cache_bandwidth == {"l2": 90e9}
    assert "cache.last_level_bandwidth is not given: no plateau shows above main memory" in found.environment


def test_ranks_make_a_link():
    """All-reduce over four ranks: the bus bandwidth, and the ranks that it joins."""
    probe = Probe("all-reduce", "link", collectives.all_reduce(2**20, 4), lambda: lambda calls: None, rate="gloo")
    found = device(rows=[ROWS[0], Row(probe, Samples((0.001,)))], subject=replace(SUBJECT, ranks=4))

    assert found.links[0].name == "gloo"
    assert found.links[0].bandwidth == pytest.approx(1.5 * 2**20 / 0.001, rel=1e-3)
    assert found.links[0].domain == 4


def test_nothing_measured():
    """One line says why."""
    with pytest.raises(MeasureError, match="cannot be measured: no memory"):
        device(rows=[ROWS[5]], left_out=["no memory"])
    with pytest.raises(MeasureError, match="nothing was timed"):
        device(rows=[])


@pytest.mark.parametrize(
    ("name", "ident"),
    [
        (None, "some-cpu-9-2-threads-measured"),
        ("My Box!", "my-box"),
        ("x" * 90, "x" * 60),
        ("éè", "measured"),
    ],
)
def test_ids(name: str | None, ident: str):
    """Letters, digits and hyphens."""
    assert device(name=name).id == ident


def test_a_file_is_written_at_once_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What breaks off leaves the old file and no other."""
    path = tmp_path / "box.toml"
    write_text(path, "old")

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", broken)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "new")

    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["box.toml"]


def test_a_file_keeps_its_permissions(tmp_path: Path):
    """A new one has those of any new file, an old one its own."""
    path, plain = tmp_path / "box.toml", tmp_path / "plain"
    plain.touch()
    write_text(path, "x")
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    write_text(path, "y")
    assert path.stat().st_mode & 0o777 == 0o640
