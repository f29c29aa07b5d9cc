"""docs/models.md says what is supported today."""

from __future__ import annotations

from pathlib import Path

from models_page import page


def test_the_page_is_up_to_date():
    """`scripts/models-page` writes it."""
    written = (Path(__file__).parents[1] / "docs" / "models.md").read_text("utf-8")

    assert written == page()
