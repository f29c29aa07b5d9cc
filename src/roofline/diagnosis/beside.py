"""MFU of a measured run, from its own operations and from a model; a model's exact ledger beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from roofline.bound import Point
from roofline.diagnosis.numbers import real, whole
from roofline.diagnosis.passes import lengths_of
from roofline.diagnosis.result import Diagnosis, Placed
from roofline.errors import BadValue
from roofline.ledger import Ledger, predict
from roofline.model import Model
from roofline.shard import Shard
from roofline.units import NS_PER_S, percent
from roofline.workload import Precision, Workload

_KINDS = ("linear", "attention", "moe", "recurrent")
_PRODUCTS = (*_KINDS, "conv")  # what a model's FLOPs are counted of
_OWN = 0.5  # share of the measured FLOPs of products that a model must have, to be the one that ran


@dataclass(frozen=True, slots=True)
class Utilisation:
    """FLOPs of the recorded operations over what the device could do in the time of their kernels' window.

    `seconds` is the window without what began before the record.
    """

    flops: int
    seconds: float
    rate: str
    peak: float

    @property
    def value(self) -> float:
        """The share of the peak."""
        return self.flops / self.seconds / self.peak


@dataclass(frozen=True, slots=True)
class Side:
    """One kind of kernel, predicted and measured, all calls together; `bound` and seconds of the measured ones."""

    op: str
    predicted_flops: int
    measured_flops: int
    predicted_bytes: int
    measured_bytes: int
    bound: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Beside:
    """A model's ledger beside a measured step."""

    ledger: Ledger
    sides: tuple[Side, ...]
    without: tuple[str, ...]  # kernels of the ledger that the step does not have
    seconds: float
    unlike: str = ""  # why the step cannot be a pass of this ledger, where it cannot
    notes: tuple[str, ...] = ()

    @property
    def mfu(self) -> float | None:
        """The predicted FLOPs of products and attention over what the device could do in the step's time.

        None where the step is not known to be a pass of the ledger.
        """
        if self.unlike:
            return None
        peak = self.ledger.device.peak.get(self.ledger.precision.compute)
        flops = sum(each.predicted_flops for each in self.sides)
        return None if peak is None or not self.seconds else flops / self.seconds / peak


def utilisation(found: Diagnosis) -> Utilisation | None:
    """MFU of what has a cost; None where no product has one, or the device is not known."""
    device = found.supply
    flops: Counter[str] = Counter()
    for each in found.placed:
        for rate, n in each.work.cost.flops.items():
            flops[rate] += round(each.parts * real(n))
    known = [each for each in flops if device is not None and each in device.peak and flops[each]]
    if device is None or not known or not any(each.work.op in _PRODUCTS for each in found.placed):
        return None
    rate = max(known, key=lambda each: flops[each])
    seconds = found.window - (found.earlier.time if found.earlier is not None else 0)
    # FLOPs at other rates count too: the peak is that of the commonest.
    return Utilisation(sum(flops.values()), seconds / NS_PER_S, rate, device.peak[rate])


def beside(found: Diagnosis, model: Model, tp: int | None = None, precision: Precision | None = None) -> Beside:
    """The exact ledger of a model for the pass that was measured, of one of `tp` ranks of tensor parallelism.

    Sequences and lengths are those of its attention kernels, else of the server's own annotation. Raises BadValue
    where neither is in the file, or the device is not known.
    """
    device = found.supply
    if device is None:
        raise BadValue(f"A ledger needs a device: {found.supply_from}. Name it with --device.")
    ledger = predict(model, device, _workload(found), precision, shard=Shard(tp or 1))
    sides: list[Side] = []
    without: list[str] = []
    notes: list[str] = []
    unlike = _split(found, tp)
    for kind in _KINDS:
        points = [each for each in ledger.kernels if each.work.op == kind]
        mine = _like(found, kind, points)
        if not points and not mine:
            continue
        if kind == "linear" and not unlike:
            unlike = _another(found, mine)
        calls, wanted = round(sum(each.parts for each in mine)), sum(each.count for each in points)
        if kind == "attention" and 0 < calls < wanted:
            notes.append(f"{calls:,} of the {wanted:,} calls of attention have a cost in the measured step")
        widths = {whole(each.work.dims["n"]) for each in mine if "n" in each.work.dims}
        head = [each for each in points if each.name == "lm_head" and whole(each.work.dims["n"]) not in widths]
        if head:
            points = [each for each in points if each.name != "lm_head"]
            without.append("lm_head")
        sides.append(
            Side(
                op=kind,
                predicted_flops=sum(whole(each.flops) for each in points),
                measured_flops=sum(round(each.parts * real(each.work.flops)) for each in mine),
                predicted_bytes=sum(whole(each.bytes) for each in points),
                measured_bytes=sum(round(each.parts * real(each.work.bytes)) for each in mine),
                bound=sum(each.bound_seconds or 0.0 for each in mine),
                seconds=sum(each.time for each in mine) / NS_PER_S,
            )
        )
    seconds = found.window - (found.earlier.time if found.earlier is not None else 0)
    return Beside(ledger, tuple(sides), tuple(without), seconds / NS_PER_S, unlike, tuple(notes))


def _split(found: Diagnosis, tp: int | None) -> str:
    """Why the share of the model that ran is not known, where it is not."""
    ranks = found.rank.ranks or 1
    if ranks < 2 or tp is not None:
        return ""
    return (
        f"the record is of one of {ranks:,} ranks, and how these split the model is not in it. Name the ranks of "
        "tensor parallelism with --tp (1: each has the whole model)"
    )


def _another(found: Diagnosis, mine: Sequence[Placed]) -> str:
    """Why the products that ran are not this model's, where they are not."""
    every = [each for each in found.placed if each.work.op == "linear" and "batch" not in each.work.dims]
    whole_flops, own = (sum(each.parts * real(each.work.flops) for each in some) for some in (every, mine))
    if own >= _OWN * whole_flops:
        return ""
    return (
        f"only {percent(own / whole_flops)} of the FLOPs of the measured products have an inner length of this "
        "model's: another model ran, or another split of it"
    )


def _like(found: Diagnosis, kind: str, points: Sequence[Point]) -> list[Placed]:
    """Measured kernels of a kind; of products those whose depth a product of the model has, batched ones left out."""
    depths = {whole(each.work.dims["k"]) for each in points if "k" in each.work.dims}
    return [
        each
        for each in found.placed
        if each.work.op == kind
        and (kind != "linear" or ("batch" not in each.work.dims and whole(each.work.dims["k"]) in depths))
    ]


def _workload(found: Diagnosis) -> Workload:
    passes = [each for each in found.passes if each.context_requests or each.generation_requests]
    attentions = [each for each in found.placed if each.work.op == "attention" and "sequences" in each.work.dims]
    if attentions:
        dims = max(attentions, key=lambda each: each.time).work.dims
        new, context = whole(dims["new"]), whole(dims["context"])
        if new == 1:
            return Workload.decode(sequences=whole(dims["sequences"]), context=context)
        return Workload.prefill(sequences=whole(dims["sequences"]), new=new, context=context)
    decodes = [each for each in passes if each.generation_requests and each.generation_kv and not each.context_requests]
    if decodes:
        each = decodes[0]
        mean = max((each.generation_kv or 1) // each.generation_requests, 1)
        return Workload.decode(sequences=each.generation_requests, context=mean)
    for each in passes:
        lengths = lengths_of(each.name)
        new = each.context_tokens // max(each.context_requests, 1)
        # Requests of one length have the fewest pairs that so many tokens can have: no other lengths have as few.
        alike = lengths is not None and lengths.context_pairs == each.context_requests * new * (new + 1) // 2
        if alike and new and not each.generation_requests:
            return Workload.prefill(sequences=each.context_requests, new=new)
    raise BadValue(
        "Which pass was measured is not in the file: neither attention with its shapes nor a server's annotation. "
        "Record shapes, or predict the pass yourself: roofline predict."
    )
