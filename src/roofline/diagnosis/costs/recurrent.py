"""Recurrent layers of cuDNN and MIOpen, and Fourier transforms: one call, many kernels."""

from __future__ import annotations

from roofline.cost import Cost, Work
from roofline.diagnosis.costs.call import Call
from roofline.diagnosis.costs.rates import rate
from roofline.diagnosis.costs.registry import cost
from roofline.diagnosis.costs.tensors import streamed


@cost("aten::_cudnn_rnn", "aten::miopen_rnn", several=True)
def recurrent(call: Call) -> Work | None:
    """(x[steps, sequences, width] or packed[rows, width], [weights and biases of each layer and direction], …)."""
    return _passes(call, 1)


@cost("aten::_cudnn_rnn_backward", "aten::miopen_rnn_backward", several=True)
def recurrent_backward(call: Call) -> Work | None:
    """The same arguments first: the gradients of inputs and of weights count as the forward pass each."""
    return _passes(call, 2)


def _passes(call: Call, times: int) -> Work | None:
    """Every matrix meets every row once in a pass: 2 x rows x its elements."""
    x, weights = call.tensor(0), call.list(1)
    compute = None if x is None else rate(call, x.dtype)
    matrices = [each for each in weights if len(each.dims) == 2]
    if x is None or compute is None or len(x.dims) < 2 or not matrices or matrices[0].dims[1] != x.dims[-1]:
        return None
    rows = x.n // x.dims[-1]
    flops = 2 * times * rows * sum(each.n for each in matrices)
    moved = streamed([x, *weights], [], flops=0).cost.memory
    return Work("recurrent", {"m": rows, "matrices": len(matrices)}, Cost({compute: flops}, moved))


@cost("aten::_fft_r2c", "aten::_fft_c2c", "aten::_fft_c2r", several=True)
def fourier(call: Call) -> Work | None:
    """(x, dims, …): reads x and writes as much at the least; what it computes depends on its factors."""
    x = call.tensor(0)
    if x is None or not x.dims:
        return None
    return streamed([x], [] if call.name.endswith("c2r") else [x], flops=0)
