"""What `fused` does: the small kernels become prologue or epilogue of the GEMM beside them.

Their FLOPs stay; what they read and wrote stays in registers, but for the residual stream.
"""

from __future__ import annotations

from collections.abc import Callable

from roofline.cost import Cost, Work
from roofline.model import Counted
from roofline.num import Num, ceil_div, minimum
from roofline.parts.base import Kernel


def _norm(work: Work, moved: Num) -> Num:
    """Each added tensor costs the kernel that makes it a read of the stream, which it then writes in its place."""
    added, after = work.dims["added"], work.dims["after"]
    return ceil_div(moved * (added + after), 2 + added + minimum(added, 1) + after)


def _activation(work: Work, moved: Num) -> Num:
    """The GEMM that makes u reads g beside it, and writes the product in place of u."""
    gates = work.dims["gates"]
    return ceil_div(moved * gates, 2 + gates)


def _nothing(work: Work, moved: Num) -> Num:
    """Everything it moves stays in registers."""
    return 0


# op -> activation bytes that remain at the kernel that takes it in.
FOLDS: dict[str, Callable[[Work, Num], Num]] = {"norm": _norm, "activation": _activation, "rope": _nothing}


def fold(kernels: list[Counted]) -> list[Counted]:
    """The same pass with every kernel of FOLDS in the one before; FLOPs and weight bytes are kept.

    Where the one before is called another number of times, as at the ends of the layers, the one after
    takes it in; where neither can, it stays.
    """
    hosts: dict[int, list[Cost]] = {}
    kept: list[int] = []
    solid = [i for i, (_, kernel) in enumerate(kernels) if kernel.work.op not in FOLDS and not kernel.work.cost.links]
    for index, (calls, kernel) in enumerate(kernels):
        around = [i for i in solid if i < index][-1:] + [i for i in solid if i > index][:1]
        host = next((i for i in around if kernels[i].calls == calls), None)
        if kernel.work.op not in FOLDS or host is None:
            kept.append(index)
            continue
        cost = kernel.work.cost
        remains = FOLDS[kernel.work.op](kernel.work, cost.memory["activations"])
        hosts.setdefault(host, []).append(Cost(cost.flops, {**cost.memory, "activations": remains}, launches=0))
    return [Counted(kernels[i].calls, _joined(kernels[i].kernel, hosts.get(i, []))) for i in kept]


def _joined(kernel: Kernel, costs: list[Cost]) -> Kernel:
    work = kernel.work
    return Kernel(kernel.name, kernel.part, Work(work.op, work.dims, sum(costs, start=work.cost)))
