"""`roofline models` and `roofline devices`: the lists, one in full, and their JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import roofline as rl
from roofline import catalogue

SCHEMAS = Path(rl.__file__).parent / "data" / "schemas"


@pytest.fixture(params=catalogue.device_ids())
def device(request: pytest.FixtureRequest) -> rl.Device:
    return rl.Device.load(request.param)


def valid(record: Any) -> None:
    """The record follows the schema of the package that it names."""
    name, _, version = record["schema"].removeprefix("roofline.").partition("/")
    schema = json.loads((SCHEMAS / f"{name}-{version}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(record, schema)


def answered(answer: Any) -> str:
    """Standard output of a call that worked, every line within 80 columns."""
    assert (answer.code, answer.err) == (0, "")
    assert [line for line in answer.out.splitlines() if len(line) > 80] == []
    return answer.out


def row(text: str, ident: str) -> list[str]:
    """The cells of the line of a table that starts with an id."""
    [found] = [line for line in text.splitlines() if line.split()[:1] == [ident]]
    return found.split()


@pytest.mark.parametrize("schema", sorted(path.name for path in SCHEMAS.iterdir()))
def test_schema_files_are_schemas(schema):
    """JSON Schema 2020-12, whose records need every key."""
    loaded = json.loads((SCHEMAS / schema).read_text("utf-8"))

    jsonschema.Draft202012Validator.check_schema(loaded)
    for record in loaded["$defs"].values():
        assert record["required"] == list(record["properties"])


def test_schema_refuses_a_record_without_a_key(roofline):
    """So that the checks here can fail."""
    record = roofline("models", "gpt2", "--json").json
    del record["layers"]

    with pytest.raises(jsonschema.ValidationError, match="layers"):
        valid(record)


# models


def test_models_lists_every_model(roofline):
    """A line each, with its exact parameters."""
    text = answered(roofline("models"))

    for ident, model in catalogue.models():
        assert f"{model.parameters().total:,}" in row(text, ident)


def test_line_of_a_model(roofline):
    """Qwen3-8B: 36 layers, 2 x 8 x 128 x 36 x 2 bytes of cache a token."""
    assert row(answered(roofline("models")), "qwen3-8b") == ["qwen3-8b", "Qwen3-8B", "8,190,735,360", "36", "144"]


def test_models_as_json(roofline):
    """Follows the schema, and has every model in order."""
    answer = roofline("models", "--json")
    record = answer.json

    assert (answer.code, answer.err) == (0, "")
    valid(record)
    assert [each["id"] for each in record["models"]] == catalogue.model_ids()
    assert {each["id"]: each["kv_bytes_per_token"] for each in record["models"]}["qwen3-8b"] == 147_456


@pytest.mark.parametrize("name", catalogue.model_ids())
def test_model_in_full(roofline, name):
    """Its counts and its source."""
    text = answered(roofline("models", name))
    model = rl.Model.load(name)

    assert text.startswith(f"{model.name}\n")
    assert f"{model.parameters().total:,}" in text
    assert model.sources["config"].split(",")[0].split()[-1] in text


@pytest.mark.parametrize("name", catalogue.model_ids())
def test_model_in_full_as_json(roofline, name):
    """Follows the schema, with the same counts."""
    record = roofline("models", name, "--json").json
    model = rl.Model.load(name)

    valid(record)
    assert record["parameters"]["total"] == record["parameters"]["active"] == model.parameters().total
    assert record["weight_bytes"] == 2 * model.parameters().total
    assert record["sources"] == dict(model.sources)


def test_model_by_hand(roofline):
    """Qwen3-8B: a table of 151,936 x 4,096, 15.26 GiB, 147,456 bytes of cache a token, 40,960 positions."""
    text = answered(roofline("models", "Qwen/Qwen3-8B"))

    for figure in ("8,190,735,360", "622,329,856", "147,456 B", "15.26 GiB", "40,960"):
        assert figure in text


def test_model_from_a_file_tells_what_it_assumes(roofline, tmp_path):
    """In both forms."""
    keys = {"model_type": "brand_new", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4}
    keys |= {"num_attention_heads": 8, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(keys))
    record = roofline("models", tmp_path, "--json").json

    valid(record)
    assert record["max_positions"] is None
    assert any("brand_new" in each for each in record["assumptions"])
    assert "brand_new" in answered(roofline("models", tmp_path))


# devices


def test_devices_lists_every_device(roofline):
    """A line each."""
    text = answered(roofline("devices"))

    for ident in catalogue.device_ids():
        assert row(text, ident)


def test_line_of_a_device(roofline):
    """H100: dense BF16, decimal bandwidth, binary capacity as the driver reports it, the ridge between."""
    assert row(answered(roofline("devices")), "h100-sxm")[-4:] == ["989.4", "3,352", "79.33", "295"]


def test_figures_of_a_line_are_whole(roofline, device):
    """No number is cut short in 80 columns: peak, bandwidth, capacity, ridge."""
    peak, bandwidth, capacity, ridge = (
        float(cell.replace(",", "")) for cell in row(answered(roofline("devices")), device.id)[-4:]
    )

    assert peak == pytest.approx(device.rate("bf16") / 1e12, rel=5e-4)
    assert bandwidth == pytest.approx(device.bandwidth / 1e9, rel=5e-4)
    assert capacity == pytest.approx(device.capacity / 2**30, rel=5e-4)
    assert ridge == pytest.approx(device.ridge_point("bf16"), rel=5e-3)


def test_devices_as_json(roofline):
    """Follows the schema, and has every device in order."""
    answer = roofline("devices", "--json")
    record = answer.json

    assert (answer.code, answer.err) == (0, "")
    valid(record)
    assert [each["id"] for each in record["devices"]] == catalogue.device_ids()


def test_device_in_full(roofline, device):
    """Every figure with its status, every source and every conflict."""
    text = answered(roofline("devices", device.id))
    words = " ".join(text.split())

    assert text.startswith(f"{device.name} ({device.id})")
    for key, figure in device.figures.items():
        assert figure.status in row(text, key)
        for source in figure.source:
            assert f"· {source}: {catalogue.source_titles()[source][:30]}" in words
    assert ("Sources that disagree" in text) is bool(device.conflicts)
    for conflict in device.conflicts:
        assert " ".join(conflict.verdict.split()) in words


def test_device_in_full_as_json(roofline, device):
    """Follows the schema; figures in base units, ridges with them, sources by title."""
    record = roofline("devices", device.id, "--json").json
    [found] = record["devices"]

    valid(record)
    assert found["peaks"] == dict(device.peak)
    assert found["ridge"] == {rate: peak / device.bandwidth for rate, peak in device.peak.items()}
    assert found["capacity_bytes"] == device.capacity
    assert {key: entry["value"] for key, entry in found["sources"].items()} == {
        key: figure.value for key, figure in device.figures.items()
    }
    titles = set(catalogue.source_titles().values())
    assert all(title in titles for entry in found["sources"].values() for title in entry["source"])
    assert len(found["conflicts"]) == len(device.conflicts)


def test_device_by_hand(roofline):
    """H100 SXM: 132 SMs, 50 MiB of L2, 450 GB/s a direction, and why 989.4 it is."""
    text = answered(roofline("devices", "h100-sxm"))

    assert row(text, "peak.bf16")[1:5] == ["989.4", "TFLOP/s", "295", "quoted"]
    assert row(text, "memory.bandwidth")[1:3] == ["3,352", "GB/s"]
    assert row(text, "cache.l2")[1:3] == ["50", "MiB"]
    assert row(text, "link.nvlink.bandwidth")[1:3] == ["450.0", "GB/s"]
    assert row(text, "chip.compute_units")[1] == "132"
    assert "1978.9 TFLOP/s (nv-h100-wp-v104-quoted: with sparsity)" in " ".join(text.split())


def test_short_name_of_a_device_says_what_it_is_taken_for(roofline):
    """Above its figures."""
    assert answered(roofline("devices", "H100")).split("\n")[1] == (
        "H100 is taken as h100-sxm (NVIDIA H100 SXM5 80GB)."
    )


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_device_from_a_file(roofline, tmp_path, form):
    """What is unknown is said to be, and a source without a title stands for itself."""
    path = tmp_path / "card.toml"
    path.write_text(
        'id = "mine"\nname = "My card"\n'
        '[memory]\nbandwidth = { value = "1 TB/s", status = "measured", source = "my bench" }\n'
        '[peak]\nint8 = { value = "100 TOP/s", status = "measured", source = "my bench" }\n',
        "utf-8",
    )
    answer = roofline("devices", path, *form)

    if form:
        valid(answer.json)
        [found] = answer.json["devices"]
        assert (found["capacity_bytes"], found["l2_bytes"], found["link_bandwidth"]) == (None, None, None)
        assert found["sources"]["peak.int8"]["source"] == ["my bench"]
        assert found["ridge"] == {"int8": 100.0}
    else:
        assert "my bench" in answered(answer)
