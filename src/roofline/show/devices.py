"""Devices as terminal text: the catalogue, one in full, two side by side, the ridge by year; and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType

from roofline.device import Figure, Sheet
from roofline.show import words
from roofline.show.terminal import Cell, bullets, table, text
from roofline.units import GIB, GIGA, TERA, percent, significant

UNKNOWN = "unknown"
# The rate that a line shows where none is asked for: the first of these that the device has.
_USUAL = ("bf16", "fp16", "fp16-vector", "fp32-vector")
# Formats from the narrowest: at the first that a device has, its ridge is the highest that matters to GEMMs.
_NARROW = ("fp4", "fp8", "int8", "bf16", "fp16")
_BAR = 18


def usual_rate(sheet: Sheet, rate: str | None = None) -> str | None:
    """The rate that a line about the device shows: the one asked for, else its 16-bit one; None where it has none."""
    return next((each for each in ((rate,) if rate else _USUAL) if each in sheet.peak), None)


def ridge(sheet: Sheet, rate: str | None) -> float | None:
    """The ridge point at a rate [FLOP/byte], None where peak or bandwidth is not known."""
    return sheet.ridge_point(rate) if rate and sheet.bandwidth is not None else None


def _known(value: float | None, unit: float = 1.0, digits: int = 4) -> str:
    return UNKNOWN if value is None else significant(value / unit, digits)


def devices_text(sheets: Sequence[Sheet], rate: str | None = None) -> RenderableType:
    """The catalogue: a line a device, its ridge at the rate that the line names."""
    heads = [("id", "left"), ("device", "left"), ("rate", "left"), ("TFLOP/s", "right"), ("GB/s", "right")]
    rows: list[list[Cell]] = []
    for each in sheets:
        shown = usual_rate(each, rate)
        rows.append(
            [
                each.id,
                each.name.removeprefix(f"{each.vendor} "),
                shown or UNKNOWN,
                _known(each.peak[shown] if shown else None, TERA),
                _known(each.bandwidth, GIGA),
                _known(each.capacity, GIB),
                _known(ridge(each, shown), digits=3),
            ]
        )
    lines = [
        f"{len(sheets)} devices; TFLOP/s: the dense peak of the rate; ridge: FLOP/byte at it.",
        "One in full, with its sources: roofline devices NAME; two side by side: A B.",
    ]
    listed = table([*heads, ("GiB", "right"), ("ridge", "right")], rows, shrinks=1)
    return Group(listed, text(), *(text(line, style="dim") for line in lines))


def device_text(sheet: Sheet, titles: Mapping[str, str]) -> RenderableType:
    """One device in full: every figure with its status, its sources by number and its note, and the conflicts."""
    heads = [("figure", "left"), ("value", "right"), ("ridge", "right"), ("status", "left"), ("sources", "left")]
    keys = [source for figure in sheet.figures.values() for source in figure.source]
    numbers = {key: str(n) for n, key in enumerate(dict.fromkeys((*keys, *sheet.names.source)), 1)}
    rows: list[list[Cell]] = [["memory.bandwidth", UNKNOWN, "", "", ""]] if sheet.bandwidth is None else []
    for key, figure in sheet.figures.items():
        at = ridge(sheet, key.removeprefix("peak.")) if key.startswith("peak.") else None
        sources = ", ".join(numbers[each] for each in figure.source)
        rows.append(
            [key, words.figure(key, figure.value), "" if at is None else significant(at), figure.status, sources]
        )
    blocks: list[RenderableType] = [
        text(f"{sheet.name} ({sheet.id}){f', {sheet.released}' if sheet.released else ''}", style="bold"),
        *(text(f"{line}.", style="yellow") for line in sheet.assumptions),
        *([text(_kind(sheet), style="dim")] if _kind(sheet) else []),
        text(),
        table(heads, rows, shrinks=4),
    ]
    notes = [f"{key}: {figure.note}" for key, figure in sheet.figures.items() if figure.note]
    disagree = (f"{each.field}: {'; '.join(each.values)}. Taken: {each.verdict}" for each in sheet.conflicts)
    blocks += _block("Notes", (*notes, *_facts(sheet), *sheet.notes))
    blocks += _block("Sources that disagree", disagree)
    blocks += _block("Sources", (f"{n}  {key}: {titles.get(key, key)}" for key, n in numbers.items()))
    return Group(*blocks)


def _block(title: str, lines: Iterable[str]) -> list[RenderableType]:
    found = list(lines)
    return [text(), text(title, style="bold dim"), bullets(found)] if found else []


def _headed(sheet: Sheet) -> str:
    return ", ".join(each for each in (f"{sheet.id}: {sheet.name}", _kind(sheet)) if each)


def _kind(sheet: Sheet) -> str:
    return ", ".join(each for each in (sheet.vendor, sheet.architecture, sheet.form_factor) if each)


def _facts(sheet: Sheet) -> list[str]:
    """What the file says beside its figures."""
    facts: list[str] = []
    if sheet.sparsity is not None:
        pattern = f" ({sheet.sparsity.pattern})" if sheet.sparsity.pattern else ""
        facts.append(
            f"sparsity{pattern}: {sheet.sparsity.factor} times {', '.join(sheet.sparsity.rates)}. No peak here "
            f"counts it; it is asked for by name, as {sheet.sparsity.rates[0]}-sparse. {sheet.sparsity.note}".strip()
        )
    if sheet.parts > 1:
        facts.append(f"package: {sheet.parts} devices to a framework, each one {sheet.part}")
    if sheet.aliases:
        note = f" ({sheet.names.note})" if sheet.names.note else ""
        facts.append(f"names{note}: {', '.join((*sheet.default_for, *sheet.aliases))}")
    return facts


def pair_text(left: Sheet, right: Sheet) -> RenderableType:
    """Two devices side by side: every figure that one of them has, the ridge points, and their quotients."""
    heads = [("figure", "left"), (left.id, "right"), (right.id, "right"), ("second / first", "right")]
    keys = [each for each in dict.fromkeys((*left.figures, *right.figures)) if not each.startswith("chip.")]
    keys += [each for each in dict.fromkeys((*left.figures, *right.figures)) if each.startswith("chip.")]
    rows: list[list[Cell]] = [
        [key, *_two(key, left.figures.get(key), right.figures.get(key))] for key in sorted(keys, key=_group)
    ]
    for rate in dict.fromkeys((*left.peak, *right.peak)):
        first, second = (ridge(each, rate if rate in each.peak else None) for each in (left, right))
        rows.append([f"ridge.{rate}", _known(first, digits=3), _known(second, digits=3), _quotient(first, second)])
    return Group(
        *(text(_headed(each), style="bold") for each in (left, right)),
        *(text(f"{line}.", style="yellow") for each in (left, right) for line in each.assumptions),
        text(),
        table(heads, rows),
        text(),
        text("Ridge in FLOP/byte. Statuses and sources: roofline devices NAME", style="dim"),
    )


def _group(key: str) -> int:
    return ("memory", "peak", "cache", "link", "chip").index(key.partition(".")[0])


def _two(key: str, first: Figure | None, second: Figure | None) -> list[Cell]:
    shown: list[Cell] = [UNKNOWN if each is None else words.figure(key, each.value) for each in (first, second)]
    return [*shown, _quotient(first and first.value, second and second.value)]


def _quotient(first: float | None, second: float | None) -> str:
    return f"{significant(second / first)} x" if first and second else ""


def trend_text(sheets: Sequence[Sheet]) -> RenderableType:
    """The ridge by year: each device with a year, at its 16-bit rate and at its narrowest, and the span of a year."""
    found = sorted((each for each in sheets if each.released and _sixteen(each)), key=_age)
    heads = [("year", "left"), ("id", "left"), ("16-bit", "right"), ("narrowest", "right"), ("", "left")]
    longest = max((_sixteen(each) or 0.0 for each in found), default=1.0)
    rows: list[list[Cell]] = []
    for each in found:
        sixteen, narrow = _sixteen(each) or 0.0, _narrowest(each)
        bar = "█" * max(1, round(_BAR * sixteen / longest))
        year = f"{each.released}{' announced' if each.announced else ''}"
        narrowest = f"{significant(ridge(each, narrow) or 0.0)} {narrow:<4}"
        rows.append([year, each.id, significant(sixteen), narrowest, text(bar, "cyan")])
    left = sum(1 for each in sheets if _sixteen(each) and not each.released)
    lines = [f"{year}: {_span(of)}" for year, of in _by_year(found).items()]
    rest = f" {left} more have a ridge and no year with a source." if left else ""
    return Group(
        text("Ridge point by year, FLOP/byte, dense", style="bold"),
        text(),
        table(heads, rows, shrinks=1),
        *_block("The 16-bit ridge of a year, lowest to highest", lines),
        text(),
        text(f"A faster memory lowers the ridge of a refreshed part, a narrower format raises it.{rest}", style="dim"),
    )


def _sixteen(sheet: Sheet) -> float | None:
    return ridge(sheet, next((each for each in ("bf16", "fp16") if each in sheet.peak), None))


def _narrowest(sheet: Sheet) -> str:
    return next(each for each in _NARROW if each in sheet.peak)


def _age(sheet: Sheet) -> tuple[int, float]:
    return sheet.released or 0, _sixteen(sheet) or 0.0


def _by_year(sheets: Iterable[Sheet]) -> dict[int, list[float]]:
    years: dict[int, list[float]] = {}
    for each in sheets:
        years.setdefault(each.released or 0, []).append(_sixteen(each) or 0.0)
    return years


def _span(ridges: Sequence[float]) -> str:
    low, high = min(ridges), max(ridges)
    if len(ridges) == 1:
        return f"{significant(low)}, one device"
    return f"{significant(low)} to {significant(high)}, {len(ridges)} devices, a spread of {percent(high / low - 1)}"


def devices_csv(sheets: Sequence[Sheet]) -> str:
    """A line a device in base SI units; what is not known is empty, and each peak has its status beside it."""
    rates = list(dict.fromkeys(rate for each in sheets for rate in each.peak))
    heads = ["id", "name", "vendor", "released", "announced", "bandwidth", "bandwidth_status", "capacity_bytes"]
    heads += ["l2_bytes", "link_bandwidth", *(f"{kind}{rate}" for rate in rates for kind in _COLUMNS)]
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(heads)
    for each in sheets:
        link = each.links[0].bandwidth if each.links else None
        row: list[object] = [each.id, each.name, each.vendor, each.released, str(each.announced).lower()]
        row += [each.bandwidth, _status(each, "memory.bandwidth"), each.capacity, each.l2, link]
        for rate in rates:
            at = rate if rate in each.peak else None
            row += [each.peak.get(rate), _status(each, f"peak.{rate}"), ridge(each, at)]
        lines.writerow(["" if cell is None else _whole(cell) for cell in row])
    return out.getvalue()


def _whole(cell: object) -> object:
    """A float without a fraction as an int, which a spreadsheet shows with all its digits."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


_COLUMNS = ("peak_", "status_", "ridge_")


def _status(sheet: Sheet, key: str) -> str | None:
    return sheet.figures[key].status if key in sheet.figures else None
