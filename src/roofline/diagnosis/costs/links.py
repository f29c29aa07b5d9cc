"""Collectives: what a rank sends, by the buffer that the operator or the kernel recorded."""

from __future__ import annotations

import re
from typing import Any

from roofline import collectives
from roofline.cost import Cost, Work
from roofline.diagnosis.costs.call import Call, Tensor
from roofline.diagnosis.costs.registry import cost
from roofline.diagnosis.numbers import whole as count

_KINDS = (
    (re.compile(r"reduce_?scatter"), "reduce-scatter"),
    (re.compile(r"all_?reduce|cross_device_reduce|quick_?reduce"), "all-reduce"),
    (re.compile(r"all_?gather"), "all-gather"),
    (re.compile(r"all_?to_?all"), "all-to-all"),
    (re.compile(r"broadcast"), "broadcast"),
    (re.compile(r"send|recv"), "send"),
)
_BYTES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int": 4, "long": 8, "byte": 1, "char": 1, "bool": 1}
_MOST = 1 << 50
_ARGUMENTS = 7  # of an older call, before the ranks of its group
_MAKERS = {
    "all-reduce": collectives.all_reduce,
    "all-gather": collectives.all_gather,
    "reduce-scatter": collectives.reduce_scatter,
    "all-to-all": collectives.all_to_all,
    "broadcast": collectives.broadcast,
}
# What each of two ranks sends of a buffer: no group sends less.
_LEAST = {"broadcast": 1, "all-reduce": 1, "all-gather": 2, "reduce-scatter": 2, "all-to-all": 2}


def kind_of(*names: str) -> str | None:
    """The collective that the first of these names tells."""
    texts = [each.lower() for each in names]
    return next((kind for text in texts for pattern, kind in _KINDS if pattern.search(text)), None)


def work_of_group(kind: str, size: int, group: int | None) -> Work | None:
    """A collective of `size` bytes, as nccl-tests counts them, in a group of so many ranks.

    Where their number is not recorded it is two at the least, and the work says so by its dimensions.
    """
    if not 0 < size < _MOST:
        return None
    if kind == "send":
        return collectives.send(size)
    if group is not None:
        return _MAKERS[kind](size, group) if group > 1 else None
    moved = {"activations": 2 * size}
    return Work(kind, {"bytes": size, "ranks_at_least": 2}, Cost({}, moved, {"link": size // _LEAST[kind]}, 1))


@cost("record_param_comms")
def collective(call: Call) -> Work | None:
    """A collective by its recorded name, elements, format and group; before PyTorch 2.4 by its arguments.

    (tensors, number, group, rank, name, splits, splits, …, ranks of the group). None where something is missing.
    """
    name, kind = str(call.more.get("collective", "")).lower(), str(call.more.get("dtype", "")).lower()
    sent, received = _count(call.more.get("sent")), _count(call.more.get("received"))
    if not name:
        return _older(call)
    found = kind_of(name)
    each = _BYTES.get(kind) or (1 if kind.startswith("float8") else None)
    if found is None or each is None or sent is None or received is None:
        return None
    group = _count(call.more.get("group"))
    return work_of_group(found, max(sent, received) * each, group)


def _older(call: Call) -> Work | None:
    outer = call.outer.name if call.outer is not None else ""
    # What is sent and received as one kernel may be an all-to-all: of that the operator has to tell.
    found, size = kind_of(outer, "" if "sendrecv" in call.kernel.lower() else call.kernel), _buffer(call)
    group = call.whole(len(call.dims) - 1) if len(call.dims) > _ARGUMENTS else None
    if found is None or size is None or (found in ("all-gather", "reduce-scatter") and group is None):
        return None
    if found == "all-gather" and group is not None:  # what one rank has of it
        size *= group
    return work_of_group(found, size, group)


def _buffer(call: Call) -> int | None:
    """Bytes of the first tensor, or of all of the list that stands first; None where their format is not known."""
    first = call.tensor(0)
    tensors = call.list(0) or ((first,) if first is not None and first.dims else ())
    return sum(_size(each) for each in tensors) if tensors else None


def _size(tensor: Tensor) -> int:
    return count(tensor.dtype.of(tensor.n))


@cost("^c10d::_?(allgather_base|allgather_into_tensor)\\w*_?$", "^symm_mem::multimem_all_gather_out$")
def gathered(call: Call) -> Work | None:
    """(whole, part, …), or the part first: the group is their ratio."""
    return _ratio(call, "all-gather")


@cost("^c10d::_?(reduce_scatter_base|reduce_scatter_tensor)\\w*_?$")
def scattered(call: Call) -> Work | None:
    """(part, whole, …)."""
    return _ratio(call, "reduce-scatter")


def _ratio(call: Call, kind: str) -> Work | None:
    both = [each for each in call.every() if each.dims][:2]
    if len(both) < 2 or not both[0].n or not both[1].n:
        return None
    small, large = sorted(both, key=lambda each: each.n)
    if large.n % small.n:
        return None
    return work_of_group(kind, _size(large), large.n // small.n)


@cost("^_c10d_functional::(all_gather_into_tensor|reduce_scatter_tensor)\\w*$", "^vllm::(all_gather|reduce_scatter)$")
def functional(call: Call) -> Work | None:
    """(x, …, ranks, name): the whole has as many parts as there are ranks; of vLLM, (x, dim, ranks, name)."""
    x = call.tensor(0)
    gather = "gather" in call.name
    at = 2 if call.name.startswith("vllm::") else 1 if gather else 2
    group = call.whole(at)
    if x is None or not x.dims or group is None:
        return None
    size = _size(x)
    return work_of_group("all-gather" if gather else "reduce-scatter", size * group if gather else size, group)


@cost(
    "^(c10d|_c10d_functional|vllm|sgl_kernel|_C_custom_ar|aiter|symm_mem)::\\w*all_?reduce\\w*$",
    "^(c10d|_c10d_functional)::_?all_?to_?all\\w*$",
    "^c10d::(broadcast_|send|recv_)$",
)
def whole(call: Call) -> Work | None:
    """(x, …): the buffer of one rank; how many there are is not recorded."""
    kind = kind_of(call.name)
    first = next((each for each in call.every() if each.dims), None)
    size = _buffer(call) or (None if first is None else _size(first))
    return None if kind is None or size is None else work_of_group(kind, size, None)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST else None
