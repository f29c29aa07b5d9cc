"""A diagnosis as JSON types and as terminal text. Names are data: they come from a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.console import Group, RenderableType

from roofline.diagnosis.idle import MEANING
from roofline.diagnosis.result import Diagnosis, Launches, Pass, Steps
from roofline.show.measured_schema import MeasuredDevice
from roofline.show.schema import (
    BreakdownRecord,
    CategoryRecord,
    CauseRecord,
    CommunicationRecord,
    CopiesRecord,
    DiagnosisRecord,
    EventsRecord,
    GapRecord,
    LaunchesRecord,
    MeasuredKernel,
    PassRecord,
    RankRecord,
    StepRecord,
    StepsRecord,
)
from roofline.show.terminal import Cell, bullets, table, text
from roofline.trace.events import Card
from roofline.units import GIGA, NS_PER_S, column, gib, percent, scale, si, significant

_KERNELS = 12  # rows of the terminal table; the JSON has all


def _s(nanoseconds: int) -> float:
    return nanoseconds / NS_PER_S


def _maybe(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else _s(nanoseconds)


def diagnosis_record(found: Diagnosis) -> dict[str, Any]:
    """A diagnosis as JSON types."""
    parts = {each.category: each.attributed for each in found.breakdown} | {"idle": found.idle}
    counts = found.counts
    record = DiagnosisRecord(
        schema="roofline.diagnosis/1",
        source=found.source,
        format=found.format,
        device=_device(found),
        window_s=_s(found.window),
        busy_s=_s(found.busy),
        idle_s=_s(found.idle),
        window_ns=found.window,
        busy_ns=found.busy,
        idle_ns=found.idle,
        breakdown=BreakdownRecord(**{name: _s(value) for name, value in parts.items()}),
        breakdown_ns=parts,
        categories=_categories(found),
        kernels=_kernels(found),
        coverage=0.0,
        findings=[],
        verdict=found.verdict,
        idle_causes=[
            CauseRecord(each.cause, MEANING[each.cause], _s(each.time), each.time, each.gaps, _s(each.longest))
            for each in found.causes
        ],
        gaps=[GapRecord(_s(each.at), _s(each.length), each.cause, each.host, each.next) for each in found.gaps],
        steps=None if found.steps is None else _steps(found.steps),
        passes=[_pass(each) for each in found.passes],
        launches=_launches(found.launches),
        copies=[
            CopiesRecord(each.kind, each.pinned, each.calls, each.bytes, _s(each.sum), _rate(each.bytes, each.sum))
            for each in found.copies
        ],
        communication=CommunicationRecord(
            found.communication.calls,
            _s(found.communication.union),
            _s(found.communication.exposed),
            _s(found.communication.overlapped),
        ),
        rank=RankRecord(found.rank.rank, found.rank.ranks, found.rank.backend),
        events=EventsRecord(counts.read, dict(counts.used), dict(counts.left_out), counts.lost, found.bytes),
        other_devices={str(device): count for device, count in found.others.items()},
        warnings=list(found.warnings),
    )
    return msgspec.to_builtins(record)


def _rate(moved: int, time: int) -> float | None:
    return moved / _s(time) if time > 0 and moved > 0 else None


def _device(found: Diagnosis) -> MeasuredDevice:
    known = found.recognition
    if known is None:
        return MeasuredDevice(None, _device_name(found), None, [], found.device, None, None, {})
    card = found.card
    bandwidth, clock = (card.bandwidth, card.clock) if card is not None else (None, None)
    candidates = list(known.candidates)
    return MeasuredDevice(
        known.id, _device_name(found), known.reason, candidates, found.device, bandwidth, clock, _ridge(found)
    )


def _ridge(found: Diagnosis) -> dict[str, float]:
    """Peaks of the recognised device over the bandwidth that the file itself states [FLOP/byte]."""
    known, card = found.recognition, found.card
    if known is None or known.id is None or card is None or not card.bandwidth:
        return {}
    return {rate: peak / card.bandwidth for rate, peak in known.device().peak.items()}


def _device_name(found: Diagnosis) -> str:
    """What the file calls it; where that is nothing, the id of the device that it is."""
    known = found.recognition.id if found.recognition is not None else None
    return (found.card.name if found.card is not None else "") or known or ""


def _categories(found: Diagnosis) -> list[CategoryRecord]:
    return [
        CategoryRecord(
            each.category,
            each.calls,
            _s(each.sum),
            _s(each.union),
            _s(each.attributed),
            _s(each.hidden),
            each.attributed,
        )
        for each in found.breakdown
    ]


def _kernels(found: Diagnosis) -> list[MeasuredKernel]:
    return [
        MeasuredKernel(
            name=each.name,
            readable=each.readable,
            category=each.category,
            operator=each.operator,
            calls=each.calls,
            seconds=_s(each.sum),
            share=each.share,
            flops=None,
            bytes=None,
            intensity=None,
            bound=None,
            bound_seconds=None,
            of_bound=None,
            cost_from="unknown",
        )
        for each in found.kernels
    ]


def _steps(steps: Steps) -> StepsRecord:
    rows = [StepRecord(each.name, _s(each.length), _s(each.busy), each.warm_up) for each in steps.steps]
    return StepsRecord(_s(steps.median), _s(steps.least), _s(steps.most), steps.rule, rows)


def _pass(each: Pass) -> PassRecord:
    return PassRecord(
        each.name,
        each.padded,
        each.context_requests,
        each.context_tokens,
        each.context_kv,
        each.generation_requests,
        each.generation_tokens,
        each.generation_kv,
    )


def _launches(each: Launches) -> LaunchesRecord:
    return LaunchesRecord(
        linked=each.linked,
        unlinked=each.unlinked,
        unlinked_s=_s(each.unlinked_time),
        delay_median_s=_maybe(each.delay),
        delay_p95_s=_maybe(each.delay_most),
        cost_median_s=_maybe(each.cost),
        queue_depth_median=each.depth,
        starved_share=each.starved,
        short_kernels=each.short,
        short_kernels_s=_s(each.short_time),
        graph_replayed=each.replayed,
    )


def diagnosis_text(found: Diagnosis) -> RenderableType:
    """Where the time went, for a terminal."""
    blocks: list[RenderableType] = [text(_title(found), "bold"), text(_subtitle(found), "dim")]
    blocks += [text(f"Note: {each}.", "yellow") for each in found.warnings]
    blocks += [text(), text(found.verdict), text()]
    if found.window:
        blocks += [_where(found), text(), *_beside(found)]
        blocks += [text("Costliest", "bold"), _costliest(found), text()]
    if found.causes:
        blocks += [text("Idle", "bold"), _idle(found), text(), *_gaps(found)]
    if found.steps is not None:
        blocks += [text("Steps", "bold"), *map(text, _step_lines(found.steps)), text()]
    if found.passes:
        blocks += [text("Passes of the server", "bold"), bullets(map(_pass_line, found.passes[:_KERNELS])), text()]
    blocks += [text("What was read", "bold dim"), bullets(_read(found))]
    return Group(*blocks)


def _title(found: Diagnosis) -> str:
    rank = found.rank
    of = f", rank {rank.rank}" if rank.rank is not None and (rank.ranks or 0) > 1 else ""
    of += f" of {rank.ranks}" if of else ""
    device = _device_name(found) or ("device unknown" if found.window else "no device")
    return f"{found.source}: {device}{of}"


def _subtitle(found: Diagnosis) -> str:
    card: Card | None = found.card
    facts = [found.format]
    if card is not None:
        facts += [gib(card.memory)] if card.memory else []
        facts += [f"{card.multiprocessors} multiprocessors"] if card.multiprocessors else []
        facts += [f"{significant(card.bandwidth / GIGA, 4)} GB/s"] if card.bandwidth else []
        ridge = _ridge(found).get("bf16")
        facts += [f"ridge {significant(ridge)} FLOP/byte in bf16"] if ridge else []
    if found.recognition is not None:
        facts.append(found.recognition.id or f"device {found.recognition.status}")
    if found.others:
        facts.append(f"device {found.device}; the file has {len(found.others)} more")
    return ", ".join(facts)


def _ms(times: Sequence[int], whole: int) -> tuple[list[str], str]:
    size, unit = scale(_s(whole), "s")
    return column([_s(each) for each in times], size, 5), unit


def _share(time: int, whole: int) -> str:
    share = time / whole if whole else 0.0
    return f"{100 * share:.1f} %" if share >= 0.0005 or not time else "<0.1 %"


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


def _beside(found: Diagnosis) -> list[RenderableType]:
    """Overlap, copies and launches in a line each."""
    lines: list[str] = []
    talk = found.communication
    if talk.calls:
        lines.append(
            f"Communication {si(_s(talk.union), 's')}: {si(_s(talk.exposed), 's')} exposed, "
            f"{si(_s(talk.overlapped), 's')} beside computation ({percent(talk.overlapped / max(talk.union, 1))})."
        )
    for each in found.copies:
        pinned = {True: ", pinned", False: ", pageable", None: ""}[each.pinned]
        rate = _rate(each.bytes, each.sum)
        speed = f" at {significant(rate / GIGA)} GB/s" if rate else ""
        lines.append(
            f"Copies {each.kind}{pinned}: {each.calls:,} with {gib(each.bytes)} in {si(_s(each.sum), 's')}{speed}."
        )
    lines += _launch_lines(found.launches)
    return [*map(text, lines), text()] if lines else []


def _launch_lines(each: Launches) -> list[str]:
    lines: list[str] = []
    if each.starved is not None and each.depth is not None and each.delay is not None and each.cost is not None:
        lines.append(
            f"Launches: {percent(each.starved)} found the device without work; median queue {each.depth:g}, "
            f"launch to start {si(_s(each.delay), 's', 3)}."
        )
        if each.short:
            lines.append(
                f"{each.short:,} kernels ({si(_s(each.short_time), 's', 3)}) are shorter than a launch costs the host "
                f"({si(_s(each.cost), 's', 3)})."
            )
    if each.replayed:
        lines.append(
            f"{each.replayed:,} kernels were replayed by a graph: their operators and shapes are not in the file."
        )
    if each.unlinked:
        lines.append(
            f"{each.unlinked:,} activities ({si(_s(each.unlinked_time), 's', 3)}) were launched outside of the record."
        )
    return lines


def _costliest(found: Diagnosis) -> RenderableType:
    rows = found.kernels[:_KERNELS]
    whole = sum(each.sum for each in found.kernels)
    cells, unit = _ms([each.sum for each in rows], whole)
    heads = [("kernel", "left"), ("category", "left"), ("calls", "right"), (unit, "right"), ("share", "right")]
    body: list[list[Cell]] = [
        [each.readable, each.category, f"{each.calls:,}", cell, _share(each.sum, whole)]
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
            ]
        )
    return table(heads, body)


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
    lines = [
        f"{si(_s(each.length), 's', 3)} at {si(_s(each.at), 's')}: {each.cause}"
        + (f", host in {each.host}" if each.host else "")
        + f", then {each.next}"
        for each in found.gaps[:3]
    ]
    return [text("Longest gaps", "bold dim"), bullets(lines), text()]


def _step_lines(steps: Steps) -> Iterable[str]:
    median, least, most = (si(_s(each), "s") for each in (steps.median, steps.least, steps.most))
    steady = [each for each in steps.steps if not each.warm_up]
    if len(steady) > 1:
        yield f"Median {median}, from {least} to {most}; {steps.rule}."
    else:
        yield f"{median}; {steps.rule}."


def _pass_line(each: Pass) -> str:
    parts: list[str] = []
    for phase, requests, tokens, kv in (
        ("prefill", each.context_requests, each.context_tokens, each.context_kv),
        ("decode", each.generation_requests, each.generation_tokens, each.generation_kv),
    ):
        if requests:
            known = f" attending to {kv:,} positions" if kv is not None else ""
            parts.append(f"{phase} of {requests:,} requests with {tokens:,} tokens{known}")
    return "; ".join(parts) or each.name


_USED = {
    "kernel": "kernels",
    "copy": "copies",
    "set": "memsets",
    "op": "operators",
    "call": "runtime calls",
    "mark": "annotations and modules",
    "gpu_mark": "annotations on the device",
}


def _read(found: Diagnosis) -> Iterable[str]:
    counts = found.counts
    used = ", ".join(f"{count:,} {_USED.get(role, role)}" for role, count in counts.used.items() if count)
    yield f"{counts.read:,} events in {gib(found.bytes)} of text; used: {used or 'none'}"
    left = ", ".join(
        f"{count:,} {reason}" for reason, count in sorted(counts.left_out.items(), key=lambda each: -each[1])
    )
    if left:
        yield f"left out: {left}"
    if counts.lost:
        yield f"lost: {counts.lost:,} that could not be read"
    yield "Costs and bounds of measured kernels are not worked out yet: kernels stand by their time alone"
