"""Rows told apart by tables are those that sorting tells apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.trace import coding

COLUMNS = st.integers(1, 40).flatmap(
    lambda n: st.lists(st.lists(st.integers(-1, 9), min_size=n, max_size=n), min_size=1, max_size=4)
)


@settings(deadline=None)
@given(COLUMNS)
@pytest.mark.parametrize("least", [0, 1 << 16])
def test_distinct_rows(least, columns):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coding, "_LEAST", least)
        patch.setattr(coding, "_DENSE", 1)
        table, which = coding.distinct(*(np.array(each) for each in columns))
    rows = list(zip(*columns, strict=True))

    assert [tuple(each) for each in table.T.tolist()] == sorted(set(rows))
    assert [tuple(table[:, at].tolist()) for at in which.tolist()] == rows


@settings(deadline=None)
@given(st.lists(st.integers(-5, 200_000)))
def test_counted(values):
    numbers, counts = coding.counted(np.array(values, np.int64))

    assert dict(zip(numbers.tolist(), counts.tolist(), strict=True)) == {each: values.count(each) for each in values}


def test_sums_are_exact():
    large = (1 << 53) + 1

    assert coding.summed(np.array([0, 1, 0]), 3, np.array([large, 5, large])).tolist() == [2 * large, 5, 0]
