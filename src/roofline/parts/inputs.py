"""Inputs of each layer's own: a narrow vector a token and layer, looked up and projected before the layers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline import ops
from roofline.parts.base import Kernel, Pass, Stateless, Weight
from roofline.shard import Axis


@dataclass(frozen=True, slots=True)
class LayerInputs(Stateless):
    """Rows of a table of `rows` and a product of the embedding, `width` for each of `layers`, normed and added."""

    hidden: Axis
    rows: int
    layers: int
    width: int
    label: str = "layer_inputs"

    @property
    def _all(self) -> Axis:
        return Axis("layer_inputs", self.layers, self.width)

    def _projection(self) -> Weight:
        return Weight("layer_inputs_proj", self._all, self.hidden)

    def weights(self) -> tuple[Weight, ...]:
        """The table, the projection of the embedding, the norm of what it gives."""
        table = Weight("layer_inputs_table", Axis("rows", self.rows), self._all, kind="positions")
        return (table, self._projection(), Weight("layer_inputs_norm", Axis("layer_inputs", self.width), kind="vector"))

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """A look-up, a GEMM, and a norm whose result the look-up is added to."""
        found = ops.embedding(
            m=run.tokens,
            width=self._all.elements,
            rows=self.rows,
            weights=run.weights,
            activations=run.activations,
        )
        norm = ops.norm(
            m=run.tokens * self.layers,
            width=self.width,
            after=1,
            activations=run.activations,
            weights=run.vectors,
        )
        product = run.gemm("layer_inputs_proj", self.label, run.tokens, (self._projection(),))
        return [
            Kernel("layer_inputs_embedding", self.label, found),
            *product,
            Kernel("layer_inputs_norm", self.label, norm),
        ]


@dataclass(frozen=True, slots=True)
class LayerInput(Stateless):
    """What one layer does with its input: a gate of the stream times the input, and a projection back."""

    hidden: Axis
    width: int
    label: str = "layer_inputs"

    def weights(self) -> tuple[Weight, Weight]:
        """The gate and the projection."""
        narrow = Axis("layer_inputs", self.width)
        return Weight("layer_input_gate", narrow, self.hidden), Weight("layer_input_proj", self.hidden, narrow)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """Two GEMMs with the activation times the input between them."""
        gate, back = self.weights()
        act = ops.activation(m=run.tokens, width=self.width, gates=1, activations=run.activations)
        rows = run.gemm(gate.name, self.label, run.tokens, (gate,))
        rows.append(Kernel("layer_input_act", self.label, act))
        return [*rows, *run.gemm(back.name, self.label, run.tokens, (back,))]
