"""What a larger model has beside its text model: a vision tower that is counted, and parts that are named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roofline.config import Config, class_defaults
from roofline.errors import UnknownTower, shown
from roofline.parts.tower import Tower

_BESIDE = (
    ("vision", ("vision_config", "vision_tower_config", "visual", "vit_config")),
    ("audio", ("audio_config", "audio_encoder_config", "speech_config")),
)
# Keys of the larger model that say something of its tower.
_OF_TOWERS = (
    *("spatial_merge_size", "mm_tokens_per_image", "multimodal_projector_bias", "vision_feature_layer"),
    *("projection_dim", "downsample_ratio", "scale_factor", "downsample_factor", "alignment_intermediate_size"),
)
_QUOTE = "'\""


def parts_beside(whole: Config, text: Config) -> tuple[Tower | None, list[str]]:
    """The vision tower where it is counted, and what else the file has beside its text model; the answer says so."""
    found: list[str] = []
    tower: Tower | None = None
    for what, names in _BESIDE:
        key = next((each for each in names if whole.keys.get(each)), None)
        if what == "vision":
            tower = _tower(whole, text, key)
        if key is None:
            continue
        whole.asked.add(key)
        if what != "vision" or tower is None:
            found.append(what)
            text.assume(f"The {what} part ({key}) is not counted: parameters, bytes and times are of the text model")
    if whole is not text and not found and tower is None:
        sections = [key for key in whole.keys if _describes(whole, key)]
        if sections:
            found.append("beside")
            listed = ", ".join(shown(each, 40) for each in sections[:6])
            text.assume(f"What the file has beside the text model ({listed}) is not counted: all is of the text model")
    if whole is not text and not found:
        whole.note_unread("Keys beside the text model that are not read")
    return tower, found


def _describes(whole: Config, key: str) -> bool:
    """Whether a key of a larger model describes a part of it that nothing has read."""
    if key in whole.asked or key in ("quantization_config", "generation_config"):
        return False
    return key == "patch_size" or (key.endswith("_config") and bool(whole.keys[key]))


def _tower(whole: Config, text: Config, key: str | None) -> Tower | None:
    """The vision tower of a family that has one known here."""
    from roofline.families import tower_of

    known = tower_of(whole.model_type)
    if known is None or (key is None and not known.absent):
        return None
    keys: Mapping[str, Any] = whole.section(key).keys if key else {}
    body = f"{shown(keys.get('model_type'), 40).strip(_QUOTE)} body"
    kind = body if body in class_defaults() else f"{whole.model_type} vision"
    beside = {name: whole.keys[name] for name in _OF_TOWERS if name in whole.keys}
    named = {"model_type": kind, "larger": whole.model_type, "tower_type": keys.get("model_type")}
    config = Config({**beside, **keys, **named}, whole.source, nested=True)
    config.assumptions = text.assumptions
    width = text.integer("hidden", "the width of every matrix")
    try:
        tower = replace(known.read(config, width), apart=known.apart)
    except UnknownTower as error:
        text.assume(str(error))
        return None
    if config.taken:
        taken = ", ".join(f"{name} {value}" for name, value in config.taken.items())
        text.assume(f"Not in the file of the vision tower, so as in {class_defaults()[kind]['source']}: {taken}")
    count = f"The vision tower has {tower.parameters:,} parameters"
    if tower.apart:
        text.assume(f"{count}: left out of every count, as the causal language model of transformers leaves it out")
    else:
        text.assume(f"{count}, on every rank whole; a pass goes through it where it has images")
    return tower
