"""Operators of serving engines and of libraries beside PyTorch: vLLM, SGLang, AITER, FlashInfer, FBGEMM."""

from __future__ import annotations

import math

from roofline.cost import Cost, Work
from roofline.diagnosis.costs.call import Call, Tensor
from roofline.diagnosis.costs.rates import rate
from roofline.diagnosis.costs.registry import cost
from roofline.diagnosis.costs.tensors import once, streamed
from roofline.dtypes import DTYPES
from roofline.ops import activation, linear, norm

_BYTE = DTYPES["int8"]


def _same(call: Call, width: int | None = None) -> list[Tensor]:
    """Tensors of two or more dimensions, those whose last length is `width` where one is asked for."""
    found = [each for each in call.every() if len(each.dims) > 1]
    return [each for each in found if width is None or each.dims[-1] == width]


@cost("^(_C|vllm|sgl_kernel|aiter|flashinfer|_rocm_C)::\\w*(silu|gelu|swiglu|act)\\w*_(and|mul)\\w*$")
def gated(call: Call) -> Work | None:
    """act(g) · u of a tensor that holds g beside u: the widest; the output is half as wide."""
    wide = max(_same(call), key=lambda each: each.dims[-1], default=None)
    if wide is None or wide.dims[-1] % 2:
        return None
    return activation(m=math.prod(wide.dims[:-1]), width=wide.dims[-1] // 2, activations=wide.dtype)


@cost(
    "^(_C|vllm|sgl_kernel|aiter|flashinfer)::(\\w*_)?(rms_?norm|layer_?norm|layernorm2d\\w*|rmsnorm2d\\w*)(_(fwd|forward|cu))?$"
)
def plain_norm(call: Call) -> Work | None:
    """(x, …, weight, …) in any order: rows of the width of the weight; of one that adds, the stream too."""
    weight = next((each for each in call.every() if len(each.dims) == 1 and each.n > 1), None)
    rows = _same(call, None if weight is None else weight.n)
    if weight is None or not rows:
        return None
    added = int("add" in call.name)
    m = math.prod(rows[0].dims[:-1])
    return norm(m=m, width=weight.n, added=added, activations=rows[0].dtype, weights=weight.dtype)


@cost("^(_C|vllm|sgl_kernel|aiter|flashinfer)::\\w*(rotary|rope)\\w*$")
def rotary(call: Call) -> Work | None:
    """(positions, q, k, …): rotates q and k in place; the table's rows are few beside them."""
    rows = _same(call)
    first = rows[0].dims[0] if rows else 0
    both = [each for each in rows if each.dims[0] == first][:2]
    if len(both) < 2:
        return None
    return streamed(both, both, flops=3, n=sum(each.n for each in both), op="rope")


@cost(
    "^_C::\\w*scaled_fp8_quant$",
    "^(sgl_kernel|aiter|vllm)::\\w*quant(_fp8|_int8)?$",
    "^_C::\\w*per_token\\w*quant\\w*$",
)
def quantised(call: Call) -> Work | None:
    """(output, x, …): reads one, writes the other."""
    found = call.tensors(0, 1)
    if found is None or found[0].n != found[1].n or not found[0].dims:
        return None
    small, large = sorted(found, key=lambda each: each.dtype.bits)
    return streamed([large], [small], flops=1)


@cost("^_C_cache_ops::reshape_and_cache\\w*$", "^sglang::store_cache$", "^(aiter|vllm)::reshape_and_cache\\w*$")
def store(call: Call) -> Work | None:
    """(K, V, caches, slots): reads the new K and V, writes them into the cache in its format."""
    found = call.tensors(0, 1)
    if found is None or not found[0].dims:
        return None
    cache = call.tensor(2)
    written = [Tensor(each.dims, cache.dtype if cache is not None else each.dtype) for each in found]
    return streamed(found, written, flops=0, op="copy")


@cost(
    "^(vllm|sglang|aiter)::(in|out)place_fused_experts$", "^(vllm|sglang)::fused_experts\\w*$", "^aiter::fused_moe_?$"
)
def experts(call: Call) -> Work | None:
    """(x[tokens, hidden], w1[experts, 2 inner, hidden], w2[experts, hidden, inner], weights[tokens, k], …).

    Which experts the tokens chose is in no shape: at the least the weights of k of them are read.
    """
    found = call.tensors(0, 1, 2, 3)
    if found is None or [len(each.dims) for each in found] != [2, 3, 3, 2]:
        return None
    x, w1, w2, chosen = found
    tokens, k = chosen.dims
    compute = rate(call, x.dtype if w1.dtype.bits >= 16 else w1.dtype)
    if compute is None or x.dims[1] != w1.dims[2] or w2.dims[1] != x.dims[1]:
        return None
    up = linear(m=tokens, n=w1.dims[1], k=w1.dims[2], weights=w1.dtype, activations=x.dtype, compute=compute)
    down = linear(m=tokens, n=w2.dims[1], k=w2.dims[2], weights=w2.dtype, activations=x.dtype, compute=compute)
    each = once(up, k).cost + once(down, k).cost
    memory = {"weights": each.memory["weights"], "activations": streamed([x], [x]).bytes}
    return Work("moe", {"tokens": tokens, "experts": w1.dims[0], "top_k": k}, Cost(each.flops, memory))


@cost("^fbgemm::permute_pooled_embs\\w*$", "^torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbs")
def permuted(call: Call) -> Work | None:
    """(rows, …): reads them and writes them in another order."""
    x = call.tensor(0)
    return None if x is None or len(x.dims) < 2 else streamed([x], [x], flops=0)


@cost("^fbgemm::(FloatToH?FP8\\w*Quantized|FloatToBfloat16Quantized)$")
def to_fp8(call: Call) -> Work | None:
    """Reads FP32, writes a byte for each."""
    x = call.tensor(0)
    return None if x is None else streamed([x], [Tensor((x.n,), _BYTE)], flops=1)


@cost("^fbgemm::H?FP8\\w*QuantizedToFloat$")
def from_fp8(call: Call) -> Work | None:
    """Reads bytes, writes an FP32 for each; the scales of the rows are few beside them."""
    x = call.tensor(0)
    return None if x is None else streamed([x], [], flops=1)


@cost("^fbgemm::recat_embedding_grad_output\\w*$")
def recat(call: Call) -> Work | None:
    """(rows, …): reads them and writes them in another order."""
    return permuted(call)
