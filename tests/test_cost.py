"""Costs: they add, they multiply, they keep roles, and nothing is lost on the way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.cost import Cost, Work
from roofline.num import Expr

GEMM = Cost({"bf16": 96}, {"weights": 24, "activations": 28})
NORM = Cost({"fp32-vector": 48}, {"weights": 16, "activations": 64})
REDUCE = Cost({}, {"activations": 200}, {"nvlink": 175}, steps=14)
WHOLE = st.integers(0, 10**15)
COSTS = st.builds(
    Cost,
    st.dictionaries(st.sampled_from(["bf16", "fp8", "fp32-vector"]), WHOLE),
    st.dictionaries(st.sampled_from(["weights", "kv", "activations", "output"]), WHOLE),
    st.dictionaries(st.sampled_from(["nvlink", "pcie"]), WHOLE),
    WHOLE,
    WHOLE,
)


def test_nothing_costs_one_launch() -> None:
    """A cost without a figure is a launch and no more."""
    empty = Cost()
    assert (empty.total_flops, empty.bytes, empty.link_bytes, empty.steps, empty.launches) == (0, 0, 0, 0, 1)


def test_totals_sum_over_their_kinds() -> None:
    """96 FLOP at one rate, 24 + 28 byte in two roles."""
    assert GEMM.total_flops == 96
    assert GEMM.bytes == 52
    assert Cost({}, {}, {"nvlink": 3, "pcie": 4}).link_bytes == 7


def test_totals_of_ints_are_exact() -> None:
    """2^70 and 1 are 2^70 + 1, which no float holds."""
    cost = Cost({"bf16": 2**70, "fp8": 1})
    assert cost.total_flops == 2**70 + 1


def test_addition_sums_each_kind() -> None:
    """Roles that both have are summed, and others are kept beside them."""
    both = GEMM + NORM + REDUCE
    assert both.flops == {"bf16": 96, "fp32-vector": 48}
    assert both.memory == {"weights": 40, "activations": 292}
    assert both.links == {"nvlink": 175}
    assert (both.steps, both.launches) == (14, 3)


def test_addition_leaves_its_terms_alone() -> None:
    """A sum is a new cost."""
    before = dict(GEMM.memory)
    assert GEMM + NORM is not GEMM
    assert GEMM.memory == before


@given(COSTS, COSTS)
def test_addition_adds_every_total(a: Cost, b: Cost) -> None:
    """Nothing is lost or counted twice when two kernels become one."""
    both = a + b
    for total in ("total_flops", "bytes", "link_bytes", "steps", "launches"):
        assert getattr(both, total) == getattr(a, total) + getattr(b, total)


@given(COSTS, COSTS, COSTS)
def test_addition_is_commutative_and_associative(a: Cost, b: Cost, c: Cost) -> None:
    """The order of kernels does not change their sum."""
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)


def test_multiplication_counts_calls() -> None:
    """36 layers are 36 times everything, steps and launches too."""
    many = REDUCE * 36
    assert many.memory == {"activations": 7200}
    assert many.links == {"nvlink": 6300}
    assert (many.steps, many.launches) == (504, 36)
    assert (GEMM * 36).flops == {"bf16": 3456}


def test_the_number_of_calls_may_stand_first() -> None:
    """36 · cost is cost · 36."""
    assert 36 * GEMM == GEMM * 36


@given(COSTS, st.integers(1, 5))
def test_multiplication_is_repeated_addition(cost: Cost, times: int) -> None:
    """n calls are n costs added up."""
    total = cost
    for _ in range(times - 1):
        total = total + cost
    assert cost * times == total


def test_an_array_of_calls_multiplies_each_kind() -> None:
    """A sweep over calls gives arrays inside one cost."""
    many = GEMM * np.array([1.0, 2.0])
    assert many.flops["bf16"].tolist() == [96.0, 192.0]
    assert many.bytes.tolist() == [52.0, 104.0]


def test_an_array_of_calls_may_stand_first() -> None:
    """array · cost is cost · array: one cost with arrays in it, not an array of costs."""
    many = np.array([1.0, 2.0]) * GEMM
    assert isinstance(many, Cost)
    assert many.bytes.tolist() == [52.0, 104.0]


def test_keep_leaves_only_these_roles() -> None:
    """FLOPs, links, steps and launches stay; bytes of other roles go."""
    kept = (GEMM + REDUCE).keep("weights")
    assert kept.memory == {"weights": 24}
    assert kept.flops == {"bf16": 96}
    assert kept.links == {"nvlink": 175}
    assert (kept.steps, kept.launches) == (14, 2)


def test_keep_of_a_role_that_is_not_there_is_nothing() -> None:
    """A GEMM reads no cache."""
    assert GEMM.keep("kv").bytes == 0


def test_intensity_is_flops_over_bytes() -> None:
    """96 FLOP over 48 byte are 2 FLOP/byte."""
    assert Cost({"bf16": 96}, {"weights": 20, "activations": 28}).intensity == 2


def test_intensity_without_bytes_is_zero() -> None:
    """A cost that moves nothing has no place on the chart: 0, not an error."""
    assert Cost({"bf16": 96}).intensity == 0
    assert Cost({"bf16": 96}, {"weights": 0}).intensity == 0


def test_intensity_of_float_zero_bytes_is_zero() -> None:
    """0.0 byte are as few as 0 byte."""
    assert Cost({"bf16": 96.0}, {"weights": 0.0}).intensity == 0


def test_intensity_is_zero_where_an_array_has_no_bytes() -> None:
    """In a sweep that starts at nothing, only its first point has nothing."""
    cost = Cost({"bf16": np.array([0.0, 96.0])}, {"weights": np.array([0.0, 48.0])})
    assert cost.intensity.tolist() == [0.0, 2.0]


def test_intensity_of_a_trace_is_its_formula() -> None:
    """FLOPs over bytes, as text."""
    m = Expr.var("m")
    assert str(Cost({"bf16": 2 * m}, {"weights": m + 4}).intensity) == "2 * m / (m + 4)"


def test_work_has_the_totals_of_its_cost() -> None:
    """What an operation returns answers for its cost."""
    work = Work("linear", {"m": 2}, GEMM)
    assert (work.flops, work.bytes) == (96, 52)
    assert work.intensity == pytest.approx(96 / 52)


def test_work_keeps_its_name_and_dims() -> None:
    """Only bytes go."""
    kept = Work("linear", {"m": 2}, GEMM).keep("weights")
    assert (kept.op, kept.dims, kept.bytes, kept.flops) == ("linear", {"m": 2}, 24, 96)
