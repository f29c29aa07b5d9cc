"""GPT-J, CodeGen, StarCoder 1: what came of GPT-2 on the way to Llama."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.structure.decoder import decoder
from roofline.structure.traits import BIASED, Traits


@family("gptj", "codegen")
def gptj(config: Config) -> Model:
    """GPT-J and CodeGen: one LayerNorm for attention and MLP side by side; biases of the MLP and the head alone."""
    wide = 4 * config.integer("hidden", "the width of every matrix")
    rotary = config.integer("rotary_dim", "the rotated part of a head")
    return decoder(
        config,
        Traits(
            norm_vectors=2,
            gated=False,
            mlp_bias=True,
            head_bias=True,
            parallel=True,
            shared_norm=True,
            rotary_dim=rotary,
            intermediate=wide,
        ),
    )


@family("gpt_bigcode")
def gpt_bigcode(config: Config) -> Model:
    """StarCoder 1: GPT-2 with one KV head unless `multi_query` is false."""
    wide = 4 * config.integer("hidden", "the width of every matrix")
    heads = 1 if config.flag("multi_query", True) else config.integer("heads", "the attention heads")
    return decoder(
        config.having({**config.keys, "num_key_value_heads": heads}),
        replace(BIASED, norm_vectors=2, gated=False, rotary=0.0, learned=0, tied=True, intermediate=wide),
    )
