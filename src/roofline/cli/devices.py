"""`roofline devices`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline import catalogue
from roofline.cli.options import print_json


def devices(name: str | None = None, /, *, json: Annotated[bool, Parameter(negative=())] = False) -> int:
    """The catalogue of devices, or one with the source of every figure.

    Parameters
    ----------
    name
        A device id, an alias or a TOML file; without one, the list.
    json
        One JSON object instead of text.
    """
    if json:
        from roofline.show.record import devices_record

        print_json(devices_record(catalogue.devices() if name is None else [catalogue.load_device(name)]))
        return 0
    from roofline.show.text import device_text, devices_text, show

    if name is None:
        show(devices_text(catalogue.devices()))
    else:
        show(device_text(catalogue.load_device(name), dict(catalogue.source_titles())))
    return 0
