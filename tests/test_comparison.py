"""Two ledgers side by side: rows that add up, and a reason by the numbers."""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.comparison import Comparison, measured, price
from roofline.errors import BadValue

QWEN = rl.Model.load("qwen3-8b")
H100, A100 = rl.Device.load("h100-sxm"), rl.Device.load("a100-sxm-80gb")


@pytest.mark.parametrize(
    ("workload", "other"),
    [
        (rl.Workload.decode(1), rl.predict(QWEN, A100)),
        (rl.Workload.prefill(), rl.predict(QWEN, A100, rl.Workload.prefill())),
        (rl.Workload.decode(64), rl.predict(QWEN, H100, rl.Workload.decode(256))),
        (rl.Workload.decode(64), rl.predict("llama-3.1-8b", H100, rl.Workload.decode(64))),
        (rl.Workload.decode(8), rl.predict(QWEN, H100, rl.Workload.decode(8), shard=rl.Shard(4))),
    ],
)
def test_rows_add_up_to_the_difference(workload, other):
    """Every kernel of either is there once."""
    ledger = rl.predict(QWEN, H100, workload)
    rows = Comparison(ledger, other).rows

    assert sum(row.seconds for row in rows) == pytest.approx(ledger.total.seconds, rel=1e-12)
    assert sum(row.against for row in rows) == pytest.approx(other.total.seconds, rel=1e-12)
    assert len({row.name for row in rows}) == len(rows)


def test_one_token_moves_by_the_bandwidth_ratio():
    """Q27: 1.644, the bandwidths' ratio to the digit; the peaks' 3.17 does not matter."""
    pair = Comparison(rl.predict(QWEN, H100), rl.predict(QWEN, A100))

    assert pair.speed == pytest.approx(H100.bandwidth / A100.bandwidth, rel=1e-12)
    assert "= 1.644" in pair.reason
    assert "3.17" in pair.reason


def test_reason_of_fewer_bytes():
    """An FP8 cache on the same card: memory-bound both, so the ratio is that of the bytes."""
    pair = Comparison(
        rl.predict(QWEN, H100, rl.Workload.decode(64)),
        rl.predict(QWEN, H100, rl.Workload.decode(64), rl.Precision(kv="fp8")),
    )

    assert "the other's bytes are 0.5852 times this one's" in pair.reason


def test_reason_by_kernel():
    """Where two resources bound, the kernels that make the difference are named."""
    pair = Comparison(rl.predict(QWEN, H100, rl.Workload.prefill()), rl.predict(QWEN, A100, rl.Workload.prefill()))

    assert "This one takes -" in pair.reason
    assert "gate_proj -" in pair.reason
    assert "The peaks' ratio is 3.17, the bandwidths' 1.64" in pair.reason
    same = rl.predict(QWEN, H100, rl.Workload.prefill())
    assert Comparison(same, same).reason == "No kernel's time differs."


def test_reason_of_a_ratio_of_peaks():
    """GEMMs alone, compute-bound on both: the peaks' ratio, 989.4/312 = 3.171."""
    a, b = (rl.predict("7B", on, rl.Workload.decode(4096, 0)) for on in (H100, A100))

    assert "= 3.171" in Comparison(a, b).reason


def test_an_efficiency_on_one_side_is_no_ratio_of_supplies_alone():
    """Derated against undiscounted: the shares are in the ratio."""
    pair = Comparison(rl.predict(QWEN, H100), rl.predict(QWEN, H100, efficiency=(0.8, 0.75)))

    assert pair.speed == pytest.approx(1.25)
    assert "3,352 GB/s over 2,682 GB/s = 1.250" in pair.reason
    same = Comparison(rl.predict(QWEN, H100.scaled(compute=2)), rl.predict(QWEN, H100))
    assert same.reason.endswith("on the same bytes and bandwidths. The peaks' ratio of 2.00 does not matter here.")


def test_measured_rate():
    """120 of 205 tokens/s is 58.5 % of the bound; such kernels reach about 79 %, decode of one token mostly GEMMs."""
    found = measured(rl.predict(QWEN, H100), 120)

    assert found.of_bound == pytest.approx(0.5855, abs=1e-4)
    assert found.of_derated is None
    assert found.reach is not None
    assert found.reach.low < found.reach.median < found.reach.high
    assert "58.5 % of the bound" in found.sentence
    assert "reach about 79 %" in found.sentence


def test_measured_above_the_bound_is_reported_and_explained():
    """Never clamped."""
    found = measured(rl.predict(QWEN, H100), 410)

    assert found.of_bound == pytest.approx(2.0, rel=0.01)
    assert "No sound measurement is above a bound" in found.sentence


def test_measured_beside_a_derated_rate():
    """Both shares are said."""
    found = measured(rl.predict(QWEN, H100, efficiency=(0.8, 0.75)), 120)

    assert found.of_derated == pytest.approx(120 / 163.96, rel=1e-3)
    assert "of the derated rate" in found.sentence


def test_reach_of_what_nobody_measured_is_unknown():
    """A pass that collectives bound."""
    found = measured(rl.predict(QWEN, H100, rl.Workload.prefill(new=8192), shard=rl.Shard(8)), 1000)

    assert found.reach is None
    assert "unknown" in found.sentence


def test_speculation_is_no_prefill():
    """Several new tokens on a cache were not measured: no yardstick, rather than another one's."""
    assert measured(rl.predict(QWEN, H100, rl.Workload.decode(64, new=4)), 100).reach is None


def test_price():
    """$2.50 an hour at 205 tokens/s: 2.5 / 3600 / 204.95 x 1e6 = $3.388 a million tokens; two cards cost twice."""
    ledger = rl.predict(QWEN, H100)

    assert price(ledger, 2.5).per_million_tokens == pytest.approx(3.388, rel=1e-3)
    assert price(ledger, 2.5, 120).per_million_measured == pytest.approx(2.5 / 3600 / 120 * 1e6, rel=1e-12)
    two = rl.predict(QWEN, H100, shard=rl.Shard(2))
    assert price(two, 2.5).per_million_tokens == pytest.approx(
        2 * 2.5 / 3600 / two.total.tokens_per_second * 1e6, rel=1e-12
    )


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "2"])
def test_what_is_no_rate_or_price(value):
    """One clear line."""
    with pytest.raises(BadValue, match="above zero"):
        measured(rl.predict(QWEN, H100), value)
    with pytest.raises(BadValue, match="above zero"):
        price(rl.predict(QWEN, H100), value)
