"""Vision towers that several larger models take as they are, and what joins them to a text model."""

from dataclasses import replace
from typing import cast

from roofline.config import Config
from roofline.errors import UnknownTower, shown
from roofline.families import tower
from roofline.parts.attention import HeadNorm
from roofline.parts.base import Part
from roofline.parts.ends import Norm, Projection
from roofline.parts.mlp import Mlp
from roofline.parts.tower import LABEL, Scale, Stage, Tower
from roofline.shard import Axis
from roofline.structure.tower import MOST_DEPTH, Vit, layers, merged, side


def _size(config: Config, name: str) -> int:
    return config.integer(name, "a width of the vision tower", most=1 << 24)


def _patches(config: Config) -> int:
    return (side(config, "image_size") // side(config, "patch_size")) ** 2


def _vit(config: Config, usual: str) -> Vit:
    """The layers of a tower by its own model_type, or by the `usual` one where its file is silent."""
    kind = config.keys.get("tower_type") or usual
    readers = {
        "clip_vision_model": _clip,
        "siglip_vision_model": _siglip,
        "idefics3_vision": _siglip,
        "smolvlm_vision": _siglip,
        "pixtral": _pixtral,
        "internvl_vision": _internvl,
        "qianfan_ocr_vision": _internvl,
        "siglip2_vision_model": _siglip2,
        "video_llama_3_vision": _turned,
    }
    if not isinstance(kind, str) or kind not in readers:
        raise UnknownTower(f"{shown(kind, 40)} is a tower that is not known here. Possible: {', '.join(readers)}.")
    return readers[kind](config)


def _plain(config: Config, **options: object) -> Vit:
    channels = config.integer("num_channels", "the channels of an image", 3, most=1 << 10)
    return Vit(
        _size(config, "hidden_size"),
        config.integer("num_hidden_layers", "the layers of the vision tower", most=MOST_DEPTH),
        _size(config, "num_attention_heads"),
        _size(config, "intermediate_size"),
        channels * side(config, "patch_size") ** 2,
        **options,  # pyright: ignore[reportArgumentType]
    )


def _clip(config: Config) -> Vit:
    hidden = Axis("vision_hidden", _size(config, "hidden_size"))
    token = Scale("class_embedding", hidden, added=True)
    rows = _patches(config) + 1
    return _plain(config, positions=rows, patch_bias=False, before=True, after=True, rotated=False, first=(token,))


def _siglip(config: Config) -> Vit:
    headed = config.keys.get("tower_type") not in ("idefics3_vision", "smolvlm_vision") and config.flag(
        "vision_use_head", True
    )
    width, wide = _size(config, "hidden_size"), _size(config, "intermediate_size")
    # A query, its attention, a norm and an MLP, which the text model does not read.
    size = width + 4 * width * (width + 1) + 2 * width + 2 * width * wide + width + wide
    head = (Scale("pooling_head", Axis("pooling_head", size), added=True),) if headed else ()
    return _plain(config, positions=_patches(config), after=True, rotated=False, first=head)


def _siglip2(config: Config) -> Vit:
    """SigLIP 2: images of any shape, up to so many patches."""
    rows = config.integer("num_patches", "the learned positions", most=1 << 24)
    return replace(_siglip(config.having({**config.keys, "image_size": side(config, "patch_size")})), positions=rows)


def _turned(config: Config) -> Vit:
    """SigLIP with rotary positions and no table of them."""
    return _plain(config, after=True)


def _pixtral(config: Config) -> Vit:
    return _plain(config, patch_bias=False, norms=1, biases=False, gated=True, mlp_bias=False, before=True)


def _internvl(config: Config) -> Vit:
    hidden = Axis("vision_hidden", _size(config, "hidden_size"))
    added = ["class_embedding", *(["mask_token"] if config.flag("use_mask_token", False) else [])]
    norms = 1 if (config.find("norm_type") or ("", "layer_norm"))[1] == "rms_norm" else 2
    placed = config.flag("use_absolute_position_embeddings", False)
    return _plain(
        config,
        positions=_patches(config) + 1 if placed else 0,
        norms=norms,
        biases=config.flag("attention_bias", False),
        out_biases=True,
        head_norm=HeadNorm(whole=True) if config.flag("use_qk_norm", False) else None,
        rotated=False,
        scaled=True,
        after=not config.flag("use_mean_pooling", True),
        first=tuple(Scale(name, hidden, added=True) for name in added),
    )


def _joined(config: Config, vit: Vit, rows: int, *parts: tuple[int, Part]) -> Tower:
    return Tower((layers(config, vit, rows), Stage(1, parts)))


def _norm(name: str, width: int, vectors: int = 2) -> tuple[int, Part]:
    return 1, Norm(name, Axis("merged", width), 0, vectors, label=LABEL)


@tower("llava", "llava_next", "llava_next_video", "llava_onevision")
def llava(config: Config, text: int) -> Tower:
    """LLaVA 1.5, NeXT and OneVision, Pixtral: two matrices; from NeXT on a row between the lines of an image."""
    larger = config.keys["larger"]
    vit = _vit(config, "siglip_vision_model" if larger == "llava_onevision" else "clip_vision_model")
    lined = larger != "llava"
    line = ((1, Scale("image_newline", Axis("text_hidden", text), added=True)),) if lined else ()
    bias, features = config.flag("multimodal_projector_bias", True), _features(config)
    return _joined(config, vit, 1, *line, *merged("projector", (vit.width * features, text, text), bias))


def _features(config: Config) -> int:
    """From how many layers the projector reads."""
    given = config.keys.get("vision_feature_layer")
    return len(cast("list[object]", given)) if isinstance(given, list) and given else 1


@tower("vipllava")
def vipllava(config: Config, text: int) -> Tower:
    """VipLLaVA: what several layers give, normed, through two matrices."""
    vit = _vit(config, "clip_vision_model")
    given = config.keys.get("vision_feature_layer")
    wide = vit.width * (_features(config) if given is not None else 5)
    return _joined(config, vit, 1, _norm("projector_norm", wide), *merged("projector", (wide, text, text), True))


@tower("paligemma")
def paligemma(config: Config, text: int) -> Tower:
    """PaliGemma: SigLIP and one matrix."""
    vit = _vit(config, "siglip_vision_model")
    width = config.integer("projection_dim", "the width that the vision tower gives", text)
    return _joined(config, vit, 1, *merged("projector", (vit.width, width), True))


@tower("internvl", "qianfan_ocr")
def internvl(config: Config, text: int) -> Tower:
    """InternVL: squares of patches side by side, a norm and two matrices."""
    vit, share = _vit(config, "internvl_vision"), config.share("downsample_ratio", 0.5)
    square = round(1 / share**2) if share else 1
    wide = vit.width * square
    return _joined(config, vit, square, _norm("projector_norm", wide), *merged("projector", (wide, text, text), True))


@tower("idefics3", "smolvlm")
def idefics3(config: Config, text: int) -> Tower:
    """Idefics 3 and SmolVLM: squares of patches side by side, one matrix."""
    vit = _vit(config, "idefics3_vision")
    square = config.integer("scale_factor", "how many patches are one token", 2, most=1 << 10) ** 2
    return _joined(config, vit, square, *merged("projector", (vit.width * square, text), False))


@tower("lfm2_vl")
def lfm2_vl(config: Config, text: int) -> Tower:
    """LFM2-VL: squares of patches side by side, a norm where the file does not say no, and two matrices."""
    vit, square = _vit(config, "siglip2_vision_model"), _square(config)
    wide, bias = vit.width * square, config.flag("projector_bias", True)
    inside = config.integer("projector_hidden_size", "the width of the projector", 2560)
    normed = (_norm("projector_norm", wide),) if config.flag("projector_use_layernorm", True) else ()
    return _joined(config, vit, square, *normed, *merged("projector", (wide, inside, text), bias))


@tower("deepseek_vl", "video_llama_3")
def deepseek_vl(config: Config, text: int) -> Tower:
    """DeepSeek-VL and VideoLLaMA 3: a tower and two matrices."""
    usual = "siglip_vision_model" if config.keys["larger"] == "deepseek_vl" else "video_llama_3_vision"
    vit = _vit(config, usual)
    return _joined(config, vit, 1, *merged("projector", (vit.width, text, text), True))


@tower("aya_vision")
def aya_vision(config: Config, text: int) -> Tower:
    """Aya Vision: squares of patches side by side, a norm, and a gated pair of matrices."""
    vit, square = _vit(config, "siglip_vision_model"), _square(config)
    wide = vit.width * square
    half = config.integer("alignment_intermediate_size", "the width of the projector", text)
    return _joined(config, vit, square, _norm("projector_norm", wide), *_halved(wide, half, text))


@tower("cohere2_vision")
def cohere2_vision(config: Config, text: int) -> Tower:
    """Command A Vision: squares of patches side by side and a gated pair of matrices."""
    vit, square = _vit(config, "siglip_vision_model"), _square(config)
    wide = config.integer("alignment_intermediate_size", "the width of the projector", 36864)
    return _joined(config, vit, square, *_halved(vit.width * square, wide, text))


def _square(config: Config) -> int:
    return config.integer("downsample_factor", "how many patches are one token", 2, most=1 << 10) ** 2


def _halved(inp: int, wide: int, out: int) -> tuple[tuple[int, Part], ...]:
    """A matrix whose halves are multiplied, and one out of a half."""
    first = Projection("projector_1", Axis("projected", wide), Axis("merged", inp), True, LABEL)
    second = Projection("projector_2", Axis("text_hidden", out), Axis("half", wide // 2), True, LABEL)
    return (1, first), (1, second)


@tower("glm4v", "glm46v", "glmga", "glm4v_moe")
def glm4v(config: Config, text: int) -> Tower:
    """GLM 4.1V to 4.6V: a convolution that joins squares of patches, then a gated MLP."""
    width, merge = _size(config, "hidden_size"), side(config, "spatial_merge_size")
    out = config.integer("out_hidden_size", "the width that the vision tower gives", text)
    bias = config.flag("attention_bias", False)
    channels = config.integer("in_channels", "the channels of an image", 3, most=1 << 10)
    vit = Vit(
        width,
        config.integer("depth", "the layers of the vision tower", most=MOST_DEPTH),
        _size(config, "num_heads"),
        out,
        channels * side(config, "patch_size") ** 2 * side(config, "temporal_patch_size"),
        positions=_patches(config),
        norms=1,
        biases=bias,
        out_biases=False,
        gated=True,
        mlp_bias=False,
        first=(Norm("patch_norm", Axis("vision_hidden", width), 0, 1, label=LABEL),),
        after=True,
    )
    given = Axis("vision_out", out)
    wide = Axis("vision_intermediate", _size(config, "intermediate_size"))
    return _joined(
        config,
        vit,
        merge * merge,
        (1, Projection("downsample", given, Axis("window", width, merge * merge), True, LABEL)),
        (1, Projection("merger_proj", given, Axis("merger_in", out), False, LABEL)),
        (1, Norm("merger_norm", given, 0, 2, label=LABEL)),
        (1, Mlp(given, wide, True, False, label=LABEL)),
    )
