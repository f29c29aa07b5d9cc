"""What is timed on a PyTorch device: memory by size, GEMM by format, skinny GEMM, attention, launches, copies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from roofline import collectives, ops
from roofline.cost import Work
from roofline.errors import one_line
from roofline.measurement.clock import Step, Timer, host_timer
from roofline.measurement.probes import Probe, Supply, Unsupported
from roofline.measurement.walks import COPY, PATTERNS, READ, WRITE, Layout, Pattern, sizes
from roofline.units import KIB, MIB

_ITEM = 4
_REPLAYED = 64  # kernels of a captured graph
_REFUSALS = (RuntimeError, NotImplementedError, TypeError, AttributeError, ValueError, MemoryError)
_LONGEST_REASON = 100


@dataclass
class Bench:
    """A device of PyTorch and the memory that is walked on it; `torch` is the module, which has no types here."""

    torch: Any
    device: Any
    size: int
    threads: int = 0
    ranks: int = 1
    _memory: Any = field(default=None, repr=False)

    @property
    def kind(self) -> str:
        """cpu, cuda, mps, xpu."""
        return self.device.type

    @property
    def host(self) -> bool:
        """Whether it is the processor, which is done when a call returns."""
        return self.kind == "cpu"

    @property
    def counts(self) -> tuple[int, ...]:
        """Threads to measure with, all of them first: on a busy processor one alone may be faster."""
        return tuple(sorted({1, self.threads}, reverse=True)) if self.host else (0,)

    def using(self, threads: int, prepare: Callable[[], Step]) -> Callable[[], Step]:
        """The same preparation, with that many threads of the library from then on."""

        def prepared() -> Step:
            if threads:
                self.torch.set_num_threads(threads)
            return prepare()

        return prepared

    @property
    def layout(self) -> Layout:
        """How a walk is cut: a call takes milliseconds on a processor, far longer than a launch elsewhere."""
        return Layout(_ITEM, 48 * MIB if self.host else 512 * MIB)

    @property
    def memory(self) -> Any:
        """All of it, touched; raises Unsupported where there is not so much."""
        if self._memory is None:
            self._memory = self.made(self.size // _ITEM)
        return self._memory

    def made(self, *shape: int, dtype: str = "float32") -> Any:
        """A tensor of ones on the device; raises Unsupported."""
        kind = getattr(self.torch, dtype, None)
        if kind is None:
            raise Unsupported(f"this PyTorch has no {dtype}")
        return supported(lambda: self.torch.ones(shape, device=self.device).to(kind))


def supported(act: Callable[[], Any]) -> Any:
    """What `act` gives; raises Unsupported with the library's reason where it refuses."""
    try:
        return act()
    except _REFUSALS as error:
        raise Unsupported(one_line(error, _LONGEST_REASON)) from None


def _repeated(call: Callable[[], Any]) -> Step:
    """A step that repeats one call, once tried."""
    supported(call)

    def step(count: int) -> None:
        for _ in range(count):
            call()

    return step


def _rotating(calls: Sequence[Callable[[], Any]]) -> Step:
    """A step whose calls go round, each on other memory."""
    supported(calls[0])
    at = 0

    def step(count: int) -> None:
        nonlocal at
        for index in range(at, at + count):
            calls[index % len(calls)]()
        at = (at + count) % len(calls)

    return step


def _walk(pattern: Pattern, bench: Bench, working_set: int) -> Step:
    torch = bench.torch
    calls = bench.layout.calls(bench.memory, working_set, pattern.streams)
    return _rotating([_call(pattern, torch, arrays) for (arrays,) in calls])


def _call(pattern: Pattern, torch: Any, arrays: tuple[Any, ...]) -> Callable[[], Any]:
    """One call of the pattern; what is written comes first."""
    out, rest = arrays[0], arrays[1:]
    if pattern is READ:
        return partial(torch.sum, out)
    if pattern is WRITE:
        return partial(out.fill_, 1.0)
    if pattern is COPY:
        return partial(out.copy_, *rest)
    return partial(torch.add, *rest, alpha=0.5, out=out)


def _walked(
    pattern: Pattern, bench: Bench, size: int, threads: int, weight: float = 1.0, optional: bool = False
) -> Probe:
    return Probe(
        f"memory.{pattern.name}",
        "bandwidth",
        pattern.work(bench.layout.elements(size, pattern.streams), _ITEM),
        bench.using(threads, partial(_walk, pattern, bench, size)),
        rate="fp32",
        threads=threads,
        working_set=size,
        weight=weight,
        optional=optional,
    )


def _main_memory(bench: Bench) -> Iterator[Probe]:
    for threads in bench.counts:
        for pattern in PATTERNS if threads == bench.threads else (COPY, READ):
            yield _walked(pattern, bench, bench.size, threads, weight=8.0)


def _by_size(bench: Bench, quick: bool) -> Iterator[Probe]:
    """The sizes below, where the caches show."""
    for threads in bench.counts:
        smallest = 256 * KIB * threads if bench.host else 4 * MIB
        for size in sizes(smallest, bench.size, 4 if quick else 2):
            for pattern in (COPY, READ) if quick else PATTERNS:
                yield _walked(pattern, bench, size, threads, optional=True)


@dataclass(frozen=True, slots=True)
class Format:
    """A number format of GEMMs: PyTorch's name, the rate that it runs at, the format as the operations know it."""

    dtype: str
    rate: str
    stored: str


def formats(bench: Bench) -> tuple[Format, ...]:
    """What to multiply in; FP32 runs on a processor's own units, and on an accelerator's vector units."""
    plain = Format("float32", "fp32" if bench.host else "fp32-vector", "fp32")
    half = (Format("bfloat16", "bf16", "bf16"), Format("float16", "fp16", "fp16"))
    tf32 = (Format("float32", "tf32", "fp32"),) if bench.kind == "cuda" else ()
    rest = (Format("float8_e4m3fn", "fp8", "fp8"), Format("int8", "int8", "int8"), Format("float64", "fp64", "fp64"))
    return (plain, *half, *rest, *tf32)


def _gemm(bench: Bench, kind: Format, sides: tuple[int, int, int]) -> Step:
    """A product of that shape, as a serving engine would call it."""
    torch = bench.torch
    m, n, k = sides
    a, b = bench.made(m, k, dtype=kind.dtype), bench.made(n, k, dtype=kind.dtype).t()
    if kind.rate == "fp8":
        one = torch.ones((), device=bench.device)
        return _repeated(lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16))
    if kind.rate == "int8":
        return _repeated(lambda: torch._int_mm(a, b))
    return _precise(bench, _repeated(lambda: torch.mm(a, b)), tf32=kind.rate == "tf32")


def _precise(bench: Bench, step: Step, tf32: bool) -> Step:
    """The step with TF32 on or off while it runs, where the device has it."""
    if bench.kind != "cuda":
        return step
    settings = bench.torch.backends.cuda.matmul

    def exact(count: int) -> None:
        before = settings.allow_tf32
        settings.allow_tf32 = tf32
        try:
            step(count)
        finally:
            settings.allow_tf32 = before

    return exact


# The smallest tells whether the next is worth the wait: formats that a processor lacks are emulated.
_HOST_SHAPES = tuple((n, n, n) for n in (1 << power for power in (6, 8, 9, 10, 11, 12)))
_MAIN = 2  # formats that models are run in, which get most of the time
_SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192), (4096, 14336, 4096), (16384, 16384, 8192))


def _gemms(bench: Bench, quick: bool) -> Iterator[Probe]:
    shapes = _HOST_SHAPES[: 5 if quick else 6] if bench.host else _SHAPES[: 2 if quick else 4]
    for index, kind in enumerate(formats(bench)):
        for shape in shapes:
            first = shape == shapes[0]
            weight = 4.0 if not bench.host else 0.25 if first else 2.0 if index < _MAIN else 0.5
            for threads in bench.counts[-1:] if first else bench.counts:
                yield _multiplied(bench, kind, shape, threads, weight, optional=not first)


def _multiplied(
    bench: Bench, kind: Format, shape: tuple[int, int, int], threads: int, weight: float, optional: bool
) -> Probe:
    m, n, k = shape
    return Probe(
        f"gemm.{kind.rate}",
        "peak",
        ops.linear(m=m, n=n, k=k, weights=kind.stored, activations=kind.stored, compute=kind.rate),
        bench.using(threads, partial(_gemm, bench, kind, shape)),
        rate=kind.rate,
        threads=threads,
        weight=weight,
        optional=optional,
    )


def usual(bench: Bench) -> Format:
    """The format that models are run in here."""
    return formats(bench)[0 if bench.host else 1]


_SIDE = 4096


def _skinny(bench: Bench, kind: Format, m: int) -> Step:
    """m rows through one weight matrix after another: a decode step, whose time is that of the weights' bytes."""
    torch = bench.torch
    x, elements = bench.made(m, _SIDE, dtype=kind.dtype), _SIDE * _SIDE
    weights = bench.memory.view(getattr(torch, kind.dtype))
    each = [weights[at : at + elements].view(_SIDE, _SIDE) for at in range(0, len(weights) - elements + 1, elements)]
    if not each:
        raise Unsupported("too little memory for one weight matrix")
    return _rotating([partial(torch.nn.functional.linear, x, weight) for weight in each])


def _skinnies(bench: Bench, quick: bool) -> Iterator[Probe]:
    kind = usual(bench)
    for m in (1,) if quick else (1, 8, 64):
        for threads in bench.counts:
            yield Probe(
                f"skinny.{kind.rate}",
                "bandwidth",
                ops.linear(m=m, n=_SIDE, k=_SIDE, weights=kind.stored, activations=kind.stored, compute=kind.rate),
                bench.using(threads, partial(_skinny, bench, kind, m)),
                rate=kind.rate,
                threads=threads,
                working_set=bench.size,
                weight=6.0,
            )


def _attention(bench: Bench, kind: Format, dims: dict[str, int], causal: bool) -> Step:
    torch = bench.torch
    b, d, seen = dims["sequences"], dims["head_dim"], dims["context"] if not causal else dims["new"]
    q = bench.made(b, dims["heads"], dims["new"], d, dtype=kind.dtype)
    k, v = (bench.made(b, dims["kv_heads"], seen, d, dtype=kind.dtype) for _ in range(2))
    attend = torch.nn.functional.scaled_dot_product_attention
    grouped = {"enable_gqa": True} if dims["heads"] != dims["kv_heads"] else {}
    return _repeated(lambda: attend(q, k, v, is_causal=causal, **grouped))


def _attentions(bench: Bench, quick: bool) -> Iterator[Probe]:
    """A prefill from nothing, and a decode step on a cache that no other cache holds."""
    kind = usual(bench)
    long = 512 if quick and bench.host else 2048 if bench.host else 8192
    prefill = {"sequences": 1, "new": long, "context": 0, "heads": 8 if bench.host else 32}
    decode = {"sequences": 1 if bench.host else 16, "new": 1, "context": 4 * long, "heads": 8 if bench.host else 32}
    cases: tuple[tuple[str, dict[str, int], Supply], ...] = (
        ("prefill", prefill, "peak"),
        ("decode", decode, "bandwidth"),
    )
    for name, dims, supply in cases:
        whole: dict[str, Any] = {**dims, "kv_heads": 8, "head_dim": 128}
        yield Probe(
            f"attention.{name}",
            supply,
            ops.attention(**whole, kv=kind.stored, activations=kind.stored, compute=kind.rate),
            bench.using(bench.threads, partial(_attention, bench, kind, whole, name == "prefill")),
            rate=kind.rate,
            threads=bench.threads,
            weight=4.0,
            optional=True,
        )


def _launches(bench: Bench) -> Iterator[Probe]:
    """The time of a kernel that does nothing: launched one by one, and replayed from a graph."""
    tiny = ops.elementwise(n=1, reads=1, writes=1, activations="fp32")
    yield Probe("launch.eager", "latency", tiny, partial(_eager, bench), threads=bench.threads, weight=2.0)
    if bench.kind == "cuda":
        cost = tiny.cost * _REPLAYED
        yield Probe("launch.graph", "latency", Work(tiny.op, tiny.dims, cost), partial(_graph, bench), weight=2.0)


def _eager(bench: Bench) -> Step:
    one = bench.made(1)
    return _repeated(lambda: one.add_(1.0))


def _graph(bench: Bench) -> Step:
    torch, one = bench.torch, bench.made(1)
    one.add_(1.0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_REPLAYED):
            one.add_(1.0)
    return _repeated(graph.replay)


def _host_copies(bench: Bench) -> Iterator[Probe]:
    """To the device and back, from memory that the system keeps in place."""
    size = 256 * MIB
    for name in () if bench.host else ("to device", "from device"):
        yield Probe(f"host copy.{name}", "link", collectives.send(size), partial(_host_copy, bench, name), weight=3.0)


def _host_copy(bench: Bench, name: str) -> Step:
    n = 256 * MIB // _ITEM
    here, there = supported(lambda: bench.torch.ones(n).pin_memory()), bench.made(n)
    out, source = (there, here) if name == "to device" else (here, there)
    return _repeated(lambda: out.copy_(source, non_blocking=True))


def _all_reduces(bench: Bench, timer: Timer) -> Iterator[Probe]:
    """Sums over all ranks that were launched together; each takes the same number of samples."""
    if bench.ranks == 1:
        return
    distributed = bench.torch.distributed
    for size in (64 * KIB, 4 * MIB, 64 * MIB):
        yield Probe(
            "all-reduce",
            "link",
            collectives.all_reduce(size, bench.ranks),
            partial(_all_reduce, bench, size),
            rate=distributed.get_backend(),
            working_set=size,
            timer=host_timer if bench.host else timer,
            exactly=20,
        )


def _all_reduce(bench: Bench, size: int) -> Step:
    x = bench.made(size // _ITEM)
    return _repeated(lambda: bench.torch.distributed.all_reduce(x))


def probes(bench: Bench, quick: bool, timer: Timer) -> list[Probe]:
    """Everything to time, what matters most first."""
    first = (_all_reduces(bench, timer), _main_memory(bench), _skinnies(bench, quick), _gemms(bench, quick))
    rest = (_launches(bench), _attentions(bench, quick), _host_copies(bench), _by_size(bench, quick))
    return [each for group in (*first, *rest) for each in group]


def rotations(size: int, largest_cache: int, free: int) -> int:
    """Memory to walk [byte]: at least `size` and four times the largest cache, if a quarter of what is free allows."""
    wanted = max(size, 4 * largest_cache)
    return max(4 * MIB, min(wanted, math.floor(free / 4)))
