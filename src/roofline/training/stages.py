"""A model's layers over pipeline stages, as evenly as they divide, and which stage has most of something."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

from roofline.num import Num, ceil_div, exact_div, maximum, where


class Share(NamedTuple):
    """What one stage has: so many layers, and 1 or 0 of what stands before them and after them."""

    layers: Num
    before: Num
    after: Num


@dataclass(frozen=True)
class Stages:
    """`pp` stages of `layers`: of some one layer more than of the others, where they do not divide.

    The ends of the model stand on stages with fewer layers, as Llama 3 405B's 126 layers over 16 stages do (Llama Team
    2024, section 3.3.2). Layers count as alike. A model without layers is one stage.
    """

    layers: int
    pp: Num = 1

    @cached_property
    def most(self) -> Num:
        """Layers of the largest stage."""
        return ceil_div(max(self.layers, 1), self.pp)

    @cached_property
    def fewest(self) -> Num:
        """Layers of the smallest stage."""
        return max(self.layers, 1) // self.pp

    @cached_property
    def short(self) -> Num:
        """How many stages have one layer less than the largest."""
        return self.pp * self.most - max(self.layers, 1)

    def largest(self, total: Num) -> Num:
        """The largest stage's part of what all layers have together."""
        return self.part(total, self.most)

    def part(self, total: Num, layers: Num) -> Num:
        """So many layers' part of what all layers have together."""
        return exact_div(total * layers, max(self.layers, 1))

    def fullest(self, layers: Num, before: Num, after: Num) -> Num:
        """What the stage that has most of it has, of what all layers have together and the two ends."""
        share = self.slowest(layers, before, after)
        return self.part(layers, share.layers) + before * share.before + after * share.after

    def slowest(self, layers: Num, before: Num, after: Num) -> Share:
        """The stage that has most, where all layers together and the two ends have so much.

        The last stage is the first to have a layer less, the first stage the second.
        """
        few, many = self.fewest, self.most
        beside = where(self.short > 1, few, many)
        last, first = self.part(layers, few) + after, self.part(layers, beside) + before
        between = self.part(layers, many)
        at_last = where(last >= maximum(first, between), 1, 0)
        at_first = (1 - at_last) * where(first >= between, 1, 0)
        count = where(at_last > 0, few, where(at_first > 0, beside, many))
        piped = Share(count, at_first, at_last)
        return Share(*(where(self.pp > 1, own, whole) for own, whole in zip(piped, (many, 1, 1), strict=True)))

    @property
    def counts(self) -> tuple[int, ...]:
        """Layers of each stage, the first first; of single numbers."""
        pp, most, short = (int(cast(int, each)) for each in (self.pp, self.most, self.short))
        order = sorted(range(pp), key=lambda each: min(pp - 1 - each, each + 0.5))  # the last, the first, the next
        fewer = set(order[:short])
        return tuple(most - (each in fewer) for each in range(pp))

    @property
    def words(self) -> str:
        """`16 stages: 14 of 8 layers, 2 of 7`; of single numbers."""
        pp, most, short = (int(cast(int, each)) for each in (self.pp, self.most, self.short))
        if not short:
            return f"{pp} stages of {most} layers"
        return f"{pp} stages: {pp - short} of {most} layers, {short} of {most - 1}"


def too_many(layers: int, pp: int, chunks: int) -> bool:
    """Whether there are more stages than layers, or more chunks than layers and the two ends of the model."""
    return pp > max(layers, 1) or (pp * chunks > 1 and (layers == 0 or pp * chunks > layers + 2))
