"""Qwen 2 and 3, dense and with experts: biases on QKV in the one, a norm on each head of q and k in the other."""

from roofline.config import NO_KV_HEADS, Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.structure.decoder import decoder
from roofline.structure.traits import Traits


@family("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text")
def qwen2(config: Config) -> Model:
    """Qwen 1.5, 2 and 2.5: QKV biases that no key mentions; a window only with `use_sliding_window`."""
    config.note_absent("kv_heads", NO_KV_HEADS)
    return decoder(config, Traits(qkv_bias=True, windowed=False))


@family("qwen3", "qwen3_vl_text")
def qwen3(config: Config) -> Model:
    """Qwen 3: RMSNorm over each head of q and k, heads of 128; biases with `attention_bias`; windows as Qwen 2."""
    config.note_absent("kv_heads", NO_KV_HEADS)
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(head_norm=HeadNorm(), qkv_bias=bias, out_bias=bias, head_dim=128, windowed=False))


@family("qwen2_moe")
def qwen2_moe(config: Config) -> Model:
    """Qwen 1.5 and 2 with experts: a shared expert with a gate of its own."""
    bias = config.flag("qkv_bias", True)
    return decoder(config, Traits(qkv_bias=bias, windowed=False, experts=True, shared_gate=True))


@family("qwen3_moe", "qwen3_vl_moe_text")
def qwen3_moe(config: Config) -> Model:
    """Qwen 3 with experts, none of them shared."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(head_norm=HeadNorm(), qkv_bias=bias, out_bias=bias, windowed=False, experts=True))
