"""What a serving engine's annotation says of a pass: exact numbers of tokens, positions and query-key pairs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.costs.call import Lengths
from roofline.trace.events import NONE, Trace, listed
from roofline.trace.link import Links

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_SUMS = r"\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)"
NEW = re.compile(rf"execute_(\d+)_context_(\d+){_SUMS}_generation_(\d+){_SUMS}")
OLD = re.compile(r"execute_context_(\d+)\((\d+)(?:_(\d+))*\)_generation_(\d+)\((\d+)(?:_\d+)*\)")
STEP = re.compile(r"step\[(\w+) bs=(\d+)((?: \w+=\d+)*)\]")
_MOST = 18  # digits that are read of a number
GENERATES = ("DECODE", "VERIFY", "TARGET_VERIFY", "DRAFT")  # stages of SGLang whose requests are past their prompt


def told(step: re.Match[str]) -> dict[str, int]:
    """What SGLang's annotation of a step says after its batch: `toks`, and sums as c_sq and g_sk where they are on."""
    return {key: int(n[:_MOST]) for key, n in (each.split("=") for each in step[3].split())}


def lengths_of(name: str) -> Lengths | None:
    """The lengths that an annotation tells; None of one that tells none.

    Sums over requests of their new tokens q, the positions k that they attend to, these included, q² and q k: a causal
    pass has q k - q (q - 1)/2 pairs. The older form has q and q k of prefills alone, and nothing of a decode.
    """
    if new := NEW.search(name):
        n = [int(each[:_MOST]) for each in new.groups()]
        _, _, q, k, squares, products, _, tokens, positions, *_ = n
        return Lengths(q, k, products - (squares - q) // 2, tokens, positions) if products >= squares >= q else None
    if old := OLD.search(name):
        n = [int((each or "0")[:_MOST]) for each in old.groups()]
        _, q, products, _, tokens = n
        if q and products < q:
            return None
        # Where k is not said it is q at the least, as when nothing was in the cache: then the pairs are exact.
        return Lengths(q, q, (products + q) // 2, tokens, 0 if not tokens else None)
    if step := STEP.search(name):
        return _of_step(told(step))
    return None


def _of_step(sums: dict[str, int]) -> Lengths | None:
    """SGLang's sums over the requests of a step: c_ of those in their prompt, g_ of those past it."""
    q, k, squares, products = (sums.get(f"c_{key}", 0) for key in ("sq", "sk", "sqsq", "sqsk"))
    if not {"c_sq", "g_sq"} & set(sums) or not products >= squares >= q:
        return None
    return Lengths(q, k, products - (squares - q) // 2, sums.get("g_sq", 0), sums.get("g_sk", 0))


def passes_of(trace: Trace, links: Links, rows: Ints) -> tuple[list[Lengths], Ints]:
    """The lengths in a trace, and for each activity the place of those of its launch, or NONE."""
    import numpy as np

    marks, calls = trace.marks, trace.calls
    where = np.full(len(rows), NONE, np.int64)
    known = {name: each for name in set(listed(marks.name)) if (each := lengths_of(trace.names[name])) is not None}
    if not known or not len(calls):
        return [], where
    mine = np.flatnonzero(np.isin(marks.name, list(known)))
    mine = mine[np.argsort(marks.start[mine], kind="stable")]
    call = links.call[rows]
    linked = np.flatnonzero(call != NONE)
    launched = calls.start[call[linked]]
    last = np.searchsorted(marks.start[mine], launched, "right") - 1
    inside = (last >= 0) & (launched < marks.end[mine][np.maximum(last, 0)])
    order = list(known)
    place = {name: at for at, name in enumerate(order)}
    names = np.array([place[name] for name in listed(marks.name[mine])], np.int64)
    where[linked[inside]] = names[last[inside]]
    return [known[name] for name in order], where
