"""How a probe is timed."""

from __future__ import annotations

import pytest

from roofline.measurement.clock import FEWEST, Samples, host_timer, sample, sample_exactly


class Machine:
    """A clock that only what runs on it moves: `start` seconds for any sample, `each` for a call."""

    def __init__(self, each: float, start: float = 0.0) -> None:
        self.now = 0.0
        self.each, self.start = each, start
        self.calls: list[int] = []

    def step(self, calls: int) -> None:
        self.calls.append(calls)
        self.now += self.start + calls * self.each

    def timer(self, step, calls: int) -> float:
        before = self.now
        step(calls)
        return self.now - before

    def clock(self) -> float:
        return self.now


def test_figures_of_samples():
    """Best, median, and how far a run at the upper quartile falls short of the best: 1 - 1/1.25."""
    found = Samples((1.0, 1.25, 1.0, 1.25, 1.25))

    assert (found.best, found.median) == (1.0, 1.25)
    assert found.spread == pytest.approx(0.2)
    assert Samples((2.0,)).spread == 0.0


def test_a_short_kernel_is_repeated_within_a_sample():
    """A kernel of a microsecond is called until a sample is thousands of times the clock's resolution."""
    machine = Machine(each=1e-6)
    found = sample(machine.step, machine.timer, 0.5, machine.clock)

    assert found.best == pytest.approx(1e-6)
    assert machine.calls[0] == 1
    assert machine.calls[-1] * 1e-6 >= 0.004
    assert max(machine.calls) * 1e-6 <= 0.04


def test_start_up_does_not_inflate_a_short_kernel():
    """A start of 50 us a sample adds little to each of its calls."""
    machine = Machine(each=1e-6, start=50e-6)
    found = sample(machine.step, machine.timer, 0.2, machine.clock)

    assert found.best == pytest.approx(1e-6, rel=0.05)


def test_a_long_kernel_is_called_once_a_sample():
    """A kernel that takes long gets few samples, and three even where there is no time."""
    machine = Machine(each=1.0)
    found = sample(machine.step, machine.timer, 0.1, machine.clock)

    assert set(machine.calls) == {1}
    assert len(found.seconds) == 3


def test_the_budget_is_kept():
    """Samples are taken until the time is up, five at the least."""
    machine = Machine(each=0.01)
    found = sample(machine.step, machine.timer, 1.0, machine.clock)

    assert 90 <= len(found.seconds) <= 100
    assert machine.now == pytest.approx(1.0, abs=0.05)
    machine = Machine(each=0.01)
    assert len(sample(machine.step, machine.timer, 0.04, machine.clock).seconds) == FEWEST


def test_exactly_so_many_samples():
    """Ranks that wait for each other all call the same number of times: two to warm up, then these."""
    machine = Machine(each=0.1)

    assert len(sample_exactly(machine.step, machine.timer, 7).seconds) == 7
    assert machine.calls == [1] * 9


def test_host_timer():
    """Seconds of the step, which is called once with the count."""
    calls: list[int] = []

    assert host_timer(calls.append, 3) >= 0
    assert calls == [3]
