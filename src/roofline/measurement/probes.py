"""What is measured: probes, each with the demand of one call, and the rows that running them gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Literal, cast

from roofline.cost import Work
from roofline.errors import RooflineError
from roofline.measurement.clock import FEWEST, Clock, Samples, Step, Timer, sample, sample_exactly
from roofline.units import gib

Supply = Literal["bandwidth", "peak", "link", "latency"]
Tell = Callable[[float, str], None]


class Unsupported(RooflineError):
    """What this machine or library cannot do; the message says why."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing to time.

    `work` is what one call demands, counted by the operations that predictions use; `supply` is what its time
    says of the machine. `rate` is the peak that it runs against, or the number format of what it moves.
    `working_set` [byte] is what its calls touch before they touch the same again. `prepare` takes the memory
    and gives the step, and raises Unsupported. `weight` is its share of the time; what is `optional` is left
    out when the time is up. `exactly` is the number of samples where several programs must take the same.
    """

    name: str
    supply: Supply
    work: Work
    prepare: Callable[[], Step]
    rate: str = ""
    threads: int = 0
    working_set: int = 0
    weight: float = 1.0
    optional: bool = False
    timer: Timer | None = None
    exactly: int = 0

    @property
    def unit(self) -> Literal["B/s", "FLOP/s", "s"]:
        """The unit of what its time says."""
        return "s" if self.supply == "latency" else "FLOP/s" if self.supply == "peak" else "B/s"

    @property
    def demand(self) -> float:
        """What one call takes of the supply: bytes, FLOPs, or launches."""
        cost = self.work.cost
        amounts = {
            "bandwidth": cost.bytes,
            "peak": cost.total_flops,
            "link": cost.link_bytes,
            "latency": cost.launches,
        }
        return cast(float, amounts[self.supply])


@dataclass(frozen=True, slots=True)
class Row:
    """A probe and its timings."""

    probe: Probe
    samples: Samples

    @property
    def value(self) -> float:
        """The ceiling: [byte/s] or [FLOP/s]; of a latency [s]."""
        return self._supply(self.samples.best)

    @property
    def median(self) -> float:
        """The same of the median run."""
        return self._supply(self.samples.median)

    def _supply(self, seconds: float) -> float:
        demand = self.probe.demand
        return seconds / demand if self.probe.supply == "latency" else demand / seconds


@dataclass(frozen=True, slots=True)
class Rows:
    """What was measured, and what was not and why."""

    rows: tuple[Row, ...]
    left_out: tuple[str, ...]


def run(probes: Sequence[Probe], timer: Timer, seconds: float, tell: Tell, clock: Clock = perf_counter) -> Rows:
    """Time every probe, together in about that many seconds.

    Each gets its share of the time that is left, so a slow machine takes fewer samples and not more time. What
    cannot be done, or would take too long, is left out and named.
    """
    ends, left = clock() + seconds, sum(probe.weight for probe in probes)
    whole = left
    rows: list[Row] = []
    out: list[str] = []
    for probe in probes:
        tell(1 - left / whole, label(probe))
        budget = (ends - clock()) * probe.weight / left
        left -= probe.weight
        why = _too_long(probe, rows, budget)
        if why:
            out.append(why)
            continue
        try:
            step = probe.prepare()
        except Unsupported as error:
            out.append(f"{label(probe)}: {error}")
            continue
        clocked = probe.timer or timer
        samples = (
            sample_exactly(step, clocked, probe.exactly) if probe.exactly else sample(step, clocked, budget, clock)
        )
        rows.append(Row(probe, samples))
        del step
    tell(1.0, "")
    return Rows(tuple(rows), tuple(out))


def _too_long(probe: Probe, rows: Sequence[Row], budget: float) -> str:
    """Why there is no time for a probe, or ""."""
    if not probe.optional:
        return ""
    if budget <= 0:
        return f"{label(probe)}: the time was up"
    alike = [row.value for row in rows if row.probe.name == probe.name]
    if not alike or probe.supply == "latency":
        return ""
    if FEWEST * probe.demand / max(alike) > 2 * budget:
        return f"{label(probe)}: it would take too long"
    return ""


def shape(probe: Probe) -> str:
    """The size of a probe in a few words: what it walks, a product's sizes, or its dims."""
    dims = probe.work.dims
    if probe.work.op in ("copy", "elementwise"):
        return gib(probe.working_set) if probe.working_set else ""
    if probe.work.op == "linear":
        m, n, k = (dims[each] for each in "mnk")
        return f"{m}³" if m == n == k else f"{m} x {n} x {k}"
    return ", ".join(f"{key} {value}" for key, value in dims.items())


_NAMES = {"memory": "{}", "gemm": "GEMM in {}"}


def label(probe: Probe) -> str:
    """A probe in words: `copy 1.17 GiB, 2 threads`, `GEMM in fp32, 1024³`."""
    kind, _, rest = probe.name.partition(".")
    name = _NAMES[kind].format(rest) if kind in _NAMES else probe.name.replace(".", ", ")
    size = shape(probe)
    joined = f"{name}{' ' if kind == 'memory' else ', '}{size}" if size else name
    return f"{joined}, {probe.threads} thread{'s' if probe.threads > 1 else ''}" if probe.threads else joined
