"""A comparison of two runs as JSON types, terminal text and Markdown."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Group, RenderableType

from roofline.diagnosis.changes import Change, Comparison
from roofline.show.comparison_schema import ChangeRecord, ComparisonRecord
from roofline.show.names import visible
from roofline.show.terminal import Cell, table, text
from roofline.trace.classify import readable
from roofline.units import NS_PER_S, percent, scale, si, significant

_ROWS = 20


def comparison_record(found: Comparison, over: float | None = None) -> dict[str, Any]:
    """A comparison as JSON types, schema `roofline.comparison/1`."""
    before, after, what = found.lengths
    record = ComparisonRecord(
        schema="roofline.comparison/1",
        before=found.before.name,
        after=found.after.name,
        kind=found.after.kind,  # pyright: ignore[reportArgumentType]
        before_s=found.before.whole / NS_PER_S,
        after_s=found.after.whole / NS_PER_S,
        difference_s=(found.after.whole - found.before.whole) / NS_PER_S,
        difference_ns=found.after.whole - found.before.whole,
        judged=what,
        judged_before_s=before / NS_PER_S,
        judged_after_s=after / NS_PER_S,
        share=found.share,
        noise=found.noise,
        failed=None if over is None else found.slower_than(over),
        changes=[_record(each) for each in found.changes],
        warnings=list(found.warnings),
    )
    return msgspec.to_builtins(record)


def _record(each: Change) -> ChangeRecord:
    return ChangeRecord(
        name=each.name,
        shapes=each.shapes,
        before_s=each.before / NS_PER_S,
        after_s=each.after / NS_PER_S,
        difference_s=each.difference / NS_PER_S,
        difference_ns=each.difference,
        calls_before=each.calls[0],
        calls_after=each.calls[1],
        status=each.status,  # pyright: ignore[reportArgumentType]
        matched_by=each.matched,
        before_name=each.before_name,
    )


def headline(found: Comparison) -> str:
    """What became of the whole, against the noise."""
    before, after, what = found.lengths
    verb = "slower" if found.share > 0 else "faster"
    change = "The same" if before == after else f"{percent(abs(found.share))} {verb}"
    line = f"{change}: {what} {si(before / NS_PER_S, 's')} before, {si(after / NS_PER_S, 's')} after"
    if found.noise is None:
        return f"{line}; the noise is unknown, as there are no two steps to tell it."
    within = "within" if abs(found.share) <= found.noise else "beyond"
    return f"{line}; {within} the noise of {percent(found.noise)} (half the range of the steps)."


def _rows(found: Comparison) -> tuple[list[list[str]], str]:
    shown = [each for each in found.changes if each.difference][:_ROWS]
    size, unit = scale(max(found.before.whole, found.after.whole) / NS_PER_S, "s")

    def cell(time: int, sign: bool = False) -> str:
        number = significant(abs(time) / NS_PER_S / size, 4)
        return f"{'-' if time < 0 else '+' if sign else ''}{number}"

    rows = [
        [
            f"{visible(readable(each.name), 70)} {visible(each.shapes, 60)}".strip(),
            each.status,
            f"{each.calls[0]:,} → {each.calls[1]:,}",
            cell(each.before),
            cell(each.after),
            cell(each.difference, sign=True),
        ]
        for each in shown
    ]
    rest = [each for each in found.changes if each.difference][_ROWS:]
    if rest:
        totals = (sum(each.before for each in rest), sum(each.after for each in rest))
        rows.append(
            [f"{len(rest):,} more", "", "", cell(totals[0]), cell(totals[1]), cell(totals[1] - totals[0], True)]
        )
    wholes = (found.before.whole, found.after.whole)
    same = sum(each.before for each in found.changes if not each.difference)
    rows.append(["unchanged", "", "", cell(same), cell(same), "0"])
    rows.append(["whole", "", "", cell(wholes[0]), cell(wholes[1]), cell(wholes[1] - wholes[0], True)])
    return rows, unit


def comparison_text(found: Comparison) -> RenderableType:
    """What changed, the largest first; the differences add up to the whole."""
    rows, unit = _rows(found)
    heads = [
        ("kernel", "left"),
        ("", "left"),
        ("calls", "right"),
        (f"before {unit}", "right"),
        ("after", "right"),
        ("change", "right"),
    ]
    body: list[list[Cell]] = [list(row) for row in rows]
    blocks: list[RenderableType] = [
        text(f"{found.before.name} → {found.after.name}", "bold"),
        *(text(f"Note: {each}.", "yellow") for each in found.warnings),
        text(),
        text(headline(found)),
        text(),
        table(heads, body, bold=len(body) - 1),
    ]
    return Group(*blocks)


def comparison_markdown(found: Comparison) -> str:
    """The same for a pull request."""
    rows, unit = _rows(found)
    lines = [f"**{_plain(headline(found))}**", ""]
    lines += [f"> Note: {_plain(each)}." for each in found.warnings]
    lines += [""] if found.warnings else []
    lines += [f"| kernel | | calls | before {unit} | after | change |", "|---|---|--:|--:|--:|--:|"]
    lines += ["| " + " | ".join(_plain(cell) for cell in row) + " |" for row in rows]
    lines += ["", f"{_plain(found.before.name)} → {_plain(found.after.name)}"]
    return "\n".join(lines) + "\n"


_MARKS = str.maketrans({each: f"\\{each}" for each in "\\`*_[]<>|#!"})


def _plain(name: str) -> str:
    """Text in which nothing is a mark of Markdown or HTML."""
    return visible(name, 400).translate(_MARKS)
