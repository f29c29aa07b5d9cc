"""Stacked bars of what adds up to a whole: time by kernel, memory by use."""

from __future__ import annotations

from roofline.show.specs.base import (
    CHAR,
    EDGE,
    FONT,
    LEFT,
    Json,
    axis,
    formula,
    frame,
    heading,
    keep,
    mark,
    signal,
    text_at,
)

_BAR = 34  # height of a bar [px]


def bars_spec() -> Json:
    """The specification with empty data.

    `parts` are rows of `bar`, `name`, `value`, `label`, `light` and `dark`; `limits` have a `value` and a
    `label`; `legend` rows a `name`, `light` and `dark`. The signal `value_unit` names the axis, `most` is its end.
    """
    spec = frame(
        "(length(data('legend')) ? 22 + 17 * legend_lines : 12) + (length(data('limits')) ? 20 : 0)",
        46,
        [
            {"name": "value_unit", "value": ""},
            {"name": "bars", "value": 1},
            {"name": "most", "value": 1},
            {"name": "legend_room", "update": f"isValid(legend_rooms[1]) ? legend_rooms[1] : width + {LEFT}"},
            {"name": "legend_columns", "update": f"max(1, floor((width + {LEFT}) / legend_room))"},
            {"name": "legend_lines", "update": "ceil(length(data('legend')) / legend_columns)"},
            {"name": "height", "update": f"bars * {_BAR + 12} - 12"},
        ],
    )
    spec |= {"description": "Bars", "data": _data(), "scales": _scales(), "axes": _axes(), "marks": _marks()}
    return spec


def _data() -> list[Json]:
    return [
        {
            "name": "parts",
            "values": [],
            "transform": [
                {"type": "stack", "groupby": ["bar"], "field": "value", "as": ["from", "to"]},
                formula("colour", "dark ? datum.dark : datum.light"),
            ],
        },
        {
            "name": "named",
            "source": "parts",
            "transform": [
                formula("room", "scale('x', datum.to) - scale('x', datum.from)"),
                formula("text", f"datum.room > {CHAR} * length(datum.label) + 14 ? datum.label : datum.name"),
                keep(f"datum.room > {CHAR} * length(datum.text) + 14"),
            ],
        },
        {
            "name": "bar_names",
            "source": "parts",
            "transform": [{"type": "aggregate", "groupby": ["bar", "bar_label"]}, keep("datum.bar_label")],
        },
        {"name": "limits", "values": []},
        {
            "name": "legend",
            "values": [],
            "transform": [
                # Columns as wide as the longest name, in a font a fifth wider than the one that is asked for.
                formula("room", f"1.2 * {CHAR} * length(datum.name) + 30"),
                {"type": "extent", "field": "room", "signal": "legend_rooms"},
                {"type": "window", "ops": ["row_number"], "as": ["nth"]},
                formula("colour", "dark ? datum.dark : datum.light"),
                formula("column", "(datum.nth - 1) % legend_columns"),
                formula("line", "floor((datum.nth - 1) / legend_columns)"),
            ],
        },
    ]


def _scales() -> list[Json]:
    return [
        {"name": "x", "type": "linear", "domain": signal("[0, most]"), "range": "width"},
        {"name": "y", "type": "linear", "domain": [0, 1], "range": [0, _BAR + 12]},
    ]


def _axes() -> list[Json]:
    return [
        axis(
            "x",
            "bottom",
            tickCount=signal("narrow ? 4 : 8"),
            grid=False,
            titlePadding=8,
            title=signal("value_unit"),
            encode={"labels": {"update": {"text": signal("format(datum.value, ',.4~r')")}}},
        )
    ]


def _marks() -> list[Json]:
    top: Json = {"scale": "y", "field": "bar"}
    place = f"{EDGE - LEFT} + datum.column * legend_room"
    return [
        *heading(),
        {
            "type": "rect",
            "name": "segments",
            "from": {"data": "parts"},
            "encode": {
                "update": {
                    "x": {"scale": "x", "field": "from"},
                    "x2": {"scale": "x", "field": "to"},
                    "y": top,
                    "height": {"value": _BAR},
                    "fill": signal("datum.colour || paper"),
                    "stroke": signal("datum.colour ? paper : faint"),
                    "strokeWidth": {"value": 1},
                    "tooltip": signal("datum.tooltip"),
                    "ariaRoleDescription": {"value": "part"},
                    "description": signal("datum.name + ': ' + datum.spoken"),
                }
            },
        },
        mark(
            "text",
            "named",
            text_at(
                {"scale": "x", "field": "from"},
                top,
                "datum.text",
                dx={"value": 8},
                dy={"value": _BAR // 2},
                baseline={"value": "middle"},
                fill=signal("datum.colour ? paper : quiet"),
            ),
            name="segment_labels",
        ),
        mark(
            "text",
            "bar_names",
            text_at({"value": -8}, top, "datum.bar_label", dy={"value": _BAR // 2}, align={"value": "right"})
            | {"baseline": {"value": "middle"}, "limit": {"value": LEFT - 12}},
        ),
        mark(
            "rule",
            "limits",
            {
                "x": {"scale": "x", "field": "value"},
                "y": {"value": -6},
                "y2": signal("height + 4"),
                "stroke": signal("ink"),
                "strokeWidth": {"value": 1.75},
            },
            name="limit_rules",
        ),
        mark(
            "text",
            "limits",
            text_at({"scale": "x", "field": "value"}, {"value": -11}, "datum.label", fill=signal("ink"))
            | {"align": signal("scale('x', datum.value) > width / 2 ? 'right' : 'left'")},
            name="limit_labels",
        ),
        mark(
            "symbol",
            "legend",
            {
                "x": signal(f"{place} + 4"),
                "y": signal("above + 6 + 17 * datum.line"),
                "size": {"value": 70},
                "shape": {"value": "square"},
                "fill": signal("datum.colour || paper"),
                "stroke": signal("datum.colour ? datum.colour : faint"),
            },
        ),
        mark(
            "text",
            "legend",
            text_at(signal(f"{place} + 14"), signal("above + 6 + 17 * datum.line"), "datum.name")
            | {"baseline": {"value": "middle"}, "font": {"value": FONT}},
            name="legend_labels",
        ),
    ]
