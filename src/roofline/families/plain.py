"""LayerNorm and a plain MLP with rotary positions: StarCoder 2, StableLM, Persimmon, Nemotron 4, Jais 2."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.structure.decoder import decoder
from roofline.structure.traits import BIASED, Traits


@family("starcoder2")
def starcoder2(config: Config) -> Model:
    """StarCoder 2: biases everywhere by `use_bias`."""
    bias = config.flag("use_bias", True)
    return decoder(config, Traits(norm_vectors=2, gated=False, qkv_bias=bias, out_bias=bias, mlp_bias=bias, tied=True))


@family("stablelm")
def stablelm(config: Config) -> Model:
    """StableLM 2: a gated MLP; a quarter of each head rotated; a norm for each head of q and k by `qk_layernorm`."""
    parallel = config.flag("use_parallel_residual", False)
    normed = config.flag("qk_layernorm", False)
    return decoder(
        config,
        Traits(
            norm_vectors=2,
            qkv_bias=config.flag("use_qkv_bias", False),
            head_norm=HeadNorm(whole=True) if normed else None,
            rotary=config.rotary_share(0.25),
            parallel=parallel,
            shared_norm=parallel,
        ),
    )


@family("persimmon")
def persimmon(config: Config) -> Model:
    """Persimmon: biases everywhere, a LayerNorm over each head of q and k by `qk_layernorm`."""
    normed = HeadNorm(vectors=2) if config.flag("qk_layernorm", True) else None
    rotary = config.rotary_share(0.5)
    return decoder(config, replace(BIASED, norm_vectors=2, gated=False, head_norm=normed, rotary=rotary))


@family("nemotron", "jais2")
def nemotron(config: Config) -> Model:
    """Nemotron 3 and 4 (squared ReLU, half of each head rotated), Jais 2: biases by key."""
    bias = config.flag("attention_bias", False)
    rotary = config.rotary_share(0.5 if config.model_type == "nemotron" else 1.0)
    mlp = config.flag("mlp_bias", False)
    return decoder(
        config,
        Traits(norm_vectors=2, gated=False, qkv_bias=bias, out_bias=bias, mlp_bias=mlp, rotary=rotary),
    )
