"""The operations of recurrent layers: a short convolution, and the scan of a state that does not grow with context."""

from __future__ import annotations

from roofline.cost import Cost, Work
from roofline.dtypes import dtype
from roofline.num import Num, ceil_div, maximum, minimum, where
from roofline.ops import VECTOR, Storage, op, small
from roofline.pairs import chunked


@op("short-conv")
def short_conv(
    *,
    sequences: Num,
    new: Num,
    channels: Num,
    kernel: Num,
    context: Num = 0,
    biases: Num = 0,
    weights: Storage = "bf16",
    bias: Storage = "bf16",
    activations: Storage = "bf16",
    state: Storage = "bf16",
) -> Work:
    """Short causal convolution of each channel over the last `kernel` tokens: flops = 2 · tokens · channels · kernel.

    Reads and writes each token's channels once, and the kernel - 1 columns that each sequence keeps: read where
    there is a `context`, written always. Its activation is not counted. Source: Dao and Gu 2024 (Mamba-2).
    """
    tokens, a = sequences * new, dtype(activations)
    kept = sequences * maximum(kernel - 1, 0) * channels
    memory = {
        "weights": dtype(weights).of(channels * kernel) + dtype(bias).of(biases),
        "kv": (1 + minimum(context, 1)) * dtype(state).of(kept),
        "activations": a.matrix(2 * tokens, channels),
    }
    dims = {"sequences": sequences, "new": new, "channels": channels, "kernel": kernel}
    return small("short-conv", dims, 2 * tokens * channels * kernel, memory)


@op("scan")
def scan(
    *,
    sequences: Num,
    new: Num,
    heads: Num,
    key_dim: Num,
    value_dim: Num,
    groups: Num,
    context: Num = 0,
    chunk: Num | None = None,
    delta: Num = 0,
    gates: Num = 1,
    scales: Num = 0,
    state: Storage = "fp32",
    activations: Storage = "bf16",
    compute: str = "bf16",
    vectors: Storage = "bf16",
) -> Work:
    """A linear recurrence S = decay · S + k vᵀ, y = qᵀS, of a state [key_dim, value_dim] a head that does not grow.

    q and k are [tokens, groups, key_dim], v and y [tokens, heads, value_dim]; `gates` numbers a token and head are
    read beside, and `scales` parameters. `delta` 1: the delta rule, which first takes from v what kᵀS has already.
    A single new token is a step of 5 FLOP an element of the state (7 with the delta rule) on the vector units; so are
    all without `chunk`. More tokens are products within chunks of `chunk` tokens, each of a query and what is before
    it, and between a chunk and the state, at the rate `compute`: 2 · pairs · (groups · key_dim + heads · value_dim) +
    4 · tokens · heads · key_dim · value_dim; with the delta rule the products of keys and the solved triangle too.
    The state is read where there is a `context` and written always, in its own format.
    Source: Dao and Gu 2024 (Mamba-2), section 6; Yang et al. 2024 (gated delta networks), section 3.3.
    """
    tokens, a = sequences * new, dtype(activations)
    held = heads * key_dim * value_dim
    stepped = (5 + 2 * delta) * held
    flops: dict[str, Num] = {VECTOR: tokens * stepped}
    if chunk is not None:
        pairs = chunked(new, 0, chunk)[0]
        rows = (1 + delta) * pairs * groups * key_dim + pairs * heads * value_dim
        solved = delta * (pairs - new) * heads * (key_dim + value_dim)
        many = 2 * (rows + solved + (2 + delta) * new * held)
        flops = {
            VECTOR: sequences * where(new > 1, ceil_div(new, chunk) * held, new * stepped),
            compute: where(new > 1, sequences * many, 0),
        }
    moved = 2 * groups * key_dim + 2 * heads * value_dim + gates * heads
    memory = {
        "weights": dtype(vectors).of(scales),
        "kv": (1 + minimum(context, 1)) * dtype(state).of(sequences * held),
        "activations": a.of(tokens * moved),
    }
    dims = {
        "sequences": sequences,
        "new": new,
        "heads": heads,
        "groups": groups,
        "key_dim": key_dim,
        "value_dim": value_dim,
        "delta": delta,
        **({} if chunk is None else {"chunk": chunk}),
    }
    return Work("scan", dims, Cost(flops, memory))
