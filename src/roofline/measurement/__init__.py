"""The ceilings of the machine at hand: what its memory and arithmetic reach, as a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofline.measurement.result import MeasuredDevice


def measure(
    backend: str = "numpy",
    *,
    on: str | None = None,
    quick: bool = False,
    name: str | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> MeasuredDevice:
    """Measure this machine; the answer is a Device whose `rows` and `warnings` say how sure it is.

    `backend` is numpy (the processor) or torch, which measures the PyTorch device `on` (cuda, mps, xpu, cpu; by
    default the accelerator that PyTorch finds). Takes under a minute, `quick` under ten seconds. `name` becomes
    the device's id; `progress` is called with the share that is done and what is timed. Raises BadValue
    for another backend or device, MeasureError where nothing can be measured.
    """
    from roofline.measurement.session import measure_with

    return measure_with(backend, on=on, quick=quick, name=name, progress=progress)
