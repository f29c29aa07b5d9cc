"""What the headers of a checkpoint say: each tensor's name, format, lengths and bytes; none of its numbers is read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from roofline.dtypes import DType
from roofline.errors import CheckpointError, shown

MOST_TENSORS = 1 << 20
MOST_ELEMENTS = 1 << 60  # what is larger is no size of a tensor
LONGEST_NAME = 2000


class Tensor(NamedTuple):
    """One stored tensor: its format, its lengths (rows before columns), and the bytes that it takes in the file."""

    name: str
    format: DType
    shape: tuple[int, ...]
    bytes: int

    @property
    def elements(self) -> int:
        """Elements of the format; where several numbers share one (packed 4 bits in an I32), fewer than numbers."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The tensors that a checkpoint stores, over all of its files.

    `kind` is "safetensors" or "gguf"; `metadata` what a GGUF file says of the model; `source` what it is called.
    """

    kind: str
    source: str
    files: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def bytes(self) -> int:
        """Bytes of every tensor; headers and padding are not counted [byte]."""
        return sum(each.bytes for each in self.tensors)

    @property
    def elements(self) -> int:
        """Elements of every tensor: the parameters, where no format packs several numbers into one element."""
        return sum(each.elements for each in self.tensors)

    @property
    def formats(self) -> dict[str, int]:
        """Bytes by the format in which they are stored, the most first [byte]."""
        return _sums((each.format.name, each.bytes) for each in self.tensors)

    @property
    def parts(self) -> dict[str, int]:
        """Bytes by the part of a model that a tensor's name tells, the most first [byte]."""
        return _sums((part_of(each.name), each.bytes) for each in self.tensors)


def _sums(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, size in pairs:
        found[name] = found.get(name, 0) + size
    return dict(sorted(found.items(), key=lambda each: -each[1]))


# Words of a tensor's name, those that decide before those that may stand in several parts.
_PARTS = tuple(
    (part, re.compile(pattern))
    for part, pattern in (
        ("vision", r"(^|\.)(visual|vision|vit|multi_modal_projector|mm_projector|image_newline)|^(v|mm)\."),
        ("audio", r"(^|\.)(audio|speech)|^a\."),
        ("prediction", r"(^|\.)(mtp|nextn)\b"),
        (
            "embedding",
            r"(^|\.)embeddings?\.weight$|embed_tokens|embed_positions|embed_in\b|\bw[tp]e\b|word_embeddings|(token|position)_embd",
        ),
        ("head", r"(^|\.)(lm_head|embed_out|output)\.[a-z_]+$"),
        ("norm", r"norm|\bln_?\w*\b"),
        ("experts", r"experts?\b(?!_gate)(?<!shared_expert)(?<!shared_experts)|_exps\b"),
        ("recurrent", r"linear_attn|mamba|\bssm|\bmixer\b|time_mix"),
        ("attention", r"attn|attention|\bwq|\bwk|\bwv|\bwo\b|c_attn"),
        ("mlp", r"mlp|ffn|feed_forward|\bfc\d|block_sparse_moe|exp_probs"),
    )
)


def part_of(name: str) -> str:
    """The part of a model that a tensor of this name belongs to; "other" where it tells none."""
    return _part(_NUMBER.sub("0", name))


_NUMBER = re.compile(r"\d+")


@lru_cache(1 << 12)
def _part(name: str) -> str:
    """The same of a name whose numbers are all alike, as those of layers and experts tell nothing."""
    return next((part for part, pattern in _PARTS if pattern.search(name)), "other")


@dataclass(frozen=True, slots=True)
class Fault:
    """The error for what is wrong with one file: its name in front, what to do behind."""

    where: str

    def __call__(self, message: str) -> CheckpointError:
        """The error to raise."""
        return CheckpointError(f"{self.where}: {message} Download it again, or name its config.json.")


def check_pointer(start: bytes, fault: Fault) -> None:
    """Refuse what stands for a large file where a repository was cloned without it; raises CheckpointError."""
    if start.startswith(b"vers"):
        raise fault("it is a Git LFS pointer, and the file that it stands for is not here (git lfs pull).")


def elements(shape: Iterable[int], name: str, fault: Fault) -> int:
    """Elements of these lengths; raises CheckpointError where their product is no size of a tensor."""
    product = 1
    for each in shape:
        if not 0 <= each <= MOST_ELEMENTS:
            raise fault(f"the tensor {shown(name)} has a length of {shown(each)}.")
        product *= each
        if product > MOST_ELEMENTS:
            raise fault(f"the lengths of the tensor {shown(name)} multiply to more than any file holds.")
    return product
