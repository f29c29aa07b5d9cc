"""`roofline crossover`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.cli.options import Setting, print_json


def crossover(
    model: str,
    /,
    *,
    setting: Setting,
    kernel: Annotated[str | None, Parameter(negative=())] = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Where the verdict turns, exactly: for each kernel, the layers' GEMMs, the pass and its throughput.

    Parameters
    ----------
    model
        A built-in name (roofline models), a Hugging Face id, a folder, a config.json, a GGUF file,
        hf://OWNER/NAME (its headers too), or 7B (weights only).
    kernel
        One kernel alone, by its name in roofline predict.
    json
        One JSON object instead of text.
    """
    from roofline.crossing import crossovers
    from roofline.show.progress import busy

    case = setting.case(model)
    with busy("Looking for the turns"):
        found = crossovers(*case, kernel=kernel, **setting.options)
    if json:
        from roofline.show.record import crossovers_record

        print_json(crossovers_record(found))
        return 0
    from roofline.show.questions import crossovers_text
    from roofline.show.terminal import show

    show(crossovers_text(found))
    return 0
