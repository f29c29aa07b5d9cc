"""The backward pass: a rule for each operation, from its forward Work to the Work of its gradients.

An operation has operands that are weights or activations; each that is not frozen gets a gradient. The gradient of
an input ("dx") and of a weight matrix ("dw") are GEMMs of their own, each with the FLOPs of the forward one. Small
kernels: twice the FLOPs of the forward kernel, a convention; bytes are ideal, each operand once, as forward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from roofline.cost import Cost, Work
from roofline.dtypes import DType
from roofline.errors import RooflineError
from roofline.num import Num, exact_div, minimum
from roofline.pairs import visible

# GEMMs of attention: two forward (q·Kᵀ, p·V), four backward (dV, dp, dq, dK), a fifth where p is made again.
FORWARD_GEMMS, STORED, FLASH = 2, 4, 5


@dataclass(frozen=True, slots=True)
class Formats:
    """What gradients are stored in, and how attention goes back.

    `attention_gemms` is 5 where the scores are made again in the backward pass (FlashAttention: 2.5 times the
    forward), 4 where they were stored (2 times).
    """

    weights: DType
    activations: DType
    vectors: DType
    gradients: DType
    attention_gemms: int = FLASH


class Gradient(NamedTuple):
    """One backward kernel: of its input ("dx") or of its weights ("dw")."""

    of: str
    work: Work


Rule = Callable[[Work, Formats], "tuple[Gradient, ...]"]
RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Register the backward rule of operations; a second registration is refused."""

    def register(function: Rule) -> Rule:
        for name in ops:
            if name in RULES:
                raise RooflineError(f"The backward rule of {name!r} is registered twice.")
            RULES[name] = function
        return function

    return register


def backward(work: Work, formats: Formats, frozen: bool = False) -> tuple[Gradient, ...]:
    """The gradients of an operation: those of its weights are left out where they are `frozen`."""
    found = RULES.get(work.op, contraction)(work, formats)
    if not frozen:
        return found
    return tuple(Gradient("dx", _without_gradients(each.work)) for each in found if each.of != "dw")


def _without_gradients(work: Work) -> Work:
    memory = {role: moved for role, moved in work.cost.memory.items() if role != "gradients"}
    return Work(work.op, work.dims, Cost(work.cost.flops, memory, work.cost.links, work.cost.steps))


def contraction(work: Work, formats: Formats) -> tuple[Gradient, ...]:
    """y = f(x, W), linear in each: dx moves what y does, dW writes gradients in place of reading W.

    The rule of every operation without one of its own: as many FLOPs again for each operand.
    """
    memory = dict(work.cost.memory)
    streamed = {role: memory.pop(role) for role in ("weights", "routed") if role in memory}
    memory["activations"] = memory.pop("output", 0) + memory.get("activations", 0)
    gradients = exact_div(_sum(streamed) * formats.gradients.bits, formats.weights.bits)
    into = Cost(work.cost.flops, {**memory, **streamed})
    through = Cost(work.cost.flops, {**memory, "gradients": gradients})
    return Gradient("dx", Work(work.op, work.dims, into)), Gradient("dw", Work(work.op, work.dims, through))


def _sum(parts: Mapping[str, Num]) -> Num:
    total: Num = 0
    for each in parts.values():
        total = total + each
    return total


@rule("linear")
def _linear(work: Work, formats: Formats) -> tuple[Gradient, ...]:
    """dX[m, k] = dY[m, n] · W[n, k] and dW[n, k] = dYᵀ · X: 2 m n k each.

    Source: Goodfellow et al. 2016, Deep Learning, 6.5; Narayanan et al. 2021, appendix.
    """
    m, n, k = (work.dims[key] for key in "mnk")
    into, through = contraction(work, formats)
    return (
        Gradient("dx", Work("linear", {"m": m, "n": k, "k": n}, into.work.cost)),
        Gradient("dw", Work("linear", {"m": n, "n": k, "k": m}, through.work.cost)),
    )


@rule("attention")
def _attention(work: Work, formats: Formats) -> tuple[Gradient, ...]:
    """Gradients of q, K and V: reads q, K, V, y and dy, writes dq, dK and dV.

    Source: Dao et al. 2022 (FlashAttention), algorithm 4.
    """
    flops = {rate: exact_div(formats.attention_gemms * each, FORWARD_GEMMS) for rate, each in work.cost.flops.items()}
    moved = 2 * work.cost.bytes  # q, K, V and y, as forward, and their gradients
    return (Gradient("dx", Work("attention", work.dims, Cost(flops, {"activations": moved}))),)


@rule("norm")
def _norm(work: Work, formats: Formats) -> tuple[Gradient, ...]:
    """Reads dy, the normed stream, and the stream's own gradient where something was added; writes that of x."""
    m, width, added = (work.dims[key] for key in ("m", "width", "added"))
    moved = formats.activations.matrix((3 + minimum(added, 1)) * m, width)
    return _small(work, moved, formats)


@rule("activation")
def _activation(work: Work, formats: Formats) -> tuple[Gradient, ...]:
    """Reads dy, g and u, writes dg and du."""
    m, width, gates = (work.dims[key] for key in ("m", "width", "gates"))
    return _small(work, formats.activations.matrix((3 + 2 * gates) * m, width), formats)


@rule("rope", "softmax", "elementwise", "short-conv")
def _half_again(work: Work, formats: Formats) -> tuple[Gradient, ...]:
    """Reads dy and what was saved, writes dx: half as much again as forward, which reads and writes."""
    return _small(work, exact_div(3 * work.cost.memory.get("activations", 0), 2), formats)


@rule("scan")
def _scan(work: Work, formats: Formats) -> tuple[Gradient, ...]:
    """A scan from the end to the start: twice the products; reads what forward moves and dy, writes dq, dk and dv."""
    flops = {rate: 2 * each for rate, each in work.cost.flops.items()}
    weights = work.cost.memory.get("weights", 0)
    memory = {
        "activations": 2 * work.cost.memory.get("activations", 0),
        "weights": weights,
        "gradients": exact_div(weights * formats.gradients.bits, formats.vectors.bits),
    }
    return (Gradient("dx", Work(work.op, work.dims, Cost(flops, memory))),)


@rule("copy")
def _copy(work: Work, formats: Formats) -> tuple[Gradient, ...]:
    """The gradient is copied back."""
    return (Gradient("dx", Work(work.op, work.dims, work.cost)),)


@rule("embedding")
def _embedding(work: Work, formats: Formats) -> tuple[Gradient, ...]:
    """Rows of dy are added into the rows of the table that were looked up."""
    (through,) = _small(work, work.cost.memory.get("activations", 0), formats)
    return (Gradient("dw", through.work),)


@rule("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send")
def _collective(work: Work, formats: Formats) -> tuple[Gradient, ...]:
    """The conjugate collective sends as much: all-gather and reduce-scatter are each other's, the rest their own.

    The all-reduce after a matrix split by rows has none backward, and the one before a matrix split by columns
    none forward: they come in pairs. Source: Shoeybi et al. 2019 (Megatron-LM), section 3.
    """
    other = {"all-gather": "reduce-scatter", "reduce-scatter": "all-gather"}.get(work.op, work.op)
    return (Gradient("dx", Work(other, work.dims, work.cost)),)


def _small(work: Work, moved: Num, formats: Formats) -> tuple[Gradient, ...]:
    """A kernel on the vector units, and the gradient of the vector of weights that it reads, written with it."""
    flops = {rate: 2 * each for rate, each in work.cost.flops.items()}
    weights = work.cost.memory.get("weights", 0)
    gradients = exact_div(weights * formats.gradients.bits, formats.vectors.bits)
    memory = {"activations": moved, "weights": weights, "gradients": gradients}
    return (Gradient("dx", Work(work.op, work.dims, Cost(flops, memory))),)


def trained(work: Work) -> Work:
    """A forward kernel as training runs it: nothing is cached, and logits are activations like others."""
    memory = dict(work.cost.memory)
    cached = memory.pop("kv", 0)
    # From nothing, the cache that is read is the one that is appended: K and V are moved once, as q and y are.
    memory["activations"] = memory.pop("output", 0) + memory.get("activations", cached)
    return Work(work.op, work.dims, Cost(work.cost.flops, memory, work.cost.links, work.cost.steps))


def everything_seen(work: Work) -> Work:
    """The same attention without a mask: every query on every position, as eager kernels and counters have it."""
    if work.op != "attention":
        return work
    if "source" in work.dims:  # nothing is hidden of an encoder's output
        return work
    new, context = work.dims["new"], work.dims["context"]
    limits = (work.dims.get(name) for name in ("window", "chunk", "stride", "selected"))
    pairs, (seen, _) = new * (context + new), visible(new, context, *limits)
    flops = {rate: exact_div(each * pairs, seen) for rate, each in work.cost.flops.items()}
    return Work(work.op, work.dims, Cost(flops, work.cost.memory, work.cost.links, work.cost.steps))
