"""`roofline measure`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from roofline.cli.options import print_json
from roofline.errors import BadValue
from roofline.files import home, printable


def measure(
    *,
    backend: Literal["numpy", "torch"] = "numpy",
    on: str | None = None,
    quick: Annotated[bool, Parameter(negative=())] = False,
    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """The ceilings of the machine that this runs on: bandwidth of memory and caches, and FLOP/s by number format.

    Parameters
    ----------
    backend
        numpy measures the processor; torch a device of PyTorch, which must be installed.
    on
        With torch the device, as cuda, cuda:1, mps, xpu or cpu; the accelerator that PyTorch finds.
    quick
        Under ten seconds, with fewer samples and sizes. Without it, under a minute.
    output
        Write a device's TOML file, which stands anywhere a device does: --device box.toml.
    json
        One JSON object instead of text.
    """
    from roofline.measurement import measure as measured
    from roofline.show.measured import measured_text, progress

    path = None if output is None else writable(output)
    with progress() as tell:
        device = measured(backend, on=on, quick=quick, name=path.stem if path else None, progress=tell)
    if os.environ.get("RANK", "0") != "0":
        return 0  # of several programs that torchrun launched the first one answers
    if path is not None:
        device.save(path)
    if json:
        from roofline.show.measured import measured_record

        print_json(measured_record(device))
    else:
        from roofline.show.terminal import show, text

        show(measured_text(device))
        if path is not None:
            show(text())
            show(text(f"Written: {printable(path)}. Use it: roofline predict MODEL --device {printable(path)}"))
    return 0


def writable(output: str) -> Path:
    """Where to write, checked before the minute that it takes; raises BadValue."""
    path = home(Path(output))
    if path.suffix != ".toml":
        raise BadValue(f"-o: {printable(output)} is no device file's name. Write one that ends in .toml.")
    try:
        folder = path.parent
        possible = folder.is_dir() and os.access(folder, os.W_OK) and not path.is_dir()
    except (OSError, ValueError):
        possible = False
    if not possible:
        raise BadValue(f"-o: {printable(output)} cannot be written. Name a file in a folder that you may write to.")
    return path
