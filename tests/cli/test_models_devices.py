"""`roofline models`: the list, one in full, and their JSON; and the schemas of all records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import roofline as rl
from roofline import catalogue

SCHEMAS = Path(rl.__file__).parent / "data" / "schemas"


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
    counts = record["parameters"]
    assert counts["total"] == model.parameters().total
    assert (counts["active"] == counts["total"]) == (counts["experts"] == 0)
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
