"""What stands around the layers: embedding, norms, the output head, and weights without a shape."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from roofline import ops
from roofline.parts.base import Kernel, Pass, Stateless, Weight
from roofline.shard import Axis


@dataclass(frozen=True, slots=True)
class Embedding(Stateless):
    """Token embedding, with `positions` learned ones where there are any: rows looked up, not streamed."""

    vocab: Axis
    width: Axis
    positions: int = 0
    label: str = "embedding"

    def weights(self) -> tuple[Weight, ...]:
        """The table of tokens, and that of positions."""
        tokens = Weight("embed_tokens", self.vocab, self.width, kind="table")
        if not self.positions:
            return (tokens,)
        return (tokens, Weight("embed_positions", Axis("positions", self.positions), self.width, kind="positions"))

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """One look-up of the rows of the pass."""
        work = ops.embedding(
            m=run.tokens,
            width=self.width.elements,
            rows=self.vocab.elements,
            positions=self.positions,
            ranks=run.shard.ranks(self.vocab),
            weights=run.format(self.label, self.weights()[0]),
            activations=run.activations,
        )
        return (
            Kernel("embedding", self.label, work),
            *run.reduced(self.vocab, self.label, run.tokens, self.width.elements),
        )


@dataclass(frozen=True, slots=True)
class Positions(Stateless):
    """Learned positions added to the stream by themselves, where a projection stands before them."""

    rows: int
    width: Axis
    label: str = "embedding"

    def weights(self) -> tuple[Weight, ...]:
        """The table of positions."""
        return (Weight("embed_positions", Axis("positions", self.rows), self.width, kind="positions"),)

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
        return (Kernel("embed_positions", self.label, work),)


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

    `tied` to the embedding: the matrix is stored there, and streamed here all the same.
    """

    vocab: Axis
    width: Axis
    tied: bool
    bias: bool = False
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
        rows = run.gemm("lm_head", self.label, run.logits, (self.matrix(),), output="output")
        return (*rows, *run.gathered(self.vocab, self.label, run.logits))


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
