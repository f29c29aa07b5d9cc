"""The verdict in a sentence: what bounds the pass, by which number, and what else weighs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from roofline.bound import VERDICTS, Point
from roofline.ledger import Ledger
from roofline.units import percent, significant
from roofline.workload import CALL

GEMMS, ATTENTION, SMALL, COPIES = "the weight GEMMs", "attention over the KV cache", "the small kernels", "copies"
WIRE, EXPERTS, RECURRENCE = "the collectives", "the experts", "the scan of the recurrent state"

CONVOLUTIONS = "the convolutions"

# What an operation is to a reader; what sends bytes to other ranks is a collective.
SUBJECTS: Mapping[str, str] = {
    "linear": GEMMS,
    "moe": EXPERTS,
    "attention": ATTENTION,
    "attention-math": ATTENTION,
    "scan": RECURRENCE,
    "conv": CONVOLUTIONS,
    "short-conv": SMALL,
    "norm": SMALL,
    "activation": SMALL,
    "rope": SMALL,
    "embedding": SMALL,
    "elementwise": SMALL,
    "softmax": SMALL,
    "copy": COPIES,
    "all-reduce": WIRE,
    "all-gather": WIRE,
    "reduce-scatter": WIRE,
    "all-to-all": WIRE,
    "broadcast": WIRE,
    "send": WIRE,
}

# What they are of a module, which has no cache and whose products are not all of weights.
_OF_A_CALL: Mapping[str, str] = {GEMMS: "the matrix products", ATTENTION: "attention"}
_SECOND = 0.2


class Share(NamedTuple):
    """A subject (`name` says of which rows), what bounds its kernels, their share of the bound, and they."""

    subject: str
    name: str
    resource: str
    share: float
    points: list[Point]


def verdict(ledger: Ledger) -> str:
    """A few sentences on a scalar ledger at its bound: its resource and largest subject, and what else weighs."""
    shares = _shares(ledger)
    first = next(each for each in shares if each.resource == ledger.total.bound)
    takes = "takes" if first.subject in (ATTENTION, _OF_A_CALL[ATTENTION]) else "take"
    said = f"{VERDICTS[first.resource]}: {first.name} {takes} {percent(first.share)} of the pass"
    if first.resource in ("memory", "compute"):
        ridge = significant(ledger.device.ridge_point(ledger.precision.compute))
        said += f" at {_intensity(first)}; the ridge is at {ridge}"
    return f"{said}.{_besides(shares, first)}"


def _shares(ledger: Ledger) -> list[Share]:
    """Subjects by the resource that bounds their kernels, the longest first."""
    whole = cast(float, ledger.total.bound_seconds)
    found: dict[tuple[str, str, str], Share] = {}
    for point in ledger.kernels:
        subject = SUBJECTS.get(point.work.op, f"{point.work.op} kernels")
        subject = _OF_A_CALL.get(subject, subject) if ledger.workload.phase == CALL else subject
        rows = next((phase for phase in ("decode", "prefill") if f"_{phase}" in point.name), "")
        key = subject, f"{subject} of the {rows} rows" if rows else subject, cast(str, point.bound.by)
        before = found.get(key, Share(*key, 0.0, []))
        found[key] = Share(*key, before.share + cast(float, point.bound_seconds) / whole, [*before.points, point])
    return sorted(found.values(), key=lambda each: -each.share)


def _besides(shares: list[Share], first: Share) -> str:
    """The largest share that another resource bounds, where it is worth a sentence."""
    other = next((each for each in shares if each.resource != first.resource), None)
    if other is None or other.share < _SECOND:
        return ""
    names = {"compute": "Compute", "memory": "Memory", "link": "The link", "launch": "Launching"}
    return f" {names[other.resource]} bounds {other.name}, another {percent(other.share)}."


def _intensity(share: Share) -> str:
    """FLOP per byte of these kernels together."""
    flops, moved = (sum(cast(float, getattr(point, name)) for point in share.points) for name in ("flops", "bytes"))
    return f"{significant(flops / moved, 2 if flops < 100 * moved else 3)} FLOP/byte"
