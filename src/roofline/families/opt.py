"""OPT: learned positions, a plain MLP of ReLU, an embedding that may be narrower than the layers."""

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.structure.decoder import decoder
from roofline.structure.traits import Traits


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
