"""A layer whose mixer is a short convolution between two gates, as LFM2 has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline import ops, recurrence
from roofline.dtypes import DType, dtype
from roofline.num import Num
from roofline.parts.attention import named
from roofline.parts.base import Kernel, Pass, Weight
from roofline.parts.recurrent import SORT
from roofline.shard import Axis, Shard


@dataclass(frozen=True, slots=True)
class ShortConv:
    """out(C · conv(B · x)), where one matrix makes B, C and x; a sequence keeps the last `kernel` - 1 columns."""

    hidden: Axis
    channels: Axis
    kernel: int
    bias: bool = False
    kept: str = "bf16"
    label: str = "recurrent"

    @property
    def sort(self) -> str:
        """What it sees, in words."""
        return SORT

    def projections(self) -> tuple[Weight, ...]:
        """The matrix that makes the gates and what goes through them."""
        return tuple(Weight(f"in_proj_{name}", self.channels, self.hidden, self.bias) for name in ("B", "C", "x"))

    def output(self) -> Weight:
        """The matrix back to the residual stream."""
        return Weight("out_proj", self.hidden, self.channels, self.bias)

    def weights(self) -> tuple[Weight, ...]:
        """The projections and the convolution."""
        each = Axis(self.channels.name, self.channels.size, self.kernel)
        conv = [Weight("conv1d", each, kind="vector")]
        if self.bias:
            conv.append(Weight("conv1d_bias", self.channels, kind="vector"))
        return (*self.projections(), *conv, self.output())

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """Projection, gate, convolution for each group of rows, gate, output projection."""
        local = run.shard.elements(self.channels)
        gate = ops.activation(m=run.tokens, width=local, gates=1, activations=run.activations)
        rows = run.gemm("in_proj", self.label, run.tokens, self.projections())
        rows.append(Kernel("conv_gate_in", self.label, gate))
        for group in run.groups:
            work = recurrence.short_conv(
                sequences=group.sequences,
                new=group.new,
                context=group.context,
                channels=local,
                kernel=self.kernel,
                biases=local if self.bias else 0,
                weights=run.vectors,
                bias=run.vectors,
                activations=run.activations,
                state=self.kept,
            )
            rows.append(Kernel(named(run, "short_conv", group.phase), self.label, work))
        rows.append(Kernel("conv_gate_out", self.label, gate))
        return [*rows, *run.gemm("out_proj", self.label, run.tokens, (self.output(),))]

    def cache_bytes(self, held: Num, kv: DType, shard: Shard) -> Num:
        """The columns that the convolution needs again, whatever the positions held."""
        return dtype(self.kept).of((self.kernel - 1) * shard.elements(self.channels))
