"""Larger checks on a folder of real input, named by the environment variable that scripts/acceptance sets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def folder() -> Path:
    """The folder of real input."""
    return Path(os.environ["ROOFLINE_ACCEPTANCE"])


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
