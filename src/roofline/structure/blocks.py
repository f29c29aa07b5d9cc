"""The parts of a layer, from the keys of a config and the traits of its family."""

from __future__ import annotations

from roofline.config import Config
from roofline.errors import shown
from roofline.parts.attention import Attention
from roofline.parts.base import Part
from roofline.parts.latent import Indexer, LatentAttention
from roofline.parts.mlp import Mlp
from roofline.parts.moe import Experts
from roofline.shard import Axis
from roofline.structure.pattern import Kind
from roofline.structure.traits import Traits

MOST_EXPERTS = 1 << 20


def mixer(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    """The attention of one kind of layer: latent where the keys say a rank of K and V, else of its heads."""
    if is_latent(config, traits):
        return latent(config, hidden)
    return attention(config, traits, hidden, kind)


def is_latent(config: Config, traits: Traits) -> bool:
    """Whether attention is latent; raises ConfigError where the keys say another than the family has."""
    if traits.latent:
        return True
    for key in ("kv_lora_rank", "q_lora_rank"):
        if config.count(key) and (traits.latent is False or config.count("kv_lora_rank") is None):
            raise config.fail(
                f"{key} says latent attention, which model_type {shown(config.model_type, 40)} has not with these "
                "keys. Correct one of them."
            )
    return config.count("kv_lora_rank") is not None


def heads_of(config: Config, traits: Traits, hidden: Axis) -> tuple[int, int, int]:
    """Heads, KV heads and the width of a head; raises ConfigError where they contradict."""
    heads = config.integer("heads", "the attention heads")
    kv_heads = config.integer("kv_heads", "the KV heads", heads)
    if heads % kv_heads:
        raise config.fail(f"{heads} attention heads are not divisible by {kv_heads} KV heads. Correct one of them.")
    if config.find("head_dim") is None and traits.head_dim is None and hidden.size % heads:
        raise config.fail(
            f"hidden size {hidden.size} is not divisible by {heads} attention heads and there is no head_dim, "
            "which would decide the width of a head. Add it or correct one of them."
        )
    return heads, kv_heads, config.integer("head_dim", "the width of a head", traits.head_dim or hidden.size // heads)


def attention(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Attention:
    """Attention of the config's heads."""
    heads, kv_heads, head_dim = heads_of(config, traits, hidden)
    rotary = int(head_dim * traits.rotary) if traits.rotary_dim is None else traits.rotary_dim
    return Attention(
        hidden,
        Axis("heads", heads, head_dim),
        Axis("kv_heads", kv_heads, head_dim, uneven="replicate"),
        rotary_dim=rotary if kind.rotated else 0,
        qkv_bias=traits.qkv_bias,
        out_bias=traits.out_bias,
        head_norm=traits.head_norm,
        limits=kind.limits,
        gate=traits.gate,
        sinks=traits.sinks,
        inner_norm=traits.inner_norm,
    )


def latent(config: Config, hidden: Axis) -> LatentAttention:
    """Latent attention, with an indexer where the keys say one."""
    heads = config.integer("heads", "the attention heads")
    rope = config.integer("qk_rope_head_dim", "the rotated part of a head")
    q_rank = config.count("q_lora_rank")
    indexer = None
    if config.count("index_topk") is not None:
        index = config.integer("index_n_heads", "the heads of the indexer")
        width = config.integer("index_head_dim", "the width of an indexer's head")
        selected = config.integer("index_topk", "how many positions a query attends to")
        if q_rank is None:
            raise config.fail("q_lora_rank is missing; it decides what the indexer's queries are made from. Add it.")
        indexer = Indexer(Axis("index_heads", index, width), selected, min(rope, width))
    return LatentAttention(
        hidden,
        heads,
        nope=config.integer("qk_nope_head_dim", "the part of a head that is not rotated"),
        rope=rope,
        value=config.integer("v_head_dim", "the width of V's heads"),
        kv_rank=config.integer("kv_lora_rank", "the width of the latent of K and V"),
        q_rank=q_rank,
        bias=config.flag("attention_bias", False),
        indexer=indexer,
    )


def feed(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> Part:
    """The experts of one kind of layer, or its MLP."""
    return experts(config, traits, hidden) if kind.sparse else mlp(config, traits, hidden)


def mlp(config: Config, traits: Traits, hidden: Axis) -> Mlp:
    """The MLP of a layer without experts."""
    wide = config.integer("intermediate", "the width of the MLP", traits.intermediate)
    inner = Axis("intermediate", wide)
    return Mlp(hidden, inner, traits.gated, traits.mlp_bias, traits.act_vectors, inner_norm=traits.inner_norm)


def experts(config: Config, traits: Traits, hidden: Axis) -> Experts:
    """Routed and shared experts; raises ConfigError where a token would choose more than there are."""
    count = config.integer("experts", "how many experts there are", most=MOST_EXPERTS)
    top_k = config.integer("top_k", "how many experts a token goes through")
    if top_k > count:
        raise config.fail(f"{shown(top_k)} experts a token is more than the {count} there are. Correct one of them.")
    known = config.find("expert_intermediate") is not None
    wide = config.integer("expert_intermediate" if known else "intermediate", "the width of an expert")
    shared = config.count("shared_intermediate") or wide * (config.count("shared_experts") or traits.shared_experts)
    return Experts(
        hidden,
        Axis("experts", count),
        top_k,
        Axis("intermediate", wide),
        gated=traits.gated,
        bias=traits.expert_bias,
        router_bias=traits.router_bias,
        correction=traits.correction,
        shared=Axis("intermediate", shared) if shared else None,
        shared_gate=traits.shared_gate and bool(shared),
    )
