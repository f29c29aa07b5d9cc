"""Vision towers, by the `model_type` of the larger model that has them."""

from typing import Any, cast

from roofline.config import Config
from roofline.families import tower
from roofline.parts.attention import HeadNorm
from roofline.parts.base import Part
from roofline.parts.ends import Norm, Projection
from roofline.parts.tower import LABEL, Scale, Stage, Tower
from roofline.shard import Axis
from roofline.structure.tower import MOST_DEPTH, Vit, layers, merged, side


def _depth(config: Config, name: str) -> int:
    return config.integer(name, "the layers of the vision tower", most=MOST_DEPTH)


def _size(config: Config, name: str) -> int:
    return config.integer(name, "a width of the vision tower", most=1 << 24)


def _patch(config: Config, channels: str = "num_channels", temporal: str = "") -> int:
    """Numbers of one patch."""
    found = config.integer(channels, "the channels of an image", 3, most=1 << 10)
    return found * side(config, "patch_size") ** 2 * (side(config, temporal) if temporal else 1)


def _vit(config: Config, **more: Any) -> Vit:
    """A tower whose sizes stand under the names that most have; `more` as `Vit` has it."""
    return Vit(
        _size(config, "hidden_size"),
        _depth(config, "num_hidden_layers"),
        _size(config, "num_attention_heads"),
        _size(config, "intermediate_size"),
        _patch(config),
        **more,
    )


@tower("qwen3_vl", "qwen3_vl_moe")
def qwen3_vl(config: Config, text: int) -> Tower:
    """Qwen 3 VL: a merger behind the last layer, and one behind each of the layers that `deepstack` names."""
    return _qwen(config, text)


@tower("qwen3_5", "qwen3_5_moe", apart=True)
def qwen3_5(config: Config, text: int) -> Tower:
    """Qwen 3.5: as Qwen 3 VL, with one merger."""
    return _qwen(config, text)


def _qwen(config: Config, text: int) -> Tower:
    width, merge = _size(config, "hidden_size"), side(config, "spatial_merge_size")
    vit = Vit(
        width,
        _depth(config, "depth"),
        _size(config, "num_heads"),
        _size(config, "intermediate_size"),
        _patch(config, "in_channels", "temporal_patch_size"),
        positions=_size(config, "num_position_embeddings"),
    )
    joined = merge * merge * width
    out = config.integer("out_hidden_size", "the width that the vision tower gives", text)
    found = (config.find("deepstack_visual_indexes") or ("", None))[1]
    deep = len(cast("list[object]", found)) if isinstance(found, list) else 0
    body = layers(config, vit, merge * merge)
    last = Norm("merger_norm", Axis("vision_hidden", width), 1, 2, label=LABEL)
    mlps = merged("merger", (joined, joined, out), (True, True))
    own = Norm("deepstack_norm", Axis("merged", joined), 0, 2, label=LABEL)
    below = merged("deepstack", (joined, joined, out), (True, True))
    mergers = (*mlps, *((deep, part) for part in (own, *(each for _, each in below)) if deep))
    return Tower((Stage(body.rows, (*body.parts, (1, last))), Stage(1, mergers)))


@tower("kimi_k25")
def kimi_k25(config: Config, text: int) -> Tower:
    """Kimi K2.5: MoonViT, patches of a square merged into one token."""
    keys = {key.removeprefix("vt_"): value for key, value in config.keys.items()}
    old = {"init_pos_emb_height": "pos_emb_height", "init_pos_emb_width": "pos_emb_width"}
    config = config.having({old.get(key, key): value for key, value in keys.items()})
    width, merge = _size(config, "hidden_size"), side(config, "merge_kernel_size")
    vit = _vit(
        config,
        positions=_size(config, "pos_emb_height") * _size(config, "pos_emb_width"),
        after=True,
    )
    body, joined = layers(config, vit, merge * merge), merge * merge * width
    own = Norm("projector_norm", Axis("vision_hidden", width), 0, 2, label=LABEL)
    text = config.integer("text_hidden_size", "the width that the vision tower gives", text)
    mlps = merged("projector", (joined, joined, text), (True, True))
    return Tower((Stage(body.rows, (*body.parts, (1, own))), Stage(1, mlps)))


@tower("gemma4")
def gemma4(config: Config, text: int) -> Tower:
    """Gemma 4: rows and columns have a table of positions each; squares of patches are pooled into one token."""
    bias = config.flag("attention_bias", False)
    width, pool = _size(config, "hidden_size"), side(config, "pooling_kernel_size")
    vit = _vit(
        config,
        positions=2 * _size(config, "position_embedding_size"),
        patch_bias=False,
        kv_heads=_size(config, "num_key_value_heads"),
        head_dim=_size(config, "head_dim"),
        norms=1,
        biases=bias,
        gated=True,
        mlp_bias=False,
        head_norm=HeadNorm(),
        post_norm=True,
    )
    return Tower((layers(config, vit, pool * pool), Stage(1, merged("projector", (width, text), False))))


@tower("step3p7", absent=True)
def step3p7(config: Config, text: int) -> Tower:
    """Step 3.7: scaled blocks, then two convolutions of 3 x 3 that leave one token of sixteen patches."""
    keys = dict(config.keys)
    for old, new in (("width", "hidden_size"), ("layers", "num_hidden_layers"), ("heads", "num_attention_heads")):
        if old in keys:
            keys[new] = keys.pop(old)
    config = config.having(keys)
    width, patch = _size(config, "hidden_size"), side(config, "patch_size")
    wide = int(width * config.ratio("mlp_ratio", 4.0))
    positions = (side(config, "image_size") // patch) ** 2
    vit = Vit(
        width,
        _depth(config, "num_hidden_layers"),
        _size(config, "num_attention_heads"),
        wide,
        _patch(config),
        positions=positions,
        patch_bias=False,
        before=True,
        scaled=True,
    )
    hidden, once, twice = Axis("vision_hidden", width), Axis("once", 2 * width), Axis("twice", 4 * width)
    first = Projection("downsample_1", once, Axis("window", hidden.elements, 9), True, LABEL)
    second = Projection("downsample_2", twice, Axis("window", once.elements, 9), True, LABEL)
    return Tower(
        (
            layers(config, vit, 16),
            Stage(4, ((1, first),)),
            Stage(1, ((1, second), *merged("projector", (twice.elements, text), False))),
        )
    )


@tower("llama4", apart=True)
def llama4(config: Config, text: int) -> Tower:
    """Llama 4: a class token, and patches shuffled into fewer and wider ones."""
    width, patch = _size(config, "hidden_size"), side(config, "patch_size")
    patches = (side(config, "image_size") // patch) ** 2
    share = config.share("pixel_shuffle_ratio", 0.5)
    fewer = round(1 / share**2) if share else 1
    hidden = Axis("vision_hidden", width)
    vit = _vit(
        config,
        positions=patches + 1,
        patch_bias=False,
        before=True,
        after=True,
        first=(Scale("class_embedding", hidden, added=True),),
    )
    inside = _size(config, "projector_output_dim")
    widths = (_size(config, "intermediate_size"), _size(config, "projector_input_dim"))
    adapter = merged("adapter", (*widths, inside), (False, False))
    last = merged("projector", (_size(config, "vision_output_dim"), text), False)
    return Tower((layers(config, vit, fewer), Stage(1, (*adapter, *last))))


@tower("qwen2_vl")
def qwen2_vl(config: Config, text: int) -> Tower:
    """Qwen 2 VL: no table of positions; a merger behind the last layer."""
    width, merge = _size(config, "embed_dim"), side(config, "spatial_merge_size")
    vit = Vit(
        width,
        _depth(config, "depth"),
        _size(config, "num_heads"),
        width * _size(config, "mlp_ratio"),
        _patch(config, "in_channels", "temporal_patch_size"),
        patch_bias=False,
    )
    return _merger(config, vit, merge, _size(config, "hidden_size"))


def _merger(config: Config, vit: Vit, merge: int, out: int) -> Tower:
    body, joined = layers(config, vit, merge * merge), merge * merge * vit.width
    own = Norm("merger_norm", Axis("vision_hidden", vit.width), 1, vit.norms, label=LABEL)
    mlps = merged("merger", (joined, joined, out), (True, True))
    return Tower((Stage(body.rows, (*body.parts, (1, own))), Stage(1, mlps)))


@tower("qwen2_5_vl")
def qwen2_5_vl(config: Config, text: int) -> Tower:
    """Qwen 2.5 VL: a gated MLP; all but a few layers see windows of the image; a merger behind the last."""
    width, merge, patch = _size(config, "hidden_size"), side(config, "spatial_merge_size"), side(config, "patch_size")
    given = (config.find("fullatt_block_indexes") or ("", None))[1]
    vit = Vit(
        width,
        _depth(config, "depth"),
        _size(config, "num_heads"),
        _size(config, "intermediate_size"),
        _patch(config, "in_channels", "temporal_patch_size"),
        patch_bias=False,
        norms=1,
        gated=True,
        window=(_size(config, "window_size") // patch) ** 2,
        whole=len(cast("list[object]", given)) if isinstance(given, list) else 0,
    )
    return _merger(config, vit, merge, config.integer("out_hidden_size", "the width that the vision tower gives", text))


@tower("gemma3", "shieldgemma2")
def gemma3(config: Config, text: int) -> Tower:
    """Gemma 3: SigLIP, its patches pooled into as many tokens as the file says."""
    width, patch = _size(config, "hidden_size"), side(config, "patch_size")
    patches = (side(config, "image_size") // patch) ** 2
    tokens = config.integer("mm_tokens_per_image", "the tokens of an image", 256, most=1 << 20)
    vit = _vit(
        config,
        positions=patches,
        rotated=False,
        after=True,
    )
    own: list[tuple[int, Part]] = [(1, Norm("projector_norm", Axis("vision_hidden", width), 0, 1, label=LABEL))]
    if config.flag("vision_use_head", False):
        # A query, its attention and an MLP, and a norm, which the text model does not read.
        head = width + 4 * width * (width + 1) + 2 * width + 2 * width * vit.intermediate + width + vit.intermediate
        own.append((1, Scale("pooling_head", Axis("pooling_head", head), added=True)))
    body = layers(config, vit, max(1, patches // tokens))
    return Tower((body, Stage(1, (*own, *merged("projector", (width, text), False)))))


@tower("mistral3", "lighton_ocr")
def mistral3(config: Config, text: int) -> Tower:
    """Mistral 3: Pixtral, squares of patches merged into one token."""
    width = _size(config, "hidden_size")
    merge = config.integer("spatial_merge_size", "how many patches are one token", 2, most=1 << 10)
    vit = _vit(
        config,
        patch_bias=False,
        norms=1,
        biases=False,
        gated=True,
        mlp_bias=False,
        before=True,
    )
    body = layers(config, vit, merge * merge)
    own = Norm("projector_norm", Axis("vision_hidden", width), 1, 1, label=LABEL)
    bias = config.flag("multimodal_projector_bias", False)
    joined = merged("merger", (merge * merge * width, width), False)
    mlps = merged("projector", (width, text, text), (bias, bias))
    return Tower((Stage(body.rows, (*body.parts, (1, own))), Stage(1, (*joined, *mlps))))
