"""A module's parameters and inputs as stand-ins: the same lengths, formats and strides, and no memory."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from roofline.errors import BadValue, shown


def stand_ins(torch: Any) -> Callable[[Any], Any]:
    """A function that turns a tensor into its stand-in, within a FakeTensorMode; the same for the same tensor."""
    made: dict[int, tuple[Any, Any]] = {}

    def stand_in(of: Any) -> Any:
        if not isinstance(of, torch.Tensor):
            return of
        known = made.get(id(of))
        if known is None:
            made[id(of)] = known = (of, _made(torch, of))
        return known[1]

    return stand_in


def _made(torch: Any, of: Any) -> Any:
    """A stand-in on the processor, whatever device the tensor is on; raises BadValue for a kind that has none."""
    plain = type(of) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or _buffer(of)
    if not plain or of.layout != torch.strided or of.is_quantized:
        raise BadValue(
            f"A tensor is a {type(of).__name__} of layout {of.layout}. Possible: dense tensors and parameters. "
            "Count the module before it is wrapped or quantised."
        )
    found = torch.empty_strided(tuple(of.shape), of.stride(), dtype=of.dtype, device="cpu")
    floats = of.dtype.is_floating_point or of.dtype.is_complex
    return found.requires_grad_(bool(of.requires_grad and floats))


def _buffer(of: Any) -> bool:
    return type(of).__name__ == "FakeTensor"


def inputs(stand_in: Callable[[Any], Any], values: Any) -> Any:
    """The same structure with a stand-in for each tensor in it."""
    return import_module("torch.utils._pytree").tree_map(stand_in, values)


def unwrapped(torch: Any, module: object) -> Any:
    """The module, out of a compiled one; raises BadValue for what is none, or is a script."""
    inner = getattr(module, "_orig_mod", module)
    if not isinstance(inner, torch.nn.Module):
        raise BadValue(f"{shown(module)} is no module. Possible: a torch.nn.Module.")
    if isinstance(inner, torch.jit.ScriptModule):
        raise BadValue(f"{type(inner).__name__} is a compiled script. Count the module that it was made of.")
    return inner
