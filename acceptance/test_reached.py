"""What measured kernels reach of their bound: the quartiles in the package are those of the files."""

from __future__ import annotations

import csv
import statistics
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import roofline as rl

TABLE = tomllib.loads((Path(rl.__file__).parent / "data" / "reached.toml").read_text("utf-8"))
DEVICES = {"h100_sxm": "h100-sxm", "a100_sxm": "a100-sxm-80gb"}
SHORTEST = 20e-6


def rows(folder: Path, name: str) -> Iterator[dict[str, str]]:
    with (folder / "measured" / name).open(newline="") as file:
        yield from (row for row in csv.DictReader(file) if row["fits_l2"] != "1")


def work_of(row: dict[str, str], phase: str) -> rl.Work | None:
    """The attention of a row in BF16, with a cache in BF16 or FP8."""
    kv = {"bfloat16": "bf16", "fp8": "fp8"}.get(row["kv_cache_dtype"])
    if row["attn_dtype"] != "bfloat16" or kv is None:
        return None
    decode = phase == "decode"
    return rl.ops.attention(
        sequences=int(row["batch_size"]),
        new=1 if decode else int(row["isl"]),
        context=int(row["history_len"]) + 1 if decode else 0,
        heads=int(row["num_heads"]),
        kv_heads=int(row["num_key_value_heads"]),
        head_dim=int(row["head_dim"]),
        kv=kv,
        window=int(row["window_size"]) or None,
    )


def shares(folder: Path) -> dict[tuple[str, str, str], list[float]]:
    """Bound over measured time of every kernel, by operation, phase and resource."""
    found: dict[tuple[str, str, str], list[float]] = {}

    def put(op: str, phase: str, work: rl.Work | None, row: dict[str, str]) -> None:
        if work is not None:
            bound = rl.place(work, rl.Device.load(DEVICES[row["system"]])).bound
            if bound.seconds >= SHORTEST:
                found.setdefault((op, phase, bound.by), []).append(bound.seconds / float(row["latency_us"]) * 1e6)

    for row in (row for row in rows(folder, "gemm_h100_a100.csv") if row["gemm_dtype"] == "bfloat16"):
        put("linear", "", rl.ops.linear(m=int(row["m"]), n=int(row["n"]), k=int(row["k"])), row)
    for phase in ("decode", "prefill"):
        for row in rows(folder, f"attn_{phase}_h100_a100.csv"):
            put("attention", phase, work_of(row, phase), row)
    for row in rows(folder, "elementwise_h100.csv"):
        moved = 3 * int(row["m"]) * int(row["k"])
        put("elementwise", "", rl.Work("elementwise", {}, rl.Cost({}, {"activations": moved})), row)
    return found


def test_quartiles_are_those_of_the_files(folder):
    """Low, median and high of each kind, to the digit that is printed, and how many kernels."""
    found = shares(folder)

    for kind in TABLE["kind"]:
        op = "elementwise" if "elementwise" in kind["ops"] else kind["ops"][0]
        measured = found[op, kind.get("phase", ""), kind["bound"]]
        assert len(measured) == kind["measured"]
        assert [kind[each] for each in ("low", "median", "high")] == pytest.approx(
            statistics.quantiles(measured, n=4), abs=6e-4
        )


def test_no_measured_kernel_is_below_its_bound(folder):
    """Operands larger than the L2 cache, bound over 20 us: none is faster."""
    assert max(max(each) for each in shares(folder).values()) < 1
