"""An encoder whose output a decoder attends to, and that attention: over positions of another sequence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from roofline import ops
from roofline.dtypes import DType
from roofline.num import Num
from roofline.parts.attention import named
from roofline.parts.base import Kernel, Part, Pass, Weight
from roofline.parts.tower import Stage
from roofline.shard import Axis, Shard

LABEL = "encoder"
CROSS = "cross_attention"


@dataclass(frozen=True, slots=True)
class Encoder:
    """The stages of an encoder in the order of a pass.

    `source` is how many positions of a sequence the decoder sees; `fixed`: always so many, however short the input,
    as of a sound of 30 seconds. `most` it was trained to, None where nothing says it.
    """

    stages: tuple[Stage, ...]
    source: Num = 1
    fixed: bool = False
    most: int | None = None

    @property
    def repeats(self) -> tuple[tuple[int, Part], ...]:
        """Every part with how often it comes."""
        return tuple(each for stage in self.stages for each in stage.parts)

    def reading(self, source: Num) -> Encoder:
        """The same encoder over sequences of so many positions."""
        return replace(self, source=source)

    def kernels(self, run: Pass) -> Iterable[tuple[int, Kernel]]:
        """The kernels over the sources of a pass's prefill rows, each with its calls; none where there are none."""
        for stage in self.stages:
            inside = run.over_source(stage.rows * self.source)
            if not inside.groups:
                return
            for times, part in stage.parts:
                for kernel in part.kernels(inside):
                    yield times, Kernel(f"{LABEL}_{kernel.name}", LABEL, kernel.work)


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """softmax(q·Kᵀ)·V where K and V are of what an encoder gives: made once, in prefill, and cached.

    `source` positions a sequence, `wide` elements each. `biases` of q, k, v and the output; `relative` buckets of
    learned shifts a head.
    """

    hidden: Axis
    heads: Axis
    kv_heads: Axis
    wide: Axis
    biases: tuple[bool, bool, bool, bool] = (False, False, False, False)
    source: Num = 1
    label: str = CROSS

    @property
    def sort(self) -> str:
        """What it sees, in words."""
        if not isinstance(self.source, int):
            return "a source"
        return f"a source of {self.source:,} position{'' if self.source == 1 else 's'}"

    def reading(self, source: Num) -> CrossAttention:
        """The same attention over sources of so many positions."""
        return replace(self, source=source)

    def weights(self) -> tuple[Weight, ...]:
        """Q, K, V and output projections."""
        q, k, v, out = self.biases
        return (
            Weight("q_proj", self.heads, self.hidden, q),
            Weight("k_proj", self.kv_heads, self.wide, k),
            Weight("v_proj", self.kv_heads, self.wide, v),
            Weight("o_proj", self.hidden, self.heads, out),
        )

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """Q projection, K and V of the sources of prefill rows, attention for each group of rows, output projection."""
        q, k, v, out = self.weights()
        rows = run.gemm("cross_q_proj", self.label, run.tokens, (q,))
        sources = run.over_source(self.source)
        if sources.groups:
            rows += run.gemm("cross_kv_proj", self.label, sources.tokens, (k, v))
        for group in run.groups:
            work = ops.attention(
                sequences=group.sequences,
                new=group.new,
                context=group.behind,
                heads=run.shard.units(self.heads),
                kv_heads=run.shard.units(self.kv_heads),
                head_dim=self.heads.unit,
                kv=run.kv,
                activations=run.activations,
                compute=run.precision.compute,
                source=self.source,
            )
            rows.append(Kernel(named(run, CROSS, group.phase), self.label, work))
        return [*rows, *run.gemm("cross_o_proj", self.label, run.tokens, (out,))]

    def cache_bytes(self, held: Num, kv: DType, shard: Shard) -> Num:
        """K and V of every position of the source, whatever the positions held."""
        return kv.matrix(2 * shard.units(self.kv_heads) * self.source, self.kv_heads.unit)
