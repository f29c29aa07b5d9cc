"""Trinity: norms on both sides of each block, a gate on attention, experts beside shared ones."""

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import HeadNorm
from roofline.structure.decoder import decoder
from roofline.structure.pattern import SLIDING
from roofline.structure.traits import Traits


@family("afmoe")
def afmoe(config: Config) -> Model:
    """Trinity: norms on both sides, a gate on every element of the attention's output, a stored shift of the choice."""
    bias = config.flag("attention_bias", False)
    return decoder(
        config,
        Traits(
            post_norm=True,
            qkv_bias=bias,
            out_bias=bias,
            head_norm=HeadNorm(),
            gate="element",
            experts=True,
            correction=True,
            every=4,
            rotary_kinds=(SLIDING,),
        ),
    )
