"""Phi 1 and 2 (parallel blocks with biases), Phi 3 and 4 (Llama-like), Phi 3.5 with experts."""

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.structure.decoder import decoder
from roofline.structure.traits import Traits


@family("phi")
def phi(config: Config) -> Model:
    """Phi 1, 1.5 and 2: one LayerNorm for attention and a plain MLP side by side, biases everywhere."""
    return decoder(
        config,
        Traits(
            norm_vectors=2,
            gated=False,
            qkv_bias=True,
            out_bias=True,
            mlp_bias=True,
            head_bias=True,
            head_norm=HeadNorm(vectors=2) if config.flag("qk_layernorm", False) else None,
            rotary=config.rotary_share(0.5),
            parallel=True,
            shared_norm=True,
        ),
    )


@family("phi3", "phi4_multimodal")
def phi3(config: Config) -> Model:
    """Phi 3 and 4: no biases; part of each head may be rotated."""
    return decoder(config, Traits(rotary=config.rotary_share(1.0)))


@family("phimoe")
def phimoe(config: Config) -> Model:
    """Phi 3.5 with experts: LayerNorm, biases of attention and head by key."""
    bias = config.flag("attention_bias", False)
    head = config.flag("lm_head_bias", False)
    return decoder(config, Traits(norm_vectors=2, qkv_bias=bias, out_bias=bias, head_bias=head, experts=True))
