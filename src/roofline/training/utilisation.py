"""MFU and HFU of a run: measured tokens a second beside a peak, under every convention."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

from roofline.device import Sheet
from roofline.errors import BadValue, UnknownName, shown
from roofline.model import Model
from roofline.training.conventions import Subject, Utilisation, check_causal, counted, subject_of
from roofline.training.recipe import Recipe, Recompute
from roofline.units import percent, si, significant

PLAUSIBLE = (0.08, 0.8)  # what training runs report of a dense peak
TOO_LOW = 0.02
TOKENS, PER_GPU, STEP, MODELLED = "tokens/s", "tokens/s of a GPU", "step", "model"
_OF_ALL = {  # what may be of one GPU where all are meant, and how that is said
    TOKENS: ("the tokens/s those", "--tokens-per-second-per-gpu"),
    STEP: ("the batch that", "--global-batch is that of all"),
}
_SPARSE = "-sparse"
_TRAINED_IN = ("bf", "fp", "tf", "mxfp", "nvfp")  # rates that GEMMs of training run at


@dataclass(frozen=True, slots=True)
class Peak:
    """The denominator: whose, at which rate, dense or sparse, and how much [FLOP/s]."""

    owner: str
    rate: str
    flops_per_second: float
    sparse: bool = False
    device: Sheet | None = None

    @classmethod
    def of(cls, device: Sheet, rate: str = "bf16", sparse: bool = False) -> Peak:
        """A device's dense peak, or its sparse one where that is asked for by name; raises UnknownName."""
        name = f"{rate.removesuffix(_SPARSE)}{_SPARSE}" if sparse else rate
        return cls(device.id, name, device.rate(name), name.endswith(_SPARSE), device)

    @classmethod
    def stated(cls, flops_per_second: float, rate: str = "bf16") -> Peak:
        """A peak that is in no file."""
        return cls("the peak as given", rate, flops_per_second)


@dataclass(frozen=True, slots=True)
class Run:
    """What was measured: tokens a second of all `gpus` together, the share of them that is padding.

    `given` says what they follow from, and so what may be mixed up: TOKENS, PER_GPU, STEP, or MODELLED.
    """

    tokens_per_second: float
    gpus: int = 1
    padding: float = 0.0
    given: str = TOKENS

    def __post_init__(self) -> None:
        if self.gpus.__class__ is not int or self.gpus < 1:
            raise BadValue(f"{shown(self.gpus)} GPUs train nothing. Possible: a whole number from 1.")
        if not 0 < self.tokens_per_second < math.inf:
            raise BadValue(f"{shown(self.tokens_per_second)} tokens/s is no rate. Possible: finite and above zero.")
        if not 0 <= self.padding < 1:
            raise BadValue(f"A share of padding is from 0 up to 1, not {shown(self.padding)}. Write 0.05 for 5 %.")

    @classmethod
    def of_step(cls, seconds: float, batch: float, gpus: int = 1, padding: float = 0.0) -> Run:
        """A step of `batch` tokens in that time."""
        if not 0 < seconds < math.inf:
            raise BadValue(f"A step of {shown(seconds)} s is no measurement. Possible: finite and above zero.")
        if not 0 < batch < math.inf:
            raise BadValue(f"A step of {shown(batch)} tokens trains nothing. Possible: a whole number from 1.")
        return cls(batch / seconds, gpus, padding, STEP)

    @property
    def each(self) -> float:
        """Tokens a second of one GPU that are no padding."""
        return self.tokens_per_second * (1 - self.padding) / self.gpus


@dataclass(frozen=True, slots=True)
class Mfu:
    """A run's utilisation under every convention, and what may be mixed up in it."""

    name: str
    subject: Subject
    peak: Peak
    run: Run
    conventions: tuple[Utilisation, ...]
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]

    def value(self, convention: str) -> float:
        """The share under one convention; raises UnknownName where it is not counted, or why it is unknown."""
        for each in self.conventions:
            if each.convention.name == convention:
                if isinstance(each.value, float):
                    return each.value
                raise UnknownName(f"{convention} is unknown: {each.unknown}.")
        raise UnknownName.of("convention", convention, [each.convention.name for each in self.conventions])


def mfu(
    model: Model | Subject,
    peak: Peak,
    run: Run,
    *,
    sequence: int | None = None,
    recipe: Recipe | None = None,
    recompute: Recompute | None = None,
) -> Mfu:
    """MFU and HFU of a run under every convention.

    `model` may be a Subject where only its size is known. Raises BadValue for a run that cannot be.
    """
    if isinstance(model, Model):
        check_causal(model)
        name, subject = model.name, subject_of(model, sequence, recipe, recompute)
    else:
        name = f"{int(cast(float, model.parameters)):,} parameters"
        subject = replace(model, sequence=sequence, recompute=recompute)
    found = counted(subject, run.each, peak.flops_per_second)
    notes = (*(model.assumptions if isinstance(model, Model) else ()), *_assumptions(subject, peak, run, recipe))
    device = peak.device.assumptions if peak.device else ()
    return Mfu(name, subject, peak, run, found, (*device, *_warnings(found, peak, run)), notes)


def _assumptions(subject: Subject, peak: Peak, run: Run, recipe: Recipe | None) -> Iterator[str]:
    yield f"The peak is {si(peak.flops_per_second, 'FLOP/s')}, {peak.rate}{'' if peak.sparse else ', dense'}"
    if subject.total != subject.parameters:
        yield (
            f"N is the {int(cast(float, subject.parameters)):,} parameters that a token goes through, of "
            f"{int(cast(float, subject.total)):,}"
        )
    else:
        yield "N is every stored parameter, token and position tables among them"
    if run.padding:
        yield f"{percent(run.padding)} of the tokens are padding and not counted"
    else:
        yield "Every token is counted: padding among them raises the share (--padding)"
    if subject.trainable != 1:
        yield f"{percent(subject.trainable, 3)} of N is trained; frozen weights have no gradient of their own"
    if recipe is not None and recipe.lora:
        yield f"LoRA of rank {recipe.lora} on every matrix of the layers is in the ledger, not in N"
    if recipe is not None and recipe.documents is not None:
        yield (
            f"Documents of {recipe.documents:,} tokens are packed and masked from each other (exact only); documents "
            "of unequal lengths have more pairs"
        )
    yield "exact counts GEMMs and attention of the ledger at the compute rate; small kernels are left out"


def _warnings(found: tuple[Utilisation, ...], peak: Peak, run: Run) -> Iterator[str]:
    """What is probably mixed up: a share above 1, or next to nothing."""
    values = {each.convention.name: each.value for each in found if isinstance(each.value, float)}
    if not values:
        return
    headline = next(name for name in ("exact", "palm", "6n") if name in values)
    value = values[headline]
    over = [name for name, each in values.items() if each > 1]
    if value > 1:
        yield f"{headline} is {percent(value, 3)} of the {peak.rate} peak, which cannot be. {_why(value, peak, run)}"
    elif over:
        yield (
            f"Over 100 %, as what they count was not all run (recomputation, masked scores, unused experts): "
            f"{', '.join(over)}; {headline} is {percent(value, 3)}"
        )
    if value < TOO_LOW and run.gpus > 1 and run.given in _OF_ALL and PLAUSIBLE[0] <= value * run.gpus <= PLAUSIBLE[1]:
        what, instead = _OF_ALL[run.given]
        yield (
            f"{headline} is {percent(value, 2)}: were {what} of one GPU, it would be "
            f"{percent(value * run.gpus, 3)} ({instead})"
        )
    if peak.sparse:
        factor = peak.flops_per_second / peak.device.peak[peak.rate.removesuffix(_SPARSE)] if peak.device else 2.0
        yield f"The sparse peak is {factor:g} times the dense one, and no dense GEMM can reach it"


def _why(value: float, peak: Peak, run: Run) -> str:
    """The mistakes that would bring the share to where runs are, likeliest first."""
    likely = _plausible(value, _shared(run))
    likely = likely or [*_plausible(value, _misplaced(peak))[:3], *_plausible(value, _counted(run))[:1]]
    if not likely:
        likely = [f"tokens/s, GPUs or N are off by about {significant(value / 0.4, 2)} times"]
    return f"Probably: {'; or '.join(likely)}"


def _plausible(value: float, guesses: Iterator[tuple[float, str]]) -> list[str]:
    """Those guesses under which the share is what runs reach, with that share."""
    return [
        f"{text} ({percent(value / factor, 3)})"
        for factor, text in guesses
        if factor > 1 and PLAUSIBLE[0] <= value / factor <= PLAUSIBLE[1]
    ]


def _shared(run: Run) -> Iterator[tuple[float, str]]:
    """Tokens of all GPUs given as those of one, and by how much that raises the share."""
    if run.given == PER_GPU:
        yield run.gpus, f"tokens/s are of all {run.gpus:,} GPUs, not of one"


def _counted(run: Run) -> Iterator[tuple[float, str]]:
    """Tokens of whole nodes, where one GPU was named."""
    for nodes in (1, 2, 8, 32, 128) if run.gpus == 1 else ():
        yield 8 * nodes, f"tokens/s are of about {8 * nodes:,} GPUs"


def _misplaced(peak: Peak) -> Iterator[tuple[float, str]]:
    """A rate or card with a higher peak than the one taken."""
    if peak.device is None:
        return
    for rate, other in sorted(peak.device.peak.items(), key=lambda each: each[1]):
        if rate.startswith(_TRAINED_IN) and not rate.endswith("-vector"):
            yield other / peak.flops_per_second, f"the run is at the {rate} rate"
    for device in _larger(peak):
        yield device.peak[peak.rate] / peak.flops_per_second, f"the card is {device.id}"


def _larger(peak: Peak) -> list[Sheet]:
    """Devices of the vendor with a larger peak of the rate, whose short names stand for them, the nearest first."""
    from roofline.catalogue import device_sheets

    vendor = peak.device.vendor if peak.device else ""
    found = [each for each in device_sheets() if each.default_for and each.vendor == vendor]
    larger = [each for each in found if each.peak.get(peak.rate, 0) > peak.flops_per_second]
    return sorted(larger, key=lambda each: each.peak[peak.rate])
