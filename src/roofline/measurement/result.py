"""What was measured as a device: its figures with their scatter, and the TOML file that says so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, cast

from roofline.device import Device, Sheet
from roofline.devicefile import Cache as CacheTable
from roofline.devicefile import DeviceFile, Entry, Memory, device_text, sheet_from
from roofline.errors import RooflineError
from roofline.files import write_text
from roofline.measurement.machine import Cache, Load
from roofline.measurement.probes import Row, label
from roofline.units import gib, percent, si

WIDE = 0.15  # spread from which on a ceiling is said to scatter
_WITHIN, _BEYOND = 0.75, 1.25  # a working set shows a level: of its size at the most, of the level's below at the least
_LEAST_GEMM = 256  # a product below it says what a call costs, and no peak
_WALKS = ("memory.", "skinny.")  # whose time is that of the bytes they touch
_TURN = 3e-6  # [s] that a thread holds the interpreter to start a call, with room


class MeasureError(RooflineError):
    """A machine, or a library, that cannot be measured."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One figure of the device and the row that it is from; `datasheet` is the same figure of its sheet."""

    key: str
    row: Row
    datasheet: float | None = None

    @property
    def of_datasheet(self) -> float | None:
        """Share of the datasheet's figure."""
        return None if self.datasheet is None else self.row.value / self.datasheet


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured and with what.

    `memory` [byte] is what its driver reports; `how` names the backend and its libraries; `facts` are sentences about
    the environment; `sheet` is its datasheet where it is recognised, `sheet_note` says so or why not.
    """

    name: str
    vendor: str
    how: str
    caches: tuple[Cache, ...]
    memory: int | None
    facts: tuple[str, ...] = ()
    sheet: Sheet | None = None
    sheet_note: str = ""
    ranks: int = 1  # that all-reduce together
    turns: bool = False  # whether threads take turns in the interpreter to start a call


@dataclass(frozen=True, slots=True)
class MeasuredDevice(Device):
    """A device as it was measured: its supplies, and every row behind them.

    `ceilings` are the figures that became supplies; `rows` is everything that was timed; `left_out` what
    was not, and why; `warnings` what makes the figures doubtful; `toml` the device file.
    """

    ceilings: tuple[Ceiling, ...] = ()
    rows: tuple[Row, ...] = ()
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    toml: str = ""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the device file, at once or not at all; raises OSError."""
        write_text(Path(path), self.toml)


def ceilings(rows: Sequence[Row], subject: Subject) -> tuple[Ceiling, ...]:
    """The highest value of each supply: main memory, every level of cache that shows, every rate, every link."""
    found: dict[str, Row] = {}
    for row in rows:
        for key in _keys(row, rows, subject):
            if key not in found or row.value > found[key].value:
                found[key] = row
    return tuple(Ceiling(key, row, _stated(subject.sheet, key)) for key, row in found.items() if not _flat(key, found))


def _flat(key: str, found: Mapping[str, Row]) -> bool:
    """Whether it is a cache that shows no plateau above main memory: such a figure is no ceiling."""
    memory = found.get("memory.bandwidth")
    return key.startswith("cache.") and memory is not None and found[key].value <= memory.value


def _stated(sheet: Sheet | None, key: str) -> float | None:
    figure = sheet.figures.get(key) if sheet else None
    return figure.value if figure else None


def _keys(row: Row, rows: Sequence[Row], subject: Subject) -> Iterable[str]:
    """The supplies that a row is evidence of."""
    probe = row.probe
    if probe.name.startswith("gemm.") and cast(int, probe.work.dims["m"]) >= _LEAST_GEMM:
        yield f"peak.{probe.rate}"
    if probe.name == "all-reduce":
        yield f"link.{probe.rate}.bandwidth"
    if not probe.name.startswith(_WALKS):
        return
    if probe.working_set == max(each.probe.working_set for each in rows if each.probe.name.startswith(_WALKS)):
        yield "memory.bandwidth"
        return
    if subject.turns and probe.threads > 1 and row.samples.best < _TURN * probe.threads:
        return  # the interpreter is what is measured
    level = level_of(probe.working_set, probe.threads, subject.caches)
    if level is not None and level.level == 2:
        yield "cache.l2_bandwidth"
    elif level is not None and level.level > 2:
        yield "cache.last_level_bandwidth"


def level_of(working_set: int, threads: int, caches: Sequence[Cache]) -> Cache | None:
    """The cache that serves a working set of so many threads, None where it lies between two."""
    below = 0
    for each in sorted(caches, key=lambda cache: cache.level):
        size = each.size * min(each.count, max(1, threads))
        if _BEYOND * below <= working_set <= _WITHIN * size:
            return each
        below = size
    return None


def measured(
    rows: Sequence[Row], left_out: Sequence[str], subject: Subject, load: Load, seconds: float, name: str | None
) -> MeasuredDevice:
    """The device that the rows tell of; raises MeasureError where they tell of no memory bandwidth."""
    found = ceilings(rows, subject)
    if not any(each.key == "memory.bandwidth" for each in found):
        why = "; ".join(left_out[:3]) or "nothing was timed"
        raise MeasureError(f"The memory bandwidth of {subject.name} cannot be measured: {why}.")
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    environment = (
        f"Measured on {now} with roofline {version('roofline')} in {seconds:.0f} s: {subject.how}",
        *subject.facts,
        load.text[0].upper() + load.text[1:],
        *((subject.sheet_note,) if subject.sheet_note else ()),
        "A ceiling is the fastest run of many, as noise only adds time; a spread of 10 % means that a quarter of the "
        "runs fell 10 % or more below it",
        *(_share(each) for each in found if each.of_datasheet is not None),
        *_without_plateau(found, rows, subject),
    )
    warnings = tuple(_warnings(found, load, subject))
    ident = _ident(name or f"{subject.name} measured")
    source = f"roofline measure, {now}"
    text = device_text(_file(ident, subject, found, source, (*environment, *warnings)))
    device = sheet_from(text, f"{ident}.toml").device()
    base: dict[str, Any] = {each.name: getattr(device, each.name) for each in fields(Device)}
    base["assumptions"] = (*device.assumptions, *warnings)
    return MeasuredDevice(**base, ceilings=found, rows=tuple(rows), left_out=tuple(left_out), warnings=warnings,
                          environment=environment, toml=text)  # fmt: skip


def _without_plateau(found: Sequence[Ceiling], rows: Sequence[Row], subject: Subject) -> Iterable[str]:
    """The caches that were walked and are no faster than main memory, in sentences."""
    seen = {key for row in rows for key in _keys(row, rows, subject) if key.startswith("cache.")}
    for key in sorted(seen - {each.key for each in found}):
        yield f"{key} is not given: no plateau shows above main memory"


def _share(each: Ceiling) -> str:
    share = each.of_datasheet or 0.0
    return f"{each.key} is {percent(share, 3)} of the datasheet's"


def _warnings(found: Sequence[Ceiling], load: Load, subject: Subject) -> Iterable[str]:
    if load.busy:
        yield f"The machine was busy ({load.text}): its ceilings may be higher. Measure again when it is idle"
    wide = [each for each in found if each.row.samples.spread > WIDE]
    if wide:
        said = ", ".join(f"{each.key} {percent(each.row.samples.spread)}" for each in wide)
        yield f"Runs scatter, so a repetition may differ by as much: spread of {said}"
    memory = next((each.row.probe.working_set for each in found if each.key == "memory.bandwidth"), 0)
    largest = max((each.total for each in subject.caches), default=0)
    if memory < 2 * largest:
        yield (
            f"Main memory was walked over {gib(memory)} only, beside a cache of {gib(largest)}: its bandwidth may "
            "include the cache's"
        )


def _ident(name: str) -> str:
    """A name as an id: letters, digits and hyphens."""
    words = re.sub(r"\((r|tm|c)\)", " ", name.lower())
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:60].strip("-") or "measured"


def _file(ident: str, subject: Subject, found: Sequence[Ceiling], source: str, notes: Sequence[str]) -> DeviceFile:
    entries = {each.key: _entry(each, source) for each in found}
    told = "as the system reports it"
    by_level = {"l2" if each.level == 2 else "last_level": each for each in subject.caches if each.level > 1}
    stated = {
        key: Entry(f"{each.total} B", "measured", source, f"{each.text}, {told}") for key, each in by_level.items()
    }
    speeds = {key: entries.get(f"cache.{key}") for key in ("l2_bandwidth", "last_level_bandwidth")}
    memory = Entry(f"{subject.memory} B", "measured", source, told) if subject.memory else None
    domain = Entry(subject.ranks, "measured", source, "the ranks that took part")
    wires = {key.split(".")[1]: entry for key, entry in entries.items() if key.startswith("link.")}
    links = {name: {"bandwidth": entry, "domain": domain} for name, entry in wires.items()}
    return DeviceFile(
        id=ident,
        name=f"{subject.name}, measured",
        vendor=subject.vendor,
        memory=Memory(entries["memory.bandwidth"], reported=memory),
        peak={key.removeprefix("peak."): entry for key, entry in entries.items() if key.startswith("peak.")},
        cache=CacheTable(**stated, **speeds),
        link=links,
        notes=[f"{each}." for each in notes],
    )


def _entry(each: Ceiling, source: str) -> Entry:
    return Entry(si(each.row.value, each.row.probe.unit), "measured", source, how(each.row))


def how(row: Row) -> str:
    """How a ceiling came about, and how far its runs scatter."""
    samples, unit = row.samples, row.probe.unit
    return (
        f"{label(row.probe)}: the fastest of {len(samples.seconds)}; median {si(row.median, unit)}, "
        f"spread {percent(samples.spread)}"
    )
