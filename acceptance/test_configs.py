"""Real config.json files: exact parameters for what is counted, a refusal with its key for what is not."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import roofline as rl


def expected(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "configs" / "expected_parameters.csv").open(encoding="utf-8") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


DENSE = {"qwen3", "llama"}


def test_dense_parameters_are_exact(folder):
    """Difference 0 in the total and the embedding of every dense decoder."""
    checked = 0
    for name, row in expected(folder).items():
        if row["model_type"] in DENSE:
            counted = rl.Model.load(folder / "configs" / name).parameters()
            assert counted.total == int(row["parameters_total"]), name
            assert counted.embedding == int(row["parameters_embedding"]), name
            checked += 1
    assert checked >= 6


def test_every_other_config_is_refused_by_the_key_that_decides(folder):
    """Never silently a Llama: a structure that is not counted yet is one clear error that names its key."""
    for path in sorted((folder / "configs").glob("*.json")):
        keys = json.loads(path.read_text("utf-8"))
        if keys.get("model_type") in DENSE:
            continue
        with pytest.raises(rl.RooflineError, match=r"not counted yet|is missing") as caught:
            rl.Model.load(path)
        assert "\n" not in str(caught.value)


def test_every_dense_config_predicts_on_every_device(folder):
    """A ledger with positive times and a verdict, whether it fits or not, on each device with a BF16 rate."""
    from roofline.catalogue import devices

    for name, row in expected(folder).items():
        if row["model_type"] in DENSE:
            model = rl.Model.load(folder / "configs" / name)
            for device in (each for each in devices() if "bf16" in each.peak):
                record = rl.predict(model, device, rl.Workload.decode(8)).to_dict()
                assert record["total"]["seconds"] > 0
                assert record["verdict"]
