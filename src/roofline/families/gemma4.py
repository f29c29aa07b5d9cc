"""Gemma 4: layers that see everything have wider heads; experts beside the MLP; inputs of each layer's own."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.parts.inputs import LayerInputs
from roofline.shard import Axis
from roofline.structure.decoder import decoder
from roofline.structure.gemma4 import layer
from roofline.structure.pattern import Kind, kinds
from roofline.structure.traits import Traits


@family("gemma4_text", "gemma4_unified_text")
def gemma4(config: Config) -> Model:
    """Gemma 4: the last layers may share an earlier one's cache; E2B and E4B have inputs of each layer's own."""
    bias = config.flag("attention_bias", False)
    traits = Traits(post_norm=True, qkv_bias=bias, out_bias=bias, head_norm=HeadNorm(), tied=True)
    model = decoder(config, replace(traits, every=6, experts=None, shares=True), layer=layer, pattern=_kinds)
    width = config.count("hidden_size_per_layer_input")
    if width is None:
        return model
    rows = config.integer("vocab_size_per_layer_input", "the table of each layer's inputs")
    hidden = Axis("hidden", config.integer("hidden", "the width of every matrix"))
    return replace(model, before=(*model.before, LayerInputs(hidden, rows, model.layers, width)))


def _kinds(config: Config, layers: int, traits: Traits) -> list[Kind]:
    """The last `num_kv_shared_layers` read the cache of the last layer of their kind before them."""
    found = kinds(config, layers, traits)
    shared = config.count("num_kv_shared_layers") or 0
    own = found[: max(0, layers - shared)]
    if {each.name for each in own} != {each.name for each in found}:
        raise config.fail(f"num_kv_shared_layers {shared} leaves a kind of layer without a cache. Correct it.")
    return [*own, *(each._replace(shared=True) for each in found[len(own) :])]
