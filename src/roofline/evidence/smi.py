"""nvidia-smi: the table of `dmon`, and the CSV of `--query-gpu`, alone or within other output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isnan

from roofline.errors import BadValue
from roofline.evidence.cells import cells
from roofline.evidence.counters import Counters, Gatherer, table
from roofline.evidence.lines import Lines
from roofline.units import tool_unit

_TABLE = re.compile(r"\s*#\s*(?:Date\s+)?(?:Time\s+)?gpu\s+(\S.*)", re.IGNORECASE)
_DATED = re.compile(r"\s*#\s*(Date\b)?\s*(Time\b)?", re.IGNORECASE)
_UNITS = re.compile(r"\s*#\s*(?:YYYY\S*\s+)?(?:HH:\S*\s+)?Idx\b")
_QUANTITY = re.compile(r"\s*(-?[\d.]+)\s*(\S*)\s*\Z")
_STATES = {"Active": 1.0, "Not Active": 0.0}
_MEASURES = ("pwr", "sm", "mem", "pclk", "mclk")


def sniff(head: str) -> bool:
    """Whether a text holds a table of nvidia-smi dmon or a CSV of nvidia-smi --query-gpu."""
    return any(_columns(line) or _header(line) for line in head.splitlines())


def _columns(line: str) -> list[str] | None:
    """The columns of a head of dmon, without those before the card's number; None for other lines, pmon's too."""
    match = _TABLE.match(_spaced(line))
    if match is None:
        return None
    columns = match[1].split()
    return columns if "pid" not in columns and any(each in _MEASURES for each in columns) else None


def _dated(head: str) -> tuple[bool, bool]:
    """Whether the rows below a head of dmon begin with a date, and with a time."""
    match = _DATED.match(head)
    return (False, False) if match is None else (match[1] is not None, match[2] is not None)


def _spaced(line: str) -> str:
    """A line of dmon's table, its cells parted by spaces, as they are but with --format csv."""
    return line.replace(",", " ")


def _header(line: str) -> list[str] | None:
    """The fields of a CSV's head, without their units; None for other lines."""
    if "," not in line or line.lstrip().startswith("#") or len(line) > 1 << 16:
        return None
    fields = [_without_unit(each) for each in line.split(",")]
    return (
        fields if any(each in table("smi") for each in fields) and not any(" " in each for each in fields[:1]) else None
    )


def _without_unit(field: str) -> str:
    """The name of a field: `power.draw [W]` is power.draw."""
    field = field.strip()
    unit = field.find("[", field.rfind("]", 0, -1) + 1) if field.endswith("]") else -1
    return field if unit < 0 else field[:unit].rstrip()


def read(lines: Lines) -> Counters:
    """The cards of a text; raises BadValue where it holds no value."""
    found = Gatherer()
    forms: list[str] = []
    columns: list[str] | None = None
    dated = (False, False)
    fields: list[str] | None = None
    for line in lines:
        if (head := _columns(line)) is not None:
            columns, dated, fields = head, _dated(_spaced(line)), None
            forms.append("nvidia-smi dmon")
        elif (names := _header(line)) is not None:
            columns, fields = None, names
            forms.append("nvidia-smi --query-gpu")
        elif _TABLE.match(line) or not line.strip():
            columns, fields = None, None if not line.strip() else fields
        elif columns is not None and not _UNITS.match(_spaced(line)):
            _dmon(lines.who, _spaced(line).split(), columns, dated, found)
        elif fields is not None:
            _queried(lines.who, line, fields, found)
    gpus = found.done()
    if not gpus:
        raise BadValue("has the head of a table of nvidia-smi and no sample below it. Record for some seconds.")
    return Counters(" and ".join(dict.fromkeys(forms)), gpus, found.left_out, tuple(lines.warnings))


def _dmon(who: str, row: list[str], columns: list[str], dated: tuple[bool, bool], found: Gatherer) -> None:
    """A row of dmon; a line that is none is passed over."""
    time = _time(f"{row[0]} {row[1]}", "%Y%m%d %H:%M:%S") if all(dated) and len(row) > 2 else None
    row = row[sum(dated) :]
    if len(row) < 2 or not row[0].isdecimal() or len(row[0]) > 5:
        return
    values: dict[str, float] = {}
    for column, cell in zip(columns, row[1:], strict=False):
        counter = table("dmon").get(column)
        try:
            value = float(cell[:40])
        except ValueError:
            continue
        if counter is not None and not isnan(value):
            values[counter[0]] = value * counter[1]
    series = found.series(_by(who, f"GPU {row[0]}"))
    if series is not None and values:
        series.add(values, time)


def _queried(who: str, line: str, fields: list[str], found: Gatherer) -> None:
    """A row of the CSV."""
    parts = cells(line)
    if len(parts) != len(fields):
        found.drop("rows of another length than the head")
        return
    row = dict(zip(fields, (each.strip() for each in parts), strict=True))
    values: dict[str, tuple[float, int]] = {}
    for name, cell in row.items():
        counter = table("smi").get(name)
        value = _value(cell, name)
        if counter is not None and value is not None:
            ours, factor, order = counter
            if ours not in values or order < values[ours][1]:
                values[ours] = (value * factor, order)
    series = found.series(_by(who, _name(row)), row.get("name") or row.get("gpu_name") or "")
    if series is not None and values:
        time = _time(row.get("timestamp", ""), "%Y/%m/%d %H:%M:%S.%f")
        series.add({ours: value for ours, (value, _) in values.items()}, time)


def _by(who: str, card: str) -> str:
    """A card of one of several that print into one text."""
    return f"{who}: {card}" if who else card


def _name(row: Mapping[str, str]) -> str:
    number = row.get("index") or row.get("uuid") or row.get("gpu_uuid") or row.get("pci.bus_id") or "?"
    return f"GPU {number}"[:200]


def _value(cell: str, name: str) -> float | None:
    """A cell in base units: "634.00 W", "100 %", "1980 MHz", "Active", "0x0000000000000004"; None where it has none."""
    if cell in _STATES:
        return _STATES[cell]
    if cell.lower().startswith("0x"):
        try:
            return float(int(cell[:20], 16))
        except ValueError:
            return None
    match = _QUANTITY.match(cell[:60])
    if match is None:
        return None
    try:
        value = float(match[1])
    except ValueError:
        return None
    unit = match[2] or _IMPLIED.get(name.partition(".")[0], "")
    return value * tool_unit(unit)[0]


# Units of fields where the CSV is without them (nounits).
_IMPLIED = {"utilization": "%", "clocks": "MHz", "memory": "MiB"}


def _time(text: str, form: str) -> float | None:
    try:
        return datetime.strptime(text.strip(), form).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
