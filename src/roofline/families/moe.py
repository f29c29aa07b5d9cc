"""Mixtures of experts whose layers are otherwise Llama's, or nearly."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.structure.decoder import decoder
from roofline.structure.traits import Traits


@family("mixtral")
def mixtral(config: Config) -> Model:
    """Mixtral: experts as wide as `intermediate_size`; a window on every layer where its key is a number."""
    return decoder(config, Traits(experts=True))


@family("granitemoe", "granitemoeshared")
def granitemoe(config: Config) -> Model:
    """Granite 3 with experts, and a shared one where it has a width."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, experts=True))


@family("granitemoe_swa")
def granitemoe_swa(config: Config) -> Model:
    """Granite with experts and windows: a sink a head."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, experts=True, sinks=True))


@family("flint")
def flint(config: Config) -> Model:
    """Flint: windows in three layers of four, sinks, a norm of q and k, a shared expert without a gate."""
    bias = config.flag("attention_bias", False)
    traits = Traits(qkv_bias=bias, out_bias=bias, head_norm=HeadNorm(), experts=True, sinks=True)
    # Where the file lists no dense layers its class has the first two.
    return decoder(config, replace(traits, dense_layers=0 if "mlp_only_layers" in config.keys else 2))


@family("kolibri1")
def kolibri(config: Config) -> Model:
    """Kolibri: norms behind the blocks too, a norm of q and k, a shared expert."""
    return decoder(config, Traits(post_norm=True, head_norm=HeadNorm(), experts=True))


@family("aria_text")
def aria(config: Config) -> Model:
    """Aria: experts as wide as `intermediate_size`, shared ones beside them."""
    bias = config.flag("attention_bias", False)
    return decoder(config, Traits(qkv_bias=bias, out_bias=bias, experts=True, shared_experts=2))


@family("gpt_oss")
def gpt_oss(config: Config) -> Model:
    """gpt-oss: every second layer sees everything; sinks; biases of attention, router and every expert."""
    bias = config.flag("attention_bias", True)
    return decoder(
        config,
        Traits(qkv_bias=bias, out_bias=bias, sinks=True, every=2, experts=True, expert_bias=True, router_bias=True),
    )


@family("minimax_m2")
def minimax_m2(config: Config) -> Model:
    """MiniMax M2: a norm of q and k over all heads; half of each head rotated where `rotary_dim` says so."""
    rotary = config.integer("rotary_dim", "the rotated part of a head", 0, least=0) or None
    return decoder(config, Traits(head_norm=HeadNorm(whole=True), rotary_dim=rotary, experts=True))
