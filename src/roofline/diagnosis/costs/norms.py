"""Normalisations, softmax and losses, and their gradients."""

from __future__ import annotations

import math

from roofline.cost import Work
from roofline.diagnosis.costs.call import Call, Tensor
from roofline.diagnosis.costs.registry import cost
from roofline.diagnosis.costs.tensors import streamed
from roofline.dtypes import DTYPES
from roofline.ops import norm, softmax

_GRADIENT = 6  # FLOP an element: twice the forward's three


def _normed(x: Tensor, vectors: int, weights: Tensor | None, width: int, added: int = 0) -> Work | None:
    if not x.dims or not width or x.n % width:
        return None
    stored = weights.dtype if weights is not None else x.dtype
    return norm(m=x.n // width, width=width, added=added, vectors=vectors, activations=x.dtype, weights=stored)


def _vectors(call: Call, *places: int) -> int:
    return sum(call.tensor(at) is not None and bool(call.dims[at]) for at in places)


@cost("aten::native_layer_norm", "aten::_fused_rms_norm", "aten::layer_norm", "aten::rms_norm", several=True)
def layer_norm(call: Call) -> Work | None:
    """(x, normalised lengths, weight, bias, …): the lengths are those of the weight, else the last one."""
    x, weight = call.tensor(0), call.tensor(2)
    if x is None or not x.dims:
        return None
    shape = call.wholes(1)
    width = weight.n if weight is not None and weight.dims else math.prod(shape) if shape else x.dims[-1]
    return _normed(x, _vectors(call, 2, 3), weight, width)


@cost(
    "aten::native_batch_norm",
    "aten::cudnn_batch_norm",
    "aten::miopen_batch_norm",
    "aten::_native_batch_norm_legit",
    "aten::_native_batch_norm_legit_functional",
    "aten::_batch_norm_no_update",
    "aten::_batch_norm_with_update",
    "aten::batch_norm_elemt",
    "aten::instance_norm",
    several=True,
)
def batch_norm(call: Call) -> Work | None:
    """(x, weight, bias, running mean, running variance, …)."""
    x = call.tensor(0)
    if x is None or len(x.dims) < 2:
        return None
    return _normed(x, _vectors(call, 1, 2), call.tensor(1), x.dims[1])


@cost("aten::native_group_norm", "^aiter::_?groupnorm", several=True)
def group_norm(call: Call) -> Work | None:
    """(x, weight, bias, …)."""
    x = call.tensor(0)
    if x is None or len(x.dims) < 2:
        return None
    return _normed(x, _vectors(call, 1, 2), call.tensor(1), x.dims[1])


@cost(
    "aten::native_layer_norm_backward",
    "aten::_fused_rms_norm_backward",
    "aten::native_batch_norm_backward",
    "aten::native_group_norm_backward",
    "aten::batch_norm_backward_elemt",
    "aten::batch_norm_backward",
    several=True,
)
def norm_backward(call: Call) -> Work | None:
    """(dy, x, …): reads dy and x, writes dx."""
    return _gradient(call, 0, 1)


@cost("aten::batch_norm_stats", "aten::batch_norm_update_stats", several=True)
def statistics(call: Call) -> Work | None:
    """(x, …): reads x, writes mean and inverse deviation of each channel in FP32."""
    x = call.tensor(0)
    if x is None or len(x.dims) < 2:
        return None
    return streamed([x], [Tensor((2 * x.dims[1],), DTYPES["fp32"])], flops=2, n=x.n, op="norm")


@cost("aten::batch_norm_backward_reduce", several=True)
def gradient_sums(call: Call) -> Work | None:
    """(dy, x, mean, …): reads both, writes sums of each channel, which are few beside them."""
    found = call.tensors(0, 1)
    return None if found is None or len(found[0].dims) < 2 else streamed(found, [], flops=3, op="norm")


@cost("aten::_weight_norm_interface", several=True)
def weight_norm(call: Call) -> Work | None:
    """(v, g, dim): reads v and writes it scaled."""
    found = call.tensors(0, 1)
    return None if found is None or not found[0].dims else streamed(found, found[:1], flops=3, op="norm")


@cost("aten::_weight_norm_interface_backward", several=True)
def weight_norm_backward(call: Call) -> Work | None:
    """(dw, v, g, norms, dim)."""
    return _gradient(call, 0, 1)


@cost("aten::miopen_batch_norm_backward", "aten::cudnn_batch_norm_backward", several=True)
def norm_backward_x_first(call: Call) -> Work | None:
    """(x, dy, …)."""
    return _gradient(call, 0, 1)


def _gradient(call: Call, one: int, other: int) -> Work | None:
    found = call.tensors(one, other)
    if found is None or found[0].dims != found[1].dims or not found[0].dims:
        return None
    return streamed(found, found[:1], flops=_GRADIENT, op="norm")


@cost(
    "^(aten::)?FusedLayerNorm\\w*Function$",
    "^FusedRMSNorm\\w*Function$",
    "^LayerNormFn$",
    "^fused_layer_norm_cuda::forward",
)
def apex(call: Call) -> Work | None:
    """(x, weight, bias)."""
    x, weight = call.tensor(0), call.tensor(1)
    if x is None or not x.dims:
        return None
    width = weight.n if weight is not None and weight.dims else x.dims[-1]
    return _normed(x, _vectors(call, 1, 2), weight, width)


@cost(
    "^FusedLayerNorm\\w*FunctionBackward$",
    "^FusedRMSNorm\\w*FunctionBackward$",
    "^(LayerNormFn|LigerRMSNormFunction|LigerLayerNormFunction)Backward$",
    several=True,
)
def kept(call: Call) -> Work | None:
    """(dy, …), where x is kept by the function: reads both, writes dx."""
    dy = call.tensor(0)
    return None if dy is None or len(dy.dims) < 2 else streamed([dy, dy], [dy], flops=_GRADIENT, op="norm")


@cost("aten::_softmax", "aten::_log_softmax", "aten::_safe_softmax", "aten::softmax", "aten::log_softmax")
def soft(call: Call) -> Work | None:
    """(x, dim, …)."""
    return _rows(call.tensor(0), call.whole(1))


def _rows(x: Tensor | None, dim: int | None) -> Work | None:
    if x is None or not x.n:
        return None
    at = -1 if dim is None or not -len(x.dims) <= dim < len(x.dims) else dim
    width = x.dims[at] if x.dims else 1
    return softmax(m=x.n // width, width=width, activations=x.dtype)


@cost("^(aten::)?Scaled(UpperTriang)?(Masked)?Softmax$", "^GenericScaledMaskedSoftmax$", "^FusedScaleMaskSoftmax$")
def scaled_softmax(call: Call) -> Work | None:
    """(scores, …) of Megatron's and Apex' kernels; what a causal mask hides is neither read nor counted."""
    x = call.tensor(0)
    work = _rows(x, None)
    if x is None or work is None or "UpperTriang" not in call.name or len(x.dims) < 2 or x.dims[-1] != x.dims[-2]:
        return work
    size = x.dims[-1]
    half = Tensor((x.n // size // size, size * (size + 1) // 2), x.dtype)
    return streamed([half], [half], flops=5, op="softmax")


@cost("aten::_softmax_backward_data", "aten::_log_softmax_backward_data")
def soft_backward(call: Call) -> Work | None:
    """(dy, y, dim, …)."""
    found = call.tensors(0, 1)
    return None if found is None else streamed(found, found[:1], flops=5, op="softmax")


@cost("aten::_masked_softmax")
def masked(call: Call) -> Work | None:
    """(x, mask, …)."""
    found = call.tensors(0, 1)
    return None if found is None or not found[0].dims else streamed(found, found[:1], flops=5, op="softmax")


@cost("aten::_masked_softmax_backward")
def masked_backward(call: Call) -> Work | None:
    """(dy, y, mask, …)."""
    found = call.tensors(0, 1, 2)
    return None if found is None or not found[0].dims else streamed(found, found[:1], flops=5, op="softmax")


@cost("^Scaled\\w*SoftmaxBackward$")
def scaled_softmax_backward(call: Call) -> Work | None:
    """(dy, …), where y is kept by the function: reads both, writes dx."""
    dy = call.tensor(0)
    return None if dy is None or not dy.dims else streamed([dy, dy], [dy], flops=5, op="softmax")


@cost("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def nll(call: Call) -> Work | None:
    """(log probabilities[rows, classes], target, …): reads one of each row."""
    found = call.tensors(0, 1)
    if found is None:
        return None
    picked = Tensor((found[1].n,), found[0].dtype)
    return streamed([picked, found[1]], [], op="reduction")


@cost("aten::nll_loss_backward", "aten::nll_loss2d_backward")
def nll_backward(call: Call) -> Work | None:
    """(dy, log probabilities, target, …): writes one of each row; the zeros are another kernel's."""
    target, x = call.tensor(2), call.tensor(1)
    if target is None or x is None:
        return None
    return streamed([target], [Tensor((target.n,), x.dtype)], op="reduction")


@cost(
    "aten::mse_loss",
    "aten::l1_loss",
    "aten::smooth_l1_loss",
    "aten::huber_loss",
    "aten::binary_cross_entropy_with_logits",
    "aten::binary_cross_entropy",
    "aten::soft_margin_loss",
)
def difference(call: Call) -> Work | None:
    """(x, target, …): reads both, writes one of their length, which a reduction then reads."""
    found = call.tensors(0, 1)
    return None if found is None or not found[0].dims else streamed(found, found[:1], flops=2)


@cost("^aten::(mse_loss|l1_loss|smooth_l1_loss|huber_loss|binary_cross_entropy|soft_margin_loss)_backward$")
def difference_backward(call: Call) -> Work | None:
    """(dy, x, target, …)."""
    found = call.tensors(1, 2)
    return None if found is None or not found[0].dims else streamed(found, found[:1], flops=2)
