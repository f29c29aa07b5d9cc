"""What kernels that stream their tensors demand: each read once, each written once."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.cost import Cost, Work
from roofline.diagnosis.costs.call import Tensor
from roofline.dtypes import DTYPES
from roofline.ops import VECTOR, elementwise

_ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", "fp8", "bf16", "fp16", "fp32", "fp64")


def streamed(
    read: Sequence[Tensor], written: Sequence[Tensor], *, flops: int = 1, n: int | None = None, op: str = "elementwise"
) -> Work:
    """The work of reading and writing these tensors once, with `flops` for each of `n` elements (of the largest)."""
    cost = Cost(launches=0)
    for tensors, way in ((read, (1, 0)), (written, (0, 1))):
        for each in tensors:
            size = each.distinct if way[0] else each.n
            cost += elementwise(n=size, reads=way[0], writes=way[1], flops=0, activations=each.dtype).cost
    count = max((each.n for each in (*read, *written)), default=0) if n is None else n
    dims = {"n": count, "reads": len(read), "writes": len(written)}
    return Work(op, dims, Cost({VECTOR: flops * count} if flops else {}, cost.memory))


def once(work: Work, calls: int) -> Work:
    """`calls` of a piece of work, done by one kernel."""
    if calls == 1:
        return work
    total = calls * work.cost
    return Work(work.op, {"batch": calls, **work.dims}, Cost(total.flops, total.memory))


def broadcast(tensors: Sequence[Tensor]) -> tuple[int, ...] | None:
    """The lengths that these tensors broadcast to; None where they do not."""
    found: list[int] = []
    for place in range(1, max((len(each.dims) for each in tensors), default=0) + 1):
        sizes = {each.dims[-place] for each in tensors if len(each.dims) >= place} - {1}
        if len(sizes) > 1:
            return None
        found.append(sizes.pop() if sizes else 1)
    return tuple(reversed(found))


def promoted(tensors: Sequence[Tensor]) -> Tensor:
    """One of the tensors in the format that arithmetic on all of them has; numbers alone do not decide."""
    deciding = [each for each in tensors if each.dims] or list(tensors)
    known = [each for each in deciding if each.dtype.name in _ORDER]
    if len(known) < len(deciding):
        return max(deciding, key=lambda each: each.dtype.bits)
    names = {each.dtype.name for each in known}
    if {"bf16", "fp16"} <= names and "fp32" not in names and "fp64" not in names:
        return known[0]._replace(dtype=DTYPES["fp32"])
    return max(known, key=lambda each: _ORDER.index(each.dtype.name))
