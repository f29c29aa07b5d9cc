"""Sets of intervals: what covers what, to the nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from roofline.trace import timeline as tl

SPAN = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda each: (each[0], each[0] + each[1]))
SETS = st.lists(SPAN, max_size=12)


def arrays(spans):
    return np.array([a for a, _ in spans], np.int64), np.array([b for _, b in spans], np.int64)


def ticks(spans):
    return {t for a, b in zip(*spans, strict=True) for t in range(a, b)}


@given(SETS)
def test_union_covers_what_any_covers_once(spans):
    flat = tl.union(*arrays(spans))

    assert ticks(flat) == {t for a, b in spans for t in range(a, b)}
    assert tl.total(flat) == len(ticks(flat))
    assert (flat[0][1:] > flat[1][:-1]).all()


@given(SETS, SETS)
def test_sets_combine_as_sets_do(a, b):
    one, two = tl.union(*arrays(a)), tl.union(*arrays(b))

    assert ticks(tl.intersect(one, two)) == ticks(one) & ticks(two)
    assert ticks(tl.subtract(one, two)) == ticks(one) - ticks(two)
    assert ticks(tl.join(one, two)) == ticks(one) | ticks(two)


@given(SETS, st.integers(0, 40), st.integers(0, 40))
def test_gaps_are_the_rest_of_a_window(spans, start, length):
    flat = tl.union(*arrays(spans))

    assert ticks(tl.gaps(flat, start, start + length)) == set(range(start, start + length)) - ticks(flat)


@given(SETS, SETS)
def test_covered_and_inside(spans, others):
    flat = tl.union(*arrays(spans))
    starts, ends = arrays(others)

    assert tl.covered(flat, starts, ends).tolist() == [len(ticks(flat) & set(range(a, b))) for a, b in others]
    assert tl.inside(flat, starts).tolist() == [a in ticks(flat) for a, _ in others]


@given(SETS, st.lists(st.integers(0, 70), max_size=8))
def test_parents_and_innermost_are_the_nearest_that_enclose(spans, times):
    spans = sorted(spans, key=lambda each: (each[0], -each[1]))
    starts, ends = arrays(spans)
    up = tl.parents(starts, ends)

    for i, (start, end) in enumerate(spans):
        around = [j for j in range(i) if spans[j][0] <= start and spans[j][1] >= end]
        assert up[i] == (max(around) if around else -1)
    found = tl.innermost(starts, ends, up, np.array(times, np.int64))
    for time, index in zip(times, found.tolist(), strict=True):
        around = [j for j, (start, end) in enumerate(spans) if start <= time <= end]
        if index >= 0:
            assert index in around
        nested = [j for j in around if all(spans[k][1] >= spans[j][1] for k in around if k < j)]
        assert bool(nested) == (index >= 0) or not around


@given(st.lists(st.tuples(SPAN, st.integers(0, 2), st.integers(0, 1)), max_size=12))
def test_the_outermost_are_those_that_none_of_their_group_encloses(rows):
    """Of equal ones the first."""
    spans, *groups = zip(*rows, strict=True) if rows else ((), (), ())
    found = tl.outermost(*arrays(spans), *(np.array(each, np.int64) for each in groups)).tolist()

    def encloses(i, j):
        (a, b), (c, d) = spans[i], spans[j]
        return all(each[i] == each[j] for each in groups) and a <= c and d <= b and ((a, b) != (c, d) or i < j)

    assert found == [j for j in range(len(rows)) if not any(encloses(i, j) for i in range(len(rows)) if i != j)]
