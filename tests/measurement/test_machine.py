"""What the system says of a host, read from files of our own making."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline import processors
from roofline.measurement import machine as module
from roofline.measurement.machine import Cache, Load, Watch, hertz, machine
from roofline.units import KIB, MIB


def written(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def cache(cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> dict[str, str]:
    base = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
    return {
        f"{base}/level": f"{level}\n",
        f"{base}/type": f"{kind}\n",
        f"{base}/size": f"{size}\n",
        f"{base}/shared_cpu_list": f"{shared}\n",
    }


@pytest.fixture
def four(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two cores of two threads: an L1 and an L2 each, one L3; only three threads are allowed."""
    files = {"proc/cpuinfo": "processor\t: 0\nmodel name\t: A  Processor(R) 9\n"}
    for cpu in range(4):
        mine = "0-1" if cpu < 2 else "2-3"
        files |= cache(cpu, 0, 1, "Data", "48K", mine) | cache(cpu, 1, 1, "Instruction", "32K", mine)
        files |= cache(cpu, 2, 2, "Unified", "2048K", mine) | cache(cpu, 3, 3, "Unified", "30M", "0-3")
    for each in (module, processors):
        monkeypatch.setattr(each, "allowed", lambda: frozenset({0, 1, 2}))
    return written(tmp_path, files)


def test_caches_are_counted_once_each(four: Path):
    """Threads of a core share its caches; instructions are left out."""
    found = machine(four)

    assert found.caches == (Cache(1, 48 * KIB, 2), Cache(2, 2 * MIB, 2), Cache(3, 30 * MIB, 1))
    assert found.last_level == 30 * MIB
    assert found.caches[1].text == "L2 2 x 2 MiB"
    assert (found.name, found.threads) == ("A Processor(R) 9", 3)


def test_a_container_has_its_share(four: Path):
    """A quota of 1.5 processors is one thread, a limit of 64 MiB is the memory, less what is used."""
    group = "sys/fs/cgroup"
    limits = {"cpu.max": "150000 100000", "memory.max": str(64 * MIB), "memory.current": str(16 * MIB)}
    found = machine(written(four, {f"{group}/{name}": value for name, value in limits.items()}))

    assert (found.threads, found.memory, found.available) == (1, 64 * MIB, 48 * MIB)
    free = machine(written(four, {f"{group}/cpu.max": "max 100000", f"{group}/memory.max": "max"}))
    assert free.threads == 3
    assert free.memory > 64 * MIB


def test_a_system_that_says_nothing(tmp_path: Path):
    """No caches are guessed, and there is always a name."""
    found = machine(tmp_path)

    assert found.caches == ()
    assert found.last_level == 0
    assert found.name
    assert found.threads >= 1


def test_macos_is_asked_by_sysctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Six cores that share an L2 of 16 MiB by sixes: one, and a name of its own."""
    said = {
        "machdep.cpu.brand_string": "Apple M9",
        "hw.perflevel0.l1dcachesize": "131072",
        "hw.perflevel0.l2cachesize": "16777216",
        "hw.perflevel0.cpusperl2": "6",
    }
    monkeypatch.setattr(module, "_sysctl", lambda key: said.get(key, ""))
    for each in (module, processors):
        monkeypatch.setattr(each, "allowed", lambda: frozenset(range(6)))
    found = machine(tmp_path)

    assert found.name == "Apple M9"
    assert found.caches == (Cache(1, 128 * KIB, 6), Cache(2, 16 * MIB, 1))


def test_sysctl_is_macos_alone(monkeypatch: pytest.MonkeyPatch):
    """Elsewhere nothing is started."""
    monkeypatch.setattr(module.platform, "system", lambda: "Plan 9")
    assert module._sysctl("hw.anything") == ""


def test_a_busy_machine():
    """A tenth of the processors is busy; what the hypervisor takes counts too."""
    assert not Load(0.05, 0.04, 2).busy
    assert Load(0.11, 0.0, 2).busy
    assert Load(0.05, 0.06, 2).busy
    assert Load(0.5, 0.0, 2).text == "other programs took 50 % of 2 processors meanwhile"
    assert Load(0.5, 0.25, 4).text.endswith("the hypervisor 25 %")


def test_own_time_is_not_others(monkeypatch: pytest.MonkeyPatch):
    """Of two processors in ten seconds: 8 s used, 3 of them by this program, 2 s stolen."""
    spent = iter([(0.0, 100.0, 5.0, 1.0), (10.0, 108.0, 7.0, 4.0)])
    monkeypatch.setattr(module, "_spent", lambda: next(spent))
    monkeypatch.setattr("psutil.cpu_count", lambda: 2)
    load = Watch().load()

    assert load == Load(0.25, 0.1, 2)


def test_watching_for_real():
    """Shares lie between 0 and 1."""
    load = Watch().load()

    assert 0 <= load.others <= 1
    assert 0 <= load.stolen <= 1


def test_clock():
    """Unknown where it cannot be read."""
    assert hertz(None) == "unknown"
    assert hertz(2.1e9) == "2.10 GHz"
    assert module.clock_rate() is None or module.clock_rate() > 0
