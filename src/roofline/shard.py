"""How a model's axes are split over ranks: a transform that parts go through, never an `if`.

A part names the axes of its tensors; `Shard` says how much of each one rank holds. What a
contraction over a split axis leaves behind, partial sums, becomes an all-reduce.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from roofline.errors import BadValue, ShardError, shown

MOST_RANKS = 4096


@dataclass(frozen=True, slots=True)
class Axis:
    """A logical axis of a tensor: `size` units of `unit` elements, as 32 heads of 128.

    `uneven` says what happens where the ranks do not divide the units: "refuse", "replicate" (each
    rank keeps one unit, as KV heads are) or "pad" (as a vocabulary is).
    """

    name: str
    size: int
    unit: int = 1
    uneven: str = "refuse"

    @property
    def elements(self) -> int:
        """Elements along the whole axis."""
        return self.size * self.unit


@dataclass(frozen=True)
class Shard:
    """The ranks that split a model: `tp` of them in tensor parallelism.

    Attention heads, KV heads, the MLP's width and the vocabulary are split; everything else is
    on every rank. Raises BadValue for fewer than one rank.
    """

    tp: int = 1

    def __post_init__(self) -> None:
        if self.tp.__class__ is not int or not 1 <= self.tp <= MOST_RANKS:
            raise BadValue(f"Tensor parallelism must be a whole number from 1 to {MOST_RANKS}, not {shown(self.tp)}.")

    @cached_property
    def ranks_of(self) -> Mapping[str, int]:
        """Ranks that split each axis."""
        return dict.fromkeys(("heads", "kv_heads", "intermediate", "vocab"), self.tp)

    def ranks(self, axis: Axis) -> int:
        """Ranks that split this axis; 1 where it is on every rank whole."""
        return self.ranks_of.get(axis.name, 1)

    def units(self, axis: Axis) -> int:
        """Units of the axis that one rank holds; raises ShardError where they do not divide."""
        ranks = self.ranks_of.get(axis.name, 1)
        whole, rest = divmod(axis.size, ranks)
        if rest == 0:
            return whole
        if axis.uneven == "pad":
            return whole + 1
        if axis.uneven == "replicate" and ranks % axis.size == 0:
            return 1
        raise ShardError(
            f"{ranks} ranks do not divide the {axis.size} {axis.name.replace('_', ' ')}. "
            f"Possible for this axis: {_possible(axis)}."
        )

    def elements(self, axis: Axis) -> int:
        """Elements of the axis that one rank holds."""
        return self.units(axis) * axis.unit


def _possible(axis: Axis) -> str:
    """The numbers of ranks that divide an axis, the first dozen of them."""
    found = [n for n in range(1, min(axis.size, MOST_RANKS) + 1) if axis.size % n == 0]
    listed = ", ".join(str(n) for n in found[:12]) + (", …" if len(found) > 12 else "")
    return f"{listed}, and multiples of {axis.size}" if axis.uneven == "replicate" else listed
