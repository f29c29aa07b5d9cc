"""Measured kernels of experts and latent attention: none is faster than its bound where tokens spread evenly."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import roofline as rl
from roofline.routing import Routing, Spread

RATES = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8"}


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "measured" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("share", ["even", "fewest"])
def test_fused_experts(folder, h100, share):
    """Both grouped GEMMs as one kernel: each expert touched once, x in, y out; even spread, or any with the fewest."""
    checked = 0
    for row in rows(folder, "moe_h100.csv"):
        even = row["distribution"] == "balanced"
        if row["moe_dtype"] not in RATES or row["moe_ep_size"] != "1" or (share == "even" and not even):
            continue
        tokens, hidden, width, top_k, experts, ranks = (
            int(row[key]) for key in ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size")
        )
        rate, width = RATES[row["moe_dtype"]], width // ranks
        routing = Routing(experts, top_k, tokens, Spread())
        touched = routing.touched if share == "even" else routing.fewest
        common = {
            "tokens": tokens,
            "top_k": top_k,
            "experts": experts,
            "touched": touched,
            "weights": rate,
            "compute": rate,
        }
        up = rl.ops.moe(n=2 * width, k=hidden, **common)
        down = rl.ops.moe(n=hidden, k=width, **common)
        read = sum(work.cost.memory[role] for work in (up, down) for role in ("weights", "routed"))
        bound = max((up.flops + down.flops) / h100.peak[rate], (read + 2 * tokens * hidden * 2) / h100.bandwidth)
        assert bound * 1e6 <= float(row["latency_us"]), row
        checked += 1
    assert checked >= 300


def test_latent_decode(folder, h100):
    """Every row of the decode kernel over cached latents."""
    found = rows(folder, "mla_decode_h100.csv")
    for row in found:
        work = rl.ops.attention(
            sequences=int(row["batch_size"]),
            new=1,
            context=int(row["history_len"]) + 1,
            heads=int(row["num_heads"]),
            kv_heads=1,
            head_dim=512 + 64,
            value_dim=512,
            latent=True,
            kv="fp8" if row["kv_cache_dtype"] == "fp8" else "bf16",
        )
        assert rl.place(work, h100).bound.seconds * 1e6 <= float(row["latency_us"]), row
    assert len(found) >= 300


@pytest.fixture
def h100() -> rl.Device:
    return rl.Device.load("h100-sxm")
