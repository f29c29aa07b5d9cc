"""What stands around the layers: embedding, norms, the output head, and weights without a shape."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from roofline import ops
from roofline.num import maximum
from roofline.parts.base import Kernel, Pass, Stateless, Weight
from roofline.shard import Axis


@dataclass(frozen=True, slots=True)
class Embedding(Stateless):
    """Token embedding, with `positions` learned ones where there are any: rows looked up, not streamed.

    `shared`: the table of tokens is another's, and stored there.
    """

    vocab: Axis
    width: Axis
    positions: int = 0
    shared: bool = False
    label: str = "embedding"

    def weights(self) -> tuple[Weight, ...]:
        """The table of tokens, and that of positions."""
        tokens = () if self.shared else (self._table,)
        if not self.positions:
            return tokens
        return (*tokens, Weight("embed_positions", Axis("positions", self.positions), self.width, kind="positions"))

    @property
    def _table(self) -> Weight:
        """The table of tokens, here or with the other side."""
        return Weight("embed_tokens", self.vocab, self.width, kind="table")

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """One look-up of the rows of the pass."""
        work = ops.embedding(
            m=run.tokens,
            width=self.width.elements,
            rows=self.vocab.elements,
            positions=self.positions,
            ranks=run.shard.ranks(self.vocab),
            weights=run.format(self.label, self._table),
            activations=run.activations,
        )
        return (
            Kernel("embedding", self.label, work),
            *run.reduced(self.vocab, self.label, run.tokens, self.width.elements),
        )


@dataclass(frozen=True, slots=True)
class Positions(Stateless):
    """Learned positions, or kinds of tokens, added to the stream by themselves."""

    rows: int
    width: Axis
    label: str = "embedding"
    name: str = "embed_positions"

    def weights(self) -> tuple[Weight, ...]:
        """The table of positions."""
        return (Weight(self.name, Axis("positions", self.rows), self.width, kind="positions"),)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """One look-up, added to the stream."""
        work = ops.embedding(
            m=run.tokens,
            width=self.width.elements,
            rows=self.rows,
            added=1,
            weights=run.weights,
            activations=run.activations,
        )
        return (Kernel(self.name, self.label, work),)


@dataclass(frozen=True, slots=True)
class Norm(Stateless):
    """RMSNorm or LayerNorm, after adding `added` tensors to the residual stream; adds the stream `after` it."""

    name: str
    width: Axis
    added: int = 1
    vectors: int = 1
    after: int = 0
    label: str = "norm"

    def weights(self) -> tuple[Weight, ...]:
        """Scale, and bias where there is one."""
        return tuple(
            Weight(name, self.width, kind="vector") for name in (self.name, f"{self.name}_bias")[: self.vectors]
        )

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """One kernel over the rows of the pass."""
        work = ops.norm(
            m=run.tokens,
            width=self.width.elements,
            added=self.added,
            after=self.after,
            vectors=self.vectors,
            activations=run.activations,
            weights=run.vectors,
        )
        return (Kernel(self.name, self.label, work),)


@dataclass(frozen=True, slots=True)
class Projection(Stateless):
    """A matrix on the residual stream by itself, as between an embedding and wider layers."""

    name: str
    out: Axis
    inp: Axis
    bias: bool = False
    label: str = "projection"

    def weights(self) -> tuple[Weight, ...]:
        """The one matrix."""
        return (Weight(self.name, self.out, self.inp, self.bias),)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """One GEMM over the rows of the pass."""
        return run.gemm(self.name, self.label, run.tokens, self.weights())


@dataclass(frozen=True, slots=True)
class Head(Stateless):
    """The output head: a GEMM over the rows whose logits are wanted.

    `tied` to the embedding: the matrix is stored there, and streamed here all the same. `every` row has its logits,
    whatever the pass asks for, as where masked tokens are found.
    """

    vocab: Axis
    width: Axis
    tied: bool
    bias: bool = False
    every: bool = False
    label: str = "head"

    def matrix(self) -> Weight:
        """The matrix from the stream to the vocabulary."""
        return Weight("lm_head", self.vocab, self.width, self.bias)

    def weights(self) -> tuple[Weight, ...]:
        """What it stores beside the embedding."""
        if not self.tied:
            return (self.matrix(),)
        return (Weight("lm_head_bias", self.vocab, kind="vector"),) if self.bias else ()

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """One GEMM; over a split vocabulary an all-gather of the logits."""
        count = run.tokens if self.every else run.logits
        rows = run.gemm("lm_head", self.label, count, (self.matrix(),), output="output")
        return (*rows, *run.gathered(self.vocab, self.label, count))


@dataclass(frozen=True, slots=True)
class Pooled(Stateless):
    """A matrix on one row of each sequence, as of the first token, from which an encoder's answer is made."""

    name: str
    out: Axis
    inp: Axis
    bias: bool = True
    act: bool = False
    label: str = "head"

    def weights(self) -> tuple[Weight, ...]:
        """The one matrix."""
        return (Weight(self.name, self.out, self.inp, self.bias),)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """One GEMM over a row a sequence, and an activation behind it where there is one."""
        sequences = sum(group.sequences for group in run.groups)
        rows = run.gemm(self.name, self.label, sequences, self.weights(), output="output")
        if not self.act:
            return rows
        work = ops.activation(m=sequences, width=self.out.elements, gates=0, activations=run.activations)
        return [*rows, Kernel(f"{self.name}_act", self.label, work)]


@dataclass(frozen=True, slots=True)
class Patches(Stateless):
    """The matrix that makes rows out of patches of an image; `further` rows of each image are made of none."""

    name: str
    out: Axis
    inp: Axis
    bias: bool = True
    further: int = 0
    label: str = "embedding"

    def weights(self) -> tuple[Weight, ...]:
        """The one matrix."""
        return (Weight(self.name, self.out, self.inp, self.bias),)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """One GEMM over the patches."""
        rows = sum(group.sequences * maximum(group.new - self.further, 0) for group in run.groups)
        return run.gemm(self.name, self.label, rows, self.weights())


@dataclass(frozen=True, slots=True)
class Stored(Stateless):
    """A stored vector that a few rows are made of, as a class token's; its bytes moved are not counted."""

    name: str
    width: Axis
    label: str = "embedding"

    def weights(self) -> tuple[Weight, ...]:
        """The vector."""
        return (Weight(self.name, self.width, kind="vector"),)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """None."""
        return ()


@dataclass(frozen=True, slots=True)
class Activation(Stateless):
    """An activation by itself, as behind a projection or a convolution."""

    name: str
    width: Axis
    label: str = "projection"

    def weights(self) -> tuple[Weight, ...]:
        """None."""
        return ()

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """One kernel over the rows of the pass."""
        work = ops.activation(m=run.tokens, width=self.width.elements, gates=0, activations=run.activations)
        return (Kernel(self.name, self.label, work),)


@dataclass(frozen=True, slots=True)
class Conv(Stateless):
    """A convolution of `taps` over the rows of each sequence, `stride` rows of its input for each that it gives."""

    name: str
    out: Axis
    inp: Axis
    taps: int
    stride: int = 1
    bias: bool = True
    label: str = "projection"

    def weights(self) -> tuple[Weight, ...]:
        """A filter of every channel and tap for each channel that it gives."""
        return (Weight(self.name, self.out, Axis(self.inp.name, self.inp.size, self.taps), self.bias),)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """One convolution for each group of rows."""
        for group in run.groups:
            work = ops.conv(
                images=group.sequences,
                channels=self.inp.size,
                filters=self.out.elements,
                depth=self.inp.size,
                inputs=self.stride * group.new,
                outputs=group.new,
                taps=self.taps,
                biases=self.out.elements if self.bias else None,
                bias=run.vectors,
                weights=run.weights,
                activations=run.activations,
                compute=run.precision.compute,
            )
            yield Kernel(self.name, self.label, work)


@dataclass(frozen=True, slots=True)
class Bulk(Stateless):
    """A number of parameters without a shape: 2 FLOP each a token, streamed once a pass.

    Stored as a matrix whose columns are split over ranks like an MLP's width; of 128 rows where that divides,
    so that formats with blocks carry their scales.
    """

    parameters: int
    label: str = "weights"

    def weights(self) -> tuple[Weight, ...]:
        """One matrix of that many parameters."""
        rows = math.gcd(self.parameters, 128)
        return (Weight("weights", Axis("rows", rows), Axis("intermediate", self.parameters // rows)),)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """Every weight matrix in one, without its activations."""
        (whole,) = self.weights()
        assert whole.inp is not None
        n, k = run.shard.elements(whole.out), run.shard.elements(whole.inp)
        work = ops.linear(m=run.tokens, n=n, k=k, weights=run.weights, compute=run.precision.compute)
        return (Kernel("weights", self.label, work.keep("weights")),)
