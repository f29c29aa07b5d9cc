"""GLM: biases on QKV, part of each head rotated; with experts from 4.5 on; ChatGLM's names of the same things."""

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.structure.decoder import decoder
from roofline.structure.traits import Traits


@family("glm", "glm4", "glm4v_text")
def glm(config: Config) -> Model:
    """GLM 4: the later one has norms behind attention and MLP too."""
    return decoder(
        config,
        Traits(
            qkv_bias=config.flag("attention_bias", True),
            rotary=config.rotary_share(0.5),
            post_norm=config.model_type != "glm",
        ),
    )


@family("chatglm")
def chatglm(config: Config) -> Model:
    """ChatGLM 2 and 3, GLM-4-9B: grouped KV heads where `multi_query_attention` says so."""
    keys = dict(config.keys)
    if not config.flag("multi_query_attention", False):
        keys.pop("multi_query_group_num", None)
    bias = config.flag("add_bias_linear", False)
    qkv = bias or config.flag("add_qkv_bias", False)
    return decoder(config.having(keys), Traits(qkv_bias=qkv, out_bias=bias, mlp_bias=bias, rotary=0.5))


@family("glm4_moe", "glm4v_moe_text", "solar_open", "hy_v3", "mellum", "sarvam_moe")
def glm4_moe(config: Config) -> Model:
    """GLM 4.5 to 4.7, Solar Open, Hunyuan 3, Mellum, Sarvam: experts beside a shared one, a norm of q and k."""
    normed = config.flag("use_qk_norm", config.model_type in ("hy_v3", "mellum", "sarvam_moe"))
    return decoder(
        config,
        Traits(
            qkv_bias=config.flag("attention_bias", False),
            head_norm=HeadNorm() if normed else None,
            rotary=config.rotary_share(1.0),
            experts=True,
            dense_layers=int(config.model_type == "hy_v3"),
        ),
    )
