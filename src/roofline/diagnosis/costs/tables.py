"""FBGEMM: embedding tables of recommenders, and jagged tensors."""

from __future__ import annotations

from roofline.cost import Work
from roofline.diagnosis.costs.call import INT64, Call, Tensor
from roofline.diagnosis.costs.registry import cost
from roofline.diagnosis.costs.tensors import streamed
from roofline.dtypes import DTYPES


@cost("^fbgemm::split_embedding_codegen_lookup_\\w+_function\\w*$")
def lookup(call: Call) -> Work | None:
    """Pooled rows of several tables behind one another, of the widths that D_offsets holds, which is not a shape.

    They are known where all are alike: of one table by its rows, of several where the sum of the widths is as many
    times the widest. Arguments: …, weights, …, D_offsets[T + 1] at 6, sum and widest, indices at 11, offsets[T B + 1].
    """
    weights = next((each for each in (call.tensor(at) for at in (1, 2)) if each is not None and each.n), None)
    found = call.tensors(6, 11, 12)
    if weights is None or found is None:
        return None
    widths, index, offsets = found
    count, width, total, widest = widths.n - 1, 0, call.whole(7), call.whole(8)
    if total is not None and widest and total == count * widest:
        width = widest
    elif count == 1 and "rowwise" in call.name:
        rows = call.tensor(20)  # of the optimiser: one number a row
        width = weights.n // rows.n if rows is not None and rows.n and not weights.n % rows.n else 0
    if not width or not count or (offsets.n - 1) % count:
        return None
    picked = weights.like(min(index.n * width, weights.n))
    written = Tensor((offsets.n - 1, width), DTYPES["fp32"])
    return streamed([picked, index, offsets], [written], flops=1, n=index.n * width, op="embedding")


@cost("fbgemm::bounds_check_indices")
def checked(call: Call) -> Work | None:
    """(rows, indices, offsets, …): reads them."""
    found = call.tensors(1, 2)
    return None if found is None or not found[0].dims else streamed(found, [], flops=1)


@cost("^fbgemm::permute_(2D_|1D_)?sparse_(data|features)$", several=True)
def permuted(call: Call) -> Work | None:
    """(order[T], lengths[T, B], values, weights, …): the same features in another order, none left out or doubled."""
    found = call.tensors(0, 1, 2)
    if found is None or len(found[1].dims) < 1 or found[0].n != found[1].dims[0]:
        return None
    _, lengths, values = found
    weights = call.tensor(3)
    moved = [lengths, values, *([weights] if weights is not None and weights.n == values.n else [])]
    return streamed(moved, moved, flops=0, op="copy")


@cost(
    "fbgemm::jagged_to_padded_dense", "fbgemm::jagged_to_padded_dense_forward", "aten::_jagged_to_padded_dense_forward"
)
def padded(call: Call) -> Work | None:
    """(values[n, width], [offsets[B + 1]], [longest], …): reads the values, writes B x longest x width."""
    x, ends, longest = call.tensor(0), call.list(1), call.wholes(2)
    if x is None or len(ends) != 1 or not longest or len(longest) != 1:
        return None
    y = x.like(ends[0].n - 1, longest[0], *x.dims[1:])
    return streamed([x if x.n < y.n else y], [y], flops=0, op="copy")


@cost("fbgemm::segment_sum_csr")
def segments(call: Call) -> Work | None:
    """(batch, ends[n + 1], values): reads the values, writes a sum of each."""
    found = call.tensors(1, 2)
    if found is None or found[0].n < 2 or not found[1].dims:
        return None
    return streamed(found, [found[1].like(found[0].n - 1)], flops=1, op="reduction")


@cost("^(fbgemm|fb)::(offsets_range|lengths_range)$", several=True)
def ranges(call: Call) -> Work | None:
    """(offsets, values): writes a number for each value."""
    found = call.tensors(0, 1)
    return None if found is None or not found[1].dims else streamed(found[:1], [Tensor(found[1].dims, INT64)], flops=0)
