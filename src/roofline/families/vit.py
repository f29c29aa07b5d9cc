"""Vision transformers by themselves: the rows of a sequence are the patches of one image."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.base import Part
from roofline.parts.ends import Norm, Patches, Pooled, Positions, Stored
from roofline.parts.probe import Probe
from roofline.shard import Axis
from roofline.structure.encoder import architecture, labels
from roofline.structure.sides import MOST_LAYERS, Side, stack, width_of_heads
from roofline.structure.tower import side as one_side


def _side(config: Config) -> Side:
    hidden = config.integer("hidden", "the width of every matrix")
    heads = config.integer("heads", "the attention heads")
    layers = config.integer("layers", "how many layers are counted", most=MOST_LAYERS)
    wide = config.find("intermediate")
    ratio = 0 if wide else config.integer("mlp_ratio", "the width of the MLP")
    intermediate = config.integer("intermediate", "the width of the MLP") if wide else ratio * hidden
    return Side(hidden, layers, heads, intermediate, width_of_heads(config, hidden, heads))


def _patch(config: Config) -> Axis:
    channels = config.integer("num_channels", "the channels of an image", 3, most=1 << 10)
    return Axis("patch", channels * one_side(config, "patch_size") ** 2)


def _rows(config: Config, further: int) -> int:
    """Rows of one image: its patches, and those made of none; the answer says how many."""
    image, patch = one_side(config, "image_size"), one_side(config, "patch_size")
    rows = (image // patch) ** 2 + further
    beside = f" and {further} more" if further else ""
    config.assume(
        f"A sequence is one image of {image} x {image}: {rows - further:,} patches{beside}, as --new-tokens {rows}"
    )
    return rows


@family("vit", "deit")
def vit(config: Config) -> Model:
    """ViT and DeiT: a class token, of which a classifier or a pooler reads."""
    further = 2 if config.model_type == "deit" else 1
    side, rows = replace(_side(config), qkv_bias=config.flag("qkv_bias", True)), _rows(config, further)
    hidden = side.axis
    tokens = ("class_token", "distillation_token")[:further]
    before: list[Part] = [
        Patches("patch_embed", hidden, _patch(config), True, further),
        *(Stored(name, hidden) for name in tokens),
        Positions(rows, hidden),
    ]
    after: tuple[Part, ...] = (Norm("final_norm", hidden, 1, 2),)
    if architecture(config).endswith("Model"):
        wide = Axis("pooled", config.integer("pooler_output_size", "the width of the pooler", side.hidden))
        after += (Pooled("pooler", wide, hidden),)
    else:
        after += (Pooled("classifier", Axis("labels", labels(config)), hidden),)
    return Model("", tuple(before), stack(side), after, rows, unit="patch")


@family("clip_vision_model")
def clip_vision(config: Config) -> Model:
    """CLIP's vision tower: a class token, a norm before the layers, one on what the class token gives."""
    side, rows = _side(config), _rows(config, 1)
    hidden = side.axis
    before = (
        Patches("patch_embed", hidden, _patch(config), False, 1),
        Stored("class_token", hidden),
        Positions(rows, hidden),
        Norm("pre_norm", hidden, 0, 2),
    )
    after: tuple[Part, ...] = (Norm("post_norm", hidden, 1, 2),)
    if architecture(config).endswith("WithProjection"):
        wide = Axis("projected", config.integer("projection_dim", "the width that is given"))
        after += (Pooled("visual_projection", wide, hidden, False),)
    return Model("", before, stack(side), after, rows, unit="patch")


@family("siglip_vision_model", "siglip2_vision_model")
def siglip_vision(config: Config) -> Model:
    """SigLIP's vision tower: no class token; a learned query pools the patches where the file does not say no."""
    side = _side(config)
    if config.model_type == "siglip_vision_model":
        rows = _rows(config, 0)
    else:
        rows = config.integer("num_patches", "the learned positions")
        config.assume(f"A sequence is one image of up to {rows:,} patches, as --new-tokens {rows}")
    hidden = side.axis
    before = (Patches("patch_embed", hidden, _patch(config)), Positions(rows, hidden))
    after: tuple[Part, ...] = (Norm("post_norm", hidden, 1, 2),)
    if config.flag("vision_use_head", True):
        after += (Probe(hidden, Axis("heads", side.heads, side.head_dim), Axis("intermediate", side.intermediate)),)
    return Model("", before, stack(side), after, rows, unit="patch")
