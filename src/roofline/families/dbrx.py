"""DBRX: LayerNorm with a scale alone, experts of a width of their own; attention and experts in sections."""

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.structure.decoder import decoder
from roofline.structure.traits import Traits


@family("dbrx")
def dbrx(config: Config) -> Model:
    """DBRX: the keys of `attn_config` and `ffn_config` beside those of the model."""
    inner = {**config.section("attn_config").keys, **config.section("ffn_config").keys}
    inner.pop("hidden_size", None)
    inner.pop("model_type", None)
    return decoder(config.having({**config.keys, **inner}), Traits(experts=True))
