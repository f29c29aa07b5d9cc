"""InternLM 2 and 3, Baichuan, Qwen 1: Llama's layers with biases or positions of their own."""

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.structure.decoder import decoder
from roofline.structure.traits import Traits


@family("internlm2", "internlm")
def internlm2(config: Config) -> Model:
    """InternLM 1 and 2: q, k, v and the output have biases with the key `bias`."""
    bias = config.flag("bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias))


@family("internlm3")
def internlm3(config: Config) -> Model:
    """InternLM 3: biases of q, k, v by `qkv_bias`, of the output and the MLP by `bias`."""
    bias = config.flag("bias", False)
    return decoder(config, Traits(qkv_bias=config.flag("qkv_bias", False), out_bias=bias, mlp_bias=bias))


@family("baichuan")
def baichuan(config: Config) -> Model:
    """Baichuan 1 and 2: as many KV heads as heads; the one with `model_max_length` has ALiBi in place of rotation."""
    alibi = config.find("max_position_embeddings") is None and config.find("model_max_length") is not None
    return decoder(config, Traits(rotary=0.0 if alibi else 1.0))


@family("qwen")
def qwen(config: Config) -> Model:
    """Qwen 1: biases of q, k and v; `intermediate_size` is that of gate and up together."""
    both = config.integer("intermediate", "the width of the MLP", least=2)
    return decoder(config.having({**config.keys, "intermediate_size": both // 2}), Traits(qkv_bias=True))
