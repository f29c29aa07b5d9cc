"""The Vega specification of the roofline, without its data: the same one for pictures, notebooks, reports and pages.

Its data sets are `kernels`, `roofs` and `total` (rows as `roofline.show.charts` writes them). Everything else is
worked out inside, so that a page which replaces the data moves the whole picture.
"""

from __future__ import annotations

from roofline.show.kinds import KINDS
from roofline.show.specs.base import (
    CHAR,
    CHOSEN,
    EDGE,
    FONT,
    LEFT,
    RIGHT,
    Json,
    axis,
    formula,
    heading,
    heading_signals,
    keep,
    kind_legend,
    kind_scales,
    mark,
    palette_signals,
    signal,
)
from roofline.show.specs.marks import dot_marks, label_marks, roof_marks
from roofline.show.specs.texts import AT_DOT, close_to_others, rise, texts


def _signals() -> list[Json]:
    least, most, slowest, fastest = "x_extent[0]", "x_extent[1]", "y_extent[0]", "y_extent[1]"
    return [
        *palette_signals(),
        {"name": "footnote", "value": []},
        # On a phone the names stand below what they are.
        {
            "name": "notes",
            "update": "!narrow || !length(footnote) ? footnote : "
            "split(replace(join(footnote, '|'), regexp('[:] ', 'g'), ':|'), '|')",
        },
        {"name": "rate_size", "value": 1},
        {"name": "rate_unit", "value": "FLOP/s"},
        {"name": "kinds", "value": []},
        {"name": "measured", "value": False},
        {"name": "kind_titles", "value": {key: kind.title for key, kind in KINDS.items()}},
        {"name": "least_share", "value": 0.01},
        {"name": "narrow", "update": "width < 420"},
        {"name": "kind_columns", "update": "narrow ? 3 : 8"},
        *heading_signals("32 + 17 * ceil(length(kinds) / kind_columns)"),
        {"name": "most_labels", "update": "narrow ? 7 : 18"},
        {"name": "most_names", "update": "width < 560 || measured ? 1 : 3"},
        {"name": "most_area", "update": "narrow ? 900 : 1500"},
        CHOSEN,
        {
            "name": "pointed",
            "value": None,
            "on": [
                {"events": "@dots:pointerover", "update": "datum.row"},
                {"events": "@dots:pointerout", "update": "null"},
            ],
        },
        # Names stand to the right of dots: how many times their intensity the axis goes on.
        {"name": "room", "update": "narrow ? 4 : measured ? 20 : 8"},
        # Ends of the axes, each a number of its own in steps of a decade: one that stays is seen to stay, and what
        # hangs on it is not drawn anew at every move of a slider.
        {
            "name": "x_low",
            "update": _step("floor", f"min(isValid({least}) ? {least} / 1.6 : 1, ridge_extent[0] / 40)", 2),
        },
        {
            "name": "x_high",
            "update": _step("ceil", f"max(isValid({most}) ? {most} * room : 1, ridge_extent[1] * 6)", 2),
        },
        {
            "name": "y_low",
            "update": _step(
                "floor",
                f"min(isValid({slowest}) ? {slowest} / 3 : peak_extent[1], x_low * bandwidth_extent[0] * 0.8)",
                4,
            ),
        },
        {"name": "y_high", "update": f"max(isValid({fastest}) ? {fastest} * 1.8 : 0, peak_extent[1] * 2.6)"},
        {"name": "decades_x", "update": "log(x_high / x_low) / LN10"},
        {"name": "decades_y", "update": "log(y_high / y_low) / LN10"},
        {"name": "angle", "update": "-atan2(height / decades_y, width / decades_x) * 180 / PI"},
    ]


def _step(rounded: str, expr: str, parts: int) -> str:
    """The expression rounded to a step of a decade in so many parts."""
    return f"pow(10, {rounded}({parts} * log({expr}) / LN10) / {parts})"


def _extent(*fields: str) -> list[Json]:
    return [{"type": "extent", "field": field, "signal": f"{field}_extent"} for field in fields]


def _data() -> list[Json]:
    drawn = keep("datum.flops > 0 && datum.bytes > 0 && datum.seconds > 0")
    position = [drawn, formula("x", "datum.flops / datum.bytes"), formula("y", "datum.flops / datum.seconds")]
    across = "cos(angle * PI / 180)"
    costliest = {"field": ["share", "row"], "order": ["descending", "ascending"]}
    return [
        {
            "name": "roofs",
            "values": [],
            "transform": [formula("ridge", "datum.peak / datum.bandwidth"), *_extent("ridge", "peak", "bandwidth")],
        },
        {"name": "kernels", "values": []},
        {
            "name": "total",
            "values": [],
            "transform": [*position, formula("of_bound", "datum.bound_seconds / datum.seconds")],
        },
        {
            "name": "placed",
            "source": "kernels",
            "transform": [
                *position,
                formula("roof", "datum.bound_seconds > 0 ? datum.flops / datum.bound_seconds : datum.y"),
                formula("of_bound", "datum.bound_seconds / datum.seconds"),
                formula("area", "40 + most_area * datum.share"),
                *_extent("x", "y"),
                {"type": "window", "sort": costliest, "ops": ["row_number"], "as": ["rank"]},
                {"type": "collect", "sort": costliest},
            ],
        },
        {
            # How far dots on the highest roof reach above it: its text stands clear of them.
            "name": "on_top",
            "source": "placed",
            "transform": [
                formula("reach", "sqrt(datum.area) / 2 + scale('y', peak_extent[1]) - scale('y', datum.y)"),
                keep("datum.reach > 0 && scale('x', datum.x) > width - 170"),
                {"type": "aggregate", "ops": ["max"], "fields": ["reach"], "as": ["reach"]},
            ],
        },
        {
            "name": "below",
            "source": "placed",
            "transform": [
                keep(
                    "datum.of_bound < 0.99 && (datum.share >= least_share || datum.rank === 1 || datum.row === pointed)"
                )
            ],
        },
        {
            "name": "clusters",
            "source": "placed",
            "transform": [
                # Kernels at one place get one label, and keep others away once.
                formula("column", "round(scale('x', datum.x) / 12)"),
                formula("line", "round(scale('y', datum.y) / 12)"),
                {
                    "type": "aggregate",
                    "groupby": ["column", "line"],
                    "ops": ["values", "sum", "sum", "sum", "max", "min", "mean", "mean"],
                    "fields": ["row", "share", "seconds", "bound_seconds", "area", "rank", "x", "y"],
                    "as": ["rows", "share", "seconds", "bound_seconds", "area", "rank", "x", "y"],
                },
                *AT_DOT,
            ],
        },
        {
            "name": "branches",
            "source": "roofs",
            "transform": [keep("!datum.main"), formula("x", "datum.ridge")],
        },
        {
            # Where the text of the slopes is farthest from any dot, and from where another roof leaves them.
            "name": "spots",
            "source": ["clusters", "total", "branches"],
            "transform": [
                formula("part", "[0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]"),
                {"type": "flatten", "fields": ["part"]},
                formula("low", "max(x_low, y_low / data('roofs')[0].bandwidth)"),
                formula("at", "datum.low * pow(data('roofs')[0].ridge / datum.low, datum.part)"),
                formula(
                    "away", "abs(log(datum.at / datum.x)) / LN10 * width / decades_x - sqrt(datum.area || 260) / 2"
                ),
                {"type": "aggregate", "groupby": ["part"], "ops": ["min"], "fields": ["away"], "as": ["away"]},
                formula("away", "min(datum.away, 60)"),
                {"type": "collect", "sort": {"field": ["away", "part"], "order": ["descending", "ascending"]}},
            ],
        },
        {
            "name": "slopes",
            "source": "roofs",
            "transform": [
                # On a phone there is room for one text on the slopes, and the device is named elsewhere.
                formula("slope", "narrow ? (datum.main ? datum.slope_short : '') : datum.slope"),
                keep("datum.slope || datum.slope_short"),
                formula("part", "length(data('spots')) ? data('spots')[0].part : 0.4"),
                formula("from", "max(x_low, y_low / datum.bandwidth)"),
                formula("middle", "datum.from * pow(datum.ridge / datum.from, datum.part)"),
                formula("size", f"{CHAR} * length(datum.slope)"),
                formula("room", "width / decades_x * log(datum.ridge / datum.from) / LN10"),
                *close_to_others(
                    "bandwidth", f"{rise('bandwidth')} * {across}", f"{rise('lower', 'bandwidth')} * {across}"
                ),
            ],
        },
        *texts(),
    ]


def roofline_spec() -> Json:
    """The specification with empty data; every call gives a new one."""

    small = "abs({0}) < 0.001 || abs({0}) >= 1e6 ? format({0}, '.0e') : format({0}, ',.4~r')"
    return {
        "$schema": "https://vega.github.io/schema/vega/v6.json",
        "description": "A roofline chart",
        "background": signal("paper"),
        "autosize": "none",
        "padding": signal(
            f"{{left: {LEFT}, right: {RIGHT}, top: top, bottom: 46 + (length(notes) ? 8 + 14 * length(notes) : 0)}}"
        ),
        "width": 700,
        "height": 380,
        "signals": _signals(),
        "data": _data(),
        "scales": [
            {
                "name": "x",
                "type": "log",
                "domain": [signal("x_low"), signal("x_high")],
                "range": "width",
                "nice": False,
            },
            {
                "name": "y",
                "type": "log",
                "domain": [signal("y_low"), signal("y_high")],
                "range": "height",
                "nice": False,
            },
            *kind_scales(),
        ],
        "axes": [
            axis(
                "x",
                "bottom",
                tickCount=signal("max(1, floor(decades_x))"),
                title="arithmetic intensity [FLOP/byte]",
                titlePadding=8,
                encode={"labels": {"update": {"text": signal(small.format("datum.value"))}}},
            ),
            axis(
                "y",
                "left",
                tickCount=signal("max(1, floor(decades_y))"),
                encode={"labels": {"update": {"text": signal(small.format("(datum.value / rate_size)"))}}},
            ),
        ],
        "legends": [
            kind_legend(
                shape="shape", legendX=EDGE - LEFT - 2, legendY=signal("above + 4"), columns=signal("kind_columns")
            ),
        ],
        "marks": [
            *heading(),
            mark(
                "text",
                None,
                {
                    "x": {"value": EDGE - LEFT},
                    "y": {"value": -11},
                    "text": signal("rate_unit"),
                    "font": {"value": FONT},
                    "fontSize": {"value": 11},
                    "fill": signal("quiet"),
                },
            ),
            mark(
                "text",
                None,
                {
                    "x": {"value": EDGE - LEFT},
                    "y": {"signal": "height + 56"},
                    "lineHeight": {"value": 14},
                    "text": signal("notes"),
                    "limit": signal(f"width + {LEFT}"),
                    "font": {"value": FONT},
                    "fontSize": {"value": 11},
                    "fill": signal("quiet"),
                },
            ),
            *roof_marks(),
            *label_marks(dot_marks()),
        ],
    }
