"""What the specifications share: one typeface, colours that follow the signal `dark`, quiet axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.show.kinds import KINDS

Json = dict[str, Any]

# One typeface. Liberation Sans, which the renderer brings, has the widths of Arial and Helvetica, so labels
# that are placed once stay apart everywhere.
FONT = "Helvetica Neue, Arial, Liberation Sans, sans-serif"

# (light, dark)
COLOURS: Mapping[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#15181d"),
    "ink": ("#1f2328", "#e6e8eb"),
    "quiet": ("#59636e", "#9aa3ad"),
    "faint": ("#d1d9e0", "#3d444d"),
    "grid": ("#eef1f4", "#22272e"),
}
LEFT, RIGHT, EDGE = 52, 22, 12  # paddings beside a plot, and where its texts begin [px]
CHAR = 5.8  # mean width of a character of the labels [px]; exact widths are Vega's own, this only reserves room


def formula(name: str, expr: str) -> Json:
    """A column worked out of others."""
    return {"type": "formula", "as": name, "expr": expr}


def keep(expr: str) -> Json:
    """The rows for which it holds."""
    return {"type": "filter", "expr": expr}


def signal(expr: str) -> Json:
    """A value that follows an expression."""
    return {"signal": expr}


def mark(kind: str, data: str | None, update: Json, **more: Any) -> Json:
    """A mark; those that are not data are hidden from screen readers."""
    source: Json = {} if data is None else {"from": {"data": data}}
    return {"type": kind, "aria": False, "interactive": False, **source, "encode": encoding(update), **more}


def encoding(channels: Json, **more: Json) -> Json:
    """The encoding of a mark: what has one value is set once, what follows a signal or a row at each update."""
    fixed = {name: each for name, each in channels.items() if each.keys() == {"value"}}
    return {"enter": fixed, "update": {name: each for name, each in channels.items() if name not in fixed}, **more}


def palette_signals() -> list[Json]:
    """The signal `dark`, and a signal of each colour that follows it."""
    each = [{"name": name, "update": f"dark ? '{dark}' : '{light}'"} for name, (light, dark) in COLOURS.items()]
    return [{"name": "dark", "value": False}, *each]


def kind_scales() -> list[Json]:
    """Colour and shape by kind of kernel."""
    light, dark = ([getattr(kind, theme) for kind in KINDS.values()] for theme in ("light", "dark"))
    domain = list(KINDS)
    return [
        {"name": "colour", "type": "ordinal", "domain": domain, "range": signal(f"dark ? {dark} : {light}")},
        {"name": "shape", "type": "ordinal", "domain": domain, "range": [kind.shape for kind in KINDS.values()]},
    ]


def heading() -> list[Json]:
    """Title and subtitle above the plot, from the signals of these names."""

    def line(above: str, text: str, colour: str, size: int, weight: str) -> Json:
        return mark(
            "text",
            None,
            {
                "x": {"value": EDGE - LEFT},
                "y": signal(above),
                "limit": signal(f"width + {LEFT}"),
                "text": signal(text),
                "fill": signal(colour),
                "font": {"value": FONT},
                "fontSize": {"value": size},
                "fontWeight": {"value": weight},
                "lineHeight": {"value": 16},
            },
        )

    return [
        line("above - 20 - 16 * heading_lines", "title", "ink", 15, "bold"),
        line("above + 2 - 16 * heading_lines", "split ? subtitle : join(subtitle, ' · ')", "quiet", 12, "normal"),
    ]


def heading_signals(room: str) -> list[Json]:
    """Signals of the heading; `room` [px] is what stands between it and the plot, an expression."""
    return [
        {"name": "title", "value": ""},
        {"name": "subtitle", "value": []},
        {"name": "above", "update": f"-({room})"},
        {"name": "split", "update": "narrow || 6 * length(join(subtitle, ' · ')) > width"},
        {"name": "heading_lines", "update": "split ? length(subtitle) : min(1, length(subtitle))"},
        {"name": "top", "update": "-above + (title ? 44 + 16 * heading_lines : 6)"},
    ]


def axis(scale: str, orient: str, **more: Any) -> Json:
    """A quiet axis."""
    return {
        "scale": scale,
        "orient": orient,
        "domain": False,
        "ticks": False,
        "grid": True,
        "gridColor": signal("grid"),
        "labelColor": signal("quiet"),
        "labelFont": FONT,
        "labelFontSize": 11,
        "labelPadding": 6,
        "titleColor": signal("quiet"),
        "titleFont": FONT,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "aria": False,
        **more,
    }


def kind_legend(**more: Any) -> Json:
    """Kinds in use (the signal `kinds`), by colour and shape; a click on one dims the others."""
    seen = "!chosen || chosen === datum.value"
    pointer: Json = {"cursor": {"value": "pointer"}}
    symbols = {"opacity": signal(f"{seen} ? 1 : 0.25"), **pointer}
    labels = {"opacity": signal(f"{seen} ? 1 : 0.4"), "text": signal("kind_titles[datum.value]"), **pointer}
    return {
        "fill": "colour",
        "values": signal("kinds"),
        "orient": "none",
        "direction": "horizontal",
        "columnPadding": 14,
        "rowPadding": 3,
        "labelFont": FONT,
        "labelFontSize": 11,
        "labelColor": signal("quiet"),
        "symbolSize": 70,
        "symbolStrokeWidth": 0,
        "encode": {
            "symbols": {"name": "kind_symbols", "interactive": True, "update": symbols},
            "labels": {"name": "kind_labels", "interactive": True, "update": labels},
        },
        **more,
    }


CHOSEN: Json = {
    "name": "chosen",
    "value": None,
    "on": [
        {
            "events": "@kind_symbols:click, @kind_labels:click",
            "update": "chosen === datum.value ? null : datum.value",
            "force": True,
        }
    ],
}


def prefixed(expr: str, unit: str) -> str:
    """The expression of a number with an SI prefix, as "3.352 TB/s"."""
    return f"replace(format({expr}, '.4s') + '{unit}', /([0-9])([^0-9.]+)$/, '$1 $2')"


def percentage(expr: str) -> str:
    """The expression of a share of 1 as a percentage."""
    return f"(({expr}) < 0.0005 ? '<0.1' : format(100 * ({expr}), ({expr}) < 1 ? '.2~r' : ',.3~r')) + ' %'"


def text_at(x: Json, y: Json, text: str, **more: Json) -> Json:
    """The encoding of a quiet text."""
    return {
        "x": x,
        "y": y,
        "text": signal(text),
        "font": {"value": FONT},
        "fontSize": {"value": 11},
        "fill": signal("quiet"),
        **more,
    }


def frame(room: str, bottom: int, signals: list[Json]) -> Json:
    """A specification with heading, colours and paddings, and nothing in it yet."""
    return {
        "$schema": "https://vega.github.io/schema/vega/v6.json",
        "background": signal("paper"),
        "autosize": "none",
        "padding": signal(f"{{left: {LEFT}, right: {RIGHT}, top: top, bottom: {bottom}}}"),
        "width": 770 - LEFT - RIGHT,
        "signals": [
            *palette_signals(),
            {"name": "narrow", "update": "width < 420"},
            *heading_signals(room),
            *signals,
        ],
    }
