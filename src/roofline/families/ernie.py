"""Mixtures of experts of Baidu, Tencent, Xiaohongshu, LG and Arcee: shared experts, norms and gates of their own."""

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.structure.decoder import decoder
from roofline.structure.pattern import SLIDING
from roofline.structure.traits import Traits


@family("ernie4_5", "ernie4_5_moe")
def ernie(config: Config) -> Model:
    """ERNIE 4.5, dense or with experts: `use_bias` is of attention and the dense MLP; a stored shift of the choice."""
    bias = config.flag("use_bias", False)
    routed = config.model_type.endswith("moe")
    return decoder(
        config, Traits(qkv_bias=bias, out_bias=bias, mlp_bias=bias, experts=routed, correction=True, tied=True)
    )


@family("hunyuan_v1_dense", "hunyuan_v1_moe")
def hunyuan(config: Config) -> Model:
    """Hunyuan: a norm of q and k; every layer has experts beside one shared expert, where there are experts."""
    bias = config.flag("attention_bias", False)
    routed = config.model_type.endswith("moe")
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, head_norm=HeadNorm(), experts=routed, shared_experts=1))


@family("dots1")
def dots1(config: Config) -> Model:
    """dots.llm1: a norm of q and k, experts beside shared ones."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, head_norm=HeadNorm(), experts=True))


@family("exaone_moe")
def exaone_moe(config: Config) -> Model:
    """K-EXAONE: EXAONE 4's attention in layers with norms before the blocks."""
    return decoder(config, Traits(head_norm=HeadNorm(), experts=True, every=4, rotary_kinds=(SLIDING,)))
