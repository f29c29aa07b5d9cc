"""The feed-forward block: gated (SwiGLU, GeGLU: three matrices) or plain (two)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline import ops
from roofline.parts.base import Kernel, Pass, Stateless, Weight
from roofline.shard import Axis


@dataclass(frozen=True, slots=True)
class Mlp(Stateless):
    """down(act(gate(x)) · up(x)), or down(act(up(x))) where it is not `gated`.

    `act_vectors` is how many numbers a learned activation has; they are stored, their bytes moved are not counted.
    `inner_norm`: a norm with a scale before the last matrix.
    """

    hidden: Axis
    intermediate: Axis
    gated: bool = True
    bias: bool = False
    act_vectors: int = 0
    inner_norm: bool = False
    label: str = "mlp"

    def weights(self) -> tuple[Weight, ...]:
        """Gate and up projection (or up alone), down projection, what a learned activation has."""
        names = ("gate_proj", "up_proj") if self.gated else ("up_proj",)
        up = tuple(Weight(name, self.intermediate, self.hidden, self.bias) for name in names)
        learned = (Weight("act", Axis("act", self.act_vectors), kind="vector"),) if self.act_vectors else ()
        inner = (Weight("mlp_inner_norm", self.intermediate, kind="vector"),) if self.inner_norm else ()
        return (*up, Weight("down_proj", self.hidden, self.intermediate, self.bias), *learned, *inner)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """A GEMM for each matrix, and the activation before the last."""
        *up, down = (each for each in self.weights() if each.inp is not None)
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
        if self.inner_norm:
            local = run.shard.elements(self.intermediate)
            norm = ops.norm(m=run.tokens, width=local, activations=run.activations, weights=run.vectors)
            rows.append(Kernel("mlp_inner_norm", self.label, norm))
        rows += run.gemm(down.name, self.label, run.tokens, (down,))
        return rows
