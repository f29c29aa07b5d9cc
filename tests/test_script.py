"""Formulas as JavaScript: one function for one shape, what differs as an argument, what is neutral left out."""

from __future__ import annotations

import pytest

from roofline.errors import RooflineError
from roofline.num import Expr, Whole, ceil_div, equal, maximum, power, same, where
from roofline.script import script

M, N = Whole.var("m"), Whole.var("n")


def test_one_function_for_one_shape():
    """Two formulas that differ in numbers alone share a function; a number that does not differ stays in it."""
    found = script([[2 * M * 3 + 7], [2 * M * 5 + 7]], ["m"])

    assert found.functions == ("([b],[a])=>{return[2*a*b+7]}",)
    assert [(call.function, call.constants) for call in found.calls] == [(0, (3,)), (0, (5,))]


def test_zeros_and_ones_have_the_shape_of_other_numbers():
    """What is neutral in every formula is left out; where it is in one alone it is an argument."""
    assert script([[M * 1 + 0], [M * 1 + 0]], ["m"]).functions == ("([],[a])=>{return[a]}",)
    assert script([[M * 1 + 0], [M * 4 + 2]], ["m"]).functions == ("([b,c],[a])=>{return[a*b+c]}",)
    assert script([[M * 0]], ["m"]).functions == ("([],[a])=>{return[0]}",)


def test_what_is_used_twice_is_worked_out_once():
    """Equal nodes are one, whether they are the same object or not."""
    assert script([[(M + N) * (M + N), M + N]], ["m", "n"]).functions == ("([],[a,b])=>{const c=a+b;return[c*c,c]}",)


def test_every_operation():
    """Brackets stand where an argument binds less, and the order of a formula stays."""
    formulas = [M - (N - 1), (M + N) / (M * N), where(M > N, M, N + 1) * 2, maximum(M, N), ceil_div(M + 1, N), M // N]
    text = script([[*formulas, power(M, N), where(equal(M, N), 1, 0)]], ["m", "n"]).functions[0]

    assert text == (
        "([],[a,b])=>{return[a-(b-1),(a+b)/(a*b),(a>b?a:b+1)*2,$x(a,b),$c((a+1)/b),$f(a/b),$p(a,b),a==b?1:0]}"
    )


def test_an_operation_without_javascript_is_refused():
    """A new operation of traced numbers is not written as something else."""
    with pytest.raises(RooflineError, match="'sine'"):
        script([[Expr("sine", (M,))]], ["m"])


def test_formulas_of_one_shape_are_the_same():
    """`same` tells formulas by their shape, numbers by their value, arrays by themselves."""
    assert same(M * 2 + N, Whole.var("m") * 2 + N)
    assert not same(M * 2, M * 3)
    assert not same(M, N)
    assert same(2, 2)
    assert same(None, None)
    assert not same(M, 2)
    assert equal(M, 2).evaluate(m=2) is True
