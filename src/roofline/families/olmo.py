"""OLMo 1 to 3 and their kin with experts."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.structure.decoder import decoder
from roofline.structure.traits import Traits


def _traits(config: Config) -> Traits:
    bias = config.flag("attention_bias", False)
    return Traits(qkv_bias=bias, out_bias=bias)


@family("olmo")
def olmo(config: Config) -> Model:
    """OLMo 1: LayerNorm without parameters."""
    return decoder(config, replace(_traits(config), norm_vectors=0))


@family("olmo2", "olmo3", "flex_olmo")
def olmo2(config: Config) -> Model:
    """OLMo 2 and 3, FlexOlmo: norms behind the blocks alone, and of q and k over all heads; windows by layer in 3."""
    every = 4 if config.model_type == "olmo3" else None
    norm, routed = HeadNorm(whole=True), config.model_type == "flex_olmo"
    return decoder(
        config, replace(_traits(config), pre_norm=False, post_norm=True, head_norm=norm, every=every, experts=routed)
    )


@family("olmoe")
def olmoe(config: Config) -> Model:
    """OLMoE: Llama's layers with experts and a norm of q and k over all heads."""
    return decoder(config, replace(_traits(config), head_norm=HeadNorm(whole=True), experts=True))
