"""Convolutions and their gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable

from roofline.cost import Cost, Work
from roofline.diagnosis.costs.call import Call, Tensor
from roofline.diagnosis.costs.rates import rate
from roofline.diagnosis.costs.registry import cost
from roofline.ops import conv

Sizes = tuple[int, ...]


def outputs(calls: Iterable[Call]) -> dict[tuple[Sizes, Sizes], Sizes]:
    """Lengths of the outputs of convolutions by those of x and W, as their gradients have them: where only one fits.

    Files of PyTorch up to 1.13 do not hold strides and padding.
    """
    found: dict[tuple[Sizes, Sizes], set[Sizes]] = {}
    for call in calls:
        tensors = call.tensors(0, 1, 2)
        if tensors is None:
            continue
        one, other, w = tensors
        x, dy = (other, one) if call.name == "aten::convolution_backward" else (one, other)
        found.setdefault((x.dims, w.dims), set()).add(dy.dims)
    return {key: sizes.pop() for key, sizes in found.items() if len(sizes) == 1}


def _work(call: Call, x: Tensor, w: Tensor, y: Sizes, groups: int) -> Work | None:
    """The work of x[images, channels, ..], W[filters, channels/groups, ..] and y[images, filters, ..]."""
    compute = rate(call, x.dtype)
    if compute is None or len(x.dims) < 2 or len(w.dims) != len(x.dims) or len(y) != len(x.dims) or groups < 1:
        return None
    if w.dims[1] * groups != x.dims[1] or y[1] != w.dims[0] or y[0] != x.dims[0]:
        return None
    return conv(
        images=x.dims[0],
        channels=x.dims[1],
        filters=w.dims[0],
        depth=w.dims[1],
        inputs=math.prod(x.dims[2:]),
        outputs=math.prod(y[2:]),
        taps=math.prod(w.dims[2:]),
        weights=w.dtype,
        activations=x.dtype,
        compute=compute,
    )


def _groups(x: Tensor, w: Tensor) -> int:
    """Groups as the lengths have them."""
    return x.dims[1] // w.dims[1] if len(w.dims) > 1 and w.dims[1] and not x.dims[1] % w.dims[1] else 0


def _either(call: Call, x: Tensor, w: Tensor, y: Sizes, transposed: bool) -> Work | None:
    """A convolution, or a transposed one, which is the gradient of one: x and y change places."""
    if len(x.dims) < 2 or len(y) < 2 or len(w.dims) < 2:
        return None
    if not transposed:
        return _work(call, x, w, y, _groups(x, w))
    return _work(call, x.like(*y), w, x.dims, _groups(x.like(*y), w))


def length(size: int, taps: int, stride: int, pad: int, dilation: int) -> int:
    """Positions of an output along one dimension."""
    return (size + 2 * pad - dilation * (taps - 1) - 1) // max(stride, 1) + 1


def _output(x: Tensor, w: Tensor, steps: tuple[Sizes, Sizes, Sizes], transposed: bool, more: Sizes) -> Sizes | None:
    """Lengths of y: of stride, padding and dilation, each for all dimensions or for each."""
    space = len(x.dims) - 2
    stride, pad, dilation = (_each(each, space) for each in steps)
    if space < 1 or stride is None or pad is None or dilation is None or len(w.dims) != len(x.dims):
        return None
    rows = zip(x.dims[2:], w.dims[2:], stride, pad, dilation, strict=True)
    if not transposed:
        sizes = tuple(length(*row) for row in rows)
        return (x.dims[0], w.dims[0], *sizes) if min(sizes) > 0 else None
    extra = _each(more or (0,), space) or (0,) * space
    back = [(n - 1) * s - 2 * p + d * (t - 1) + 1 for n, t, s, p, d in rows]
    sizes = tuple(each + e for each, e in zip(back, extra, strict=True))
    return (x.dims[0], w.dims[1] * _in_groups(x, w), *sizes) if min(sizes) > 0 else None


def _in_groups(x: Tensor, w: Tensor) -> int:
    """Groups of a transposed convolution cannot be told from its lengths: one is the rule."""
    return 1 if x.dims[1] == w.dims[0] else 0


def _each(values: Sizes, count: int) -> Sizes | None:
    return values if len(values) == count else values * count if len(values) == 1 else None


def _forward(
    call: Call, places: tuple[int, int, int | None], transposed: bool = False, more: Sizes = ()
) -> Work | None:
    """By the places of stride, padding and dilation, None for one that the operator does not have."""
    found, steps = call.tensors(0, 1), [(1,) if at is None else call.wholes(at) for at in places]
    if found is None:
        return None
    x, w = found
    if None in steps:  # up to 2022 no file holds them
        return _either(call, x, w, call.output, transposed) if call.output else None
    stride, pad, dilation = (each or () for each in steps)
    y = _output(x, w, (stride, pad, dilation), transposed, more)
    return None if y is None else _either(call, x, w, y, transposed)


@cost("aten::cudnn_convolution", "aten::miopen_convolution", "aten::miopen_depthwise_convolution")
def library(call: Call) -> Work | None:
    """(x, W, [bias,] padding, stride, dilation, groups, …)."""
    first = 2 if call.name.startswith("aten::cudnn") and call.tensor(2) is None and call.wholes(2) else 3
    return _forward(call, (first + 1, first, first + 2))


@cost("aten::cudnn_convolution_relu", "aten::cudnn_convolution_add_relu")
def fused(call: Call) -> Work | None:
    """(x, W, [z, alpha,] bias, stride, padding, dilation, groups)."""
    first = 3 if call.name.endswith("convolution_relu") else 5
    return _forward(call, (first, first + 1, first + 2))


@cost("aten::_slow_conv2d_forward", "aten::thnn_conv2d", "aten::slow_conv3d", "aten::slow_conv3d_forward")
def slow(call: Call) -> Work | None:
    """(x, W, kernel size, bias, stride, padding)."""
    return _forward(call, (4, 5, None))


@cost("aten::_slow_conv2d_backward", several=True)
def slow_gradients(call: Call) -> Work | None:
    """(dy, x, W, kernel size, stride, padding, which of dx, dW, db), the last behind outputs where these are given."""
    found = call.tensors(0, 1, 2)
    if found is None:
        return None
    dy, x, w = found
    asked = call.flags(6)
    return _times(_either(call, x, w, dy.dims, False), sum(asked[:2]) if asked is not None else 1)


@cost("aten::_convolution", "aten::convolution", "aten::convolution_overrideable")
def general(call: Call) -> Work | None:
    """(x, W, bias, stride, padding, dilation, transposed, output padding, groups)."""
    return _forward(call, (3, 4, 5), bool(call.flag(6)), call.wholes(7) or ())


@cost("^aten::conv[123]d$", "^aten::_?conv_depthwise[23]d$", "^aten::slow_conv_dilated[23]d$")
def plain(call: Call) -> Work | None:
    """(x, W, bias, stride, padding, dilation, groups); some have the kernel's lengths before the bias."""
    first = 4 if "wise" in call.name or "slow" in call.name else 3
    return _forward(call, (first, first + 1, first + 2))


@cost("aten::cudnn_convolution_transpose", "aten::miopen_convolution_transpose")
def transpose(call: Call) -> Work | None:
    """(x, W, padding, output padding, stride, dilation, …)."""
    first = 2 if call.wholes(2) else 3
    return _forward(call, (first + 2, first, first + 3), True, call.wholes(first + 1) or ())


@cost("aten::convolution_backward", "aten::convolution_backward_overrideable", several=True)
def gradients(call: Call) -> Work | None:
    """(dy, x, W, bias sizes, stride, padding, dilation, transposed, output padding, groups, which of dx, dW, db).

    Each of dx and dW counts as the forward pass does.
    """
    found, asked = call.tensors(0, 1, 2), call.flags(10)
    if found is None:
        return None
    dy, x, w = found
    work = _either(call, x, w, dy.dims, bool(call.flag(7)))
    # Where the mask is not recorded, one gradient is what there was at the least.
    return _times(work, sum(asked[:2]) if asked is not None else 1)


def _times(work: Work | None, count: int) -> Work | None:
    if work is None or count == 1:
        return work
    both = count * work.cost
    return Work(work.op, {**work.dims, "gradients": count}, Cost(both.flops, both.memory)) if count else None


@cost(
    "aten::cudnn_convolution_backward_input",
    "aten::cudnn_convolution_backward_weight",
    "aten::miopen_convolution_backward_input",
    "aten::miopen_convolution_backward_weight",
)
def one_gradient(call: Call) -> Work | None:
    """(sizes of what is asked for, …) of PyTorch up to 1.10: all three tensors stand in the call around it."""
    outer = call.outer
    found = outer.tensors(0, 1, 2) if outer is not None and outer.name.endswith("convolution_backward") else None
    if found is None:
        return None
    x, dy, w = found
    return _either(call, x, w, dy.dims, False)
