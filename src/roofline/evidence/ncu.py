"""Nsight Compute: CSV of the raw page (wide) and of the details page or chosen metrics (long), and its text page.

The CSV starts at the header `"ID","Process ID",...`, wherever that is: what the program or the tool printed stands
before it. Wide has a row a launch and a row of units below the header; long has a row a launch and metric. Numbers are
in the locale of the machine, units scaled unless `--print-units base` was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from roofline.errors import BadValue
from roofline.evidence import ncu_metrics
from roofline.evidence.cells import cells
from roofline.evidence.launches import Launch, Rule
from roofline.evidence.lines import Lines
from roofline.evidence.numbers import decimal_mark

_NAME = "device__attribute_display_name"
MOST = 1 << 20  # launches that are read
_HEADER = re.compile(r'(?:([,;\t])[^\S\t]*|^\ufeff?\s*)"?Kernel Name"?\s*(?:([,;\t])|$)')
_MOST_OF_ONE = 1 << 16  # launches of one kernel in a summary
_TITLE = re.compile(
    r"  (?P<kernel>\S.*?)(?: \((?P<grid>\d+(?:, \d+)*)\)x\((?P<block>\d+(?:, \d+)*)\))?"
    r"(?:, \d{4}-\w+-\d+ [\d:]+)?, Context \d+, Stream \d+(?:, Device (?P<device>\d+))?(?:, CC (?P<cc>[\d.]+))?\s*\Z"
)
_SECTION = re.compile(r"\s{2,}Section: .")
_RULE_LINES = re.compile(r"-{3,}(?: +-{3,})+\s*\Z")
_COLUMN = re.compile(r"-{3,}")


@dataclass(frozen=True, slots=True)
class Report:
    """Launches of a report, in its order. `card` is the device's name where the file says it."""

    form: str  # "raw page", "details page", "text page"
    launches: tuple[Launch, ...]
    card: str = ""
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    warnings: tuple[str, ...] = ()


Cells = dict[str, tuple[str, str]]  # a metric's text and unit, by its name


@dataclass(slots=True)
class _Raw:
    """A launch as text."""

    kernel: str = ""
    grid: str = ""
    block: str = ""
    device: str = ""
    capability: str = ""
    cells: Cells = field(default_factory=Cells)
    rules: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])


def sniff(head: str) -> bool:
    """Whether a text begins as a report of Nsight Compute does, or holds one."""
    return any(_is_header(line) or _TITLE.match(line) for line in head.splitlines())


def _is_header(line: str) -> bool:
    if "Kernel Name" not in line or (mark := _delimiter(line)) is None:
        return False
    names = {each.strip() for each in cells(line.lstrip("\ufeff"), mark)}
    return "Kernel Name" in names and not names.isdisjoint(("ID", "Metric Name"))


def _delimiter(header: str) -> str | None:
    """What parts the cells of a header; None for a line that is none."""
    found = _HEADER.search(header)
    return None if found is None else found[1] or found[2]


def read(lines: Lines) -> Report:
    """The launches of a report; raises BadValue where it has none."""
    found: list[_Raw] = []
    left_out: dict[str, int] = {}
    forms: list[str] = []
    stream = iter(lines)
    for line in stream:
        if _is_header(line):
            forms.append(_table(line, stream, found, left_out))
        elif title := _TITLE.match(line):
            forms.append("text page")
            _text(title, stream, found)
    if not found:
        raise BadValue("is a report of Nsight Compute without a launch: no kernel was profiled. Check --kernel-name.")
    votes = (text for raw in found for text, _ in raw.cells.values())
    mark = decimal_mark(votes)
    notes = list(lines.warnings)
    if mark == ",":
        notes.append("numbers are in a locale with a decimal comma")
    launches = tuple(_launch(raw, mark) for raw in found)
    return Report(forms[0], launches, _card(found), left_out, tuple(notes))


def _card(found: list[_Raw]) -> str:
    """The device's name, where a launch tells it."""
    return next((raw.cells[_NAME][0] for raw in found if _NAME in raw.cells), "")


def _launch(raw: _Raw, mark: str) -> Launch:
    values, flops, peak = ncu_metrics.measured(raw.cells, raw.capability, mark)
    rules = tuple(Rule(name, text, ncu_metrics.share(speedup, mark)) for name, text, speedup in raw.rules)
    device = int(raw.device) if raw.device.isdecimal() and len(raw.device) < 9 else None
    return Launch(
        raw.kernel, raw.grid, raw.block, device, raw.capability, values, flops or {}, flops is not None, peak, rules
    )


def _table(header: str, stream: Iterator[str], found: list[_Raw], left_out: dict[str, int]) -> str:
    """Read the rows below a header into `found`; another header below starts another table."""
    form = ""
    line: str | None = header
    while line is not None:
        table, quoted, delimiter = _columns(line, found, left_out)
        form, line = form or table.form, None
        for row in stream:
            if _is_header(row):
                line = row
                break
            if row.strip() and (not quoted or row.startswith('"')):  # else printed by the program in between
                table.add(cells(row, delimiter))
            if len(found) > MOST:
                raise BadValue(f"has more than {MOST:,} launches. Profile fewer: --launch-count.")
    return form


def _columns(header: str, found: list[_Raw], left_out: dict[str, int]) -> tuple[_Wide | _Long, bool, str]:
    """The table of a header, whether its cells are quoted, and what parts them."""
    delimiter = _delimiter(header) or ","
    names = cells(header.lstrip("\ufeff"), delimiter)
    kind = _Wide if "Metric Name" not in names else _Summary if "Average" in names else _Long
    table = kind(names, found, left_out)
    return table, header.lstrip("\ufeff ").startswith('"'), delimiter


class _Table:
    """Where the columns of a launch stand."""

    form = ""

    def __init__(self, names: list[str], found: list[_Raw], left_out: dict[str, int]) -> None:
        self.names, self.found, self.left_out = names, found, left_out
        self.at = {name: index for index, name in reversed(list(enumerate(names)))}

    def cell(self, row: list[str], name: str) -> str:
        index = self.at.get(name)
        return row[index].strip() if index is not None and index < len(row) else ""

    def drop(self, why: str) -> None:
        self.left_out[why] = self.left_out.get(why, 0) + 1

    def launch(self, row: list[str]) -> _Raw:
        return _Raw(
            self.cell(row, "Kernel Name"),
            self.cell(row, "Grid Size").strip("()"),
            self.cell(row, "Block Size").strip("()"),
            self.cell(row, "Device"),
            self.cell(row, "CC") or _capability(row, self),
        )


def _capability(row: list[str], table: _Table) -> str:
    major, minor = (table.cell(row, f"device__attribute_compute_capability_{each}") for each in ("major", "minor"))
    return f"{major}.{minor}" if major.isdecimal() and minor.isdecimal() else ""


class _Wide(_Table):
    """A row a launch, a column a metric, units in the row below the header."""

    form = "raw page"

    def __init__(self, names: list[str], found: list[_Raw], left_out: dict[str, int]) -> None:
        super().__init__(names, found, left_out)
        self.units: list[str] = []
        self.wanted = [(index, name.strip()) for index, name in enumerate(names) if ncu_metrics.wanted(name.strip())]

    def add(self, row: list[str]) -> None:
        if not self.cell(row, "ID") and not self.cell(row, "Kernel Name"):
            self.units = row
        elif len(row) < min(len(self.names), self.at["Kernel Name"] + 1) or not self.cell(row, "Kernel Name"):
            self.drop("rows cut short")
        else:
            raw = self.launch(row)
            for index, name in self.wanted:
                if index >= len(row):
                    break
                if row[index].strip():
                    unit = self.units[index].strip() if index < len(self.units) else ""
                    raw.cells[name] = row[index].strip(), unit
            if len(row) < len(self.names):
                self.drop("rows cut short")
            self.found.append(raw)


class _Long(_Table):
    """A row a launch and metric; rules of the tool have rows without a metric."""

    form = "details page"

    def __init__(self, names: list[str], found: list[_Raw], left_out: dict[str, int]) -> None:
        super().__init__(names, found, left_out)
        self.launches: dict[tuple[str, str, str], _Raw] = {}

    def add(self, row: list[str]) -> None:
        if len(row) <= self.at.get("Metric Value", self.at["Metric Name"]):
            self.drop("rows cut short")
            return
        key = (
            self.cell(row, "Process ID"),
            self.cell(row, "ID") or self.cell(row, "Kernel Name"),
            self.cell(row, "Device"),
        )
        raw = self.launches.get(key)
        if raw is None or raw.kernel != self.cell(row, "Kernel Name"):
            raw = self.launches[key] = self.launch(row)
            self.found.append(raw)
        name, unit = self.cell(row, "Metric Name"), self.cell(row, "Metric Unit")
        if name and ncu_metrics.wanted(name):
            _put(raw.cells, name, self.cell(row, "Metric Value"), unit)
        elif rule := self.cell(row, "Rule Name"):
            raw.rules.append((rule, self.cell(row, "Rule Description"), self.cell(row, "Estimated Speedup")))


class _Summary(_Long):
    """A row a kernel and metric (--print-summary per-kernel): each launch as the average of all of its kernel."""

    form = "summary by kernel"

    def __init__(self, names: list[str], found: list[_Raw], left_out: dict[str, int]) -> None:
        super().__init__(names, found, left_out)
        self.at["Metric Value"] = self.at["Average"]

    def add(self, row: list[str]) -> None:
        before = len(self.found)
        super().add(row)
        if len(self.found) > before:
            count = self.cell(row, "Invocations")
            times = int(count) if count.isdecimal() and len(count) < 9 else 1
            self.found += [self.found[-1]] * min(times - 1, _MOST_OF_ONE - 1)


def _put(cells: Cells, name: str, value: str, unit: str) -> None:
    """Keep a metric; one name of the details page stands for a share and for a rate."""
    key = f"{name}{ncu_metrics.AGAIN}{unit}" if name in cells and cells[name][1] != unit else name
    cells.setdefault(key, (value, unit))


def _text(title: re.Match[str], stream: Iterator[str], found: list[_Raw]) -> None:
    """Read launches of a text page into `found`, from the title line of the first on."""
    raw = _titled(title)
    found.append(raw)
    columns: list[tuple[int, int]] = []
    for line in stream:
        if again := _TITLE.match(line):
            raw, columns = _titled(again), []
            found.append(raw)
            if len(found) > MOST:
                raise BadValue(f"has more than {MOST:,} launches. Profile fewer: --launch-count.")
        elif _SECTION.match(line):
            columns = []
        elif _RULE_LINES.fullmatch(line.strip()):
            columns = [found.span() for found in _COLUMN.finditer(line)]
        elif len(columns) >= 3:
            name, unit, value = _fields(line, columns)
            if ncu_metrics.wanted(name):
                _put(raw.cells, name, value, unit)


def _titled(title: re.Match[str]) -> _Raw:
    return _Raw(
        title["kernel"][:4096], title["grid"] or "", title["block"] or "", title["device"] or "", title["cc"] or ""
    )


def _fields(line: str, columns: list[tuple[int, int]]) -> tuple[str, str, str]:
    first, second = columns[0], columns[1]
    return line[: first[1]].strip(), line[first[1] : second[1]].strip(), line[second[1] :].strip()


def from_module(path: str) -> Report:
    """The launches of a report in the tool's own format, by NVIDIA's `ncu_report` module; raises ImportError."""
    import importlib

    module = importlib.import_module("ncu_report")
    context = module.load_report(path)
    found: list[_Raw] = []
    for at in range(context.num_ranges()):
        each = context.range_by_idx(at)
        for index in range(each.num_actions()):
            found.append(_of_action(each.action_by_idx(index)))
    return Report("report", tuple(_launch(raw, ".") for raw in found), _card(found))


def _of_action(action: Any) -> _Raw:
    raw = _Raw(str(action.name()))
    for name in action.metric_names():
        if ncu_metrics.wanted(str(name)):
            metric = action.metric_by_name(name)
            raw.cells[str(name)] = str(metric.value()), str(metric.unit() or "")
    return raw
