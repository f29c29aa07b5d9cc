"""`roofline models`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline import catalogue
from roofline.cli.options import print_json


def models(name: str | None = None, /, *, json: Annotated[bool, Parameter(negative=())] = False) -> int:
    """The built-in models, or the exact counts of one.

    Parameters
    ----------
    name
        A built-in name, a Hugging Face id, a folder, a config.json, a GGUF file or hf://OWNER/NAME (its
        headers too); without one, the list.
    json
        One JSON object instead of text.
    """
    if json:
        from roofline.show.catalogue_record import model_record, models_record

        print_json(models_record(catalogue.models()) if name is None else model_record(catalogue.load_model(name)))
        return 0
    from roofline.show.text import model_text, models_text, show

    show(models_text(catalogue.models()) if name is None else model_text(catalogue.load_model(name)))
    return 0
