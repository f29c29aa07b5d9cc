"""Any PyTorch module as a ledger, without running it. PyTorch comes with the extra `torch`.

>>> import roofline.torch                                                   # doctest: +SKIP
>>> ledger = roofline.torch.count(model, torch.zeros(8, 3, 224, 224), backward=True, device="h100-sxm")
>>> ledger.total.flops, ledger.on("mi300x").total.bound_seconds
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from roofline.device import Device
from roofline.dtypes import DType
from roofline.errors import BadValue, RooflineError, one_line
from roofline.ledger import Ledger, predict
from roofline.torch import fakes
from roofline.torch.calls import GROUPED, tensor
from roofline.torch.modules import FORMATS, ONE_CALL, model
from roofline.torch.recording import Recording, gradients, recording

__all__ = ["count"]


def count(
    module: Any,
    /,
    *inputs: Any,
    device: Device | str = "h100-sxm",
    backward: bool = False,
    name: str | None = None,
    **keywords: Any,
) -> Ledger:
    """The ledger of one call of a `torch.nn.Module` on a device: operators, FLOPs, bytes, bounds.

    `inputs` and `keywords` are what the module takes; only lengths and formats count, so that tensors on the meta
    device will do, and parameters there too. Nothing is computed and no memory taken: operators are dispatched on
    stand-ins. `backward` counts the gradients too, from the output's `loss` where it has one, else from every number
    that it returns. Modes (`train`, `no_grad`, `autocast`) count as they are set. Each operator is one kernel, costed
    by the formulas of `roofline.ops`; `Ledger.on` places the same call on another device. Raises BadValue for what is
    no module, or cannot run without numbers, UnknownName for an unknown device.
    """
    torch = _torch()
    inner = fakes.unwrapped(torch, module)
    title = name or type(inner).__name__
    found, sizes = _recorded(torch, inner, title, (inputs, keywords), backward)
    rows = tuple(found.rows.values())
    if not rows:
        raise BadValue(f"{title} moves nothing on these inputs. Give it inputs with elements.")
    what = "forward and backward" if backward else "forward"
    counted = model(f"{title}, {what}", rows, sizes, _notes(found))
    return predict(counted, device, ONE_CALL, FORMATS)


def _torch() -> Any:
    """The module torch; raises BadValue where it is not installed."""
    try:
        return import_module("torch")
    except ImportError:
        raise BadValue(
            "PyTorch is not installed, which roofline.torch counts with. Install it: pip install 'roofline[torch]'."
        ) from None


def _recorded(
    torch: Any, module: Any, title: str, given: tuple[Any, Any], backward: bool
) -> tuple[Recording, dict[DType, int]]:
    """The operators of one call, and the module's parameters by format."""
    fake = import_module("torch._subclasses.fake_tensor")
    try:
        # Without the processor's own library, whose fused operators no accelerator has.
        plain = torch.backends.mkldnn.flags(enabled=False)
        with _quiet(), torch.inference_mode(False), plain, fake.FakeTensorMode(allow_non_fake_inputs=True):
            stand_in = fakes.stand_ins(torch)
            parameters = {key: stand_in(each) for key, each in module.named_parameters()}
            buffers = {key: stand_in(each) for key, each in module.named_buffers()}
            inputs, keywords = fakes.inputs(stand_in, given)
            storages = {each.untyped_storage()._cdata for each in parameters.values()}
            with recording(torch, module, storages, title) as found:
                with torch.set_grad_enabled(backward):
                    call = torch.func.functional_call
                    output = call(module, {**parameters, **buffers}, inputs, keywords)
                if backward:
                    starts = gradients(torch, output, title)
                    with found.still():
                        ones = [torch.empty_like(each) for each in starts]
                    torch.autograd.backward(starts, ones)
    except RooflineError:
        raise
    except Exception as error:  # a module may raise anything
        raise BadValue(
            f"{title} cannot be counted on these inputs ({type(error).__name__}: {one_line(error, 200)}). "
            "It has to run on tensors without numbers: check the inputs, and that no branch of it depends on a number."
        ) from error
    return found, _sizes(parameters.values())


@contextmanager
def _quiet() -> Generator[None]:
    """No log lines of PyTorch: what it has to say is in the error."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _sizes(parameters: Any) -> dict[DType, int]:
    """Numbers by the format that they are in; tied ones once."""
    sizes: dict[DType, int] = {}
    for each in parameters:
        form = tensor(each)
        if form is not None and form.n:
            sizes[form.dtype] = sizes.get(form.dtype, 0) + form.n
    return sizes


def _notes(found: Recording) -> tuple[str, ...]:
    """What is not known of some operators."""
    notes: list[str] = []
    bare: dict[str, int] = {}
    for row in found.rows.values():
        if not row.known():
            bare[row.call.name] = bare.get(row.call.name, 0) + row.count
    if bare:
        notes.append(f"The FLOPs of {_listed(bare)} are not known: their bytes alone are counted")
    if any(GROUPED in row.call.name for row in found.rows.values()):
        notes.append("Of the groups of a grouped product one is read at the least: which ones are used is in no length")
    if found.unknown:
        notes.append(f"{_listed(found.unknown)} have tensors of formats that are not known: not counted")
    return tuple(notes)


def _listed(calls: dict[str, int]) -> str:
    """Operators with how often they were called, the first few of many."""
    few = [f"{name} ({count:,} call{'s' if count > 1 else ''})" for name, count in list(calls.items())[:6]]
    more = len(calls) - len(few)
    return ", ".join(few) + (f" and {more:,} more" if more else "")
