"""What a chart draws, item by item: the scene that the renderer lays out, with the boxes of its texts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

import vl_convert

from roofline.show.chart import Chart

# Widths of Helvetica's characters from space to tilde, in thousandths of the size (Adobe's font metrics); those of
# Arial and Liberation Sans are the same.
_WIDTHS = [
    *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278),
    *(556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556),
    *(1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778),
    *(667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556),
    *(333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556),
    *(556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584),
]


class Box(NamedTuple):
    """A text's place [px]."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


class Scene:
    """The laid-out chart."""

    def __init__(self, chart: Chart):
        self.spec = chart.to_dict()
        drawn = vl_convert.vega_to_scenegraph(self.spec)
        self.marks: dict[str, list[dict[str, Any]]] = {}
        for mark in _marks(drawn["scenegraph"]):
            self.marks.setdefault(mark.get("name", ""), []).extend(mark["items"])
        self.width, self.height = self.spec["width"], self.spec.get("height", 0)

    def __getitem__(self, name: str) -> list[dict[str, Any]]:
        return [item for item in self.marks[name] if item.get("text", "x") != "" and item.get("opacity", 1) > 0]

    def texts(self, name: str) -> list[str]:
        return [item["text"] for item in self[name]]

    def boxes(self, *names: str) -> list[Box]:
        return [_box(item) for name in names for item in self[name]]

    def overlapping(self, *names: str) -> list[tuple[str, str]]:
        return [(a.text, b.text) for a, b in combinations(self.boxes(*names), 2) if a.overlaps(b)]


def _marks(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if node.get("marktype") != "group":
        yield node
        return
    for item in node["items"]:
        for child in item.get("items", []):
            yield from _marks(child)


def _box(item: dict[str, Any]) -> Box:
    size, text = item["fontSize"], item["text"]
    bold = 1.07 if item.get("fontWeight") == "bold" else 1.0
    width = sum(_WIDTHS[ord(c) - 32] if " " <= c <= "~" else 600 for c in text) * size / 1000 * bold
    left = item["x"] + item.get("dx", 0) - {"left": 0, "center": 0.5, "right": 1}[item.get("align", "left")] * width
    # Capitals and digits stand about 0.73 of the size above the baseline; what hangs below is 0.2 of it.
    base = item["y"] + item.get("dy", 0)
    top = {"top": base, "middle": base - size / 2, "bottom": base - size, "alphabetic": base - 0.75 * size}[
        item.get("baseline", "alphabetic")
    ]
    return Box(text, left, top + 0.5, left + width, top + 0.95 * size)
