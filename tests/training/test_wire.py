"""Collectives by hand: bytes, busbw and algbw, algorithms, levels, bounds and where they do not hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.device import Device
from roofline.errors import BadValue, RooflineError
from roofline.training.wire import KINDS, RING, SWITCH, TREE, Wires, collective, traffic

BUS = Wires(busbw=100e9)
# nccl-tests, doc/PERFORMANCE.md: busbw over algbw on n ranks.
FACTORS = {"all-reduce": 14 / 8, "all-gather": 7 / 8, "reduce-scatter": 7 / 8, "all-to-all": 7 / 8, "broadcast": 1}


@pytest.mark.parametrize("kind", FACTORS)
def test_busbw_as_nccl_tests(kind):
    """The factor of 8 ranks, from a time and back."""
    measured = collective(kind, 8e9, 8, Wires(), seconds=0.5)
    assert measured.algbw == 16e9
    assert measured.busbw == pytest.approx(16e9 * FACTORS[kind])
    assert collective(kind, 8e9, 8, Wires(busbw=measured.busbw)).seconds == pytest.approx(0.5)


def test_send_has_one_factor():
    """busbw of a send is algbw."""
    assert collective("send", 5e9, 2, BUS).busbw == 100e9


@given(st.sampled_from(sorted(KINDS)), st.integers(1, 10**12), st.integers(2, 4096), st.floats(1e6, 1e13))
def test_time_and_busbw_are_each_others_inverse(kind, size, ranks, busbw):
    """What a busbw gives as a time gives the busbw back."""
    assert collective(kind, size, ranks, Wires(busbw=busbw)).busbw == pytest.approx(busbw)


@pytest.mark.parametrize(("ranks", "ring", "tree"), [(2, 2, 2), (8, 14, 6), (9, 16, 8), (1024, 2046, 20)])
def test_a_tree_takes_fewer_steps_for_as_many_bytes(ranks, ring, tree):
    """2(n - 1) steps round the ring, 2 log2 n up and down the tree."""
    one, other = traffic("all-reduce", 1e6, ranks), traffic("all-reduce", 1e6, ranks, TREE)
    assert (one.steps, other.steps, one.sent) == (ring, tree, other.sent)


def test_latency_counts_by_the_step(h100):
    """14 steps of 5 us and 1.75 MB over 450 GB/s."""
    found = collective("all-reduce", 1e6, 8, Wires(device=h100, latency=5e-6))
    assert found.latency_seconds == pytest.approx(70e-6)
    assert found.seconds == pytest.approx(70e-6 + 1.75e6 / 450e9)
    assert found.bound_seconds == pytest.approx(1.75e6 / 450e9)


@pytest.mark.parametrize(
    ("kind", "sent", "received"),
    [
        ("all-reduce", 8000, 8000),
        ("all-gather", 1000, 7000),
        ("reduce-scatter", 7000, 1000),
        ("broadcast", 8000, 8000),
    ],
)
def test_a_switch_takes_each_buffer_once(kind, sent, received):
    """Of 8,000 byte on 8 ranks."""
    found = traffic(kind, 8000, 8, SWITCH)
    assert (found.sent, found.received) == (sent, received)


@given(st.sampled_from(sorted(KINDS)), st.sampled_from([RING, TREE, SWITCH]), st.integers(2, 64))
def test_no_algorithm_beats_the_bound_of_its_sort(kind, algorithm, ranks):
    """On a link without latency the time is the bound's or more; a switch's is at most that of the ranks alone."""
    wires = Wires(device=Device.load("h100-sxm"), network_busbw=50e9)
    try:
        found = collective(kind, 8e9, ranks, wires, algorithm=algorithm)
    except BadValue as error:
        assert "does no" in str(error)
        return
    alone = collective(kind, 8e9, ranks, wires)
    assert found.bound_seconds is not None and alone.bound_seconds is not None
    assert found.seconds >= found.bound_seconds
    assert found.bound_seconds <= alone.bound_seconds
    assert not any("faster than the bound" in each for each in found.notes)


def test_a_switch_takes_the_buffer_once(h100):
    """14 GB over 450 GB/s: 1.75 times faster than 8 ranks can by themselves."""
    found = collective("all-reduce", 14e9, 8, Wires(device=h100), algorithm=SWITCH)
    assert (found.seconds, found.bound_seconds, found.least_bytes) == (14 / 450, 14 / 450, 14e9)
    fast = collective("all-reduce", 14e9, 8, Wires(device=h100), seconds=0.01, algorithm=SWITCH)
    assert "3.11 times faster than the bound, which no switch does either" in " ".join(fast.notes)


def test_a_busbw_means_a_rings_bytes_for_a_switch_too():
    """nccl-tests' factor knows no algorithm: what a busbw gives as a time gives it back."""
    found = collective("all-reduce", 8e9, 8, BUS, algorithm=SWITCH)
    assert (found.seconds, found.busbw) == (pytest.approx(0.14), pytest.approx(100e9))
    assert "counts a ring's bytes" in " ".join(found.notes)


def test_a_measured_time_below_the_bound_is_explained(h100):
    """A ring cannot do it."""
    found = collective("all-reduce", 8e9, 8, Wires(device=h100), seconds=0.02)
    assert "in-network reduction?" in " ".join(found.notes)


def test_levels_by_hand(h100):
    """14 GB on 2 nodes of 8: 7/8 within, a shard of 1.75 GB between, 7/8 within."""
    found = collective("all-reduce", 14e9, 16, Wires(device=h100, per_node=8, network_busbw=50e9))
    assert [each.sent for each in found.levels] == pytest.approx([12.25e9, 1.75e9, 12.25e9])
    assert found.seconds == pytest.approx(24.5e9 / 450e9 + 1.75e9 / 50e9)
    assert found.bound_seconds == pytest.approx(24.5e9 / 450e9)


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"])
def test_levels_send_no_less_than_the_least(kind):
    """What a rank sends over both levels together is what it sends round one ring."""
    found = collective(kind, 16e6, 64, Wires(busbw=1e11, per_node=8, network_busbw=1e10))
    assert found.traffic.sent == pytest.approx(found.least_bytes)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda d: collective("gossip", 1.0, 8, BUS), "Unknown collective 'gossip'"),
        (lambda d: collective("all-reduce", 1.0, 8, BUS, algorithm="star"), "Unknown algorithm 'star'"),
        (lambda d: collective("all-to-all", 1.0, 8, BUS, algorithm=TREE), "A tree does no all-to-all"),
        (lambda d: collective("send", 1.0, 2, BUS, algorithm=SWITCH), "does no send"),
        (lambda d: collective("all-reduce", 0.0, 8, BUS), "above zero"),
        (lambda d: collective("all-reduce", 1.0, 0, BUS), "two ranks or more; 0 "),
        (lambda d: collective("all-reduce", 1.0, 1, BUS), "two ranks or more; 1 "),
        (lambda d: collective("send", 1.0, 1, BUS), "two ranks or more; 1 "),
        (lambda d: collective("all-reduce", 1.0, 16, Wires(1.0, None, 1.0, 8), algorithm=SWITCH), "counted of rings"),
        (lambda d: collective("all-reduce", 1.0, 8, Wires()), "--busbw, --device or --seconds"),
        (lambda d: collective("all-reduce", 1.0, 16, Wires(device=d)), "reach past the 8"),
        (lambda d: collective("all-reduce", 1.0, 10, Wires(busbw=1.0, per_node=4, network_busbw=1.0)), "do not divide"),
        (lambda d: collective("all-reduce", 1.0, 16, Wires(device=d, per_node=8)), "--network-busbw"),
        (lambda d: collective("broadcast", 1.0, 16, Wires(d and 1.0, None, 1.0, 8)), "over levels is not counted"),
    ],
)
def test_what_cannot_be_is_one_line(h100, call, words):
    """What came, what is possible."""
    with pytest.raises(RooflineError, match=words) as caught:
        call(h100)
    assert "\n" not in str(caught.value)
