"""Published training runs: printed MFU and HFU within 0.15 points, and no step faster than its bound."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import roofline as rl
from roofline.training.conventions import Subject
from roofline.training.utilisation import Peak, Run, mfu

DEVICES = {"h100_80gb": "h100-sxm", "a100_80gb": "a100-sxm-80gb", "a100_40gb": "a100-sxm-40gb"}


@pytest.fixture(scope="session")
def runs(folder: Path) -> list[dict[str, str]]:
    with (folder / "measured" / "train_mosaicml_h100_a100.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def answer(row: dict[str, str]):
    rate = "fp8" if row["precision"] == "amp_fp8" else "bf16"
    size = int(row["n_params"])
    subject = Subject(size, size, width=int(row["n_layers"]) * int(row["d_model"]))
    peak = Peak.of(rl.Device.load(DEVICES[row["gpu"]]), rate)
    gpus = int(row["gpus"])
    return mfu(subject, peak, Run(float(row["tokens_per_s_gpu"]) * gpus, gpus), sequence=int(row["seq_len"]))


def test_printed_shares_within_015_points(runs):
    """6N + 12LHQT over the dense peak of the rate in use; with checkpointing HFU is 8N + 16LHQT."""
    assert len(runs) == 216
    for row in runs:
        found = answer(row)
        executed = "hfu-full" if row["act_ckpt"] == "True" else "palm"
        assert 100 * found.value("palm") == pytest.approx(float(row["mfu_pct"]), abs=0.15), row
        assert 100 * found.value(executed) == pytest.approx(float(row["hfu_pct"]), abs=0.15), row
