"""Phi 1 and 2 (parallel blocks with biases) and Phi 3 and 4 (Llama-like)."""

from roofline.config import Config
from roofline.families import family
from roofline.families.dense import Traits, decoder
from roofline.model import Model


@family("phi")
def phi(config: Config) -> Model:
    """Phi 1, 1.5 and 2: one LayerNorm for attention and a plain MLP side by side, biases everywhere."""
    if config.flag("qk_layernorm", False):
        raise config.fail("qk_layernorm is true, a LayerNorm on q and k that is not counted yet. Possible: false.")
    return decoder(
        config,
        Traits(
            norm_vectors=2,
            gated=False,
            qkv_bias=True,
            out_bias=True,
            mlp_bias=True,
            head_bias=True,
            rotary=config.rotary_share(0.5),
            parallel=True,
            shared_norm=True,
        ),
    )


@family("phi3")
def phi3(config: Config) -> Model:
    """Phi 3 and 4: no biases; part of each head may be rotated."""
    return decoder(config, Traits(rotary=config.rotary_share(1.0)))
