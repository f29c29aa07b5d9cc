"""`roofline op`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.catalogue import load_sheet
from roofline.cli.options import print_json
from roofline.errors import BadValue


def op(
    operation: str,
    /,
    *dims: str,
    device: str,
    set: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())] = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """One operation by hand: its FLOPs and bytes, its bound on a device, and the formulas with their numbers.

    Parameters
    ----------
    operation
        linear, attention, norm, activation, rope, embedding, elementwise, softmax, copy, all-reduce, ...
    dims
        Its dims and formats as KEY=VALUE: linear m=8192 n=8192 k=8192 weights=fp8. A wrong one lists them all.
    device
        A device id (roofline devices) or a device's TOML file.
    set
        What if: FIELD=VALUE of the device, as device.bandwidth=x2.
    json
        One JSON object instead of text.
    """
    from roofline.byhand import beside, by_hand
    from roofline.hypothetical import changed_device, changes

    on_device, on_model = changes(set or [])
    if on_model:
        raise BadValue("--set: an operation has no model. Possible: device.FIELD=VALUE, or another dim.")
    on = changed_device(load_sheet(device), on_device)
    found = by_hand(operation, dims, on)
    others = beside(found, on)
    if json:
        from roofline.show.record import ops_record

        print_json(ops_record(found, others))
        return 0
    from roofline.show.questions import op_text
    from roofline.show.terminal import show

    show(op_text(found, others))
    return 0
