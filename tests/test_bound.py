"""Where demand meets supply: the bound is the longest of its times, and its name is the verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import ops
from roofline.bound import VERDICTS, Bound, Point, bound, place
from roofline.collectives import all_reduce
from roofline.cost import Cost, Work
from roofline.device import Device, Link, Sparsity
from roofline.errors import BadValue, UnknownName

NVLINK = Link("nvlink", 100e9, domain=8, latency=2e-6)
PCIE = Link("pcie", 50e9, domain=8, latency=10e-6)
CHIP = Device("chip", "A Chip", {"bf16": 400e12, "fp8": 800e12}, 2e12, links=(NVLINK, PCIE))
BARE = Device("bare", "Bare", {"bf16": 100e12, "fp32-vector": 10e12}, 1e12)
LAUNCHING = Device("slow", "Slow", {"bf16": 400e12}, 2e12, launch=5e-6)

AMOUNTS = st.integers(0, 10**18)
SUPPLIES = st.floats(1e6, 1e18)
DEVICES = st.builds(
    Device,
    st.just("random"),
    st.just("Random"),
    st.fixed_dictionaries({"bf16": SUPPLIES, "fp8": SUPPLIES, "fp32-vector": SUPPLIES}),
    SUPPLIES,
    links=st.tuples(st.builds(Link, st.just("nvlink"), SUPPLIES, st.none(), st.floats(0, 1e-3))),
    launch=st.one_of(st.just(0.0), st.floats(0, 1e-3)),
)
COSTS = st.builds(
    Cost,
    st.dictionaries(st.sampled_from(["bf16", "fp8", "fp32-vector"]), AMOUNTS),
    st.dictionaries(st.sampled_from(["weights", "kv", "activations"]), AMOUNTS),
    st.dictionaries(st.sampled_from(["nvlink", "link"]), AMOUNTS, max_size=1),
    st.integers(0, 1000),
    st.integers(0, 1000),
)


# Times


def test_compute_time_is_flops_over_peak() -> None:
    """400 GFLOP at 400 TFLOP/s: 1 ms."""
    assert bound(Cost({"bf16": 400e9}), CHIP).compute == pytest.approx(1e-3)


def test_memory_time_is_every_role_over_bandwidth() -> None:
    """3 GB + 1 GB at 2 TB/s: 2 ms."""
    assert bound(Cost({}, {"weights": 3e9, "kv": 1e9}), CHIP).memory == pytest.approx(2e-3)


def test_the_slowest_rate_counts() -> None:
    """1 ms of BF16 beside 0.5 ms of FP8 on units of their own: 1 ms."""
    assert bound(Cost({"bf16": 400e9, "fp8": 400e9}), CHIP).compute == pytest.approx(1e-3)


def test_link_time_is_bytes_over_bandwidth_and_steps_of_latency() -> None:
    """1 GB at 100 GB/s and 14 steps of 2 us: 10.028 ms."""
    assert bound(Cost({}, {}, {"nvlink": 1e9}, steps=14), CHIP).link == pytest.approx(10.028e-3)


def test_a_link_is_found_by_its_name() -> None:
    """The same on PCIe: 1 GB at 50 GB/s and 14 steps of 10 us, 20.14 ms."""
    assert bound(Cost({}, {}, {"pcie": 1e9}, steps=14), CHIP).link == pytest.approx(20.14e-3)


def test_a_link_without_a_name_is_the_first_one() -> None:
    """ "link" is the device's scale-up link."""
    assert bound(Cost({}, {}, {"link": 1e9}, steps=14), CHIP).link == pytest.approx(10.028e-3)


def test_an_unknown_latency_is_left_out() -> None:
    """A bound may ignore what is not known: 1 GB at 100 GB/s is 10 ms, in however many steps."""
    plain = Device("plain", "Plain", {}, 1e12, links=(Link("wire", 100e9),))
    assert bound(Cost({}, {}, {"wire": 1e9}, steps=1000), plain).link == pytest.approx(10e-3)


def test_latency_alone_bounds_a_tiny_collective() -> None:
    """16 byte on 8 ranks: one step of 2 us at the least; 28 byte at 100 GB/s are nothing beside it."""
    found = bound(all_reduce(16, 8).cost, CHIP)
    assert found.link == pytest.approx(2e-6, rel=1e-3)
    assert found.by == "link"


def test_launch_time_is_launches_times_the_launch() -> None:
    """3 launches of 5 us: 15 us."""
    assert bound(Cost(launches=3), LAUNCHING).launch == pytest.approx(15e-6)


def test_an_ideal_device_launches_in_no_time() -> None:
    """Without a launch time nothing is added."""
    assert bound(Cost({"bf16": 1}, {"kv": 1}), CHIP).launch == 0


def test_nothing_takes_no_time() -> None:
    """A cost of nothing on an ideal device is 0 s."""
    assert bound(Cost(), CHIP).seconds == 0


def test_no_overlap_adds_the_resources() -> None:
    """1 + 2 + 3 + 4 s one after another."""
    assert Bound.of(1.0, 2.0, 3.0, 4.0).no_overlap == 10.0


# The verdict


@pytest.mark.parametrize(
    ("times", "name"),
    [
        ({"compute": 2.0, "memory": 1.0}, "compute"),
        ({"compute": 1.0, "memory": 2.0}, "memory"),
        ({"compute": 1.0, "memory": 2.0, "link": 3.0}, "link"),
        ({"compute": 1.0, "memory": 2.0, "link": 3.0, "launch": 4.0}, "launch"),
        ({"compute": 2.0, "memory": 2.0}, "memory"),
        ({"compute": 2.0, "memory": 2.0, "link": 2.0, "launch": 2.0}, "memory"),
        ({"compute": 2.0, "memory": 1.0, "link": 2.0}, "compute"),
        ({"link": 2.0, "launch": 2.0}, "link"),
        ({}, "memory"),
    ],
    ids=str,
)
def test_the_longest_time_names_the_resource(times: dict[str, float], name: str) -> None:
    """The argmax is the verdict; where two tie, memory stands first, then compute, then link."""
    found = Bound.of(**times)
    assert found.by == name
    assert found.seconds == max(times.values(), default=0.0)


def test_every_resource_has_a_verdict_in_words() -> None:
    """What `by` may name can be said."""
    assert set(VERDICTS) == {"compute", "memory", "link", "launch"}


def test_a_kernel_on_the_ridge_is_memory_bound() -> None:
    """At exactly 200 FLOP/byte on 400 TFLOP/s and 2 TB/s both take as long."""
    assert bound(Cost({"bf16": 200 * 10**9}, {"kv": 10**9}), CHIP).by == "memory"


@pytest.mark.parametrize(("intensity", "name"), [(199, "memory"), (201, "compute")])
def test_the_ridge_parts_memory_from_compute(intensity: int, name: str) -> None:
    """Below 200 FLOP/byte memory bounds, above it compute."""
    assert bound(Cost({"bf16": intensity * 10**9}, {"kv": 10**9}), CHIP).by == name


# What holds for every cost on every device


@given(COSTS, DEVICES)
def test_a_bound_is_no_shorter_than_its_bytes(cost: Cost, device: Device) -> None:
    """No kernel is faster than its bytes over the bandwidth."""
    assert bound(cost, device).seconds >= cost.bytes / device.bandwidth


@given(COSTS, DEVICES)
def test_a_bound_is_no_shorter_than_its_flops_at_each_rate(cost: Cost, device: Device) -> None:
    """No kernel is faster than the FLOPs of any one rate over its peak."""
    seconds = bound(cost, device).seconds
    assert all(seconds >= flops / device.peak[rate] for rate, flops in cost.flops.items())


@given(COSTS, DEVICES)
def test_a_bound_is_no_shorter_than_its_links_and_launches(cost: Cost, device: Device) -> None:
    """No kernel is faster than what it sends, nor than its launches."""
    seconds = bound(cost, device).seconds
    assert seconds >= cost.link_bytes / device.links[0].bandwidth
    assert seconds >= cost.launches * device.launch


@given(COSTS, DEVICES)
def test_the_verdict_is_the_resource_of_the_bound(cost: Cost, device: Device) -> None:
    """The time of the resource that is named is the bound itself."""
    found = bound(cost, device)
    assert getattr(found, found.by) == found.seconds


@given(COSTS, DEVICES)
def test_no_overlap_is_no_shorter_than_the_bound(cost: Cost, device: Device) -> None:
    """One after another takes at least as long as side by side."""
    found = bound(cost, device)
    assert found.no_overlap >= found.seconds


@given(COSTS, DEVICES, st.floats(0.01, 1), st.floats(0.01, 1))
def test_a_derated_device_is_no_faster(cost: Cost, device: Device, bandwidth: float, compute: float) -> None:
    """Shares of the supplies never make a bound shorter."""
    assert bound(cost, device.derated(bandwidth, compute)).seconds >= bound(cost, device).seconds * (1 - 1e-12)


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=8), DEVICES)
def test_an_array_gives_what_each_element_gives(rows: list[tuple[int, int, int]], device: Device) -> None:
    """A sweep is its points: every time and every verdict, element by element."""
    flops, moved, sent = (np.array(each, dtype=float) for each in zip(*rows, strict=True))
    swept = bound(Cost({"bf16": flops}, {"kv": moved}, {"link": sent}, 3), device)
    alone = [bound(Cost({"bf16": float(f)}, {"kv": float(m)}, {"link": float(s)}, 3), device) for f, m, s in rows]
    for time in ("compute", "memory", "link", "seconds", "no_overlap"):
        assert getattr(swept, time).tolist() == [getattr(each, time) for each in alone]
    assert swept.by.tolist() == [each.by for each in alone]


def test_an_array_beside_a_number_broadcasts() -> None:
    """FLOPs swept over fixed bytes: 1 GB take 0.5 ms, as 200 GFLOP do, and the tie is memory's."""
    found = bound(Cost({"bf16": np.array([1e9, 200e9, 400e9])}, {"kv": 1e9}), CHIP)
    assert found.seconds == pytest.approx([0.5e-3, 0.5e-3, 1e-3])
    assert found.by.tolist() == ["memory", "memory", "compute"]


def test_a_table_of_sizes_gives_a_table_of_verdicts() -> None:
    """A column of FLOPs and a row of bytes: names have the shape of the times."""
    found = bound(Cost({"bf16": np.array([[100e9], [400e9]])}, {"kv": np.array([1e9, 3e9])}), CHIP)
    assert found.by.tolist() == [["memory", "memory"], ["compute", "memory"]]


def test_an_array_names_launch_where_it_is_longest() -> None:
    """5 us of launch stand above 0.5 us of bytes and below 50 us."""
    found = bound(Cost({}, {"kv": np.array([1e6, 100e6])}), LAUNCHING)
    assert found.by.tolist() == ["launch", "memory"]


# What the device does not know


def test_an_unknown_tensor_rate_lists_those_that_are_known() -> None:
    """A GEMM at a rate without a peak has no bound: one line with the rates that there are."""
    with pytest.raises(UnknownName, match=r"'fp4'.*Known: bf16, fp8\.") as caught:
        bound(Cost({"fp4": 1}), CHIP)
    assert "\n" not in str(caught.value)


def test_an_unknown_vector_rate_is_left_out_and_named() -> None:
    """Its time is not guessed: the bound stays a lower one, and says what is missing."""
    found = bound(Cost({"bf16": 400e9, "fp32-vector": 1e18}, {"kv": 1e6}), CHIP)
    assert found.compute == pytest.approx(1e-3)
    assert found.unknown == ("fp32-vector",)


def test_an_unknown_vector_rate_is_named_beside_links_and_launches() -> None:
    """Also where a link takes part."""
    assert bound(Cost({"fp32-vector": 1}, {}, {"nvlink": 1}), CHIP).unknown == ("fp32-vector",)


def test_a_known_vector_rate_counts() -> None:
    """10 GFLOP at 10 TFLOP/s: 1 ms, and nothing is missing."""
    found = bound(Cost({"fp32-vector": 10e9}), BARE)
    assert found.compute == pytest.approx(1e-3)
    assert found.unknown == ()


def test_a_device_without_links_cannot_send() -> None:
    """One line that says how to add a link."""
    with pytest.raises(UnknownName, match="No link between bare devices is known"):
        bound(Cost({}, {}, {"link": 1}), BARE)


def test_a_link_that_the_device_lacks_lists_those_it_has() -> None:
    """A kernel counted on another device's link is refused by name: what came, and the links there are."""
    with pytest.raises(UnknownName, match="infinity-fabric") as caught:
        bound(Cost({}, {}, {"infinity-fabric": 1}), CHIP)
    message = str(caught.value)
    assert "nvlink" in message
    assert "pcie" in message
    assert "\n" not in message


# Points


def test_a_placed_kernel_has_its_work_and_its_bound() -> None:
    """Everything of one call, with the number of calls beside it."""
    work = ops.linear(m=8192, n=8192, k=8192)
    point = place(work, CHIP, name="up_proj", part="mlp", count=36)
    assert (point.name, point.part, point.count) == ("up_proj", "mlp", 36)
    assert point.work is work
    assert point.device is CHIP
    assert point.bound == bound(work.cost, CHIP)


def test_a_placed_kernel_without_a_name_has_that_of_its_operation() -> None:
    """One call of `linear`, of no part."""
    point = place(ops.linear(m=1, n=1, k=1), CHIP)
    assert (point.name, point.part, point.count) == ("linear", "", 1)


def test_a_placed_kernel_is_not_measured() -> None:
    """No measurement and no expectation is made up; the reason says why."""
    point = place(ops.linear(m=1, n=1, k=1), CHIP)
    assert point.expected is None
    assert point.measured is None
    assert point.reason == "no calibration of this kind of kernel"


def test_a_kernel_moves_to_another_device() -> None:
    """1 GB takes 0.5 ms at 2 TB/s and 1 ms at 1 TB/s; names and counts go along."""
    here = place(Work("copy", {"n": 1}, Cost({}, {"activations": 1e9})), CHIP, name="copy", part="p", count=3)
    there = here.on(BARE)
    assert here.bound.seconds == pytest.approx(0.5e-3)
    assert there.bound.seconds == pytest.approx(1e-3)
    assert there.device is BARE
    assert (there.name, there.part, there.count) == ("copy", "p", 3)
    assert there.work is here.work


def test_a_measurement_stays_with_its_device() -> None:
    """What was measured or expected on one device says nothing about another."""
    work = ops.copy(n=10**9)
    here = Point("copy", "", work, CHIP, 1, bound(work.cost, CHIP), expected=Bound.of(memory=1.2e-3), measured=1.3e-3)
    there = here.on(BARE)
    assert there.measured is None
    assert there.expected is None


@pytest.mark.parametrize("count", [0, -1, 1.5, float("nan"), float("inf"), True, "2", None])
def test_a_kernel_is_called_a_whole_number_of_times(count: Any) -> None:
    """Anything else is refused, in one line."""
    with pytest.raises(BadValue, match="whole number"):
        place(ops.copy(n=8), CHIP, count=count)


def test_a_numpy_count_does_not_wrap() -> None:
    """1e8 calls of an 8192 cubed GEMM are 1.1e20 FLOP, beyond 64 bits."""
    assert place(ops.linear(m=8192, n=8192, k=8192), CHIP, count=np.int64(10**8)).flops == 2 * 8192**3 * 10**8


@pytest.mark.parametrize("value", [0.0, -1e12, float("nan"), float("inf")])
def test_a_device_supplies_something_finite(value: float) -> None:
    """Bandwidth and peaks are above zero."""
    with pytest.raises(BadValue, match="finite and above zero"):
        Device("x", "X", {"bf16": 1e12}, value)
    with pytest.raises(BadValue, match="finite and above zero"):
        Device("x", "X", {"bf16": value}, 1e12)


@pytest.mark.parametrize("ranks", [0, -3, 0.5, float("nan")])
def test_a_collective_has_ranks(ranks: float) -> None:
    """One at the least."""
    with pytest.raises(BadValue, match="ranks of all-reduce"):
        all_reduce(1024, ranks)


def test_a_sparse_rate_counts_where_it_is_asked_for() -> None:
    """400 GFLOP at twice 400 TFLOP/s: 0.5 ms; the dense rate beside it stays."""
    chip = Device("chip", "A Chip", {"bf16": 400e12}, 2e12, sparsity=Sparsity(2, ("bf16",)))

    assert bound(Cost({"bf16-sparse": 400e9}), chip).compute == pytest.approx(0.5e-3)
    assert bound(Cost({"bf16": 400e9}), chip).compute == pytest.approx(1e-3)
