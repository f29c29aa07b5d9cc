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
    """act(g) · u of a tensor that holds g beside u: the widest; the output is half as wide, of 8 bits in some."""
    wide = max(_same(call), key=lambda each: each.dims[-1], default=None)
    if wide is None or wide.dims[-1] % 2:
        return None
    small = next((each for each in _same(call, wide.dims[-1] // 2) if each.dtype.bits < wide.dtype.bits), None)
    if small is not None:
        return streamed([wide], [small], flops=3, n=wide.n // 2, op="activation")
    return activation(m=math.prod(wide.dims[:-1]), width=wide.dims[-1] // 2, activations=wide.dtype)


@cost("^_C::gelu_(new|fast|quick)$", "^(sgl_kernel|aiter|vllm)::gelu(_\\w+)?$")
def ungated(call: Call) -> Work | None:
    """(y, x)."""
    found = call.tensors(0, 1)
    if found is None or found[0].dims != found[1].dims or not found[0].dims:
        return None
    return streamed(found[1:], found[:1], flops=3, op="activation")


@cost("^_C::(fused_add_)?rms_norm_\\w+quant$", "^(vllm|aiter)::\\w*rmsnorm2d_fwd_with_(add_)?\\w*quant$")
def norm_into_fp8(call: Call) -> Work | None:
    """(y of 8 bits, x, …, residual stream, …, weight): of one that adds, the stream is read and written."""
    tensors = call.every()
    y = next((each for each in tensors if len(each.dims) > 1 and each.dtype.bits == 8), None)
    wide = [] if y is None else [each for each in tensors if each.dims == y.dims and each.dtype.bits > 8]
    if y is None or not wide:
        return None
    added = "add" in call.name or (len(wide) > 1 and call.name.startswith("_C::"))
    if added and len(wide) < 2:
        return None
    weight = next((each for each in tensors if each.dims == (y.dims[-1],)), None)
    read = [*wide[: 1 + added], *([weight] if weight is not None else [])]
    return streamed(read, [y, *([wide[1]] if added else [])], flops=4 if added else 3, n=y.n, op="norm")


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
    "^_C::(?!\\w*rms_norm)\\w*per_token\\w*quant\\w*$",
    "_C_cache_ops::convert_fp8",
)
def quantised(call: Call) -> Work | None:
    """(output, x, …): reads one, writes the other."""
    found = call.tensors(0, 1)
    if found is None or found[0].n != found[1].n or not found[0].dims:
        return None
    small, large = sorted(found, key=lambda each: each.dtype.bits)
    return streamed([large], [small], flops=1)


@cost(
    "^(_C_cache_ops|aiter|vllm)::(reshape_and_cache|concat_and_cache)\\w*$",
    "sglang::store_cache",
    "^sgl_kernel::store_kv_cache$",
)
def store(call: Call) -> Work | None:
    """(K, V, caches, slots): reads the new K and V, writes them into the cache in its format."""
    found = call.tensors(0, 1)
    if found is None or not found[0].dims:
        return None
    cache = call.tensor(2)
    written = [Tensor(each.dims, cache.dtype if cache is not None else each.dtype) for each in found]
    return streamed(found, written, flops=0, op="copy")


@cost(
    "^(vllm|sglang|aiter)::(in|out)place_fused_experts$",
    "^(vllm|sglang)::fused_experts\\w*$",
    "^(aiter|vllm)::(rocm_aiter_)?fused_moe_?$",
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


@cost("^(_moe_C|sgl_kernel|aiter|vllm)::\\w*(topk_softmax|topk_sigmoid|grouped_topk|moe_fused_gate)\\w*$")
def router(call: Call) -> Work | None:
    """Scores of each expert and what is chosen of them, in any order: reads the widest, writes the others."""
    rows = _same(call)
    scores = max(rows, key=lambda each: each.dims[-1], default=None)
    if scores is None:
        return None
    chosen = [each for each in rows if each is not scores and each.dims[0] == scores.dims[0]]
    return streamed([scores], chosen, flops=5, n=scores.n, op="softmax")


@cost("^(_moe_C|sgl_kernel|aiter)::moe_sum\\w*$")
def summed(call: Call) -> Work | None:
    """(x[tokens, k, width], y[tokens, width])."""
    found = call.tensors(0, 1)
    if found is None or [len(each.dims) for each in found] != [3, 2]:
        return None
    return streamed(found[:1], found[1:], flops=1, op="reduction")


@cost("^(_moe_C|sgl_kernel|vllm)::\\w*moe_align_block_size$", several=True)
def aligned(call: Call) -> Work | None:
    """(chosen[tokens, k], …): reads them and writes their order, padded to whole blocks."""
    x = call.tensor(0)
    return None if x is None or len(x.dims) != 2 else streamed([x], [x], flops=0)


@cost("^_moe_C::moe_(un)?permute$", "^sgl_kernel::ep_moe_(pre|post)_reorder$", several=True)
def reordered(call: Call) -> Work | None:
    """Rows of tokens into those of experts, or back: reads the one and writes the other."""
    rows = [each for each in _same(call) if each.dtype.bits >= 8 and each.dims[-1] > 1]
    if len(rows) < 2:
        return None
    width = max(each.dims[-1] for each in rows)
    both = [each for each in rows if each.dims[-1] == width][:2]
    return streamed(both[:1], both[1:], flops=0, op="copy") if len(both) == 2 else None


@cost("^_C::merge_attn_states$", "^sgl_kernel::merge_state(_v2)?$")
def merged(call: Call) -> Work | None:
    """Two parts of an attention into one: three tensors of its output, and their sums of exponents."""
    three = [each for each in call.every() if len(each.dims) == 3]
    if len(three) < 3 or len({each.dims for each in three[:3]}) > 1:
        return None
    return streamed(three[:2], three[2:3], flops=3)


@cost("^Liger(SiLU|GELU)MulFunction$")
def liger_gate(call: Call) -> Work | None:
    """(g, u)."""
    found = call.tensors(0, 1)
    if found is None or found[0].dims != found[1].dims or not found[0].dims:
        return None
    return streamed(found, found[:1], flops=3, op="activation")


@cost("^Liger(SiLU|GELU)MulFunctionBackward$")
def liger_gate_backward(call: Call) -> Work | None:
    """(dy), where g and u are kept by the function: reads the three, writes the gradients of two."""
    dy = call.tensor(0)
    return None if dy is None or len(dy.dims) < 2 else streamed([dy] * 3, [dy] * 2, flops=6, n=dy.n, op="activation")


@cost("LigerRMSNormFunction")
def liger_norm(call: Call) -> Work | None:
    """(x, weight, …)."""
    found = call.tensors(0, 1)
    if found is None or len(found[1].dims) != 1 or not found[1].n or found[0].n % found[1].n:
        return None
    x, weight = found
    return norm(m=x.n // weight.n, width=weight.n, activations=x.dtype, weights=weight.dtype)


@cost("LigerCrossEntropyFunction")
def liger_loss(call: Call) -> Work | None:
    """(x[rows, classes], …): reads x and leaves its gradient in its place."""
    x = call.tensor(0)
    return None if x is None or len(x.dims) != 2 else streamed([x], [x], flops=5, op="softmax")


@cost("^LigerRopeFunction(Backward)?$")
def liger_rope(call: Call) -> Work | None:
    """(q, k, cos, sin, …)."""
    found = call.tensors(0, 1)
    return None if found is None or not found[0].dims else streamed(found, found, flops=3, op="rope")


@cost("^ApplyRotaryEmb_?(Backward)?$", "^FusedRoPEFunc(Backward)?$")
def rotated(call: Call) -> Work | None:
    """(x, …): rotates x, or its gradient."""
    x = call.tensor(0)
    return None if x is None or len(x.dims) < 2 else streamed([x], [x], flops=3, op="rope")


@cost("^(DaoAILab|causal_conv1d\\w*)::_?causal_conv1d_fwd\\w*$")
def short_convolution(call: Call) -> Work | None:
    """(x[sequences, channels, positions], w[channels, taps], …)."""
    found = call.tensors(0, 1)
    if found is None or [len(each.dims) for each in found] != [3, 2]:
        return None
    return streamed(found, found[:1], flops=2 * found[1].dims[1], n=found[0].n)
