"""A run of a module on stand-ins for tensors, which have lengths and no numbers: every operator, both ways."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from typing import Any, cast

from roofline.errors import BadValue
from roofline.torch.calls import GROUPED, call, dispatched, free, moved, simple, tensor, whole
from roofline.torch.works import Row, bytes_of

_KINDS = ("cuda", "xpu", "mps")  # of autocast


class Recording:
    """Rows in the order of their first call; `unknown` names operators of formats that are not known."""

    def __init__(self, torch: Any, parameters: set[int]) -> None:
        self.torch = torch
        self.rows: dict[Any, Row] = {}
        self.unknown: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.stack: list[str] = []
        self._parameters = parameters
        self._read: set[int] = set()
        self._places: dict[int, str] = {}
        self._still = False

    @contextmanager
    def still(self) -> Generator[None]:
        """Note nothing meanwhile."""
        self._still = True
        try:
            yield
        finally:
            self._still = False

    def add(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any], result: Any) -> None:
        """Note one dispatched operator."""
        kind = self.torch.Tensor
        each = dispatched(function, args, keywords, result, kind)
        place, suffix = self._place()
        if self._still or free(each, kind):
            return
        found = moved(each, kind)
        read, written, masks = ([tensor(one) for one in part] for part in found)
        if None in read or None in written or None in masks:
            self.unknown[f"{each.space}::{each.name}"] = self.unknown.get(f"{each.space}::{each.name}", 0) + 1
            return
        conv = "conv" in each.name
        row = Row(
            name=f"{_leaf(place) or self.stack[0]}.{_called(each.name)}{suffix}",
            place=place,
            call=call(each, kind),
            read=cast(Any, tuple(read)),
            written=cast(Any, tuple(written)),
            way="tensors" if whole(each) else "table",
            parameters=self._first(found.read, each.name),
            beside=cast(Any, tuple(masks)),
            pointwise="pointwise" in each.tags,
            simple=simple(each),
            tf32=self._tf32(conv),
        )
        key = (row.name, row.place, row.parameters, row.read, row.written, _key(row))
        before = self.rows.get(key)
        self.rows[key] = row if before is None else replace(before, count=before.count + 1)

    def _tf32(self, conv: bool) -> bool:
        """Whether products of FP32 run at TF32, as PyTorch is set now."""
        backends = self.torch.backends
        if conv:
            return bool(backends.cudnn.allow_tf32)
        return bool(self.torch.get_float32_matmul_precision() != "highest")

    def _first(self, read: tuple[Any, ...], name: str) -> int:
        """Bytes of the parameters that no operator before this one read whole [byte]."""
        total = 0
        for each in read:
            storage = each.untyped_storage()._cdata
            if storage not in self._parameters or storage in self._read:
                continue
            if name not in ("embedding", "index", "index_select", "gather"):
                self._read.add(storage)
            shape = tensor(each)
            total += 0 if shape is None else bytes_of(shape)
        return total

    def _place(self) -> tuple[str, str]:
        """The module that an operator belongs to, with numbers as stars, and what tells the gradient's apart."""
        autograd = self.torch._C._autograd
        node = self.torch._C._current_autograd_node()
        if node is not None:
            return self._places.get(node._sequence_nr(), self.stack[0]), " backward"
        place = self.stack[-1]
        # The node of the gradient is made before its operator is dispatched: the first one has its number.
        self._places.setdefault(autograd._get_sequence_nr() - 1, place)
        return place, ""


def _called(name: str) -> str:
    """An operator's name without the marks of its back end."""
    return name.removeprefix("_").replace("_flash_attention_for_cpu", "_attention").removesuffix("_backward")


def _key(row: Row) -> str:
    each = row.call
    return repr((each.name, each.dims, each.types, each.strides, each.concrete))


def _leaf(place: str) -> str:
    """The last word of a module's name that is no number; "" where all are."""
    return next((word for word in reversed(place.split(".")) if word != "*"), "")


def starred(name: str) -> str:
    """A module's name with its numbers as stars."""
    return ".".join("*" if re.fullmatch(r"\d+", part) else part for part in name.split("."))


@contextmanager
def recording(torch: Any, module: Any, parameters: set[int], title: str) -> Generator[Recording]:
    """Note every operator that is dispatched within, by the module that calls it."""
    hooks = import_module("torch.nn.modules.module")
    base: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode
    found = Recording(torch, parameters)
    found.names = {id(each): starred(name) for name, each in module.named_modules() if name}
    found.stack = [title]

    class Noting(base):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            keywords = _here(torch, dict(kwargs or {}))
            result = _result(func, args, keywords)
            found.add(func, args, keywords, result)
            return result

    def enter(each: Any, _: Any) -> None:
        found.stack.append(found.names.get(id(each), found.stack[-1]))

    def leave(each: Any, _: Any, __: Any) -> None:
        found.stack.pop()

    before = hooks.register_module_forward_pre_hook(enter)
    after = hooks.register_module_forward_hook(leave, always_call=True)
    try:
        with Noting(), _as_accelerated(torch):
            yield found
    finally:
        before.remove()
        after.remove()


def _result(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """What an operator returns: a stand-in too.

    A grouped product has one for BF16 alone, though it is there for other formats.
    """
    if GROUPED not in str(function):
        return function(*args, **keywords)
    operands: tuple[Any, ...] = (*args, keywords.get("offs"))
    a, b, offsets = operands[0], operands[1], operands[2]
    sides = a.dim(), b.dim()
    if sides == (2, 3):  # rows of a, each with the matrix of its group
        return a.new_empty((a.shape[0], b.shape[-1]))
    if sides == (2, 2) and offsets is not None:  # a product for each group: the gradient of its matrix
        return a.new_empty((offsets.shape[0], a.shape[0], b.shape[-1]))
    return function(*args, **keywords)


def _here(torch: Any, keywords: dict[str, Any]) -> dict[str, Any]:
    """The same with what is asked for on a device made where everything is."""
    if _elsewhere(torch, keywords.get("device")):
        keywords["device"] = torch.device("cpu")
    return keywords


def _as_accelerated(torch: Any) -> Any:
    """Functions as on an accelerator: attention fused, autocast as it is set there, tensors all in one place."""
    base: Any = import_module("torch.overrides").TorchFunctionMode
    attend = torch.nn.functional.scaled_dot_product_attention
    moves = tuple(getattr(torch.Tensor, name) for name in ("cuda", "xpu", "cpu") if hasattr(torch.Tensor, name))

    class Accelerated(base):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            keywords = _here(torch, dict(kwargs or {}))
            if func in moves:
                return args[0]
            if func is torch.Tensor.to:
                args = tuple(torch.device("cpu") if _elsewhere(torch, each) else each for each in args)
            with _autocast(torch):
                if func is attend and _fuses(torch):
                    return _attended(torch, func, args, keywords)
                return func(*args, **keywords)

    return Accelerated()


def _elsewhere(torch: Any, device: Any) -> bool:
    """Whether an argument names a device where no stand-in is."""
    if isinstance(device, str):
        return re.fullmatch(r"(cuda|xpu|mps|hpu|mtia|meta)(:\d+)?", device) is not None
    return isinstance(device, torch.device) and device.type != "cpu"


def _fuses(torch: Any) -> bool:
    """Whether a back end that tiles its scores is allowed."""
    backends = torch.backends.cuda
    return bool(backends.flash_sdp_enabled() or backends.mem_efficient_sdp_enabled())


def _autocast(torch: Any) -> Any:
    """Autocast for the stand-ins as it is set for an accelerator, whose tensors they stand for."""
    for kind in _KINDS:
        if torch.is_autocast_enabled(kind) and not torch.is_autocast_enabled("cpu"):
            return torch.autocast("cpu", dtype=torch.get_autocast_dtype(kind))
    return nullcontext()


_ATTENDS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


def _attended(torch: Any, attend: Callable[..., Any], args: Any, keywords: dict[str, Any]) -> Any:
    """The fused operator where q, K and V are of four dimensions and as wide; else what PyTorch does of itself."""
    given = {**dict(zip(_ATTENDS, args, strict=False)), **keywords}
    query, key, value = (given[name] for name in _ATTENDS[:3])
    # PyTorch's own choice for a mask that is learned too, as the fused operator has no gradient of one.
    same = query.dim() == key.dim() == value.dim() == 4 and query.shape[-1] == key.shape[-1] == value.shape[-1]
    mask = given.get("attn_mask")
    learned = mask is not None and mask.requires_grad and torch.is_grad_enabled()
    if not same or learned:
        return attend(**given)
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (each.to(torch.get_autocast_dtype("cpu")) for each in (query, key, value))
    options = {name: given[name] for name in ("is_causal", "attn_mask", "scale") if name in given}
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, **options)[0]


def gradients(torch: Any, output: Any, title: str) -> list[Any]:
    """What a gradient starts from: the loss where the output has one, else every number that depends on a parameter."""
    loss: Any = getattr(output, "loss", None)
    leaves: list[Any] = import_module("torch.utils._pytree").tree_leaves(output)
    leaves = [loss] if isinstance(loss, torch.Tensor) and loss.requires_grad else leaves
    found = [each for each in leaves if isinstance(each, torch.Tensor) and each.requires_grad]
    if not found:
        raise BadValue(
            f"Nothing that {title} returns has a gradient. Count its forward pass alone, or let parameters have one."
        )
    return found
