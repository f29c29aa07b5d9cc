"""What transformers and PyTorch count for a config.json, on the meta device: parameters, FLOPs of a forward pass."""

from __future__ import annotations

import copy
import os
import warnings
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

transformers.logging.set_verbosity_error()
SEQUENCES, NEW, SOURCE = 2, 7, 5


_TASKS = {
    "Seq2SeqLM": {
        *("t5", "mt5", "umt5", "bart", "mvp", "plbart", "blenderbot-small", "mbart", "blenderbot", "pegasus"),
        *("marian", "m2m_100", "t5gemma"),
    },
    "SpeechSeq2Seq": {"whisper"},
    "MaskedLM": {
        *("bert", "roberta", "xlm-roberta", "camembert", "data2vec-text", "electra", "distilbert", "ernie"),
        *("megatron-bert", "roberta-prelayernorm", "xlm-roberta-xl", "modernbert", "eurobert", "albert"),
    },
    "ImageClassification": {"vit"},
    "Vision": {"deit", "clip_vision_model", "siglip_vision_model", "siglip2_vision_model"},
}


class Counted(NamedTuple):
    """The counts of transformers and PyTorch; `flops` are of every matrix product, None where none could be run."""

    parameters: int
    embedding: int
    experts: int
    flops: int | None


def build(keys: dict[str, Any]) -> Any:
    """The model of a config.json without its weights."""
    kind = keys["model_type"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = transformers.AutoConfig.for_model(
            kind, **{key: each for key, each in keys.items() if key != "model_type"}
        )
        auto = transformers.AutoModel
        if task(kind) != "Vision":
            auto = getattr(transformers, f"AutoModelFor{task(kind)}")
        with torch.device("meta"):
            return auto.from_config(config, attn_implementation="eager").eval()


def task(model_type: str) -> str:
    """What transformers has a class for that builds the whole model: of tokens after tokens unless it is another's."""
    for name, known in _TASKS.items():
        if model_type in known:
            return name
    return "CausalLM"


def parameters(model: Any) -> tuple[int, int, int]:
    """All parameters, tied ones once; those of the token embedding; those of routed experts."""
    total = experts = 0
    for name, each in model.named_parameters():
        total += each.numel()
        experts += each.numel() if ".experts." in name and "shared" not in name else 0
    sides = [model, *([model.get_decoder()] if task(model.config.model_type) == "Seq2SeqLM" else [])]
    tables = [table.weight for each in sides if isinstance(table := each.get_input_embeddings(), torch.nn.Embedding)]
    return total, sum(each.numel() for each in {id(each): each for each in tables}.values()), experts


def flops(model: Any) -> int | None:
    """FLOPs of one forward pass of 2 sequences of 7 tokens with logits of all.

    Attention is eager, so that its products are counted, and whole: a mask leaves none of them out. Experts are
    batched products over the rows that they are given, as loops over what a router chose cannot run without numbers.
    """
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("batched_mm")
    if task(model.config.model_type) != "CausalLM":
        tokens = torch.zeros(SEQUENCES, NEW, dtype=torch.long)
        model = type(model)._from_config(model.config, attn_implementation="eager").eval()
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(**_inputs(model.config, tokens))
        return counter.get_total_flops()
    tokens = torch.zeros(SEQUENCES, NEW, dtype=torch.long, device="meta")
    last: Exception | None = None
    masks = (torch.zeros(SEQUENCES, 1, NEW, NEW, device="meta"), torch.ones(SEQUENCES, NEW, device="meta"), None)
    for mask in masks:
        try:
            with FlopCounterMode(display=False) as counter, torch.no_grad():
                model(input_ids=tokens, attention_mask=mask, use_cache=False)
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            last = error
            continue
        return counter.get_total_flops()
    if os.environ.get("ORACLE_DEBUG"):
        print(type(model).__name__, str(last)[:300])
    return None


def _inputs(config: Any, tokens: Any) -> dict[str, Any]:
    """What a model that is no decoder alone reads."""
    kind = task(config.model_type)
    if kind == "MaskedLM":
        return {"input_ids": tokens}
    if config.model_type == "siglip2_vision_model":
        patches, width = config.num_patches, config.num_channels * config.patch_size**2
        square = torch.full((SEQUENCES, 2), round(patches**0.5))
        rows = torch.zeros(SEQUENCES, patches, width)
        return {"pixel_values": rows, "pixel_attention_mask": torch.ones(SEQUENCES, patches), "spatial_shapes": square}
    if kind in ("ImageClassification", "Vision"):
        shape = (SEQUENCES, config.num_channels, config.image_size, config.image_size)
        return {"pixel_values": torch.zeros(*shape)}
    if kind == "SpeechSeq2Seq":
        frames = torch.zeros(SEQUENCES, config.num_mel_bins, 2 * config.max_source_positions)
        return {"input_features": frames, "decoder_input_ids": tokens, "use_cache": False}
    source = torch.zeros(SEQUENCES, SOURCE, dtype=torch.long)
    return {"input_ids": source, "decoder_input_ids": tokens, "use_cache": False}


def count(keys: dict[str, Any]) -> Counted:
    """The counts for one config.json."""
    model = build(keys)
    return Counted(*parameters(model), flops(model))


def tower(keys: dict[str, Any]) -> int:
    """Parameters beside the text model of a config.json, in the class that transformers has for images and text."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as CLASSES

    given = copy.deepcopy({key: each for key, each in keys.items() if key != "model_type"})
    config = transformers.AutoConfig.for_model(keys["model_type"], **given)
    with torch.device("meta"):
        model = getattr(transformers, dict(CLASSES)[keys["model_type"]])(config)
    names = ((name, each.numel()) for name, each in model.named_parameters())
    text = ("language_model", "text_model", "lm_head")
    return sum(n for name, n in names if not any(each in name for each in text))
