"""What stands in the roofline as text, and what it is kept clear of."""

from __future__ import annotations

from roofline.show.specs.base import CHAR, Json, formula, keep, percentage

AT_DOT = (formula("px", "scale('x', datum.x)"), formula("py", "scale('y', datum.y)"))
LINE = 20  # what a line of text and the room around it take [px]


def rise(low: str, high: str = "higher") -> str:
    """How far a roof of the one supply is below that of the other [px], an expression."""
    return f"log(datum.{high} / datum.{low}) / LN10 * height / decades_y"


def _outside(dot: str) -> str:
    """Whether a place is outside the square around a dot, an expression."""
    return f"2 * max(abs(datum.px - {dot}.px), abs(datum.py - {dot}.py)) > sqrt({dot}.area)"


def close_to_others(supply: str, above: str, below: str) -> list[Json]:
    """Whether there is no room for a text under the next higher roof of that supply, and over the next lower."""
    order = {"field": [supply, "main"], "order": ["descending", "ascending"]}
    fields: Json = {"ops": ["lag", "lead"], "fields": [supply, supply], "as": ["higher", "lower"]}
    return [
        {"type": "window", "sort": order, **fields},
        formula("under", f"isValid(datum.higher) && {above} < {LINE}"),
        formula("over", f"isValid(datum.lower) && {below} < {LINE}"),
    ]


def texts() -> list[Json]:
    """What the label transform lays out, in order: texts with a fixed place, dots to keep clear of, then labels."""

    def fixed(name: str, source: str, text: str, x: str, y: str) -> Json:
        rows = [formula("text", text), formula("order", "0"), formula("side", "0")]
        return {"name": name, "source": source, "transform": [*rows, formula("px", x), formula("py", y)]}

    ridge_width = f"{CHAR} * length(datum.ridge_label)"
    return [
        {
            "name": "flats",
            "source": "roofs",
            "transform": [
                keep("datum.flat"),
                *close_to_others("peak", rise("peak"), rise("lower", "peak")),
                # A text that would reach over a slope goes without its device, then without its rate.
                formula("room", f"(width - scale('x', datum.ridge)) / {CHAR}"),
                formula(
                    "flat",
                    "datum.main || datum.under || !datum.higher || datum.room > length(datum.flat) ? datum.flat : "
                    "datum.room > length(datum.flat_short) ? datum.flat_short : "
                    "replace(datum.flat_short, regexp(' [^ /]+$'), '')",
                ),
                formula("size", f"{CHAR} * length(datum.flat)"),
                formula(
                    "lift",
                    "(datum.main || datum.over) && length(data('on_top')) ? min(data('on_top')[0].reach || 0, 40) : 0",
                ),
                # Texts of close roofs stand above the higher one, in the order of the roofs.
                formula(
                    "baseline",
                    "scale('y', datum.under ? datum.higher : datum.peak) - 6 - datum.lift - (datum.over ? 14 : 0)",
                ),
            ],
        },
        {
            "name": "slope_shadows",
            "source": "slopes",
            "transform": [
                keep("datum.size && datum.room > datum.size"),
                formula("part", "sequence(-datum.size / 2, datum.size / 2 + 8, 8)"),
                {"type": "flatten", "fields": ["part"]},
                formula("px", "scale('x', datum.middle) + datum.part * cos(angle * PI / 180) - (datum.under ? -2 : 2)"),
                formula(
                    "py",
                    "scale('y', datum.middle * datum.bandwidth) + datum.part * sin(angle * PI / 180)"
                    " - (datum.under ? -2 : 20)",
                ),
                formula("text", "'M'"),
                formula("height", "8"),
                formula("order", "0"),
                formula("side", "0"),
            ],
        },
        {
            "name": "ridges",
            "source": "roofs",
            "transform": [
                keep("datum.ridge_label"),
                {
                    "type": "window",
                    "sort": {"field": "ridge", "order": "descending"},
                    "ops": ["row_number"],
                    "as": ["step"],
                },
                formula("left", f"scale('x', datum.ridge) + {ridge_width} > width - 4"),
            ],
        },
        fixed("flat_texts", "flats", "datum.flat", "width - 4 - datum.size", "datum.baseline - 10"),
        fixed(
            "ridge_texts",
            "ridges",
            "datum.ridge_label",
            f"scale('x', datum.ridge) + (datum.left ? -6 - {ridge_width} : 3)",
            "height - 5 - 15 * datum.step",
        ),
        {"name": "costliest", "source": "clusters", "transform": [keep("datum.rank === 1")]},
        {
            "name": "shadows",
            "source": "clusters",
            "transform": [
                # What lies in the costliest is kept clear of with it.
                keep("datum.rank === 1 || !length(data('costliest')) || " + _outside("data('costliest')[0]")),
                # A whole number: each size is a font of its own, which is made and measured once.
                formula("height", "ceil(sqrt(datum.area))"),
                formula("px", "datum.px - datum.height / 2 - 2"),
                formula("py", "datum.py - datum.height / 2 - 2"),
                formula("text", "'\u2014'"),  # as wide as it is high
                # The large ones first: where two are at one place, the other would not be laid out.
                formula("order", "1 - datum.area / 1e4"),
                formula("side", "0"),
            ],
        },
        {
            "name": "around_star",
            "source": "clusters",
            "transform": [
                formula("side", "sqrt(datum.area)"),
                keep("length(data('total')) && 2 * abs(datum.px - scale('x', data('total')[0].x)) < datum.side"),
                keep("2 * abs(datum.py - scale('y', data('total')[0].y)) < datum.side"),
                {"type": "aggregate", "ops": ["max"], "fields": ["side"], "as": ["side"]},
            ],
        },
        {
            "name": "star_shadow",
            "source": "total",
            "transform": [
                formula("height", "13"),
                formula("px", "scale('x', datum.x) - 9"),
                formula("py", "scale('y', datum.y) - 9"),
                formula("text", "'M'"),
                formula("order", "1"),
                formula("side", "0"),
            ],
        },
        {
            "name": "star_texts",
            "source": "total",
            "transform": [
                formula("text", "datum.label"),
                formula("order", "2.5"),
                # Inside a larger dot it is named beside that one.
                formula("side", "max(15, length(data('around_star')) ? data('around_star')[0].side || 0 : 0)"),
                formula("shown", "true"),
                *AT_DOT,
            ],
        },
        {
            "name": "kernel_texts",
            "source": "clusters",
            "transform": [
                keep("datum.rank === 1 || (datum.rank <= most_labels && datum.share >= least_share)"),
                formula(
                    "names", "truncate(join(pluck(slice(datum.rows, 0, most_names), 'short'), ', '), narrow ? 20 : 34)"
                ),
                formula("more", "length(datum.rows) - most_names"),
                formula(
                    "part",
                    f"measured ? {percentage('datum.bound_seconds / datum.seconds')} + ' of bound' : "
                    f"{percentage('datum.share')}",
                ),
                formula("text", "datum.names + (datum.more > 0 ? ' +' + datum.more : '') + ' · ' + datum.part"),
                # The costliest is never without a name.
                formula("order", "datum.rank === 1 ? 0.5 : 2 + datum.rank"),
                formula("side", "sqrt(datum.area)"),
                formula("shown", "true"),
            ],
        },
        {
            "name": "texts",
            "source": [
                "flat_texts",
                "ridge_texts",
                "slope_shadows",
                "star_shadow",
                "shadows",
                "star_texts",
                "kernel_texts",
            ],
        },
    ]
