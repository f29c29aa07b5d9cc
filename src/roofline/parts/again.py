"""A part whose weights are an earlier one's: run and cached again, stored once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline.dtypes import DType
from roofline.num import Num
from roofline.parts.base import Kernel, Part, Pass, Weight
from roofline.shard import Shard


@dataclass(frozen=True, slots=True)
class Again:
    """`part` once more: it streams the same weights, which are counted where they are stored."""

    part: Part

    @property
    def label(self) -> str:
        """That of the part."""
        return self.part.label

    @property
    def sort(self) -> str | None:
        """What it sees, in words, where it caches anything."""
        return getattr(self.part, "sort", None)

    def weights(self) -> tuple[Weight, ...]:
        """None of its own."""
        return ()

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """Those of the part."""
        return self.part.kernels(run)

    def cache_bytes(self, held: Num, kv: DType, shard: Shard) -> Num:
        """Its own cache, as large as the part's."""
        return self.part.cache_bytes(held, kv, shard)
