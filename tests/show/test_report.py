"""The report: one file, complete, that asks for nothing and runs nothing that a name says."""

from __future__ import annotations

import json
import os
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

import roofline as rl
from roofline.show.report import Finding, Head, Key, Line, Report, Section, Table, ledger_report


class Text(HTMLParser):
    """The visible text, and the start tags with their attributes."""

    def __init__(self, text: str):
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.hidden = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.hidden += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.hidden and data.strip():
            self.words.append(" ".join(data.split()))


@pytest.fixture(scope="module")
def decode() -> rl.Ledger:
    return rl.predict("qwen3-8b", "h100-sxm", rl.Workload.decode(sequences=64, context=8192))


@pytest.fixture(scope="module")
def html(decode) -> str:
    return ledger_report(decode, "roofline predict qwen3-8b --device h100-sxm --sequences 64").html()


def test_report_says_everything(html, decode):
    """Verdict, figures with their units, every kernel, memory, assumptions, sources, the command."""
    words = Text(html).words
    whole = " ".join(words)

    assert "Memory-bound: attention over the KV cache takes 83 % of the pass" in whole
    for figure in ("27.80 ms", "27.58 ms", "29.10 ms", "13.7 FLOP/byte", "4.6 %", "2,302 tokens/s"):
        assert figure in whole
    for point in decode:
        assert point.name in words
    assert "Does not fit: 87.28 GiB of 79.33 GiB (as the driver reports it)." in whole
    for each in decode.assumptions:
        assert each in whole
    assert "NVIDIA H100 whitepaper, Table 1 (p. 20)" in whole
    assert "roofline predict qwen3-8b --device h100-sxm --sequences 64" in words
    assert "Made by roofline" in whole


def test_every_row_has_a_cell_for_every_head(html):
    """Tables are whole."""
    tables = re.findall(r"<table.*?</table>", html[: html.index("<script>")], re.DOTALL)
    assert len(tables) == 3
    for table in tables:
        heads = table.count("<th ")
        assert {row.count("<td") for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)[1:]} == {heads}


def test_report_asks_for_nothing(html):
    """No attribute names an address, and the policy forbids every request."""
    tags = Text(html).tags
    names = {"src", "href", "xlink:href", "srcset", "action", "data", "poster", "background", "cite"}

    assert [value for _, given in tags for name, value in given.items() if name in names and value] == []
    assert [name for _, given in tags for name in given if name.startswith("on")] == []
    policy = next(given["content"] for _, given in tags if given.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe-eval" not in policy


def test_report_is_the_same_from_run_to_run(html, decode):
    """Byte for byte."""
    assert ledger_report(decode, "roofline predict qwen3-8b --device h100-sxm --sequences 64").html() == html


def test_derated_report_has_both_times():
    """With an efficiency the table has the bound and the derated time."""
    ledger = rl.predict("qwen3-8b", "h100-sxm", efficiency=(0.8, 0.75))
    words = Text(ledger_report(ledger).html()).words

    assert "bound ms" in words
    assert "derated ms" in words
    assert "Reproduce" not in words


def test_report_of_an_unknown_capacity(h100, decode):
    """Unknown is said."""
    from dataclasses import replace

    ledger = rl.predict(decode.model, replace(h100, capacity=None))
    assert "The capacity of h100-sxm is unknown." in ledger_report(ledger).html()


HOSTILE = "<script>alert(1)</script> a\x1b[31mred r\u202etl {{ 7*7 }}{% raw %} </style><b> end"


@pytest.mark.parametrize("name", [HOSTILE, "x" * 3000], ids=["hostile", "long"])
def test_hostile_names_are_text(name, html):
    """Every text of a report may come from a file: it shows as text."""
    from dataclasses import replace

    device = replace(rl.Device.load("h100-sxm"), name=name)
    model = replace(rl.Model.load("qwen3-8b"), name=name, assumptions=(name,), sources={name: name})
    ledger = rl.predict(model, device)
    sound, html = Text(html), ledger_report(ledger, name).html()
    page = Text(html)

    assert [tag for tag, _ in page.tags if tag in ("script", "b", "style")] == [
        tag for tag, _ in sound.tags if tag in ("script", "b", "style")
    ]
    shown = html[: html.index("<script>")]
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", shown)
    visible = name if name.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
    assert any(visible[:50] in word for word in page.words)
    for block in re.findall(r'<script type="application/json">(.*?)</script>', html, re.DOTALL):
        assert json.loads(block)["signals"]


def test_a_report_of_anything():
    """A report knows no ledger: findings, strong rows and notes stand where they are put."""
    report = Report(
        "Diagnosis",
        "a run",
        "3 steps",
        "Host-bound: the device waits.",
        [Key("idle", "41 %", "of the window")],
        [
            Section(
                "Kernels", [Line("two lines", strong=True)], table=Table([Head("kernel", "name")], [["a"], ["b"]], 1)
            )
        ],
        notes=["The trace is cut."],
        findings=[Finding("Launch gaps: 1.2 ms a step", "Capture the step in a CUDA graph.", ["41 % idle", "<i>"])],
    )
    words = Text(report.html()).words

    assert words.index("The trace is cut.") < words.index("Host-bound: the device waits.")
    assert "What to change first" in words
    assert "Launch gaps: 1.2 ms a step" in words
    assert "<i>" in words
    assert report.kernels.rows[1] == ["b"]
    assert "<script" not in report.html()


BROWSER = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


def browser_is_there() -> str:
    """Why no browser can be driven here, or nothing."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "the playwright package is not installed"
    return "" if BROWSER else "there is no Chromium (Debian's package chromium, or its path in CHROMIUM)"


@pytest.mark.skipif(bool(browser_is_there()) and not os.environ.get("CI"), reason=browser_is_there() or "none")
@pytest.mark.filterwarnings("ignore")
def test_report_opens_from_a_disk(html, tmp_path: Path):
    """In a browser: no request but the file, no error, the charts live, wide and narrow, hover with units."""
    from playwright.sync_api import sync_playwright

    path = tmp_path / "report.html"
    path.write_text(html, "utf-8")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        for width, scheme in ((1000, "light"), (390, "dark")):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            said: list[str] = []
            asked: list[str] = []
            page.on("console", lambda message, said=said: said.append(message.text))
            page.on("pageerror", lambda error, said=said: said.append(str(error)))
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.goto(path.as_uri())
            page.wait_for_function("document.querySelectorAll('.live svg').length === 3")

            assert said == []
            assert asked == [path.as_uri()]
            assert page.evaluate("document.documentElement.scrollWidth") == width
            page.hover('.live path[aria-roledescription="kernel"]')
            page.wait_for_selector("#vg-tooltip-element.visible")
            tip = page.inner_text("#vg-tooltip-element")
            for text in ("attention", "309.2 GFLOP", "77.36 GB", "3.998 FLOP/byte", "23.08 ms", "83 %"):
                assert text in tip
            page.emulate_media(media="print")
            assert page.is_visible(".light svg")
            assert not page.is_visible(".live svg")
        browser.close()
