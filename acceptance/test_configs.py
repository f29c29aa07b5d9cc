"""Real config.json files: exact parameters for what is counted, a refusal with its key for what is not."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

import roofline as rl


def expected(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "configs" / "expected_parameters.csv").open(encoding="utf-8") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


# The file's vocab_size is 128,896; the figure was counted with the 128,815 that transformers' class has by default,
# as that reads no text model from a flat file: two tables of 81 rows of 4,096 less.
OTHER_TABLE = {"stepfun-ai__Step-3.7-Flash.json": 81 * 4096}


def test_parameters_are_exact(folder):
    """Difference 0 in total, vision, embedding and experts of every row."""
    checked = 0
    for name, row in expected(folder).items():
        if not row["parameters_total"]:
            continue
        counted = rl.Model.load(folder / "configs" / name).parameters()
        rows = OTHER_TABLE.get(name, 0)
        assert counted.total == int(row["parameters_total"]) + 2 * rows, name
        assert counted.vision == int(row["parameters_vision"]), name
        assert counted.experts == int(row["parameters_experts"]), name
        if row["parameters_embedding"]:
            assert counted.embedding == int(row["parameters_embedding"]) + rows, name
        checked += 1
    assert checked >= 24


def test_kimi_k2_is_the_text_model_of_kimi_k2_5(folder):
    """The one file without a figure has the counts of the other's text model."""
    first, second = (
        rl.Model.load(folder / "configs" / f"moonshotai__Kimi-K2{name}.json").parameters()
        for name in ("-Instruct", ".5")
    )

    assert first.total == second.text == 1_026_408_209_408
    assert first.experts == second.experts


def test_every_vision_tower_is_counted(folder):
    """In the total, or apart where the family's causal language model is without it; the answer says its size."""
    found = 0
    for path in sorted((folder / "configs").glob("*.json")):
        if json.loads(path.read_text("utf-8")).get("vision_config"):
            model = rl.Model.load(path)
            counted = model.parameters()
            tower = (counted.vision or 0) + counted.vision_apart
            assert tower > 400_000_000, path.name
            assert any(f"{tower:,} parameters" in each for each in model.assumptions), path.name
            found += 1
    assert found >= 5


def test_the_state_of_hybrids_does_not_grow(folder):
    """Three configs with recurrent layers: as much at 1,000 tokens as at a million."""
    found = 0
    for name, row in expected(folder).items():
        if row["model_type"] in ("qwen3_5", "qwen3_5_moe", "nemotron_h"):
            model = rl.Model.load(folder / "configs" / name)
            state = next(each for each in model.caches() if "state" in each.sort)
            formats = rl.Precision(), rl.Shard()
            assert state.bytes(1000, *formats) == state.bytes(1 << 20, *formats) > 0
            found += 1
    assert found == 3


def test_every_config_predicts_on_every_device(folder):
    """A ledger with positive times and a verdict, whether it fits or not, on each device with a BF16 rate."""
    from roofline.catalogue import devices

    for name in expected(folder):
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
    for name in expected(folder):
        times: list[float] = []
        for _ in range(5):
            start = time.perf_counter()
            rl.Model.load(folder / "configs" / name)
            times.append(time.perf_counter() - start)
        print(f"{name}: {min(times) * 1e3:.2f} ms")


# Bytes that follow by hand from the files' own lists: elements that are stored smaller, their bytes, and the rest in 16
# bits. gpt-oss's are those of its published checkpoint's index.
STORED = {
    "openai__gpt-oss-20b.json": 13_761_264_768,
    "moonshotai__Kimi-K2.5.json": 1_014_686_023_680 * 9 // 16 + 2 * (1_026_879_353_328 - 1_014_686_023_680),
}


def test_stored_bytes_follow_from_the_files(folder):
    """Every quantised config: fewer bytes than in 16 bits, those of the worked examples exactly."""
    found = 0
    for path in sorted((folder / "configs").glob("*.json")):
        keys = json.loads(path.read_text("utf-8"))
        if "quantization_config" in keys or "quantization_config" in keys.get("text_config", {}):
            model = rl.Model.load(path)
            held, whole = (model.weight_bytes(rl.Precision(each), rl.Shard()) for each in ("stored", "bf16"))
            assert 0.25 * whole < held < 0.55 * whole, path.name
            assert held == STORED.get(path.name, held), path.name
            assert rl.predict(model, "h100-sxm").precision.weights == "stored"
            found += 1
    assert found >= 9


def test_fp8_blocks_by_hand(folder):
    """Qwen3-32B: 64 layers of seven matrices, a byte an element and an FP32 scale for each 128 x 128."""
    model = rl.Model.load(folder / "configs" / "Qwen__Qwen3-32B-FP8.json")
    hidden, wide, heads, kv_heads = 5120, 25600, 64 * 128, 8 * 128
    shapes = [(heads, hidden), (kv_heads, hidden), (kv_heads, hidden), (hidden, heads)]
    shapes += [(wide, hidden), (wide, hidden), (hidden, wide)]
    inside = 64 * sum(rows * columns for rows, columns in shapes)
    scales = 64 * sum(4 * (rows // 128) * (columns // 128) for rows, columns in shapes)

    assert model.weight_bytes(rl.Precision("stored"), rl.Shard()) == 2 * (32_762_123_264 - inside) + inside + scales
