"""Llama and its closest relatives: RMSNorm, gated MLP, rotary positions; biases by key."""

from roofline.config import Config
from roofline.families import family
from roofline.families.dense import Traits, decoder
from roofline.model import Model


@family("llama", "mistral")
def llama(config: Config) -> Model:
    """Llama 1 to 3.3, Mistral: `attention_bias` and `mlp_bias` are keys of their own."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias", False)))
