"""Qwen 2 and 3: biases on QKV in the one, a norm on each head of q and k in the other."""

from roofline.config import Config
from roofline.families import family
from roofline.families.dense import Traits, decoder
from roofline.model import Model


@family("qwen2")
def qwen2(config: Config) -> Model:
    """Qwen 1.5, 2 and 2.5: QKV biases that no key mentions; a window only with `use_sliding_window`."""
    return decoder(_window_off(config), Traits(qkv_bias=True))


@family("qwen3")
def qwen3(config: Config) -> Model:
    """Qwen 3: RMSNorm over each head of q and k; biases with `attention_bias`."""
    bias = config.flag("attention_bias", False)
    return decoder(_window_off(config), Traits(qk_norm=True, qkv_bias=bias, out_bias=bias))


def _window_off(config: Config) -> Config:
    """`sliding_window` counts only where `use_sliding_window` is true, which it is not by default."""
    if config.flag("use_sliding_window", False):
        return config
    return config.without("sliding_window")
