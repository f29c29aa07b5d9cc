"""Kernels that go through their tensors element by element, and reductions."""

from __future__ import annotations

import math
from typing import NamedTuple

from roofline.cost import Work
from roofline.diagnosis.costs.call import BOOL, INT64, Call, Tensor
from roofline.diagnosis.costs.registry import cost, rule
from roofline.diagnosis.costs.tensors import broadcast, promoted, streamed

# FLOPs an element are the convention of the small kernels: 1, and 3 of an activation with its gradient.
_ONE = """abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh
erf erfc erfinv floor ceil round trunc frac sign sgn clamp clamp_min clamp_max threshold bitwise_not nan_to_num
pow logit square positive relu relu6 hardtanh leaky_relu conj_physical real imag angle deg2rad special_expit
tril triu flip roll __lshift__ __rshift__ bitwise_left_shift alpha_dropout exponential
asinh acosh atanh absolute digamma lgamma i0 sinc hardshrink native_channel_shuffle channel_shuffle pixel_shuffle
pixel_unshuffle special_entr special_erfcx special_ndtri special_log_ndtr special_i0e special_i1 special_i1e
special_digamma special_ndtr rot90"""
_ACTIVATIONS = (
    """sigmoid tanh gelu silu mish elu selu celu softplus hardswish hardsigmoid log_sigmoid_forward softshrink"""
)
_TWO = """add sub mul div floor_divide remainder fmod pow atan2 maximum minimum bitwise_and bitwise_or bitwise_xor
__and__ __or__ __xor__ __iand__ __ior__ rsub xlogy hypot fmax fmin lerp true_divide masked_fill logaddexp copysign
heaviside nextafter ldexp native_dropout_backward _masked_scale logaddexp2 gcd lcm igamma
igammac bitwise_right_shift special_xlog1py special_zeta prelu _prelu_kernel cross linalg_cross"""
_GRADIENTS = """threshold_backward sigmoid_backward tanh_backward gelu_backward silu_backward elu_backward
hardswish_backward hardtanh_backward leaky_relu_backward softplus_backward logit_backward hardsigmoid_backward
mish_backward log_sigmoid_backward glu_jvp softshrink_backward hardshrink_backward"""
_TESTS = "eq ne lt le gt ge logical_and logical_or logical_xor isclose"
_TESTS_OF_ONE = "isnan isinf isfinite logical_not isposinf isneginf signbit"
_THREE = "addcmul addcdiv where _s_where clamp_tensor lerp_tensor"
_WRITES = """fill_ zero_ uniform_ normal_ random_ bernoulli_ exponential_ cauchy_ log_normal_ geometric_ fill zero"""


def _names(text: str, *, in_place: bool = True) -> list[str]:
    plain = [f"aten::{name}" for name in text.split()]
    return plain + [f"{name}_" for name in plain if in_place and not name.endswith("_")]


def _pointwise(call: Call, operands: int, flops: int, result: Tensor | None = None) -> Work | None:
    """Reads its operands, writes one tensor: itself in place, the one that it is given, or one that they make."""
    tensors = [each for each in call.every()]
    read = tensors[:operands]
    if not read:
        return None
    if call.name.endswith("_") and not call.name.endswith("__"):
        written = read[0]
    elif len(tensors) > operands:
        written = tensors[operands]
    else:
        shape = broadcast(read)
        if shape is None:
            return None
        written = promoted(read).like(*shape) if result is None else result.like(*shape)
    numbers = [each for each in read if each.dims] or read
    return streamed(numbers, [written], flops=flops, n=written.n)


@cost(*_names(_ONE))
def of_one(call: Call) -> Work | None:
    """One operand, as exp; a second one makes it an operator of two, as pow."""
    two = call.name.removesuffix("_") in ("aten::pow", "aten::clamp_min", "aten::clamp_max")
    second = call.tensor(1) if two else None
    return _pointwise(call, 2 if second is not None else 1, 1)


@cost(*_names(_ACTIVATIONS))
def activations(call: Call) -> Work | None:
    """An activation."""
    return _pointwise(call, 1, 3)


@cost(*_names(_TWO))
def of_two(call: Call) -> Work | None:
    """Two operands, of which one may be a number."""
    return _pointwise(call, 1 + (call.tensor(1) is not None), 1)


@cost(*_names(_GRADIENTS, in_place=False))
def gradients(call: Call) -> Work | None:
    """The gradient of an activation: reads the gradient and what the activation read or wrote."""
    return _pointwise(call, 2, 3)


@cost(*_names(_TESTS))
def tests(call: Call) -> Work | None:
    """A comparison, which writes truth values."""
    return _pointwise(call, 1 + (call.tensor(1) is not None), 1, Tensor((), BOOL))


@cost(*_names(_TESTS_OF_ONE))
def tests_of_one(call: Call) -> Work | None:
    """A test of each element."""
    return _pointwise(call, 1, 1, Tensor((), BOOL))


@cost("aten::where", "aten::_s_where", "aten::addcmul", "aten::addcmul_", "aten::addcdiv", "aten::addcdiv_")
def of_three(call: Call) -> Work | None:
    """Three operands, of which some may be numbers."""
    count = sum(call.tensor(at) is not None for at in range(3))
    if "where" not in call.name:
        return _pointwise(call, count, 2)
    values = [each for each in (call.tensor(1), call.tensor(2)) if each is not None]
    return _pointwise(call, count, 0, promoted(values)) if values else None


@cost(*_names(_WRITES, in_place=False), "aten::arange", "aten::fill")
def writes(call: Call) -> Work | None:
    """Writes its tensor and reads none."""
    tensors = [each for each in call.every() if each.dims] or list(call.every()[:1])
    return streamed([], tensors[:1], flops=0) if tensors else None


@cost("aten::copy_", "aten::_copy_from", "aten::_to_copy", "aten::clone", "aten::contiguous", "aten::to")
def copy(call: Call) -> Work | None:
    """copy_(to, from) reads the second and writes the first; clone reads and writes one."""
    first, second = call.tensor(0), call.tensor(1)
    if first is None:
        return None
    if call.name != "aten::copy_":
        return streamed([first], [first], flops=0)
    return None if second is None else streamed([second], [first], flops=0)


@cost("aten::glu")
def glu(call: Call) -> Work | None:
    """(x, dim): half of x times the sigmoid of the other half."""
    x = call.tensor(0)
    return None if x is None or not x.dims or x.n % 2 else streamed([x], [x.like(x.n // 2)], flops=3, n=x.n // 2)


@cost("aten::glu_backward")
def glu_backward(call: Call) -> Work | None:
    """(dy, x, dim): dx is as long as x, twice dy."""
    found = call.tensors(0, 1)
    return None if found is None or not found[0].dims else streamed(found, found[1:], flops=3, n=found[1].n)


@cost("aten::_prelu_kernel_backward")
def prelu_backward(call: Call) -> Work | None:
    """(dy, x, weight): writes the gradients of x and of each of its weights, which are summed up afterwards."""
    found = call.tensors(0, 1, 2)
    return None if found is None or not found[0].dims else streamed(found, [found[1], found[1]], flops=2)


@cost("aten::rrelu_with_noise", "aten::rrelu_with_noise_")
def rrelu(call: Call) -> Work | None:
    """(x, noise, …): writes y and the noise."""
    x = call.tensor(0)
    return None if x is None or not x.dims else streamed([x], [x, x], flops=1)


@cost("^aten::fake_quantize_per_(tensor|channel)_affine_cachemask\\w*$")
def fake_quantised(call: Call) -> Work | None:
    """(x, scale, …): writes x as its format would keep it, and what was not cut off."""
    x = call.tensor(0)
    return None if x is None or not x.dims else streamed([x], [x, Tensor(x.dims, BOOL)], flops=2)


@cost("aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_gru_cell")
def cell(call: Call) -> Work | None:
    """(gates of x, gates of h, state, …): writes the new states and what the gradient needs, the gates."""
    found = call.tensors(0, 1, 2)
    if found is None or not found[0].dims:
        return None
    states = 2 if "lstm" in call.name else 1
    return streamed(found, [*[found[2]] * states, found[0]], flops=3, n=found[0].n)


@cost("aten::_transform_bias_rescale_qkv")
def qkv(call: Call) -> Work | None:
    """(qkv[batch, positions, 3 width], bias): adds it, scales q, writes three tensors."""
    found = call.tensors(0, 1)
    return None if found is None or not found[0].dims else streamed(found, found[:1], flops=1, n=found[0].n)


@cost("aten::native_dropout", "aten::_fused_dropout")
def dropout(call: Call) -> Work | None:
    """Reads x, writes y and a mask of truth values."""
    x = call.tensor(0)
    return None if x is None else streamed([x], [x, Tensor(x.dims, BOOL)], flops=1)


@cost("^aten::(_?cat|stack|concat|concatenate|[hvd]stack|column_stack)$")
def cat(call: Call) -> Work | None:
    """Reads a list and writes it as one tensor."""
    parts = call.list(0)
    # A list of old files has no lengths of its own; of an empty tensor, nothing is read.
    return streamed(parts, [each.like(each.n) for each in parts], flops=0) if parts else None


_REDUCTIONS = """sum nansum nanmedian histc bincount special_logsumexp mean prod max min amax amin aminmax argmax argmin
any all norm linalg_vector_norm var std var_mean std_mean logsumexp median count_nonzero mode"""
_WITH_PLACES = {f"aten::{each}" for each in ("max", "min", "median", "nanmedian", "mode")}
_OF_TWO = {"aten::var_mean", "aten::std_mean", "aten::aminmax"}
_RESULTS = {"aten::argmax": INT64, "aten::argmin": INT64, "aten::any": BOOL, "aten::all": BOOL}


@cost(*_names(_REDUCTIONS, in_place=False), several=True)
def reduction(call: Call) -> Work | None:
    """Reads a tensor once, writes what is left of it, as far as the file says along which dimensions it reduces."""
    x = call.tensor(0)
    if x is None or not x.dims:
        return None
    second = call.tensor(1)
    if second is not None and second.dims and call.name in ("aten::max", "aten::min"):
        return _pointwise(call, 2, 1)
    left = _left(x, call)
    written = [Tensor((left,), _RESULTS.get(call.name, x.dtype))] if left else []
    if left and call.name in _WITH_PLACES:
        written.append(Tensor((left,), INT64))
    if left and call.name in _OF_TWO:
        written *= 2
    return streamed([x], written, flops=1, n=x.n, op="reduction")


def _left(x: Tensor, call: Call) -> int:
    """Elements of the result, 0 where that is not recorded; those of a norm stand behind its order."""
    at = 2 if call.name in ("aten::norm", "aten::linalg_vector_norm") else 1
    single = call.whole(at)
    dims = call.wholes(at) if single is None else (single,)
    if not dims:
        return 0
    reduced = {each % len(x.dims) for each in dims}
    return math.prod(size for place, size in enumerate(x.dims) if place not in reduced)


@cost(
    "aten::cumsum",
    "aten::cumprod",
    "aten::cummax",
    "aten::cummin",
    "aten::logcumsumexp",
    "aten::_logcumsumexp",
    "aten::cumsum_",
    "^(fbgemm|fb)::asynchronous_\\w*cumsum$",
    several=True,
)
def scan(call: Call) -> Work | None:
    """Reads a tensor and writes one of its length."""
    tensors = [each for each in call.every() if each.dims]
    return streamed(tensors[:1], tensors[:1], flops=1, op="reduction") if tensors else None


@cost("aten::_cummax_helper", "aten::_cummin_helper")
def scan_with_places(call: Call) -> Work | None:
    """(x, values, places, dim): reads one, writes two."""
    found = call.tensors(0, 1, 2)
    return None if found is None or not found[0].dims else streamed(found[:1], found[1:], flops=1, op="reduction")


_ORDERS = ("sort", "topk", "argsort", "msort", "kthvalue", "unique_consecutive")


@cost(*(f"aten::{each}" for each in _ORDERS), several=True)
def order(call: Call) -> Work | None:
    """Reads its tensor and writes values and places; what sorting takes beyond is no necessity of the shapes."""
    x = call.tensor(0)
    if x is None or not x.dims:
        return None
    if call.name in ("aten::sort", "aten::msort", "aten::argsort"):
        written = [x.like(x.n)] if call.name != "aten::argsort" else []
        written += [Tensor((x.n,), INT64)] if call.name != "aten::msort" else []
        return streamed([x], written, flops=0, op="reduction")
    count, dim = call.whole(1), call.whole(2)
    if call.name != "aten::topk" or count is None or dim is None or not -len(x.dims) <= dim < len(x.dims):
        return streamed([x], [], flops=0, op="reduction")
    left = x.n // max(x.dims[dim], 1) * count
    return streamed([x], [x.like(left), Tensor((left,), INT64)], flops=0, n=x.n, op="reduction")


class Flow(NamedTuple):
    """What an element-by-element operator reads and writes: elements and format of each."""

    read: tuple[tuple[int, str], ...]
    written: tuple[int, str]

    of_one: bool = False  # of one operand, whatever tensors are beside it
    anew: bool = False  # it only lays out anew what it reads


def flow(call: Call) -> Flow | None:
    """The tensors that go into an operator of one element at a time and the one that comes out; None of any other."""
    known = rule(call.name)
    tensors = [each for each in call.every() if each.dims]
    if known is None or known.function not in _STREAMS or not tensors:
        return None
    if call.name == "aten::copy_":
        found, out = tensors[1:2], tensors[0]
    elif call.name.endswith("_") and not call.name.endswith("__"):
        found, out = tensors, tensors[0]
    else:
        shape = broadcast(tensors)
        if shape is None:
            return None
        out = promoted(tensors).like(*shape)
        found, out = tensors, Tensor(out.dims, BOOL) if known.function in (tests, tests_of_one) else out
    read, written = tuple((each.n, each.dtype.name) for each in found), (out.n, out.dtype.name)
    return Flow(read, written, known.function in _OF_ONE, known.function is copy and read == (written,))


_OF_ONE = (of_one, tests_of_one)
_STREAMS = (of_one, of_two, of_three, activations, gradients, tests, tests_of_one, copy)
