"""Operators on lists of tensors: optimiser steps, clipping, scaling of gradients."""

from __future__ import annotations

import re

from roofline.cost import Work
from roofline.diagnosis.costs.call import Call, Tensor
from roofline.diagnosis.costs.registry import cost
from roofline.diagnosis.costs.tensors import streamed

_ADAM = 12  # FLOP a parameter, of two moments, their corrections, the root and the decay
_WRITTEN = re.compile(r"_foreach_(zero|copy)_")


def _lists(call: Call) -> list[tuple[Tensor, ...]]:
    found = [call.list(at) for at in range(len(call.dims))]
    return [each for each in found if each]


@cost("^aten::_foreach_\\w+$", several=True)
def foreach(call: Call) -> Work | None:
    """Reads its lists and writes the first one, or one like it; a norm writes but numbers."""
    lists = _lists(call)
    if not lists:
        return None
    first = lists[0]
    n = sum(each.n for each in first)
    if "_foreach_norm" in call.name or "_foreach_max" in call.name:
        return streamed(first, [], n=n)
    if _WRITTEN.search(call.name):
        return streamed(lists[1] if len(lists) > 1 else [], first, flops=0)
    same = [each for rest in lists[1:] for each in rest if each.dims]
    return streamed([*first, *same], first, n=n)


@cost("^aten::_fused_(adam|adamw|adagrad|sgd)_$", several=True)
def fused(call: Call) -> Work | None:
    """(parameters, gradients, states, …): reads all, writes all but the gradients."""
    lists = [each for each in _lists(call) if any(one.dims for one in each)]
    if len(lists) < 2:
        return None
    n = sum(each.n for each in lists[0])
    whole = [each for each in lists if sum(one.n for one in each) == n]
    read = [one for each in whole for one in each]
    written = [one for at, each in enumerate(whole) if at != 1 for one in each]
    return streamed(read, written, flops=_ADAM if "adam" in call.name else 2, n=n)


@cost("aten::_amp_foreach_non_finite_check_and_unscale_", several=True)
def unscale(call: Call) -> Work | None:
    """(gradients, …): reads and writes them."""
    lists = _lists(call)
    return streamed(lists[0], lists[0], n=sum(each.n for each in lists[0])) if lists else None
