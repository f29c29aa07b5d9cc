"""The marks of the roofline: roofs, dots and labels."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.show.specs.base import (
    FONT,
    Json,
    encoding,
    mark,
    percentage,
    prefixed,
    signal,
)

_STAR = (
    "M0,-1L.2939,-.4045L.9511,-.309L.4755,.1545L.5878,.809L0,.5L-.5878,.809L-.4755,.1545L-.9511,-.309L-.2939,-.4045Z"
)


def tooltip() -> str:
    """The expression of everything that is known of a kernel, with its units."""
    rows = {
        "kernel": "datum.name",
        "kind": "kind_titles[datum.kind] || ''",
        "calls": "format(datum.count, ',')",
        "FLOPs": prefixed("datum.flops", "FLOP"),
        "bytes": prefixed("datum.bytes", "B"),
        "intensity": "format(datum.x, '.4~r') + ' FLOP/byte'",
        "bound by": "datum.bound",
        "bound": prefixed("datum.bound_seconds", "s"),
        "time": prefixed("datum.seconds", "s") + " + (datum.time ? ' ' + datum.time : '')",
        "reaches": prefixed("datum.y", "FLOP/s"),
        "of its bound": percentage("datum.of_bound"),
        "share of time": percentage("datum.share"),
    }
    return "{" + ", ".join(f"'{key}': {value}" for key, value in rows.items()) + "}"


# To the lower right of a dot on a slope, and to its upper left, there is no roof.
_BELOW = ("bottom-right", "top-left", "bottom", "bottom-left", "left", "right", "top", "top-right")
_FARTHER = ("bottom", "top", "bottom-right", "top-left", "bottom-left", "top-right")
BESIDE = ("right", "left", "top", "bottom", "top-right", "bottom-right", "top-left", "bottom-left")


def roof_marks() -> list[Json]:
    """Slopes, flats and ridges with their figures."""
    x = "scale('x', {})".format
    y = "scale('y', {})".format
    stroke: Json = {
        "stroke": signal("datum.main ? ink : quiet"),
        "strokeWidth": signal("datum.main ? 1.75 : 1"),
        "strokeDash": signal("datum.main ? [1, 0] : [4, 3]"),
    }
    text: Json = {"font": {"value": FONT}, "fontSize": {"value": 11}, "fill": signal("datum.main ? ink : quiet")}
    return [
        mark(
            "rule",
            "ridges",
            {
                "x": signal(x("datum.ridge")),
                "y": signal(y("datum.peak")),
                "y2": signal("height"),
                "stroke": signal("faint"),
                "strokeDash": {"value": [2, 3]},
            },
            name="ridge_rules",
        ),
        mark(
            "rule",
            "slopes",
            {
                "x": signal(x("datum.from")),
                "y": signal(y("datum.from * datum.bandwidth")),
                "x2": signal(x("datum.ridge")),
                "y2": signal(y("datum.peak")),
                **stroke,
            },
            name="slope_rules",
        ),
        mark(
            "rule",
            "flats",
            {"x": signal(x("datum.ridge")), "x2": signal("width"), "y": signal(y("datum.peak")), **stroke},
            name="flat_rules",
        ),
        mark(
            "text",
            "slopes",
            {
                "x": signal(x("datum.middle")),
                "y": signal(y("datum.middle * datum.bandwidth")),
                "dy": signal("datum.under ? 14 : -6"),
                "angle": signal("angle"),
                "align": {"value": "center"},
                "text": signal("datum.slope"),
                "opacity": signal("datum.room > datum.size ? 1 : 0"),
                **text,
            },
            name="slope_labels",
        ),
        mark(
            "text",
            "flats",
            {
                "x": signal("width - 4"),
                "y": signal("datum.baseline"),
                "align": {"value": "right"},
                "text": signal("datum.flat"),
                **text,
            },
            name="flat_labels",
        ),
        mark(
            "text",
            "ridges",
            {
                "x": signal(x("datum.ridge")),
                "dx": signal("datum.left ? -5 : 5"),
                "y": signal("height + 5 - 15 * datum.step"),
                "align": signal("datum.left ? 'right' : 'left'"),
                "text": signal("datum.ridge_label"),
                **text,
                "fill": signal("quiet"),
            },
            name="ridge_labels",
        ),
    ]


def dot_marks() -> list[Json]:
    """Kernels, how far they are below their roof, and the star of the whole pass."""
    x, y = {"scale": "x", "field": "x"}, {"scale": "y", "field": "y"}
    shape = {"scale": "shape", "field": "kind"}
    dim = signal("!chosen || chosen === datum.kind ? 1 : 0.12")
    return [
        mark(
            "rule",
            "below",
            {
                "x": x,
                "y": y,
                "y2": {"scale": "y", "field": "roof"},
                "stroke": {"scale": "colour", "field": "kind"},
                "strokeOpacity": {"value": 0.7},
                "strokeDash": {"value": [1, 2]},
                "opacity": dim,
            },
            name="drops",
        ),
        {
            "type": "symbol",
            "name": "dots",
            "from": {"data": "placed"},
            "encode": encoding(
                {
                    "x": x,
                    "y": y,
                    "size": {"field": "area"},
                    "shape": shape,
                    "fill": {"scale": "colour", "field": "kind"},
                    "fillOpacity": {"value": 0.82},
                    "stroke": signal("datum.row === pointed || datum.rank === 1 ? ink : paper"),
                    "strokeWidth": signal("datum.row === pointed || datum.rank === 1 ? 1.5 : 0.75"),
                    "opacity": dim,
                    "cursor": {"value": "pointer"},
                    "ariaRoleDescription": {"value": "kernel"},
                    "description": {"field": "spoken"},
                },
                # Said when it is asked for: worked out for each dot at each move of a slider it would take longest.
                hover={"tooltip": signal(tooltip())},
            ),
        },
        {
            "type": "symbol",
            "name": "star",
            "from": {"data": "total"},
            "encode": encoding(
                {
                    "x": x,
                    "y": y,
                    "size": {"value": 260},
                    "shape": {"value": _STAR},
                    "fill": signal("ink"),
                    "stroke": signal("paper"),
                    "strokeWidth": {"value": 1},
                    "ariaRoleDescription": {"value": "whole pass"},
                    "description": {"field": "spoken"},
                },
                hover={"tooltip": signal(tooltip())},
            ),
        },
    ]


def label_marks(
    between: Sequence[Json], order: Sequence[str] = _BELOW, farther: Sequence[str] = _FARTHER
) -> list[Json]:
    """Names that keep clear of each other, of the dots and of the roofs' figures.

    On which sides of a dot, in which order; `farther`: at a line's distance, where there is no room beside it.
    """
    text = {"text": signal("datum.datum.text"), "font": {"value": FONT}}
    size = {"fontSize": signal("datum.datum.height || 11")}
    return [
        mark(
            "symbol",
            "texts",
            {
                "x": {"field": "px"},
                "y": {"field": "py"},
                "size": signal("datum.side * datum.side"),
                "opacity": {"value": 0},
            },
            name="anchors",
        ),
        # Laid out as a halo in the colour of the paper; what is only there to keep others away stays clear.
        mark(
            "text",
            "anchors",
            {
                **text,
                **size,
                "fill": signal("paper"),
                "stroke": signal("paper"),
                "strokeWidth": {"value": 4.5},
                "fillOpacity": signal("datum.datum.shown ? 1 : 0"),
                "strokeOpacity": signal("datum.datum.shown ? 1 : 0"),
                "strokeJoin": {"value": "round"},
                "fontWeight": signal("datum.datum.rank === 1 ? 'bold' : 'normal'"),
            },
            name="halos",
            transform=[
                {
                    "type": "label",
                    # Anything else for avoidBaseMark or avoidMarks needs a canvas, which pictures do not have.
                    "avoidBaseMark": False,
                    "size": signal("[width, height]"),
                    "sort": {"field": "datum.datum.order"},
                    "anchor": [*order, *farther],
                    "offset": [*[3] * len(order), *[20] * len(farther)],
                }
            ],
        ),
        # What is drawn between halo and name: no dot is hidden by either.
        *between,
        mark(
            "text",
            "halos",
            {
                "x": {"field": "x"},
                "y": {"field": "y"},
                "align": {"field": "align"},
                "baseline": {"field": "baseline"},
                "text": signal("datum.datum.datum.shown && datum.opacity ? datum.text : ''"),
                "font": {"value": FONT},
                "fontSize": {"value": 11},
                "fontWeight": {"field": "fontWeight"},
                "fill": signal("ink"),
            },
            name="labels",
        ),
    ]
