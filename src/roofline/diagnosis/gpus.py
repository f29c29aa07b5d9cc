"""The devices of one file: which is diagnosed, what of the host fed it, and all of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roofline.diagnosis.breakdown import breakdown, categories, communication, total_time
from roofline.diagnosis.result import DeviceRow
from roofline.diagnosis.waiting import waits
from roofline.errors import BadValue
from roofline.trace.classify import CATEGORIES, COMPUTE
from roofline.trace.coding import counted, tally
from roofline.trace.events import HOST, KERNEL, NONE, Activities, Card, Ranges, Trace, listed
from roofline.trace.link import Links

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_TOGETHER = 0.9  # of the collectives of several devices: so many run at one time on all, if they are the same ones


def pick(trace: Trace, gpu: int | None) -> int | None:
    """The device that is asked for, else the one with the most activities; None in a file without any.

    Raises BadValue for one that the file does not have.
    """
    devices, counts = counted(trace.gpu.device)
    if gpu is None:
        return int(devices[counts.argmax()]) if len(devices) else None
    there = [each for each in listed(devices) if each != HOST]
    if gpu in there:
        return gpu
    if not there:
        raise BadValue(f"There is no GPU {gpu} in {trace.source}: it holds no activity of any device.")
    known = ", ".join(f"{each}" for each in there[:16]) + (" …" if len(there) > 16 else "")
    raise BadValue(f"There is no GPU {gpu} in {trace.source}. It has {known}: ask for one of these.")


def label(device: int) -> str:
    """What a device of a file with several is called."""
    return f"GPU {device}" if device >= 0 else "a GPU without a number"


def rows_of(gpu: Activities, device: int | None) -> Ints:
    """The activities of a device, in order of their start."""
    import numpy as np

    rows = np.flatnonzero(gpu.device == device) if device is not None else np.zeros(0, np.int64)
    return rows.astype(np.int32) if len(gpu) < 1 << 31 else rows


def card_of(trace: Trace, device: int | None) -> Card | None:
    """What the file says of the device. AMD numbers its agents otherwise than its devices: there all are alike."""
    if device is None or not trace.cards:
        return None
    same = {(each.name, each.memory, each.multiprocessors) for each in trace.cards}
    mine = [each for each in trace.cards if each.number == device]
    if mine and (len(same) == 1 or not any("AMD" in each.name for each in trace.cards)):
        return mine[0]
    return trace.cards[0] if len(same) == 1 else None


def side_by_side(trace: Trace, links: Links) -> tuple[DeviceRow, ...]:
    """All devices of a file with several, by their number."""

    found: list[DeviceRow] = []
    talk: list[Ints] = []
    for device in tally(trace.gpu.device):
        rows = rows_of(trace.gpu, device)
        kinds = categories(trace, links, rows)
        found.append(_row(trace, device, rows, kinds))
        talk.append(rows[kinds == CATEGORIES.index("communication")])
    exchanging = [at for at, each in enumerate(talk) if len(each)]
    calls = [talk[at] for at in exchanging]
    if len(calls) > 1 and len({len(each) for each in calls}) == 1 and _at_once(trace.gpu, calls):
        waited = waits([trace.gpu.duration[each] for each in calls])
        for at, wait, last in zip(exchanging, *waited, strict=True):
            found[at] = replace(found[at], waited=wait, last=last)
    return tuple(found)


def _row(trace: Trace, device: int, rows: Ints, kinds: Ints) -> DeviceRow:
    gpu = trace.gpu
    shares = breakdown(gpu, rows, kinds)
    talk = communication(gpu, rows, kinds)
    card = card_of(trace, device)
    return DeviceRow(
        device=device,
        name="" if card is None else card.name,
        start=int(gpu.start[rows[0]]),
        window=int(gpu.spans(rows)[1].max()) - int(gpu.start[rows[0]]),
        busy=total_time(shares),
        compute=sum(each.attributed for each in shares if each.category in COMPUTE),
        communication=talk.union,
        exposed=talk.exposed,
        collectives=talk.calls,
        kernels=int((gpu.kind[rows] == KERNEL).sum()),
        activities=len(rows),
    )


def _at_once(gpu: Activities, calls: Sequence[Ints]) -> bool:
    """Whether collectives are the same ones on several devices: each runs at one time on all, by the file's clock."""
    import numpy as np

    starts, ends = (np.stack(each) for each in zip(*(gpu.spans(rows) for rows in calls), strict=True))
    return float((starts.max(0) < ends.min(0)).mean()) >= _TOGETHER


def fed_by_its_own(trace: Trace, links: Links, rows: Ints) -> Trace:
    """The trace with what the host did for other devices told apart: in processes that launched on these alone.

    A process that launched nothing may serve any of them, as one that loads data. Marks of the others are left out.
    """
    import numpy as np

    processes = np.array(_numbered([process for process, _ in trace.threads]), np.int64)
    if len(set(listed(processes))) < 2:
        return trace
    launched = links.call != NONE
    by = np.full(len(links.call), NONE, np.int64)
    by[launched] = processes[trace.calls.thread[links.call[launched]]]
    foreign = set(tally(by)) - set(tally(by[rows])) - {NONE}
    if not foreign:
        return trace
    theirs = np.isin(processes, list(foreign))
    return replace(trace, marks=_without(trace.marks, theirs), foreign=theirs)


def _numbered(values: Sequence[Any]) -> list[int]:
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(each, len(numbers)) for each in values]


def _without(ranges: Ranges, theirs: NDArray[np.bool_]) -> Ranges:
    """Ranges without those of some threads."""
    mine = ~theirs[ranges.thread] if len(ranges) else slice(0)
    sequence = None if ranges.sequence is None else ranges.sequence[mine]
    columns = (ranges.start, ranges.duration, ranges.name, ranges.thread, ranges.number, ranges.detail)
    return Ranges(*(each[mine] for each in columns), sequence=sequence)
