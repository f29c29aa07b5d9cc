"""The verdict in a sentence: what bounds the pass, by which number, and what can and cannot help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from roofline.bound import VERDICTS, Point
from roofline.ledger import Ledger
from roofline.units import percent, significant

# Operations that are one subject to a reader: what to call them.
SUBJECTS: Mapping[str, str] = {
    "linear": "the weight GEMMs",
    "attention": "attention over the KV cache",
    "norm": "the small kernels",
    "activation": "the small kernels",
    "rope": "the small kernels",
    "embedding": "the small kernels",
    "elementwise": "the small kernels",
    "softmax": "the small kernels",
    "copy": "copies",
}
_WIRE = "the collectives"

# (subject, resource) -> what can and cannot move it, by the formulas of its operations.
_HELP: Mapping[tuple[str, str], str] = {
    ("the weight GEMMs", "memory"): (
        "Each weight is read once for all rows: more rows in the pass raise the intensity, smaller weights "
        "cut the bytes; a higher compute peak cannot help"
    ),
    ("the weight GEMMs", "compute"): (
        "Fewer FLOPs or a faster rate can help; more bandwidth, or smaller weights at the same rate, cannot"
    ),
    ("attention over the KV cache", "compute"): (
        "Fewer new tokens or a faster rate can help; more bandwidth or a smaller KV dtype cannot"
    ),
    ("the small kernels", "memory"): "Folding them into their neighbours (--fused) can help; a higher peak cannot",
    (
        "the small kernels",
        "compute",
    ): "Folding them into their neighbours (--fused) moves bytes only; fewer rows can help",
    (_WIRE, "link"): "A faster link or fewer ranks can help; more bandwidth or compute on the device cannot",
}
_DECODE = "A bigger batch cannot help this kernel; a smaller KV dtype or a shorter context can"
_PREFILL = "More new tokens on the same cache raise its intensity; a smaller KV dtype cuts the bytes"


def subject(point: Point) -> str:
    """What a kernel is to a reader."""
    return SUBJECTS.get(point.work.op, _WIRE)


def verdict(ledger: Ledger) -> str:
    """One or two sentences on a scalar ledger: the resource, its largest subject, and the levers."""
    resource = cast(str, ledger.total.bound)
    spent: dict[str, float] = {}
    for point, seconds in zip(ledger.kernels, ledger.times, strict=True):
        if point.bound.by == resource:
            name = subject(point)
            spent[name] = spent.get(name, 0.0) + cast(float, seconds)
    name = max(spent, key=lambda each: spent[each])
    share = percent(spent[name] / cast(float, ledger.total.seconds))
    takes = "takes" if name.startswith("attention") else "take"
    at = "" if resource == "link" else f" at {_intensity(ledger, name, resource)}; the ridge is at {_ridge(ledger)}"
    return f"{VERDICTS[resource]}: {name} {takes} {share} of the pass{at}. {_levers(ledger, name, resource)}."


def _levers(ledger: Ledger, name: str, resource: str) -> str:
    known = _HELP.get((name, resource))
    if known is not None:
        return known
    if name.startswith("attention"):
        longest = max(_of(ledger, name, resource), key=lambda point: cast(float, point.bound.seconds))
        return _DECODE if longest.work.dims["new"] == 1 else _PREFILL
    return "Fewer or larger kernels can help"


def _of(ledger: Ledger, name: str, resource: str) -> list[Point]:
    """The kernels of a subject that a resource bounds."""
    return [point for point in ledger.kernels if subject(point) == name and point.bound.by == resource]


def _intensity(ledger: Ledger, name: str, resource: str) -> str:
    """FLOP per byte of the kernels of this subject that this resource bounds."""
    flops = moved = 0.0
    for point in _of(ledger, name, resource):
        flops += point.count * cast(float, point.work.flops)
        moved += point.count * cast(float, point.work.bytes)
    return f"{significant(flops / moved, 2 if flops < 100 * moved else 3)} FLOP/byte"


def _ridge(ledger: Ledger) -> str:
    return significant(ledger.device.ridge_point(ledger.precision.compute))
