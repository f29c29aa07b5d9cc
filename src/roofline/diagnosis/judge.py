"""From a trace to its diagnosis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roofline.device import Device
from roofline.diagnosis.breakdown import breakdown, categories, communication, copies, total_time
from roofline.diagnosis.costing import Costing, costing
from roofline.diagnosis.coverage import coverage
from roofline.diagnosis.demanded import kernel_rows
from roofline.diagnosis.gpus import card_of, fed_by_its_own, pick, rows_of, side_by_side
from roofline.diagnosis.graphs import Lent, lend
from roofline.diagnosis.idle import idle
from roofline.diagnosis.launches import launches
from roofline.diagnosis.marked import marked
from roofline.diagnosis.result import Diagnosis, Earlier
from roofline.diagnosis.rules import findings
from roofline.diagnosis.rules.scene import Scene
from roofline.diagnosis.sampled import sampled, told
from roofline.diagnosis.steps import passes, steps
from roofline.diagnosis.verdict import verdict
from roofline.errors import UnknownName
from roofline.files import printable
from roofline.recognition import Recognition, recognise
from roofline.trace import timeline
from roofline.trace.classify import CATEGORIES
from roofline.trace.coding import tally
from roofline.trace.events import HOST, KERNEL, Card, Trace, listed
from roofline.trace.host import on_host
from roofline.trace.link import link

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]


def diagnose_trace(
    trace: Trace, supply: Device | None = None, capture: Trace | None = None, number: int | None = None
) -> Diagnosis:
    """Where the time of a trace's device went: of `number`, else of the device with the most activities.

    Bounds are those of `supply`, else of the device that the file names. `capture` is of the pass that captured the
    graphs that this one replays: it tells their operators. Raises BadValue where the file has no device `number`.
    """
    if supply is not None or not trace.cards:  # with a card the operators may have run there, and only launched
        trace = on_host(trace)
    gpu = trace.gpu
    device = pick(trace, number)
    rows = rows_of(gpu, device)
    links = link(trace)
    devices = tally(gpu.device)
    beside = side_by_side(trace, links) if len(devices) > 1 else ()
    trace = fed_by_its_own(trace, links, rows) if beside else trace
    kinds = categories(trace, links, rows) if len(rows) else rows
    busy = timeline.union(*gpu.spans(rows))
    window = (int(gpu.start[rows[0]]), int(gpu.spans(rows)[1].max())) if len(rows) else (0, 0)
    card = card_of(trace, device)
    shares = breakdown(gpu, rows, kinds)
    causes, gaps = idle(trace, links, rows, busy, window)
    known = None if card is None else _recognised(card)
    warnings = [*trace.warnings, *_overruled(supply, known, card)]
    supply, supply_from = _supply(supply, known, device)
    lent = lend(trace, links, rows, kinds, capture)
    costs = costing(lent, rows, kinds, supply)
    kernels, placed = kernel_rows(lent.trace, lent.links, rows, kinds, costs, supply)
    ranges, alike = marked(trace, links, rows)
    counters = sampled(trace, device, busy, supply)
    limit, sentence = told(counters, *verdict(shares, causes, gaps, kernels, window[1] - window[0]))
    unseen = len(rows) > 0 and not (gpu.kind[rows] == KERNEL).any()
    if unseen and 2 * total_time(shares) < window[1] - window[0]:
        limit, sentence = "", _NO_KERNEL
    found = Diagnosis(
        source=trace.source,
        format=trace.format,
        device=device,
        card=card,
        recognition=known,
        rank=trace.rank,
        window=window[1] - window[0],
        busy=total_time(shares),
        breakdown=shares,
        kernels=kernels,
        causes=tuple(causes),
        gaps=tuple(gaps),
        steps=steps(trace, links, rows),
        passes=passes(trace),
        launches=launches(trace, links, rows, lent.count),
        copies=copies(trace, rows),
        communication=communication(gpu, rows, kinds),
        counts=trace.counts,
        bytes=trace.bytes,
        others={each: count for each, count in devices.items() if each != device},
        verdict=sentence,
        warnings=(*warnings, *_unused(lent, capture), *((_COPIES_ALONE,) if unseen else ())),
        supply=supply,
        supply_from=supply_from,
        placed=placed,
        coverage=coverage(trace, rows, kinds, costs),
        earlier=_earlier(gpu.duration[rows], costs),
        limit=limit,
        sampled=counters,
        ranges=ranges,
        alike=alike,
        collective_times=() if device == HOST else _collectives(trace, rows, kinds),
        devices=beside,
    )
    if device == HOST:  # nothing is launched, and what the rules advise is about a device
        unlaunched = replace(found.launches, unlinked=0, unlinked_time=0)
        return replace(found, warnings=(*found.warnings, _OPERATORS), launches=unlaunched)
    said = findings(Scene(found, trace, links, rows, kinds, costs))
    return replace(found, findings=tuple(each for each in said if not unseen or each.rule in _OF_COPIES))


_NO_KERNEL = "No kernel is in this record, only copies and memsets: how busy the device was is not told."
_COPIES_ALONE = (
    "no kernel was recorded on this device: what counts as idle is the time without copies and memsets, in which "
    "kernels may have run"
)
_OF_COPIES = ("pageable-copies", "exposed-copies")


_OPERATORS = (
    "no device activity in this file: it says nothing of a GPU, and what is listed are operators of the host's "
    "processor. Where they ran on a GPU, these are the times of their launch: record CUDA activities too"
)


def _unused(lent: Lent, capture: Trace | None) -> tuple[str, ...]:
    if capture is None or lent.count:
        return ()
    return (f"{capture.source} captures no graph that this trace replays: no launches of it are as many and alike",)


def _recognised(card: Card) -> Recognition:
    bandwidth = None if card.bandwidth is None else float(card.bandwidth)
    return recognise(card.name, sms=card.multiprocessors, memory=card.memory, bandwidth=bandwidth)


def _collectives(trace: Trace, rows: Ints, kinds: Ints) -> tuple[int, ...]:
    """How long each collective took [ns], in order of their start."""
    return tuple(listed(trace.gpu.duration[rows[kinds == CATEGORIES.index("communication")]]))


def _overruled(given: Device | None, known: Recognition | None, card: Card | None) -> tuple[str, ...]:
    """That a device which was asked for is not the one that the file names."""
    if given is None or known is None or known.id in (None, given.id) or card is None:
        return ()
    return (f"the file names {printable(card.name)} ({known.id}); bounds are those of {given.id}, as asked for",)


def _supply(given: Device | None, known: Recognition | None, device: int | None) -> tuple[Device | None, str]:
    """The device that bounds are taken on, and what says so."""
    if device == HOST and given is None:
        return None, "the file does not name the processor; roofline measure writes a device file of this one"
    if given is not None:
        return given, f"{given.id}, as asked for"
    if known is None:
        return None, "the file does not name its device"
    try:
        return known.device(), known.reason
    except UnknownName as error:
        return None, str(error)


def _earlier(duration: Ints, costs: Costing) -> Earlier | None:
    tail = costs.tail
    return None if tail is None else Earlier(len(tail.mine), int(duration[tail.mine].sum()), tail.of)
