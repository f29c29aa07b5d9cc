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


# Keys that no decoder with RMSNorm and a gated MLP has: what they belong to is not guessed at.
_FOREIGN = (
    *("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "layernorm_epsilon"),
    *("use_bias", "mlp_type", "type_vocab_size", "activation_function", "rotary_pct", "do_layer_norm_before"),
)


def family_of(config: Config) -> Reader:
    """The reader for a config: its family's, or for an unknown one Llama's, and the answer says so.

    Raises ConfigError for an unknown family with a key that no relative of Llama has.
    """
    found = load_all().get(config.model_type)
    if found is not None:
        return found
    name = shown(config.keys.get("model_type"), 40)
    for key in _FOREIGN:
        if config.find(key) is not None:
            raise config.fail(
                f"model_type {name} is not known here, and {key} is no key of a relative of Llama, which it would be "
                f"read as. Possible: {', '.join(sorted(FAMILIES))}."
            )
    config.assume(
        f"model_type {name} is not known here: read as a decoder with RMSNorm, a gated MLP, "
        "rotary positions and no biases but where a key says so"
    )
    config.note_absent("kv_heads", "The file names no KV heads: counted as many as attention heads")
    config.note_absent("tie_word_embeddings", "The file does not tie the embedding to lm_head: counted as two tables")
    return FAMILIES["llama"]
