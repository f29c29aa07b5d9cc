"""Every class of transformers that makes text, or reads text or images, at the sizes that it has by default.

Counted on the meta device and by us: `golden/walk.json`, from which docs/models.md has its table.
"""

from __future__ import annotations

import json
import signal
import warnings
from collections.abc import Iterator
from typing import Any

import oracle  # noqa: F401  # sets what must be set before transformers is imported
import torch
import transformers
from transformers.models.auto import modeling_auto

from roofline import config as configs
from roofline.errors import RooflineError

# The tasks in the order in which a model_type's class is looked for: the first that has one.
TASKS = {
    "ImageTextToText": "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "Seq2SeqLM": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "SpeechSeq2Seq": "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MaskedLM": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "CausalLM": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "ImageClassification": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
}
LONGEST = 60  # seconds that one class may take to be built


def kinds() -> dict[str, str]:
    """Each model_type that a task has a class for, and the task."""
    found: dict[str, str] = {}
    for task, mapping in TASKS.items():
        for name in getattr(modeling_auto, mapping):
            found.setdefault(name, task)
    return found


def walk() -> Iterator[tuple[str, dict[str, Any]]]:
    """What is found for each model_type, in the order of their names."""
    for name, task in sorted(kinds().items()):
        yield name, one(name, task)


def one(name: str, task: str) -> dict[str, Any]:
    """The count of transformers, or None where its class cannot be built by default; ours, or why there is none."""
    found: dict[str, Any] = {"task": task, "total": None, "counted": None, "left_out": [], "refused": ""}
    try:
        config = transformers.AutoConfig.for_model(name)
        keys = json.loads(config.to_json_string(use_diff=False))
    except Exception as error:  # whatever a class of so many raises
        return {**found, "refused": f"no default sizes ({type(error).__name__})"}
    found["total"], built = _total(config, task)
    try:
        # As a checkpoint's file has it.
        keys["architectures"] = [built] if built else None
        model = configs.read(keys, name, "config.json")
    except RooflineError as error:
        return {**found, "refused": str(error).removeprefix("config.json: ")}
    counted = model.parameters()
    apart = ["vision, apart"] if counted.vision_apart else []
    return {**found, "counted": counted.total + counted.vision_apart, "left_out": [*model.uncounted, *apart]}


def _total(config: Any, task: str) -> tuple[int | None, str]:
    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST)
    try:
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = getattr(transformers, f"AutoModelFor{task}").from_config(config)
        return sum(each.numel() for each in model.parameters()), type(model).__name__
    except Exception:  # whatever a class of so many raises
        return None, ""
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
