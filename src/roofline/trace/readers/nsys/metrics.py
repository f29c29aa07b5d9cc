"""Samples of the hardware's counters (--gpu-metrics-devices), a column a counter for each card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.trace.coding import tally
from roofline.trace.events import Samples
from roofline.trace.readers.nsys.reading import LATEST, Reading
from roofline.trace.readers.sqlite import Tables, text_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_SAMPLES, _NAMES = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
_CARD = 0xFF  # the bits of a type that number the card
_MOST_METRICS = 1 << 10
_MOST_CARDS = 1 << 6
# What is read: shares of what the hardware can do, and clocks. Counts and averages of warps have scales of their own.
_ENDS = ("[Throughput %]", "Clock Frequency [MHz]")


def samples(reading: Reading) -> tuple[Samples, ...]:
    """The samples of each card, by the names that the tool gives its counters."""
    there = reading.tables
    if not there.has(_SAMPLES, "timestamp", "typeId", "metricId", "value"):
        return ()
    names = _names(there)
    parts: dict[int, list[tuple[Ints, Ints, Ints, Ints]]] = {}
    wanted = {key for key, name in names.items() if name.endswith(_ENDS)}
    for time, kind, metric, value in there.numbers(_SAMPLES, ("timestamp", "typeId", "metricId", "value")):
        reading.read += len(time)
        good = (time >= 0) & (time < LATEST) & (value >= 0) & (metric >= 0) & (metric < _MOST_METRICS)
        reading.drop(len(time) - int(good.sum()), "samples of counters without a time or a value")
        rows = good.nonzero()[0]
        for each in list(tally(kind[rows]))[:_MOST_CARDS]:
            mine = rows[kind[rows] == each]
            parts.setdefault(each, []).append((time[mine], metric[mine], value[mine], kind[mine]))
    found = [_card(each, chunks, names, wanted) for each, chunks in sorted(parts.items())[:_MOST_CARDS]]
    reading.drop(sum(ignored for _, ignored in found), "samples of counters that are not used")
    return tuple(each for each, _ in found if each.values)


def _names(there: Tables) -> dict[tuple[int, int], str]:
    """What each counter of a type is called."""
    found: dict[tuple[int, int], str] = {}
    if there.has(_NAMES, "typeId", "metricId", "metricName"):
        for chunk in there.rows(_NAMES, ("typeId", "metricId", "metricName")):
            for kind, metric, name in chunk:
                if isinstance(kind, int) and isinstance(metric, int) and len(found) < _MOST_METRICS * _MOST_CARDS:
                    found[kind, metric] = text_of(name)[:200]
    return found


def _card(
    kind: int,
    chunks: list[tuple[Ints, Ints, Ints, Ints]],
    names: dict[tuple[int, int], str],
    wanted: set[tuple[int, int]],
) -> tuple[Samples, int]:
    """The samples of one type, and how many values were of other counters."""
    import numpy as np

    time, metric, value, _ = (np.concatenate(column) for column in zip(*chunks, strict=True))
    moments = np.unique(time)
    columns: dict[str, Any] = {}
    used = 0
    for number, count in tally(metric).items():
        if (kind, number) not in wanted:
            continue
        mine = metric == number
        column = np.full(len(moments), np.nan, np.float32)
        column[np.searchsorted(moments, time[mine])] = value[mine]
        columns[names[kind, number]] = column
        used += count
    return Samples(kind & _CARD, moments, columns, used), len(time) - used
