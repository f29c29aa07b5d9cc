"""Latent attention (MLA): K and V of all heads are products of one cached vector a token; with an indexer, sparse.

Two ways to run it, both exact. Absorbed: the matrix from latent to K goes into q, the one to V into the output, and
every head attends to the cached latents as to one KV head (what engines do in decode, and over sparse selections).
Expanded: K and V of every position are made from their latents first (what engines do in prefill).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline import ops
from roofline.cost import Cost, Work
from roofline.dtypes import DType
from roofline.num import Num
from roofline.pairs import positions
from roofline.parts.attention import named
from roofline.parts.base import Kernel, Pass, Weight
from roofline.shard import Axis, Shard
from roofline.workload import Rows


@dataclass(frozen=True, slots=True)
class Indexer:
    """The lightning indexer: small heads of its own score every cached position, the best `selected` are attended to.

    `heads` of head_dim each, against one cached key a position.
    """

    heads: Axis
    selected: int
    rotary_dim: int

    @property
    def key(self) -> Axis:
        """The one cached key."""
        return Axis("index_dim", self.heads.unit)

    def projections(self, hidden: Axis) -> tuple[Weight, Weight]:
        """The matrices over the stream: the key, and a weight for each head."""
        return (
            Weight("indexer_k_proj", self.key, hidden),
            Weight("indexer_weights_proj", Axis("index_heads", self.heads.size), hidden),
        )

    def query(self, latent: Axis) -> Weight:
        """The matrix from the latent of q to the heads."""
        return Weight("indexer_q_proj", self.heads, latent)

    def weights(self, hidden: Axis, latent: Axis) -> tuple[Weight, ...]:
        """Its projections, and the LayerNorm of its key."""
        norm = (Weight(name, self.key, kind="vector") for name in ("indexer_k_norm", "indexer_k_norm_bias"))
        return (self.query(latent), *self.projections(hidden), *norm)

    def kernels(self, run: Pass, label: str, hidden: Axis, latent: Axis) -> list[Kernel]:
        """Projections, norm, RoPE, and the scores of every position for each group of rows."""
        rows = run.gemm("indexer_q_proj", label, run.tokens, (self.query(latent),))
        rows += run.gemm("indexer_k_proj", label, run.tokens, self.projections(hidden))
        norm = ops.norm(m=run.tokens, width=self.key.size, vectors=2, activations=run.activations, weights=run.vectors)
        rope = ops.rope(
            m=run.tokens,
            heads=run.shard.units(self.heads),
            kv_heads=1,
            head_dim=self.heads.unit,
            rotary_dim=self.rotary_dim,
            activations=run.activations,
        )
        rows += [Kernel("indexer_k_norm", label, norm), Kernel("indexer_rope", label, rope)]
        for group in run.groups:
            scores = ops.attention(
                sequences=group.sequences,
                new=group.new,
                context=group.behind,
                heads=run.shard.units(self.heads),
                kv_heads=1,
                head_dim=self.heads.unit,
                value_dim=0,
                latent=True,
                kv=run.kv,
                activations=run.activations,
                compute=run.precision.compute,
            )
            rows.append(Kernel(named(run, "indexer_scores", group.phase), label, scores))
        return rows


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention with heads of `nope` + `rope` for q and K, and of `value` for V.

    The cache has `kv_rank` + `rope` numbers a token, whatever the heads. `q_rank` is the width of q's own latent,
    None where q is one matrix. `bias`: of the matrices into the latents and of the output.
    """

    hidden: Axis
    heads: int
    nope: int
    rope: int
    value: int
    kv_rank: int
    q_rank: int | None = None
    bias: bool = False
    indexer: Indexer | None = None
    label: str = "attention"

    @property
    def sort(self) -> str:
        """What it sees, in words."""
        return "latents" if self.indexer is None else f"latents, best {self.indexer.selected:,} by indexer"

    def _heads(self, width: int) -> Axis:
        return Axis("heads", self.heads, width)

    @property
    def _q_latent(self) -> Axis:
        return Axis("q_rank", self.q_rank or 0)

    def down(self) -> tuple[Weight, Weight]:
        """The matrices over the stream: into the latent of q (or to q), and into that of K and V with its RoPE part."""
        into = Weight("kv_a_proj", Axis("kv_rank", self.kv_rank + self.rope), self.hidden, self.bias)
        if self.q_rank is None:
            return Weight("q_proj", self._heads(self.nope + self.rope), self.hidden), into
        return Weight("q_a_proj", self._q_latent, self.hidden, self.bias), into

    def up(self) -> Weight:
        """The matrix from the latent of K and V to both, of every head."""
        return Weight("kv_b_proj", self._heads(self.nope + self.value), Axis("kv_rank", self.kv_rank))

    def query(self) -> Weight:
        """The matrix from the latent of q to its heads."""
        return Weight("q_b_proj", self._heads(self.nope + self.rope), self._q_latent)

    def output(self) -> Weight:
        """The matrix back to the residual stream."""
        return Weight("o_proj", self.hidden, self._heads(self.value), self.bias)

    def weights(self) -> tuple[Weight, ...]:
        """Projections into and out of the latents, their norms, the output, the indexer."""
        own: tuple[Weight, ...] = ()
        if self.q_rank is not None:
            own = (Weight("q_a_norm", self._q_latent, kind="vector"), self.query())
        norm = Weight("kv_a_norm", Axis("kv_rank", self.kv_rank), kind="vector")
        index = () if self.indexer is None else self.indexer.weights(self.hidden, self._q_latent)
        return (*self.down(), *own, norm, self.up(), self.output(), *index)

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        """Into the latents, their norms, q's heads, RoPE, the indexer; attention either way; the output."""
        rows = run.gemm("qkv_a_proj", self.label, run.tokens, self.down())
        spans = (("q_a_norm", self.q_rank), ("kv_a_norm", self.kv_rank))
        rows += [self._norm(run, name, width) for name, width in spans if width is not None]
        if self.q_rank is not None:
            rows += run.gemm("q_b_proj", self.label, run.tokens, (self.query(),))
        rope = ops.rope(
            m=run.tokens,
            heads=run.shard.units(self._heads(1)),
            kv_heads=1,
            head_dim=self.rope,
            activations=run.activations,
        )
        rows.append(Kernel("rope", self.label, rope))
        if self.indexer is not None:
            rows += self.indexer.kernels(run, self.label, self.hidden, self._q_latent)
        for group in run.groups:
            sparse = self.indexer is not None or group.phase == "decode"
            rows += self._absorbed(run, group) if sparse else self._expanded(run, group)
        return [*rows, *run.gemm("o_proj", self.label, run.tokens, (self.output(),))]

    def _norm(self, run: Pass, name: str, width: int) -> Kernel:
        return Kernel(
            name, self.label, ops.norm(m=run.tokens, width=width, activations=run.activations, weights=run.vectors)
        )

    def _absorbed(self, run: Pass, group: Rows) -> list[Kernel]:
        """q into the latent space, one KV head of latents for every head, the output out of it."""
        heads = run.shard.units(self._heads(1))
        attention = ops.attention(
            sequences=group.sequences,
            new=group.new,
            context=group.behind,
            heads=heads,
            kv_heads=1,
            head_dim=self.kv_rank + self.rope,
            value_dim=self.kv_rank,
            latent=True,
            kv=run.kv,
            activations=run.activations,
            compute=run.precision.compute,
            selected=None if self.indexer is None else self.indexer.selected,
        )
        into, out = (
            ops.linear(
                m=group.tokens,
                n=n,
                k=k,
                batch=heads,
                weights=run.format(self.label, self.up()),
                activations=run.activations,
                compute=run.precision.compute,
            )
            for n, k in ((self.kv_rank, self.nope), (self.value, self.kv_rank))
        )
        suffix = "" if self.indexer is None else "_sparse"
        return [
            Kernel(named(run, "q_absorb", group.phase), self.label, into),
            Kernel(f"{named(run, 'attention', group.phase)}{suffix}", self.label, attention),
            Kernel(named(run, "v_absorb", group.phase), self.label, out),
        ]

    def _expanded(self, run: Pass, group: Rows) -> list[Kernel]:
        """K and V of every position out of the latents, then attention of as many KV heads as heads."""
        heads = run.shard.units(self._heads(1))
        seen = group.sequences * positions(group.new, group.behind)
        attention = ops.attention(
            sequences=group.sequences,
            new=group.new,
            context=group.behind,
            heads=heads,
            kv_heads=heads,
            head_dim=self.nope + self.rope,
            value_dim=self.value,
            kv=run.activations,
            activations=run.activations,
            compute=run.precision.compute,
            role="activations",
        )
        up = self.up()
        expand = ops.linear(
            m=seen,
            n=run.shard.elements(up.out),
            k=self.kv_rank,
            weights=run.format(self.label, up),
            activations=run.activations,
            compute=run.precision.compute,
        )
        entry = self.kv_rank + self.rope
        expand = _from_cache(expand, run, seen, self.kv_rank, entry)
        append = ops.copy(n=run.kv.matrix(group.tokens, entry))
        return [
            Kernel(named(run, "cache_append", group.phase), self.label, append),
            Kernel(named(run, "kv_b_proj", group.phase), self.label, expand),
            Kernel(named(run, "attention", group.phase), self.label, attention),
        ]

    def cache_bytes(self, held: Num, kv: DType, shard: Shard) -> Num:
        """One latent with its RoPE part a position, on every rank; with an indexer its key beside."""
        index = 0 if self.indexer is None else kv.matrix(held, self.indexer.key.size)
        return kv.matrix(held, self.kv_rank + self.rope) + index


def _from_cache(work: Work, run: Pass, rows: Num, width: int, entry: int) -> Work:
    """The same GEMM whose input is read from the cache, each entry of it whole."""
    memory = dict(work.cost.memory)
    memory["activations"] = memory["activations"] - run.activations.matrix(rows, width)
    memory["kv"] = run.kv.matrix(rows, entry)
    return Work(work.op, work.dims, Cost(work.cost.flops, memory))
