"""`roofline collective`."""

from __future__ import annotations

import pytest

BASE = ("collective", "all-reduce", "14GB", "--ranks", "16")


def test_text(roofline):
    """Time, bandwidths, bound and the share of a step, within 80 columns."""
    out = roofline(*BASE, "--busbw", "40GB/s", "--step-time", "3.64s").out
    assert max(len(line) for line in out.splitlines()) <= 80
    for word in ("26.25 GB", "656.2 ms", "40.00 GB/s", "21.33 GB/s", "18.03 %", "Patarasuk"):
        assert word in out


def test_levels_and_directions(roofline):
    """The table of levels; what a switch receives beside what it sends; unknown where no link is known."""
    levels = ("--device", "h100-sxm", "--per-node", "8", "--network-busbw", "50GB/s")
    assert "between nodes" in roofline(*BASE, *levels).out
    gather = roofline(
        "collective", "all-gather", "8000", "--ranks", "8", "--busbw", "1GB/s", "--algorithm", "in-network"
    )
    assert "received" in gather.out
    assert "unknown" in roofline(*BASE, "--seconds", "1").out


def test_a_network_beyond_the_domain(roofline):
    """Sixteen H100s are past the eight of NVLink: the network's busbw counts."""
    found = roofline(*BASE, "--device", "h100-sxm", "--network-busbw", "40GB/s", "--json").json
    assert found["seconds"] == pytest.approx(0.65625)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["collective", "gossip", "1GB", "--ranks", "8", "--busbw", "1GB/s"], ["all-reduce"]),
        (["collective", "all-reduce", "1GX", "--ranks", "8", "--busbw", "1GB/s"], ["1GX"]),
        (["collective", "all-reduce", "0", "--ranks", "8", "--busbw", "1GB/s"], ["above zero"]),
        (["collective", "all-reduce", "1GB", "--ranks", "0", "--busbw", "1GB/s"], ["--ranks"]),
        ([*BASE, "--busbw", "40"], ["--busbw", "B/s"]),
        (["collective", "all-reduce", "1GB", "--ranks", "1", "--device", "h100-sxm"], ["two ranks or more"]),
        ([*BASE], ["--busbw", "--device", "--seconds"]),
        ([*BASE, "--busbw", "40GB/s", "--device", "h100"], ["one of the two"]),
        ([*BASE, "--device", "h100"], ["8 devices", "network"]),
        ([*BASE, "--seconds", "-1"], ["--seconds"]),
    ],
)
def test_one_line_for_what_cannot_be(roofline, arguments, words):
    """Exit code 2 and one line."""
    answer = roofline(*arguments)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    for word in words:
        assert word in answer.err
