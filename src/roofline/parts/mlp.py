"""The feed-forward block: gated (SwiGLU, GeGLU: three matrices) or plain (two)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline import ops
from roofline.parts.base import Kernel, Pass, Stateless, Weight
from roofline.shard import Axis


@dataclass(frozen=True, slots=True)
class Mlp(Stateless):
    """down(act(gate(x)) · up(x)), or down(act(up(x))) where it is not `gated`."""

    hidden: Axis
    intermediate: Axis
    gated: bool = True
    bias: bool = False
    label: str = "mlp"

    def weights(self) -> tuple[Weight, ...]:
        """Gate and up projection (or up alone), down projection."""
        names = ("gate_proj", "up_proj") if self.gated else ("up_proj",)
        up = tuple(Weight(name, self.intermediate, self.hidden, self.bias) for name in names)
        return (*up, Weight("down_proj", self.hidden, self.intermediate, self.bias))

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """A GEMM for each matrix, and the activation before the last."""
        *up, down = self.weights()
        rows: list[Kernel] = []
        for each in up:
            rows += run.gemm(each.name, self.label, run.tokens, (each,))
        work = ops.activation(
            m=run.tokens,
            width=run.shard.elements(self.intermediate),
            gates=int(self.gated),
            activations=run.activations,
        )
        rows.append(Kernel("act_mul" if self.gated else "act", self.label, work))
        rows += run.gemm(down.name, self.label, run.tokens, (down,))
        return rows
