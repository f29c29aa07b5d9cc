"""BLOOM, Falcon, XGLM, BioGPT: LayerNorm and plain MLPs of four times the width, with ALiBi, RoPE or sinusoids."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.structure.decoder import decoder
from roofline.structure.traits import BIASED, Traits


@family("bloom")
def bloom(config: Config) -> Model:
    """BLOOM: ALiBi, a LayerNorm behind the embedding, biases everywhere."""
    wide = 4 * config.integer("hidden", "the width of every matrix")
    return decoder(
        config, replace(BIASED, norm_vectors=2, gated=False, rotary=0.0, tied=True, embed_norm=2, intermediate=wide)
    )


@family("falcon")
def falcon(config: Config) -> Model:
    """Falcon: one KV head (7B), groups of them (`new_decoder_architecture`), or one for each head (RW, with ALiBi)."""
    newer = config.flag("new_decoder_architecture", False)
    heads = config.integer("heads", "the attention heads")
    alone = 1 if config.flag("multi_query", True) else heads
    kv_heads = config.integer("num_kv_heads", "the KV heads", heads) if newer else alone
    parallel = newer or config.flag("parallel_attn", True)
    norms = config.integer("num_ln_in_parallel_attn", "the norms of a layer", 2 if newer else 1, most=2)
    bias = config.flag("bias", False)
    keys = {**config.keys, "num_key_value_heads": kv_heads}
    return decoder(
        config.having(keys),
        Traits(
            norm_vectors=2,
            gated=False,
            qkv_bias=bias,
            out_bias=bias,
            mlp_bias=bias,
            rotary=0.0 if config.flag("alibi", False) else 1.0,
            parallel=parallel,
            shared_norm=norms == 1,
            tied=True,
            intermediate=4 * config.integer("hidden", "the width of every matrix"),
        ),
    )


@family("xglm", "biogpt")
def xglm(config: Config) -> Model:
    """XGLM (sinusoids, not stored) and BioGPT (learned positions, two rows more): biases everywhere."""
    learned = 2 if config.model_type == "biogpt" else None
    heads = config.find("attention_heads")
    keys = {**config.keys, **({} if heads is None else {"num_attention_heads": heads[1]})}
    return decoder(
        config.having(keys), replace(BIASED, norm_vectors=2, gated=False, rotary=0.0, learned=learned, tied=True)
    )
