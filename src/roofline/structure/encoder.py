"""What stands behind the layers of an encoder, by the class that its file names."""

from __future__ import annotations

from typing import cast

from roofline.config import Config
from roofline.errors import shown
from roofline.parts.base import Part
from roofline.parts.ends import Pooled, Projection
from roofline.shard import Axis

MOST_LABELS = 1 << 24


def labels(config: Config) -> int:
    """How many classes the answer is one of: two where nothing says it, as in transformers."""
    listed = config.keys.get("id2label")
    if isinstance(listed, dict) and listed:
        return len(cast("dict[object, object]", listed))
    return config.integer("num_labels", "the classes of the answer", 2, most=MOST_LABELS)


def architecture(config: Config) -> str:
    """The class that the file names, or ""."""
    listed = config.keys.get("architectures")
    names = cast("list[object]", listed) if isinstance(listed, list) else []
    return names[0] if names and isinstance(names[0], str) else ""


def answers(
    config: Config,
    hidden: Axis,
    words: tuple[Part, ...],
    pooler: tuple[Part, ...],
    bare: tuple[Part, ...] = (),
) -> tuple[Part, ...]:
    """The parts behind the layers: `words` for masked tokens, a classifier behind a `pooler`, or `bare` ones.

    A file that names no class has the head for masked tokens; the answer says so, and what else is left out.
    """
    name = architecture(config)
    if not name:
        config.assume("The file names no class (architectures): counted with the head for masked tokens")
        return words
    classes = Axis("labels", labels(config))
    known: dict[str, tuple[Part, ...]] = {
        "ForMaskedLM": words,
        "LMHeadModel": words,
        "ForPreTraining": (*words, *pooler, Pooled("classifier", Axis("labels", 2), hidden)),
        "ForSequenceClassification": (*pooler, Pooled("classifier", classes, hidden)),
        "ForTokenClassification": (Projection("classifier", classes, hidden, True, "head"),),
        "Model": bare,
    }
    for ending, parts in known.items():
        if name.endswith(ending):
            return parts
    config.assume(f"What {shown(name, 60)} has behind the layers is not counted: no parameter and no time of it")
    return ()
