"""Collectives of a trace as nccl-tests would tell them: size, ranks, bandwidth of the algorithm and of the bus."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.diagnosis.numbers import real, whole
from roofline.diagnosis.result import Diagnosis
from roofline.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class Exchange:
    """All calls of one collective of one size.

    `ranks` is None where the group is not recorded, and so is `busbw`, whose factor depends on it. A rank that waits
    for another one has that in its time: a bandwidth here is one at the least.
    """

    kind: str
    bytes: int  # of the whole buffer, as nccl-tests counts it
    ranks: int | None
    calls: int
    time: int  # [ns]
    sent: int  # [byte] by this rank, of all calls
    link: str  # the device's link, "" where it is not known
    link_bandwidth: float | None  # [byte/s]

    @property
    def algbw(self) -> float | None:
        """Buffer over time [byte/s]."""
        return self.bytes * self.calls * NS_PER_S / self.time if self.time else None

    @property
    def busbw(self) -> float | None:
        """Bytes that a rank sends over time [byte/s]."""
        return self.sent * NS_PER_S / self.time if self.time and self.ranks is not None else None

    @property
    def of_link(self) -> float | None:
        """The share of the link's bandwidth."""
        busbw = self.busbw
        return None if busbw is None or not self.link_bandwidth else busbw / self.link_bandwidth


def exchanges(found: Diagnosis) -> tuple[Exchange, ...]:
    """The collectives whose size is recorded, those that took longest first."""
    device = found.supply
    same: dict[tuple[str, int, int | None], list[int]] = {}
    for each in found.placed:
        cost, dims = each.work.cost, each.work.dims
        if not cost.links or "bytes" not in dims:
            continue
        ranks = 2 if each.work.op == "send" else whole(dims["ranks"]) if "ranks" in dims else None
        row = same.setdefault((each.work.op, whole(dims["bytes"]), ranks), [0, 0, 0])
        row[0] += round(each.parts)
        row[1] += each.time
        row[2] += round(each.parts * real(cost.link_bytes))
    rows: list[Exchange] = []
    for (kind, size, ranks), (calls, time, sent) in same.items():
        first = device.links[0] if device is not None and device.links else None
        inside = first if first is not None and first.joins(ranks or 2) else None
        name, bandwidth = ("", None) if inside is None else (inside.name, inside.bandwidth)
        rows.append(Exchange(kind, size, ranks, calls, time, sent, name, bandwidth))
    return tuple(sorted(rows, key=lambda each: -each.time))
