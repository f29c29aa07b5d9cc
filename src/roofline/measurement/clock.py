"""How a probe is timed: warmed up, repeated, and summed up with how far its runs scatter."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

Step = Callable[[int], None]  # runs its kernel that many times, and returns when all is done or queued
Timer = Callable[[Step, int], float]  # seconds of that many runs
Clock = Callable[[], float]

_SHORTEST = 0.004  # [s] of a sample: hundreds of times what starting threads and reading a clock take
_MOST_CALLS = 1 << 20
FEWEST = 5
_LEAST = 3  # where they take much longer than there is time
_MOST = 500


@dataclass(frozen=True, slots=True)
class Samples:
    """Repeated timings of one kernel: the seconds of one call, by sample.

    Noise on a machine only ever adds time, so the fastest sample is the ceiling, as in STREAM. `median` is
    what a run gets, and `spread` how far the runs scatter: the share by which the rate of a run at the upper
    quartile of the times falls short of the ceiling.
    """

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The fastest [s]."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The middle one [s]."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """1 - best / upper quartile: 0 where all are alike, up to 1."""
        if len(self.seconds) == 1:
            return 0.0
        return 1 - self.best / statistics.quantiles(self.seconds, n=4, method="inclusive")[2]


def host_timer(step: Step, calls: int) -> float:
    """Seconds on the host's clock: for what is done when it returns."""
    start = perf_counter()
    step(calls)
    return perf_counter() - start


def sample_exactly(step: Step, timer: Timer, count: int) -> Samples:
    """Time a step that many times, after two to warm up: where several programs must do the same."""
    for _ in range(2):
        timer(step, 1)
    return Samples(tuple(timer(step, 1) for _ in range(count)))


def sample(step: Step, timer: Timer, budget: float, clock: Clock = perf_counter) -> Samples:
    """Time a step for about `budget` seconds.

    One call to warm up, then as many calls a sample as make it long enough to time. Takes FEWEST samples at
    the least, three where these alone take twice the budget.
    """
    start = clock()
    timer(step, 1)
    calls = 1
    taken = timer(step, calls)
    while taken < _SHORTEST and calls < _MOST_CALLS:
        # A short time is mostly start-up: no more than eightfold at once, so that no sample gets long.
        calls = min(_MOST_CALLS, 8 * calls, math.ceil(1.2 * calls * _SHORTEST / max(taken, _SHORTEST / 64)))
        taken = timer(step, calls)
    found = [taken / calls]
    while len(found) < _MOST:
        spent = clock() - start
        if spent > (2 * budget if len(found) < FEWEST else budget) and len(found) >= _LEAST:
            break
        found.append(timer(step, calls) / calls)
    return Samples(tuple(found))
