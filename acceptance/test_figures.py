"""The figures file: the tests' own copy agrees with it, and every row of a subject that is built has a test."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1] / "tests" / "golden"
BUILT = re.compile(r"[RGEDKMC]\d+|Q([1-9]|1\d|2[0-5]|3[1-3])")


def rows(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "acceptance" / "published_figures.csv").open(encoding="utf-8") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_every_row_of_a_built_subject_has_a_test(folder):
    """The id of each row stands in the golden tests."""
    text = "".join(path.read_text("utf-8") for path in sorted(TESTS.iterdir()) if path.is_file())
    missing = [
        name for name in rows(folder) if BUILT.fullmatch(name.split("-")[0]) and not re.search(rf"\b{name}\b", text)
    ]

    assert missing == []


@pytest.mark.parametrize("section", ["ridge", "decode", "bound", "prefill", "mfu"])
def test_the_copies_agree(folder, section):
    """Value and tolerance of a row in the tests are those of the file, in its unit."""
    import tomllib

    units = {"ms": 1e-3, "%": 1e-2, "GFLOP": 1e9}
    published = rows(folder)
    for row in tomllib.loads((TESTS / "published.toml").read_text("utf-8"))[section]["rows"]:
        source = published.get(row["id"])
        if source is None or " " in source["value"]:
            continue
        assert row["value"] == pytest.approx(float(source["value"]) * units.get(source["unit"], 1)), row["id"]
        assert row["tolerance"] <= float(source["tolerance_rel"]) + 1e-12, row["id"]
