"""The feed-forward block of RWKV: squared ReLU over a token mixed with the one before it, gated or not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline import ops
from roofline.dtypes import DType, dtype
from roofline.num import Num
from roofline.parts.base import Kernel, Pass, Weight
from roofline.shard import Axis, Shard


@dataclass(frozen=True, slots=True)
class ChannelMix:
    """value(relu(key(mix(x)))²), times sigmoid(receptance(mix(x))) where it is `gated`; the last column is kept."""

    hidden: Axis
    intermediate: Axis
    mixes: tuple[str, ...]
    gated: bool
    kept: str = "bf16"
    label: str = "mlp"

    def _matrices(self) -> tuple[Weight, Weight]:
        hidden, wide = self.hidden, self.intermediate
        return Weight("mlp_key", wide, hidden), Weight("mlp_value", hidden, wide)

    def _gate(self) -> tuple[Weight, ...]:
        return (Weight("mlp_receptance", Axis("gate", self.hidden.size), self.hidden),) if self.gated else ()

    def weights(self) -> tuple[Weight, ...]:
        """The matrices and the vectors that a token is mixed by."""
        mixes = (Weight(f"mlp_{name}", self.hidden, kind="vector") for name in self.mixes)
        return (*self._matrices(), *self._gate(), *mixes)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """The mix, a GEMM for each matrix with the activation between them, and the gate."""
        key, value = self._matrices()
        width = self.hidden.elements
        mix = ops.norm(
            m=run.tokens,
            width=width,
            vectors=len(self.mixes),
            activations=run.activations,
            weights=run.vectors,
        )
        rows = [Kernel("mlp_shift", self.label, mix), *run.gemm(key.name, self.label, run.tokens, (key,))]
        local = run.shard.elements(self.intermediate)
        act = ops.activation(m=run.tokens, width=local, gates=0, activations=run.activations)
        rows.append(Kernel("mlp_act", self.label, act))
        rows += run.gemm(value.name, self.label, run.tokens, (value,))
        for each in self._gate():
            rows += run.gemm(each.name, self.label, run.tokens, (each,))
            gate = ops.activation(m=run.tokens, width=width, gates=1, activations=run.activations)
            rows.append(Kernel("mlp_gate", self.label, gate))
        return rows

    def cache_bytes(self, held: Num, kv: DType, shard: Shard) -> Num:
        """The token before, which the next one is mixed with."""
        return dtype(self.kept).of(self.hidden.elements)
