"""What is run: the rows of one forward pass, the number formats, and how much is folded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from roofline.dtypes import STORED, DType, dtype
from roofline.errors import BadValue, shown
from roofline.num import Expr, Num, number, where
from roofline.routing import EVEN, Spread

MOST = 1 << 40
CALL = "call"  # the phase of a pass that has no tokens: one call of any module


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
        return where(self.all_logits, self.tokens, self.sequences)

    @property
    def behind(self) -> Num:
        """`context` as the operations take it: that of a single new token has the token in it.

        In decode it has by definition; a prefill's `context` is what was cached before.
        """
        return self.context if self.phase == "decode" else where(self.new > 1, self.context, self.context + 1)


class Images(NamedTuple):
    """Images that a pass reads, and how many tokens the text model sees of each; these are among its new tokens."""

    number: Num
    tokens: Num


@dataclass(frozen=True, slots=True)
class Workload:
    """One forward pass: one or more groups of rows that share every weight GEMM.

    Decode and prefill are the same thing with other numbers; build one with `decode`, `prefill` or
    `mixed`. Sizes may be ints or NumPy arrays. `spread` says how tokens spread over experts, where the model has
    them; `images` are those that its vision tower reads (None: text alone); `source` is how many positions of each
    sequence its encoder gives (None: as many as the decoder's, or as it always has). Raises BadValue for sizes that
    cannot be.
    """

    groups: tuple[Rows, ...]
    spread: Spread = EVEN
    images: Images | None = None
    source: Num | None = None

    def __post_init__(self) -> None:
        if not self.groups:
            raise BadValue("A pass has rows. Build it with Workload.decode, prefill or mixed.")

    @classmethod
    def decode(cls, sequences: Num = 1, context: Num = 8192, new: Num = 1) -> Workload:
        """A decode step of `sequences`, each at `context` tokens; `new` above 1 for speculation."""
        return cls((_rows("decode", sequences, new, context, all_logits=True),))

    @classmethod
    def prefill(cls, sequences: Num = 1, new: Num = 2048, context: Num = 0, logits: str = "last") -> Workload:
        """`new` tokens a sequence on `context` cached ones; logits of the "last" or of "all" tokens."""
        if logits not in ("last", "all"):
            raise BadValue(f"Logits of {shown(logits)} are not known. Choose last or all.")
        return cls((_rows("prefill", sequences, new, context, all_logits=logits == "all"),))

    @classmethod
    def mixed(cls, decode: Workload, prefill: Workload) -> Workload:
        """A pass with chunked prefill: the rows of both."""
        groups, images = (*decode.groups, *prefill.groups), prefill.images or decode.images
        return cls(groups, decode.spread, images, decode.source if prefill.source is None else prefill.source)

    def seeing(self, images: Num, tokens: Num) -> Workload:
        """The same pass with so many images read by the vision tower, each `tokens` of the text model's new ones."""
        return replace(self, images=Images(size("images", images, 1), size("image_tokens", tokens, 1)))

    def reading(self, source: Num) -> Workload:
        """The same pass with an encoder's source of so many positions a sequence."""
        return replace(self, source=size("source", source, 1))

    def routed(self, *, touched: Num | None = None, skew: float = 0.0) -> Workload:
        """The same pass with so many experts touched a layer, or with tokens that choose experts by a power law."""
        return replace(self, spread=Spread(skew, touched))

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

    def resized(self, *, sequences: Num | None = None, new: Num | None = None, context: Num | None = None) -> Workload:
        """The same pass with another batch, number of new tokens or context in its first group."""
        first = self.groups[0]
        changed = _rows(
            first.phase,
            first.sequences if sequences is None else sequences,
            first.new if new is None else new,
            first.context if context is None else context,
            all_logits=first.all_logits,
        )
        return Workload((changed, *self.groups[1:]), self.spread, self.images, self.source)


def _sum(values: Iterator[Num]) -> Num:
    total: Num = 0
    for each in values:
        total = total + each
    return total


def _rows(phase: str, sequences: Num, new: Num, context: Num, *, all_logits: bool) -> Rows:
    """Rows of sizes that can be; raises BadValue."""
    sizes = size("sequences", sequences, 1), size("new_tokens", new, 1), size("context", context, 0)
    return Rows(phase, *sizes, all_logits)


def size(name: str, value: Num, least: int, most: int = MOST) -> Num:
    """`value` where it is a size that can be: an int, a traced number, or an array, which becomes float64.

    Arrays of ints would wrap past 2^63; float64 is exact to 2^53. Raises BadValue.
    """
    exact = number(value)
    if exact is None:
        raise _impossible(name, value, least, most)
    if isinstance(exact, Expr):
        return exact
    if isinstance(exact, (int, float)):
        if exact != int(exact) or not least <= exact <= most:
            raise _impossible(name, value, least, most)
        return int(exact)
    good = (exact >= least) & (exact <= most) & (exact % 1 == 0)
    if not good.all():
        raise _impossible(name, exact[~good].flat[0].item(), least, most)
    return exact


def _impossible(name: str, value: object, least: int, most: int = MOST) -> BadValue:
    return BadValue(f"{name} must be a whole number from {least} to {most:,}, not {shown(value)}.")


@dataclass(frozen=True, slots=True)
class Precision:
    """Number formats of a pass.

    `weights` covers every weight matrix, the embedding and the output head too. "stored", the default, is each in the
    format that the checkpoint's file says, and BF16 where it says none. Norms and biases stay in the 16-bit format
    where weights are smaller. `compute` is the rate that GEMMs and attention run at. Names are read in any case. Raises
    UnknownName for a dtype that is not known, BadValue for one of matrix blocks where there is no matrix.
    """

    weights: str = STORED
    kv: str = "bf16"
    activations: str = "bf16"
    compute: str = "bf16"

    def __post_init__(self) -> None:
        for field in ("weights", "kv", "activations"):
            found = dtype(getattr(self, field))
            if found.name == STORED and field != "weights":
                raise BadValue(f"{field} are in no checkpoint. Choose a format, as bf16 or fp8.")
            if field != "weights" and found.block is not None and found.block[0] != 1:
                raise BadValue(f"{found.name} has blocks of a matrix, which {field} are not. Choose fp8 or mxfp8.")
            object.__setattr__(self, field, found.name)
        object.__setattr__(self, "compute", str(self.compute).lower())

    @property
    def vectors(self) -> DType:
        """The format of norms and biases: that of the weights, but 16 bits at the least."""
        weights = dtype(self.weights)
        return weights if weights.bits >= 16 and weights.name != STORED else dtype("bf16")
