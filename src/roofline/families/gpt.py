"""The GPT lineage: LayerNorm, plain MLP, biases; learned, rotary or ALiBi positions."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.structure.decoder import decoder
from roofline.structure.traits import BIASED, Traits


@family("gpt2", "gpt-sw3")
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


@family("openai-gpt")
def gpt(config: Config) -> Model:
    """GPT 1: norms behind the sum of each block and the stream, none at the end."""
    wide = 4 * config.integer("hidden", "the width of every matrix")
    traits = replace(BIASED, norm_vectors=2, gated=False, rotary=0.0, learned=0, tied=True, intermediate=wide)
    return decoder(config, replace(traits, pre_norm=False, post_norm=True, final_norm=False))


@family("ctrl")
def ctrl(config: Config) -> Model:
    """CTRL: sinusoids, which are not stored; a head with a bias."""
    wide = config.integer("dff", "the width of the MLP")
    traits = replace(BIASED, norm_vectors=2, gated=False, rotary=0.0, tied=True, head_bias=True, intermediate=wide)
    return decoder(config, traits)


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
