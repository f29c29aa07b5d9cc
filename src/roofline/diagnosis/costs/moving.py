"""Kernels that pick, place and copy by index: rows of tables, elements, masks, parts of lists."""

from __future__ import annotations

import math

from roofline.cost import Work
from roofline.diagnosis.costs.call import INT64, Call, Tensor
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


@cost("aten::index", "aten::_unsafe_index")
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
    "aten::scatter_",
    "aten::scatter",
    "aten::scatter_add_",
    "aten::scatter_add",
    "aten::scatter_reduce_",
    "aten::scatter_reduce",
    several=True,
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
    x, places, values = call.tensor(0), call.tensor(2), call.tensor(3)
    if places is None or x is None:
        return None
    if values is not None and values.dims:
        return streamed([places, values], [values], flops=0)
    dim = call.whole(1)
    if dim is None or not -len(x.dims) <= dim < len(x.dims) or not x.dims[dim]:
        return None
    return streamed([places], [x.like(x.n // x.dims[dim] * places.n)], flops=0)


@cost("aten::_index_put_impl_", "aten::index_put_", "aten::index_put", "aten::_unsafe_index_put", several=True)
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


@cost("aten::take")
def take(call: Call) -> Work | None:
    """(x, indices)."""
    x, places = call.tensor(0), call.tensor(1)
    if x is None or places is None:
        return None
    picked = Tensor(places.dims, x.dtype)
    return streamed([picked, places], [picked], flops=0)


@cost(
    *(f"aten::{each}" for each in ("masked_select", "nonzero", "_unique2", "unique_dim", "multinomial")), several=True
)
def chosen(call: Call) -> Work | None:
    """Reads its tensors once at least; how much it writes, their values say."""
    tensors = [each for each in call.every() if each.dims]
    return streamed(tensors, [], flops=0) if tensors else None


@cost("aten::searchsorted", "aten::bucketize")
def search(call: Call) -> Work | None:
    """A place among sorted numbers for each value; how much of these is read is not known."""
    values = call.tensor(1 if call.name == "aten::searchsorted" else 0)
    return None if values is None or not values.dims else streamed([values], [Tensor(values.dims, INT64)], flops=0)


@cost("aten::split_with_sizes_copy", "aten::split_copy", "aten::unbind_copy", "^fsdp::split_with")
def split(call: Call) -> Work | None:
    """(x, …): reads a tensor and writes it as parts."""
    x = call.tensor(0)
    return None if x is None or not x.dims else streamed([x], [x], flops=0)


@cost("aten::_chunk_cat", "^fsdp::chunk_cat$", "^fsdp::all_gather_copy_in", several=True)
def chunk_cat(call: Call) -> Work | None:
    """A list of tensors into one, which may be padded."""
    parts = call.list(0)
    return streamed(parts, [each.like(each.n) for each in parts], flops=0) if parts else None


@cost("aten::permute_copy", "aten::transpose_copy", "aten::view_copy", "aten::detach_copy", "aten::lift_fresh_copy")
def whole_copy(call: Call) -> Work | None:
    """A view that is made a tensor of its own."""
    x = call.tensor(0)
    return None if x is None or not x.dims else streamed([x], [x], flops=0)


@cost("aten::repeat", "aten::repeat_interleave", "aten::tile", several=True)
def at_least_read(call: Call) -> Work | None:
    """Reads its tensor and writes at least as much."""
    x = call.tensor(0)
    return None if x is None or not x.dims else streamed([x], [x], flops=0)


@cost("aten::_embedding_bag", "aten::_embedding_bag_forward_only", several=True)
def bag(call: Call) -> Work | None:
    """(table[rows, width], indices, offsets, …, whether the last offset is an end, at 7): a row of each index."""
    found = call.tensors(0, 1, 2)
    if found is None or len(found[0].dims) != 2:
        return None
    table, index, offsets = found
    bags = offsets.n - bool(call.flag(7))
    picked = table.like(index.n, table.dims[1])
    # Rows that are asked for more than once may come from a cache: the table is read once at the most.
    read = picked if picked.n < table.n else table
    return streamed([read, index, offsets], [table.like(bags, table.dims[1])], n=picked.n, op="embedding")


@cost("aten::_embedding_bag_dense_backward", several=True)
def bag_backward(call: Call) -> Work | None:
    """(dy[bags, width], indices, …, rows, …): reads the gradients, writes a row at least."""
    found = call.tensors(0, 1)
    if found is None or len(found[0].dims) != 2:
        return None
    dy, index = found
    return streamed([dy, index], [dy.like(1, dy.dims[1])], n=index.n * dy.dims[1], op="embedding")
