"""Costs of operators beside what PyTorch itself passes and returns: arguments stand where they are looked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofline.diagnosis.costs.call import read
from roofline.diagnosis.costs.registry import work_of

try:
    import torch
except ImportError:  # these tests are deselected where scripts/oracle-test has not installed it
    torch: Any = None

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore"),  # theirs, not ours
]

TYPES = {
    "torch.float32": "float",
    "torch.float16": "c10::Half",
    "torch.bfloat16": "c10::BFloat16",
    "torch.int64": "long int",
    "torch.bool": "bool",
}


def written(value: Any) -> str:
    """An argument as the profiler writes it."""
    if value is None:
        return ""
    return f"[{', '.join(map(written, value))}]" if isinstance(value, (list, tuple)) else str(value)


def recorded(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, list[Any]]:
    """The detail of a call as a trace has it, and its tensors."""
    dims, types, strides, concrete, tensors = [], [], [], [], []
    for at, each in enumerate(func._schema.arguments):
        value = kwargs.get(each.name, args[at] if at < len(args) and not each.kwarg_only else each.default_value)
        many = isinstance(value, (list, tuple)) and any(isinstance(one, torch.Tensor) for one in value)
        rows = value if many else [value] if isinstance(value, torch.Tensor) else []
        tensors += rows
        sizes, steps = [list(one.shape) for one in rows], [list(one.stride()) for one in rows]
        dims.append(sizes if many else sizes[0] if rows else [])
        strides.append(steps if many else steps[0] if rows else [])
        types.append(
            "TensorList" if many else TYPES[str(rows[0].dtype)] if rows else "Scalar" if value is not None else ""
        )
        concrete.append("" if rows else written(value))
    detail = {"dims": dims, "types": types, "strides": strides, "concrete": concrete}
    return json.dumps(detail).encode(), tensors


def calls(function: Any) -> list[tuple[str, bytes, int]]:
    """Name, detail and bytes in and out of each operator that a function runs, on tensors without content."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten

    found: list[tuple[str, bytes, int]] = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            detail, tensors = recorded(func, args, kwargs or {})
            tensors += [each for each in tree_flatten(out)[0] if isinstance(each, torch.Tensor)]
            moved = sum(each.numel() * each.element_size() for each in tensors)
            found.append((func._schema.name, detail, moved))
            return out

    with Recorder():
        function()
    return found


def new(*sizes: int, dtype: str = "float32", grad: bool = False) -> Any:
    return torch.empty(*sizes, device="meta", dtype=getattr(torch, dtype), requires_grad=grad)


def grad(function: Any, *sizes: int) -> Any:
    """A function, or one of torch.nn.functional by name, and its gradient, which is a tensor of its own."""

    def run() -> None:
        y = (getattr(F, function) if isinstance(function, str) else function)(new(*sizes, grad=True))
        y.backward(torch.empty_like(y))

    return run


F: Any = None if torch is None else torch.nn.functional
IMAGE = (2, 3, 8, 8)
# Operators that read each of their tensors once and write their result: bytes in and bytes out.
EXACT = {
    "aten::max_pool2d_with_indices": grad(lambda x: F.max_pool2d(x, 3, 2, 1), *IMAGE),
    "aten::adaptive_max_pool2d": lambda: F.adaptive_max_pool2d(new(*IMAGE), 2),
    "aten::avg_pool2d": lambda: F.avg_pool2d(new(*IMAGE), 2),
    "aten::avg_pool3d": lambda: F.avg_pool3d(new(2, 3, 4, 4, 4), 2),
    "aten::upsample_nearest2d": grad(lambda x: F.interpolate(x, scale_factor=2), *IMAGE),
    "aten::upsample_nearest2d_backward": grad(lambda x: F.interpolate(x, scale_factor=2), *IMAGE),
    "aten::upsample_bilinear2d_backward": grad(lambda x: F.interpolate(x, size=(16, 16), mode="bilinear"), *IMAGE),
    "aten::upsample_bicubic2d": grad(lambda x: F.interpolate(x, size=(16, 16), mode="bicubic"), *IMAGE),
    "aten::constant_pad_nd": lambda: F.pad(new(2, 4, 4), (1, 2, 0, 1)),
    "aten::reflection_pad2d": lambda: F.pad(new(*IMAGE), (1, 1, 1, 1), mode="reflect"),
    "aten::im2col": lambda: F.unfold(new(1, 2, 4, 4), 3),
    "aten::col2im": lambda: F.fold(new(1, 18, 4), (4, 4), 3),
    "aten::glu_backward": grad("glu", 8, 32),
    "aten::gelu_backward": grad("gelu", 8, 32),
    "aten::silu_backward": grad("silu", 8, 32),
    "aten::elu_backward": grad("elu", 8, 32),
    "aten::hardtanh_backward": grad("hardtanh", 8, 32),
    "aten::softplus_backward": grad("softplus", 8, 32),
    "aten::_softmax": lambda: F.softmax(new(8, 32), -1),
    "aten::_log_softmax_backward_data": grad(lambda x: F.log_softmax(x, -1), 8, 32),
    "aten::native_dropout": lambda: torch.native_dropout(new(8, 32), 0.5, True),
    "aten::mm": lambda: torch.mm(new(8, 16), new(16, 32)),
    "aten::bmm": lambda: torch.bmm(new(3, 8, 16), new(3, 16, 32)),
    "aten::addmm": lambda: torch.addmm(new(8, 32), new(8, 16), new(16, 32)),
    "aten::addbmm": lambda: torch.addbmm(new(8, 32), new(3, 8, 16), new(3, 16, 32)),
    "aten::baddbmm": lambda: torch.baddbmm(new(3, 8, 32), new(3, 8, 16), new(3, 16, 32)),
    "aten::convolution": lambda: F.conv2d(new(*IMAGE), new(4, 3, 3, 3), padding=1),
    "aten::cumsum": lambda: torch.cumsum(new(8, 32), 1),
    "aten::sort": lambda: torch.sort(new(8, 32)),
    "aten::topk": lambda: torch.topk(new(8, 32), 4),
    "aten::max": lambda: new(8, 32).max(1),
    "aten::amax": lambda: new(8, 32).amax(1),
    "aten::argmax": lambda: new(8, 32).argmax(1),
    "aten::sum": lambda: new(8, 32).sum((0,)),
    "aten::var_mean": lambda: torch.var_mean(new(8, 32), 1),
    "aten::linalg_vector_norm": lambda: torch.linalg.vector_norm(new(8, 32), dim=1),
    "aten::masked_fill": lambda: new(8, 32).masked_fill(new(8, 32, dtype="bool"), 1.0),
    "aten::where": lambda: torch.where(new(8, 32, dtype="bool"), new(8, 32), new(8, 32)),
    "aten::cat": lambda: torch.cat([new(8, 4), new(8, 2)], 1),
    "aten::add": lambda: torch.add(new(8, 32), new(32)),
    "aten::lerp": lambda: torch.lerp(new(8, 32), new(8, 32), 0.5),
    "aten::addcmul": lambda: torch.addcmul(new(8), new(8), new(8)),
    "aten::eq": lambda: torch.eq(new(8, 32), 1),
    "aten::split_with_sizes_copy": lambda: torch.split_with_sizes_copy(new(8, 4), [3, 5]),
    "aten::_foreach_add": lambda: torch._foreach_add([new(8, 4), new(8)], [new(8, 4), new(8)]),
}


@pytest.mark.parametrize("name", EXACT)
def test_bytes_in_and_out(name):
    """A wrong place of an argument would give other lengths, or none."""
    found = [each for each in calls(EXACT[name]) if each[0] == name]

    assert found
    for _, detail, moved in found:
        work = work_of(read(name, detail, "kernel<float>"))
        assert work is not None
        assert work.bytes == moved


@pytest.mark.parametrize(("transposed", "asked"), [(False, 2), (True, 2)])
def test_gradients_of_a_convolution_count_as_much_as_it_does(transposed, asked):
    """PyTorch's own counter says so: each of dx and dW is a convolution."""
    from torch.utils.flop_counter import FlopCounterMode

    function = F.conv_transpose2d if transposed else F.conv2d

    def run() -> None:
        x, w = new(2, 4, 8, 8, grad=True), new(4, 4, 3, 3, grad=True)
        y = function(x, w, stride=2, padding=1)
        y.backward(torch.empty_like(y))

    found = {name: detail for name, detail, _ in calls(run) if "convolution" in name}
    with FlopCounterMode(display=False) as counter:
        run()
    ours = {name: work_of(read(name, detail, "kernel<float>")).flops for name, detail in found.items()}

    assert ours["aten::convolution_backward"] == asked * ours["aten::convolution"]
    assert sum(ours.values()) == counter.get_total_flops()


def test_names_of_aten_operators_exist():
    """A misspelt one would never match: each is an operator of PyTorch of today, or one of an older PyTorch."""
    from roofline.diagnosis.costs import registry

    work_of(read("aten::mm", b"{}"))  # the rules are registered with the first question
    there = {each.name for each in torch._C._jit_get_all_schemas()} | set(torch._C._dispatch_get_all_op_names())
    there = {each.split(".")[0] for each in there}
    ours = {each for each in registry._NAMED if each.startswith("aten::")}

    assert {each for each in ours - OLDER if each not in there and each.rstrip("_") not in there} == set()


OLDER = {
    "aten::_s_where",
    "aten::cudnn_convolution_backward_input",
    "aten::cudnn_convolution_backward_weight",
    "aten::miopen_convolution_backward_input",
    "aten::miopen_convolution_backward_weight",
}
