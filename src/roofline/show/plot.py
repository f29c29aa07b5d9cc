"""The roofline in a terminal: log-log, braille, as wide as there is room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from roofline.bound import Point
from roofline.device import Device
from roofline.ledger import Ledger
from roofline.show.dots import Dot, dots, footnotes, rates_in_use
from roofline.show.kinds import KINDS, kind_of
from roofline.show.terminal import console, text
from roofline.units import percent, scale, si, significant

_HEIGHT = 20
_MARKERS = {  # one letter a kind where there is no colour, as in a pipe
    "gemm": ("G", "blue"),
    "attention": ("A", "orange"),
    "small": ("e", "green"),
    "moe": ("X", "magenta"),
    "convolution": ("V", "cyan"),
    "communication": ("C", "yellow"),
    "copy": ("c", "gray"),
    "other": ("o", "default"),
}


def ledger_plot(ledger: Ledger) -> RenderableType:
    """The roofline of a ledger for the terminal."""
    time = "bound" if ledger.efficiency is None else "derated"
    return roofline_plot(dots(ledger.kernels, ledger.times, time), ledger.device)


def points_plot(points: Sequence[Point], device: Device) -> RenderableType:
    """The roofline of kernels for the terminal, at their measured time or their bound."""
    return roofline_plot(dots(points), device)


def roofline_plot(drawn: Sequence[Dot], device: Device) -> RenderableType:
    """The roof of a device at the rate that most FLOPs run at, a letter for each kind of kernel below it."""
    rate = rates_in_use(drawn, device)[0]
    ridge, peak = device.ridge_point(rate), device.rate(rate)
    placed = [dot for dot in drawn if dot.drawn]
    figure = _figure(placed, ridge, peak, device.bandwidth)
    used = [key for key in KINDS if any(kind_of(dot.point.work.op) == key for dot in placed)]
    legend = "  ".join(f"{_MARKERS[key][0]} {KINDS[key].title}" for key in used)
    roof = f"roof {si(device.bandwidth, 'B/s')}, {si(peak, 'FLOP/s')} {rate}; ridge {significant(ridge)} FLOP/byte"
    lines: list[RenderableType] = [
        figure,
        text(f"{legend}   {roof}" if len(legend) + len(roof) < 76 else legend, "dim"),
    ]
    if len(legend) + len(roof) >= 76:
        lines.append(text(roof, "dim"))
    if placed:
        whole = sum(dot.seconds for dot in drawn)
        first = max(placed, key=lambda dot: dot.seconds)
        where = f"{significant(first.flops / first.bytes)} FLOP/byte"
        lines.append(text(f"costliest: {first.point.name}, {percent(first.seconds / whole)} at {where}", "dim"))
    return Group(*lines, *(text(each, "dim") for each in footnotes(drawn)))


def _figure(placed: Sequence[Dot], ridge: float, peak: float, bandwidth: float) -> Text:
    plotext = _plotext()
    xs = [dot.flops / dot.bytes for dot in placed]
    ys = [dot.flops / dot.seconds for dot in placed]
    left, right = _decades(min([*xs, ridge / 8]) / 1.5, max([*xs, ridge * 4]) * 1.5)
    size, unit = scale(peak, "FLOP/s")
    low = min([*ys, bandwidth * left])
    bottom, top = math.log10(low / size) - 0.1, math.log10(peak / size) + 0.25
    # The library keeps one figure for the process, and its own log scale fails on a second drawing: the
    # coordinates are logarithms here, the ticks their powers.
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(min(console().width, 100), _HEIGHT)
    steps = [left, max(left, 10**bottom * size / bandwidth), ridge, right]
    roof = sorted(x for x in set(steps) if x >= steps[1])
    plotext.plot(
        [math.log10(x) for x in roof],
        [math.log10(min(peak, bandwidth * x) / size) for x in roof],
        marker="braille",
        color="default",
    )
    for dot, x, y in sorted(zip(placed, xs, ys, strict=True), key=lambda each: each[0].seconds):
        marker, colour = _MARKERS[kind_of(dot.point.work.op)]
        plotext.scatter([math.log10(x)], [math.log10(y / size)], marker=marker, color=colour)
    _ticks(left, right, bottom, top)
    plotext.xlabel("arithmetic intensity [FLOP/byte]")
    plotext.ylabel(unit)
    return Text.from_ansi(plotext.build().rstrip("\n"))


def _plotext() -> Any:
    """The library, which has no types."""
    return import_module("plotext")


def _decades(low: float, high: float) -> tuple[float, float]:
    return 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))


def _ticks(left: float, right: float, bottom: float, top: float) -> None:
    plotext = _plotext()
    across = range(round(math.log10(left)), round(math.log10(right)) + 1)
    up = range(math.ceil(bottom), math.floor(top) + 1)
    plotext.xlim(across[0], across[-1])
    plotext.ylim(bottom, top)
    plotext.xticks(list(across), [_power(each) for each in across])
    plotext.yticks(list(up), [_power(each) for each in up])


def _power(exponent: int) -> str:
    return f"{10.0**exponent:,g}" if -4 <= exponent <= 5 else f"1e{exponent}"
