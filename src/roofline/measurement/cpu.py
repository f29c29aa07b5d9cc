"""The processor's own ceilings, with NumPy: memory by size, pattern and threads, and GEMM by format."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from roofline import ops
from roofline.measurement.clock import Step
from roofline.measurement.machine import Machine
from roofline.measurement.probes import Probe, Unsupported
from roofline.measurement.walks import COPY, PATTERNS, READ, WRITE, Layout, Pattern, sizes
from roofline.units import GIB, KIB, MIB

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Kernel = Callable[..., Any]

_ITEM = 8  # bytes of an element
_BLOCK = 48 * MIB  # of a call: milliseconds, short beside the time slices of a busy machine
_SMALLEST = 128 * KIB  # a thread: below it a call of NumPy takes as long as its data
_LEAST_DRAM = 256 * MIB
_UNKNOWN_DRAM = GIB  # where the system does not say what caches there are
_SIDES = tuple(1 << power for power in (9, 10, 11, 12))  # of square products
_TIMES_CACHE = 4  # as STREAM asks for


@dataclass
class Arena:
    """The memory that every pattern walks, taken when the first one does, and the threads that walk it."""

    size: int
    pool: ThreadPoolExecutor
    threads: int
    _memory: Floats | None = field(default=None, repr=False)

    @property
    def memory(self) -> Floats:
        """All of it, each page touched; raises Unsupported where there is not so much."""
        import numpy as np

        if self._memory is None:
            try:
                found = np.empty(self.size // _ITEM)
            except MemoryError:
                raise Unsupported(f"no {self.size:,} bytes of memory") from None
            share = -(-len(found) // self.threads)
            list(self.pool.map(_touch, [found] * self.threads, range(0, len(found), share), [share] * self.threads))
            self._memory = found
        return self._memory


def _touch(memory: Floats, start: int, n: int) -> None:
    memory[start : start + n] = 1.0


def dram_size(machine: Machine) -> int:
    """How much memory to walk so that no cache holds it [byte]: four times the largest cache, if there is so much."""
    wanted = max(_LEAST_DRAM, _TIMES_CACHE * machine.last_level) if machine.last_level else _UNKNOWN_DRAM
    return max(4 * MIB, min(wanted, machine.available // 3))


def _layout(threads: int) -> Layout:
    return Layout(_ITEM, _BLOCK, threads)


def _kernel(pattern: Pattern, threads: int) -> Kernel:
    """The pattern as NumPy does it, over arrays: what is written comes first."""
    import numpy as np

    if pattern is READ:
        return np.maximum.reduce
    if pattern is COPY:
        return np.copyto
    if pattern is WRITE:
        return partial(_fill, value=1.0)
    # A product that stays in the core's cache until it is added: the memory sees one pass over three arrays.
    # More threads take longer pieces, as they take turns to start them.
    return partial(_triad, piece=max(16, 4 * threads) * KIB)


def _fill(out: Floats, value: float) -> None:
    out[...] = value


def _triad(out: Floats, b: Floats, c: Floats, piece: int) -> None:
    import numpy as np

    for at in range(0, len(out), piece):
        part = slice(at, at + piece)
        np.multiply(c[part], 0.5, out=out[part])
        np.add(out[part], b[part], out=out[part])


def walk(pattern: Pattern, arena: Arena, working_set: int, threads: int) -> Step:
    """A step that walks the working set, a block a call."""
    kernel = _kernel(pattern, threads)
    calls = _layout(threads).calls(arena.memory, working_set, pattern.streams)
    at = 0

    def loop(thread: int, start: int, count: int) -> None:
        for call in range(start, start + count):
            kernel(*calls[call % len(calls)][thread])

    def step(count: int) -> None:
        nonlocal at
        start, at = at, (at + count) % len(calls)
        if threads == 1:
            loop(0, start, count)
        else:
            list(arena.pool.map(loop, range(threads), [start] * threads, [count] * threads))

    return step


def _main_memory(arena: Arena, counts: Sequence[int]) -> Iterator[Probe]:
    for threads in counts:
        for pattern in PATTERNS if threads == counts[-1] else (COPY, READ):
            yield _walked(pattern, arena, arena.size, threads, weight=8.0)


def _by_size(arena: Arena, counts: Sequence[int], quick: bool) -> Iterator[Probe]:
    """The sizes below, where the caches show."""
    for threads in reversed(counts):
        for size in sizes(_SMALLEST * threads, arena.size, 4 if quick else 2):
            for pattern in (COPY, READ) if quick else PATTERNS:
                yield _walked(pattern, arena, size, threads, optional=True)


def _walked(
    pattern: Pattern, arena: Arena, size: int, threads: int, weight: float = 1.0, optional: bool = False
) -> Probe:
    return Probe(
        f"memory.{pattern.name}",
        "bandwidth",
        pattern.work(_layout(threads).elements(size, pattern.streams) * threads, _ITEM),
        partial(walk, pattern, arena, size, threads),
        rate="fp64",
        threads=threads,
        working_set=size,
        weight=weight,
        optional=optional,
    )


def _gemm(n: int, dtype: str, threads: int) -> Step:
    """A square matrix product of NumPy's library, with that many threads of its."""
    import numpy as np

    kind = {"fp32": np.float32, "fp64": np.float64}[dtype]
    some = np.random.default_rng(0).standard_normal(4093)
    a, b = (np.resize(some[at:], (n, n)).astype(kind) for at in (0, 7))
    out = np.empty((n, n), kind)
    blas = _blas()

    def step(count: int) -> None:
        with blas.limit(limits=threads):
            for _ in range(count):
                np.matmul(a, b, out=out)

    return step


def _blas() -> Any:
    """The controller of the threads of NumPy's matrix library, which has no type stubs."""
    import numpy as np

    np.dot(np.ones((2, 2)), np.ones((2, 2)))  # loads the library
    return cast(Any, import_module("threadpoolctl")).ThreadpoolController().select(user_api="blas")


def blas_library() -> tuple[str, bool]:
    """Which library multiplies matrices, and whether its threads can be set."""
    found: list[dict[str, Any]] = _blas().info()
    if not found:
        return "a library that does not name itself", False
    first = found[0]
    kind = f" ({first['architecture']})" if first.get("architecture") else ""
    return f"{first['internal_api']} {first.get('version') or ''}{kind}".replace("  ", " "), True


def _gemm_probes(counts: Sequence[int], settable: bool, quick: bool) -> Iterator[Probe]:
    for threads in counts if settable else counts[-1:]:
        for dtype in ("fp32", "fp64"):
            for n in _SIDES[:3] if quick else _SIDES:
                yield Probe(
                    f"gemm.{dtype}",
                    "peak",
                    ops.linear(m=n, n=n, k=n, weights=dtype, activations=dtype, compute=dtype),
                    partial(_gemm, n, dtype, threads),
                    rate=dtype,
                    threads=threads,
                    working_set=3 * n * n * (_ITEM if dtype == "fp64" else _ITEM // 2),
                    weight=2.0 if n == 512 else 8.0,
                    optional=n > 512,
                )


@contextmanager
def probes(machine: Machine, quick: bool) -> Generator[list[Probe]]:
    """What to time on this machine; its memory and threads are given back at the end."""
    counts = sorted({1, machine.threads})
    with ThreadPoolExecutor(machine.threads) as pool:
        arena = Arena(_layout(1).whole(dram_size(machine)), pool, machine.threads)
        _, settable = blas_library()
        yield [
            *_main_memory(arena, counts),
            *_gemm_probes(counts, settable, quick),
            *_by_size(arena, counts, quick),
        ]
