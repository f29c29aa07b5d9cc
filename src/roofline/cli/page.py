"""`roofline page`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.catalogue import load_device, load_model
from roofline.cli.options import written


def page(
    *models: str,
    output: Annotated[str, Parameter(name=["--output", "-o"], negative=())],
    device: Annotated[list[str] | None, Parameter(negative=(), consume_multiple=True)] = None,
) -> int:
    """One HTML file in which sliders move a whole ledger: choose model, device, rows, formats, ranks.

    Parameters
    ----------
    models
        Built-in names (roofline models), Hugging Face ids, folders or config.json files; without any, three of the
        built-in ones.
    output
        The file to write, as page.html. It asks for nothing from elsewhere and opens from a disk.
    device
        Devices or TOML files to offer; without any, the whole catalogue.
    """
    from roofline.show.chart import writable, write
    from roofline.show.live import MODELS, live_page, named
    from roofline.show.progress import busy

    chosen = named([(name, load_model(name)) for name in dict.fromkeys(models or MODELS)])
    devices = None if device is None else [load_device(each) for each in device]
    target = writable(output, (".html", ".htm"))
    with busy("Writing the page"):
        write(target, live_page(chosen, devices))
    written(target)
    return 0
