"""A part that a pass of text alone does not go through, as attention to images that are not there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline.parts.base import Kernel, Part, Pass, Stateless, Weight


@dataclass(frozen=True, slots=True)
class Skipped(Stateless):
    """`part` with its weights, and neither kernels nor a cache."""

    part: Part

    @property
    def label(self) -> str:
        """That of the part."""
        return self.part.label

    def weights(self) -> tuple[Weight, ...]:
        """Those of the part."""
        return self.part.weights()

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """None."""
        return ()
