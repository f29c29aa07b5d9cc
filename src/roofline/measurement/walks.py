"""Walks through memory: the patterns, and which elements a call touches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from roofline import ops
from roofline.cost import Work

_PAD = 1088  # bytes between streams, so that none lies a multiple of 4 KiB from another
_FORMATS = {8: "fp64", 4: "fp32"}


@dataclass(frozen=True, slots=True)
class Pattern:
    """One way to walk memory: streams read and written, and FLOPs an element."""

    name: str
    reads: int
    writes: int
    flops: int = 0

    @property
    def streams(self) -> int:
        """Arrays that a call touches."""
        return self.reads + self.writes

    def work(self, n: int, item: int) -> Work:
        """The demand of a call over n elements of `item` bytes: what is asked for, not what a write fetches before."""
        if self.name == "copy":
            return ops.copy(n=n * item)
        kind = _FORMATS[item]
        return ops.elementwise(n=n, reads=self.reads, writes=self.writes, flops=self.flops, activations=kind)


READ, WRITE = Pattern("read", 1, 0), Pattern("write", 0, 1)
COPY, TRIAD = Pattern("copy", 1, 1), Pattern("triad", 2, 1, 2)
PATTERNS = (COPY, READ, TRIAD, WRITE)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a walk is cut: bytes of an element, bytes that one call touches at the most, threads that share them."""

    item: int
    block: int
    threads: int = 1

    def elements(self, working_set: int, streams: int) -> int:
        """Elements of each stream that one thread walks in a call."""
        pad = _PAD // self.item
        return (min(working_set, self.block) // self.item - streams * pad) // (streams * self.threads)

    def calls(self, memory: Any, working_set: int, streams: int) -> list[list[tuple[Any, ...]]]:
        """By call and thread the arrays to walk: calls one after another rotate over the whole working set."""
        block, n = min(working_set, self.block), self.elements(working_set, streams)
        stride = n * self.threads + _PAD // self.item
        found: list[list[tuple[Any, ...]]] = []
        for start in range(0, working_set - block + 1, block):
            first = start // self.item
            starts = [[first + s * stride + t * n for s in range(streams)] for t in range(self.threads)]
            found.append([tuple(memory[at : at + n] for at in mine) for mine in starts])
        return found

    def whole(self, size: int) -> int:
        """`size` as whole blocks, or as it is where it is less than one [byte]."""
        return size // self.block * self.block or size


def sizes(smallest: int, largest: int, step: int) -> Iterator[int]:
    """Working sets from the smallest on, each `step` times the one before, well below the largest."""
    while 2 * smallest <= largest:
        yield smallest
        smallest *= step
