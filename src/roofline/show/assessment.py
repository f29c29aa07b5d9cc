"""An assessment as terminal text. Names are data: they come from a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType

from roofline.diagnosis.assessment import Assessment, BenchmarkRow, CardState, CollectiveRow, CollectiveRun, KernelGroup
from roofline.diagnosis.findings import Finding, counted
from roofline.show.terminal import STYLES, Cell, bullets, table, text
from roofline.units import GIGA, MEGA, TERA, column, gib, percent, scale, si, significant

_ROWS = 14  # of a table in the terminal; the JSON has all
_FINDINGS = 6
_RUNS = 4  # of collectives


def assessment_text(found: Assessment) -> RenderableType:
    """The verdict, a table of what was measured, findings, and what was read and left out."""
    device = found.device.name if found.device is not None else found.card or "device unknown"
    blocks: list[RenderableType] = [
        text(f"{found.source}: {device}", "bold"),
        text(found.format, "dim"),
        *(text(f"Note: {each}.", "yellow") for each in found.warnings),
        text(),
        text(found.verdict),
        text(),
        rows_text(found),
    ]
    blocks += findings_text(found.findings)
    lines = [*found.notes, *(f"left out: {what}: {n:,}" for what, n in found.left_out.items())]
    return Group(*blocks, *([text(), text("Notes", "bold dim"), bullets(lines)] if lines else []))


def rows_text(found: Assessment) -> RenderableType:
    """What was measured, as tables."""
    blocks: list[RenderableType] = []
    kernels = [each for each in found.rows if isinstance(each, KernelGroup)]
    cards = [each for each in found.rows if isinstance(each, CardState)]
    runs = [each for each in found.rows if isinstance(each, CollectiveRun)]
    benchmarks = [each for each in found.rows if isinstance(each, BenchmarkRow)]
    blocks += [_kernels(kernels, found.seconds or 0.0)] if kernels else []
    blocks += [cards_table(cards)] if cards else []
    blocks += [block for each in runs[:_RUNS] for block in _run(each)]
    if len(runs) > _RUNS:
        blocks.append(text(f"{len(runs) - _RUNS} more runs: --json has them.", "dim"))
    blocks += [_benchmarks(benchmarks)] if benchmarks else []
    return Group(*blocks)


def findings_text(findings: Sequence[Finding]) -> list[RenderableType]:
    """Findings, each with its numbers and the first thing to check."""
    blocks: list[RenderableType] = []
    for each in findings[:_FINDINGS]:
        stake = f"{si(each.at_stake, 's', 3)} at stake: " if each.at_stake else ""
        blocks += [text(), text(f"{stake}{each.title}", "bold"), bullets([*each.evidence, each.advice])]
    if len(findings) > _FINDINGS:
        blocks += [text(), text(f"{len(findings) - _FINDINGS} more findings: --json has them.", "dim")]
    return blocks


def _cut(name: str, most: int = 60) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _rate(each: KernelGroup) -> str:
    """The bandwidth that a kernel reached [GB/s]."""
    return "" if not each.bytes or not each.seconds else significant(each.bytes / each.seconds / GIGA)


def _kernels(groups: Sequence[KernelGroup], whole: float) -> RenderableType:
    """A row a kernel; columns that no kernel has are left out."""
    shown = groups[:_ROWS]
    size, unit = scale(whole, "s")
    columns: list[tuple[tuple[str, str], list[str]]] = [
        (("kernel", "left"), [_cut(each.readable) for each in shown]),
        (("calls", "right"), [f"{each.calls:,}" for each in shown]),
        ((unit, "right"), column([each.seconds or 0.0 for each in shown], size, 4)),
    ]
    byte_size, byte_unit = scale(max((each.bytes or 0.0 for each in shown), default=0.0), "B")
    flop_size, flop_unit = scale(max((each.flops or 0.0 for each in shown), default=0.0), "FLOP")
    optional = [
        ((byte_unit, "right"), ["" if each.bytes is None else significant(each.bytes / byte_size) for each in shown]),
        (("GB/s", "right"), [_rate(each) for each in shown]),
        ((flop_unit, "right"), ["" if not each.flops else significant(each.flops / flop_size) for each in shown]),
        (
            ("DRAM", "right"),
            [_share(each.dram_share if each.dram_share is not None else each.tool.get("dram_share")) for each in shown],
        ),
        (("memory", "right"), [_share(each.tool.get("memory_share")) for each in shown]),
        (("compute", "right"), [_share(each.tool.get("compute_share")) for each in shown]),
        (("of bound", "right"), [_share(each.of_bound) for each in shown]),
        (("re-read", "right"), ["" if each.reread is None else f"{significant(each.reread)}x" for each in shown]),
        (("limit", "left"), [each.limit for each in shown]),
    ]
    more = [each for each in optional if any(each[1])]
    if not more:  # sums: what is known is how the time divides
        more = [
            (("share", "right"), [_share(each.share) for each in shown]),
            (("category", "left"), [each.category for each in shown]),
        ]
    columns += more
    rows: list[list[Cell]] = [
        [text(cell, STYLES.get(cell, "")) for cell in row] for row in zip(*(cells for _, cells in columns), strict=True)
    ]
    made = table([head for head, _ in columns], rows)
    left = len(groups) - len(shown)
    return Group(made, text(f"{left} more: --json has them.", "dim")) if left else made


def cards_table(cards: Sequence[CardState], most: int = 64) -> RenderableType:
    """A row a card, of its means."""
    columns: list[tuple[tuple[str, str], list[str]]] = [
        (("card", "left"), [_cut(each.name, 30) for each in cards[:most]]),
        (("state", "left"), [each.verdict for each in cards[:most]]),
    ]
    for title, names in (
        ("busy", ("engine_active", "busy")),
        ("SM", ("sm_active",)),
        ("DRAM", ("dram_active",)),
        ("tensor", ("tensor_active",)),
    ):
        columns.append(((title, "right"), [_first(each, names) for each in cards[:most]]))
    columns.append(
        (
            ("GB/s", "right"),
            ["" if each.bandwidth is None else significant(each.bandwidth / GIGA) for each in cards[:most]],
        )
    )
    columns.append(
        (
            ("TFLOP/s", "right"),
            [significant(each.flops["bf16"] / TERA) if "bf16" in each.flops else "" for each in cards[:most]],
        )
    )
    columns.append(
        (("W", "right"), [f"{each.means['power']:.0f}" if "power" in each.means else "" for each in cards[:most]])
    )
    columns.append(
        (
            ("MHz", "right"),
            [f"{each.means['sm_clock'] / MEGA:.0f}" if "sm_clock" in each.means else "" for each in cards[:most]],
        )
    )
    columns = [each for at, each in enumerate(columns) if at < 2 or any(each[1])]
    rows: list[list[Cell]] = [
        [text(cell, _STATE_STYLES.get(cell, "")) for cell in row]
        for row in zip(*(cells for _, cells in columns), strict=True)
    ]
    made = table([head for head, _ in columns], rows)
    return Group(made, text(f"{len(cards) - most} more: --json has them.", "dim")) if len(cards) > most else made


_STATE_STYLES = {"memory": "cyan", "compute": "yellow", "neither": "red", "idle": "dim"}


def _first(card: CardState, names: Iterable[str]) -> str:
    return next((f"{100 * card.means[name]:.0f} %" for name in names if name in card.means), "")


def _run(run: CollectiveRun) -> list[RenderableType]:
    """A run's figures and its sizes."""
    facts: list[str] = []
    if run.bandwidth is not None and run.latency is not None and run.fit_error is not None:
        facts.append(
            f"Fit: {si(run.latency, 's', 3)} + size x {significant(run.factor or 1.0)} / {si(run.bandwidth, 'B/s')}, "
            f"off by {percent(run.fit_error)} in the median; half of the bandwidth at {gib(run.half_size or 0.0)}."
        )
    if run.nodes and run.nodes > 1:
        facts.append(f"{run.nodes} nodes of {run.per_node} ranks: the link between nodes is not in the catalogue.")
    rows: list[list[Cell]] = [
        [gib(each.size), si(each.seconds, "s"), _gb(each.algbw), _gb(each.busbw), _of(each, run)]
        for each in _chosen(run.rows)
    ]
    sizes = sum(1 for each in run.rows if each.size)
    if len(rows) < sizes:
        facts.insert(0, f"{len(rows)} of {sizes} sizes: --json has them all.")
    title = f"{run.kind or 'collective'}, {counted(run.ranks, 'rank') if run.ranks else '? ranks'}"
    heads = [
        (title, "left"),
        ("time", "right"),
        ("algbw GB/s", "right"),
        ("busbw GB/s", "right"),
        (f"of {run.link}" if run.link_bandwidth else "", "right"),
    ]
    return [table(heads, rows), *map(text, facts), text()]


def _gb(value: float | None) -> str:
    return "" if value is None else f"{value / GIGA:,.2f}"


def _of(row: CollectiveRow, run: CollectiveRun) -> str:
    return _share(row.busbw / run.link_bandwidth) if row.busbw is not None and run.link_bandwidth else ""


def _chosen(rows: Sequence[CollectiveRow]) -> Sequence[CollectiveRow]:
    """At most a table's worth of sizes, evenly chosen, the last among them."""
    some = [each for each in rows if each.size]
    if len(some) <= _ROWS:
        return some
    return [some[round(at * (len(some) - 1) / (_ROWS - 1))] for at in range(_ROWS)]


def _mean(value: float | None) -> str:
    """A mean of whole numbers, without digits behind the point where it is one."""
    return "" if value is None else f"{value:,.0f}" if value == round(value) else significant(value, 4)


def _benchmarks(rows: Sequence[BenchmarkRow]) -> RenderableType:
    shown = rows[: 2 * _ROWS]
    body: list[list[Cell]] = [
        [
            _cut(f"{each.tool} {each.model}".strip(), 40),
            each.phase,
            _mean(each.concurrency),
            _mean(each.input_tokens),
            _mean(each.output_tokens),
            "" if each.measured is None else significant(each.measured, 4),
            "unknown" if each.bound is None else significant(each.bound, 4),
            _share(each.of_bound),
        ]
        for each in shown
    ]
    heads = [("benchmark", "left"), ("phase", "left"), ("at once", "right"), ("in", "right"), ("out", "right")]
    heads += [("tokens/s", "right"), ("bound", "right"), ("of bound", "right")]
    return table(heads, body)
