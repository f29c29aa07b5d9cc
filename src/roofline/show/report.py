"""A report: what was found, why, from which facts, as one HTML file that can be sent on.

`Report` knows no ledger: whatever has a verdict, figures, charts and tables makes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from roofline.assumptions import warnings
from roofline.capacity import Memory, memory
from roofline.ledger import Ledger
from roofline.sheets import source_titles
from roofline.show import charts, words
from roofline.show.chart import Chart
from roofline.show.page import figure, page, scripts_for
from roofline.show.record import used
from roofline.units import column, gib, percent, scale, si, significant
from roofline.verdicts import verdict


class Key(NamedTuple):
    """One figure of the summary: its name, its value with the unit, and what it means."""

    name: str
    value: str
    meaning: str


class Head(NamedTuple):
    """The head of a column; its `kind` is number, text, name or wrap."""

    title: str
    kind: str = "number"


class Table(NamedTuple):
    """Heads, rows of text, and which row stands out."""

    heads: Sequence[Head]
    rows: Sequence[Sequence[str]]
    strong: int = -1


class Line(NamedTuple):
    """A paragraph, and whether it is bad news."""

    text: str
    strong: bool = False


class Finding(NamedTuple):
    """What to change: what it is with the time at stake, the advice, and the figures behind it."""

    title: str
    advice: str
    evidence: Sequence[str]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report under its own heading; what is empty is left out."""

    title: str
    texts: Sequence[Line] = ()
    charts: Sequence[tuple[Chart, str]] = ()
    table: Table | None = None
    points: Sequence[str] = ()
    code: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What an answer says, in the order in which it is read."""

    kind: str
    title: str
    setting: str
    verdict: str
    figures: Sequence[Key]
    sections: Sequence[Section]
    notes: Sequence[str] = ()
    findings: Sequence[Finding] = ()

    @property
    def kernels(self) -> Table:
        """The first table: the kernels."""
        return next(each.table for each in self.sections if each.table is not None)

    @property
    def made_by(self) -> str:
        """The program and its version."""
        from importlib.metadata import version

        return f"Made by roofline {version('roofline')}."

    def html(self) -> str:
        """The whole report as one page."""
        sections = [
            {
                "title": each.title,
                "texts": each.texts,
                "charts": [figure(chart.untitled(), caption) for chart, caption in each.charts],
                "table": each.table,
                "points": each.points,
                "code": each.code,
            }
            for each in self.sections
        ]
        live = any(each.charts for each in self.sections)
        return page(
            "report.html", f"{self.title} - roofline", scripts_for(live), {"report": self, "sections": sections}
        )


def ledger_report(ledger: Ledger, command: str = "") -> Report:
    """The report of a prediction; raises BadValue for a ledger over arrays."""
    held = memory(ledger)
    noted = [f"{each}." for each in warnings(ledger)]
    notes = noted if held.fits is not False else [*noted, f"Does not fit: {_held(held)}."]
    sections = [
        Section("Roofline", charts=[(charts.ledger_roofline(ledger), _ROOFLINE)]),
        Section(
            "Where the time goes",
            charts=[(charts.time({"": ledger}), "Each kernel's share of the pass, kinds together.")],
            table=_kernels(ledger),
        ),
        *_levers(ledger, held),
        Section("Memory", _fits(ledger, held), [(charts.memory(held), "")]),
        Section("Assumptions", points=[f"{each}." for each in ledger.assumptions[len(noted) :]]),
        Section("Sources", table=_sources(ledger)),
    ]
    if command:
        sections.append(Section("Reproduce", code=command))
    return Report(
        "Prediction: the most that this model can do on this device",
        words.subject(ledger),
        words.setting(ledger),
        verdict(ledger),
        [*_keys(ledger), *_room(held)],
        sections,
        notes,
    )


_ROOFLINE = (
    "A dot is a kernel at its intensity; its area is its share of the time. The roof is what the device allows: "
    "on the slope memory sets the pace, on the flat part arithmetic. The ridge is where the two meet."
)


def _float(value: object) -> float:
    return cast(float, value)


def _held(held: Memory) -> str:
    return f"{gib(held.total_bytes)} of {gib(held.capacity_bytes or 0)}"


def _room(held: Memory) -> list[Key]:
    """What is held beside what there is."""
    if held.fits is None:
        return [Key("memory", gib(held.total_bytes), "the device's capacity is unknown")]
    return [Key("memory", gib(held.total_bytes), f"{_held(held)}: {'fits' if held.fits else 'does not fit'}")]


def _keys(ledger: Ledger) -> list[Key]:
    total = ledger.total
    times = [
        ("bound", total.bound_seconds, "kernels one after another"),
        ("floor", total.floor_seconds, "perfect overlap, compulsory bytes"),
        ("no overlap", total.no_overlap_seconds, "compute, memory, links added up"),
    ]
    if ledger.efficiency is not None:
        shares = f"at {percent(ledger.efficiency[0])} bandwidth, {percent(ledger.efficiency[1])} peak"
        times.insert(0, ("derated", total.seconds, shares))
    keys = [
        Key(name, si(_float(seconds), "s"), f"{words.rate(ledger, _float(seconds))}, {meaning}")
        for name, seconds, meaning in times
    ]
    rate = ledger.precision.compute
    ridge = significant(ledger.device.ridge_point(rate))
    demand = f"{si(_float(total.flops), 'FLOP')} over {si(_float(total.bytes), 'B')}"
    return [
        *keys,
        Key("intensity", f"{significant(_float(total.intensity))} FLOP/byte", f"ridge {ridge}; {demand}"),
        Key("of peak", percent(_float(total.of_peak)), f"of {si(ledger.device.rate(rate), 'FLOP/s')} {rate}, dense"),
    ]


def _kernels(ledger: Ledger) -> Table:
    times = [_float(each) for each in ledger.times]
    flops, moved, bounds = (
        [_float(getattr(point, name)) for point in ledger.kernels] for name in ("flops", "bytes", "bound_seconds")
    )
    whole = sum(times)
    flop_size, flop_unit = scale(sum(flops), "FLOP")
    byte_size, byte_unit = scale(sum(moved), "B")
    time_size, time_unit = scale(whole, "s")
    derated = ledger.efficiency is not None
    columns = [
        (Head("kernel", "name"), [point.name for point in ledger.kernels]),
        (Head("operation", "text"), [point.work.op for point in ledger.kernels]),
        (Head("calls"), [f"{point.count:,}" for point in ledger.kernels]),
        (Head(flop_unit), column(flops, flop_size, 5)),
        (Head(byte_unit), column(moved, byte_size, 5)),
        (Head("FLOP/byte"), [words.intensity(_float(point.work.intensity)) for point in ledger.kernels]),
        (Head("bound by", "text"), [str(point.bound.by) for point in ledger.kernels]),
        (Head(f"bound {time_unit}"), column(bounds, time_size, 5)),
        *([(Head(f"derated {time_unit}"), column(times, time_size, 5))] if derated else []),
        (Head("share"), [words.share(each / whole) for each in times]),
    ]
    rows = list(zip(*(cells for _, cells in columns), strict=True))
    return Table([head for head, _ in columns], rows, strong=times.index(max(times)))


def _levers(ledger: Ledger, held: Memory) -> list[Section]:
    """What would help, and in a sentence what would not."""
    good = [each for each in ledger.levers if each.helps]
    bad = [each for each in ledger.levers if not each.helps]
    heads = [Head("change", "name"), Head(words.unit(ledger)), Head("gain"), Head("a pass"), Head("memory", "text")]
    rows = [
        [
            each.change,
            significant(each.tokens_per_second, 4),
            f"+{percent(each.gain)}",
            si(each.seconds, "s"),
            words.conditions(each, held),
        ]
        for each in good
    ]
    listed = ", ".join(f"{each.change} ({100 * each.gain:+.1f} %)" for each in bad)
    texts = [Line(f"What would not: {listed}.")] if bad else []
    return [Section("What would help", texts, table=Table(heads, rows) if rows else None)] if ledger.levers else []


def _fits(ledger: Ledger, held: Memory) -> list[Line]:
    each = " on each device" if ledger.shard.tp > 1 else ""
    if held.capacity_bytes is None:
        return [Line(f"{gib(held.total_bytes)}{each}. The capacity of {ledger.device.id} is unknown.")]
    of = f"{gib(held.total_bytes)} of {gib(held.capacity_bytes)} ({ledger.device.capacity_note}){each}"
    first = Line(f"Fits: {of}.") if held.fits else Line(f"Does not fit: {of}.", strong=True)
    most = f"{words.largest(ledger, held)} {words.longest(ledger, held)}".strip()
    return [first, Line(most)] if most else [first]


def _sources(ledger: Ledger) -> Table:
    rows = [[key, "", "", value] for key, value in ledger.model.sources.items()]
    titles = source_titles()
    for key in used(ledger):
        found = ledger.device.figures.get(key)
        if found is not None:
            where = "; ".join(titles.get(each, each) for each in found.source)
            note = f". {found.note}" if found.note else ""
            rows.append([key, words.figure(key, found.value), found.status, f"{where}{note}"])
    return Table([Head("figure", "name"), Head("value"), Head("status", "text"), Head("source", "wrap")], rows)
