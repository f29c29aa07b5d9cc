"""What the keys of a config.json do not decide: one small file a family, found by `model_type`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from roofline.errors import RooflineError, shown

if TYPE_CHECKING:
    from roofline.config import Config
    from roofline.model import Model

    Reader = Callable[[Config], Model]

FAMILIES: dict[str, Reader] = {}


def family(*model_types: str) -> Callable[[Reader], Reader]:
    """Register the reader of these `model_type`s; a second registration is refused."""

    def register(reader: Reader) -> Reader:
        for name in model_types:
            if name in FAMILIES:
                raise RooflineError(f"The model_type {name!r} is registered twice.")
            FAMILIES[name] = reader
        return reader

    return register


def load_all() -> dict[str, Reader]:
    """Every registered family, after importing each file of this folder."""
    for each in iter_modules(__path__):
        import_module(f"{__name__}.{each.name}")
    return FAMILIES


def family_of(config: Config) -> Reader:
    """The reader for a config: its family's, or for an unknown one the plain decoder, and it says so."""
    from roofline.families.dense import Traits, decoder

    found = load_all().get(config.model_type)
    if found is not None:
        return found
    name = shown(config.keys.get("model_type"), 40)
    config.assume(
        f"model_type {name} is not known here: read as a decoder with RMSNorm, a gated MLP, "
        "rotary positions and no biases but where a key says so"
    )
    return lambda unknown: decoder(unknown, Traits())
