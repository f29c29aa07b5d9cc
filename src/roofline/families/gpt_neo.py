"""GPT-Neo: GPT-2's layers, of which every second sees a window alone."""

from itertools import islice
from typing import Any

from roofline.config import Config
from roofline.errors import shown
from roofline.families import family
from roofline.model import Model
from roofline.structure.decoder import MOST_LAYERS, decoder
from roofline.structure.pattern import FULL, SLIDING
from roofline.structure.traits import Traits


@family("gpt_neo")
def gpt_neo(config: Config) -> Model:
    """GPT-Neo: GPT-2 without biases on QKV; layers see everything or a window, as `attention_types` says."""
    wide = 4 * config.integer("hidden", "the width of every matrix")
    keys = {**config.keys, "layer_types": _types(config)}
    return decoder(
        config.having(keys),
        Traits(
            norm_vectors=2,
            gated=False,
            out_bias=True,
            mlp_bias=True,
            rotary=0.0,
            learned=0,
            tied=True,
            intermediate=wide,
        ),
    )


def _types(config: Config) -> list[str]:
    """The kind of each layer: `attention_layers`, or [[kinds], times] entries of `attention_types`."""
    named = {"global": FULL, "local": SLIDING}
    listed: Any = config.keys.get("attention_layers")
    try:
        if listed is None:
            types: Any = config.keys["attention_types"]
            listed = (each for kinds, times in types for _ in range(int(times)) for each in kinds)
        return [named[each] for each in islice(listed, MOST_LAYERS)]
    except (KeyError, TypeError, ValueError, OverflowError):
        given = shown(config.keys.get("attention_types"), 60)
        raise config.fail(f"attention_types is {given}. Possible: [[[global, local], 12]].") from None
