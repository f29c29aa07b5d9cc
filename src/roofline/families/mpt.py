"""MPT: ALiBi, LayerNorm without bias, tied head; attention and MLP in sections."""

from roofline.config import Config
from roofline.errors import shown
from roofline.families import family
from roofline.model import Model
from roofline.structure.decoder import decoder
from roofline.structure.traits import Traits


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
