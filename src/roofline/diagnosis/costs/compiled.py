"""Kernels that a compiler made: Inductor's, and what else Triton launches with its arguments recorded."""

from __future__ import annotations

import math

from roofline.cost import Work
from roofline.diagnosis.costs.call import Call, Tensor
from roofline.diagnosis.costs.gemm import product
from roofline.diagnosis.costs.registry import cost
from roofline.diagnosis.costs.tensors import streamed

_DENSE = (2, 3)


@cost("^triton_(poi|red|per|mix|split_scan|for)_")
def fused(call: Call) -> Work | None:
    """Inputs and outputs alike, each once, as far as the kernel's own count of elements goes.

    What it computes on them is not recorded: one FLOP an element is the least.
    """
    tensors = [each for each in call.every() if each.dims]
    numbers = [call.whole(at) for at in range(len(call.dims)) if not call.dims[at]]
    sizes = [each for each in numbers if each is not None and each > 1]
    if not tensors:
        return None
    # A look-up has a table as an argument and reads but as many of its elements as it has steps.
    steps = math.prod(sizes) if sizes else max(each.n for each in tensors)
    read = [Tensor((min(each.distinct, steps),), each.dtype) for each in tensors]
    return streamed(read, [], flops=1, n=max(each.n for each in read))


@cost("^triton_tem_")
def template(call: Call) -> Work | None:
    """A matrix product from a template: a[.., m, k], b[.., k, n], …, the output last."""
    tensors = [each for each in call.every() if len(each.dims) in _DENSE]
    if len(tensors) < 3:
        return None
    a, b, y = tensors[0], tensors[1], tensors[-1]
    if len({len(each.dims) for each in (a, b, y)}) > 1 or a.dims[-1] != b.dims[-2]:
        return None
    if y.dims[-2:] != (a.dims[-2], b.dims[-1]):
        return None
    return product(call, a, b, batch=a.dims[0] if len(a.dims) > 2 else 1)
