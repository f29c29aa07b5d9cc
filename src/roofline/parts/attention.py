"""Attention with a KV cache: multi-head, grouped-query, multi-query; full or sliding window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline import ops
from roofline.dtypes import DType
from roofline.num import Num, minimum
from roofline.parts.base import Kernel, Pass, Weight
from roofline.shard import Axis, Shard


def attend(run: Pass, label: str, heads: Axis, kv_heads: Axis, window: int | None = None) -> list[Kernel]:
    """The attention kernel of each group of rows: decode and prefill rows do not share one."""
    rows: list[Kernel] = []
    for group in run.groups:
        work = ops.attention(
            sequences=group.sequences,
            new=group.new,
            context=group.behind,
            heads=run.shard.units(heads),
            kv_heads=run.shard.units(kv_heads),
            head_dim=heads.unit,
            kv=run.kv,
            activations=run.activations,
            compute=run.precision.compute,
            window=window,
        )
        phase = "" if len(run.groups) == 1 else f"_{group.phase}"
        name = f"attention{phase}" if window is None else f"attention{phase}_sliding"
        rows.append(Kernel(name, label, work))
    return rows


@dataclass(frozen=True, slots=True)
class Attention:
    """softmax(q·Kᵀ)·V between a QKV and an output projection.

    `heads` and `kv_heads` are axes of head_dim elements a head; `rotary_dim` elements of each head are
    rotated (0: no rotary embedding); `qk_norm` normalises each head of q and k; `window` [tokens] caps
    what a query sees.
    """

    hidden: Axis
    heads: Axis
    kv_heads: Axis
    rotary_dim: int = 0
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False
    window: int | None = None
    label: str = "attention"

    def projections(self) -> tuple[Weight, Weight, Weight]:
        """The three matrices of the QKV GEMM."""
        return (
            Weight("q_proj", self.heads, self.hidden, self.qkv_bias),
            Weight("k_proj", self.kv_heads, self.hidden, self.qkv_bias),
            Weight("v_proj", self.kv_heads, self.hidden, self.qkv_bias),
        )

    def output(self) -> Weight:
        """The matrix back to the residual stream."""
        return Weight("o_proj", self.hidden, self.heads, self.out_bias)

    def weights(self) -> tuple[Weight, ...]:
        """Q, K, V and output projections, and the scales of the QK norm."""
        head = Axis("head_dim", self.heads.unit)
        norms = (Weight("q_norm", head, kind="vector"), Weight("k_norm", head, kind="vector"))
        return (*self.projections(), self.output(), *(norms if self.qk_norm else ()))

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """QKV projection, QK norm with RoPE, attention for each group of rows, output projection."""
        rows = run.gemm("qkv_proj", self.label, run.tokens, self.projections())
        heads, kv_heads = run.shard.units(self.heads), run.shard.units(self.kv_heads)
        if self.rotary_dim or self.qk_norm:
            work = ops.rope(
                m=run.tokens,
                heads=heads,
                kv_heads=kv_heads,
                head_dim=self.heads.unit,
                rotary_dim=self.rotary_dim,
                normed=int(self.qk_norm),
                activations=run.activations,
                weights=run.vectors,
            )
            rows.append(Kernel("qk_norm_rope" if self.qk_norm else "rope", self.label, work))
        rows += attend(run, self.label, self.heads, self.kv_heads, self.window)
        rows += run.gemm("o_proj", self.label, run.tokens, (self.output(),))
        return rows

    def cache_bytes(self, held: Num, kv: DType, shard: Shard) -> Num:
        """K and V of every position kept: all of them, or those inside the window."""
        kept = held if self.window is None else minimum(held, self.window)
        return kv.matrix(2 * shard.units(self.kv_heads) * kept, self.kv_heads.unit)


@dataclass(frozen=True, slots=True)
class BareAttention:
    """Attention over the cache alone: no projections, no activations; beside `Bulk`, the hand calculation."""

    heads: Axis
    kv_heads: Axis
    label: str = "attention"

    def weights(self) -> tuple[Weight, ...]:
        """None: the projections are in the bulk."""
        return ()

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """One kernel for each group of rows: its cache read and its arithmetic."""
        rows = attend(run, self.label, self.heads, self.kv_heads)
        return [Kernel(each.name, each.part, each.work.keep("kv")) for each in rows]

    def cache_bytes(self, held: Num, kv: DType, shard: Shard) -> Num:
        """K and V of every position."""
        return kv.matrix(2 * shard.units(self.kv_heads) * held, self.kv_heads.unit)
