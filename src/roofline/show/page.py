"""Pages of their own: one HTML file that asks for nothing from elsewhere, opens from a disk, prints, and is text first.

Names are escaped by the template, scripts are named in the page's policy by their hashes, and Vega interprets its
expressions, so that nothing that a file says can run.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from roofline.show import render
from roofline.show.names import visible
from roofline.show.specs.base import LEFT, RIGHT

if TYPE_CHECKING:
    from jinja2 import Environment

    from roofline.show.chart import Chart

_LONGEST = 4000
_TEMPLATES = Path(__file__).parent / "templates"


class Figure(NamedTuple):
    """A chart as a page holds it: a picture for each ground, the specification, a caption."""

    light: str
    dark: str
    live: str
    caption: str


def _fit(value: object) -> object:
    """What a template shows: text without characters that turn or hide it; markup and numbers as they are."""
    return visible(value, _LONGEST) if type(value) is str else value


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_fit,
        keep_trailing_newline=True,
    )


def asset(name: str) -> str:
    """The text of a file beside the templates."""
    return (_TEMPLATES / name).read_text("utf-8")


def figure(chart: Chart, caption: str = "") -> Figure:
    """A chart for a page, live where scripts run."""
    from markupsafe import Markup

    spec = chart.to_dict()
    spec["usermeta"] = {"beside": LEFT + RIGHT}
    # Inside a script "<" could end it: as an escape it is the same text to JSON.
    live = json.dumps(spec, allow_nan=False).replace("<", "\\u003c")
    light, dark = chart.themed("light").svg(), chart.themed("dark").svg()  # Vega escapes its texts
    return Figure(Markup(light), Markup(dark), Markup(live), caption)


def policy(scripts: Sequence[str], own_forms: bool = False) -> str:
    """A Content-Security-Policy under which these scripts run and nothing else, and nothing is fetched."""
    form = "'self'" if own_forms else "'none'"
    hashes = " ".join(f"'sha256-{base64.b64encode(sha256(each.encode()).digest()).decode()}'" for each in scripts)
    allowed = f"script-src {hashes}; " if scripts else ""
    return f"default-src 'none'; {allowed}style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action {form}"


def scripts_for(live: bool) -> list[str]:
    """What draws figures where any of them is live."""
    return [render.javascript(), asset("live.js")] if live else []


def page(
    template: str,
    title: str,
    scripts: Sequence[str],
    values: Mapping[str, Any],
    sheets: Sequence[str] = ("style.css",),
    packed: Sequence[str] = (),
    own_forms: bool = False,
) -> str:
    """A template as a whole page, in which these scripts run, and those that it holds packed, and no other.

    `own_forms`: its forms may be sent to where it comes from.
    """
    from markupsafe import Markup

    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            # Under "no-referrer" a browser says "null" for where a form of our own comes from.
            referrer="same-origin" if own_forms else "no-referrer",
            policy=Markup(policy([*scripts, *packed], own_forms)),
            style=Markup("".join(map(asset, sheets))),
            scripts=[Markup(each) for each in scripts],
            **values,
        )
    )


def fragment(template: str, chart: Chart, values: Mapping[str, Any]) -> str:
    """A template as a piece of another page, with one picture and no script."""
    from markupsafe import Markup

    return _environment().get_template(template).render(chart=Markup(chart.svg()), **values)


def chart_page(chart: Chart) -> str:
    """One chart as a page."""
    return page("chart.html", chart.title, scripts_for(True), {"charts": [figure(chart)]})
