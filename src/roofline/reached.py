"""What share of their bound such kernels reach where they were measured: a reference, no expected time."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from roofline.bound import Point
from roofline.ledger import Ledger

_FILE = Path(__file__).parent / "data" / "reached.toml"
_UNKNOWN = 0.05
_WORD = 0.01  # a kind with less of the bound is not worth its count


class Reach(NamedTuple):
    """Shares of the bound that kernels of a pass's kinds reach: quartiles, and what they rest on."""

    low: float
    median: float
    high: float
    basis: str


def reach(ledger: Ledger) -> Reach | None:
    """What the kernels of a scalar ledger reach elsewhere, each kind weighed by its seconds.

    The bound over the time that every kernel at its kind's quartile would take; None where kernels of no
    measured kind hold more than 5 % of the bound.
    """
    table = _table()
    known = unknown = 0.0
    taken = {"low": 0.0, "median": 0.0, "high": 0.0}
    kinds: dict[int, float] = {}
    for point in ledger.kernels:
        seconds = cast(float, point.bound_seconds)
        index = _kind(table["kind"], point)
        if index is None:
            unknown += seconds
            continue
        kind = table["kind"][index]
        kinds[index] = kinds.get(index, 0.0) + seconds
        known += seconds
        for quartile in taken:
            taken[quartile] += seconds / kind[quartile]
    if unknown > _UNKNOWN * (known + unknown):
        return None
    counted = sum(table["kind"][index]["measured"] for index, seconds in kinds.items() if seconds > _WORD * known)
    basis = f"{counted} kernels, measured on {table['devices']}"
    return Reach(known / taken["low"], known / taken["median"], known / taken["high"], basis)


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(_FILE.read_text("utf-8"))


def _kind(kinds: list[dict[str, Any]], point: Point) -> int | None:
    """The index of the measured kind that a kernel is of."""
    phase = _phase(point)
    for index, kind in enumerate(kinds):
        if point.work.op in kind["ops"] and kind["bound"] == point.bound.by and kind.get("phase", phase) == phase:
            return index
    return None


def _phase(point: Point) -> str:
    """The phase of an attention that was measured: one new token, or many on nothing; others were not."""
    dims = point.work.dims
    if dims.get("new") == 1:
        return "decode"
    return "prefill" if dims.get("context") == 0 else "another"
