"""A window divided among categories: each nanosecond once, what ran beside it shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.result import Communication, Copies, Share
from roofline.trace import timeline
from roofline.trace.classify import CATEGORIES, COMPUTE, category
from roofline.trace.coding import distinct, summed, tally
from roofline.trace.events import COPY, NONE, SET, Activities, Trace, listed
from roofline.trace.link import Links

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]


def categories(trace: Trace, links: Links, rows: Ints) -> Ints:
    """The category of each activity of `rows`, as an index into CATEGORIES.

    A kernel's is that of its name; of the operator that launched it where the name says nothing.
    """
    import numpy as np

    gpu = trace.gpu
    names, ops = gpu.name[rows], links.op[rows]
    op_names = np.where(ops == NONE, NONE, trace.ops.name[np.maximum(ops, 0)] if len(trace.ops) else NONE)
    pairs, which = distinct(names, op_names)
    numbers = [
        CATEGORIES.index(category(trace.names[name], trace.names[op] if op != NONE else ""))
        for name, op in zip(listed(pairs[0]), listed(pairs[1]), strict=True)
    ]
    found = np.array(numbers, np.int8)[which]
    found[gpu.kind[rows] == COPY] = CATEGORIES.index("copy")
    found[gpu.kind[rows] == SET] = CATEGORIES.index("elementwise")
    return found


def breakdown(gpu: Activities, rows: Ints, kinds: Ints) -> tuple[Share, ...]:
    """Time by category; where several run at once it counts as the first of them in CATEGORIES."""
    import numpy as np

    calls, sums, unions, own = (np.zeros(len(CATEGORIES), np.int64) for _ in range(4))
    for part in _portions(gpu, rows):
        covered = timeline.union(gpu.start[:0], gpu.start[:0])
        for index in tally(kinds[part]):
            mine = rows[part][kinds[part] == index]
            spans = timeline.union(*gpu.spans(mine))
            wider = timeline.join(covered, spans)
            calls[index] += len(mine)
            sums[index] += int(gpu.duration[mine].sum(dtype=np.int64))
            unions[index] += timeline.total(spans)
            own[index] += timeline.total(wider) - timeline.total(covered)
            covered = wider
    columns = zip(CATEGORIES, *map(listed, (calls, sums, unions, own)), strict=True)
    return tuple(Share(*each) for each in columns)


def _portions(gpu: Activities, rows: Ints) -> Iterator[slice]:
    """Activities by portions between which nothing ran."""
    at = 0
    for upto in timeline.apart(gpu, rows):
        yield slice(at, upto)
        at = upto


def communication(gpu: Activities, rows: Ints, kinds: Ints) -> Communication:
    """What collectives take, and how much of it computation hides."""
    import numpy as np

    calls = union = overlapped = 0
    for part in _portions(gpu, rows):
        talk = rows[part][kinds[part] == CATEGORIES.index("communication")]
        work = rows[part][np.isin(kinds[part], [CATEGORIES.index(each) for each in COMPUTE])]
        talking, working = timeline.union(*gpu.spans(talk)), timeline.union(*gpu.spans(work))
        calls, union = calls + len(talk), union + timeline.total(talking)
        overlapped += timeline.total(timeline.intersect(talking, working))
    return Communication(calls, union, union - overlapped, overlapped)


def copies(trace: Trace, rows: Ints) -> tuple[Copies, ...]:
    """Copies by direction and by whether the host's side is pinned, as their names say it."""
    import numpy as np

    gpu = trace.gpu
    mine = rows[gpu.kind[rows] == COPY]
    calls: Counter[tuple[str, bool | None]] = Counter()
    moved: Counter[tuple[str, bool | None]] = Counter()
    time: Counter[tuple[str, bool | None]] = Counter()
    (names,), which = distinct(gpu.name[mine])
    count = len(names)
    columns = (
        listed(np.bincount(which, minlength=count)),
        listed(summed(which, count, np.maximum(gpu.moved[mine], 0))),
        listed(summed(which, count, gpu.duration[mine])),
    )
    for name, n, size, duration in zip(listed(names), *columns, strict=True):
        key = _direction(trace.names[name])
        calls[key] += n
        moved[key] += size
        time[key] += duration
    return tuple(
        Copies(kind, pinned, calls[kind, pinned], moved[kind, pinned], time[kind, pinned])
        for kind, pinned in sorted(calls, key=lambda key: -time[key])
    )


def _direction(name: str) -> tuple[str, bool | None]:
    """The direction of a copy and whether its host side is pinned, of "Memcpy HtoD (Pageable -> Device)"."""
    words = name.split()
    kind = words[1] if len(words) > 1 and "to" in words[1] else "copy"
    kind = kind[:8] if kind.isalpha() else "copy"
    if "HtoD" not in kind and "DtoH" not in kind and "HostTo" not in kind and "ToHost" not in kind:
        return kind, None
    if "Pinned" in name:
        return kind, True
    return kind, False if "Pageable" in name else None


def total_time(shares: Sequence[Share]) -> int:
    """What all categories together are attributed [ns]: the busy time."""
    return sum(each.attributed for each in shares)
