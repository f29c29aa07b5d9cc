"""Collectives: the bytes that each rank sends, published and by hand, and the steps that they take."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import collectives
from roofline.cost import Work

Collective = Callable[..., Work]
ONE_WAY = [collectives.all_gather, collectives.reduce_scatter, collectives.all_to_all]
ALL = [collectives.all_reduce, *ONE_WAY]
NAMES = [each.__name__ for each in ALL]


@pytest.mark.parametrize(("ranks", "sent"), [(1, 0), (2, 14_000_000_000), (8, 24_500_000_000), (16, 26_250_000_000)])
def test_published_ring_all_reduce(ranks: int, sent: int) -> None:
    """14 GB of gradients, 2(n-1)/n: 24.5 GB on 8 ranks and 26.25 GB on 16, nothing on one."""
    assert collectives.all_reduce(14_000_000_000, ranks).cost.link_bytes == sent


def test_all_reduce_takes_two_rounds_of_steps() -> None:
    """n - 1 steps to reduce and n - 1 to gather: 14 on 8 ranks."""
    assert collectives.all_reduce(8000, 8).dims["steps"] == 14


@pytest.mark.parametrize("call", ONE_WAY, ids=NAMES[1:])
def test_one_way_collectives_send_all_but_their_own_share(call: Collective) -> None:
    """(n-1)/n of 8,000 byte on 8 ranks: 7,000."""
    assert call(8000, 8).cost.link_bytes == 7000


@pytest.mark.parametrize("call", ONE_WAY, ids=NAMES[1:])
def test_one_way_collectives_take_one_round_of_steps(call: Collective) -> None:
    """n - 1 steps: 7 on 8 ranks."""
    assert call(8000, 8).dims["steps"] == 7


@pytest.mark.parametrize("call", ALL, ids=NAMES)
def test_one_rank_sends_nothing(call: Collective) -> None:
    """Alone there is no one to send to, and no step to take."""
    cost = call(8001, 1).cost
    assert (cost.link_bytes, cost.steps) == (0, 0)


@pytest.mark.parametrize(
    ("call", "moved"),
    [
        (collectives.all_reduce, 16_000),  # reads the buffer, writes the sum
        (collectives.all_to_all, 16_000),  # reads what it sends, writes what it gets
        (collectives.all_gather, 9_000),  # reads its shard, writes the whole
        (collectives.reduce_scatter, 9_000),  # reads the whole, writes its shard
    ],
    ids=["all_reduce", "all_to_all", "all_gather", "reduce_scatter"],
)
def test_memory_reads_the_input_and_writes_the_output(call: Collective, moved: int) -> None:
    """Of 8,000 byte on 8 ranks, where a shard is 1,000."""
    assert call(8000, 8).bytes == moved


def test_reduce_scatter_and_all_gather_make_an_all_reduce() -> None:
    """A ring all-reduce is the two, one after the other."""
    both = collectives.reduce_scatter(8000, 8).cost + collectives.all_gather(8000, 8).cost
    whole = collectives.all_reduce(8000, 8).cost
    assert both.link_bytes == whole.link_bytes


def test_send_moves_its_bytes_once() -> None:
    """7 byte to one neighbour: 7 on the link, in one step, read once."""
    cost = collectives.send(7).cost
    assert (cost.link_bytes, cost.steps, cost.bytes) == (7, 1, 7)


@pytest.mark.parametrize("call", ALL, ids=NAMES)
def test_the_link_may_be_named(call: Collective) -> None:
    """Bytes are counted on the link that was asked for, "link" where none was."""
    assert set(call(8000, 8, link="nvlink").cost.links) == {"nvlink"}
    assert set(call(8000, 8).cost.links) == {"link"}


@pytest.mark.parametrize("call", ALL, ids=NAMES)
def test_collectives_count_no_flops(call: Collective) -> None:
    """What a reduction adds up is not counted."""
    assert call(8000, 8).flops == 0


@pytest.mark.parametrize("call", ALL, ids=NAMES)
@given(size=st.integers(0, 2**70), ranks=st.integers(1, 64))
def test_ints_stay_ints_where_they_divide(call: Collective, size: int, ranks: int) -> None:
    """A buffer of whole shards gives exact byte counts, of any size."""
    cost = call(size * ranks, ranks).cost
    assert all(type(n) is int for n in (cost.link_bytes, cost.bytes, cost.steps))


def test_all_reduce_stays_an_int_where_its_whole_sum_divides() -> None:
    """2 · (2-1)/2 · bytes is bytes, a whole number also where half of it is not."""
    size = 2**60 + 1
    sent = collectives.all_reduce(size, 2).cost.link_bytes
    assert sent == size
    assert type(sent) is int


@pytest.mark.parametrize("call", ONE_WAY, ids=NAMES[1:])
def test_shards_that_do_not_divide_are_not_rounded(call: Collective) -> None:
    """2/3 of 10 byte are 6.67 byte: a bound is not rounded up."""
    assert call(10, 3).cost.link_bytes == pytest.approx(20 / 3, rel=1e-15)


def test_arrays_of_ranks_are_swept() -> None:
    """One call gives what each number of ranks gives."""
    ranks = np.array([1.0, 8.0, 16.0])
    assert collectives.all_reduce(14_000_000_000, ranks).cost.link_bytes.tolist() == [0.0, 24.5e9, 26.25e9]


@given(st.integers(1, 10**12), st.integers(1, 1024))
def test_all_reduce_sends_less_than_twice_its_buffer(size: int, ranks: int) -> None:
    """2(n-1)/n comes near to 2 and never gets there."""
    assert collectives.all_reduce(size, ranks).cost.link_bytes < 2 * size


@pytest.mark.parametrize("call", [collectives.all_reduce, collectives.all_gather, collectives.all_to_all])
def test_a_bound_needs_but_one_step(call) -> None:
    """A ring takes many steps one after another, another algorithm may take one: no more is charged."""
    assert call(8000, 8).cost.steps == 1
