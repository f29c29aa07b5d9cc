"""How a model is trained, whatever splits it: formats, recomputation, what is frozen, the optimizer."""

from __future__ import annotations

from dataclasses import dataclass, field

from roofline.backward import FLASH, STORED, Formats
from roofline.dtypes import dtype
from roofline.errors import BadValue, UnknownName, shown
from roofline.num import Num, exact_div
from roofline.workload import Precision


@dataclass(frozen=True, slots=True)
class Recompute:
    """What of the layers' forward pass is run again in the backward pass.

    `layers` is the share of their whole forward pass (1: full recomputation), `core` that of the attention core,
    q·Kᵀ and p·V, beside it (1: selective). Source: Korthikanti et al. 2022, section 5.
    """

    word: str = "none"
    layers: Num = 0
    core: Num = 0

    @classmethod
    def named(cls, text: str) -> Recompute:
        """`none`, `selective`, `full`, or a share of the layers' forward pass, as 0.75; raises BadValue."""
        known = {"none": cls(), "selective": cls("selective", 0, 1), "full": cls("full", 1, 0)}
        if text in known:
            return known[text]
        try:
            share = float(text)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            raise BadValue(
                f"Recomputation of {shown(text)} is not known. Possible: none, selective, full, or the share of the "
                "forward pass that is run again, as 0.75."
            )
        return cls(text, int(share) if share in (0, 1) else share, 0)

    @property
    def name(self) -> str:
        """In words."""
        return self.word if self.word in ("none", "selective", "full") else f"{self.word} of a forward pass"


@dataclass(frozen=True, slots=True)
class Optimizer:
    """What one parameter costs at the end of a step.

    `states` FP32 numbers are kept for it (Adam: two); `arithmetic` FLOPs an element, a convention. Unfused, each
    of the `passes` reads or writes one FP32 tensor.
    """

    name: str
    states: int
    arithmetic: int
    passes: int


# Passes of the unfused ones: the element-by-element kernels of PyTorch's single-tensor loop, each operand once.
OPTIMIZERS = {
    each.name: each
    for each in (
        Optimizer("adamw", 2, 15, 20),  # p·(1-λη); m lerp; v·β, + g²; √v, /, + ε; p - η m/d
        Optimizer("sgd-momentum", 1, 4, 6),
        Optimizer("sgd", 0, 2, 3),
    )
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Formats, recomputation, frozen parts and optimizer of a training run.

    `frozen` names parts of the network, or "all"; `lora` is the rank of adapters on every matrix of the layers.
    `master` keeps an FP32 copy of parameters stored in fewer bits. `flash` makes attention scores again in the
    backward pass instead of storing them; `causal` counts only the pairs that a causal mask leaves. `documents` is
    the length of the documents packed into a sequence [tokens], between which attention is masked. Raises BadValue
    and UnknownName.
    """

    precision: Precision = field(default_factory=Precision)
    recompute: Recompute = field(default_factory=Recompute)
    gradients: str = "bf16"
    optimizer: str = "adamw"
    fused: bool = True
    master: bool = True
    frozen: frozenset[str] = frozenset()
    lora: int = 0
    flash: bool = True
    causal: bool = True
    documents: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "gradients", dtype(self.gradients).name)
        if self.optimizer not in OPTIMIZERS:
            raise UnknownName.of("optimizer", self.optimizer, OPTIMIZERS)
        if self.lora.__class__ is not int or self.lora < 0:
            raise BadValue(f"A LoRA rank is a whole number above zero, not {shown(self.lora)}.")

    @property
    def formats(self) -> Formats:
        """Number formats as the backward rules take them."""
        precision = self.precision
        return Formats(
            dtype(precision.weights),
            dtype(precision.activations),
            precision.vectors,
            dtype(self.gradients),
            FLASH if self.flash else STORED,
        )

    def freezes(self, part: str) -> bool:
        """Whether a part's own weights stay as they are."""
        return bool(self.lora) or "all" in self.frozen or part in self.frozen

    @property
    def state_bytes(self) -> int:
        """Bytes that the optimizer keeps of one parameter: FP32 states, and the FP32 copy where there is one."""
        copy = self.master and dtype(self.precision.weights).bits < dtype("fp32").bits
        return dtype("fp32").bits // 8 * (OPTIMIZERS[self.optimizer].states + copy)

    @property
    def update_bytes(self) -> Num:
        """Bytes that one update of a parameter moves [byte].

        Fused: gradient and states read, states written, the parameter written (and read, where no copy is kept).
        Unfused: one pass after another over FP32 tensors, and the copy between formats.
        """
        stored = exact_div(dtype(self.precision.weights).bits, 8)
        gradient = exact_div(dtype(self.gradients).bits, 8)
        optimizer, full = OPTIMIZERS[self.optimizer], dtype("fp32").bits // 8
        copy = self.state_bytes > full * optimizer.states
        if self.fused:
            return gradient + 2 * self.state_bytes + (1 if copy else 2) * stored
        between = gradient + full + full + stored if copy else 0
        return full * optimizer.passes + between
