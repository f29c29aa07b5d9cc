"""Collectives: bytes that each rank sends, and the steps that a ring takes one after another.

Ring algorithms, as the lower bound of bytes for a reduction without help from the network
(Patarasuk and Yuan 2009); a switch that reduces in the network (NVLink SHARP) needs less, so an
all-reduce on one may be faster than this bound. `bytes` is the nccl-tests size: the whole buffer
of one rank for all-reduce, the gathered buffer for all-gather and reduce-scatter. Each rank's
memory reads its input and writes its output once.
"""

from __future__ import annotations

from roofline.cost import Cost, Work
from roofline.num import Num, exact_div, minimum
from roofline.ops import op


def _collective(name: str, size: Num, ranks: Num, sent: Num, steps: Num, moved: Num, link: str) -> Work:
    """The work of a collective; `steps` is what a ring takes, a bound needs but one."""
    dims = {"bytes": size, "ranks": ranks, "steps": steps}
    return Work(name, dims, Cost({}, {"activations": moved}, {link: sent}, minimum(steps, 1)))


def _share(size: Num, ranks: Num) -> Num:
    """(ranks - 1)/ranks of the buffer [byte]."""
    return exact_div(size * (ranks - 1), ranks)


@op("all-reduce")
def all_reduce(bytes: Num, ranks: Num, *, link: str = "link") -> Work:
    """Every rank ends with the sum: 2(n-1)/n · bytes sent a rank, in 2(n-1) steps."""
    return _collective(
        "all-reduce", bytes, ranks, exact_div(2 * bytes * (ranks - 1), ranks), 2 * (ranks - 1), 2 * bytes, link
    )


@op("all-gather")
def all_gather(bytes: Num, ranks: Num, *, link: str = "link") -> Work:
    """Every rank ends with all n shards of a buffer of `bytes`: (n-1)/n · bytes sent a rank."""
    moved = exact_div(bytes, ranks) + bytes
    return _collective("all-gather", bytes, ranks, _share(bytes, ranks), ranks - 1, moved, link)


@op("reduce-scatter")
def reduce_scatter(bytes: Num, ranks: Num, *, link: str = "link") -> Work:
    """Every rank ends with its shard of the sum: (n-1)/n · bytes sent a rank."""
    moved = exact_div(bytes, ranks) + bytes
    return _collective("reduce-scatter", bytes, ranks, _share(bytes, ranks), ranks - 1, moved, link)


@op("all-to-all")
def all_to_all(bytes: Num, ranks: Num, *, link: str = "link") -> Work:
    """Every rank sends a different 1/n of its buffer to each: (n-1)/n · bytes sent a rank."""
    return _collective("all-to-all", bytes, ranks, _share(bytes, ranks), ranks - 1, 2 * bytes, link)


@op("broadcast")
def broadcast(bytes: Num, ranks: Num, *, link: str = "link") -> Work:
    """Every rank ends with one rank's buffer: in a chain each but the last sends all of it on."""
    return _collective("broadcast", bytes, ranks, bytes * minimum(ranks - 1, 1), ranks - 1, bytes, link)


@op("send")
def send(bytes: Num, *, link: str = "link") -> Work:
    """One rank sends `bytes` to another."""
    return Work("send", {"bytes": bytes}, Cost({}, {"activations": bytes}, {link: bytes}, 1))
