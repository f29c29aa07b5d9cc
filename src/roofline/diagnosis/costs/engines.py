"""Attention of serving engines over a paged cache: lengths are in no shape, but in the annotation of the pass."""

from __future__ import annotations

import math

from roofline.cost import Cost, Work
from roofline.diagnosis.costs.call import Call, Lengths, Tensor
from roofline.diagnosis.costs.rates import rate
from roofline.diagnosis.costs.registry import cost
from roofline.dtypes import DType

_WINDOWED = ("sliding", "swa", "windowed", "chunkedcausal")


def passed(
    call: Call, q: Tensor, widths: tuple[int, int, int, int], held: DType, lengths: Lengths | None
) -> Work | None:
    """Attention of all requests of a pass, q[tokens, ..], with `widths` of q, K, V and y, all heads together [element].

    None where the pass is not annotated or its annotation does not fit, and of a kernel whose name says that it looks
    at a window, whose length nothing says.
    """
    name = call.kernel.lower()
    compute = rate(call, q.dtype)
    if lengths is None or compute is None or any(word in name for word in _WINDOWED):
        return None
    tokens = lengths.context_tokens + lengths.generation_tokens
    if lengths.generation_positions is None or not 0 < tokens <= q.dims[0]:
        return None
    pairs = lengths.context_pairs + lengths.generation_positions
    positions = lengths.context_positions + lengths.generation_positions
    of_q, of_k, of_v, of_y = widths
    flops = 2 * pairs * (of_q + of_y)
    moved = q.dtype.of(tokens * of_q) + _written(call, q).of(tokens * of_y)
    dims = {"tokens": tokens, "positions": positions, "pairs": pairs}
    memory = {"kv": held.of(positions * (of_k + of_v)), "activations": moved}
    return Work("attention", dims, Cost({compute: flops}, memory))


def _written(call: Call, q: Tensor) -> DType:
    """The format of the output: of an argument as long as q that has 16 bits or more, else that of q."""
    return next((each.dtype for each in call.every() if each.dims == q.dims and each.dtype.bits >= 16), q.dtype)


def _bits(dtype: DType) -> int:
    return dtype.bits


@cost("^(vllm|sglang)::unified_attention(_with_output)?$", several=True, lengths=True)
def unified(call: Call) -> Work | None:
    """(q[tokens, heads, dim], K and V of the new tokens, y, layer): K and V come from the cache."""
    found = call.tensors(0, 1, 2)
    if found is None or any(len(each.dims) < 2 for each in found):
        return None
    q, k, _ = found
    of_q, of_k, of_v = (math.prod(each.dims[1:]) for each in found)
    held = call.cache or min(k.dtype, q.dtype, key=_bits)
    of_y = of_q if of_k == of_v else of_q * of_v // of_k
    return passed(call, q, (of_q, of_k, of_v, of_y), held, call.lengths)


@cost("^(vllm|sglang)::unified_mla_attention(_with_output)?$", several=True, lengths=True)
def latent(call: Call) -> Work | None:
    """(q[tokens, heads, dim], latent[tokens, rank], rotary[tokens, 1, dim], …), of decode alone.

    There each head looks at the latent itself: scores over rank and rotary part, values of the rank. What a prefill
    does depends on the engine.
    """
    found = call.tensors(0, 1, 2)
    lengths = call.lengths
    if found is None or lengths is None or lengths.context_tokens or [len(each.dims) for each in found[:2]] != [3, 2]:
        return None
    q, both, rotary = found
    heads, rank = q.dims[1], both.dims[1]
    key = rank + rotary.dims[-1]
    held = call.cache or both.dtype
    return passed(call, q, (heads * key, key, 0, heads * rank), held, lengths)


@cost(
    "^(_C|_rocm_C|aiter|vllm|sgl_kernel|sglang_profiler)::\\w*paged_attention\\w*$",
    "^aiter::pa_fwd\\w*$",
    several=True,
    lengths=True,
)
def paged_decode(call: Call) -> Work | None:
    """(…, q[tokens, heads, dim], K cache, V cache, …) of a decode: q is the first with two like it, or the first."""
    tensors = [each for each in call.every() if each.dims]
    caches = [at for at, each in enumerate(tensors) if len(each.dims) > 3]
    before = [each for each in tensors[: caches[0]] if len(each.dims) == 3] if caches else []
    if not before or call.lengths is None or call.lengths.context_tokens:
        return None
    q, cache = before[-1], tensors[caches[0]]
    heads, dim = q.dims[1], q.dims[2]
    kv_heads = cache.dims[2] if len(cache.dims) == 4 and cache.dims[-1] == dim else cache.dims[1]
    if not kv_heads or heads % kv_heads:
        return None
    return passed(call, q, (heads * dim, kv_heads * dim, kv_heads * dim, heads * dim), cache.dtype, call.lengths)


@cost("_vllm_fa2_C::varlen_fwd", several=True, lengths=True)
def varlen(call: Call) -> Work | None:
    """(q[tokens, heads, dim], K cache, V cache, y, ends of q, …, longest q and k at 10 and 11, …, causal at 15, …)."""
    return _paged(call, 4, 11, 15)


@cost("^(_vllm_fa3_C|sgl_kernel)::fwd$", several=True, lengths=True)
def third(call: Call) -> Work | None:
    """(q[tokens, heads, dim], K cache, V cache, …, ends of q at 7, …, longest q and k at 12 and 13, …, causal, …)."""
    flag = next((at for at in range(14, len(call.concrete)) if call.text(at) in ("True", "False")), None)
    return None if flag is None else _paged(call, 7, 13, flag)


def _paged(call: Call, ends: int, longest: int, causal: int) -> Work | None:
    """By the annotation of the pass; of one sequence alone, by its longest k. With a window there is no cost."""
    before = call.whole(causal + 1)
    found, cumulative = call.tensors(0, 1, 2), call.tensor(ends)
    if found is None or call.flag(causal) is None or (before is not None and before >= 0):
        return None
    q, k, v = found
    if len(q.dims) != len("thd") or len(k.dims) < len(q.dims) or not k.dims[-2] or q.dims[1] % k.dims[-2]:
        return None
    lengths, seen, new = call.lengths, call.whole(longest), q.dims[0]
    if cumulative is not None and cumulative.n == 2 and seen is not None and seen >= new:
        pairs = new * seen - new * (new - 1) // 2 if call.flag(causal) else new * seen
        lengths = Lengths(new, seen, pairs, 0, 0)
    widths = (q.dims[1] * q.dims[2], k.dims[-2] * k.dims[-1], v.dims[-2] * v.dims[-1], q.dims[1] * v.dims[-1])
    return passed(call, q, widths, k.dtype, lengths)
