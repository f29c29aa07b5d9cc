"""Kernels that pick, place, pool and resize: rows by index, windows by position."""

from __future__ import annotations

import math

from roofline.cost import Work
from roofline.diagnosis.costs.call import INT64, Call, Tensor
from roofline.diagnosis.costs.convolution import length
from roofline.diagnosis.costs.registry import cost
from roofline.diagnosis.costs.tensors import broadcast, streamed
from roofline.ops import embedding


@cost("aten::embedding")
def look_up(call: Call) -> Work | None:
    """(table[rows, width], indices, …)."""
    found = call.tensors(0, 1)
    return None if found is None else _rows(found[0], found[1].n)


@cost("aten::index_select")
def index_select(call: Call) -> Work | None:
    """(table, dim, indices)."""
    table, index = call.tensor(0), call.tensor(2)
    if table is None or index is None:
        return None
    if call.whole(1) in (0, None):
        return _rows(table, index.n)
    dim = call.whole(1) or 0
    if not -len(table.dims) <= dim < len(table.dims) or not table.dims[dim]:
        return None
    picked = table.like(table.n // table.dims[dim] * index.n)
    return streamed([picked, index], [picked], flops=0)


def _rows(table: Tensor, count: int) -> Work | None:
    if len(table.dims) < 2:
        return streamed([table.like(count), Tensor((count,), INT64)], [table.like(count)], flops=0) if count else None
    width = math.prod(table.dims[1:])
    return embedding(m=count, width=width, rows=table.dims[0], weights=table.dtype, activations=table.dtype)


@cost("aten::index", "aten::_index")
def index(call: Call) -> Work | None:
    """(x, [indices of its first dimensions]): a mask of truth values leaves a number that no shape has."""
    x, places = call.tensor(0), call.list(1)
    if x is None or not x.dims or not places or len(places) > len(x.dims):
        return None
    shape = broadcast(places)
    if shape is None or any(each.dtype.name == "bool" for each in places):
        return None
    picked = x.like(math.prod(shape) * math.prod(x.dims[len(places) :]))
    return streamed([picked], [picked], flops=0)


@cost("aten::gather", "aten::take_along_dim")
def gather(call: Call) -> Work | None:
    """(x, dim, indices)."""
    x, places = call.tensor(0), call.tensor(2)
    if x is None or places is None:
        return None
    picked = Tensor(places.dims, x.dtype)
    return streamed([picked, places], [picked], flops=0)


@cost(
    "aten::scatter_", "aten::scatter", "aten::scatter_add_", "aten::scatter_add", "aten::scatter_reduce_", several=True
)
def scatter(call: Call) -> Work | None:
    """(x, dim, indices, values): writes as many elements as there are indices."""
    x, places, values = call.tensor(0), call.tensor(2), call.tensor(3)
    if x is None or places is None:
        return None
    touched = Tensor(places.dims, x.dtype)
    return streamed([places, *([touched] if values is not None else [])], [touched], flops=0)


@cost("aten::index_add_", "aten::index_copy_", "aten::index_add", "aten::index_copy", "aten::index_fill_", several=True)
def index_add(call: Call) -> Work | None:
    """(x, dim, indices, values): reads the values, writes as many."""
    places, values = call.tensor(2), call.tensor(3)
    if places is None or values is None:
        return None
    return streamed([places, values], [values], flops=0)


@cost("aten::_index_put_impl_", "aten::index_put_", "aten::index_put", several=True)
def index_put(call: Call) -> Work | None:
    """(x, [indices], values, …)."""
    values = call.tensor(2)
    return None if values is None or not values.dims else streamed([values], [values], flops=0)


@cost("aten::embedding_dense_backward", several=True)
def embedding_backward(call: Call) -> Work | None:
    """(dy, indices, rows, …): reads the gradients of the rows and writes those rows."""
    found = call.tensors(0, 1)
    if found is None or not found[0].dims:
        return None
    rows = call.whole(2)
    width = found[0].dims[-1]
    written = min(found[1].n, rows) if rows else 1
    return streamed([found[0]], [found[0].like(written, width)], flops=1)


@cost("aten::max_pool2d_with_indices", "aten::avg_pool2d", "aten::max_pool3d_with_indices", "aten::avg_pool3d")
def pool(call: Call) -> Work | None:
    """(x, window, stride, padding, …): reads x; writes the output, and its indices, where the window is recorded."""
    x = call.tensor(0)
    if x is None or len(x.dims) < 3:
        return None
    written: list[Tensor] = []
    window, stride, pad = call.wholes(1), call.wholes(2), call.wholes(3)
    space = len(window) if window else 0
    steps = stride or window
    if window and steps and pad and len(steps) == space == len(pad) and len(x.dims) > space:
        sizes = [length(n, t, s, p, 1) for n, t, s, p in zip(x.dims[-space:], window, steps, pad, strict=True)]
        if min(sizes) > 0:
            written.append(x.like(*x.dims[:-space], *sizes))
            if "indices" in call.name:
                written.append(Tensor(written[0].dims, INT64))
    return streamed([x], written, flops=1, op="reduction")


@cost(
    "aten::_adaptive_avg_pool2d", "aten::adaptive_avg_pool2d", "aten::adaptive_max_pool2d", "aten::_adaptive_avg_pool3d"
)
def adaptive_pool(call: Call) -> Work | None:
    """(x, lengths of the output)."""
    x, sizes = call.tensor(0), call.wholes(1)
    if x is None or len(x.dims) < 3:
        return None
    written = [x.like(*x.dims[: -len(sizes)], *sizes)] if sizes and len(sizes) < len(x.dims) else []
    return streamed([x], written, flops=1, op="reduction")


@cost(
    "aten::max_pool2d_with_indices_backward",
    "aten::avg_pool2d_backward",
    "aten::_adaptive_avg_pool2d_backward",
    "aten::upsample_nearest2d_backward",
    several=True,
)
def pool_backward(call: Call) -> Work | None:
    """(dy, x, …, indices): reads dy and the indices, writes dx; an upsampling has no x, so writes what is not known."""
    found = call.tensors(0, 1)
    if found is None or len(found[0].dims) < 3 or len(found[1].dims) < 3:
        return None
    dy, x = found
    indices = [Tensor(dy.dims, INT64)] if "indices" in call.name else []
    return streamed([dy, *indices], [x], flops=1, op="reduction")


@cost("^aten::upsample_\\w+$", "^aten::_upsample_\\w+$")
def upsample(call: Call) -> Work | None:
    """(x, lengths of the output, …)."""
    x, sizes = call.tensor(0), call.wholes(1)
    if x is None or not sizes or "backward" in call.name or len(x.dims) <= len(sizes):
        return None
    return streamed([x], [x.like(*x.dims[: -len(sizes)], *sizes)], flops=1)


@cost("aten::constant_pad_nd", "aten::reflection_pad2d", "aten::repeat", "aten::repeat_interleave", several=True)
def at_least_read(call: Call) -> Work | None:
    """Reads its tensor and writes at least as much."""
    x = call.tensor(0)
    return None if x is None or not x.dims else streamed([x], [x], flops=0)
