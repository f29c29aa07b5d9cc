"""A learned query that attends to every row of a sequence, and an MLP behind it: one row that stands for them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline import ops
from roofline.num import Num
from roofline.parts.base import Kernel, Pass, Stateless, Weight
from roofline.shard import Axis


@dataclass(frozen=True, slots=True)
class Probe(Stateless):
    """x = attention(probe, rows); x + mlp(norm(x)), as SigLIP pools the patches of an image."""

    hidden: Axis
    heads: Axis
    intermediate: Axis
    label: str = "head"

    def weights(self) -> tuple[Weight, ...]:
        """The query, attention with its biases, the norm, the MLP."""
        hidden, wide = self.hidden, self.intermediate
        return (
            Weight("probe", hidden, kind="vector"),
            *(Weight(f"probe_{name}_proj", self.heads, hidden, True) for name in "qkv"),
            Weight("probe_o_proj", hidden, self.heads, True),
            *(Weight(name, hidden, kind="vector") for name in ("probe_norm", "probe_norm_bias")),
            Weight("probe_up_proj", wide, hidden, True),
            Weight("probe_down_proj", hidden, wide, True),
        )

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """K and V of every row; the query's own product, attention, norm and MLP over a row a sequence."""
        _, q, k, v, out, _, _, up, down = self.weights()
        sequences: Num = sum(group.sequences for group in run.groups)
        rows = run.gemm("probe_kv_proj", self.label, run.tokens, (k, v))
        rows += run.gemm("probe_q_proj", self.label, sequences, (q,))
        for group in run.groups:
            work = ops.attention(
                sequences=group.sequences,
                new=1,
                context=1,
                heads=run.shard.units(self.heads),
                kv_heads=run.shard.units(self.heads),
                head_dim=self.heads.unit,
                source=group.new,
                kv=run.activations,
                activations=run.activations,
                compute=run.precision.compute,
                role="activations",
            )
            rows.append(Kernel("probe_attention", self.label, work))
        rows += run.gemm("probe_o_proj", self.label, sequences, (out,))
        width, vector = self.hidden.elements, run.vectors
        norm = ops.norm(m=sequences, width=width, vectors=2, activations=run.activations, weights=vector)
        rows.append(Kernel("probe_norm", self.label, norm))
        rows += run.gemm("probe_up_proj", self.label, sequences, (up,))
        local = run.shard.elements(self.intermediate)
        act = ops.activation(m=sequences, width=local, gates=0, activations=run.activations)
        rows.append(Kernel("probe_act", self.label, act))
        return [*rows, *run.gemm("probe_down_proj", self.label, sequences, (down,))]
