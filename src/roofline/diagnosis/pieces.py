"""Pieces of work by the recorded calls that demand them, each distinct call worked out once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from roofline.bound import Bound, bound
from roofline.cost import Work
from roofline.device import Device
from roofline.diagnosis.costs.call import Call, Lengths, read
from roofline.diagnosis.costs.convolution import outputs
from roofline.diagnosis.costs.registry import rule, work_of
from roofline.diagnosis.numbers import whole
from roofline.dtypes import DType
from roofline.errors import UnknownName
from roofline.trace.events import NONE, Trace, listed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_STORES = re.compile(r"::(reshape_and_cache\w*|store_cache)$")
_CONVOLUTION = re.compile(r"^aten::(cudnn_|miopen_|_)?convolution$")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work and its bound, as far as the device is known: None with the reason where it is not."""

    work: Work
    operator: str
    shapes: str
    bound: Bound | None
    reason: str = ""


@dataclass(slots=True)
class Book:
    """Pieces by what they were worked out from."""

    trace: Trace
    device: Device | None
    peaks: frozenset[str] | None
    lengths: list[Lengths]
    passes: Ints  # of each activity the place in `lengths`, or NONE
    pieces: list[Piece] = field(default_factory=list[Piece])
    known: dict[tuple[int, ...], int] = field(default_factory=dict["tuple[int, ...]", int])
    annotated: set[int] = field(default_factory=set[int])  # pieces that rest on the lengths of a pass
    outputs: Mapping[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]] | None = None
    cached: tuple[DType | None] | None = None

    def number(self, *key: int) -> int:
        """The piece of such a call, or NONE.

        By the numbers of its name and detail, of those of the call around it, of its kernel, of the lengths of its
        pass, and of the name and detail of what it is the gradient of.
        """
        known = rule(self.trace.names[key[0]])
        lengths = key[5] if known is not None and known.lengths else NONE
        key = (*key[:5], lengths, *key[6:])
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._new(*key)
        return found

    def _new(self, *key: int) -> int:
        trace = self.trace
        name, detail, outer, outer_detail, kernel, lengths, forward, forward_detail = key
        if detail == NONE or rule(trace.names[name]) is None:
            return NONE
        on = trace.names[kernel]
        call = read(trace.names[name], trace.details[detail], on, self.peaks)
        if outer_detail != NONE:
            call = replace(call, outer=read(trace.names[outer], trace.details[outer_detail], on, self.peaks))
        if _CONVOLUTION.search(call.name) and (found := call.tensors(0, 1)) is not None:
            call = replace(call, output=self._outputs().get((found[0].dims, found[1].dims), ()))
        if lengths != NONE:
            call = replace(call, lengths=self.lengths[lengths], cache=self._cached())
        if forward_detail != NONE:
            call = replace(call, forward=read(trace.names[forward], trace.details[forward_detail], on, self.peaks))
        work = work_of(call)
        if work is None:
            return NONE
        number = self.add(work, call.name, _shapes(call))
        if lengths != NONE:
            self.annotated.add(number)
        return number

    def _outputs(self) -> Mapping[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]]:
        """Lengths of the outputs of convolutions, by the gradients in the file."""
        if self.outputs is None:
            ops, names = self.trace.ops, self.trace.names
            pairs = {
                (name, detail)
                for name, detail in zip(listed(ops.name), listed(ops.detail), strict=True)
                if detail != NONE and names[name].endswith("convolution_backward")
            }
            # The format does not matter here: what a file lacks is taken for the commonest.
            self.outputs = outputs(read(names[name], self.trace.details[at], "float") for name, at in sorted(pairs))
        return self.outputs

    def _cached(self) -> DType | None:
        """The format of a cache of keys and values, as what stores into it has it; None where nothing does."""
        if self.cached is None:
            ops, names = self.trace.ops, self.trace.names
            stores = {name for name in set(listed(ops.name)) if _STORES.search(names[name])}
            pairs = {
                (n, d) for n, d in zip(listed(ops.name), listed(ops.detail), strict=True) if n in stores and d != NONE
            }
            found = {
                each.dtype for n, d in pairs if (each := read(names[n], self.trace.details[d]).tensor(2)) is not None
            }
            self.cached = (found.pop() if len(found) == 1 else None,)
        return self.cached[0]

    def add(self, work: Work, operator: str, shapes: str) -> int:
        """One more piece."""
        limit, reason = bound_of(work, self.device)
        self.pieces.append(Piece(work, operator, shapes, limit, reason))
        return len(self.pieces) - 1


def _shapes(call: Call) -> str:
    """The shapes of a call in short, as a key of its kind."""
    texts = ["x".join(map(str, each.dims)) for each in call.every() if each.dims]
    kinds = {each.dtype.name: None for each in call.every() if each.dims}
    return (", ".join(texts[:6]) + (" …" if len(texts) > 6 else "") + (f" {' '.join(kinds)}" if kinds else "")).strip()


def bound_of(work: Work, device: Device | None) -> tuple[Bound | None, str]:
    """The bound of a piece on a device; None, and why, where the device or a supply that it needs is not known."""
    if device is None:
        return None, "the device is not known"
    links = work.cost.links
    if links and not (device.links and device.links[0].joins(whole(work.dims.get("ranks", 2)))):
        return None, "the link between its ranks is not known"
    try:
        return bound(work.cost, device), ""
    except UnknownName as error:
        return None, str(error)
