"""The host that is measured: its processors and caches as the system reports them, and how busy it is."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from roofline.processors import allowed, at_once
from roofline.units import KIB, KILO, MEGA, MIB, gib, percent, si

_SYSTEM = Path("/")
_CPUS = "sys/devices/system/cpu"
_GROUP = "sys/fs/cgroup"


@dataclass(frozen=True, slots=True)
class Cache:
    """All caches of a level that the processors allowed here can use: `size` of one [byte], and how many."""

    level: int
    size: int
    count: int

    @property
    def total(self) -> int:
        """Together [byte]."""
        return self.size * self.count

    @property
    def text(self) -> str:
        """As `L2 2 x 2 MiB`."""
        return f"L{self.level} {self.count} x {gib(self.size)}"


@dataclass(frozen=True, slots=True)
class Machine:
    """One host: its processor's name, the threads that may run here, their caches, its memory [byte]."""

    name: str
    threads: int
    caches: tuple[Cache, ...]
    memory: int
    available: int

    @property
    def last_level(self) -> int:
        """The largest cache [byte]; 0 where the system reports none."""
        return max((each.total for each in self.caches), default=0)


def machine(root: Path = _SYSTEM) -> Machine:
    """What the system says of this host; `root` is where its files are."""
    import psutil

    cpus = allowed()
    limit = _number(root / _GROUP / "memory.max")
    memory = psutil.virtual_memory()
    total, available = memory.total, memory.available
    if limit:  # a container's share
        total = min(total, limit)
        available = min(available, max(0, limit - (_number(root / _GROUP / "memory.current") or 0)))
    caches = tuple(_caches(root, cpus)) or tuple(_sysctl_caches(len(cpus)))
    return Machine(_name(root), at_once(root), caches, total, available)


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def _name(root: Path) -> str:
    """The processor's name, as the system prints it."""
    with suppress(OSError):
        for line in (root / "proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Hardware", "cpu model") and value.strip():
                return " ".join(value.split())
    return _sysctl("machdep.cpu.brand_string") or platform.processor() or platform.machine() or "unknown processor"


def _caches(root: Path, cpus: frozenset[int]) -> Iterator[Cache]:
    """The data caches of these processors, each counted once, as Linux lists them."""
    found: dict[tuple[int, str], int] = {}
    for cpu in sorted(cpus):
        for index in sorted((root / _CPUS / f"cpu{cpu}" / "cache").glob("index*")):
            with suppress(OSError, ValueError):
                if (index / "type").read_text().strip() != "Instruction":
                    level, shared = int((index / "level").read_text()), (index / "shared_cpu_list").read_text().strip()
                    found[level, shared] = _size((index / "size").read_text())
    for level in sorted({level for level, _ in found}):
        sizes = [size for (each, _), size in found.items() if each == level]
        yield Cache(level, min(sizes), len(sizes))


def _size(text: str) -> int:
    """`2048K` in bytes."""
    text = text.strip()
    return int(text.rstrip("KMG")) * {"K": KIB, "M": MIB, "G": KIB * MIB}.get(text[-1:], 1)


def _sysctl_caches(cpus: int) -> Iterator[Cache]:
    """The same of macOS, whose L2 is shared by the cores of a cluster."""
    for level, key in ((1, "hw.perflevel0.l1dcachesize"), (2, "hw.perflevel0.l2cachesize")):
        size = _sysctl(key)
        if size.isdecimal() and int(size):
            sharing = _sysctl("hw.perflevel0.cpusperl2") if level > 1 else "1"
            yield Cache(level, int(size), max(1, cpus // int(sharing or 1)))


def _sysctl(key: str) -> str:
    if platform.system() != "Darwin":
        return ""
    asked = subprocess.run(["/usr/sbin/sysctl", "-n", key], capture_output=True, text=True, check=False, timeout=10)
    return asked.stdout.strip()


def clock_rate() -> float | None:
    """The processors' present clock [Hz], None where it cannot be read."""
    import psutil

    with suppress(OSError, NotImplementedError):
        found = psutil.cpu_freq()
        if found is not None and found.current > 0:  # pyright: ignore[reportUnnecessaryComparison]
            return found.current * MEGA
    return None


BUSY = 0.1


@dataclass(frozen=True, slots=True)
class Load:
    """What else ran while something was measured: shares of the machine's processor time."""

    others: float
    stolen: float
    cpus: int

    @property
    def busy(self) -> bool:
        """Whether so much ran beside it that figures are low."""
        return self.others + self.stolen > BUSY

    @property
    def text(self) -> str:
        """In a sentence."""
        said = f"other programs took {percent(self.others)} of {self.cpus} processors meanwhile"
        return f"{said}, the hypervisor {percent(self.stolen)}" if self.stolen >= BUSY / 10 else said


class Watch:
    """Counts what other programs take of the processors, from its making on."""

    def __init__(self) -> None:
        self._start = _spent()

    def load(self) -> Load:
        """The load since the start."""
        import psutil

        wall, used, stolen, mine = (now - then for now, then in zip(_spent(), self._start, strict=True))
        cpus = psutil.cpu_count() or 1
        whole = max(wall, 1 / KILO) * cpus
        return Load(min(1.0, max(0.0, used - mine) / whole), min(1.0, max(0.0, stolen) / whole), cpus)


def _spent() -> tuple[float, float, float, float]:
    """Now, and processor time spent so far [s]: by all, by the hypervisor on others, by this program."""
    import psutil

    times, own = psutil.cpu_times(), os.times()
    used = sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
    return perf_counter(), used, getattr(times, "steal", 0.0), own.user + own.system + own.children_user


def hertz(value: float | None) -> str:
    """A clock as text."""
    return "unknown" if value is None else si(value, "Hz", 3)
