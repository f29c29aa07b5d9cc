"""Counters of running cards over time: what each sample says, by our own names, in base units."""

from __future__ import annotations

import math
import tomllib
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import pairwise
from math import isnan
from typing import Any

MOST_SAMPLES = 1 << 15  # of one card that are kept; of more, every second, fourth, ... one
MOST_GPUS = 1 << 14
_ABSENT = math.nan

# What DCGM writes where it has no value (dcgm_structs.h): a blank, not found, not supported, not permitted.
_BLANK_INT32, _BLANK_INT64, _BLANK_FP64 = 0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 1 << 47
_BLANKS = 8


@cache
def table(vendor: str) -> Mapping[str, tuple[str, float, int]]:
    """Our name, the factor and the place in its list of each name of a vendor: dcgm, short, smi or dmon."""
    text = (files("roofline") / "data" / "counters.toml").read_text("utf-8")
    tables: Mapping[str, Any] = tomllib.loads(text)["gpu"]
    return {
        name: (ours, float(each.get(f"{vendor}_factor", 1)), at)
        for ours, each in tables.items()
        for at, name in enumerate(each.get(vendor, ()))
    }


@cache
def cumulative() -> frozenset[str]:
    """Names of counters that only grow."""
    text = (files("roofline") / "data" / "counters.toml").read_text("utf-8")
    return frozenset(ours for ours, each in tomllib.loads(text)["gpu"].items() if each.get("cumulative"))


def known(value: float) -> bool:
    """Whether DCGM has a value, and not one of its blanks; none of its counters is below zero."""
    blank = (
        _BLANK_INT32 <= value < _BLANK_INT32 + _BLANKS
        or value >= _BLANK_INT64
        or _BLANK_FP64 <= value < _BLANK_FP64 + _BLANKS
    )
    return math.isfinite(value) and value >= 0 and not blank


@dataclass(slots=True)
class Series:
    """The samples of one card, a column a counter; NaN where a sample lacks it."""

    name: str  # "GPU 0", "GPU 0, instance 13 (1g.5gb)"
    card: str = ""
    columns: dict[str, array[float]] = field(default_factory=dict[str, "array[float]"])
    times: array[float] = field(default_factory=lambda: array("d"))  # [s] since 1970, or NaN
    seen: int = 0
    every: int = 1  # one in so many of the samples seen is kept

    def add(self, values: Mapping[str, float], time: float | None = None) -> None:
        """Add a sample."""
        self.seen += 1
        if (self.seen - 1) % self.every:
            return
        if len(self.times) >= MOST_SAMPLES:
            self.every *= 2
            self.times = self.times[::2]
            self.columns = {name: column[::2] for name, column in self.columns.items()}
            if (self.seen - 1) % self.every:
                return
        self.times.append(_ABSENT if time is None else time)
        for name in dict.fromkeys((*self.columns, *values)):
            column = self.columns.setdefault(name, array("d"))
            column.extend([_ABSENT] * (len(self.times) - 1 - len(column)))
            column.append(values.get(name, _ABSENT))

    def __len__(self) -> int:
        return len(self.times)

    def samples(self) -> Iterable[dict[str, float]]:
        """Each sample with what it has."""
        for at in range(len(self.times)):
            yield {name: column[at] for name, column in self.columns.items() if not isnan(column[at])}

    def mean(self, name: str) -> float | None:
        """The mean of a counter over the samples that have it, or None."""
        column = [value for value in self.columns.get(name, ()) if not isnan(value)]
        return math.fsum(column) / len(column) if column else None

    def most(self, name: str) -> float | None:
        """The largest value of a counter, or None."""
        return max((value for value in self.columns.get(name, ()) if not isnan(value)), default=None)

    def growth(self, name: str) -> float | None:
        """By how much a counter grew from its first to its last sample, or None; a reset counts from zero."""
        column = [value for value in self.columns.get(name, ()) if not isnan(value)]
        if len(column) < 2:
            return None
        return math.fsum(max(b - a, 0.0) for a, b in pairwise(column))

    @property
    def span(self) -> float | None:
        """Time from the first to the last sample [s], or None where fewer than half of them bear a time."""
        times = [each for each in self.times if not isnan(each)]
        if 2 * len(times) < len(self.times):
            return None
        return times[-1] - times[0] if len(times) > 1 and times[-1] > times[0] else None


@dataclass(frozen=True, slots=True)
class Counters:
    """The cards of a file."""

    form: str
    gpus: tuple[Series, ...]
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Gatherer:
    """Puts single values together to samples: a counter that comes again for a card begins its next one."""

    gpus: dict[str, Series] = field(default_factory=dict[str, Series])
    open: dict[str, dict[str, tuple[float, int]]] = field(default_factory=dict[str, dict[str, tuple[float, int]]])
    at: dict[str, float] = field(default_factory=dict[str, float])
    left_out: dict[str, int] = field(default_factory=dict[str, int])

    def series(self, name: str, card: str = "") -> Series | None:
        """The card of that name; None where there are too many."""
        found = self.gpus.get(name)
        if found is None:
            if len(self.gpus) >= MOST_GPUS:
                self.drop(f"samples of more than {MOST_GPUS:,} cards")
                return None
            found = self.gpus[name] = Series(name)
        if card and not found.card:
            found.card = card[:200]
        return found

    def drop(self, why: str) -> None:
        """Count something that is left out."""
        self.left_out[why] = self.left_out.get(why, 0) + 1

    def put(
        self, name: str, counter: tuple[str, float, int], value: float, card: str = "", time: float | None = None
    ) -> None:
        """A value of a card; `counter` is our name, the factor and how early the vendor's name stands in its list."""
        ours, factor, order = counter
        if self.series(name, card) is None:
            return
        sample = self.open.setdefault(name, {})
        before = sample.get(ours)
        if (before is not None and before[1] == order) or (time is not None and self.at.get(name, time) != time):
            self.flush(name)
            sample = self.open.setdefault(name, {})
            before = None
        if before is None or order < before[1]:
            sample[ours] = (value * factor, order)
        if time is not None:
            self.at[name] = time

    def flush(self, name: str) -> None:
        """End the open sample of a card."""
        sample = self.open.pop(name, None)
        if sample:
            self.gpus[name].add({ours: value for ours, (value, _) in sample.items()}, self.at.get(name))
        self.at.pop(name, None)

    def done(self) -> tuple[Series, ...]:
        """All cards, their last samples ended."""
        for name in list(self.open):
            self.flush(name)
        return tuple(each for each in self.gpus.values() if len(each))
