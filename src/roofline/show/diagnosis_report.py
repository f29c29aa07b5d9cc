"""The roofline and the report of a measured run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roofline.bound import Point
from roofline.diagnosis.beside import Beside
from roofline.diagnosis.exchanges import exchanges
from roofline.diagnosis.gpus import label
from roofline.diagnosis.idle import MEANING
from roofline.diagnosis.numbers import real
from roofline.diagnosis.ranks import Run
from roofline.diagnosis.result import Diagnosis
from roofline.errors import BadValue
from roofline.show import charts
from roofline.show.chart import Chart
from roofline.show.diagnosis import (
    above,
    coverage_line,
    gap_lines,
    meanwhile,
    mfu,
    pass_lines,
    range_rows,
    reached,
    read_lines,
    step_lines,
)
from roofline.show.diagnosis_record import device_name, together
from roofline.show.names import visible
from roofline.show.report import Finding, Head, Key, Line, Report, Section, Table
from roofline.show.runs import beside_lines, beside_rows, devices_rows, run_lines, run_rows
from roofline.units import NS_PER_S, column, gib, percent, scale, si

_MARKED = "Each over its own window, from its first activity to its last. * is the one that the rest is of."
_DOTS = 40  # kernels that are drawn, the costliest
_LEAST = 0.005  # of the time and the FLOPs of all that has a cost: what has less of both is not drawn
_ROWS = 40


def diagnosis_chart(found: Diagnosis) -> Chart:
    """Measured kernels under their roofs; raises BadValue where none has a place there."""
    device = found.supply
    points = _dots(found)
    if device is None:
        raise BadValue(f"There is no roofline without a device: {found.supply_from}. Name it with --device.")
    if not _drawable(points):
        raise BadValue(
            "No kernel of this file has FLOPs from its shapes: there is nothing to draw. Record shapes with operators."
        )
    return charts.roofline(points, devices=[device], title=device_name(found), subtitle=(found.verdict,))


def _dots(found: Diagnosis) -> list[Point]:
    """The costliest kernels, without those that take next to nothing: these would stretch the axes for nothing."""
    rows = sorted(((each.count * (each.measured or 0.0), each) for each in found.points()), key=lambda each: -each[0])
    time, flops = sum(each for each, _ in rows), sum(real(each.flops) for _, each in rows)
    return [each for took, each in rows[:_DOTS] if took >= _LEAST * time or real(each.flops) >= _LEAST * flops]


def _drawable(points: Sequence[Point]) -> bool:
    """Whether any of these has a place: an intensity above 0."""
    return any(point.flops and point.bytes for point in points)


def diagnosis_report(found: Diagnosis, command: str = "", side: Beside | None = None, run: Run | None = None) -> Report:
    """The report of a measured run: verdict, what to change, roofline, where the time went.

    `side` is a model's ledger beside it; of several ranks `run` has all, and `found` is the slowest.
    """
    sections = [*_side_by_side(found, run), *_device(found, side), *_host(found)]
    sections.append(Section("What was read", points=[visible(each, 600) for each in read_lines(found)]))
    if command:
        sections.append(Section("Reproduce", code=command))
    return Report(
        kind="Diagnosis: where a measured run lost its time",
        title=visible(device_name(found)) or "A measured run",
        setting=visible(found.source) + (f", {label(found.device or 0)}" if found.devices else ""),
        verdict=found.verdict,
        figures=_keys(found),
        sections=sections,
        notes=[f"{visible(each)}." for each in found.warnings],
        findings=[
            Finding(
                f"{visible(each.title)}: {si(each.at_stake or 0.0, 's', 3)} at stake",
                each.advice,
                list(map(visible, each.evidence)),
            )
            for each in (*(() if run is None else run.findings), *found.findings)
        ],
    )


def _side_by_side(found: Diagnosis, run: Run | None) -> Iterator[Section]:
    """The devices of the file, and the ranks of its run."""
    if found.devices:
        yield Section("Devices of the file", [Line(_MARKED)], table=_table(*devices_rows(found)))
    if run is not None:
        yield Section(f"{len(run.ranks)} ranks", [*map(Line, run_lines(run))], table=_table(*run_rows(run)))


def _device(found: Diagnosis, side: Beside | None) -> Iterator[Section]:
    """What the device did, beside its roofs and beside a model's ledger."""
    lines = [Line(coverage_line(found)), *(Line(visible(each, 300)) for each in above(found.kernels[:_DOTS]))]
    yield Section("Roofline", lines, _roofline(found))
    if found.window:
        yield Section("Where the time went", table=_where(found))
        yield Section("Costliest kernels", table=_kernels(found))
    if side is not None:
        said = [Line(visible(each, 300)) for each in beside_lines(side)]
        yield Section("Beside the model", said, table=_table(*beside_rows(side)))
    if lines := meanwhile(found):
        yield Section("Copies, launches, communication", points=[visible(each, 300) for each in lines])
    if found.communication.calls and exchanges(found):
        yield Section("Collectives", table=_collectives(found))


def _host(found: Diagnosis) -> Iterator[Section]:
    """What the host did meanwhile, as far as it is recorded."""
    if found.causes:
        yield Section("Idle", table=_idle(found), points=[visible(each, 300) for each in gap_lines(found)])
    if found.steps is not None:
        yield Section("Steps", [*map(Line, step_lines(found.steps))])
    if found.alike:
        heads, rows = range_rows(found)
        yield Section("Marked ranges", table=_table(heads, [[visible(row[0], 120), *row[1:]] for row in rows]))
    if found.passes:
        yield Section("Passes of the server", points=[visible(each, 300) for each in pass_lines(found)])


def _roofline(found: Diagnosis) -> list[tuple[Chart, str]]:
    if not _drawable(_dots(found)):
        return []
    return [
        (
            diagnosis_chart(found),
            "A dot is a kernel at the speed that it reached; the dotted line leads to its roof. Its area is its share "
            "of the time; what has less than 0.5 % of it and of the FLOPs is not drawn.",
        )
    ]


def _keys(found: Diagnosis) -> list[Key]:
    window = found.window / NS_PER_S
    keys = [
        Key("window", si(window, "s"), "from the first activity to the last"),
        Key("busy", percent(found.busy / found.window) if found.window else "0 %", "something ran on the device"),
    ]
    flops, moved, _, least, of_bound = together(row.demand for row in found.kernels)
    if found.coverage is not None:
        keys.append(Key("with a cost", percent(found.coverage.share), "of the compute time, from recorded shapes"))
    if least is not None and of_bound is not None:
        keys.append(Key("of bound", percent(of_bound), f"what has a cost: bound {si(least, 's')}"))
        keys.append(Key("demand", si(float(flops), "FLOP"), f"over {si(float(moved), 'B')}"))
    if (used := mfu(found)) is not None:
        keys.append(Key("MFU", *used))
    return keys


def _times(times: Sequence[int]) -> tuple[list[str], str]:
    size, unit = scale(max(times, default=0) / NS_PER_S, "s")
    return column([each / NS_PER_S for each in times], size, 5), unit


def _where(found: Diagnosis) -> Table:
    rows = sorted((each for each in found.breakdown if each.sum), key=lambda each: -each.attributed)
    cells, unit = _times([*(each.attributed for each in rows), found.idle, found.window])
    names = [*(each.category for each in rows), "idle", "window"]
    calls = [*(f"{each.calls:,}" for each in rows), "", ""]
    shares = [percent(each / found.window) for each in (*(row.attributed for row in rows), found.idle, found.window)]
    heads = [Head("category", "name"), Head("calls"), Head(unit), Head("share")]
    return Table(heads, list(zip(names, calls, cells, shares, strict=True)), strong=len(names) - 1)


def _table(heads: Sequence[str], body: Sequence[Sequence[str]]) -> Table:
    """Rows whose first column is a name, the others numbers."""
    return Table([Head(heads[0], "name"), *map(Head, heads[1:])], body)


def _kernels(found: Diagnosis) -> Table:
    rows = found.kernels[:_ROWS]
    whole = sum(each.sum for each in found.kernels) or 1
    cells, unit = _times([each.sum for each in rows])
    heads = [
        *(Head("kernel", "wrap"), Head("category", "text"), Head("operator", "name"), Head("calls"), Head(unit)),
        *(Head("share"), Head("limit", "text"), Head("of bound")),
    ]
    body: list[list[str]] = []
    for row, cell in zip(rows, cells, strict=True):
        body.append(
            [
                *(visible(row.readable, 120), row.category, visible(row.operator, 60), f"{row.calls:,}", cell),
                *(percent(row.sum / whole), *reached(row)),
            ]
        )
    return Table(heads, body)


def _collectives(found: Diagnosis) -> Table:
    rows = exchanges(found)[:_ROWS]
    cells, unit = _times([each.time for each in rows])
    heads = [Head("collective", "name"), Head("ranks"), Head("bytes"), Head("calls"), Head(unit)]
    heads += [Head("algbw"), Head("busbw"), Head("of the link")]
    body = [
        [
            *(
                each.kind,
                "unknown" if each.ranks is None else f"{each.ranks}",
                gib(each.bytes),
                f"{each.calls:,}",
                cell,
            ),
            "unknown" if each.algbw is None else si(each.algbw, "B/s"),
            "unknown" if each.busbw is None else si(each.busbw, "B/s"),
            "unknown" if each.of_link is None else percent(each.of_link),
        ]
        for each, cell in zip(rows, cells, strict=True)
    ]
    return Table(heads, body)


def _idle(found: Diagnosis) -> Table:
    cells, unit = _times([each.time for each in found.causes])
    rows = [
        [each.cause, cell, f"{each.gaps:,}", MEANING[each.cause]]
        for each, cell in zip(found.causes, cells, strict=True)
    ]
    return Table([Head("cause", "name"), Head(unit), Head("gaps"), Head("meaning", "wrap")], rows)
