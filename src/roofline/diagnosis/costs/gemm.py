"""Matrix products: dense, batched, scaled, grouped."""

from __future__ import annotations

import math

from roofline.cost import Cost, Work
from roofline.diagnosis.costs.call import Call, Tensor, stored
from roofline.diagnosis.costs.rates import rate
from roofline.diagnosis.costs.registry import cost
from roofline.diagnosis.costs.tensors import broadcast, once, streamed
from roofline.dtypes import DTYPES, DType
from roofline.num import Num
from roofline.ops import linear

_SAME = 3  # lengths of a batched product


def product(
    call: Call, a: Tensor, b: Tensor, *, added: Tensor | None = None, batch: int = 1, written: DType | None = None
) -> Work | None:
    """`batch` products of a[.., m, k] and b[.., k, n], each plus `added`; None where the lengths do not fit."""
    if len(a.dims) < 2 or len(b.dims) < 2 or a.dims[-1] != b.dims[-2]:
        return None
    compute = rate(call, a.dtype)
    if compute is None:
        return None
    m, k, n = a.dims[-2], a.dims[-1], b.dims[-1]
    one = linear(m=m, n=n, k=k, weights=b.dtype, activations=a.dtype, compute=compute, written=written)
    work = once(one, batch)
    memory = dict(work.cost.memory)
    if added is not None:
        memory["weights"] = memory["weights"] + added.dtype.of(added.distinct)
    # What is expanded is in memory once.
    memory["weights"] = memory["weights"] - b.dtype.of(max(batch * k * n - _held(b, batch * k * n), 0))
    memory["activations"] = memory["activations"] - a.dtype.of(max(batch * m * k - _held(a, batch * m * k), 0))
    return Work(work.op, work.dims, Cost(work.cost.flops, memory))


def _held(tensor: Tensor, whole: int) -> int:
    """Elements that are in memory of the `whole` that the product reads."""
    return min(tensor.distinct, whole)


@cost("aten::mm", "aten::_int_mm")
def mm(call: Call) -> Work | None:
    """mm(a[m, k], b[k, n])."""
    found = call.tensors(0, 1)
    return None if found is None or len(found[0].dims) != 2 else product(call, *found)


@cost("aten::addmm", "aten::addmm_", "aten::_addmm_activation")
def addmm(call: Call) -> Work | None:
    """addmm(c, a[m, k], b[k, n], beta, alpha): a bias is read once; c is not where beta is 0."""
    found = call.tensors(1, 2)
    if found is None or len(found[0].dims) != 2:
        return None
    return product(call, *found, added=_read(call, 3))


@cost("aten::bmm")
def bmm(call: Call) -> Work | None:
    """bmm(a[batch, m, k], b[batch, k, n])."""
    return _batched(call, 0, 1)


@cost("aten::baddbmm", "aten::baddbmm_")
def baddbmm(call: Call) -> Work | None:
    """baddbmm(c, a[batch, m, k], b[batch, k, n], beta, alpha)."""
    return _batched(call, 1, 2, _read(call, 3))


def _read(call: Call, beta: int) -> Tensor | None:
    scale = call.text(beta)
    return None if scale in ("0", "0.", "0.0") else call.tensor(0)


@cost("aten::addbmm", "aten::addbmm_")
def addbmm(call: Call) -> Work | None:
    """addbmm(c, a[batch, m, k], b[batch, k, n], beta, alpha): one sum over all, as of a product of batch x k."""
    found = call.tensors(1, 2)
    if found is None or any(len(each.dims) != _SAME for each in found) or found[0].dims[0] != found[1].dims[0]:
        return None
    a, b = found
    if a.dims[2] != b.dims[1]:
        return None
    k = a.dims[0] * a.dims[2]
    return product(call, a.like(a.dims[1], k), b.like(k, b.dims[2]), added=_read(call, 3))


def _batched(call: Call, left: int, right: int, added: Tensor | None = None) -> Work | None:
    found = call.tensors(left, right)
    if found is None or len(found[0].dims) != _SAME or len(found[1].dims) != _SAME:
        return None
    return product(call, *found, added=added, batch=found[0].dims[0])


@cost("aten::linear", "^vllm::rocm_unquantized_gemm", "^torch_ipex::\\w*linear$", "te::linear")
def linear_of(call: Call) -> Work | None:
    """linear(x[.., k], w[n, k], b)."""
    found = call.tensors(0, 1)
    if found is None or len(found[1].dims) != 2 or not found[0].dims:
        return None
    x, w = found
    rows = x.like(math.prod(x.dims[:-1]), x.dims[-1])
    bias = call.tensor(2)
    return product(call, rows, w.like(w.dims[1], w.dims[0]), added=bias)


@cost("aten::matmul")
def matmul(call: Call) -> Work | None:
    """matmul(a, b) of any lengths: of vectors, of matrices, and of batches that broadcast."""
    found = call.tensors(0, 1)
    if found is None:
        return None
    a, b = found
    a = a if len(a.dims) > 1 else a.like(1, *a.dims)
    b = b if len(b.dims) > 1 else b.like(*b.dims, 1)
    if len(b.dims) == 2:
        return product(call, a.like(math.prod(a.dims[:-1]), a.dims[-1]), b)
    outer = broadcast([a.like(*a.dims[:-2]), b.like(*b.dims[:-2])])
    return None if outer is None else product(call, a, b, batch=math.prod(outer))


@cost(*(f"aten::{each}" for each in ("mv", "addmv", "addmv_", "dot", "vdot", "ger", "outer", "addr", "addr_", "inner")))
def vectors(call: Call) -> Work | None:
    """Products with a vector: they stream their operands."""
    tensors = [each for each in call.every() if each.dims]
    if len(tensors) < 2:
        return None
    return streamed(tensors, [], flops=2)


@cost(
    "aten::_scaled_mm",
    "aten::_scaled_mm_v2",
    "^sgl_kernel::(fp8|int8)_scaled_mm",
    "^(aiter|_rocm_C|vllm)::\\w*gemm_a8w8(?!\\w*block)\\w*$",
)
def scaled_mm(call: Call) -> Work | None:
    """a[m, k] · b[k, n] of small formats with scales; the output is of 16 bits unless its format is recorded."""
    found = call.tensors(0, 1)
    if found is None or any(len(each.dims) != 2 for each in found):
        return None
    a, b = found
    if a.dims[-1] != b.dims[0] and a.dims[-1] == b.dims[1]:
        b = b.like(b.dims[1], b.dims[0])
    if a.dtype.name == b.dtype.name == "fp4x2":  # packed along k
        a = Tensor((a.dims[0], 2 * a.dims[1]), DTYPES["fp4"])
        b = Tensor((2 * b.dims[0], b.dims[1]), DTYPES["fp4"])
    return product(call, a, b, written=_output(call))


@cost("^_C::cutlass_scaled_mm", "^_C::(cutlass|rocm)_\\w*scaled_mm")
def scaled_mm_into(call: Call) -> Work | None:
    """out[m, n] = a[m, k] · b[k, n] with scales, the output first."""
    found = call.tensors(0, 1, 2)
    if found is None or any(len(each.dims) != 2 for each in found):
        return None
    out, a, b = found
    if a.dims[-1] != b.dims[0] and a.dims[-1] == b.dims[1]:
        b = b.like(b.dims[1], b.dims[0])
    return product(call, a, b, written=out.dtype)


def _output(call: Call) -> DType:
    """The format of the output: bf16, unless an argument names a wider one by its number in PyTorch."""
    known = {"5": "fp16", "6": "fp32", "15": "bf16"}
    names = [known[each] for each in call.concrete[5:] if each in known]
    return DTYPES[names[0]] if names else DTYPES["bf16"]


@cost(
    "aten::_grouped_mm",
    "aten::_scaled_grouped_mm",
    "aten::_scaled_grouped_mm_v2",
    "^(deep_gemm|fbgemm|sgl_kernel)::\\w*grouped_gemm\\w*",
)
def grouped(call: Call) -> Work | None:
    """Rows of a[m, k], each with the matrix of its group of b[groups, k, n]; each group's matrix is read once.

    Groups may also lie along k, a[m, k] and b[k, n] into groups x m x n, along n, a[groups, m, k] and b[k, n], or be a
    batch. `offs` is the vector of whole numbers that says where each ends.
    """
    found = call.tensors(0, 1)
    if found is None:
        return None
    a, b = found
    narrow = stored("c10::BFloat16") if a.dtype.bits < 16 else None
    kind = (len(a.dims), len(b.dims))
    if kind == (_SAME, _SAME):
        return product(call, a, b, batch=a.dims[0], written=narrow) if a.dims[0] == b.dims[0] else None
    if kind == (2, _SAME):
        return _by_rows(call, a, b, narrow)
    return _by_ends(call, a, b, narrow)


def _by_ends(call: Call, a: Tensor, b: Tensor, narrow: DType | None) -> Work | None:
    ends = next((each for each in call.every() if len(each.dims) == 1 and each.dtype.name in ("int32", "int64")), None)
    kind = (len(a.dims), len(b.dims))
    if ends is None or not ends.n:
        return None
    if kind == (2, 2):
        return _by_depth(call, a, b, ends.n, narrow)
    if kind == (_SAME, 2) and a.dims[0] == ends.n and a.dims[2] == b.dims[0]:
        work = product(call, a.like(*a.dims[1:]), b, written=narrow)  # the columns of each group with its own rows
        rest = a.dtype.of((a.dims[0] - 1) * a.dims[1] * a.dims[2])
        return None if work is None else _more(work, ends.n, rest)
    return None


def _by_rows(call: Call, a: Tensor, b: Tensor, narrow: DType | None) -> Work | None:
    groups = min(b.dims[0], a.dims[0])  # that have a row at all, at the most
    if a.dims[1] != b.dims[1] and a.dims[1] == b.dims[2]:
        b = b.like(b.dims[0], b.dims[2], b.dims[1])
    work = product(call, a, b.like(*b.dims[1:]), written=narrow)
    if work is None:
        return None
    # At the least one group is used; which ones is in no shape.
    return Work(work.op, {"groups": groups, **work.dims}, work.cost)


def _by_depth(call: Call, a: Tensor, b: Tensor, groups: int, narrow: DType | None) -> Work | None:
    """The gradient of grouped weights: each group has its own part of k, and a matrix of its own."""
    work = product(call, a, b, written=narrow)
    size = a.dims[0] * b.dims[1]
    return None if work is None else _more(work, groups, (groups - 1) * (narrow or a.dtype).of(size))


def _more(work: Work, groups: int, moved: Num) -> Work:
    """A product whose groups move more than one of them does."""
    memory = {**work.cost.memory, "activations": work.cost.memory["activations"] + moved}
    return Work(work.op, {"groups": groups, **work.dims}, Cost(work.cost.flops, memory))
