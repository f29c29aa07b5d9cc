"""Measured kernels as points: the same dots as those of a prediction."""

from __future__ import annotations

from roofline.bound import Point
from roofline.cost import Work
from roofline.diagnosis.result import Diagnosis
from roofline.units import NS_PER_S


def points(found: Diagnosis) -> tuple[Point, ...]:
    """Kernels of the same work together, with their mean measured time."""
    device = found.supply
    if device is None:
        return ()
    rows: list[Point] = []
    for each in found.placed:
        if each.bound is None or not each.time:
            continue
        work, limit = each.work, each.bound
        if each.parts < each.calls:  # a part of the work each
            share = each.parts / each.calls
            work = Work(work.op, work.dims, share * work.cost)
            limit = type(limit).of(
                share * limit.compute, share * limit.memory, share * limit.link, share * limit.launch, limit.unknown
            )
        rows.append(
            Point(
                name=f"{each.kernel} {each.shapes}".strip(),
                part=each.operator,
                work=work,
                device=device,
                count=each.calls,
                bound=limit,
                measured=each.time / NS_PER_S / each.calls,
                reason="",
            )
        )
    return tuple(rows)
