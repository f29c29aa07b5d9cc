"""Attention of serving engines over a paged cache: lengths are in no shape, but in the annotation of the pass."""

from __future__ import annotations

import math

from roofline.cost import Cost, Work
from roofline.diagnosis.costs.call import Call, Tensor
from roofline.diagnosis.costs.rates import rate
from roofline.diagnosis.costs.registry import cost
from roofline.dtypes import DType

_WINDOWED = ("sliding", "swa", "windowed", "chunkedcausal")


def passed(call: Call, q: Tensor, widths: tuple[int, int, int, int], held: DType) -> Work | None:
    """Attention of all requests of a pass, q[tokens, ..], with `widths` of q, K, V and y, all heads together [element].

    None where the pass is not annotated or its annotation does not fit, and of a kernel whose name says that it looks
    at a window, whose length nothing says.
    """
    lengths, name = call.lengths, call.kernel.lower()
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
    return passed(call, q, (of_q, of_k, of_v, of_y), held)


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
    return passed(call, q, (heads * key, key, 0, heads * rank), held)


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
    return passed(call, q, (heads * dim, kv_heads * dim, kv_heads * dim, heads * dim), cache.dtype)
