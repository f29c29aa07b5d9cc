"""Published figures of training runs and of collectives, through the command line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

PUBLISHED = tomllib.loads((Path(__file__).parent / "published.toml").read_text("utf-8"))


def rows(section: str) -> list[Any]:
    return [pytest.param(row, id=row["id"]) for row in PUBLISHED[section]["rows"]]


@pytest.mark.parametrize("row", rows("mfu"))
def test_mfu(roofline, row):
    """A published share, under the convention that its source uses."""
    answer = roofline("mfu", *PUBLISHED["mfu"][row["run"]], *row.get("extra", ()), "--json")

    found = {each["name"]: each["value"] for each in answer.json["conventions"]}
    assert found[row["convention"]] == pytest.approx(row["value"], rel=row["tolerance"])


@pytest.mark.parametrize("row", rows("collective"))
def test_collective(roofline, row):
    """Bytes, times and shares of a collective."""
    found = roofline("collective", *row["run"], "--json").json

    assert {**found, **(found["step"] or {})}[row["figure"]] == pytest.approx(row["value"], rel=row["tolerance"])


@pytest.mark.parametrize("row", rows("train"))
def test_share_of_a_step(roofline, row):
    """What the gradients take beside the compute, without overlap."""
    found = roofline(*PUBLISHED["train"]["run"], *row["extra"], "--json").json

    assert found["communication"]["share"] == pytest.approx(row["value"], rel=row["tolerance"])
