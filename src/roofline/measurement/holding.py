"""A measured kernel beside its bound: whether the bound holds, and where a cache is why it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from roofline.bound import Point, bound
from roofline.device import Device
from roofline.ledger import Ledger
from roofline.units import GIGA, gib, significant

_CACHES = {"l2": "L2", "last_level": "last-level"}
_STREAMED = ("weights", "kv")  # read again only in the next pass


@dataclass(frozen=True, slots=True)
class Held:
    """One kernel of a ledger, `count` calls of it: measured seconds of one call beside its bound [s].

    `ratio` is measured over bound, below 1 where the kernel is faster. Then `cache` names the level that may
    hold its operands, `cache_seconds` is its bound at that level's bandwidth, and `reason` says so in a sentence; or
    `reason` says that there is none.
    """

    point: Point
    seconds: float
    cache: str = ""
    cache_seconds: float = 0.0
    reason: str = ""

    @property
    def ratio(self) -> float:
        """Measured over bound."""
        return self.seconds / cast(float, self.point.bound.seconds)

    @property
    def least_ratio(self) -> float:
        """Measured over the bound of where its operands lie: the cache's where the reason is a cache."""
        return self.seconds / self.cache_seconds if self.cache_seconds else self.ratio


def held(ledger: Ledger, seconds: Mapping[str, float]) -> tuple[Held, ...]:
    """Every kernel of a scalar ledger that was measured, by its name, with the seconds of one call."""
    return tuple(_held(point, seconds[point.name], ledger) for point in ledger if point.name in seconds)


def _held(point: Point, seconds: float, ledger: Ledger) -> Held:
    if seconds >= cast(float, point.bound.seconds):
        return Held(point, seconds)
    if point.bound.by != "memory":
        return Held(point, seconds, reason="faster than the measured peak: the peak is measured too low")
    touched = _touched(point, ledger)
    for level, name in _CACHES.items():
        size = _size(ledger.device, level)
        if size is not None and touched <= size:
            return _in_cache(point, seconds, level, f"the {gib(touched)} in use fit the {name} cache of {gib(size)}")
    return Held(point, seconds, reason="faster than the measured bandwidth, and no cache holds its operands")


def _size(device: Device, level: str) -> int | None:
    return device.l2 if level == "l2" else device.cache


def _touched(point: Point, ledger: Ledger) -> float:
    """Bytes that a program touches before it touches a kernel's operands again.

    Weights and KV cache come again after a whole pass; activations were written by the kernel before.
    """
    memory = point.work.cost.memory
    streamed = sum(cast(float, memory.get(role, 0)) for role in _STREAMED)
    whole = cast(float, point.work.bytes)
    return cast(float, ledger.total.bytes) if 2 * streamed > whole else whole


def _in_cache(point: Point, seconds: float, level: str, why: str) -> Held:
    bandwidth = point.device.cache_bandwidth.get(level)
    if bandwidth is None:
        return Held(point, seconds, level, reason=f"{why}, whose bandwidth is not known")
    faster = replace(point.device, bandwidth=max(bandwidth, point.device.bandwidth))
    least = cast(float, bound(point.work.cost, faster).seconds)
    said = f"{why}, which gives {significant(bandwidth / GIGA)} GB/s"
    return Held(point, seconds, level, least, said)
