"""The operations: one function each, from dims to Work. Every FLOP and byte is counted here.

Dims are numbers of rows, elements or tokens: ints (exact), float64 arrays that broadcast, or traced symbols.
FLOPs are [FLOP], a multiply-add is 2; bytes are [byte] and ideal, each operand once. FLOPs an element of the
small kernels are a convention: norm 3, an added tensor 1, activation with multiply 3, RoPE 3, softmax 5.
Tensor-core work runs at the rate `compute`, the small kernels at the FP32 vector rate.

Every operation raises UnknownName for a dtype that is not known and BadValue for a size below zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from roofline.cost import Cost, Work
from roofline.dtypes import DType, dtype
from roofline.errors import BadValue, RooflineError, UnknownName, shown
from roofline.num import Expr, Num, ceil_div, least_of, maximum, minimum, number, power, where
from roofline.pairs import around, blocked, positions, visible

VECTOR = "fp32-vector"
Storage = str | DType
Operation = Callable[..., Work]
_F = TypeVar("_F", bound=Operation)

_AS_THEY_ARE = frozenset({str, DType, Expr, bool, type(None)})

_LEAST = {"ranks": 1, "experts": 1, "chunk": 1, "stride": 1}
_USUAL = 1 << 64  # below it an int needs no second look

OPS: dict[str, Operation] = {}


def op(name: str) -> Callable[[_F], _F]:
    """Register an operation under its public name; a second registration is refused.

    The registered function takes what its formula is exact for: sizes of zero or more, NumPy integers as
    Python's or float64, as theirs would wrap. Raises BadValue for a negative size.
    """

    def register(function: _F) -> _F:
        if name in OPS:
            raise RooflineError(f"The operation {name!r} is registered twice.")

        names = tuple(signature(function).parameters)

        @wraps(function)
        def checked(*sizes: Any, **options: Any) -> Work:
            for key, value in options.items():
                kind = value.__class__
                if kind not in _AS_THEY_ARE and (kind is not int or not _LEAST.get(key, 0) <= value < _USUAL):
                    options[key] = _operand(name, key, value)
            if sizes:
                return function(
                    *(_operand(name, key, value) for key, value in zip(names, sizes, strict=False)), **options
                )
            return function(**options)

        OPS[name] = checked
        return cast(_F, checked)

    return register


def _operand(name: str, key: str, value: Any) -> Any:
    """An operand as formulas take it; raises BadValue for what is no size."""
    if value is None or isinstance(value, (str, DType)):
        return value
    size, least = number(value), _LEAST.get(key, 0)
    if size is None or (not isinstance(size, Expr) and least_of(size) < least):
        raise BadValue(f"{key} of {name} is {shown(value)}. Possible: a finite size of {least or 'zero'} or more.")
    return size


def operation(name: str) -> Operation:
    """The registered operation of that name; raises UnknownName."""
    if name not in OPS:
        raise UnknownName.of("operation", name, OPS)
    return OPS[name]


def small(name: str, dims: Mapping[str, Num], flops: Num, memory: Mapping[str, Num]) -> Work:
    """Work of a kernel on the vector units."""
    return Work(name, dims, Cost({VECTOR: flops}, memory))


@op("linear")
def linear(
    *,
    m: Num,
    n: Num,
    k: Num,
    weights: Storage = "bf16",
    activations: Storage = "bf16",
    compute: str = "bf16",
    biases: Num | None = None,
    bias: Storage = "bf16",
    batch: Num | None = None,
    output: str = "activations",
    written: Storage | None = None,
) -> Work:
    """y[m, n] = x[m, k] · W[n, k]ᵀ + b[n]: flops = 2 m n k, bytes = W + x + y + b.

    `biases` of the n outputs have one (their bytes are counted, their m·n additions are not, as in PyTorch's
    FlopCounterMode); `batch` is how many such products, each with its own operands, one kernel does; `output`
    is the memory role of y, `written` its format, that of x without it. Source: NVIDIA, Matrix Multiplication
    Background User's Guide, section 2.
    """
    w, a = dtype(weights), dtype(activations)
    times = 1 if batch is None else batch
    stored = times * w.matrix(n, k)
    if biases is not None:
        stored = stored + times * dtype(bias).of(biases)
    memory = {"weights": stored, "activations": times * a.matrix(m, k)}
    result = times * (a if written is None else dtype(written)).matrix(m, n)
    memory[output] = memory[output] + result if output in memory else result
    dims = {"m": m, "n": n, "k": k} if batch is None else {"m": m, "n": n, "k": k, "batch": batch}
    return Work("linear", dims, Cost({compute: times * 2 * m * n * k}, memory))


def distinct(tokens: Num, experts: Num, top_k: Num) -> Num:
    """Experts that `tokens` are expected to reach, each choosing `top_k` of `experts` evenly: E(1 - (1 - k/E)^T)."""
    return where(tokens > 1, experts * (1 - power(maximum(1 - top_k / experts, 0), tokens)), tokens * top_k)


@op("moe")
def moe(
    *,
    tokens: Num,
    top_k: Num,
    experts: Num,
    n: Num,
    k: Num,
    touched: Num | None = None,
    inputs: Num | None = None,
    weights: Storage = "bf16",
    activations: Storage = "bf16",
    compute: str = "bf16",
    biases: Num | None = None,
    bias: Storage = "bf16",
) -> Work:
    """One grouped GEMM over routed experts: each of tokens · top_k rows through the W[n, k] of its expert.

    flops = 2 · tokens · top_k · n · k; bytes = the matrices of the experts touched, once each, x and y. `touched`
    experts are those that the tokens are expected to reach where it is not given; the role `weights` has the
    fewest that they can reach, top_k, and `routed` the rest. `inputs` rows of x are read: `tokens` (each gathered
    once) where it is not given. Source: Shazeer et al. 2017 (sparsely gated mixture of experts).
    """
    w, a = dtype(weights), dtype(activations)
    rows = tokens * top_k
    fewest, most = minimum(top_k, rows), minimum(experts, rows)
    reached = distinct(tokens, experts, top_k) if touched is None else minimum(maximum(touched, fewest), most)
    stored = w.matrix(n, k)
    if biases is not None:
        stored = stored + dtype(bias).of(biases)
    memory = {
        "weights": fewest * stored,
        "routed": (reached - fewest) * stored,
        "activations": a.matrix(tokens if inputs is None else inputs, k) + a.matrix(rows, n),
    }
    dims = {"tokens": tokens, "top_k": top_k, "experts": experts, "n": n, "k": k, "touched": reached}
    return Work("moe", dims, Cost({compute: 2 * rows * n * k}, memory))


def _stored(each: DType, rows: Num, head_dim: Num, value_dim: Num | None, latent: bool = False) -> Num:
    """Bytes of K and V (or q and y) of that many rows of one head; where V is a slice of K, of K alone [byte]."""
    if latent:
        return each.matrix(rows, head_dim)
    if value_dim is None:
        return each.matrix(2 * rows, head_dim)
    return each.matrix(rows, head_dim) + each.matrix(rows, value_dim)


@op("attention")
def attention(
    *,
    sequences: Num,
    new: Num,
    context: Num,
    heads: Num,
    kv_heads: Num,
    head_dim: Num,
    value_dim: Num | None = None,
    kv: Storage = "bf16",
    activations: Storage = "bf16",
    compute: str = "bf16",
    causal: bool = True,
    latent: bool = False,
    appended: bool = True,
    window: Num | None = None,
    chunk: Num | None = None,
    stride: Num | None = None,
    selected: Num | None = None,
    sinks: Num | None = None,
    vectors: Storage = "bf16",
    role: str = "kv",
    source: Num | None = None,
) -> Work:
    """softmax(q·Kᵀ)·V of `sequences`, tiled: flops = 2 · sequences · heads · pairs · (head_dim + value_dim).

    q and y are [sequences · new, heads, head_dim], K and V [sequences, positions, kv_heads, head_dim]; V and y are
    `value_dim` wide where that differs. Reads q and the cached K and V once, writes y, appends the new K and V.
    `kv_heads` below `heads` is grouped-query, 1 multi-query attention; `latent`: V is a slice of the cached K.
    A query sees the last `window` positions, or its own `chunk` of them, or one entry for each `stride` of them,
    or the best `selected` of what it could see (several queries read the fewest that they can share); not `causal`,
    it sees everything, `window` positions on either side, or all of its chunk. `sinks` logits are read beside. The
    softmax is not counted. `appended` False: K and V are those of another layer; `role` "activations": they are no
    cache at all, and nothing is appended. `source`: K and V are of so many positions of another sequence, an
    encoder's, all of which every query sees. Raises BadValue for another limit without `causal`.
    Source: Dao et al. 2022 (FlashAttention), Ainslie et al. 2023 (GQA), DeepSeek-AI 2024 (V2, latent attention).
    """
    tokens = sequences * new
    limits = {"window": window, "chunk": chunk, "stride": stride, "selected": selected}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if source is not None:
        pairs, seen = new * source, source
    elif causal:
        pairs, seen = visible(new, context, window, chunk, stride, selected)
    elif not given:
        pairs, seen = new * (context + new), context + new
    elif tuple(given) == ("window",):
        pairs, seen = around(new, given["window"]), new
    elif tuple(given) == ("chunk",):
        pairs, seen = blocked(new, given["chunk"]), new
    else:
        limit = min(given, key=lambda each: each in ("window", "chunk"))
        raise BadValue(f"A {limit} needs causal attention; others are not counted yet. Possible: causal=True.")
    cache, a = dtype(kv), dtype(activations)
    both = 2 * head_dim if value_dim is None else head_dim + value_dim  # the widths of a pair's two products
    read = _stored(cache, sequences * seen * kv_heads, head_dim, value_dim, latent)
    moved = _stored(a, tokens * heads, head_dim, value_dim)
    if role == "kv":
        fresh = tokens * kv_heads if appended and source is None else 0
        memory = {"kv": read, "activations": moved + _stored(cache, fresh, head_dim, value_dim, latent)}
    else:
        memory = {role: moved + read}
    if sinks is not None:
        memory["weights"] = dtype(vectors).of(sinks)
    dims = {
        "sequences": sequences,
        "new": new,
        "context": context,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        **({} if value_dim is None else {"value_dim": value_dim}),
        **given,
        **({} if source is None else {"source": source}),
    }
    return Work("attention", dims, Cost({compute: 2 * sequences * heads * both * pairs}, memory))


@op("attention-math")
def attention_math(
    *,
    sequences: Num,
    new: Num,
    context: Num,
    heads: Num,
    kv_heads: Num,
    head_dim: Num,
    kv: Storage = "bf16",
    activations: Storage = "bf16",
    compute: str = "bf16",
) -> Work:
    """softmax(q·Kᵀ)·V with its scores in memory, as three kernels: GEMM, softmax, GEMM.

    Every score is computed, those that a causal mask then hides too: flops = 4 · sequences · heads · head_dim ·
    new · seen, and 5 an element for the softmax. The scores [sequences, heads, new, seen] are written, read and
    written by the softmax, and read again; q, K, V and y move as in `attention`. Dao et al. 2022, algorithm 0.
    """
    seen, tokens = positions(new, context), sequences * new
    cache, a = dtype(kv), dtype(activations)
    scores = sequences * heads * new * seen
    memory = {
        "kv": cache.matrix(2 * sequences * seen * kv_heads, head_dim),
        "activations": a.matrix(2 * tokens * heads, head_dim) + cache.matrix(2 * tokens * kv_heads, head_dim),
        "scores": a.of(4 * scores),
    }
    dims = {"sequences": sequences, "new": new, "context": context, "heads": heads}
    dims |= {"kv_heads": kv_heads, "head_dim": head_dim}
    return Work("attention-math", dims, Cost({compute: 4 * scores * head_dim, VECTOR: 5 * scores}, memory, launches=3))


@op("norm")
def norm(
    *,
    m: Num,
    width: Num,
    added: Num = 0,
    after: Num = 0,
    vectors: Num = 1,
    activations: Storage = "bf16",
    weights: Storage = "bf16",
) -> Work:
    """RMSNorm or LayerNorm of x[m, width], after adding `added` tensors to the residual stream.

    Reads the stream and each added tensor, writes the normed rows, and the stream where something was
    added; reads `after` tensors more, which are added to the normed rows before these are written; reads `vectors`
    parameter vectors (scale, bias). 3 FLOP an element, 1 more for each tensor added.
    Source: Ba et al. 2016 (LayerNorm), Zhang and Sennrich 2019 (RMSNorm).
    """
    a = dtype(activations)
    tensors = 2 + added + minimum(added, 1) + after
    memory = {"weights": dtype(weights).of(vectors * width), "activations": a.matrix(tensors * m, width)}
    dims = {"m": m, "width": width, "added": added, "after": after}
    return small("norm", dims, (3 + added + after) * m * width, memory)


@op("activation")
def activation(*, m: Num, width: Num, gates: Num = 1, activations: Storage = "bf16") -> Work:
    """act(g) · u over [m, width]: reads 1 + gates tensors, writes one, 3 FLOP an element.

    `gates` is 1 for a gated MLP (SwiGLU, GeGLU) and 0 for a plain one. Source: Shazeer 2020 (GLU variants).
    """
    moved = dtype(activations).matrix((2 + gates) * m, width)
    return small("activation", {"m": m, "width": width, "gates": gates}, 3 * m * width, {"activations": moved})


@op("rope")
def rope(
    *,
    m: Num,
    heads: Num,
    kv_heads: Num,
    head_dim: Num,
    rotary_dim: Num | None = None,
    normed: Num = 0,
    scales: Num | None = None,
    activations: Storage = "bf16",
    weights: Storage = "bf16",
) -> Work:
    """Rotary embedding of q[m, heads, head_dim] and k[m, kv_heads, head_dim], in place.

    Reads and writes once what it changes: `rotary_dim` elements of each head, or all of them where `normed`
    is 1 and each head is normed before, by `scales` parameters (two vectors of head_dim where it is not given).
    3 FLOP for each rotated element, 3 more for each normed one.
    Source: Su et al. 2021 (RoFormer).
    """
    rows = m * (heads + kv_heads)
    rotated = head_dim if rotary_dim is None else rotary_dim
    touched = rotated + normed * (head_dim - rotated)
    memory = {
        "weights": dtype(weights).of(2 * normed * head_dim if scales is None else scales),
        "activations": dtype(activations).matrix(2 * rows, touched),
    }
    dims = {"m": m, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "normed": normed}
    return small("rope", dims, 3 * rows * (rotated + normed * head_dim), memory)


@op("embedding")
def embedding(
    *,
    m: Num,
    width: Num,
    rows: Num,
    positions: Num = 0,
    ranks: Num = 1,
    added: Num = 0,
    weights: Storage = "bf16",
    activations: Storage = "bf16",
) -> Work:
    """Look-up of m tokens in a table of `rows`, and of their places in one of `positions` rows, summed.

    No table is streamed: of m distinct rows each is read once, up to the whole table; of a table split over
    `ranks`, a rank's share. `added` 1 reads the stream too and adds the rows to it.
    """
    table = dtype(weights)
    found = ceil_div(minimum(m, rows), ranks)
    memory = {
        "weights": table.matrix(found, width) + table.matrix(minimum(m, positions), width),
        "activations": dtype(activations).matrix((1 + added) * m, width),
    }
    dims = {"m": m, "width": width, "rows": rows, "positions": positions, "added": added}
    return small("embedding", dims, (minimum(positions, 1) + added) * m * width, memory)


@op("elementwise")
def elementwise(
    *,
    n: Num,
    reads: Num = 2,
    writes: Num = 1,
    flops: Num = 1,
    activations: Storage = "bf16",
    rate: str = VECTOR,
) -> Work:
    """Any element-by-element kernel: n elements, tensors read and written, FLOPs an element at `rate`."""
    moved = (reads + writes) * dtype(activations).of(n)
    dims = {"n": n, "reads": reads, "writes": writes}
    return Work("elementwise", dims, Cost({rate: flops * n}, {"activations": moved}))


@op("softmax")
def softmax(*, m: Num, width: Num, activations: Storage = "bf16") -> Work:
    """Softmax over m rows of `width`: reads and writes once, 5 FLOP an element."""
    moved = dtype(activations).matrix(2 * m, width)
    return small("softmax", {"m": m, "width": width}, 5 * m * width, {"activations": moved})


@op("copy")
def copy(*, n: Num) -> Work:
    """A copy of n bytes within memory: read once, written once."""
    return Work("copy", {"n": n}, Cost({}, {"activations": 2 * n}))


@op("conv")
def conv(
    *,
    images: Num,
    channels: Num,
    filters: Num,
    depth: Num,
    inputs: Num,
    outputs: Num,
    taps: Num,
    weights: Storage = "bf16",
    activations: Storage = "bf16",
    compute: str = "bf16",
    biases: Num | None = None,
    bias: Storage = "bf16",
) -> Work:
    """Convolution of x[images, channels, inputs] with W[filters, depth, taps]: flops = 2 · images · outputs · W.

    y is [images, filters, outputs]; `inputs` and `outputs` count positions (pixels, voxels), `taps` those of one
    filter, `depth` the channels that it reads (of one group). Direct, as an implicit GEMM: transforms that need fewer
    FLOPs (Winograd, FFT) may beat it. Reads x as far as a filter touches it, W and `biases`, writes y; a gradient
    moves the same three tensors and counts the same FLOPs. Source: Chetlur et al. 2014 (cuDNN).
    """
    a = dtype(activations)
    touched = minimum(inputs, outputs * taps)
    stored = dtype(weights).matrix(filters, depth * taps)
    memory = {
        "weights": stored if biases is None else stored + dtype(bias).of(biases),
        "activations": a.of(images * channels * touched) + a.of(images * filters * outputs),
    }
    dims = {"images": images, "channels": channels, "filters": filters, "depth": depth}
    dims |= {"inputs": inputs, "outputs": outputs, "taps": taps}
    return Work("conv", dims, Cost({compute: 2 * images * outputs * filters * depth * taps}, memory))
