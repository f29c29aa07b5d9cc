"""Real config.json files: exact parameters for what is counted, a refusal with its key for what is not."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

import pytest

import roofline as rl


def expected(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "configs" / "expected_parameters.csv").open(encoding="utf-8") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


# Recurrent layers, which are refused by the key that says so.
RECURRENT = {"qwen3_5", "qwen3_5_moe", "nemotron_h"}
# The file's vocab_size is 128,896; the figure was counted with the 128,815 that transformers' class has by default,
# as that reads no text model from a flat file: two tables of 81 rows of 4,096 less.
OTHER_TABLE = {"stepfun-ai__Step-3.7-Flash.json": 81 * 4096}


def test_parameters_are_exact(folder):
    """Difference 0 in total, embedding and experts of every text model; a tower that is not counted is null."""
    checked = 0
    for name, row in expected(folder).items():
        if row["model_type"] in RECURRENT or not row["parameters_total"]:
            continue
        counted = rl.Model.load(folder / "configs" / name).parameters()
        rows = OTHER_TABLE.get(name, 0)
        vision = int(row["parameters_vision"])
        assert counted.total == int(row["parameters_total"]) - vision + 2 * rows, name
        assert counted.embedding == int(row["parameters_embedding"]) + rows, name
        assert counted.experts == int(row["parameters_experts"]), name
        checked += 1
    assert checked >= 20


def test_kimi_k2_is_the_text_model_of_kimi_k2_5(folder):
    """The one file without a figure has the counts of the other's text model."""
    first, second = (
        rl.Model.load(folder / "configs" / f"moonshotai__Kimi-K2{name}.json").parameters()
        for name in ("-Instruct", ".5")
    )

    assert first.total == second.text == 1_026_408_209_408
    assert first.experts == second.experts


def test_every_vision_tower_is_named(folder):
    """Never silently text alone."""
    for path in sorted((folder / "configs").glob("*.json")):
        keys = json.loads(path.read_text("utf-8"))
        if keys.get("vision_config") and keys["model_type"] not in RECURRENT:
            model = rl.Model.load(path)
            assert model.parameters().vision is None, path.name
            assert any("vision" in each and "not counted" in each for each in model.assumptions), path.name


def test_recurrent_configs_are_refused_by_the_key_that_decides(folder):
    """Never silently a Llama: a structure that is not counted yet is one clear error that names its key."""
    refused = 0
    for name, row in expected(folder).items():
        if row["model_type"] in RECURRENT:
            with pytest.raises(rl.RooflineError, match="not counted yet") as caught:
                rl.Model.load(folder / "configs" / name)
            assert "\n" not in str(caught.value)
            refused += 1
    assert refused == 3


def test_every_config_predicts_on_every_device(folder):
    """A ledger with positive times and a verdict, whether it fits or not, on each device with a BF16 rate."""
    from roofline.catalogue import devices

    for name, row in expected(folder).items():
        if row["model_type"] not in RECURRENT:
            model = rl.Model.load(folder / "configs" / name)
            for device in (each for each in devices() if "bf16" in each.peak):
                workload = rl.Workload.mixed(rl.Workload.decode(8), rl.Workload.prefill(1, 512, 100))
                total = rl.predict(model, device, workload).total
                assert total.seconds >= total.floor_seconds > 0
            record = rl.predict(model, "h100-sxm").to_dict()
            assert record["verdict"]
            assert record["total"]["bytes"] == sum(each["bytes"] for each in record["kernels"])


def test_reading_takes_a_few_milliseconds(folder):
    """The fastest of five readings of each; printed with -s."""
    for name, row in expected(folder).items():
        if row["model_type"] not in RECURRENT:
            times: list[float] = []
            for _ in range(5):
                start = time.perf_counter()
                rl.Model.load(folder / "configs" / name)
                times.append(time.perf_counter() - start)
            print(f"{name}: {min(times) * 1e3:.2f} ms")
