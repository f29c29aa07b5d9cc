"""A device's TOML file to a Sheet: every figure with unit, status and source, unknown keys refused."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, cast, get_args

import msgspec

from roofline.device import Conflict, Figure, Link, Names, Sheet, Sparsity
from roofline.errors import BadValue, DataError, shown
from roofline.units import quantity

Status = Literal["verified", "quoted", "catalogue", "derived", "announced", "measured"]


_LONGEST_LINE = 4096
_MOST = 10_000
_FORM = 'A figure is { value = "3.35 TB/s", status = "measured", source = "a document or a measurement" }.'
_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class Entry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A figure as it is written: a value with its unit, how sure it is, and where it is from."""

    value: str | int
    status: Status
    source: str | list[str]
    note: str = ""


class Memory(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Main memory. `capacity` as the vendor states it, `reported` as the driver does."""

    bandwidth: Entry | Literal["unknown"]
    type: str = ""
    capacity: Entry | None = None
    reported: Entry | None = None


class Cache(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Caches between memory and the units."""

    l2: Entry | None = None
    last_level: Entry | None = None
    l2_bandwidth: Entry | None = None
    last_level_bandwidth: Entry | None = None


class Wire(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A link, one direction."""

    bandwidth: Entry
    type: str = ""
    domain: Entry | None = None
    latency: Entry | None = None


class Sparse(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What structured sparsity would multiply the peaks of these rates by."""

    factor: int
    rates: list[str]
    pattern: str = ""
    note: str = ""


class Package(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How many devices a framework sees in one package, and what one of them is called."""

    parts: int
    part: str


class Recognise(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How others call the device, as `Names`, and where its names and aliases are from."""

    words: list[str] = []
    also: list[str] = []
    family: list[str] = []
    units: list[int] = []
    source: list[str] = []
    note: str = ""


class Chip(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Units, clock and power."""

    compute_units: Entry | None = None
    boost_clock: Entry | None = None
    power: Entry | None = None


class Disagreement(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Sources that disagree."""

    field: str
    values: list[str]
    verdict: str


class DeviceFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The whole file."""

    id: str
    name: str
    memory: Memory
    peak: dict[str, Any]
    vendor: str = ""
    architecture: str = ""
    form_factor: str = ""
    released: int | None = None
    announced: bool = False
    aliases: list[str] = []
    default_for: list[str] = []
    cache: Cache = Cache()
    link: dict[str, Any] = {}
    sparsity: Sparse | None = None
    package: Package | None = None
    recognise: Recognise = Recognise()
    chip: Chip = Chip()
    notes: list[str] = []
    conflict: list[Disagreement] = []


def sheet_from(text: str, where: str) -> Sheet:
    """What a TOML text says of a device; raises DataError that names file, key and what is allowed."""
    parsed = _converted(_table(text, where), DeviceFile, where, "")
    peaks = {rate: _converted(each, Entry, where, f"peak.{rate}") for rate, each in parsed.peak.items()}
    wires = {name: _converted(each, Wire, where, f"link.{name}") for name, each in parsed.link.items()}
    figures = _figures(parsed, peaks, wires, where)
    capacity, whose = _capacity(figures)
    bandwidth, l2 = figures.get("memory.bandwidth"), figures.get("cache.l2")
    sizes = (figures[key].value for key in ("cache.l2", "cache.last_level") if key in figures)
    speeds = {key: figures.get(f"cache.{key}_bandwidth") for key in ("l2", "last_level")}
    names, package = parsed.recognise, parsed.package or Package(1, "")
    return Sheet(
        id=parsed.id,
        name=parsed.name,
        vendor=parsed.vendor,
        peak={rate: figures[f"peak.{rate}"].value for rate in peaks},
        bandwidth=bandwidth.value if bandwidth else None,
        capacity=capacity,
        capacity_note=whose,
        l2=int(l2.value) if l2 else None,
        cache=max((int(each) for each in sizes), default=None),
        links=tuple(_link(name, wire, figures) for name, wire in wires.items()),
        released=parsed.released,
        aliases=tuple(parsed.aliases),
        default_for=tuple(parsed.default_for),
        figures=figures,
        conflicts=tuple(Conflict(each.field, tuple(each.values), each.verdict) for each in parsed.conflict),
        notes=tuple(parsed.notes),
        architecture=parsed.architecture,
        form_factor=parsed.form_factor,
        announced=parsed.announced,
        assumptions=(f"{parsed.id} is announced: its figures are what is expected of it",) if parsed.announced else (),
        cache_bandwidth={key: each.value for key, each in speeds.items() if each},
        sparsity=_sparsity(parsed, where),
        parts=_whole(package.parts, "package.parts", where),
        part=package.part,
        names=Names(
            tuple(names.words),
            tuple(names.also),
            tuple(names.family),
            tuple(names.units),
            tuple(names.source),
            names.note,
        ),
    )


def device_text(file: DeviceFile) -> str:
    """A device file as TOML, which `sheet_from` reads; what it does not say is left out."""
    import tomli_w

    return tomli_w.dumps(_said(msgspec.to_builtins(file)))


def _said(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table without what is empty."""
    kept = {key: _said(cast("Mapping[str, Any]", v)) if isinstance(v, dict) else v for key, v in table.items()}
    return {key: value for key, value in kept.items() if value not in (None, "", [], {}, False) or key == "peak"}


def _table(text: str, where: str) -> dict[str, Any]:
    if any(len(line) > _LONGEST_LINE for line in text.split("\n")):
        # tomllib keeps every prefix of a dotted key: memory that grows with the square of a line.
        raise DataError(f"{where} has a line of more than {_LONGEST_LINE:,} characters, and is no device file.")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise DataError(f"{where} is not valid TOML: it is nested too deeply.") from None
    except ValueError as error:  # what tomllib raises, and what Python does of a number of thousands of digits
        raise DataError(f"{where} is not valid TOML: {str(error)[:120]}.") from None


def _link(name: str, wire: Wire, figures: Mapping[str, Figure]) -> Link:
    key = f"link.{name}"
    domain = int(figures[f"{key}.domain"].value) if wire.domain else None
    latency = figures[f"{key}.latency"].value if wire.latency else 0.0
    return Link(name, figures[f"{key}.bandwidth"].value, domain, latency)


def _sparsity(parsed: DeviceFile, where: str) -> Sparsity | None:
    found = parsed.sparsity
    if found is None:
        return None
    strange = [rate for rate in found.rates if rate not in parsed.peak]
    if strange:
        known = ", ".join(parsed.peak) or "none"
        raise DataError(f"{where}: sparsity.rates has {shown(strange[0])}, which has no peak. Possible: {known}.")
    return Sparsity(_whole(found.factor, "sparsity.factor", where), tuple(found.rates), found.pattern, found.note)


def _whole(value: int, key: str, where: str) -> int:
    if not 1 <= value <= _MOST:
        raise DataError(f"{where}: {key} is {shown(value)}. Possible: a whole number from 1 to {_MOST:,}.")
    return value


def _converted(value: Any, kind: type[_Struct], where: str, key: str) -> _Struct:
    """`value` as that Struct; the error names the key, and what is allowed where that is a list."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        at = f"{key}{path.removesuffix('`')}".strip(".") or "the file"
        known = ("unknown",) if at == "memory.bandwidth" else get_args(Status)
        allowed = f" Possible: {', '.join(known)}." if "enum" in text else ""
        raise DataError(f"{where}: {at}: {text}.{allowed} {_FORM}") from None


def _capacity(figures: Mapping[str, Figure]) -> tuple[int | None, str]:
    for key, whose in (("memory.reported", "as the driver reports it"), ("memory.capacity", "the vendor's figure")):
        found = figures.get(key)
        if found is not None:
            return int(found.value), whose
    return None, "unknown"


def _figures(
    parsed: DeviceFile, peaks: Mapping[str, Entry], wires: Mapping[str, Wire], where: str
) -> dict[str, Figure]:
    """Every figure of the file in base SI units, by its key."""
    written: dict[str, tuple[Entry | None, str]] = {
        "memory.bandwidth": (None if parsed.memory.bandwidth == "unknown" else parsed.memory.bandwidth, "B/s"),
        "memory.capacity": (parsed.memory.capacity, "B"),
        "memory.reported": (parsed.memory.reported, "B"),
        "cache.l2": (parsed.cache.l2, "B"),
        "cache.last_level": (parsed.cache.last_level, "B"),
        "cache.l2_bandwidth": (parsed.cache.l2_bandwidth, "B/s"),
        "cache.last_level_bandwidth": (parsed.cache.last_level_bandwidth, "B/s"),
        "chip.compute_units": (parsed.chip.compute_units, ""),
        "chip.boost_clock": (parsed.chip.boost_clock, "Hz"),
        "chip.power": (parsed.chip.power, "W"),
    }
    written |= {f"peak.{rate}": (entry, "FLOP/s") for rate, entry in peaks.items()}
    for name, wire in wires.items():
        written[f"link.{name}.bandwidth"] = (wire.bandwidth, "B/s")
        written[f"link.{name}.domain"] = (wire.domain, "")
        written[f"link.{name}.latency"] = (wire.latency, "s")
    return {key: _figure(entry, unit, where, key) for key, (entry, unit) in written.items() if entry is not None}


def _figure(entry: Entry, unit: str, where: str, key: str) -> Figure:
    source = (entry.source,) if isinstance(entry.source, str) else tuple(entry.source)
    if not source or not all(each.strip() for each in source):
        raise DataError(f"{where}: {key} has no source. Name the document or measurement that it is from.")
    if unit == "":
        if not isinstance(entry.value, int) or entry.value <= 0:
            raise DataError(f"{where}: {key} is {shown(entry.value)}. Possible: a whole number above zero.")
        return Figure(entry.value, entry.status, source, entry.note)
    try:
        value = quantity(str(entry.value), unit)
    except BadValue as error:
        raise DataError(f"{where}: {key}: {error}") from None
    if unit != "s" and not 1 <= value <= 1e30:
        raise DataError(f"{where}: {key} is {shown(entry.value)}. Possible: from 1 to 1e30 {unit}.")
    return Figure(value, entry.status, source, entry.note)
