"""A measured device as terminal text: its ceilings with their scatter, the caches by size, and what else was timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import msgspec
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from roofline.measurement.probes import Row, label
from roofline.measurement.result import MeasuredDevice
from roofline.show.catalogue_record import devices_record
from roofline.show.ceilings_schema import CeilingRecord, MeasureRecord, TimedRecord
from roofline.show.terminal import Cell, bullets, table, text
from roofline.units import GIGA, gib, percent, si, significant

UNKNOWN = "unknown"
_BAR = 24


@contextmanager
def progress() -> Generator[Callable[[float, str], None]]:
    """A bar on standard error while something is measured, where that is a terminal; it leaves nothing behind."""
    console = Console(stderr=True, highlight=False, markup=False)
    columns = (
        TextColumn("measuring"),
        BarColumn(20),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[what]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0, what="")
        yield lambda share, what: bar.update(task, completed=share, what=what)


def measured_record(device: MeasuredDevice) -> dict[str, Any]:
    """A measured device as JSON types, schema `roofline.measure/1`."""
    record = MeasureRecord(
        schema="roofline.measure/1",
        device=devices_record([device])["devices"][0],
        ceilings=[
            CeilingRecord(
                key=each.key,
                value=each.row.value,
                median=each.row.median,
                spread=each.row.samples.spread,
                samples=len(each.row.samples.seconds),
                name=label(each.row.probe),
                of_datasheet=each.of_datasheet,
            )
            for each in device.ceilings
        ],
        rows=[_timed(row) for row in device.rows],
        left_out=list(device.left_out),
        warnings=list(device.warnings),
        environment=list(device.environment),
        toml=device.toml,
    )
    return cast("dict[str, Any]", msgspec.to_builtins(record))


def _timed(row: Row) -> TimedRecord:
    probe, samples = row.probe, row.samples
    return TimedRecord(
        name=probe.name,
        op=probe.work.op,
        dims=cast("dict[str, float]", dict(probe.work.dims)),
        rate=probe.rate,
        threads=probe.threads,
        working_set_bytes=probe.working_set,
        supply=probe.supply,
        unit=probe.unit,
        value=row.value,
        median=row.median,
        spread=samples.spread,
        samples=len(samples.seconds),
        seconds=samples.best,
        median_seconds=samples.median,
    )


def measured_text(device: MeasuredDevice) -> RenderableType:
    """The ceilings first, then memory by size, then the rest, then how sure it is."""
    blocks: list[RenderableType] = [
        text(f"{device.name} ({device.id})", style="bold"),
        *(text(f"{line}.", style="yellow") for line in device.warnings),
        text(),
        _ceilings(device),
        *_by_size(device.rows),
        *_others(device),
        text(),
        bullets([*(f"{line}." for line in device.environment), *_left_out(device.left_out)]),
    ]
    return Group(*blocks)


def _ceilings(device: MeasuredDevice) -> RenderableType:
    heads = [("ceiling", "left"), ("fastest", "right"), ("median", "right"), ("spread", "right")]
    compared = any(each.datasheet is not None for each in device.ceilings)
    rows: list[list[Cell]] = []
    for each in device.ceilings:
        share = UNKNOWN if each.of_datasheet is None else percent(each.of_datasheet, 3)
        rows.append([_named(each.key), *_value(each.row), *([share] if compared else []), label(each.row.probe)])
    heads += [("datasheet", "right")] if compared else []
    return table([*heads, ("with", "left")], rows, shrinks=len(heads))


_SUPPLIES = {
    "memory.bandwidth": "main memory",
    "cache.l2_bandwidth": "L2 cache",
    "cache.last_level_bandwidth": "last-level cache",
}


def _named(key: str) -> str:
    """A figure's key in words."""
    kind, _, name = key.partition(".")
    plain = {"peak": f"{name} peak", "link": f"{name.removesuffix('.bandwidth')} link"}
    return _SUPPLIES.get(key) or plain[kind]


def _value(row: Row) -> list[Cell]:
    unit = row.probe.unit
    return [si(row.value, unit, 3), si(row.median, unit, 3), percent(row.samples.spread)]


def _by_size(rows: Sequence[Row]) -> list[RenderableType]:
    """Bandwidth by working set and pattern, of the most threads: a plateau is a cache."""
    walked = [row for row in rows if row.probe.name.startswith("memory.")]
    blocks: list[RenderableType] = []
    for threads in sorted({row.probe.threads for row in walked}, reverse=True):
        mine = [row for row in walked if row.probe.threads == threads]
        if len({row.probe.working_set for row in mine}) > 1:
            blocks += [text(), text(_threads(threads), style="bold dim"), _curve(mine)]
    return blocks


def _threads(threads: int) -> str:
    with_threads = f", {threads} thread{'s' if threads > 1 else ''}" if threads else ""
    return f"GB/s by working set{with_threads}"


def _curve(rows: Sequence[Row]) -> RenderableType:
    names = list(dict.fromkeys(row.probe.name for row in rows))
    heads = [("working set", "right"), *((name.removeprefix("memory."), "right") for name in names), ("", "left")]
    found = {(row.probe.working_set, row.probe.name): row.value for row in rows}
    most = max(found.values())
    lines: list[list[Cell]] = []
    for size in sorted({size for size, _ in found}):
        values = [found.get((size, name)) for name in names]
        bar = "█" * max(1, round(_BAR * max(value or 0.0 for value in values) / most))
        shown = ["" if value is None else significant(value / GIGA) for value in values]
        lines.append([gib(size), *shown, text(bar, "cyan")])
    return table(heads, lines, shrinks=len(heads) - 1)


def _others(device: MeasuredDevice) -> list[RenderableType]:
    """Everything that is neither a walk through memory nor already a ceiling."""
    known = [each.row for each in device.ceilings]
    rest = [row for row in device.rows if not row.probe.name.startswith("memory.") and row not in known]
    if not rest:
        return []
    heads = [("also timed", "left"), ("fastest", "right"), ("median", "right"), ("spread", "right")]
    return [text(), table(heads, [[label(row.probe), *_value(row)] for row in rest])]


def _left_out(lines: Sequence[str]) -> list[str]:
    """What was not timed, those with one reason together."""
    reasons = Counter(line.rpartition(": ")[2] for line in lines)
    by_reason = {why: [line.rpartition(": ")[0] for line in lines if line.endswith(f": {why}")] for why in reasons}
    return [
        f"Left out, {why}: {'; '.join(names[:2])}{f'; and {len(names) - 2} more' if len(names) > 2 else ''}."
        for why, names in by_reason.items()
    ]
