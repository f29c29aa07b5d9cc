"""Attention with a KV cache: multi-head, grouped-query, multi-query; full, windowed or in chunks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from roofline import ops
from roofline.dtypes import DType
from roofline.num import Num, minimum
from roofline.parts.base import Kernel, Pass, Weight
from roofline.shard import Axis, Shard


def named(run: Pass, name: str, phase: str) -> str:
    """The name of a kernel over one group of rows, told apart where there are more."""
    return name if len(run.groups) == 1 else f"{name}_{phase}"


def attend(
    run: Pass,
    label: str,
    heads: Axis,
    kv_heads: Axis,
    limits: Limits | None = None,
    **options: Any,
) -> list[Kernel]:
    """The attention kernel of each group of rows, with more `options` of the operation.

    Decode and prefill rows do not share one.
    """
    rows: list[Kernel] = []
    limits = limits or Limits()
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
            window=limits.window,
            chunk=limits.chunk,
            vectors=run.vectors,
            **options,
        )
        rows.append(Kernel(f"{named(run, 'attention', group.phase)}{limits.suffix}", label, work))
    return rows


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a query sees: the last `window` positions, or its own `chunk` of them; everything where both are None."""

    window: int | None = None
    chunk: int | None = None

    @property
    def suffix(self) -> str:
        """What sets the kernel's name apart from full attention's."""
        return "_sliding" if self.window is not None else "_chunked" if self.chunk is not None else ""

    @property
    def sort(self) -> str:
        """The same in words."""
        if self.window is not None:
            return f"last {self.window:,} tokens"
        return "all tokens" if self.chunk is None else f"own chunk of {self.chunk:,} tokens"

    def kept(self, held: Num) -> Num:
        """Positions that stay in the cache of a sequence of `held`."""
        most = self.window if self.window is not None else self.chunk
        return held if most is None else minimum(held, most)


@dataclass(frozen=True, slots=True)
class HeadNorm:
    """A norm of q and k: over each head or (`whole`) over all of them, with one scale for each element it spans.

    `vectors`: 1 scale, 2 scale and bias, 0 neither. `whole` also stands for a scale of its own for each head, which
    are as many numbers.
    """

    whole: bool = False
    vectors: int = 1


@dataclass(frozen=True, slots=True)
class Attention:
    """softmax(q·Kᵀ)·V between a QKV and an output projection.

    `heads` and `kv_heads` are axes of head_dim elements a head, `value_dim` of V where that differs; `k_bias` False:
    where q and v have biases, k has none; `rotary_dim` elements of each head are rotated (0: no rotary embedding).
    `gate` multiplies the output: "element" by as many numbers, "head" by one a head. `sinks`: a learned logit a head.
    `tied_values`: V is the product of K's matrix. `inner_norm`: a norm before the output projection. `shares_cache`: K
    and V are those of an earlier layer. Not `causal`: every row sees every other, and nothing is cached. `relative`
    buckets of learned shifts a head that scores get by distance. `out`: the width that it gives where that is not the
    width that it reads.
    """

    hidden: Axis
    heads: Axis
    kv_heads: Axis
    rotary_dim: int = 0
    qkv_bias: bool = False
    out_bias: bool = False
    head_norm: HeadNorm | None = None
    limits: Limits = Limits()
    value_dim: int | None = None
    gate: str = ""
    gate_bias: bool = False
    k_bias: bool = True
    sinks: bool = False
    tied_values: bool = False
    inner_norm: bool = False
    shares_cache: bool = False
    causal: bool = True
    relative: int = 0
    out: Axis | None = None
    label: str = "attention"

    @property
    def sort(self) -> str | None:
        """What it sees, in words; None where nothing is cached."""
        return self.limits.sort if self.causal else None

    def projections(self) -> tuple[Weight, ...]:
        """The matrices of the QKV GEMM, that of a gate among them."""
        found = [Weight("q_proj", self.heads, self.hidden, self.qkv_bias)]
        if not self.shares_cache:
            found.append(Weight("k_proj", self.kv_heads, self.hidden, self.qkv_bias and self.k_bias))
            if not self.tied_values:
                found.append(Weight("v_proj", self._values(self.kv_heads), self.hidden, self.qkv_bias))
        if self.gate:
            out = self._values(self.heads) if self.gate == "element" else Axis("heads", self.heads.size)
            found.append(Weight("gate_proj", out, self.hidden, self.gate_bias))
        return tuple(found)

    def _values(self, heads: Axis) -> Axis:
        """The same heads as wide as V."""
        return heads if self.value_dim is None else Axis(heads.name, heads.size, self.value_dim, heads.uneven)

    def output(self) -> Weight:
        """The matrix back to the residual stream."""
        return Weight("o_proj", self.out or self.hidden, self._values(self.heads), self.out_bias)

    def norms(self) -> tuple[Weight, ...]:
        """The parameters of the norm of q and k."""
        if self.head_norm is None:
            return ()
        head = Axis("head_dim", self.heads.unit)
        q, k = (self.heads, self.kv_heads) if self.head_norm.whole else (head, head)
        spans = (("q_norm", q),) if self.shares_cache else (("q_norm", q), ("k_norm", k))
        return tuple(
            Weight(f"{name}{part}", axis, kind="vector")
            for name, axis in spans
            for part in ("", "_bias")[: self.head_norm.vectors]
        )

    def weights(self) -> tuple[Weight, ...]:
        """Q, K, V and output projections, the parameters of the QK norm, sinks."""
        learned = (("sinks", int(self.sinks)), ("relative_shifts", self.relative))
        vectors = (Weight(name, Axis("heads", self.heads.size, n), kind="vector") for name, n in learned if n)
        inner = (Weight("attention_inner_norm", self._values(self.heads), kind="vector"),) if self.inner_norm else ()
        return (*self.projections(), self.output(), *self.norms(), *vectors, *inner)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """QKV projection, QK norm with RoPE, attention for each group of rows, output projection."""
        rows = run.gemm("qkv_proj", self.label, run.tokens, self.projections())
        heads = run.shard.units(self.heads)
        normed = self.head_norm is not None
        if self.rotary_dim or normed:
            work = ops.rope(
                m=run.tokens,
                heads=heads,
                kv_heads=0 if self.shares_cache else run.shard.units(self.kv_heads),
                head_dim=self.heads.unit,
                rotary_dim=self.rotary_dim,
                normed=int(normed),
                scales=sum(run.shard.elements(each.out) for each in self.norms()),
                activations=run.activations,
                weights=run.vectors,
            )
            rows.append(Kernel("qk_norm_rope" if normed else "rope", self.label, work))
        options = {
            "value_dim": self.value_dim,
            "appended": not self.shares_cache,
            "sinks": heads * (int(self.sinks) + self.relative) or None,
            **({} if self.causal else {"causal": False, "role": "activations"}),
        }
        rows += attend(run, self.label, self.heads, self.kv_heads, self.limits, **options)
        if self.gate:
            width = run.shard.elements(self.output().inp or self.heads)
            gate = ops.activation(m=run.tokens, width=width, gates=1, activations=run.activations)
            rows.append(Kernel("attention_gate", self.label, gate))
        if self.inner_norm:
            width = run.shard.elements(self.output().inp or self.heads)
            norm = ops.norm(m=run.tokens, width=width, activations=run.activations, weights=run.vectors)
            rows.append(Kernel("attention_inner_norm", self.label, norm))
        return [*rows, *run.gemm("o_proj", self.label, run.tokens, (self.output(),))]

    def cache_bytes(self, held: Num, kv: DType, shard: Shard) -> Num:
        """K and V of every position kept: all of them, or those inside the window or chunk."""
        if self.shares_cache or not self.causal:
            return 0
        rows = shard.units(self.kv_heads) * self.limits.kept(held)
        if self.value_dim is None:
            return kv.matrix(2 * rows, self.kv_heads.unit)
        return kv.matrix(rows, self.kv_heads.unit) + kv.matrix(rows, self.value_dim)


@dataclass(frozen=True, slots=True)
class BareAttention:
    """Attention over the cache alone: no projections, no activations; beside `Bulk`, the hand calculation."""

    heads: Axis
    kv_heads: Axis
    label: str = "attention"

    @property
    def sort(self) -> str:
        """What it sees, in words."""
        return Limits().sort

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
