"""DeepSeek 1 to 3.2 and those who took their layers: latent attention, shared experts, dense first layers."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model, Repeat
from roofline.parts.ends import Norm, Projection
from roofline.parts.moe import Experts
from roofline.shard import Axis
from roofline.structure.decoder import decoder
from roofline.structure.traits import Traits


@family(
    *("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "glm4_moe_lite", "sarvam_mla"),
    *("minicpm3", "youtu"),
)
def deepseek(config: Config) -> Model:
    """DeepSeek V2, V3, V3.2 (with an indexer), Kimi K2, GLM 5, GLM 4.7 Flash, MiniCPM 3, Youtu."""
    routed = config.model_type not in ("minicpm3", "youtu")
    if config.model_type in ("deepseek_v32", "glm_moe_dsa"):
        config.integer("index_topk", "how many positions a query attends to")
    dense = int(config.model_type == "glm4_moe_lite")
    traits = Traits(mlp_bias=config.flag("mlp_bias", False), latent=True, experts=routed, dense_layers=dense)
    return with_prediction(config, decoder(config, traits))


@family("axk1")
def axk1(config: Config) -> Model:
    """A.X K1: DeepSeek V3 with a norm behind the experts."""
    model = decoder(config, Traits(mlp_bias=config.flag("mlp_bias", False), latent=True, experts=True))
    hidden = Axis("hidden", config.integer("hidden", "the width of every matrix"))
    blocks = tuple(
        block._replace(parts=(*block.parts, Norm("experts_post_norm", hidden, 0)))
        if any(isinstance(part, Experts) for part in block.parts)
        else block
        for block in model.blocks
    )
    return with_prediction(config, replace(model, blocks=blocks))


@family("deepseek")
def deepseek1(config: Config) -> Model:
    """DeepSeek-MoE: attention of heads, experts beside shared ones."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, experts=True))


def with_prediction(config: Config, model: Model) -> Model:
    """The model with its layers that predict further tokens apart.

    Each is two norms, a matrix that joins the hidden state with the next token's embedding, a layer like the last,
    and a norm; the embedding and the head are those of the model.
    """
    count = config.count("prediction")
    if not count:
        return model
    hidden = Axis("hidden", config.integer("hidden", "the width of every matrix"))
    last = max(model.blocks, key=lambda block: block.layers[-1])
    names = ("prediction_hidden_norm", "prediction_embed_norm", "prediction_norm")
    own = (
        *(Norm(name, hidden, 0) for name in names),
        Projection("prediction_join", hidden, Axis("both", 2 * hidden.size)),
    )
    return replace(model, apart=tuple(Repeat(count, part) for part in (*own, *last.parts)))
