"""Collectives: what a rank sends, by the buffer that the operator or the kernel recorded."""

from __future__ import annotations

import re
from typing import Any

from roofline import collectives
from roofline.cost import Work
from roofline.diagnosis.costs.call import Call
from roofline.diagnosis.costs.registry import cost

_KINDS = (
    (re.compile(r"reduce_?scatter"), "reduce-scatter"),
    (re.compile(r"all_?reduce"), "all-reduce"),
    (re.compile(r"all_?gather|allgather"), "all-gather"),
    (re.compile(r"all_?to_?all"), "all-to-all"),
    (re.compile(r"send|recv|broadcast"), "send"),
)
_BYTES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int": 4, "long": 8, "byte": 1, "char": 1, "bool": 1}
_MOST = 1 << 50


@cost("record_param_comms")
def collective(call: Call) -> Work | None:
    """A collective by its recorded name, elements, format and group; None where one of them is missing."""
    name, kind = str(call.more.get("collective", "")).lower(), str(call.more.get("dtype", "")).lower()
    found = next((kind for pattern, kind in _KINDS if pattern.search(name)), None)
    each = _BYTES.get(kind) or (1 if kind.startswith("float8") else None)
    group = _count(call.more.get("group"))
    sent, received = _count(call.more.get("sent")), _count(call.more.get("received"))
    if found is None or each is None or sent is None or received is None or max(sent, received) == 0:
        return None
    size = max(sent, received) * each
    if found == "send":
        return collectives.send(size)
    if group is None or group < 2:
        return None
    makers = {
        "all-reduce": collectives.all_reduce,
        "all-gather": collectives.all_gather,
        "reduce-scatter": collectives.reduce_scatter,
        "all-to-all": collectives.all_to_all,
    }
    return makers[found](size, group)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST else None
