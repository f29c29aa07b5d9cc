"""Walks: what a call touches, and that it is counted right."""

from __future__ import annotations

import numpy as np
import pytest

from roofline.measurement.walks import COPY, PATTERNS, READ, TRIAD, WRITE, Layout, sizes
from roofline.units import KIB, MIB


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda each: each.name)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("working_set", [256 * KIB, 3 * MIB, 4 * MIB])
def test_calls_share_nothing_and_cover_the_working_set(pattern, threads: int, working_set: int):
    """Streams, threads and calls each have elements of their own, nearly all of the working set together."""
    layout = Layout(8, MIB, threads)
    memory = np.zeros(working_set // 8)
    calls = layout.calls(memory, working_set, pattern.streams)
    for call in calls:
        for thread in call:
            for array in thread:
                np.add(array, 1, out=array)

    assert memory.max() == 1
    assert memory.mean() > 0.95
    assert len(calls) == max(1, working_set // MIB)
    assert all(len(array) == layout.elements(working_set, pattern.streams) for c in calls for t in c for array in t)


def test_streams_do_not_lie_a_page_apart():
    """Where loads and stores have the same low bits of their addresses a processor takes them for the same."""
    memory = np.zeros(4 * MIB // 8)
    (out, b, c), *_ = Layout(8, 4 * MIB).calls(memory, 4 * MIB, 3)[0]
    starts = [array.__array_interface__["data"][0] for array in (out, b, c)]

    assert all((starts[i] - starts[i - 1]) % 4096 not in range(64) for i in (1, 2))


def test_demands():
    """Of 100 elements of 8 bytes: a copy moves 1,600 bytes, a triad 2,400 with 200 FLOP, a read or a write 800."""
    assert [each.work(100, 8).bytes for each in (COPY, READ, TRIAD, WRITE)] == [1600, 800, 2400, 800]
    assert TRIAD.work(100, 4).flops == 200
    assert COPY.work(100, 4).flops == READ.work(100, 4).flops == 0


def test_sizes():
    """Each so many times the one before, and none within a factor of two of the largest."""
    assert list(sizes(1, 100, 4)) == [1, 4, 16]
    assert list(sizes(8, 64, 2)) == [8, 16, 32]
    assert list(sizes(8, 15, 2)) == []


def test_whole_blocks():
    """Nothing is left over at the end; less than a block is one."""
    assert Layout(8, 10).whole(35) == 30
    assert Layout(8, 10).whole(7) == 7
