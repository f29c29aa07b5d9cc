"""Llama and its closest relatives: RMSNorm, gated MLP, rotary positions; biases by key."""

from roofline.config import NO_KV_HEADS, Config
from roofline.families import family
from roofline.families.dense import Traits, decoder
from roofline.model import Model


@family("llama")
def llama(config: Config) -> Model:
    """Llama 1 to 3.3: `attention_bias` and `mlp_bias` are keys of their own."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias", False)))


@family("mistral")
def mistral(config: Config) -> Model:
    """Mistral: a sliding window on every layer where its key is a number."""
    config.note_absent("kv_heads", NO_KV_HEADS)
    if "sliding_window" not in config.keys:
        config.assume("The file has no sliding_window: every layer counted as full attention")
    return decoder(config, Traits())
