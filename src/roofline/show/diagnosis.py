"""A diagnosis as terminal text. Names are data: they come from a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType

from roofline.diagnosis.beside import utilisation
from roofline.diagnosis.exchanges import Exchange, exchanges
from roofline.diagnosis.findings import counted
from roofline.diagnosis.gpus import label
from roofline.diagnosis.result import Diagnosis, KernelRow, Launches, Pass, Steps
from roofline.diagnosis.sampled import said
from roofline.show.diagnosis_record import bandwidth, device_name, earlier, ridges, together
from roofline.show.runs import devices_text
from roofline.show.terminal import Cell, bullets, table, text
from roofline.trace.events import Card
from roofline.units import GIGA, KIB, NS_PER_S, column, gib, percent, scale, si, significant

_WHOLE = 0.995  # of the compute time: what is left beyond is not worth a sentence
_TELLING = 0.01  # of the time of all activities, below which the cost of what has one says nothing
_TOLD = 0.5  # of the compute time with a cost, below which an MFU says nothing
_BEATEN = 1.005  # of its bound: what is printed as more than 100 %
_IDLE = 0.0005  # of the window: what is printed as 0.1 %
_EXCHANGES = 3  # sizes of collectives in the terminal text; the JSON has all
_FINDINGS = 6  # of the terminal text; the JSON has all
_SMALL = 64 * KIB  # [byte] of a copy, below which starting it is what takes the time
_NUMBER = re.compile(r"\d+")
_RANGES = 8  # rows of the terminal's table of ranges
_KERNELS = 12  # rows of the terminal table; the JSON has all


def _s(nanoseconds: int) -> float:
    return nanoseconds / NS_PER_S


def diagnosis_text(found: Diagnosis) -> RenderableType:
    """Where the time went, for a terminal."""
    blocks: list[RenderableType] = [text(_title(found), "bold"), text(_subtitle(found), "dim")]
    blocks += [text(f"Note: {each}.", "yellow") for each in found.warnings]
    blocks += [text(), text(found.verdict), text()]
    blocks += [devices_text(found), text()] if found.devices else []
    if found.window:
        blocks += [_where(found), text(), *_lines(meanwhile(found))]
        blocks += _findings(found)
        blocks += [text("Costliest", "bold"), _costliest(found), *map(text, _costs(found)), text()]
    if found.causes and found.idle >= _IDLE * found.window:
        blocks += [text("Idle", "bold"), _idle(found), text(), *_gaps(found)]
    if found.steps is not None:
        blocks += [text("Steps", "bold"), *map(text, step_lines(found.steps)), text()]
    if found.alike:
        blocks += [text("Marked ranges", "bold"), _ranges(found), text()]
    if found.passes:
        blocks += [text("Passes of the server", "bold"), bullets(pass_lines(found)), text()]
    blocks += [text("What was read", "bold dim"), bullets(read_lines(found))]
    return Group(*blocks)


def _title(found: Diagnosis) -> str:
    rank = found.rank
    of = f", rank {rank.rank}" if rank.rank is not None and (rank.ranks or 0) > 1 else ""
    of += f" of {rank.ranks}" if of else ""
    device = device_name(found) or ("device unknown" if found.window else "no device")
    return f"{found.source}: {device}{of}"


def _subtitle(found: Diagnosis) -> str:
    card: Card | None = found.card
    facts = [found.format]
    if card is not None:
        facts += [gib(card.memory)] if card.memory else []
        facts += [f"{card.multiprocessors} multiprocessors"] if card.multiprocessors else []
        facts += [f"{significant(card.bandwidth / GIGA, 4)} GB/s"] if card.bandwidth else []
        ridge = ridges(found).get("bf16")
        facts += [f"ridge {significant(ridge)} FLOP/byte in bf16"] if ridge else []
    known = None if found.recognition is None else found.recognition.id
    if found.supply is not None and known is None:
        facts.append(found.supply_from)
    elif found.recognition is not None:
        facts.append(known or f"device {found.recognition.status}")
    if found.others:
        facts.append(f"{label(found.device or 0)}, one of {len(found.others) + 1} in the file")
    return ", ".join(facts)


def _ms(times: Sequence[int], whole: int) -> tuple[list[str], str]:
    size, unit = scale(_s(whole), "s")
    return column([_s(each) for each in times], size, 5), unit


def _share(time: int, whole: int) -> str:
    share = time / whole if whole else 0.0
    return f"{100 * share:.1f} %" if share >= 0.0005 or not time else "<0.1 %"


def _costs(found: Diagnosis) -> Iterable[str]:
    """What bounds rest on, and how much has one."""
    yield coverage_line(found)
    if found.supply is None:
        reason = found.supply_from.rstrip(".")
        yield f"No bounds: {reason}." + ("" if "--device" in reason else " Name the device with --device.")
    flops, moved, seconds, least, of_bound = together(row.demand for row in found.kernels)
    whole = sum(each.sum for each in found.kernels)
    if seconds >= _TELLING * _s(whole):
        done = si(float(flops), "FLOP") if flops else si(float(moved), "B")
        if least is not None and of_bound is not None:
            yield f"What has a cost, together: {done}, bound {si(least, 's')}, {percent(of_bound)} of it reached."
        elif flops or moved:
            yield f"What has a cost, together: {done}" + (f" over {si(float(moved), 'B')}." if flops else ".")
    yield from above(found.kernels[:_KERNELS])
    if (used := mfu(found)) is not None:
        yield f"MFU {used[0]}: {used[1]}."
    if found.earlier is not None:
        each = found.earlier
        yield f"{each.activities:,} activities ({si(_s(each.time), 's')}) began before the record: {earlier(each)}."
        yield "Breakdown, verdict and kernels have that tail; findings, what has a cost together, and MFU leave it out."


def mfu(found: Diagnosis) -> tuple[str, str] | None:
    """MFU of what was recorded and what it rests on; None where nothing or too little of the run has a cost."""
    used = utilisation(found)
    if used is None or found.coverage is None or found.coverage.share <= _TOLD:
        return None
    least = "" if found.coverage.share > _WHOLE else "at least "
    done = f"{si(float(used.flops), 'FLOP')} in {si(used.seconds, 's')}, of {si(used.peak, 'FLOP/s')} in {used.rate}"
    return f"{least}{percent(used.value)}", done


def above(rows: Sequence[KernelRow]) -> Iterable[str]:
    """Why kernels of the table beat their bound, those of one reason together."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        demand = row.demand
        if demand is not None and demand.of_bound is not None and demand.of_bound > _BEATEN and demand.note:
            reasons.setdefault(demand.note, []).append(row.readable[:40])
    for note, names in reasons.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"Above 100 %: {names[0]}{more}, {note}."


def _where(found: Diagnosis) -> RenderableType:
    """The breakdown: each time of the window once."""
    rows = sorted((each for each in found.breakdown if each.sum), key=lambda each: -each.attributed)
    times = [*(each.attributed for each in rows), found.idle, found.window]
    cells, unit = _ms(times, found.window)
    hidden, _ = _ms([each.hidden for each in rows], found.window)
    names = [*(each.category for each in rows), "idle", "window"]
    calls = [*(f"{each.calls:,}" for each in rows), "", ""]
    beside = [*(cell if each.hidden else "" for cell, each in zip(hidden, rows, strict=True)), "", ""]
    shares = [_share(each, found.window) for each in times]
    heads = [
        ("where the time went", "left"),
        ("calls", "right"),
        (unit, "right"),
        ("share", "right"),
        ("hidden", "right"),
    ]
    return table(
        heads, [list(row) for row in zip(names, calls, cells, shares, beside, strict=True)], bold=len(names) - 1
    )


def _lines(lines: list[str]) -> list[RenderableType]:
    return [*map(text, lines), text()] if lines else []


def meanwhile(found: Diagnosis) -> list[str]:
    """Overlap, collectives, copies, launches and counters, in a line each."""
    lines: list[str] = []
    talk = found.communication
    if talk.calls:
        hidden = f"{percent(talk.overlapped / max(talk.union, 1))} of it beside computation"
        lines.append(f"Communication {si(_s(talk.union), 's')}: {hidden if talk.overlapped else 'none of it hidden'}.")
    lines += [_exchange_line(each) for each in exchanges(found)[:_EXCHANGES]]
    for each in found.copies:
        pinned = {True: ", pinned", False: ", pageable", None: ""}[each.pinned]
        # What is small takes as long as a copy takes at all: its bytes over its time are no speed of anything.
        rate = bandwidth(each.bytes, each.sum) if each.bytes >= _SMALL * each.calls else None
        speed = f" at {significant(rate / GIGA)} GB/s" if rate else ""
        if each.bytes < _SMALL * each.calls:
            speed = f", {si(_s(each.sum) / each.calls, 's', 3)} each"
        amount = f" with {gib(each.bytes)}" if each.bytes else ""
        lines.append(f"Copies {each.kind}{pinned}: {each.calls:,}{amount} in {si(_s(each.sum), 's')}{speed}.")
    lines += _launch_lines(found.launches)
    if found.sampled is not None:
        lines.append(said(found.sampled))
    return lines


def _exchange_line(each: Exchange) -> str:
    ranks = "" if each.kind == "send" else f" of {each.ranks} ranks" if each.ranks else ", ranks not recorded"
    line = f"{each.kind.capitalize()}{ranks}: {each.calls:,} with {gib(each.bytes)} each in {si(_s(each.time), 's')}"
    if each.busbw is None:
        return f"{line}, algbw {si(each.algbw or 0.0, 'B/s')}."
    share = f", {percent(each.of_link)} of {each.link}" if each.of_link is not None else ""
    return f"{line}, busbw {si(each.busbw, 'B/s')}{share}."


def _launch_lines(each: Launches) -> list[str]:
    lines: list[str] = []
    if each.starved is not None and each.depth is not None and each.delay is not None and each.cost is not None:
        lines.append(
            f"Launches: {percent(each.starved)} found the device without work; median queue {each.depth:g}, "
            f"launch to start {si(_s(each.delay), 's', 3)}."
        )
        if each.short:
            lines.append(
                f"{counted(each.short, 'kernel')} ({si(_s(each.short_time), 's', 3)}) took less than a launch costs "
                f"the host ({si(_s(each.cost), 's', 3)})."
            )
    if each.replayed:
        known = f"{each.captured:,} activities have the operators of its capture"
        told = known if each.captured else "their operators are not told"
        lines.append(f"Replayed by a graph: {counted(each.replayed, 'kernel')}; {told}.")
    if each.unlinked and each.linked:
        lines.append(
            f"{each.unlinked:,} activities ({si(_s(each.unlinked_time), 's', 3)}) were launched outside of the record."
        )
    return lines


def _costliest(found: Diagnosis) -> RenderableType:
    rows = found.kernels[:_KERNELS]
    whole = sum(each.sum for each in found.kernels)
    cells, unit = _ms([each.sum for each in rows], whole)
    heads = [
        ("kernel", "left"),
        ("category", "left"),
        ("calls", "right"),
        (unit, "right"),
        ("share", "right"),
        ("limit", "left"),
        ("of bound", "right"),
    ]
    body: list[list[Cell]] = [
        [each.readable, each.category, f"{each.calls:,}", cell, _share(each.sum, whole), *reached(each)]
        for each, cell in zip(rows, cells, strict=True)
    ]
    if len(found.kernels) > len(rows):
        rest = found.kernels[len(rows) :]
        left = sum(each.sum for each in rest)
        body.append(
            [
                f"{len(rest):,} more",
                "",
                f"{sum(each.calls for each in rest):,}",
                _ms([left], whole)[0][0],
                _share(left, whole),
                "",
                "",
            ]
        )
    return table(heads, body)


def reached(row: KernelRow) -> tuple[str, str]:
    """What limits a kernel, and the share of its bound that it reached."""
    demand = row.demand
    if demand is None or demand.of_bound is None:
        return "", "unknown"
    if not demand.bound:
        return "helps", ""
    return demand.by or "nothing", percent(demand.of_bound)


def _findings(found: Diagnosis) -> list[RenderableType]:
    """What to change first, with the time at stake and the figures behind it."""
    blocks: list[RenderableType] = []
    for number, each in enumerate(found.findings[:_FINDINGS], 1):
        blocks.append(text(f"{number}. {each.title}: {si(each.at_stake or 0.0, 's', 3)} at stake", "bold"))
        blocks.append(bullets([*each.evidence, f"First: {each.advice}"]))
    if len(found.findings) > _FINDINGS:
        blocks.append(text(f"In --json: {counted(len(found.findings) - _FINDINGS, 'smaller one')}.", "dim"))
    return [text("What to change first", "bold"), *blocks, text()] if blocks else []


def coverage_line(found: Diagnosis) -> str:
    """What share of the compute time has a cost, and how to record the rest."""
    parts = found.coverage
    if parts is None or not parts.compute:
        return "Nothing was computed on the device, so no kernel has a cost."
    line = f"{percent(parts.share)} of the compute time has a cost from shapes"
    if parts.placed:
        line += f", {percent(parts.placed / parts.compute)} of it as the tail of the step before"
    if parts.share > _WHOLE:
        return f"{line}."
    why = max(parts.without, key=lambda each: parts.without[each])
    line += f". Most of the rest, {percent(parts.without[why] / parts.compute)}, has none because {why}"
    remedy = parts.remedy()
    return f"{line}: {remedy}." if remedy else f"{line}."


def _idle(found: Diagnosis) -> RenderableType:
    cells, unit = _ms([each.time for each in found.causes], found.idle)
    longest, longest_unit = _ms([each.longest for each in found.causes], max(each.longest for each in found.causes))
    heads = [
        ("cause", "left"),
        (unit, "right"),
        ("share", "right"),
        ("gaps", "right"),
        (f"longest {longest_unit}", "right"),
    ]
    body: list[list[Cell]] = [
        [each.cause, cell, _share(each.time, found.window), f"{each.gaps:,}", most]
        for each, cell, most in zip(found.causes, cells, longest, strict=True)
    ]
    return table(heads, body)


def _gaps(found: Diagnosis) -> list[RenderableType]:
    return [text("Longest gaps", "bold dim"), bullets(gap_lines(found)), text()]


def gap_lines(found: Diagnosis) -> list[str]:
    """The longest gaps, with their cause, what the host did, and what came next."""
    return [
        f"{si(_s(each.length), 's', 3)} at {si(_s(each.at), 's')}: {each.cause}"
        + (f", host in {each.host}" if each.host else "")
        + f", then {each.next}"
        for each in found.gaps[:3]
    ]


def _ranges(found: Diagnosis) -> RenderableType:
    heads, body = range_rows(found)
    return table([(heads[0], "left"), *((head, "right") for head in heads[1:])], [list[Cell](row) for row in body])


def range_rows(found: Diagnosis) -> tuple[list[str], list[list[str]]]:
    """The heads and rows of a table of what the host marked, with what was launched within it."""
    rows = found.alike[:_RANGES]
    device, unit = _ms([each.device for each in rows], max(each.device for each in rows))
    host, host_unit = _ms([each.host for each in rows], max(each.host for each in rows))
    heads = ["range", "calls", f"host {host_unit}", "activities", f"device {unit}", "share"]
    whole = sum(each.sum for each in found.breakdown)
    body = [
        [each.name, f"{each.calls:,}", cell, f"{each.activities:,}", time, _share(each.device, whole)]
        for each, cell, time in zip(rows, host, device, strict=True)
    ]
    return heads, body


def step_lines(steps: Steps) -> Iterable[str]:
    """How long a step takes, and which were left out."""
    median, least, most = (si(_s(each), "s") for each in (steps.median, steps.least, steps.most))
    steady = [each for each in steps.steps if each.steady]
    if len(steady) > 1:
        yield f"Median {median}, from {least} to {most}; {steps.rule}."
    else:
        yield f"{median}; {steps.rule}."


def pass_lines(found: Diagnosis) -> list[str]:
    """The first passes of a server, by what it says of them."""
    return [_pass_line(each) for each in found.passes[:_KERNELS]]


def _pass_line(each: Pass) -> str:
    parts: list[str] = []
    for phase, requests, tokens, kv in (
        ("prefill", each.context_requests, each.context_tokens, each.context_kv),
        ("decode", each.generation_requests, each.generation_tokens, each.generation_kv),
    ):
        if requests:
            known = f" attending to {kv:,} positions" if kv is not None else ""
            parts.append(f"{phase} of {counted(requests, 'request')} with {counted(tokens, 'token')}{known}")
    return "; ".join(parts) or each.name


_USED = {
    "kernel": ("kernel", "kernels"),
    "copy": ("copy", "copies"),
    "set": ("memset", "memsets"),
    "op": ("operator", "operators"),
    "call": ("runtime call", "runtime calls"),
    "mark": ("annotation or module", "annotations and modules"),
    "gpu_mark": ("annotation on the device", "annotations on the device"),
    "sample": ("value of a counter", "values of counters"),
}


def read_lines(found: Diagnosis) -> Iterable[str]:
    """What of the file was used, and as what."""
    counts = found.counts
    words = {role: _USED.get(role, (role, role)) for role in counts.used}
    used = ", ".join(f"{n:,} {words[role][n != 1]}" for role, n in counts.used.items() if n)
    events = "event" if counts.read == 1 else "events"
    yield f"{counts.read:,} {events} in {gib(found.bytes)} of text; used: {used or 'none'}"
    left = "; ".join(f"{why}: {n:,}" for why, n in sorted(counts.left_out.items(), key=lambda each: -each[1]))
    if left:
        yield f"left out: {left}"
    if counts.lost:
        yield f"lost: {counts.lost:,} that could not be read"
