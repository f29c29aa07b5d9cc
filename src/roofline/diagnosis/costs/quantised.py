"""Matrix products of small formats beside PyTorch's own: packed weights, block scales, FP4, and casts into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from roofline.cost import Cost, Work
from roofline.diagnosis.costs.call import Call, Tensor
from roofline.diagnosis.costs.gemm import product
from roofline.diagnosis.costs.rates import rate
from roofline.diagnosis.costs.registry import cost
from roofline.diagnosis.costs.tensors import streamed
from roofline.dtypes import DTYPES, DType
from roofline.ops import linear

_PACKED = (2, 3, 4, 5, 6, 8)  # bits that a weight may take in a tensor of whole numbers
_WHOLE = ("uint8", "int8", "int16", "int32", "uint32", "int64")
_GEMM = r"\w*(gemm|_mm|_matmul|matmul_func|linear)\w*"


def _matrices(call: Call) -> list[Tensor]:
    return [each for each in call.every() if len(each.dims) == 2 and each.n > 1]


def _transposed(call: Call, a: Tensor, b: Tensor, written: DType | None) -> Work | None:
    """a[m, k] with b[n, k], or with b[k, n] where only that fits."""
    if a.dims[1] == b.dims[1]:
        b = b.like(b.dims[1], b.dims[0])
    return product(call, a, b, written=written)


@cost(
    "^fbgemm::(f8f8bf16|i8i8bf16)(_rowwise|_blockwise|_tensorwise|_cublas|_lite|_dynamic)?$",
    rf"^(vllm|sglang|aiter|sgl_kernel|_rocm_C)::{_GEMM}(block|a8w8)\w*$",
    rf"^(vllm|sglang)::\w*(w8a8|fp8)\w*(block|scaled){_GEMM}$",
    "^vllm::w8a8_\\w+_matmul_func$",
    "^sgl_kernel::(fp8|int8)_blockwise_scaled_mm$",
    "aiter::gemm_a16w16",
    "aiter::hipb_mm",
    "_rocm_C::LLMM1",
    "_rocm_C::wvSpltK",
    "aiter::wvSpltK",
)
def scaled(call: Call) -> Work | None:
    """(a[m, k], b[n, k] or b[k, n], scales, …): the first two matrices; an output of 16 bits."""
    both = _matrices(call)[:2]
    if len(both) < 2 or any(each.dtype.name in _WHOLE and each.dtype.bits > 8 for each in both):
        return None
    a, b = both
    if "block" in call.name and a.dtype.bits == 16 and b.dtype.bits == 8:
        a = Tensor(a.dims, b.dtype)  # cast on the way by a kernel of its own
    return _transposed(call, a, b, DTYPES["bf16"] if a.dtype.bits < 16 else None)


@cost("^sgl_kernel::dsv3_\\w+_gemm$", "^_C::cutlass_scaled_mm_azp$")
def into_first(call: Call) -> Work | None:
    """(out[m, n], a[m, k], b, …)."""
    three = _matrices(call)[:3]
    return None if len(three) < 3 else _transposed(call, three[1], three[2], three[0].dtype)


@cost("sgl_kernel::bmm_fp8", "^flashinfer::bmm_fp8$")
def batched(call: Call) -> Work | None:
    """(a[batch, m, k], b[batch, k, n], out[batch, m, n], …)."""
    found = call.tensors(0, 1, 2)
    if found is None or any(len(each.dims) != 3 for each in found):
        return None
    a, b, out = found
    return product(call, a, b, batch=a.dims[0], written=out.dtype)


@cost(
    "^_C::cutlass_(moe_mm|fp4_group_mm|fp4_moe_mm)$", "^sgl_kernel::(fp8_blockwise_scaled|cutlass_fp4)_group(ed)?_mm$"
)
def grouped_into(call: Call) -> Work | None:
    """(out[rows, n], a[rows, k], b[experts, ..], …): each row with the matrix of its expert.

    Which experts the rows chose is in no shape: at the least one is read.
    """
    found = call.tensors(0, 1, 2)
    if found is None or [len(each.dims) for each in found] != [2, 2, 3]:
        return None
    out, a, b = found
    four = "fp4" in call.name
    k, n = a.dims[1] * (2 if four else 1), out.dims[1]
    if b.dims[1] * b.dims[2] * (2 if four else 1) != k * n or a.dims[0] != out.dims[0]:
        return None
    kind = DTYPES["fp4"] if four else a.dtype
    held = DTYPES["fp4"] if four else b.dtype
    work = product(call, Tensor((a.dims[0], k), kind), Tensor((k, n), held), written=out.dtype)
    return None if work is None else Work(work.op, {"groups": b.dims[0], **work.dims}, work.cost)


@cost("^(_C|sgl_kernel)::cutlass_scaled_fp4_mm$", "^aiter::gemm_a4w4\\w*$")
def fp4(call: Call) -> Work | None:
    """(out[m, n],) a[m, k/2], b[n, k/2], scales of a and b, …: two numbers in a byte."""
    tensors = _matrices(call)
    small = [each for each in tensors if each.dtype.bits == 8 or each.dtype.name == "fp4"]
    out = next((each for each in tensors if each.dtype.bits >= 16), None)
    if len(small) < 2 or small[0].dims[1] != small[1].dims[1]:
        return None
    (m, half), n = small[0].dims, small[1].dims[0]
    kind, k = DTYPES["fp4"], 2 * half
    written = out.dtype if out is not None and out.dims == (m, n) else DTYPES["bf16"]
    return product(call, Tensor((m, k), kind), Tensor((k, n), kind), written=written)


@cost(
    "^_C::(\\w*marlin\\w*|awq|gptq|machete|allspark_w8a16)_(gemm|mm)$",
    "^sgl_kernel::(gptq_marlin|awq|gptq)_gemm$",
    "^vllm::\\w*(marlin|awq|gptq)\\w*_gemm$",
    "^aten::_weight_int[48]pack_mm$",
    "aten::_mixed_dtypes_linear",
    "^fbgemm::(bf16|f8)i4bf16_\\w+$",
)
def packed(call: Call) -> Work | None:
    """a[m, k] with weights that are packed into whole numbers, and their scales: the arithmetic is that of a.

    n is what makes the packed tensor hold k x n weights of a number of bits that there is: the last length of the
    scales, or one of the tensor's own.
    """
    tensors = call.every()
    a = next((each for each in tensors if len(each.dims) >= 2 and each.dtype.name not in _WHOLE), None)
    if a is None:
        return None
    rest = [each for each in tensors if each is not a]
    held = next((each for each in rest if len(each.dims) >= 2 and each.dtype.name in (*_WHOLE, "fp8")), None)
    compute = rate(call, a.dtype)
    if held is None or compute is None:
        return None
    k = a.dims[-1]
    bits = held.n * held.dtype.bits
    n = _columns(rest, held, bits, k)
    if n is None:
        return None
    m = a.n // k
    written = DTYPES["bf16"] if a.dtype.bits < 16 else None
    one = linear(m=m, n=n, k=k, activations=a.dtype, compute=compute, written=written)
    scales = [
        each for each in rest if each is not held and len(each.dims) == 2 and each.dims[-1] == n and each.n < k * n
    ]
    weights = held.dtype.of(held.n) + sum(each.dtype.of(each.n) for each in scales[:1])
    return Work(one.op, one.dims, Cost(one.cost.flops, {**one.cost.memory, "weights": weights}))


def _columns(rest: Sequence[Tensor], held: Tensor, bits: int, k: int) -> int | None:
    """The columns of a matrix of k rows that takes so many bits."""
    scales = [
        each.dims[-1 if len(each.dims) == 2 else -2] for each in rest if each is not held and len(each.dims) in (2, 3)
    ]
    other = [length for each in rest if each is not held and len(each.dims) == 1 for length in each.dims]
    for n in (*scales, *held.dims, *other):
        if n > 1 and not bits % (k * n) and bits // (k * n) in _PACKED:
            return n
    return None


@cost("^_moe_C::moe_wna16_marlin_gemm$")
def packed_experts(call: Call) -> Work | None:
    """(a[m, k], …, packed[experts, ..], …, top_k, …, format, m, n, k): `top_k` experts a row, as many read at least."""
    tensors = call.every()
    a = next((each for each in tensors if len(each.dims) == 2 and each.dtype.name not in _WHOLE), None)
    held = next((each for each in tensors if len(each.dims) == 3 and each.dtype.name in _WHOLE), None)
    numbers = [n for n in (call.whole(at) for at in range(len(call.dims)) if not call.tensor(at)) if n is not None]
    if a is None or held is None or len(numbers) < 5:
        return None
    compute = rate(call, a.dtype)
    for at in range(2, len(numbers) - 2):
        m, n, k = numbers[at : at + 3]
        top_k, bits = numbers[1], held.n * held.dtype.bits
        if (
            compute is None
            or a.dims != (m, k)
            or n < 2
            or not 0 < top_k <= held.dims[0]
            or bits % (held.dims[0] * n * k)
        ):
            continue
        if bits // (held.dims[0] * n * k) not in _PACKED:
            continue
        one = linear(m=m * top_k, n=n, k=k, activations=a.dtype, compute=compute)
        read = top_k * (bits // held.dims[0] // 8)
        moved = a.dtype.of(m * k) + a.dtype.of(m * top_k * n)
        dims = {"groups": held.dims[0], **one.dims}
        return Work(one.op, dims, Cost(one.cost.flops, {"weights": read, "activations": moved}))
    return None


@cost("^(tex_ts|transformer_engine)::te_gemm_ts$")
def engine(call: Call) -> Work | None:
    """(A[n, k], …, B[m, k], …, D[m, n], …) of Transformer Engine, in any order of rows: D says what remains of each."""
    three = [each for each in _matrices(call) if each.dims[0] > 1 or each.dims[1] > 1]
    if len(three) < 3:
        return None
    a, b, d = three[:3]
    m, n = d.dims
    k = a.n // n if not a.n % n else 0
    if not k or a.n != n * k or b.n != m * k:
        return None
    eight = [Tensor(each.dims, DTYPES["fp8"]) if each.dtype.bits == 8 else each for each in (a, b)]
    return product(call, Tensor((m, k), eight[1].dtype), Tensor((k, n), eight[0].dtype), written=d.dtype)


@cost("^_(LayerNorm)?LinearBackward$", forward=True, each=True)
def linear_gradient(call: Call) -> Work | None:
    """(dy), by the arguments of the layer: each product of its gradient, of x or of w, is as large as the layer's."""
    return None if call.forward is None else linear_function(replace(call.forward, kernel=call.kernel))


@cost("^(_Linear|_LayerNormLinear|LinearWithFrozenWeight|MatmulToFP32|LinearFunction)$")
def linear_function(call: Call) -> Work | None:
    """A layer's own function, (w[n, k], x[.., k], …) or x first: which is which changes neither FLOPs nor bytes.

    Where the kernel's name says that it takes 8 bits, they were cast by kernels before it.
    """
    every = [each for each in call.every() if len(each.dims) > 1 and each.n > 1]
    w = next((each for each in every if len(each.dims) == 2), None)
    both = [] if w is None else [each for each in every if each is not w and each.dims[-1] == w.dims[-1]]
    if w is None or not both:
        return None
    # Some versions hand on the weights once more, in 8 bits: x is what has other lengths.
    x = next((each for each in both if each.dims != w.dims), both[0])
    small = any(word in call.kernel.lower() for word in ("e4m3", "fp8", "f8f8"))
    kinds = [DTYPES["fp8"] if small else each.dtype for each in (x, w)]
    k = w.dims[-1]
    return product(call, Tensor((x.n // k, k), kinds[0]), Tensor((k, w.dims[0]), kinds[1]), written=x.dtype)


@cost(
    "^fbgemm::quantize_fp8_per_(row|tensor|col|group|block)$",
    "^(tex_ts|transformer_engine)::(fp8_)?cast_to_fp8\\w*$",
    "^_C::(static|dynamic)_scaled_int8_quant$",
    "^bitsandbytes::int8_\\w*quant$",
)
def cast(call: Call) -> Work | None:
    """Reads a tensor of 16 or 32 bits, writes a byte for each; the scales are few beside them."""
    x = max((each for each in call.every() if each.dtype.bits >= 16), key=lambda each: each.n, default=None)
    return None if x is None or not x.dims else streamed([x], [Tensor((x.n,), DTYPES["int8"])], flops=1)


@cost("^_C::scaled_fp4_quant$", "^(sgl_kernel|flashinfer)::\\w*fp4_quant\\w*$")
def cast_fp4(call: Call) -> Work | None:
    """Reads a tensor of 16 bits, writes half a byte for each and a scale of a byte for each 16."""
    x = max((each for each in call.every() if each.dtype.bits == 16), key=lambda each: each.n, default=None)
    if x is None or x.n % 16:
        return None
    written = [Tensor((x.n // 2,), DTYPES["int8"]), Tensor((x.n // 16,), DTYPES["int8"])]
    return streamed([x], written, flops=1, n=x.n)


@cost("^(_C|sgl_kernel)::awq_dequantize$", "^bitsandbytes::dequantize_(4bit|blockwise)$")
def dequantised(call: Call) -> Work | None:
    """(packed[k, n/8] of 32 bits, scales[groups, n], …) of AWQ; writes a matrix of the scales' format."""
    held = next((each for each in call.every() if len(each.dims) == 2 and each.dtype.name in _WHOLE), None)
    scales = next((each for each in call.every() if each.dims and each.dtype.name not in _WHOLE), None)
    if held is None or scales is None or "awq" not in call.name or len(scales.dims) != 2:
        return None
    y = scales.like(held.dims[0], scales.dims[1])
    return streamed([held, scales], [y], flops=1, n=y.n) if held.n * held.dtype.bits == 4 * y.n else None
