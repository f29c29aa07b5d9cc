"""nccl-tests and rccl-tests: sizes, times, bandwidths and errors of one collective, of one or many runs in a log.

`size` is that of nccl-tests; `time` is in microseconds, GB is 1e9 byte. Lines may carry a rank's prefix, stand between
those of the library's debug log, or be torn apart by it: a row's second half may follow many lines below.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from roofline.errors import BadValue
from roofline.evidence.lines import Lines
from roofline.evidence.numbers import number
from roofline.units import GIGA, MEGA

MOST = 1 << 18  # rows that are read

# The programs, and what they measure in this project's words.
KINDS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "alltoallv": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "sendrecv": "send",
    "gather": "gather",
    "scatter": "scatter",
    "hypercube": "hypercube",
}
_PREFIX = re.compile(r"\s*(?:\[\d+(?:,\d+)?\](?:<\w+>)?:?|\[\w+\]:?(?=\s)|[\w.-]+:(?=\s)|\d+:(?=\s))\s?")
_TYPES = (
    r"u?int(?:8|32|64)|half|float|double|bfloat16|float16|fp16|bf16|f?p?8?_?e[45]m[23]\w*|f8e[45]m[23]\w*"
    r"|(?:fp8|float8)_\w+|char|uchar|all"
)
_ROW = re.compile(
    rf"\s*(?P<size>\d{{1,15}})\s+(?P<count>\d{{1,15}})\s+(?P<type>{_TYPES})(?:\s+(?P<redop>sum|prod|max|min|avg|mulsum|none))?"
    r"(?P<rest>.*)",
    re.DOTALL,
)
# A row or a comment of the test behind a prefix that is not known: a date, a host and a bar.
_BEHIND = re.compile(
    rf"(?<=[\s:>|\]])(?:#\s+(?:size\s|Rank\s|nThread\s|Avg bus|Out of bounds|Collective test)"
    rf"|\d{{1,15}}\s+\d{{1,15}}\s+(?:{_TYPES})\s+(?:\w+\s+)?(?:-?\d+\s+)?[\d.]+\s+[\d.]+\s+[\d.]+\s+(?:\d+|N/A)\s)"
)
_HALF = re.compile(
    r"\s*(?P<time>\d{1,12}(?:\.\d+)?(?:e[+-]?\d+)?)\s+(?P<algbw>\d{1,9}(?:\.\d+)?)\s+(?P<busbw>\d{1,9}(?:\.\d+)?)"
    r"\s+(?P<wrong>\d+(?:\.\d+)?(?:e[+-]?\d+)?|N/A)"
)
_ROOT = re.compile(r"\s*(-?\d{1,5})(?![\d.])")
_ROOTED = re.compile(r"\s*-?\d{1,5}(?![\d.])(?:\s+(?:[\d.e+-]+|N/A)){8}")
_STARTING = re.compile(r"Collective test starting:\s*(\w+?)_perf", re.IGNORECASE)
_COMMAND = re.compile(r"(?:^|[\s/])(\w+?)_perf\b")
_RANK = re.compile(r"\s*#\s+Rank\s+(\d{1,9})\s(?>.*?\bdevice\s+(\d{1,9})\s+\[)[^\]]*\]\s+(.*\S)")
_HOST = re.compile(r"\bon\s+(\S+)\s+device\b")
_NRANKS = re.compile(r"\bn[rR]anks[ =](\d{1,7})\b")
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*([\d.]{1,40})")
_WRONG = re.compile(r"#\s*Out of bounds values\s*:\s*(\d{1,18})\s+(\w+)")
_HEADER = re.compile(r"#\s+size\s+count\s+type\b(.*)")
_TABLE = re.compile(r"\s*\|\s*size\b[^|]*\|\s*count\b")
_SETTINGS = re.compile(r"#\s*nThread\s+\d+\s+nGpus\s+\d+.{0,200}?minBytes")


@dataclass(frozen=True, slots=True)
class Half:
    """One timing of a row: out of place or in place. `wrong` is the errors found, None where none were looked for."""

    seconds: float
    algbw: float  # [byte/s] as printed
    busbw: float
    wrong: float | None
    digits: float  # half of the last digit printed, of the time [s]


@dataclass(frozen=True, slots=True)
class Row:
    """One size."""

    size: int  # [byte]
    count: int
    dtype: str
    redop: str
    root: int | None
    outside: Half
    inside: Half | None

    @property
    def seconds(self) -> float:
        """The shorter of the two timings [s]."""
        return min(each.seconds for each in (self.outside, self.inside) if each is not None)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one test: a table of a log."""

    kind: str  # "all-reduce", or "" where neither the log nor its columns tell
    program: str
    ranks: int | None
    ranks_from: str
    cards: tuple[str, ...]  # names of the devices
    per_node: int | None  # ranks of the fullest node
    nodes: int | None
    rows: tuple[Row, ...]
    average: float | None  # [byte/s] as printed
    wrong: int | None  # values out of bounds as printed
    failed: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Log:
    """The runs of a log, in its order."""

    runs: tuple[Run, ...]
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    warnings: tuple[str, ...] = ()


def sniff(head: str) -> bool:
    """Whether a text holds the head of a table of nccl-tests, or its settings."""
    return any(_HEADER.search(line) or _SETTINGS.search(line) or _TABLE.match(line) for line in head.splitlines())


def factor(kind: str, ranks: int) -> float | None:
    """busbw over algbw, as nccl-tests define it; None for a kind that has none here."""
    if kind == "all-reduce":
        return 2 * (ranks - 1) / ranks
    if kind in ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter"):
        return (ranks - 1) / ranks
    return 1.0 if kind in ("broadcast", "reduce", "send", "hypercube") else None


@dataclass(slots=True)
class _Open:
    """A run that is being read."""

    program: str = ""
    columns: str = ""
    ranks: dict[int, tuple[int, str, str]] = field(default_factory=dict[int, tuple[int, str, str]])
    stated: int | None = None
    rows: list[Row] = field(default_factory=list[Row])
    average: float | None = None
    wrong: int | None = None
    failed: bool = False
    torn: re.Match[str] | None = None  # a row that waits for its timings
    root: int | None = None  # of that row
    seen: dict[Row, str] = field(default_factory=dict[Row, str])  # rows and the prefix of the rank that printed them
    prefix: str = ""
    halves: list[Half] = field(default_factory=list[Half])
    table: bool = False


def read(lines: Lines) -> Log:
    """The runs of a log; raises BadValue where it has no row."""
    done: list[Run] = []
    left_out: Counter[str] = Counter()
    run = _Open()
    rows = 0
    for line in lines:
        text = _stripped(line)
        run.prefix = lines.who + line[: len(line) - len(text)]
        if _begins(text, run):
            _close(run, done, left_out)
            run = _Open(prefix=run.prefix)
        before = len(run.rows)
        _take(text, line, run, left_out)
        rows += len(run.rows) - before
        if rows > MOST:
            raise BadValue(f"has more than {MOST:,} rows of nccl-tests. Name a log of fewer runs.")
    _close(run, done, left_out)
    if not done:
        raise BadValue("is a log of nccl-tests without a finished row: the test stopped before it measured a size.")
    return Log(tuple(done), dict(left_out), tuple(lines.warnings))


def _stripped(line: str) -> str:
    """A line without the prefixes that launchers and loggers put before it, or the bars of a Markdown table."""
    text = line
    if line.lstrip().startswith("|"):
        cells = " ".join(line.replace("|", " ").split())
        return f"# {cells}" if cells.startswith(("size", "(B)", "#")) else f" {cells}"
    for _ in range(3):
        if text.lstrip().startswith("#") or _ROW.match(text):
            return text
        match = _PREFIX.match(text)
        if match is None:
            break
        text = text[match.end() :]
    at = _BEHIND.search(text)
    return text if at is None else text[at.start() :]


def _begins(text: str, run: _Open) -> bool:
    """Whether a line begins another run than the one that is being read."""
    if not (run.rows or run.average is not None):
        return False
    starting = _STARTING.search(text) or (text.lstrip().startswith("#") and _SETTINGS.search(text))
    return bool(starting) and (run.average is not None or bool(run.rows))


def _take(text: str, line: str, run: _Open, left_out: Counter[str]) -> None:
    """What a line says of the run."""
    if text.lstrip().startswith("#"):
        _comment(text, run)
        return
    row = _ROW.match(text)
    if row is not None and (run.table or _ROOTED.match(row["rest"])):
        _torn(run, left_out)
        run.torn, run.halves = row, []
        rest = row["rest"]
        rooted = "root" in run.columns if run.columns else bool(_ROOTED.match(rest))
        root = _ROOT.match(rest) if rooted else None
        run.root = int(root[1]) if root else None
        _halves(rest[root.end() :] if root else rest, run)
    elif run.torn is not None and (half := _HALF.match(text)):
        _halves(text[half.start() :], run)
    elif match := _NRANKS.search(text):
        run.stated = max(run.stated or 0, int(match[1]))
    elif not run.rows and not run.program and (command := _COMMAND.search(line)) and command[1].lower() in KINDS:
        run.program = command[1].lower()


def _comment(text: str, run: _Open) -> None:
    if match := _STARTING.search(text):
        run.program = match[1].lower()
    elif match := _RANK.match(text):
        host = _HOST.search(text)
        run.ranks[int(match[1])] = (int(match[2]), match[3], host[1] if host else "")
    elif match := _HEADER.search(text):
        run.columns, run.table = match[1], True
    elif match := _AVERAGE.search(text):
        average = number(match[1])
        run.average = None if average is None else average * GIGA
        run.failed = run.failed or "FAILED" in text
    elif match := _WRONG.search(text):
        run.wrong = int(match[1])
        run.failed = run.failed or match[2] == "FAILED"


def _halves(text: str, run: _Open) -> None:
    """Timings at the start of a text; two finish the row."""
    while len(run.halves) < 2 and (match := _HALF.match(text)):
        run.halves.append(_half(match))
        text = text[match.end() :]
    if len(run.halves) == 2:
        _finish(run)


def _half(match: re.Match[str]) -> Half:
    digits = match["time"].partition("e")[0].partition(".")[2]
    wrong = None if match["wrong"] == "N/A" else float(match["wrong"])
    return Half(
        float(match["time"]) / MEGA,
        float(match["algbw"]) * GIGA,
        float(match["busbw"]) * GIGA,
        wrong,
        0.5 / 10 ** len(digits) / MEGA,
    )


def _finish(run: _Open) -> None:
    torn = run.torn
    if torn is not None and run.halves:
        timings = (run.halves[0], run.halves[1] if len(run.halves) > 1 else None)
        row = Row(int(torn["size"]), int(torn["count"]), torn["type"], torn["redop"] or "", run.root, *timings)
        if run.seen.setdefault(row, run.prefix) == run.prefix:  # else another rank printed the same
            run.rows.append(row)
    run.torn, run.halves = None, []


def _torn(run: _Open, left_out: Counter[str]) -> None:
    """A row that another one follows: what it has is kept, where it has a timing."""
    if run.torn is not None:
        if not run.halves:
            left_out["rows without a timing"] += 1
        _finish(run)


def _close(run: _Open, done: list[Run], left_out: Counter[str]) -> None:
    """Add a run that has rows."""
    _torn(run, left_out)
    rows = tuple(run.rows)
    if not rows or (run.prefix.strip() and done and done[-1].rows == rows):  # another rank's copy of the same table
        return
    names = tuple(dict.fromkeys(name for _, name, _ in run.ranks.values()))
    ranks, ranks_from = (len(run.ranks), "the list of ranks") if run.ranks else (run.stated, "the library's log")
    kind = KINDS.get(run.program, "")
    if not ranks:
        ranks, ranks_from = _ranks_of(rows, kind)
    found = Run(
        kind,
        run.program,
        ranks,
        ranks_from if ranks else "",
        names,
        None,
        None,
        rows,
        run.average,
        run.wrong,
        run.failed,
    )
    done.append(_placed(_named(found, run), run))


def _ratio(rows: Iterable[Row]) -> float | None:
    """busbw over algbw, by the row where rounding matters least."""
    best = max((each.outside for each in rows), key=lambda half: half.algbw, default=None)
    if best is None or best.algbw < _PRINTED * 100:
        return None
    return best.busbw / best.algbw


_PRINTED = 0.01 * GIGA  # [byte/s] the last digit of a bandwidth


def _ranks_of(rows: Iterable[Row], kind: str) -> tuple[int | None, str]:
    """The number of ranks by the factor between the bandwidths, where it tells."""
    ratio = _ratio(rows)
    if ratio is None or not kind:
        return None, ""
    left = 2 - ratio if kind == "all-reduce" else 1 - ratio
    if kind in ("broadcast", "reduce", "send", "hypercube") or left <= 0.002:
        return None, ""
    return round((2 if kind == "all-reduce" else 1) / left), "busbw over algbw"


def _named(run: Run, opened: _Open) -> Run:
    """The run with its kind, by its columns and by busbw over algbw where the log does not name it."""
    ratio = _ratio(run.rows)
    if run.kind or ratio is None or not run.ranks:
        return run
    n = run.ranks
    reduces = any(each.redop not in ("", "none") for each in run.rows)
    rooted = "root" in opened.columns and any(each.root is not None and each.root >= 0 for each in run.rows)
    fits = [kind for kind in _candidates(reduces, rooted) if abs((factor(kind, n) or 9) - ratio) < 0.01]
    if not fits:
        return replace(run, warnings=(*run.warnings, "neither the log nor its columns tell which collective it is"))
    notes = run.warnings
    if fits[0] == "all-gather":
        notes = (*notes, "taken for an all-gather: the log does not name it, and an all-to-all has the same columns")
    return replace(run, kind=fits[0], warnings=notes)


def _candidates(reduces: bool, rooted: bool) -> tuple[str, ...]:
    if reduces:
        return ("reduce", "all-reduce", "reduce-scatter") if rooted else ("all-reduce", "reduce-scatter")
    return ("broadcast", "all-gather") if rooted else ("all-gather", "send")


def _placed(run: Run, opened: _Open) -> Run:
    """The run with its ranks a node: by host names, or by device numbers that repeat where hosts are alike."""
    if not opened.ranks:
        return run
    hosts = Counter(host for _, _, host in opened.ranks.values())
    numbers = Counter((host, number) for number, _, host in opened.ranks.values())
    if len(hosts) > 1 and max(numbers.values()) == 1:
        return replace(run, per_node=max(hosts.values()), nodes=len(hosts))
    nodes = max(numbers.values())
    return replace(run, per_node=-(-len(opened.ranks) // nodes), nodes=nodes)
