"""Qwen 2 and 3: biases on QKV in the one, a norm on each head of q and k in the other."""

from roofline.config import NO_KV_HEADS, Config
from roofline.families import family
from roofline.families.dense import Traits, decoder
from roofline.model import Model


@family("qwen2")
def qwen2(config: Config) -> Model:
    """Qwen 1.5, 2 and 2.5: QKV biases that no key mentions; a window only with `use_sliding_window`."""
    config.note_absent("kv_heads", NO_KV_HEADS)
    return decoder(config, Traits(qkv_bias=True, windowed=False))


@family("qwen3")
def qwen3(config: Config) -> Model:
    """Qwen 3: RMSNorm over each head of q and k, heads of 128; biases with `attention_bias`; windows as Qwen 2."""
    config.note_absent("kv_heads", NO_KV_HEADS)
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(qk_norm=True, qkv_bias=bias, out_bias=bias, head_dim=128, windowed=False))
