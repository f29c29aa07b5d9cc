"""Recurrent layers: a state of fixed size a sequence instead of a cache of positions (Mamba, gated delta networks)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline import ops, recurrence
from roofline.dtypes import DType, dtype
from roofline.num import Num
from roofline.parts.attention import named
from roofline.parts.base import Kernel, Pass, Weight
from roofline.shard import Axis, Shard

SORT = "one state, whatever the tokens"


@dataclass(frozen=True, slots=True)
class Recurrent:
    """out(norm(scan(conv(in(x)))) · act(z)).

    `heads` of value_dim and `groups` of key_dim elements make the state [key_dim, value_dim] of each head. `inputs`
    are the GEMMs over the stream, `channels` those of their outputs that a convolution of `kernel` tokens goes over,
    `inner` the GEMMs behind it. `vectors` are parameters that the scan reads; `norm` the span of the norm's scale
    (None: no norm). `chunk` tokens are scanned at once (None: one after another), `delta` with the delta rule.
    `gates` numbers a token and head beside q, k and v. `shifted` more columns of the stream are kept, as where a token
    is mixed with the one before it. No `channels`: no convolution. The state is kept in `state`, the last columns
    before the convolution in `kept`.
    """

    hidden: Axis
    heads: Axis
    groups: Axis
    inputs: tuple[tuple[str, tuple[Weight, ...]], ...]
    channels: tuple[Axis, ...]
    kernel: int
    out: Weight
    conv_bias: bool = False
    inner: tuple[tuple[str, tuple[Weight, ...]], ...] = ()
    vectors: tuple[Weight, ...] = ()
    norm: Axis | None = None
    gated: bool = True
    chunk: int | None = None
    delta: bool = False
    gates: int = 1
    state: str = "fp32"
    kept: str = "bf16"
    shifted: int = 0
    label: str = "recurrent"

    @property
    def sort(self) -> str:
        """What it sees, in words."""
        return SORT

    def _conv(self) -> tuple[Weight, ...]:
        names = ("conv1d", "conv1d_bias")[: 1 + self.conv_bias]
        spans = (self.kernel, 1)
        return tuple(
            Weight(name, Axis(axis.name, axis.size, axis.unit * span, axis.uneven), kind="vector")
            for name, span in zip(names, spans, strict=False)
            for axis in self.channels
        )

    def weights(self) -> tuple[Weight, ...]:
        """The projections, the convolution, the scan's vectors, the norm, the output projection."""
        products = (each for _, several in (*self.inputs, *self.inner) for each in several)
        norm = (Weight("recurrent_norm", self.norm, kind="vector"),) if self.norm else ()
        return (*products, *self._conv(), *self.vectors, *norm, self.out)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """Projections, convolution and scan for each group of rows, gated norm, output projection."""
        rows: list[Kernel] = []
        for name, weights in self.inputs:
            rows += run.gemm(name, self.label, run.tokens, weights)
        rows += self._convolved(run)
        for name, weights in self.inner:
            rows += run.gemm(name, self.label, run.tokens, weights)
        rows += self._scanned(run)
        rows += self._normed(run)
        return [*rows, *run.gemm(self.out.name, self.label, run.tokens, (self.out,))]

    def _convolved(self, run: Pass) -> list[Kernel]:
        channels = sum(run.shard.elements(axis) for axis in self.channels)
        if not channels:
            return []
        return [
            Kernel(
                named(run, "short_conv", group.phase),
                self.label,
                recurrence.short_conv(
                    sequences=group.sequences,
                    new=group.new,
                    context=group.context,
                    channels=channels,
                    kernel=self.kernel,
                    biases=channels if self.conv_bias else 0,
                    weights=run.vectors,
                    bias=run.vectors,
                    activations=run.activations,
                    state=self.kept,
                ),
            )
            for group in run.groups
        ]

    def _scanned(self, run: Pass) -> list[Kernel]:
        return [
            Kernel(
                named(run, "scan", group.phase),
                self.label,
                recurrence.scan(
                    sequences=group.sequences,
                    new=group.new,
                    context=group.context,
                    heads=run.shard.units(self.heads),
                    groups=run.shard.units(self.groups),
                    key_dim=self.groups.unit,
                    value_dim=self.heads.unit,
                    chunk=self.chunk,
                    delta=int(self.delta),
                    gates=self.gates,
                    scales=sum(run.shard.elements(each.out) for each in self.vectors),
                    state=self.state,
                    activations=run.activations,
                    compute=run.precision.compute,
                    vectors=run.vectors,
                ),
            )
            for group in run.groups
        ]

    def _normed(self, run: Pass) -> list[Kernel]:
        """The norm of what the scan gives, times the gate that was projected beside it."""
        local = run.shard.elements(self.heads)
        if self.norm is None:
            if not self.gated:
                return []
            work = ops.activation(m=run.tokens, width=local, gates=1, activations=run.activations)
            return [Kernel("recurrent_gate", self.label, work)]
        heads = run.shard.units(self.heads) if self.norm.elements == self.heads.unit else 1
        work = ops.norm(
            m=run.tokens * heads,
            width=local // heads,
            after=int(self.gated),
            activations=run.activations,
            weights=run.vectors,
        )
        return [Kernel("recurrent_norm", self.label, work)]

    def cache_bytes(self, held: Num, kv: DType, shard: Shard) -> Num:
        """The state and the columns that the convolution needs again, whatever the positions held."""
        state = dtype(self.state).of(shard.units(self.heads) * self.groups.unit * self.heads.unit)
        columns = sum(shard.elements(axis) for axis in self.channels) * (self.kernel - 1)
        return state + dtype(self.kept).of(columns + self.shifted * self.hidden.elements)
