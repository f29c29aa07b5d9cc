"""`roofline report`."""

from __future__ import annotations

import shlex
from dataclasses import MISSING, fields
from typing import Annotated, cast

from cyclopts import Parameter

from roofline.cli.options import Setting, written


def report(
    model: str,
    /,
    *,
    setting: Setting,
    output: Annotated[str, Parameter(name=["--output", "-o"], negative=())],
) -> int:
    """One HTML file of a prediction: verdict, charts, ledger, memory, assumptions, sources, how to get it again.

    Parameters
    ----------
    model
        A built-in name (roofline models), a Hugging Face id, a folder, a config.json, a GGUF file,
        hf://OWNER/NAME (its headers too), or 7B (weights only).
    output
        The file to write, as report.html. It asks for nothing from elsewhere and opens from a disk.
    """
    ledger = setting.ledger(model)
    from roofline.capacity import memory
    from roofline.show.chart import writable, write
    from roofline.show.progress import busy
    from roofline.show.report import ledger_report

    target = writable(output, (".html", ".htm"))
    with busy("Writing the report"):
        write(target, ledger_report(ledger, command(model, setting)).html())
    written(target)
    return 3 if memory(ledger).fits is False else 0


def command(model: str, setting: Setting) -> str:
    """The command line that gives this answer again, defaults left out."""
    words = ["roofline", "predict", model]
    for each in fields(setting):
        value = getattr(setting, each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if value == default:
            continue
        words.append(f"--{each.name.replace('_', '-')}")
        if isinstance(value, list):
            words += cast(list[str], value)
        elif value is not True:
            words.append(str(value))
    return shlex.join(words)
