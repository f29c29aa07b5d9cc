"""A device's supplies: peaks by name, the ridge, shares of them, and links as far as they reach."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.device import Device, Link, Sheet, Sparsity, Topology
from roofline.errors import BadValue, UnknownName

NVLINK = Link("nvlink", 450e9, domain=8, latency=1e-6)
PCIE = Link("pcie", 64e9)
CHIP = Device("chip", "A Chip", {"fp8": 800e12, "bf16": 400e12}, 2e12, links=(NVLINK, PCIE), launch=5e-6)
BARE = Device("bare", "Bare", {}, 1e12)
SHARES = st.floats(0, 1, exclude_min=True)


def test_ridge_point_is_peak_over_bandwidth() -> None:
    """400 TFLOP/s over 2 TB/s: 200 FLOP/byte, of BF16 unless another rate is asked for."""
    assert CHIP.ridge_point() == 200
    assert CHIP.ridge_point("fp8") == 400


def test_ridge_point_of_an_unknown_rate_is_refused() -> None:
    """Without a peak there is no ridge."""
    with pytest.raises(UnknownName):
        CHIP.ridge_point("fp4")


def test_rate_is_the_stored_peak() -> None:
    """A peak is the figure of the file, and never scaled from another."""
    assert CHIP.rate("fp8") == 800e12


def test_an_unknown_rate_says_what_is_known() -> None:
    """One line: the device, what came, the rates that there are in order, what to do."""
    with pytest.raises(UnknownName) as caught:
        CHIP.rate("fp4")
    message = str(caught.value)
    assert message.startswith("chip has no known peak for the rate 'fp4'. Known: bf16, fp8.")
    assert "--compute" in message
    assert "\n" not in message


def test_a_device_without_peaks_knows_none() -> None:
    """A list of nothing reads "none"."""
    with pytest.raises(UnknownName, match=r"Known: none\."):
        BARE.rate("bf16")


def test_derated_multiplies_bandwidth_and_every_peak() -> None:
    """80 % of 2 TB/s, and 75 % of every peak."""
    some = CHIP.derated(bandwidth=0.8, compute=0.75)
    assert some.bandwidth == pytest.approx(1.6e12)
    assert some.peak == pytest.approx({"fp8": 600e12, "bf16": 300e12})


def test_derated_leaves_all_else() -> None:
    """Links, launch and names are those of the device, and the device itself is as it was."""
    some = CHIP.derated(0.5, 0.5)
    assert (some.id, some.links, some.launch) == (CHIP.id, CHIP.links, CHIP.launch)
    assert CHIP.bandwidth == 2e12


def test_the_whole_device_is_allowed() -> None:
    """A share of 1 changes nothing."""
    assert CHIP.derated() == CHIP


@given(SHARES, SHARES)
def test_the_ridge_moves_by_the_quotient_of_the_shares(bandwidth: float, compute: float) -> None:
    """With a share c of the peak and b of the bandwidth the ridge is c/b of what it was."""
    some = CHIP.derated(max(bandwidth, 1e-6), max(compute, 1e-6))
    assert some.ridge_point() == pytest.approx(200 * max(compute, 1e-6) / max(bandwidth, 1e-6))


@pytest.mark.parametrize("share", [0, 0.0, -0.1, 1.0001, 80, float("nan"), float("inf"), float("-inf")])
def test_an_impossible_share_of_bandwidth_is_refused(share: float) -> None:
    """Above 0 and up to 1: 80 is not 80 %."""
    with pytest.raises(BadValue, match="share above 0 and up to 1") as caught:
        CHIP.derated(bandwidth=share)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0, -1, 2, float("nan")])
def test_an_impossible_share_of_compute_is_refused(share: float) -> None:
    """The same holds for the peaks."""
    with pytest.raises(BadValue, match="share above 0 and up to 1"):
        CHIP.derated(compute=share)


def test_one_rank_needs_no_link() -> None:
    """It sends to none, whatever the device's file has."""
    assert Topology(BARE, 1).link().bandwidth == float("inf")


@pytest.mark.parametrize("ranks", [2, 8])
def test_ranks_within_the_domain_use_the_first_link(ranks: int) -> None:
    """Up to 8 devices are joined by the scale-up link."""
    assert Topology(CHIP, ranks).link() is NVLINK


def test_ranks_past_the_domain_are_refused() -> None:
    """The ninth is behind a network that is not known: the line says how far the link reaches."""
    with pytest.raises(UnknownName) as caught:
        Topology(CHIP, 9).link()
    message = str(caught.value)
    assert all(each in message for each in ("9 ranks", "8 devices", "nvlink", "chip", "Use up to 8 ranks"))
    assert "\n" not in message


def test_a_link_of_unknown_domain_joins_any_number() -> None:
    """Where the file does not say how many, none is too many."""
    alone = Device("alone", "Alone", {}, 1e12, links=(PCIE,))
    assert Topology(alone, 4096).link() is PCIE


def test_a_device_without_links_is_refused() -> None:
    """The line says which device and how to add one."""
    with pytest.raises(UnknownName, match=r"No link between bare devices is known.*\[link\.NAME\]") as caught:
        Topology(BARE, 2).link()
    assert "\n" not in str(caught.value)


def test_a_topology_links_as_its_device_does() -> None:
    """A group of ranks uses the device's link, with its limit."""
    node = Topology(CHIP, 8)
    assert node.link(4) is NVLINK
    with pytest.raises(UnknownName):
        node.link(16)


def test_taken_for_is_noted() -> None:
    """A shorter name leaves an assumption, and the device stays the same."""
    taken = CHIP.taken_for("c")
    assert taken.assumptions == ("c is taken as chip (A Chip)",)
    assert (taken.peak, taken.bandwidth) == (CHIP.peak, CHIP.bandwidth)
    assert CHIP.assumptions == ()


SPARSE = Sparsity(2, ("bf16",))
SHEET = Sheet("pair", "A Pair", {"bf16": 400e12, "fp32-vector": 50e12}, 2e12, 64, l2=16, cache=16, sparsity=SPARSE)


def test_a_sheet_with_a_bandwidth_is_a_device() -> None:
    """Every field of it stays."""
    device = SHEET.device()
    assert isinstance(device, Device)
    assert (device.bandwidth, device.peak, device.sparsity) == (2e12, SHEET.peak, SPARSE)


def test_a_sheet_without_a_bandwidth_is_none() -> None:
    """The line says what is missing, and what to do."""
    sheet = Sheet("dim", "Dim", {"bf16": 1e12}, None)
    with pytest.raises(UnknownName, match=r"memory bandwidth of dim \(Dim\) is not known.*device file"):
        sheet.device()
    with pytest.raises(UnknownName, match="no ridge point"):
        sheet.ridge_point()


def test_a_sparse_rate_is_asked_for_by_name() -> None:
    """Twice the dense one, and no peak."""
    assert SHEET.rate("bf16-sparse") == 800e12
    assert "bf16-sparse" not in SHEET.peak
    assert SHEET.ridge_point("bf16-sparse") == 400


@pytest.mark.parametrize("rate", ["fp32-vector-sparse", "fp8-sparse", "-sparse", "sparse"])
def test_a_sparse_rate_of_no_stated_factor_is_refused(rate: str) -> None:
    """Nothing is doubled that the vendor does not double."""
    with pytest.raises(UnknownName, match="no known peak"):
        SHEET.rate(rate)
    with pytest.raises(UnknownName):
        CHIP.rate("bf16-sparse")


def test_one_part_has_its_share() -> None:
    """One GCD of two: half the peak, bandwidth, memory and cache, and the same ridge."""
    pair = replace(SHEET, parts=2, part="GCD", cache_bandwidth={"l2": 10e12})
    part = pair.one_part()
    assert (part.peak["bf16"], part.bandwidth, part.capacity, part.l2, part.cache) == (200e12, 1e12, 32, 8, 8)
    assert part.cache_bandwidth == {"l2": 5e12}
    assert part.ridge_point() == pair.ridge_point()
    assert part.name == "A Pair, one GCD of 2"
    assert part.assumptions == ("one GCD has 1/2 of what pair supplies",)
    assert part.one_part() == part


def test_one_part_of_what_is_not_known_is_not_known() -> None:
    """No share of nothing."""
    part = Sheet("dim", "Dim", {}, None, parts=2, part="die").one_part()
    assert (part.bandwidth, part.capacity, part.l2) == (None, None, None)


def test_a_sheet_of_one_part_is_its_part() -> None:
    """Most packages are one device."""
    assert SHEET.one_part() is SHEET
