"""Step 3.5 and 3.7, Laguna: a gate of one number a head on the attention's output; experts beside a shared one."""

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.structure.decoder import decoder
from roofline.structure.traits import Traits


def _traits(config: Config, *, dense: int, correction: bool) -> Traits:
    bias = config.flag("attention_bias", False)
    heads = config.integer("heads", "the attention heads")
    for key in ("num_attention_heads_per_layer", "num_sliding_attention_heads"):
        if config.integer(key, "the heads of each layer", heads) != heads:
            raise config.fail(f"{key} differs from the {heads} heads, which is not counted yet. Possible: as many.")
    gating = config.keys.get("gating", True)
    return Traits(
        qkv_bias=bias,
        out_bias=bias,
        head_norm=HeadNorm(),
        gate="head" if gating in (True, "per-head") else "element",
        experts=True,
        dense_layers=dense,
        correction=correction,
    )


@family("step3p5", "step3p7", "step3p7_text")
def step(config: Config) -> Model:
    """Step 3.5 Flash and 3.7 Flash."""
    return decoder(config, _traits(config, dense=3, correction=False))


@family("laguna")
def laguna(config: Config) -> Model:
    """Laguna: as Step, with a stored shift of the choice."""
    return decoder(config, _traits(config, dense=1, correction=True))
