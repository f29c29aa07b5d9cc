"""The GPT lineage: LayerNorm, plain MLP, biases; learned, rotary or ALiBi positions."""

from roofline.config import Config
from roofline.errors import shown
from roofline.families import family
from roofline.families.dense import Traits, decoder
from roofline.model import Model


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


@family("opt")
def opt(config: Config) -> Model:
    """OPT: learned positions with two rows more than positions, tied head, ReLU MLP."""
    bias = config.flag("enable_bias", True)
    vectors = 2 if config.flag("layer_norm_elementwise_affine", True) else 0
    before = config.flag("do_layer_norm_before", True)
    return decoder(
        config,
        Traits(
            norm_vectors=vectors,
            gated=False,
            qkv_bias=bias,
            out_bias=bias,
            mlp_bias=bias,
            rotary=0.0,
            learned=2,
            tied=True,
            final_norm=before and not config.flag("_remove_final_layer_norm", False),
        ),
    )


@family("mpt")
def mpt(config: Config) -> Model:
    """MPT: ALiBi, LayerNorm without bias, tied head, the MLP's width as `expansion_ratio`."""
    if not config.flag("no_bias", True):
        raise config.fail("no_bias is false, an MPT with biases, which is not counted yet. Possible: true.")
    hidden = config.integer("hidden", "the width of every matrix")
    wide = hidden * config.integer("expansion_ratio", "the width of the MLP", 4)
    inner = config.section("attn_config")
    if not inner.flag("alibi", True):
        raise config.fail("attn_config.alibi is false, other positions that are not counted yet. Possible: true.")
    if inner.keys.get("attn_type", "multihead_attention") not in ("multihead_attention", "grouped_query_attention"):
        raise config.fail(
            f"attn_config.attn_type is {shown(inner.keys['attn_type'])}, which is not counted yet. "
            "Possible: multihead_attention, or grouped_query_attention with kv_n_heads."
        )
    if inner.flag("qk_ln", False):
        raise config.fail("attn_config.qk_ln is true, a norm on q and k that is not counted yet. Possible: false.")
    ffn = config.section("ffn_config")
    if ffn.keys.get("ffn_type", "mptmlp") != "mptmlp":
        raise config.fail(f"ffn_config.ffn_type is {shown(ffn.keys['ffn_type'])}, not counted yet. Possible: mptmlp.")
    kv_heads = inner.find("kv_heads")
    keys = {**config.keys, **({} if kv_heads is None else {"kv_n_heads": kv_heads[1]})}
    return decoder(config.having(keys), Traits(gated=False, rotary=0.0, tied=True, intermediate=wide))
