"""How much of an axis one rank holds, and what is said where it does not divide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limits import no_hang
from roofline.errors import BadValue, ShardError
from roofline.shard import Axis, Shard

HEADS = Axis("heads", 40, 128)
KV_HEADS = Axis("kv_heads", 8, 128, uneven="replicate")
VOCAB = Axis("vocab", 151_936, uneven="pad")


def test_elements_of_a_whole_axis() -> None:
    """40 heads of 128."""
    assert HEADS.elements == 5120


def test_one_rank_holds_everything() -> None:
    """Without a split, every unit is on the one rank."""
    alone = Shard()
    assert [alone.units(axis) for axis in (HEADS, KV_HEADS, VOCAB)] == [40, 8, 151_936]


@pytest.mark.parametrize("name", ["heads", "kv_heads", "intermediate", "vocab"])
def test_four_axes_are_split(name: str) -> None:
    """16 units on 4 ranks are 4 each."""
    axis = Axis(name, 16)
    assert Shard(4).ranks(axis) == 4
    assert Shard(4).units(axis) == 4


@pytest.mark.parametrize("name", ["hidden", "head_dim", "positions"])
def test_other_axes_are_on_every_rank(name: str) -> None:
    """The residual stream is whole everywhere, also where the ranks would not divide it."""
    axis = Axis(name, 15)
    assert Shard(4).ranks(axis) == 1
    assert Shard(4).units(axis) == 15


@pytest.mark.parametrize(("tp", "units"), [(2, 20), (5, 8), (8, 5), (40, 1)])
def test_an_axis_that_refuses_is_divided(tp: int, units: int) -> None:
    """40 heads over the divisors of 40."""
    assert Shard(tp).units(HEADS) == units


def test_elements_of_a_rank() -> None:
    """5 heads of 128 each."""
    assert Shard(8).elements(HEADS) == 640


def test_an_axis_that_refuses_says_what_is_possible() -> None:
    """One line: the ranks, the axis in words, and every number of ranks that divides it."""
    with pytest.raises(ShardError) as caught:
        Shard(16).units(HEADS)
    message = str(caught.value)
    assert message == "16 ranks do not divide the 40 heads. Possible for this axis: 1, 2, 4, 5, 8, 10, 20, 40."


def test_more_ranks_than_units_are_refused() -> None:
    """80 ranks cannot each hold one of 40 heads."""
    with pytest.raises(ShardError, match="80 ranks do not divide the 40 heads"):
        Shard(80).units(HEADS)


@pytest.mark.parametrize(("tp", "units"), [(2, 4), (8, 1), (16, 1), (64, 1)])
def test_kv_heads_are_replicated(tp: int, units: int) -> None:
    """8 KV heads on 16 ranks: each rank keeps one, two ranks the same."""
    assert Shard(tp).units(KV_HEADS) == units


@pytest.mark.parametrize("tp", [3, 6, 12])
def test_kv_heads_that_neither_divide_nor_replicate_are_refused(tp: int) -> None:
    """12 ranks cannot hold 8 KV heads evenly; the name is in words."""
    with pytest.raises(ShardError, match=rf"^{tp} ranks do not divide the 8 kv heads\. Possible .* 1, 2, 4, 8"):
        Shard(tp).units(KV_HEADS)


@pytest.mark.parametrize(("tp", "units"), [(1, 151_936), (2, 75_968), (3, 50_646), (7, 21_706)])
def test_a_vocabulary_is_padded(tp: int, units: int) -> None:
    """151,936 rows on 3 ranks: 50,645 and one over, so 50,646 on each."""
    assert Shard(tp).units(VOCAB) == units


def test_padding_counts_in_elements() -> None:
    """Units are padded, then counted in elements: 10 units of 4 on 3 ranks are 4 units, 16 elements."""
    assert Shard(3).elements(Axis("vocab", 10, 4, uneven="pad")) == 16


@given(st.integers(1, 10**6), st.integers(1, 4096))
def test_padded_ranks_cover_the_axis_with_less_than_one_unit_each(size: int, tp: int) -> None:
    """The ranks together hold everything, and none of them a unit too many."""
    units = Shard(tp).units(Axis("vocab", size, uneven="pad"))
    assert units * tp >= size > (units - 1) * tp


@given(st.integers(1, 512), st.integers(1, 4096))
def test_what_divides_is_shared_out_whole(units: int, tp: int) -> None:
    """Ranks times what one holds is the axis, where it divides."""
    assert Shard(tp).units(Axis("heads", units * tp)) * tp == units * tp


@pytest.mark.parametrize("tp", [0, -1, 1.5, 2.0, "2", True, None, 4097, float("nan")])
def test_what_is_no_number_of_ranks_is_refused(tp: object) -> None:
    """Whole, from 1 on: half a rank, text and yes are none, and the line shows what came."""
    with pytest.raises(BadValue, match="must be a whole number from 1 to") as caught:
        Shard(tp)
    assert repr(tp) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_number_of_ranks_of_thousands_of_digits_is_refused() -> None:
    """Also a number that Python does not print makes a line."""
    with pytest.raises(BadValue):
        Shard(10**5000)


def test_a_huge_axis_that_does_not_divide_is_refused_at_once() -> None:
    """7 billion parameters on 3 ranks: what is possible is found without trying 7 billion numbers."""

    with no_hang(), pytest.raises(ShardError, match="1, 2, 4, 5, 7, 8, 10"):
        Shard(3).units(Axis("intermediate", 7_000_000_000))
