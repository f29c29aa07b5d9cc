"""What every part is made of: declared weights, and a pass that turns them into kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from roofline import collectives, ops
from roofline.cost import Work
from roofline.dtypes import STORED, DType, dtype
from roofline.num import Num
from roofline.routing import Spread
from roofline.shard import Axis, Shard
from roofline.workload import Images, Precision, Rows, Workload

VECTORS = "vectors"  # what stands for every norm and bias of a layer among the formats that it is stored in


@dataclass(frozen=True, slots=True)
class Weight:
    """A stored parameter: a matrix y[out] = W[out, inp] x[inp] (+ b[out]), or a vector without `inp`.

    `kind` sets apart what is counted apart: "matrix", "vector", "table" (looked up), "positions". `experts` says
    that there is one for each routed expert, of which a token goes through `top_k`.
    """

    name: str
    out: Axis
    inp: Axis | None = None
    bias: bool = False
    kind: str = "matrix"
    experts: Axis | None = None
    top_k: int = 1

    @property
    def size(self) -> int:
        """Numbers stored in one copy of it, the bias included."""
        rows = self.out.elements
        return rows * (self.inp.elements if self.inp else 1) + (rows if self.bias else 0)

    @property
    def parameters(self) -> int:
        """Numbers stored, of every expert together."""
        return self.size if self.experts is None else self.size * self.experts.size

    @property
    def active(self) -> int:
        """Numbers that one token goes through."""
        return self.parameters if self.experts is None else self.size * self.top_k

    def bytes(
        self, precision: Precision, shard: Shard, stored: DType | None = None, vectors: DType | None = None
    ) -> Num:
        """Bytes that one rank stores [byte].

        In the format that it is `stored` in, and its bias in that of `vectors`, where the precision asks for that.
        """
        copies = 1 if self.experts is None else shard.units(self.experts)
        rows = shard.elements(self.out)
        asked = precision.weights == STORED
        vector = vectors if asked and vectors is not None else precision.vectors
        if self.inp is None:
            return copies * (stored if asked and stored is not None else vector).of(rows)
        form = stored if asked and stored is not None else dtype(precision.weights)
        matrix = form.matrix(rows, shard.elements(self.inp))
        return copies * (matrix + vector.of(rows) if self.bias else matrix)


class Kernel(NamedTuple):
    """One kernel of a pass: its name, the part of the network it belongs to, its work."""

    name: str
    part: str
    work: Work


class Pass:
    """One forward pass of one rank: the rows, the number formats and the split, as parts see them."""

    __slots__ = (
        *("activations", "groups", "images", "kv", "link", "logits", "precision", "shard", "spread"),
        *("stored", "tokens", "vectors", "weights"),
    )

    def __init__(self, workload: Workload, precision: Precision, shard: Shard, link: str = "link") -> None:
        self.groups: tuple[Rows, ...] = workload.groups
        self.tokens: Num = workload.tokens
        self.logits: Num = workload.logits
        self.spread: Spread = workload.spread
        self.images: Images | None = workload.images
        self.precision = precision
        self.shard = shard
        self.link = link
        self.stored: Mapping[str, DType] = {}
        self.weights: DType = dtype(precision.weights)
        self.activations: DType = dtype(precision.activations)
        self.kv: DType = dtype(precision.kv)
        self.vectors: DType = precision.vectors

    def storing(self, stored: Mapping[str, DType]) -> Pass:
        """The same pass over layers whose weights are stored so, where the precision asks for that."""
        if self.precision.weights != STORED or stored == self.stored:
            return self
        other = copy(self)
        other.stored = stored
        other.vectors = stored.get(VECTORS, self.precision.vectors)
        return other

    def format(self, part: str, weight: Weight) -> DType:
        """The format that a weight of a part is stored in."""
        return self.stored.get(f"{part}.{weight.name}", self.weights)

    def over_images(self, rows: int) -> Pass:
        """The same pass over its images alone, with so many rows for each of their tokens."""
        assert self.images is not None
        group = Rows("prefill", self.images.number, rows * self.images.tokens, 0, False)
        return Pass(Workload((group,)), self.precision, self.shard, self.link)

    def over_source(self, rows: Num) -> Pass:
        """The same pass over the sources of its prefill rows, each of so many rows; it may have none."""
        groups = tuple(
            Rows("prefill", each.sequences, rows, 0, False) for each in self.groups if each.phase == "prefill"
        )
        other = copy(self)
        other.groups, other.images = groups, None
        other.tokens = sum(each.tokens for each in groups)
        return other

    def gemm(
        self, name: str, part: str, rows: Num, weights: tuple[Weight, ...], output: str = "activations"
    ) -> list[Kernel]:
        """One GEMM of `rows` through matrices that share their input, and its all-reduce where that is split."""
        shard = self.shard
        inp = weights[0].inp
        assert inp is not None
        form = self.format(part, weights[0])
        if self.stored:
            other = tuple(each for each in weights if self.format(part, each) != form)
            if other:  # as many kernels as formats
                same = tuple(each for each in weights if each not in other)
                return [*self.gemm(name, part, rows, same, output), *self.gemm(name, part, rows, other, output)]
        n = biases = 0
        for each in weights:
            local = shard.elements(each.out)
            n += local
            biases += local * each.bias
        work = ops.linear(
            m=rows,
            n=n,
            k=shard.elements(inp),
            weights=form,
            activations=self.activations,
            compute=self.precision.compute,
            biases=biases or None,
            bias=self.vectors,
            output=output,
        )
        return [Kernel(name, part, work), *self.reduced(inp, part, rows, n)]

    def reduced(self, contracted: Axis, part: str, rows: Num, elements: int) -> Iterable[Kernel]:
        """The all-reduce that sums what each rank has after a contraction over `contracted`."""
        ranks = self.shard.ranks(contracted)
        if ranks == 1:
            return ()
        work = collectives.all_reduce(self.activations.matrix(rows, elements), ranks, link=self.link)
        return (Kernel(f"{part}_all_reduce", part, work),)

    def gathered(self, axis: Axis, part: str, rows: Num) -> Iterable[Kernel]:
        """The all-gather that gives every rank the whole of a split output axis."""
        ranks = self.shard.ranks(axis)
        if ranks == 1:
            return ()
        size = self.activations.matrix(rows, self.shard.elements(axis) * ranks)
        return (Kernel(f"{part}_all_gather", part, collectives.all_gather(size, ranks, link=self.link)),)


class Stateless:
    """A part that caches nothing."""

    __slots__ = ()

    def cache_bytes(self, held: Num, kv: DType, shard: Shard) -> Num:
        """Nothing is cached."""
        return 0


class Part(Protocol):
    """A building block."""

    @property
    def label(self) -> str:
        """What the ledger calls it: "attention", "mlp", "embedding" …"""
        ...

    def weights(self) -> tuple[Weight, ...]:
        """The parameters that it stores."""
        ...

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """The kernels of one pass through it, in order."""
        ...

    def cache_bytes(self, held: Num, kv: DType, shard: Shard) -> Num:
        """Bytes that one sequence of `held` positions keeps in the KV cache of one rank [byte]."""
        ...
