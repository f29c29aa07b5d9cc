"""Rules on communication: what nothing hides, what stays below the link, and devices of a file that differ."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean

from roofline.diagnosis.exchanges import exchanges
from roofline.diagnosis.findings import Finding, counted
from roofline.diagnosis.gpus import label
from roofline.diagnosis.numbers import real
from roofline.diagnosis.rules.scene import Scene, rule
from roofline.diagnosis.waiting import Member, straggler
from roofline.trace.classify import COMPUTE
from roofline.units import GIGA, NS_PER_S, gib, percent, si, significant

_SLOW = 0.5  # share of the link's bound
_USED = 0.01  # of the most that a device of the file computes: below it a device is not used
_UNEVEN = 0.01  # of the window


@rule("exposed-communication")
def exposed(scene: Scene) -> Iterator[Finding]:
    """Communication while nothing is computed; at stake is what computation there is could hide."""
    talk = scene.found.communication
    computed = sum(each.attributed for each in scene.found.breakdown if each.category in COMPUTE)
    if not talk.calls or not talk.exposed or not computed:
        return
    free = max(computed - talk.overlapped, 0)
    stake = min(talk.exposed, free)
    if not stake:
        return
    yield Finding(
        "exposed-communication",
        "Communication that no computation hides",
        stake / NS_PER_S,
        (
            f"{counted(talk.calls, 'kernel')} took {si(talk.union / NS_PER_S, 's', 3)}, of which "
            f"{percent(talk.exposed / talk.union)} exposed",
            f"{si(free / NS_PER_S, 's', 3)} of computation runs without communication beside it",
            *_waited(scene, talk.union),
            *_most(scene),
        ),
        "overlap it: buckets of gradients during the backward pass (DDP bucket_cap_mb, FSDP prefetch), asynchronous "
        "tensor parallelism; less of it: more work a rank, or 16-bit gradients.",
    )


@rule("communication-beyond-computation")
def beyond(scene: Scene) -> Iterator[Finding]:
    """More communication than all computation could hide: at stake is the rest."""
    talk = scene.found.communication
    computed = sum(each.attributed for each in scene.found.breakdown if each.category in COMPUTE)
    if not talk.calls or talk.exposed <= computed:
        return
    yield Finding(
        "communication-beyond-computation",
        "More communication than computation could hide",
        (talk.exposed - max(computed - talk.overlapped, 0)) / NS_PER_S,
        (
            f"{counted(talk.calls, 'kernel')} took {si(talk.union / NS_PER_S, 's', 3)}, all computation "
            f"{si(computed / NS_PER_S, 's', 3)}",
            *_waited(scene, talk.union),
            *_most(scene),
        ),
        "compare the ranks (name all their files): waiting for the last one counts as time here. Else less of it: more "
        "work a rank between two exchanges (batch, accumulation, fewer ranks), and nccl-tests on the same nodes.",
    )


def _waited(scene: Scene, whole: int) -> Iterator[str]:
    """How much of the communication is waiting for another device of the file."""
    row = next((each for each in scene.found.devices if each.device == scene.found.device), None)
    if row is not None and row.waited and row.waited > _UNEVEN * whole:
        yield f"{si(row.waited / NS_PER_S, 's', 3)} of it is waiting for the last GPU to come"


def _most(scene: Scene) -> Iterator[str]:
    """The collective that takes longest, where its size is recorded."""
    for each in exchanges(scene.found)[:1]:
        ranks = f" of {each.ranks} ranks" if each.ranks else ""
        rate = f"busbw {si(each.busbw, 'B/s', 3)}" if each.busbw else f"algbw {si(each.algbw or 0.0, 'B/s', 3)}"
        yield f"most: {counted(each.calls, 'time')} {each.kind}{ranks}, {gib(each.bytes)} each, {rate}"


@rule("slow-link")
def slow_link(scene: Scene) -> Iterator[Finding]:
    """Collectives below the link of the device; a rank that comes late makes the others' collectives long.

    What computation hides of them is not at stake.
    """
    rows = [
        each
        for each in scene.found.placed
        if each.category == "communication" and each.bound_seconds is not None and each.time
    ]
    rows = [each for each in rows if (each.bound_seconds or 0.0) * NS_PER_S < _SLOW * each.time]
    device = scene.found.supply
    exposed = scene.found.communication.exposed / NS_PER_S
    if not rows or device is None or not device.links or not exposed:
        return
    took = sum(each.time for each in rows)
    sent = sum(each.parts * real(each.work.cost.link_bytes) for each in rows)
    yield Finding(
        "slow-link",
        "Collectives below the link's bandwidth",
        min(sum(each.excess for each in rows), exposed),
        (
            f"{counted(sum(each.calls for each in rows), 'collective')} sent {si(sent, 'B', 3)} a rank in "
            f"{si(took / NS_PER_S, 's', 3)}: {significant(sent * NS_PER_S / took / GIGA)} GB/s of "
            f"{significant(device.links[0].bandwidth / GIGA)} GB/s ({device.links[0].name})",
            *_most(scene),
        ),
        "compare the ranks (name all their files): waiting for the last one counts as time here. Else larger messages, "
        "and nccl-tests on the same nodes.",
    )


@rule("straggler")
def late(scene: Scene) -> Iterator[Finding]:
    """A device of the file that the others wait for in collectives."""
    rows = [each for each in scene.found.devices if each.waited is not None]
    if not rows:
        return
    members = [Member(label(each.device), each.waited or 0, each.last or 0, each.compute, each.idle) for each in rows]
    found = straggler("GPUs", members, rows[0].collectives, scene.found.window)
    if found is not None:
        yield found


@rule("imbalance")
def imbalance(scene: Scene) -> Iterator[Finding]:
    """Devices at work at one time of which one computes longer; at stake is what an even division would save."""
    most = max((each.compute for each in scene.found.devices), default=0)
    rows = [each for each in scene.found.devices if each.compute > _USED * most]
    if len(rows) < 2 or max(each.start for each in rows) >= min(each.start + each.window for each in rows):
        return
    rows.sort(key=lambda each: -each.compute)
    middle = mean(each.compute for each in rows)
    stake = rows[0].compute - middle
    if stake < _UNEVEN * scene.found.window:
        return
    first, last = (
        f"{label(each.device)} computes for {si(each.compute / NS_PER_S, 's', 3)} ({counted(each.kernels, 'kernel')})"
        for each in (rows[0], rows[-1])
    )
    yield Finding(
        "imbalance",
        f"{label(rows[0].device)} computes longer than the others",
        stake / NS_PER_S,
        (
            f"{first}, {last}",
            f"{si(mean(each.compute for each in rows) / NS_PER_S, 's', 3)} in the mean of {len(rows)}",
        ),
        "divide the work by what it costs, not by its count: sequences by their length, layers and experts by their "
        "time. As many kernels that take longer are a slower device: compare clocks, power and temperature.",
    )
