"""What is run: the rows of one forward pass, the number formats, and how much is folded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

from roofline.dtypes import DType, dtype
from roofline.errors import BadValue, shown
from roofline.num import Num

_MOST = 1 << 40


@dataclass(frozen=True, slots=True)
class Rows:
    """Sequences of one kind in a pass.

    Each of `sequences` brings `new` tokens on `context` cached ones; logits are wanted of the last
    token of each, or of `all_logits`. A single new token is the last of its `context` positions.
    """

    phase: str
    sequences: Num
    new: Num
    context: Num
    all_logits: bool

    @property
    def tokens(self) -> Num:
        """Rows through every weight matrix: sequences · new."""
        return self.sequences * self.new

    @property
    def logits(self) -> Num:
        """Rows through the output head."""
        return self.tokens if self.all_logits else self.sequences


@dataclass(frozen=True, slots=True)
class Workload:
    """One forward pass: one or more groups of rows that share every weight GEMM.

    Decode and prefill are the same thing with other numbers; build one with `decode`, `prefill` or
    `mixed`. Sizes may be ints or NumPy arrays. Raises BadValue for sizes that cannot be.
    """

    groups: tuple[Rows, ...]

    @classmethod
    def decode(cls, sequences: Num = 1, context: Num = 8192, new: Num = 1) -> Workload:
        """A decode step of `sequences`, each at `context` tokens; `new` above 1 for speculation."""
        _check(sequences=(sequences, 1), context=(context, 0), new_tokens=(new, 1))
        return cls((Rows("decode", sequences, new, context, all_logits=True),))

    @classmethod
    def prefill(cls, sequences: Num = 1, new: Num = 2048, context: Num = 0, logits: str = "last") -> Workload:
        """`new` tokens a sequence on `context` cached ones; logits of the "last" or of "all" tokens."""
        _check(sequences=(sequences, 1), new_tokens=(new, 1), context=(context, 0))
        if logits not in ("last", "all"):
            raise BadValue(f"Logits of {shown(logits)} are not known. Choose last or all.")
        return cls((Rows("prefill", sequences, new, context, all_logits=logits == "all"),))

    @classmethod
    def mixed(cls, decode: Workload, prefill: Workload) -> Workload:
        """A pass with chunked prefill: the rows of both."""
        return cls((*decode.groups, *prefill.groups))

    @property
    def phase(self) -> str:
        """`decode`, `prefill`, or `mixed`."""
        phases = {each.phase for each in self.groups}
        return phases.pop() if len(phases) == 1 else "mixed"

    @property
    def tokens(self) -> Num:
        """Rows through every weight matrix."""
        return _sum(each.tokens for each in self.groups)

    @property
    def logits(self) -> Num:
        """Rows through the output head."""
        return _sum(each.logits for each in self.groups)

    def resized(self, *, sequences: Num | None = None, context: Num | None = None) -> Workload:
        """The same pass with another batch or context in its first group."""
        first = self.groups[0]
        if sequences is not None:
            first = replace(first, sequences=sequences)
        if context is not None:
            first = replace(first, context=context)
        return Workload((first, *self.groups[1:]))


def _sum(values: Iterator[Num]) -> Num:
    total: Num = 0
    for each in values:
        total = total + each
    return total


def _check(**sizes: tuple[Num, int]) -> None:
    for name, (value, least) in sizes.items():
        if isinstance(value, (bool, str)):
            raise BadValue(f"{name} must be a number, not {shown(value)}.")
        if isinstance(value, (int, float)):
            low = high = value
        elif hasattr(value, "min"):
            low, high = cast(float, value.min()), cast(float, value.max())  # pyright: ignore
        else:
            continue
        if not (low >= least and high <= _MOST):
            bad = low if not low >= least else high
            raise BadValue(f"{name} must be between {least} and {_MOST:,}, not {shown(bad)}.")
        if isinstance(value, float) and not value.is_integer():
            raise BadValue(f"{name} must be a whole number, not {shown(value)}.")


@dataclass(frozen=True, slots=True)
class Precision:
    """Number formats of a pass.

    `weights` covers every weight matrix, the embedding and the output head too; norms and biases stay
    in the 16-bit format where weights are smaller. `compute` is the rate that GEMMs and attention run at.
    Raises UnknownName for a dtype that is not known.
    """

    weights: str = "bf16"
    kv: str = "bf16"
    activations: str = "bf16"
    compute: str = "bf16"

    def __post_init__(self) -> None:
        for each in (self.weights, self.kv, self.activations):
            dtype(each)

    @property
    def vectors(self) -> DType:
        """The format of norms and biases: that of the weights, but 16 bits at the least."""
        weights = dtype(self.weights)
        return weights if weights.bits >= 16 else dtype("bf16")
