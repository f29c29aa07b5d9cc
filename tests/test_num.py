"""What formulas are fed: ints stay exact, arrays go element by element, a trace prints and evaluates to the same."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from roofline.num import Expr, ceil_div, exact_div, maximum, minimum, where

A, B, C = (Expr.var(name) for name in "abc")
CALLS = {"max": maximum, "min": minimum, "where": where, "ceil_div": ceil_div}


class Exact:
    """A rational number whose // and / are exact, so that only the order of a formula can change its value."""

    __slots__ = ("value",)

    def __init__(self, value: Fraction | int) -> None:
        self.value = Fraction(value)

    def __repr__(self) -> str:
        return str(self.value)

    def __neg__(self) -> Exact:
        return Exact(-self.value)


def _raw(value: Any) -> Any:
    return value.value if isinstance(value, Exact) else value


def _equip(name: str) -> None:
    apply = getattr(operator, name)
    setattr(Exact, f"__{name}__", lambda a, b: Exact(apply(a.value, _raw(b))))
    setattr(Exact, f"__r{name}__", lambda a, b: Exact(apply(_raw(b), a.value)))


def _compare(name: str) -> None:
    apply = getattr(operator, name)
    setattr(Exact, f"__{name}__", lambda a, b: apply(a.value, _raw(b)))


for _name in ("add", "sub", "mul", "truediv", "floordiv"):
    _equip(_name)
for _name in ("lt", "le", "gt", "ge", "eq"):
    _compare(_name)


def grow(tree: Any, values: dict[str, Any]) -> Any:
    """The number that a random tree of operations gives on these values: plain numbers or traced ones."""
    if isinstance(tree, str):
        return values[tree]
    if isinstance(tree, int):
        return tree
    name, *branches = tree
    grown = [grow(each, values) for each in branches]
    if name == "where":
        low, high, yes, no = grown
        return where(low < high, yes, no)
    if name in CALLS:
        return CALLS[name](*grown)
    return getattr(operator, name)(*grown)


def _branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    # One side of a division has a variable in it: two plain ints would make a float, whose rounding hides the rest.
    name = st.sampled_from("abc")
    variable = name | st.tuples(st.just("add"), name, inner)
    divided = st.sampled_from(["truediv", "floordiv"])
    return st.one_of(
        st.tuples(st.sampled_from(["add", "sub", "mul"]), inner, inner),
        st.tuples(divided, variable, inner),
        st.tuples(divided, inner, variable),
        st.tuples(st.sampled_from(["max", "min", "ceil_div"]), inner, inner),
        st.tuples(st.just("where"), inner, inner, inner, inner),
    )


TREES = st.recursive(st.sampled_from(["a", "b", "c", 0, 1, 2, 3, -2]), _branches, max_leaves=12)
NUMBERS = st.fractions(-8, 8, max_denominator=6)
SMALL = st.integers(-(10**6), 10**6)


# maximum, minimum, where


def test_maximum_of_ints_is_the_larger_int() -> None:
    """Beyond 2^53 no float could hold it: the larger int comes back as it is."""
    found = maximum(2**70, 2**70 + 1)
    assert found == 2**70 + 1
    assert type(found) is int


def test_minimum_of_ints_is_the_smaller_int() -> None:
    """Beyond 2^53 no float could hold it: the smaller int comes back as it is."""
    found = minimum(2**70 + 1, 2**70)
    assert found == 2**70
    assert type(found) is int


def test_maximum_and_minimum_of_floats() -> None:
    """Floats compare as Python's own max and min do."""
    assert maximum(0.25, -3.5) == 0.25
    assert minimum(0.25, -3.5) == -3.5


def test_maximum_of_an_array_and_an_int_is_element_by_element() -> None:
    """An int stands beside every element."""
    assert maximum(np.array([1.0, 5.0, 3.0]), 3).tolist() == [3.0, 5.0, 3.0]


def test_minimum_of_two_arrays_broadcasts() -> None:
    """A column and a row give a table."""
    found = minimum(np.array([[1.0], [4.0]]), np.array([2.0, 3.0]))
    assert found.tolist() == [[1.0, 1.0], [2.0, 3.0]]


@given(SMALL, SMALL)
def test_maximum_and_minimum_share_out_their_arguments(a: int, b: int) -> None:
    """The larger and the smaller together are the two numbers, and in this order."""
    assert maximum(a, b) + minimum(a, b) == a + b
    assert maximum(a, b) >= minimum(a, b)


def test_where_of_a_bool_picks_an_int_untouched() -> None:
    """A plain condition picks one of the two, exact."""
    assert where(True, 2**70 + 1, 0) == 2**70 + 1
    assert type(where(False, 1, 2**70 + 1)) is int


def test_where_of_an_array_picks_element_by_element() -> None:
    """A condition on an array picks for each element."""
    new = np.array([1.0, 2.0, 3.0])
    assert where(new > 1, 10 * new, -1).tolist() == [-1.0, 20.0, 30.0]


def test_where_of_a_trace_waits_for_its_value() -> None:
    """A traced condition is decided when it is evaluated."""
    traced = where(A > 1, B, C)
    assert traced.evaluate(a=2, b=5, c=7) == 5
    assert traced.evaluate(a=1, b=5, c=7) == 7


def test_where_of_a_plain_condition_leaves_a_trace_alone() -> None:
    """With a condition that is known, the trace holds only the branch that was picked."""
    assert where(True, A, B) is A


# ceil_div, exact_div


@pytest.mark.parametrize(("a", "b", "expected"), [(0, 8, 0), (1, 8, 1), (8, 8, 1), (9, 8, 2), (16, 8, 2), (7, 1, 7)])
def test_ceil_div_rounds_up(a: int, b: int, expected: int) -> None:
    """9 eggs need two boxes of 8; 8 need one."""
    assert ceil_div(a, b) == expected


def test_ceil_div_of_huge_ints_is_exact() -> None:
    """(2^80 + 1) / 2 rounded up is 2^79 + 1, an int."""
    found = ceil_div(2**80 + 1, 2)
    assert found == 2**79 + 1
    assert type(found) is int


def test_ceil_div_of_floats_and_arrays_rounds_up() -> None:
    """Whole numbers in floats round up alike."""
    assert ceil_div(9.0, 8) == 2.0
    assert ceil_div(np.array([7.0, 8.0, 9.0]), 8).tolist() == [1.0, 1.0, 2.0]


@given(st.integers(0, 10**30), st.integers(1, 10**9))
def test_ceil_div_is_the_least_number_that_covers(a: int, b: int) -> None:
    """n boxes of b hold a, and n - 1 do not."""
    n = ceil_div(a, b)
    assert n * b >= a > (n - 1) * b


def test_exact_div_stays_an_int_where_it_divides() -> None:
    """(3 · 2^80) / 3 is 2^80, an int."""
    found = exact_div(3 * 2**80, 3)
    assert found == 2**80
    assert type(found) is int


def test_exact_div_is_a_float_where_it_does_not_divide() -> None:
    """7 / 2 is 3.5, not 3."""
    assert exact_div(7, 2) == 3.5


def test_exact_div_of_floats_and_arrays_divides() -> None:
    """Anything but two ints is divided as usual."""
    assert exact_div(6.0, 4) == 1.5
    assert exact_div(np.array([6.0, 7.0]), 2).tolist() == [3.0, 3.5]


def test_exact_div_of_a_trace_divides() -> None:
    """A trace notes the division."""
    assert str(exact_div(A * B, 2)) == "a * b / 2"


# Expr: folding


@pytest.mark.parametrize("folded", [A + 0, 0 + A, A - 0, A * 1, 1 * A, A / 1, A + 0.0, A * 1.0])
def test_neutral_constants_are_folded(folded: Expr) -> None:
    """Adding 0 or multiplying by 1 leaves no trace: the very same node comes back."""
    assert folded is A


@pytest.mark.parametrize("folded", [A * 0, 0 * A, A * 0.0, (A + B) * 0])
def test_a_product_with_zero_is_the_constant_zero(folded: Expr) -> None:
    """Nothing times a formula is nothing, whatever its variables."""
    assert str(folded) == "0"
    assert folded.evaluate() == 0


@pytest.mark.parametrize(
    ("kept", "text"),
    [(0 - A, "0 - a"), (1 / A, "1 / a"), (0 // A, "0 // a"), (A - 1, "a - 1"), (A / 2, "a / 2"), (-A, "0 - a")],
)
def test_other_constants_are_kept(kept: Expr, text: str) -> None:
    """0 - a is not a, and 1 / a is not a."""
    assert str(kept) == text


def test_floor_division_by_one_still_rounds_down() -> None:
    """2.5 // 1 is 2, so a trace of a // 1 must give 2 there too, not 2.5."""
    assert (A // 1).evaluate(a=2.5) == 2.5 // 1


def test_a_trace_of_ceil_div_by_one_rounds_up() -> None:
    """2.5 rounded up to a whole number is 3, traced or not."""
    assert ceil_div(A, 1).evaluate(a=2.5) == ceil_div(2.5, 1) == 3


# Expr: printing


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (A, "a"),
        (A + B - C, "a + b - c"),
        (A - (B - C), "a - (b - c)"),
        (A - (B + C), "a - (b + c)"),
        (A - B - C, "a - b - c"),
        (A / (B * C), "a / (b * c)"),
        (A / B / C, "a / b / c"),
        (A / (B / C), "a / (b / c)"),
        (A * (B + C), "a * (b + c)"),
        (A * B + C, "a * b + c"),
        (A * (B / C), "a * (b / c)"),
        (A * (B // C), "a * (b // c)"),
        (A // (B // C), "a // (b // c)"),
        ((A + B) * C, "(a + b) * c"),
        ((A + B) / (A - B), "(a + b) / (a - b)"),
        (2 * A * B, "2 * a * b"),
        (A + B * C, "a + b * c"),
        (maximum(A + B, 1) * C, "max(a + b, 1) * c"),
        (minimum(1, A), "min(1, a)"),
        (where(A > 1, B, C - 1), "where(a > 1, b, c - 1)"),
        (ceil_div(A + B, 8) * C, "ceil_div(a + b, 8) * c"),
        ((A < B) + C, "(a < b) + c"),
        (A + B < C * 2, "a + b < c * 2"),
    ],
)
def test_text_has_the_parentheses_it_needs(expr: Expr, text: str) -> None:
    """Parentheses stand where the order of evaluation would be another without them, and nowhere else."""
    assert str(expr) == text


def test_repr_is_the_formula() -> None:
    """A traced number in a prompt shows what it is."""
    assert repr(2 * A) == "2 * a"


@pytest.mark.parametrize(
    "expr",
    [operator.lt(A < B, C), operator.lt(A, B < C), operator.ge(A < B, C), operator.gt(A, B <= C)],
    ids=["left", "right", "mixed left", "mixed right"],
)
def test_compared_comparisons_are_printed_apart(expr: Expr) -> None:
    """Python reads a < b < c as a < b and b < c: a comparison inside another one needs its parentheses."""
    values = {"a": 3, "b": 2, "c": 1}
    assert eval(str(expr), {}, values) == expr.evaluate(**values)


@given(TREES, NUMBERS, NUMBERS, NUMBERS)
@settings(deadline=None, max_examples=200)
@example(("sub", "a", ("sub", "b", "c")), Fraction(1), Fraction(2), Fraction(3))
@example(("floordiv", "a", ("mul", "b", "c")), Fraction(7), Fraction(2), Fraction(3))
def test_text_read_by_python_gives_the_same_number(tree: Any, a: Fraction, b: Fraction, c: Fraction) -> None:
    """The printed formula, read with Python's own rules, is the formula that is evaluated."""
    values = {"a": Exact(a), "b": Exact(b), "c": Exact(c)}
    try:
        expr = grow(tree, {"a": A, "b": B, "c": C})
        assume(isinstance(expr, Expr))
        expected = expr.evaluate(**values)
    except ZeroDivisionError:
        assume(False)
    assert eval(str(expr), dict(CALLS), values) == expected


@given(TREES, NUMBERS, NUMBERS, NUMBERS)
@settings(deadline=None, max_examples=200)
@example(("floordiv", "a", 1), Fraction(5, 2), Fraction(0), Fraction(0))
def test_a_trace_evaluates_to_what_the_numbers_give(tree: Any, a: Fraction, b: Fraction, c: Fraction) -> None:
    """The same lines on numbers and on traced numbers give one value; folding changes none."""
    values = {"a": Exact(a), "b": Exact(b), "c": Exact(c)}
    try:
        expected = grow(tree, values)
    except ZeroDivisionError:
        assume(False)
    expr = grow(tree, {"a": A, "b": B, "c": C})
    found = expr.evaluate(**values) if isinstance(expr, Expr) else expr
    assert found == expected


# Expr: evaluation and comparison


def test_evaluate_keeps_ints_exact() -> None:
    """2 · a · b + c of ints is the int, also beyond 2^53."""
    found = (2 * A * B + C).evaluate(a=10**12, b=10**12, c=1)
    assert found == 2 * 10**24 + 1
    assert type(found) is int


def test_evaluate_takes_arrays() -> None:
    """A formula traced once sweeps over arrays."""
    found = (A * B + 1).evaluate(a=np.array([1.0, 2.0]), b=3)
    assert found.tolist() == [4.0, 7.0]


def test_a_variable_stands_wherever_it_is_used() -> None:
    """Shared branches are one formula: (a + 1) · (a + 1) at 2 is 9."""
    once = A + 1
    assert (once * once).evaluate(a=2) == 9


def test_evaluating_shared_branches_does_not_repeat_them() -> None:
    """Doubling 200 times makes a tree of 2^200 paths but 200 nodes; it evaluates at once to 2^200."""
    doubled = A
    for _ in range(200):
        doubled = doubled + doubled
    assert doubled.evaluate(a=1) == 2**200


@pytest.mark.parametrize(
    ("compared", "below", "equal", "above"),
    [
        (A < 2, True, False, False),
        (A <= 2, True, True, False),
        (A > 2, False, False, True),
        (A >= 2, False, True, True),
        (operator.gt(2, A), True, False, False),
        (operator.le(2, A), False, True, True),
    ],
)
def test_comparisons_are_traced(compared: Expr, below: bool, equal: bool, above: bool) -> None:
    """A comparison is a formula too, and holds where the numbers say so."""
    assert [compared.evaluate(a=value) for value in (1, 2, 3)] == [below, equal, above]


def test_a_trace_has_no_truth_value() -> None:
    """`if` on a traced size would fix one branch silently: it is an error that names the way out."""
    with pytest.raises(TypeError, match=r"num\.where"):
        bool(A > 1)


def test_a_variable_has_no_truth_value() -> None:
    """Also a bare variable is refused by `if`."""
    with pytest.raises(TypeError):
        assert A


def test_a_trace_after_an_array_takes_all_of_it() -> None:
    """array · a is one formula as a · array is, not an array of formulas."""
    sizes = np.array([1.0, 2.0])
    traced = sizes * A
    assert isinstance(traced, Expr)
    assert traced.evaluate(a=3).tolist() == [3.0, 6.0]
