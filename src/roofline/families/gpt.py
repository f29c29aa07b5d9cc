"""The GPT lineage: LayerNorm, plain MLP, biases; learned, rotary or ALiBi positions."""

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.structure.decoder import decoder
from roofline.structure.traits import Traits


@family("gpt2")
def gpt2(config: Config) -> Model:
    """GPT-2: learned positions, tied head, an MLP of four times the width unless `n_inner` says."""
    wide = 4 * config.integer("hidden", "the width of every matrix")
    return decoder(
        config,
        Traits(
            norm_vectors=2,
            gated=False,
            qkv_bias=True,
            out_bias=True,
            mlp_bias=True,
            rotary=0.0,
            learned=0,
            tied=True,
            intermediate=wide,
        ),
    )


@family("gpt_neox")
def gpt_neox(config: Config) -> Model:
    """GPT-NeoX and Pythia: two LayerNorms; attention and MLP side by side unless the key says no."""
    bias = config.flag("attention_bias", True)
    return decoder(
        config,
        Traits(
            norm_vectors=2,
            gated=False,
            qkv_bias=bias,
            out_bias=bias,
            mlp_bias=True,
            rotary=config.rotary_share(0.25),
            parallel=config.flag("use_parallel_residual", True),
        ),
    )
