"""What `fused` does: the small kernels become prologue or epilogue of the GEMM beside them.

Their FLOPs stay; what they read and wrote stays in registers, but for the residual stream.
"""

from __future__ import annotations

from collections.abc import Callable

from roofline.cost import Cost, Work
from roofline.model import Counted
from roofline.num import Num, exact_div, minimum
from roofline.parts.base import Kernel


def _norm(work: Work, moved: Num) -> Num:
    """Of the tensors that a norm moves, each added one costs the GEMM before it a read of the stream."""
    added = work.dims["added"]
    return exact_div(moved * added, 2 + added + minimum(added, 1))


def _activation(work: Work, moved: Num) -> Num:
    """A gated pair that is one kernel writes one tensor where it wrote two."""
    gates = work.dims["gates"]
    return -exact_div(moved * gates, 2 + gates)


def _nothing(work: Work, moved: Num) -> Num:
    return 0


# op -> (the kernel it joins: -1 the one before, 1 the one after; activation bytes that remain)
FOLDS: dict[str, tuple[int, Callable[[Work, Num], Num]]] = {
    "norm": (1, _norm),
    "activation": (-1, _activation),
    "rope": (-1, _nothing),
}


def fold(kernels: list[Counted]) -> list[Counted]:
    """The same pass with every kernel of FOLDS in its neighbour; FLOPs and weight bytes are kept."""
    extra: dict[int, list[Cost]] = {}
    for index, (_, kernel) in enumerate(kernels):
        if kernel.work.op in FOLDS:
            step, remains = FOLDS[kernel.work.op]
            target = index + step
            while kernels[target].kernel.work.op in FOLDS or kernels[target].kernel.work.cost.links:
                target += step
            cost = kernel.work.cost
            memory = {**cost.memory, "activations": remains(kernel.work, cost.memory["activations"])}
            extra.setdefault(target, []).append(Cost(cost.flops, memory, launches=0))
    return [
        Counted(count, _joined(kernel, extra.get(index, [])))
        for index, (count, kernel) in enumerate(kernels)
        if kernel.work.op not in FOLDS
    ]


def _joined(kernel: Kernel, costs: list[Cost]) -> Kernel:
    cost = kernel.work.cost
    for each in costs:
        cost = cost + each
    return Kernel(kernel.name, kernel.part, Work(kernel.work.op, kernel.work.dims, cost))
