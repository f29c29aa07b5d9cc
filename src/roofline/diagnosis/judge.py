"""From a trace to its diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.diagnosis.breakdown import breakdown, categories, communication, copies, kernel_rows, total_time
from roofline.diagnosis.idle import idle
from roofline.diagnosis.launches import launches
from roofline.diagnosis.result import Cause, Diagnosis, Share
from roofline.diagnosis.steps import passes, steps
from roofline.recognition import Recognition, recognise
from roofline.trace import timeline
from roofline.trace.events import Card, Trace
from roofline.trace.link import link
from roofline.units import percent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]


def diagnose_trace(trace: Trace) -> Diagnosis:
    """Where the time of a trace's device went; of several devices, the one with the most activities."""
    import numpy as np

    gpu = trace.gpu
    devices, counts = np.unique(gpu.device, return_counts=True)
    device = int(devices[counts.argmax()]) if len(devices) else None
    rows = np.flatnonzero(gpu.device == device) if device is not None else np.zeros(0, np.int64)
    links = link(trace)
    kinds = categories(trace, links, rows) if len(rows) else rows
    window = (int(gpu.start[rows[0]]), int(gpu.end[rows].max())) if len(rows) else (0, 0)
    busy = timeline.union(gpu.start[rows], gpu.end[rows])
    card = _card(trace, device)
    shares = breakdown(gpu, rows, kinds)
    causes, gaps = idle(trace, links, rows, busy, window)
    return Diagnosis(
        source=trace.source,
        format=trace.format,
        device=device,
        card=card,
        recognition=None if card is None else _recognised(card),
        rank=trace.rank,
        window=window[1] - window[0],
        busy=total_time(shares),
        breakdown=shares,
        kernels=kernel_rows(trace, links, rows, kinds),
        causes=tuple(causes),
        gaps=tuple(gaps),
        steps=steps(trace, links, rows),
        passes=passes(trace),
        launches=launches(trace, links, rows),
        copies=copies(trace, rows),
        communication=communication(gpu, rows, kinds),
        counts=trace.counts,
        bytes=trace.bytes,
        others={int(each): int(n) for each, n in zip(devices, counts, strict=True) if each != device},
        verdict=_verdict(shares, causes, window[1] - window[0]),
        warnings=trace.warnings,
    )


def _card(trace: Trace, device: int | None) -> Card | None:
    """What the file says of the device. AMD numbers its agents otherwise than its devices: there all are alike."""
    if device is None or not trace.cards:
        return None
    same = {(each.name, each.memory, each.multiprocessors) for each in trace.cards}
    mine = [each for each in trace.cards if each.number == device]
    if mine and (len(same) == 1 or not any("AMD" in each.name for each in trace.cards)):
        return mine[0]
    return trace.cards[0] if len(same) == 1 else None


def _recognised(card: Card) -> Recognition:
    bandwidth = None if card.bandwidth is None else float(card.bandwidth)
    return recognise(card.name, sms=card.multiprocessors, memory=card.memory, bandwidth=bandwidth)


def _verdict(shares: tuple[Share, ...], causes: list[Cause], window: int) -> str:
    """One sentence: what takes the most of the window."""
    if not window:
        return "No device activity in this file: it says nothing of a GPU."
    largest = max(shares, key=lambda each: each.attributed)
    idle_time = sum(each.time for each in causes)
    if idle_time > largest.attributed:
        cause = causes[0]
        return (
            f"The device was idle {percent(idle_time / window)} of the window, {percent(cause.time / idle_time)} of "
            f"that: {cause.cause}."
        )
    return f"Most of the window is {largest.category}: {percent(largest.attributed / window)}."
