"""The live page in a browser, for the tests that look at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from browser import chromium
from roofline.catalogue import load_model
from roofline.show.live import live_page
from show.live_browser import MODELS, Opened
from show.live_cases import QUANTISED


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def models() -> dict[str, rl.Model]:
    return {**{name: load_model(name) for name in MODELS}, "quantised": load_model(QUANTISED)}


@pytest.fixture(scope="module")
def file(tmp_path_factory, models) -> Path:
    """The page as a file."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(live_page(models), "utf-8")
    return path


@pytest.fixture
def opened(browser, file) -> Iterator[Opened]:
    found = Opened(browser, file)
    yield found
    found.context.close()
