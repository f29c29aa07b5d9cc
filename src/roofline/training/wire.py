"""One collective by hand: bytes, time, bandwidths as nccl-tests define them, and what bounds it.

`algbw` = size / time; `busbw` = algbw times the bytes that a rank of a ring sends for each byte of size, so that it can
stand beside a link's bandwidth whatever the number of ranks (nccl-tests, doc/PERFORMANCE.md). `size` is nccl-tests':
the whole buffer of a rank for all-reduce, all-to-all, broadcast and send, the gathered one for all-gather and
reduce-scatter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from roofline import collectives
from roofline.cost import Work
from roofline.device import Device, Link, Topology
from roofline.errors import BadValue, ShardError, UnknownName, shown

KINDS = {
    "all-reduce": collectives.all_reduce,
    "all-gather": collectives.all_gather,
    "reduce-scatter": collectives.reduce_scatter,
    "all-to-all": collectives.all_to_all,
    "broadcast": collectives.broadcast,
}
_SEND = "send"
RING, TREE, SWITCH = "ring", "tree", "in-network"
_LEAST_RANKS = 2
_ALGORITHMS = {
    RING: (*KINDS, _SEND),
    TREE: ("all-reduce", "broadcast"),
    SWITCH: ("all-reduce", "all-gather", "reduce-scatter", "broadcast"),
}


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one rank sends and receives [byte], in how many steps one after another."""

    sent: float
    received: float
    steps: int

    @property
    def most(self) -> float:
        """The direction that bounds it [byte]."""
        return max(self.sent, self.received)


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a hierarchical collective: its ranks, what one sends, and its time."""

    name: str
    ranks: int
    inside: bool
    sent: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective of `ranks` over a buffer of `size` [byte].

    `seconds` is measured where it was given, else of the busbw or link given, with `latency_seconds` in it;
    `bound_seconds` is the least time that any algorithm of its sort takes on that link (None where no bandwidth is
    known), `least_bytes` what a rank must send or receive for it: of those in which ranks alone reduce and copy, or,
    `in-network`, of those in which a switch does.
    """

    kind: str
    size: float
    ranks: int
    algorithm: str
    traffic: Traffic
    seconds: float
    latency_seconds: float
    bound_seconds: float | None
    least_bytes: float
    levels: tuple[Level, ...]
    notes: tuple[str, ...]

    @property
    def algbw(self) -> float:
        """Size over time [byte/s]."""
        return self.size / self.seconds if self.seconds else math.inf

    @property
    def busbw(self) -> float:
        """algbw times the bytes that a ring's rank sends for each of size [byte/s]."""
        return self.algbw * float(work(self.kind, 1, self.ranks).cost.link_bytes)  # pyright: ignore


@dataclass(frozen=True, slots=True)
class Wires:
    """What carries it: a busbw inside a node and one between nodes [byte/s], or a device's link; `latency` a step."""

    busbw: float | None = None
    device: Device | None = None
    network_busbw: float | None = None
    per_node: int | None = None
    latency: float | None = None


def work(kind: str, size: float, ranks: int) -> Work:
    """The Work of a collective by name, as rings do it; raises UnknownName."""
    if kind == _SEND:
        return collectives.send(size)
    if kind not in KINDS:
        raise UnknownName.of("collective", kind, (*KINDS, _SEND))
    return KINDS[kind](size, ranks)


def traffic(kind: str, size: float, ranks: int, algorithm: str = RING) -> Traffic:
    """What one rank sends and receives; raises BadValue for an algorithm that does not do that collective.

    One rank alone sends nothing. A double binary tree sends a ring's bytes on average in 2 log2 n steps (Sanders et
    al. 2009). A switch that reduces and multicasts takes each rank's buffer once (Graham et al. 2016, SHARP).
    """
    ring = work(kind, size, ranks)
    if algorithm not in _ALGORITHMS:
        raise UnknownName.of("algorithm", algorithm, _ALGORITHMS)
    if kind not in _ALGORITHMS[algorithm]:
        raise BadValue(f"A {algorithm} does no {kind}. Possible: {', '.join(_ALGORITHMS[algorithm])}.")
    sent = float(ring.cost.link_bytes)  # pyright: ignore
    steps = int(ring.dims.get("steps", 1))  # pyright: ignore
    alone = ranks == 1 and kind != _SEND
    if algorithm == TREE:
        steps = (ranks - 1).bit_length() * (2 if kind == "all-reduce" else 1)
    if algorithm in (RING, TREE) or alone:
        return Traffic(sent, sent, steps)
    shard = size / ranks
    switched: Mapping[str, tuple[float, float]] = {
        "all-reduce": (size, size),
        "all-gather": (shard, sent),
        "reduce-scatter": (sent, shard),
        "broadcast": (size, size),
    }
    return Traffic(*switched[kind], 2 if kind == "all-reduce" else 1)


def collective(
    kind: str,
    size: float,
    ranks: int,
    wires: Wires,
    *,
    seconds: float | None = None,
    algorithm: str = RING,
) -> Collective:
    """A collective's bytes, time and bandwidths: of a measured time, a busbw, or a device's link.

    A busbw is nccl-tests': a time of it is that of a ring's bytes, whatever the algorithm that it was measured of.
    Raises UnknownName for a kind, algorithm or link that is not known, ShardError for nodes that do not divide,
    BadValue for less than two ranks.
    """
    if not 0 < size < math.inf:
        raise BadValue(f"A buffer of {shown(size)} bytes is none. Possible: finite and above zero.")
    if ranks.__class__ is not int or ranks < _LEAST_RANKS:
        raise BadValue(
            f"A collective joins two ranks or more; {shown(ranks)} sends nothing. Possible: a whole number from "
            f"{_LEAST_RANKS}."
        )
    moved = traffic(kind, size, ranks, algorithm)
    levels: tuple[Level, ...] = ()
    steps = 0.0
    supply = _supply(wires, ranks)
    if wires.per_node is not None and wires.per_node < ranks:
        if algorithm != RING:
            raise BadValue(f"A collective over nodes is counted of rings, not {algorithm}. Leave --per-node, or that.")
        levels = _levels(kind, size, ranks, wires)
        moved = Traffic(sum(each.sent for each in levels), sum(each.sent for each in levels), moved.steps)
        taken = sum(each.seconds for each in levels)
        near = sum(each.seconds for each in levels if each.inside)
        bound: float | None = max(near, sum(each.seconds for each in levels) - near)
    else:
        least = _least(kind, size, ranks, algorithm)
        # A busbw is a ring's bytes over the time that was measured, not what a link carries.
        counted, needed = (traffic(kind, size, ranks).most,) * 2 if wires.busbw is not None else (moved.most, least)
        bound = None if supply is None else needed / supply.bandwidth
        latency = wires.latency if wires.latency is not None else (supply.latency if supply else 0.0)
        steps = moved.steps * latency if wires.busbw is None or wires.latency is not None else 0.0
        taken = seconds if supply is None else counted / supply.bandwidth + steps
    if seconds is None and taken is None:
        raise BadValue("A time needs --busbw, --device or --seconds. Give one of them.")
    time = seconds if seconds is not None else taken
    assert time is not None
    return Collective(
        kind=kind,
        size=size,
        ranks=ranks,
        algorithm=algorithm,
        traffic=moved,
        seconds=time,
        latency_seconds=0.0 if seconds is not None else steps,
        bound_seconds=bound,
        least_bytes=_least(kind, size, ranks, algorithm),
        levels=levels,
        notes=_notes(kind, algorithm, wires, time, bound),
    )


def _least(kind: str, size: float, ranks: int, algorithm: str) -> float:
    """What a rank must send or receive, in the direction that takes more [byte].

    Ranks alone: a ring's bytes, which nothing undercuts. With a switch that reduces and copies each rank still sends
    what is its own, and receives what it lacks.
    """
    return traffic(kind, size, ranks, SWITCH if algorithm == SWITCH else RING).most


def _supply(wires: Wires, ranks: int) -> Link | None:
    """The link that all ranks share: a busbw as given, or the device's."""
    if wires.busbw is not None:
        return Link("busbw", wires.busbw)
    if wires.device is None:
        return None
    if wires.per_node is not None and wires.per_node < ranks:
        return Topology(wires.device, wires.per_node).link()
    if wires.network_busbw is not None and ranks > (wires.device.links[0].domain or ranks):
        return Link("network", wires.network_busbw)
    return Topology(wires.device, ranks).link()


def _levels(kind: str, size: float, ranks: int, wires: Wires) -> tuple[Level, ...]:
    """Inside the node, between nodes over every rank's own way out, inside again."""
    inside, between = _supply(wires, ranks), wires.network_busbw
    per_node = wires.per_node or 1
    if per_node < 1 or ranks % per_node:
        raise ShardError(f"{per_node} ranks a node do not divide {ranks} ranks. Possible: a divisor of {ranks}.")
    if inside is None or between is None:
        raise BadValue(
            "A collective over nodes needs --busbw or --device for inside a node, and --network-busbw for between them."
        )
    nodes, shard = ranks // per_node, size / per_node

    def level(name: str, count: int, sent: float, bandwidth: float) -> Level:
        return Level(name, count, name.endswith("in the node"), sent, sent / bandwidth)

    near = size * (per_node - 1) / per_node
    far = {name: shard * (nodes - 1) / nodes * (2 if name == "all-reduce" else 1) for name in KINDS}
    if kind == "all-reduce":
        return (
            level("reduce-scatter in the node", per_node, near, inside.bandwidth),
            level("all-reduce between nodes", nodes, far[kind], between),
            level("all-gather in the node", per_node, near, inside.bandwidth),
        )
    if kind in ("all-gather", "reduce-scatter"):
        return (
            level(f"{kind} between nodes", nodes, far[kind], between),
            level(f"{kind} in the node", per_node, near, inside.bandwidth),
        )
    if kind == "all-to-all":
        return (
            level("all-to-all in the node", per_node, size * (per_node - 1) / ranks, inside.bandwidth),
            level("all-to-all between nodes", nodes, size * (ranks - per_node) / ranks, between),
        )
    raise BadValue(
        f"A {kind} over levels is not counted. Possible: all-reduce, all-gather, reduce-scatter, all-to-all."
    )


def _notes(kind: str, algorithm: str, wires: Wires, time: float, bound: float | None) -> tuple[str, ...]:
    notes = [f"Bandwidths are of one direction, as a link's; {kind} sizes are those of nccl-tests"]
    if wires.busbw is not None and wires.latency is None:
        notes.append("A measured busbw has the latency of its size in it: none is added")
    elif wires.device is not None and wires.latency is None and not wires.device.links[0].latency:
        notes.append("No latency of a step is known: none is counted (--latency)")
    if kind == "all-reduce":
        notes.append(
            "No algorithm sends less than 2(n-1)/n of the buffer a rank (Patarasuk and Yuan 2009), but a switch that "
            "reduces does (in-network: the buffer once), and so does a buffer that is compressed"
        )
    if wires.per_node is not None:
        notes.append("Levels run one after another; the bound has the node's link and the network overlap")
    if bound is not None and time < bound and not math.isclose(time, bound):
        how = (
            "which no switch does either" if algorithm == SWITCH else "which a ring cannot do: an in-network reduction?"
        )
        notes.append(f"The time is {bound / time:.2f} times faster than the bound, {how}")
    if wires.busbw is not None and algorithm == SWITCH:
        notes.append("A busbw counts a ring's bytes: that of a switch can be more than its link carries")
    return tuple(notes)
