"""Charts save in every format, the same from run to run, ask for nothing from elsewhere, and show themselves."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

import roofline as rl
from roofline.show.chart import FORMATS, Chart

HOSTILE = "<script>alert(1)</script> a\x1b[31mred\x00 r\u202etl \"&'<img src=x onerror=y> line\nbreak"


@pytest.fixture(scope="module")
def chart() -> Chart:
    return rl.predict("qwen3-8b", "h100-sxm", rl.Workload.decode(sequences=64, context=8192)).chart()


def hostile_chart(name: str) -> Chart:
    """A chart in which everything that can have a name from a file has this one."""
    from dataclasses import replace

    from roofline.show import charts

    device = replace(rl.Device.load("h100-sxm"), id=name, name=name)
    points = [rl.place(rl.ops.linear(m=m, n=4096, k=4096), device, name=name) for m in (1, 1024)]
    points.append(rl.place(rl.ops.copy(n=100), device, name=name))
    return charts.roofline(points, devices=[device, rl.Device.load("a100-sxm-80gb")], title=name, subtitle=[name])


@pytest.mark.parametrize("suffix", FORMATS)
def test_saves_each_format(chart, tmp_path, suffix):
    """The file is of the kind that its suffix names."""
    path = chart.save(tmp_path / f"x{suffix}")
    head = path.read_bytes()[:15]

    starts = {".svg": b"<svg ", ".png": b"\x89PNG\r\n", ".pdf": b"%PDF-", ".html": b"<!doctype html>", ".json": b"{\n"}
    assert head.startswith(starts[suffix])


def test_a_suffix_in_capitals_is_one(chart, tmp_path):
    """As cameras write them."""
    assert chart.save(tmp_path / "X.JSON").exists()


def test_another_suffix_is_refused(chart, tmp_path):
    """With those that are possible; nothing is written."""
    with pytest.raises(rl.RooflineError, match="Possible suffixes: svg, png, pdf, html, json"):
        chart.save(tmp_path / "x.bmp")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_refused(chart, tmp_path):
    """One line with the reason."""
    with pytest.raises(rl.RooflineError, match=r"cannot be written: No such file or directory"):
        chart.save(tmp_path / "no" / "x.json")
    with pytest.raises(rl.RooflineError, match="cannot be written"):
        chart.save(tmp_path / "a\x00b.json")


def test_svg_is_the_same_from_run_to_run(chart):
    """Byte for byte, whatever was drawn before; ids are the chart's own, so two charts on a page do not meet."""
    first = chart.svg()
    other = chart.themed("dark").svg()

    assert chart.svg() == first
    ids = [set(re.findall(r'id="([^"]+)"', each)) for each in (first, other)]
    assert not ids[0] & ids[1]
    for text in (first, other):
        assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(re.findall(r'id="([^"]+)"', text))


def test_png_has_the_size_asked_for(chart):
    """Two dots a pixel unless told otherwise."""

    def size(data: bytes) -> tuple[int, int]:
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")

    assert size(chart.png())[0] == 1540 + 8
    assert size(chart.sized(390).png(scale=1))[0] == 390


@pytest.mark.parametrize("width", [1, 100000, 390.5, "390"])
def test_sizes_that_cannot_be_are_refused(chart, width):
    """With what is possible."""
    with pytest.raises(rl.RooflineError, match="Possible: 200 to 4000 pixels"):
        chart.sized(width)


def test_themes(chart):
    """Dark has the dark paper; another theme is refused."""
    assert "#15181d" in chart.themed("dark").svg()
    assert "#15181d" not in chart.svg()
    with pytest.raises(rl.RooflineError, match="Possible: light, dark"):
        chart.themed("blue")


def test_a_chart_does_not_change(chart):
    """Variants are new charts."""
    before = chart.json()
    chart.themed("dark").sized(400, 300).untitled()

    assert chart.json() == before


def test_untitled_has_no_heading(chart):
    """For a page with its own."""
    assert "Qwen3-8B on NVIDIA" in chart.svg()
    assert ">Qwen3-8B on NVIDIA" not in chart.untitled().svg()


class Page(HTMLParser):
    """What a page asks for, and what it would run."""

    def __init__(self, text: str):
        super().__init__()
        self.asked: list[str] = []
        self.handlers: list[str] = []
        self.tags: list[str] = []
        self.policy = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given = dict(attrs)
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        self.asked += [
            value
            for name, value in attrs
            if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster", "background") and value
        ]
        self.handlers += [name for name in given if name.startswith("on")]


def test_html_asks_for_nothing(chart):
    """No address in an attribute or a style, no inline handler, and a policy that lets only its own scripts run."""
    text = chart.html()
    page = Page(text)

    assert page.asked == []
    assert page.handlers == []
    assert "@import" not in text
    assert not re.search(r"url\(\s*['\"]?(https?:)?//", text)
    assert page.policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in page.policy
    assert "'unsafe-inline'" not in page.policy.split("style-src")[0]


def test_the_policy_names_the_scripts_that_are_there(chart):
    """Each script that runs is named by the hash of its exact text."""
    import base64
    import hashlib

    text = chart.html()
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]

    assert len(scripts) == 2
    assert re.findall(r"'sha256-([^']+)'", text) == hashes


@pytest.mark.parametrize("name", [HOSTILE, "x" * 5000], ids=["hostile", "long"])
def test_hostile_names_are_text(name):
    """In SVG, HTML and JSON: no tag of theirs, no control or direction character, no end of line."""
    chart = hostile_chart(name)
    svg, html = chart.svg(), chart.html()

    tags = {each.tag.rpartition("}")[2] for each in ET.fromstring(svg).iter()}
    assert tags <= {"svg", "g", "path", "text", "rect", "line", "defs", "clipPath", "tspan"}
    page = Page(html)
    assert page.tags.count("script") == 3
    assert "img" not in page.tags
    assert page.handlers == []
    shown = html.split("<script>")[0]
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", shown.replace("\r", ""))
    assert "x" * 300 not in shown
    assert json.loads(chart.json())["data"]


def test_notebooks_get_the_chart_and_a_picture(chart):
    """Vega where the notebook brings it, else SVG; nothing to fetch in either."""
    bundle = chart._repr_mimebundle_()

    assert set(bundle) == {"application/vnd.vega.v5+json", "image/svg+xml", "text/plain"}
    assert "http" not in re.sub(r"http://www.w3.org/\S+", "", bundle["image/svg+xml"])
    assert '"url"' not in json.dumps(bundle["application/vnd.vega.v5+json"])
    assert bundle["text/plain"] == "<Chart 'Qwen3-8B on NVIDIA H100 SXM5 80GB'>"


def test_ledgers_show_themselves():
    """Verdict, roofline and kernels as HTML without scripts; a ledger over an array as its repr."""
    import numpy as np

    ledger = rl.predict("qwen3-8b", "h100-sxm")
    bundle = ledger._repr_mimebundle_()
    page = Page(bundle["text/html"])

    assert "Memory-bound: the weight GEMMs take" in bundle["text/html"]
    assert "lm_head" in bundle["text/html"]
    assert "script" not in page.tags
    assert page.asked == []
    assert "Memory-bound" in bundle["text/plain"]
    many = rl.predict("qwen3-8b", "h100-sxm", rl.Workload.decode(sequences=np.array([1.0, 2.0])))
    assert set(many._repr_mimebundle_()) == {"text/plain"}


def test_the_specification_has_no_address(chart):
    """Nothing in it is loaded."""
    text = chart.json().replace("https://vega.github.io/schema/vega/v6.json", "")

    assert "http" not in text
