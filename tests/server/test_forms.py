"""The server's forms in a browser: what a reader sends arrives, as only a real browser can show."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from browser import chromium
from roofline.server.app import application
from roofline.server.run import listening
from server.test_profiles import TRACE
from server.test_server import CONFIG


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server on a free port."""
    with listening("127.0.0.1", 0) as sock:
        server = uvicorn.Server(uvicorn.Config(application(), log_level="warning"))
        thread = threading.Thread(target=server.run, args=([sock],), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def home(browser, address) -> Iterator[Any]:
    """The first page; nothing is said on the console, and nothing asked for elsewhere, until the end."""
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith((address, "data:")) else said.append(request.url))
    page.goto(address)
    yield page
    assert said == []
    page.close()


def test_a_pasted_config_arrives(home):
    """A config.json in the form gives the live page of that model: the browser names where the form came from."""
    home.fill("#name", "Tiny")
    home.fill("#config", json.dumps(CONFIG))
    home.click("form[action='/model'] button")
    home.wait_for_selector("body[data-ready]")

    assert home.text_content("#subject").startswith("Tiny on ")


def test_a_chosen_config_arrives(home, tmp_path: Path):
    """A chosen file is read into the form."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG), "utf-8")
    home.set_input_files("#file", file)
    expect(home.locator("#config")).to_have_value(json.dumps(CONFIG))
    home.fill("#name", "Chosen")
    home.click("form[action='/model'] button")
    home.wait_for_selector("body[data-ready]")

    assert home.text_content("#subject").startswith("Chosen on ")


def test_a_profile_arrives(home, tmp_path: Path):
    """A trace in the form gives its report, and Axe finds nothing wrong with either page."""
    first = Axe().run(home).response["violations"]
    file = tmp_path / "run.json"
    file.write_bytes(TRACE)
    home.set_input_files("#profile", file)
    home.click("form[action='/profile'] button")
    home.wait_for_url("**/profile")

    assert home.text_content("h1") == "NVIDIA H100 80GB HBM3"
    assert [each["id"] for each in (*first, *Axe().run(home).response["violations"])] == []
