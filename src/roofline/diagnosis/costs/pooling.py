"""Kernels that go over positions by windows: pooling, resizing, padding, sampling."""

from __future__ import annotations

import math

from roofline.cost import Work
from roofline.diagnosis.costs.call import INT64, Call, Tensor
from roofline.diagnosis.costs.convolution import length
from roofline.diagnosis.costs.registry import cost
from roofline.diagnosis.costs.tensors import streamed


@cost("^aten::(max|avg)_pool[123]d(_with_indices)?$")
def pool(call: Call) -> Work | None:
    """(x, window, stride, padding, dilation of a maximum, …): reads x; writes y, and its places, as far as told."""
    x = call.tensor(0)
    if x is None or len(x.dims) < 2:
        return None
    written: list[Tensor] = []
    window, stride, pad = call.wholes(1), call.wholes(2), call.wholes(3)
    wider = call.wholes(4) if "max" in call.name else None
    space = len(window) if window else 0
    steps, dilation = stride or window, wider or (1,) * space
    if window and steps and pad and space == len(steps) == len(pad) == len(dilation) < len(x.dims):
        rows = zip(x.dims[-space:], window, steps, pad, dilation, strict=True)
        sizes = [length(*each) for each in rows]
        if min(sizes) > 0:
            written.append(x.like(*x.dims[:-space], *sizes))
            if "indices" in call.name:
                written.append(Tensor(written[0].dims, INT64))
    return streamed([x], written, flops=1, op="reduction")


@cost("^aten::_?adaptive_(avg|max)_pool[123]d$", "^aten::fractional_max_pool[23]d$")
def adaptive_pool(call: Call) -> Work | None:
    """(x, lengths of the output); of a fractional one its window stands before them."""
    at = 2 if "fractional" in call.name else 1
    x, sizes = call.tensor(0), call.wholes(at)
    if x is None or len(x.dims) < 2:
        return None
    written = [x.like(*x.dims[: -len(sizes)], *sizes)] if sizes and len(sizes) < len(x.dims) else []
    if written and "max" in call.name:
        written.append(Tensor(written[0].dims, INT64))
    return streamed([x], written, flops=1, op="reduction")


@cost("^aten::_?(adaptive_|fractional_)?(max|avg)_pool[23]d(_with_indices)?_backward$", several=True)
def pool_backward(call: Call) -> Work | None:
    """(dy, x, …, indices): reads dy and the indices, writes dx."""
    found = call.tensors(0, 1)
    if found is None or len(found[0].dims) < 2 or len(found[1].dims) < 2:
        return None
    dy, x = found
    indices = [Tensor(dy.dims, INT64)] if "max" in call.name else []
    return streamed([dy, *indices], [x], flops=1, op="reduction")


@cost("^aten::_?upsample_[a-z]+_?[a-z]*[123]d(_aa)?$")
def upsample(call: Call) -> Work | None:
    """(x, lengths of the output, …)."""
    x, sizes = call.tensor(0), call.wholes(1)
    if x is None or not sizes or len(x.dims) <= len(sizes):
        return None
    return streamed([x], [x.like(*x.dims[: -len(sizes)], *sizes)], flops=1)


@cost("^aten::_?upsample_[a-z]+_?[a-z]*[123]d(_aa)?_backward$", several=True)
def upsample_backward(call: Call) -> Work | None:
    """(dy, lengths of y, lengths of x, …): reads dy, writes dx."""
    dy, sizes = call.tensor(0), call.wholes(2)
    if dy is None or not sizes or len(sizes) != len(dy.dims):
        return None
    return streamed([dy], [dy.like(*sizes)], flops=1)


@cost("aten::constant_pad_nd", "^aten::(reflection|replication)_pad[123]d$", several=True)
def pad(call: Call) -> Work | None:
    """(x, [before and after of the last length, of the one before it, …], …); negative ones cut."""
    x, more = call.tensor(0), call.wholes(1)
    if x is None or not x.dims:
        return None
    if more is None:  # not recorded: reads x, and writes as much of it at least
        return streamed([x], [x], flops=0)
    if len(more) % 2 or len(more) > 2 * len(x.dims):
        return None
    sizes = list(x.dims)
    for at in range(len(more) // 2):
        sizes[-1 - at] += more[2 * at] + more[2 * at + 1]
    y = x.like(*sizes) if min(sizes) > 0 else None
    return None if y is None else streamed([x if x.n < y.n else y], [y], flops=0)


@cost("^aten::(reflection|replication)_pad[123]d_backward$", several=True)
def pad_backward(call: Call) -> Work | None:
    """(dy, x, …): reads dy, writes dx."""
    found = call.tensors(0, 1)
    return None if found is None or not found[0].dims else streamed(found[:1], found[1:], flops=1)


@cost("aten::grid_sampler_2d", "aten::grid_sampler_3d", "aten::cudnn_grid_sampler")
def sample(call: Call) -> Work | None:
    """(x[n, channels, ..], grid[n, .., dims]): reads the grid and writes y; how much of x, its values say."""
    found = call.tensors(0, 1)
    if found is None or len(found[0].dims) < 3 or len(found[0].dims) != len(found[1].dims):
        return None
    x, grid = found
    y = x.like(x.dims[0], x.dims[1], *grid.dims[1:-1])
    return streamed([grid], [y], flops=1, n=y.n)


@cost("aten::im2col")
def columns(call: Call) -> Work | None:
    """(x[.., channels, h, w], window, dilation, padding, stride): each window as a column."""
    x, steps = call.tensor(0), [call.wholes(at) for at in range(1, 5)]
    if x is None or len(x.dims) < 3 or any(each is None or len(each) != 2 for each in steps):
        return None
    window, dilation, padding, stride = (each or () for each in steps)
    rows = zip(x.dims[-2:], window, stride, padding, dilation, strict=True)
    places = math.prod(length(*each) for each in rows)
    if places < 1:
        return None
    return streamed([x], [x.like(*x.dims[:-2], math.prod(window), places)], flops=0)


@cost("aten::col2im")
def of_columns(call: Call) -> Work | None:
    """(columns[.., channels times window, places], lengths of the output, window, …)."""
    x, sizes, window = call.tensor(0), call.wholes(1), call.wholes(2)
    if x is None or len(x.dims) < 2 or not sizes or not window or x.dims[-2] % math.prod(window):
        return None
    return streamed([x], [x.like(*x.dims[:-2], x.dims[-2] // math.prod(window), *sizes)], flops=1)
