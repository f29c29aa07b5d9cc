"""The device that a file names, where its name and what stands beside it mean exactly one."""

from __future__ import annotations

from roofline.device import Device
from roofline.errors import RooflineError
from roofline.recognition import recognise


def recognised(
    card: str, *, sms: int | None = None, memory: int | None = None, bandwidth: float | None = None
) -> Device | None:
    """The one device of this name, with what the file says of it; None for none, or several that it could be."""
    found = recognise(card, sms=sms, memory=memory, bandwidth=bandwidth) if card else None
    try:
        return None if found is None or found.id is None else found.device()
    except RooflineError:  # a device that is known by name, and not by its supplies
        return None
