"""Counters sampled beside a timeline: what the device waited for while it was busy, judged as counters alone are."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

from roofline.device import Device
from roofline.diagnosis.assessment import CardState
from roofline.diagnosis.counters import card_state, held_back
from roofline.diagnosis.findings import Finding
from roofline.evidence.counters import MOST_SAMPLES, Series, table
from roofline.trace import timeline
from roofline.trace.events import Samples, Trace
from roofline.units import MEGA, NS_PER_S, percent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roofline.trace.timeline import Spans

    Flags = NDArray[np.bool_]

_ADVICE = (
    "The timeline tells which: gaps between kernels, collectives, grids that are too small for the device; of one "
    "kernel Nsight Compute tells more (roofline record ncu)."
)
_HERTZ = MEGA  # from which on a clock that is named in MHz is in Hz, as the tool writes it


def sampled(trace: Trace, device: int | None, busy: Spans, supply: Device | None) -> CardState | None:
    """The device's counters over the time that it was busy; None where none were sampled.

    Of a file without kernels it is the card with the most samples, over all its samples.
    """
    mine = [each for each in trace.samples if device is None or each.device == device]
    if not mine:
        return None
    samples = max(mine, key=lambda each: len(each.time))
    within = timeline.inside(busy, samples.time) if len(busy[0]) else samples.time >= 0
    if not within.any():
        return None
    card = next((each for each in trace.cards if each.number == samples.device), None)
    if supply is not None and card is not None and card.bandwidth:
        supply = replace(supply, bandwidth=float(card.bandwidth))
    series = Series(f"GPU {samples.device}", card.name if card is not None else "")
    means = _fill(series, samples, within)
    if not means:
        return None
    found = card_state(series, supply)
    seconds = timeline.total(busy) / NS_PER_S if len(busy[0]) else _span(samples)
    bandwidth = means["dram_active"] * card.bandwidth if card and card.bandwidth and "dram_active" in means else None
    return replace(found, samples=int(within.sum()), span=seconds, means=means, bandwidth=bandwidth or found.bandwidth)


def _span(samples: Samples) -> float:
    return float(samples.time[-1] - samples.time[0]) / NS_PER_S


def _fill(series: Series, samples: Samples, within: Flags) -> dict[str, float]:
    """Put the samples of these times into a series, of many an even choice; the means are those of all of them."""
    import numpy as np

    columns: dict[str, NDArray[np.float64]] = {}
    for name, values in samples.values.items():
        counter = table("nsys").get(name)
        if counter is not None and counter[0] not in columns:
            column = values[within].astype(np.float64)
            clock = name.endswith("[MHz]") and np.nanmax(column, initial=0) < _HERTZ
            columns[counter[0]] = column * (_HERTZ if clock else counter[1])
    parts = [columns.pop(each) for each in ("dram_read_active", "dram_write_active") if each in columns]
    if len(parts) == 2:
        columns["dram_active"] = np.minimum(parts[0] + parts[1], 1.0)
    every = max(1, -(-int(within.sum()) // MOST_SAMPLES))
    series.times = array("d", (samples.time[within][::every] / NS_PER_S).tolist())
    series.columns = {name: array("d", column[::every].tolist()) for name, column in columns.items()}
    means = {name: float(np.nanmean(column)) for name, column in columns.items() if np.isfinite(column).any()}
    return {name: value for name, value in means.items() if isfinite(value)}


def said(found: CardState) -> str:
    """The counters in a sentence."""
    sentence = found.sentence[0].lower() + found.sentence[1:]
    return f"Counters while it was busy ({found.samples:,} samples): {sentence}"


def findings(found: CardState) -> Iterable[Finding]:
    """What the counters say of the busy time: waits for memory, or neither memory nor arithmetic near full."""
    for each in held_back((found,)):
        yield replace(each, advice=_ADVICE) if each.rule == "neither-memory-nor-compute" else each


def told(found: CardState | None, limit: str, sentence: str) -> tuple[str, str]:
    """The verdict with what the counters say, where nothing else tells what limits the kernels."""
    if found is None or limit or found.verdict not in ("memory", "compute"):
        return limit, sentence
    share = percent(found.states[found.verdict])
    word = "Memory-bound" if found.verdict == "memory" else "Compute-bound"
    where = sentence.partition(". ")[0]
    return found.verdict, f"{word} by the sampled counters, in {share} of the busy samples. {where.rstrip('.')}."
