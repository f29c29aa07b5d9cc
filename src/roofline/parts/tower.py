"""A vision tower: patches of images through layers of their own, and into the width of the text model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from roofline import ops
from roofline.parts.base import Kernel, Part, Pass, Stateless, Weight
from roofline.shard import Axis

LABEL = "vision"


class Stage(NamedTuple):
    """Parts with how often each comes, over `rows` rows for each token that the text model sees of an image."""

    rows: int
    parts: tuple[tuple[int, Part], ...]


@dataclass(frozen=True, slots=True)
class Tower:
    """The stages of a tower in the order of a pass; `apart`: the causal language model of the family is without it."""

    stages: tuple[Stage, ...]
    apart: bool = False

    @property
    def repeats(self) -> tuple[tuple[int, Part], ...]:
        """Every part with how often it comes."""
        return tuple(each for stage in self.stages for each in stage.parts)

    @property
    def parameters(self) -> int:
        """Numbers stored."""
        return sum(times * each.parameters for times, part in self.repeats for each in part.weights())

    def kernels(self, run: Pass) -> Iterable[tuple[int, Kernel]]:
        """The kernels over the images of a pass, each with its calls; every rank has the whole tower."""
        for stage in self.stages:
            inside = run.over_images(stage.rows)
            for times, part in stage.parts:
                for kernel in part.kernels(inside):
                    yield times, Kernel(f"{LABEL}_{kernel.name}", LABEL, kernel.work)


@dataclass(frozen=True, slots=True)
class Scale(Stateless):
    """A stored vector that scales the rows, as LayerScale; `added`: no row goes through it, as a class token's own."""

    name: str
    width: Axis
    added: bool = False
    label: str = LABEL

    def weights(self) -> tuple[Weight, ...]:
        """The vector."""
        return (Weight(self.name, self.width, kind="vector"),)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """One pass over the rows; none for a row that is added."""
        if self.added:
            return ()
        work = ops.elementwise(
            n=run.tokens * self.width.elements, reads=1, writes=1, flops=1, activations=run.activations
        )
        return (Kernel(self.name, self.label, work),)
