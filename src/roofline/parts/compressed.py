"""Compressed attention (DeepSeek V4): a window of positions, and one cached entry for each stretch of them beyond.

One KV head whose K is also its V. A compressor pools every `stride` positions into one entry; with an indexer, which
has a compressor of its own, a query attends to the best `selected` entries. The output projection is in groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline import ops
from roofline.cost import Cost, Work
from roofline.dtypes import DType
from roofline.num import Num, minimum
from roofline.parts.attention import named
from roofline.parts.base import Kernel, Pass, Stateless, Weight
from roofline.shard import Axis, Shard
from roofline.workload import Rows


@dataclass(frozen=True, slots=True)
class Compressor:
    """Softmax-gated pooling of `stride` positions into one entry of `width`, in `series` overlapping ones."""

    name: str
    width: int
    stride: int
    series: int

    def projections(self, hidden: Axis) -> tuple[Weight, Weight]:
        """What is pooled, and the gate of it."""
        out = Axis("entry", self.series * self.width)
        return Weight(f"{self.name}_kv_proj", out, hidden), Weight(f"{self.name}_gate_proj", out, hidden)

    def weights(self, hidden: Axis) -> tuple[Weight, ...]:
        """Its projections, the bias of each position in a stretch, the norm of an entry."""
        bias = Weight(f"{self.name}_positions", Axis("entry", self.stride * self.series * self.width), kind="vector")
        return (*self.projections(hidden), bias, Weight(f"{self.name}_norm", Axis("entry", self.width), kind="vector"))

    def kernel(self, run: Pass, label: str) -> Kernel:
        """Reads both projections of every token, and writes an entry where a stretch is complete."""
        n = run.tokens * self.series * self.width
        pool = ops.elementwise(n=n, reads=2, writes=0, flops=4, activations=run.activations)
        return Kernel(f"{self.name}_pool", label, pool)


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """Attention over the last `window` positions and, where there is a `compressor`, over its entries."""

    hidden: Axis
    heads: Axis
    q_rank: int
    groups: Axis
    window: int
    rotary_dim: int
    compressor: Compressor | None = None
    index: Compressor | None = None
    index_heads: int = 0
    selected: int | None = None
    label: str = "attention"

    @property
    def stretch(self) -> int:
        """Tokens after which the cache has grown by whole entries."""
        return 1 if self.compressor is None else self.compressor.stride

    @property
    def sort(self) -> str:
        """What it sees, in words."""
        near = f"last {self.window:,} tokens"
        if self.compressor is None:
            return near
        best = "" if self.selected is None else f"best {self.selected:,} "
        return f"{near}, {best}entries of {self.compressor.stride:,}"

    @property
    def _latent(self) -> Axis:
        return Axis("q_rank", self.q_rank)

    @property
    def _entry(self) -> Axis:
        return Axis("head_dim", self.heads.unit)

    def _down(self) -> tuple[Weight, Weight]:
        return Weight("q_a_proj", self._latent, self.hidden), Weight("kv_proj", self._entry, self.hidden)

    def _query(self) -> Weight:
        return Weight("q_b_proj", self.heads, self._latent)

    def _grouped(self) -> Weight:
        return Weight("o_a_proj", self.groups, Axis("group", self.heads.elements // self.groups.size))

    def _output(self) -> Weight:
        return Weight("o_b_proj", self.hidden, self.groups)

    def _index_query(self) -> Weight:
        assert self.index is not None
        return Weight("indexer_q_proj", Axis("index_heads", self.index_heads, self.index.width), self._latent)

    def _index_scores(self) -> Weight:
        return Weight("indexer_weights_proj", Axis("index_heads", self.index_heads), self.hidden)

    def weights(self) -> tuple[Weight, ...]:
        """Projections, norms, sinks, compressor and indexer."""
        extra: list[Weight] = []
        for each in (self.compressor, self.index):
            extra += each.weights(self.hidden) if each is not None else ()
        if self.index is not None:
            extra += [self._index_query(), self._index_scores()]
        return (
            *self._down(),
            self._query(),
            self._grouped(),
            self._output(),
            Weight("q_a_norm", self._latent, kind="vector"),
            Weight("kv_norm", self._entry, kind="vector"),
            Weight("sinks", Axis("heads", self.heads.size), kind="vector"),
            *extra,
        )

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """Projections with their norms, compressor, indexer, attention for each group of rows, output in two steps."""
        label, tokens = self.label, run.tokens
        rows = run.gemm("qkv_a_proj", label, tokens, self._down())
        for name, width in (("q_a_norm", self.q_rank), ("kv_norm", self.heads.unit)):
            norm = ops.norm(m=tokens, width=width, activations=run.activations, weights=run.vectors)
            rows.append(Kernel(name, label, norm))
        rows += run.gemm("q_b_proj", label, tokens, (self._query(),))
        rows.append(self._rope(run, "qk_norm_rope", kv_heads=1, normed=1))
        for each in (self.compressor, self.index):
            if each is not None:
                rows += run.gemm(f"{each.name}_proj", label, tokens, each.projections(self.hidden))
                rows.append(each.kernel(run, label))
        rows += self._indexed(run)
        rows += [self._attend(run, group) for group in run.groups]
        rows.append(self._rope(run, "output_rope", kv_heads=0, normed=0))
        into = self._grouped()
        assert into.inp is not None
        grouped = ops.linear(
            m=tokens,
            n=self.groups.unit,
            k=into.inp.elements,
            batch=run.shard.units(self.groups),
            weights=run.format(self.label, into),
            activations=run.activations,
            compute=run.precision.compute,
        )
        return [*rows, Kernel("o_a_proj", label, grouped), *run.gemm("o_b_proj", label, tokens, (self._output(),))]

    def _rope(self, run: Pass, name: str, kv_heads: int, normed: int) -> Kernel:
        work = ops.rope(
            m=run.tokens,
            heads=run.shard.units(self.heads),
            kv_heads=kv_heads,
            head_dim=self.heads.unit,
            rotary_dim=self.rotary_dim,
            normed=normed,
            scales=0,
            activations=run.activations,
            weights=run.vectors,
        )
        return Kernel(name, self.label, work)

    def _indexed(self, run: Pass) -> list[Kernel]:
        """Queries of the indexer and the scores of its entries."""
        if self.index is None:
            return []
        rows = run.gemm("indexer_q_proj", self.label, run.tokens, (self._index_query(),))
        rows += run.gemm("indexer_weights_proj", self.label, run.tokens, (self._index_scores(),))
        for group in run.groups:
            scores = self._over(
                run,
                group,
                Axis("index_heads", self.index_heads, self.index.width),
                stride=self.index.stride,
                value_dim=0,
            )
            rows.append(Kernel(named(run, "indexer_scores", group.phase), self.label, scores))
        return rows

    def _over(self, run: Pass, group: Rows, heads: Axis, **limits: Num | None) -> Work:
        """Attention of one group and these heads over the one KV head, under these limits."""
        return ops.attention(
            sequences=group.sequences,
            new=group.new,
            context=group.behind,
            heads=run.shard.units(heads),
            kv_heads=1,
            head_dim=heads.unit,
            latent=True,
            kv=run.kv,
            activations=run.activations,
            compute=run.precision.compute,
            **limits,  # pyright: ignore[reportArgumentType]
        )

    def _attend(self, run: Pass, group: Rows) -> Kernel:
        """One kernel over the window and the entries."""
        near = self._over(run, group, self.heads, window=self.window, sinks=run.shard.units(self.heads))
        name = f"{named(run, 'attention', group.phase)}_sliding"
        if self.compressor is None:
            return Kernel(name, self.label, near)
        far = self._over(run, group, self.heads, stride=self.compressor.stride, selected=self.selected)
        rate = run.precision.compute
        memory = {**near.cost.memory, "kv": near.cost.memory["kv"] + far.cost.memory["kv"]}
        cost = Cost({rate: near.cost.flops[rate] + far.cost.flops[rate]}, memory)
        name = f"{named(run, 'attention', group.phase)}_compressed_{self.compressor.stride}"
        return Kernel(name, self.label, Work(near.op, {**near.dims, **far.dims}, cost))

    def cache_bytes(self, held: Num, kv: DType, shard: Shard) -> Num:
        """The window, the entries of the compressor and of the indexer; not the stretch that is not yet complete."""
        total = kv.matrix(minimum(held, self.window), self.heads.unit)
        for each in (self.compressor, self.index):
            total = total + (kv.matrix(held // each.stride, each.width) if each is not None else 0)
        return total


@dataclass(frozen=True, slots=True)
class HyperConnection(Stateless):
    """`streams` residual streams: mixed into one before a block, and the block's output spread over them after it.

    The weights of the mix are a product of all streams: (2 + streams) · streams numbers a token, or `streams` alone
    at the `head`, where they become one for good.
    """

    name: str
    hidden: Axis
    streams: int
    head: bool = False
    label: str = "hyper_connection"

    @property
    def _mixes(self) -> int:
        return self.streams if self.head else (2 + self.streams) * self.streams

    def _matrix(self) -> Weight:
        return Weight(self.name, Axis("mixes", self._mixes), Axis("streams", self.streams * self.hidden.elements))

    def weights(self) -> tuple[Weight, ...]:
        """The matrix, its bias and its scales."""
        bias = Weight(f"{self.name}_base", Axis("mixes", self._mixes), kind="vector")
        return (
            self._matrix(),
            bias,
            Weight(f"{self.name}_scale", Axis("scales", 1 if self.head else 3), kind="vector"),
        )

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """The product, and a kernel that mixes: reads streams and the last block's output, writes streams and mix."""
        n = self.streams
        mix = ops.elementwise(
            n=run.tokens * self.hidden.elements,
            reads=n if self.head else n + 1,
            writes=1 if self.head else n + 1,
            flops=2 * n if self.head else 2 * n * (n + 2),
            activations=run.activations,
        )
        rows = run.gemm(self.name, self.label, run.tokens, (self._matrix(),))
        return [*rows, Kernel(f"{self.name}_mix", self.label, mix)]
