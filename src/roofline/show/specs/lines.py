"""Throughput against the batch, and the ridge point by year."""

from __future__ import annotations

from roofline.show.specs.base import (
    EDGE,
    LEFT,
    Json,
    axis,
    formula,
    frame,
    heading,
    keep,
    mark,
    prefixed,
    signal,
    text_at,
)
from roofline.show.specs.marks import BESIDE, label_marks


def sweep_spec() -> Json:
    """The specification of a sweep with empty data: `points` of `x`, `y`, `fits`; `knees` of `x`, `y`, `label`."""
    spec = frame("34", 46, [{"name": "x_title", "value": ""}, {"name": "y_title", "value": ""}])
    spec |= {
        "description": "A sweep",
        "height": 320,
        "data": [
            {
                "name": "points",
                "values": [],
                "transform": [
                    {"type": "extent", "field": "x", "signal": "x_extent"},
                    {"type": "extent", "field": "y", "signal": "y_extent"},
                ],
            },
            {"name": "fitting", "source": "points", "transform": [keep("datum.fits")]},
            {"name": "beyond", "source": "points", "transform": [keep("datum.beyond")]},
            {
                "name": "knees",
                "values": [],
                "transform": [formula("right", "scale('x', datum.x) > width * 0.6")],
            },
        ],
        "scales": [
            {"name": "x", "type": "log", "base": 2, "domain": signal("x_extent"), "range": "width", "nice": False},
            {"name": "y", "type": "linear", "domain": signal("[0, y_extent[1] * 1.08]"), "range": "height"},
        ],
        "axes": [
            axis(
                "x", "bottom", title=signal("x_title"), titlePadding=8, tickCount=signal("narrow ? 5 : 10"), grid=False
            )
            | {"labelFlush": True, "format": ",~r"},
            axis(
                "y",
                "left",
                tickCount=5,
                encode={
                    "labels": {"update": {"text": signal("format(datum.value, y_extent[1] < 1e5 ? ',~r' : '~s')")}}
                },
            ),
        ],
        "marks": _sweep_marks(),
    }
    return spec


def _sweep_marks() -> list[Json]:
    x, y = {"scale": "x", "field": "x"}, {"scale": "y", "field": "y"}
    line: Json = {"x": x, "y": y, "strokeWidth": {"value": 2}}
    asymptotes = {"stroke": signal("faint"), "strokeDash": {"value": [4, 3]}}
    return [
        *heading(),
        mark("text", None, text_at({"value": EDGE - LEFT}, {"value": -12}, "y_title")),
        mark("rule", "knees", {"y": y, "x": {"value": 0}, "x2": signal("width"), **asymptotes}),
        mark("rule", "knees", {"x": x, "y": y, "y2": signal("height"), **asymptotes}, name="knee_rules"),
        mark(
            "line", "beyond", {**line, "stroke": signal("quiet"), "strokeDash": {"value": [2, 3]}}, name="does_not_fit"
        ),
        mark("line", "fitting", {**line, "stroke": signal("ink")}, name="fits"),
        {
            "type": "symbol",
            "name": "dots",
            "from": {"data": "points"},
            "encode": {
                "update": {
                    "x": x,
                    "y": y,
                    "size": {"value": 34},
                    "fill": signal("datum.fits ? ink : paper"),
                    "stroke": signal("datum.fits ? ink : quiet"),
                    "tooltip": signal("datum.tooltip"),
                    "description": signal("datum.spoken"),
                }
            },
        },
        mark(
            "text",
            "knees",
            text_at(x, signal("height"), "datum.label", dy={"value": -8}, dx=signal("datum.right ? -6 : 6"))
            | {"align": signal("datum.right ? 'right' : 'left'"), "fill": signal("ink")},
            name="knee_labels",
        ),
    ]


def ridges_spec() -> Json:
    """The specification of ridge points by year with empty `devices`: `year`, `ridge`, `name`, `vendor`, `peak`,
    `bandwidth`, `rate`.
    """
    spec = frame("34", 40, [])
    spec |= {
        "description": "Ridge points by year",
        "height": 320,
        "data": [
            {
                "name": "devices",
                "values": [],
                "transform": [
                    {"type": "extent", "field": "year", "signal": "years"},
                    {"type": "extent", "field": "ridge", "signal": "ridge_extent"},
                ],
            },
            {
                "name": "shadows",
                "source": "devices",
                "transform": [
                    # Laid out to the right of where it is, as the first side of names is.
                    formula("px", "scale('x', datum.year) - 8"),
                    formula("py", "scale('y', datum.ridge)"),
                    formula("text", "'\u2014'"),
                    formula("height", "9"),
                    formula("order", "0"),
                    formula("side", "0"),
                ],
            },
            {
                "name": "names",
                "source": "devices",
                "transform": [
                    formula("px", "scale('x', datum.year)"),
                    formula("py", "scale('y', datum.ridge)"),
                    formula("text", "datum.name"),
                    formula("order", "1"),
                    formula("side", "8"),
                    formula("shown", "true"),
                ],
            },
            {"name": "texts", "source": ["shadows", "names"]},
        ],
        "scales": [
            {
                "name": "x",
                "type": "linear",
                "domain": signal("[years[0] - 0.6, years[1] + 1.4]"),
                "range": "width",
                "zero": False,
            },
            {
                "name": "y",
                "type": "log",
                "domain": signal("[ridge_extent[0] / 1.5, ridge_extent[1] * 1.5]"),
                "range": "height",
            },
        ],
        "axes": [
            axis("x", "bottom", grid=False, format="d", tickMinStep=1, tickCount=signal("narrow ? 4 : 10")),
            axis("y", "left", tickCount=6, format=",~r"),
        ],
        "marks": [
            *heading(),
            mark("text", None, text_at({"value": EDGE - LEFT}, {"value": -12}, "'ridge point [FLOP/byte]'")),
            *label_marks([_device_dots()], BESIDE, ()),
        ],
    }
    return spec


def _device_dots() -> Json:
    tooltip = {
        "device": "datum.name",
        "released": "datum.year",
        "ridge": "format(datum.ridge, '.3~r') + ' FLOP/byte'",
        "peak": prefixed("datum.peak", "FLOP/s") + " + ' ' + datum.rate",
        "bandwidth": prefixed("datum.bandwidth", "B/s"),
    }
    x, y = {"scale": "x", "field": "year"}, {"scale": "y", "field": "ridge"}
    return {
        "type": "symbol",
        "name": "dots",
        "from": {"data": "devices"},
        "encode": {
            "update": {
                "x": x,
                "y": y,
                "size": {"value": 60},
                "fill": signal("ink"),
                "fillOpacity": {"value": 0.85},
                "tooltip": signal("{" + ", ".join(f"'{key}': {value}" for key, value in tooltip.items()) + "}"),
                "description": signal("datum.spoken"),
            }
        },
    }
