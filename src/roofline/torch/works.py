"""What one recorded operator demands: FLOPs by the table that measured operators go by, bytes by its tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, cast

from roofline.cost import Cost, Work
from roofline.diagnosis.costs.call import Call, Tensor
from roofline.diagnosis.costs.registry import work_of
from roofline.diagnosis.costs.tensors import streamed
from roofline.ops import VECTOR

# How a row's bytes are found: as the table has them, from all tensors of the operator, or from those that are picked.
Way = Literal["table", "tensors", "picked"]
_FP32 = frozenset(("tf32", "fp32", VECTOR))
_LOOKS_UP = ("embedding", "moe")


@dataclass(frozen=True, slots=True)
class Row:
    """One operator as it was called, as often as with the same tensors in the same place.

    `place` is the module, numbers as stars; `read` and `written` are its tensors, each once; `parameters` the bytes of
    those that no operator before it read whole; `beside` tensors that the table leaves out; `simple` an operator that
    moves or makes numbers and counts none; `tf32` whether FP32 products may run at TF32.
    """

    name: str
    place: str
    call: Call
    read: tuple[Tensor, ...]
    written: tuple[Tensor, ...]
    way: Way
    parameters: int = 0
    beside: tuple[Tensor, ...] = ()
    pointwise: bool = False
    simple: bool = False
    tf32: bool = False
    count: int = 1

    def known(self) -> bool:
        """Whether the table knows its FLOPs, or it has none."""
        return self.simple or self.pointwise or self._found(None) is not None

    def work(self, peaks: frozenset[str] | None) -> Work:
        """Its demand on a device with these rates (None: any)."""
        found = self._found(peaks)
        if found is None:
            work = streamed(self.read, self.written, flops=int(self.pointwise and not self.simple))
        elif self.way == "table":
            work = _more(found, self.beside)
        else:
            moved = streamed(self.read, self.written, flops=0)
            work = Work(found.op, found.dims, Cost(found.cost.flops, moved.cost.memory))
        return self._first_reads(work)

    def _found(self, peaks: frozenset[str] | None) -> Work | None:
        if self.simple:
            return None
        allowed = None if peaks is None else peaks - (frozenset() if self.tf32 else frozenset(["tf32"]))
        # Where no rate of FP32 is known, or no device, the vector units' own: the slowest is always there.
        exact = not self.tf32 if allowed is None else not allowed & _FP32
        return work_of(replace(self.call, peaks=allowed, kernel=self.call.kernel or ("simt" if exact else "")))

    def _first_reads(self, work: Work) -> Work:
        """The same with the parameters that it is first to read as weights, and everything else as activations."""
        moved = work.cost.memory
        total = sum(cast(int, n) for n in moved.values())
        most = cast(int, moved.get("weights", 0)) if work.op in _LOOKS_UP or self.way == "picked" else total
        weights = min(self.parameters, most)
        memory = {"weights": weights} if weights else {}
        return Work(work.op, work.dims, Cost(work.cost.flops, {**memory, "activations": total - weights}))


def _more(work: Work, beside: tuple[Tensor, ...]) -> Work:
    """The same that reads some tensors more, as an attention its mask."""
    if not beside:
        return work
    read = streamed(beside, [], flops=0)
    return Work(work.op, work.dims, Cost(work.cost.flops, (work.cost + read.cost).memory))


def flops_at(rows: list[tuple[int, Work]]) -> dict[str, int]:
    """FLOPs by rate, of works and how often each is done."""
    found: dict[str, int] = {}
    for count, work in rows:
        for rate, flops in work.cost.flops.items():
            found[rate] = found.get(rate, 0) + count * cast(int, flops)
    return found


def matrix_rate(rates: dict[str, int], peaks: frozenset[str]) -> str | None:
    """The rate of most FLOPs that are of matrix products; that of the small kernels, or any, where there are none."""
    products = {rate: n for rate, n in rates.items() if rate != VECTOR and n}
    most = max(products, key=lambda rate: products[rate], default=VECTOR)
    return most if products or VECTOR in peaks else next(iter(peaks), None)


def bytes_of(tensor: Tensor) -> int:
    """Bytes of what is in memory of a tensor [byte]."""
    return math.ceil(tensor.distinct * tensor.dtype.bits / 8)
