"""Llama and its closest relatives: RMSNorm, gated MLP, rotary positions; biases by key."""

from dataclasses import replace

from roofline.config import NO_KV_HEADS, Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.parts.ends import Norm
from roofline.shard import Axis
from roofline.structure.decoder import decoder
from roofline.structure.pattern import SLIDING
from roofline.structure.traits import Traits


@family("llama", "granite", "smollm3", "helium", "exaone", "iquestcoder", "emu3_text_model")
def llama(config: Config) -> Model:
    """Llama 1 to 3.3, Granite, SmolLM 3, Helium, EXAONE 3, IQuest Coder, Emu 3: biases by a key each."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias", False)))


@family("mistral", "ministral", "ministral3", "cwm")
def mistral(config: Config) -> Model:
    """Mistral: a sliding window on every layer where its key is a number, or on those that `layer_types` names."""
    config.note_absent("kv_heads", NO_KV_HEADS)
    if config.model_type == "mistral" and "sliding_window" not in config.keys:
        config.assume("The file has no sliding_window: every layer counted as full attention")
    return decoder(config, Traits())


@family("granite_swa")
def granite_swa(config: Config) -> Model:
    """Granite with windows: a sink a head."""
    bias = config.flag("attention_bias", False)
    mlp = config.flag("mlp_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, mlp_bias=mlp, sinks=True, tied=True))


@family("hyperclovax")
def hyperclovax(config: Config) -> Model:
    """HyperCLOVA X: norms behind the blocks too, where `use_post_norm` says so."""
    bias = config.flag("attention_bias", False)
    after, mlp = config.flag("use_post_norm", False), config.flag("mlp_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, mlp_bias=mlp, post_norm=after))


@family("bitnet")
def bitnet(config: Config) -> Model:
    """BitNet b1.58: a norm inside attention and the MLP, before the last matrix of each."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, inner_norm=True))


@family("nanochat")
def nanochat(config: Config) -> Model:
    """nanochat: norms without parameters, of q and k too, and behind the embedding; a plain MLP of squared ReLU."""
    bias = config.flag("attention_bias", False)
    traits = Traits(qkv_bias=bias, out_bias=bias, norm_vectors=0, gated=False, head_norm=HeadNorm(vectors=0))
    model = decoder(config, traits)
    hidden = Axis("hidden", config.integer("hidden", "the width of every matrix"))
    return replace(model, before=(*model.before, Norm("embed_norm", hidden, 0, 0)))


@family("arcee")
def arcee(config: Config) -> Model:
    """Arcee: a plain MLP of squared ReLU."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(gated=False, qkv_bias=bias, out_bias=bias, mlp_bias=config.flag("mlp_bias", False)))


@family("seed_oss")
def seed_oss(config: Config) -> Model:
    """Seed OSS: biases of q, k, v and of the output by a key each."""
    qkv, out = config.flag("attention_bias", True), config.flag("attention_out_bias", False)
    return decoder(config, Traits(qkv_bias=qkv, out_bias=out, mlp_bias=config.flag("mlp_bias", False)))


@family("apertus", "apertus1p5_text")
def apertus(config: Config) -> Model:
    """Apertus: a norm of q and k, a plain MLP whose activation has two learned numbers."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(gated=False, qkv_bias=bias, out_bias=bias, head_norm=HeadNorm(), act_vectors=2))


@family("exaone4")
def exaone4(config: Config) -> Model:
    """EXAONE 4: norms behind the blocks alone, a norm of q and k, no rotation in the layers that see everything."""
    return decoder(
        config,
        Traits(pre_norm=False, post_norm=True, head_norm=HeadNorm(), every=4, rotary_kinds=(SLIDING,)),
    )
