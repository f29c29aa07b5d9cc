"""Sums of Nsight Systems: reports of `nsys stats` (and `nsys nvprof`), as CSV, JSON or the tables it prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from roofline.errors import BadValue
from roofline.evidence.cells import cells
from roofline.evidence.lines import Lines
from roofline.evidence.numbers import number
from roofline.units import MIB, tool_unit

MOST = 1 << 20
_HEAD = re.compile(r'\s*"?Time\s?\(%\)"?[\s,;]+"?Total Time(?: \((\w+)\))?"?[\s,;]')
_DASHES = re.compile(r"\s*-{3,}(?:\s+-{3,})+\s*\Z")
_JSON = re.compile(r'\s*\[\s*\{\s*"Time ?\(%\)"\s*:[^{}]{0,400}"Total Time')
_MOST_JSON = 64 * MIB
_MOST_COLUMNS = 100  # of a printed table; the reports have fewer than 20
_ALL = "all"  # a report of kernels, copies and memsets together, told apart by its column of categories
_RANGE_AND_COUNT = {
    ("Operation", "Category"): _ALL,
    ("Name", "Instances"): "kernels",
    ("Operation", "Count"): "copies",
    ("Name", "Num Calls"): "calls",
    ("Range", "Instances"): "ranges",
}


@dataclass(frozen=True, slots=True)
class Sum:
    """All runs of one kernel, copy, call or range; whole nanoseconds as the report gives them."""

    name: str
    calls: int
    total: int  # [ns]
    least: int | None = None
    most: int | None = None
    category: str = ""  # of a report of kernels and copies together


@dataclass(frozen=True, slots=True)
class Sums:
    """The reports of a file: each kind once, the first one where it comes again."""

    kernels: tuple[Sum, ...] = ()
    copies: tuple[Sum, ...] = ()
    calls: tuple[Sum, ...] = ()
    ranges: tuple[Sum, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    warnings: tuple[str, ...] = ()


def sniff(head: str) -> bool:
    """Whether a text holds the head of a report with times."""
    return any(_HEAD.match(line) for line in head.splitlines())


def sniff_json(head: str) -> bool:
    """Whether a text begins as a report does that was written as JSON."""
    return bool(_JSON.match(head))


def read_json(lines: Lines) -> Sums:
    """The sums of a report as JSON; raises BadValue where it is cut, or none is of a kernel, copy, call or range."""
    text: list[str] = []
    size = 0
    for line in lines:
        size += len(line)
        if size > _MOST_JSON:
            raise BadValue(f"is a report of nsys stats of more than {_MOST_JSON // MIB} MiB. Write it as CSV.")
        text.append(line)
    try:
        entries = json.loads("\n".join(text))
    except (ValueError, RecursionError):
        raise BadValue("begins as a report of nsys stats and is no sound JSON: it was cut, or edited.") from None
    found: dict[str, list[Sum]] = {}
    for entry in entries:
        if isinstance(entry, Mapping):
            row = {str(name): str(value) for name, value in cast("Mapping[Any, Any]", entry).items()}
            _add(row, list(row), _together(list(row), found))
    return _sums(found, {}, lines)


def read(lines: Lines) -> Sums:
    """The sums of a file; raises BadValue where none is of a kernel, copy, call or range."""
    found: dict[str, list[Sum]] = {}
    left_out: dict[str, int] = {}
    stream: Iterator[str] = iter(lines)
    head: str | None = None
    while (line := head if head is not None else next(stream, None)) is not None:
        head = None
        if _HEAD.match(line):
            head = _csv(line, stream, found, left_out) if "," in line else _table(line, stream, found, left_out)
    return _sums(found, left_out, lines)


def _sums(found: dict[str, list[Sum]], left_out: dict[str, int], lines: Lines) -> Sums:
    """What was gathered by kind; raises BadValue for nothing."""
    for each in found.pop(_ALL, ()):
        found.setdefault("kernels" if each.category == _KERNEL else "copies", []).append(each)
    if not any(found.values()):
        raise BadValue("has the head of a report of nsys stats and no row below it: nothing was recorded.")
    kinds = {kind: tuple(rows) for kind, rows in found.items()}
    return Sums(**kinds, left_out=left_out, warnings=tuple(lines.warnings))


def _kind(names: list[str]) -> str:
    for (name, count), kind in _RANGE_AND_COUNT.items():
        if name in names and count in names:
            return kind
    return ""


def _csv(line: str, stream: Iterator[str], found: dict[str, list[Sum]], left_out: dict[str, int]) -> str | None:
    """Rows of a CSV until a line that is none; the head of another report, where one follows."""
    names = cells(line)
    rows = _rows(names, found)
    for row in stream:
        if _HEAD.match(row):
            return row
        if not row.strip():
            return None
        values = cells(row)
        if len(values) < len(names):
            left_out["rows cut short"] = left_out.get("rows cut short", 0) + 1
            continue
        _add(dict(zip(names, values, strict=False)), names, rows)
    return None


def _table(line: str, stream: Iterator[str], found: dict[str, list[Sum]], left_out: dict[str, int]) -> str | None:
    """Rows of a printed table: columns stand under the dashes, the name is the last and may go on in the next line."""
    row = next((each for each in stream if each.strip()), "")
    spans = [each.span() for each in re.finditer(r"-+", row)] if _DASHES.match(row) else []
    if not 1 < len(spans) <= _MOST_COLUMNS:
        return row if _HEAD.match(row) else None
    names = [
        line[start:end].strip()
        for start, end in zip([0, *(end for _, end in spans[:-1])], [end for _, end in spans[:-1]], strict=False)
    ]
    names.append(line[spans[-2][1] :].strip())
    rows = _rows(names, found)
    for row in stream:
        if _HEAD.match(row):
            return row
        if not row.strip():
            continue
        if not row.startswith(" "):
            return None
        _add(_fields(row, names, spans), names, rows)
    return None


def _fields(row: str, names: list[str], spans: list[tuple[int, int]]) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    for name, (_, end) in zip(names[:-1], spans, strict=False):
        found[name] = row[at:end].strip()
        at = end
    found[names[-1]] = row[at:].strip()
    return found


def _rows(names: list[str], found: dict[str, list[Sum]]) -> list[Sum]:
    """Where rows of these columns go; a report that comes again, or is of no such thing, goes nowhere."""
    kind = _kind(names)
    return found.setdefault(kind, []) if kind and kind not in found else []


def _together(names: list[str], found: dict[str, list[Sum]]) -> list[Sum]:
    """Where a row of these columns goes, with the others of its kind."""
    kind = _kind(names)
    return found.setdefault(kind, []) if kind else []


_KERNEL = "CUDA_KERNEL"


def _add(row: Mapping[str, str], names: list[str], rows: list[Sum]) -> None:
    name = next((row.get(each, "") for each in ("Name", "Operation", "Range") if each in names), "")
    total_key = next((each for each in names if each.startswith("Total Time")), "")
    count = next((row[each] for each in ("Instances", "Num Calls", "Count") if each in row), "")
    total, calls = number(row.get(total_key, "")), number(count)
    if total is None or calls is None:
        if name and rows and not any(row.get(each) for each in names if row.get(each, "") != name):
            last = rows[-1]
            rows[-1] = replace(last, name=(last.name + " " + name)[:8192])
        return
    if len(rows) >= MOST:
        raise BadValue(f"has more than {MOST:,} rows in a report.")
    factor = _to_ns(total_key)
    least, most = _extreme(row, "Min"), _extreme(row, "Max")
    rows.append(Sum(name, int(calls), round(total * factor), least, most, row.get("Category", "")))


def _to_ns(key: str) -> float:
    """What a total's unit is in nanoseconds; those of old reports without one are that."""
    unit = key.partition("(")[2].rstrip(")") or "ns"
    return tool_unit(unit)[0] / tool_unit("ns")[0]


def _extreme(row: Mapping[str, str], which: str) -> int | None:
    key = next((each for each in row if each.startswith(which)), "")
    value = number(row.get(key, ""))
    name = "Total " + key.removeprefix(which).removeprefix("imum").strip()
    return None if value is None else round(value * _to_ns(name))
