"""Step lines of training runs: torchtitan, Megatron-LM and Megatron-Bridge, NeMo (Lightning), as one record a step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from roofline.errors import BadValue
from roofline.evidence.lines import Lines
from roofline.evidence.numbers import number
from roofline.units import KILO, TERA

MOST_STEPS = 1 << 20
_COLOUR = re.compile(r"\[\d{1,3}(?:;\d{1,3})*m")  # of a log that lost what begins such a code
_N = r"([\d,.]+(?:[eE][+-]?\d{1,3})?)"
# What tells a step line of a framework: its number, and somewhere behind it a figure.
_TITAN = re.compile(r"\bstep:\s*(\d{1,9})\b"), re.compile(rf"\b(?:tps|wps):\s*{_N}")
_MEGATRON = (
    re.compile(r"\biteration\s+(\d{1,9})\s*/\s*\d+\s*\|"),
    re.compile(rf"elapsed time per iteration \(ms\):\s*{_N}"),
)
_NEMO = (
    re.compile(r"\b(?:global_step|iteration)[:= ]+(\d{1,9})\b"),
    re.compile(rf"\btrain_step_timing in s[:= ]+{_N}"),
)
_BRIDGE = re.compile(rf"Step Time\s*:\s*{_N}s\b"), re.compile(rf"GPU utilization:\s*{_N}\s*MODEL_TFLOP/s/GPU")
_FIELDS = {
    "flops_rate": re.compile(r"\b(?:tflops|TFLOPS_per_GPU|throughput per GPU \(TFLOP/s/GPU\))[:= ]+" + _N),
    "mfu": re.compile(rf"\bmfu:\s*{_N}\s*%"),
    "batch": re.compile(r"\bglobal[ _]batch[ _]size[:= ]+(\d+)"),
    "tokens_rate": re.compile(r"\btokens_per_sec(?:ond)?_per_gpu[:= ]+" + _N),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step as logged; None for what the line does not say."""

    number: int
    seconds: float | None = None
    tokens_per_gpu: float | None = None  # [tokens/s] of one device
    flops_per_gpu: float | None = None  # [FLOP/s] of one device, as the framework counts them
    mfu: float | None = None  # as the framework prints it
    sequences: int | None = None  # of the global batch


@dataclass(frozen=True, slots=True)
class TrainingLog:
    """The steps of a log, by the framework that wrote them."""

    tool: str
    steps: tuple[Step, ...]
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    warnings: tuple[str, ...] = ()

    @property
    def steady(self) -> tuple[Step, ...]:
        """The steps without the warm-up: those before the first that is within a quarter of the median."""
        paces = [pace(each) for each in self.steps]
        known = [each for each in paces if each]
        if not known:
            return self.steps
        middle = median(known)
        first = next((at for at, each in enumerate(paces) if each and abs(each / middle - 1) <= _STEADY), 0)
        return self.steps[first:]


_STEADY = 0.25


def pace(step: Step) -> float | None:
    """What a step's speed is told by: tokens or FLOPs a second, or steps a second."""
    if step.tokens_per_gpu or step.flops_per_gpu:
        return step.tokens_per_gpu or step.flops_per_gpu
    return 1 / step.seconds if step.seconds else None


def sniff(head: str) -> bool:
    """Whether a text holds a step line."""
    return any(_step(line) is not None for line in head.splitlines())


def _step(line: str) -> tuple[str, Step] | None:
    """The framework and the step of a line; None where it is no step line."""
    if "step" not in line.lower() and "iteration" not in line:
        return None
    line = _COLOUR.sub("", line[:8192])
    if found := _both(_TITAN, line):
        return "torchtitan", _with(Step(int(found[0]), tokens_per_gpu=number(found[1])), line)
    if found := _both(_MEGATRON, line):
        elapsed = number(found[1])
        return "Megatron-LM", _with(Step(int(found[0]), seconds=elapsed / KILO if elapsed else None), line)
    if found := _both(_NEMO, line):
        return "NeMo", _with(Step(int(found[0]), seconds=number(found[1]) or None), line)
    if found := _both(_BRIDGE, line):
        rate = number(found[1])
        return "Megatron-Bridge", Step(0, number(found[0]) or None, None, rate * TERA if rate else None)
    return None


def _both(patterns: tuple[re.Pattern[str], re.Pattern[str]], line: str) -> tuple[str, str] | None:
    """What the first pattern finds and what the second finds behind it; each looks at a line once."""
    first = patterns[0].search(line)
    second = None if first is None else patterns[1].search(line, first.end())
    return None if first is None or second is None else (first[1], second[1])


def _with(step: Step, line: str) -> Step:
    """The step with the other fields of its line."""
    found = {name: number(match[1]) for name, pattern in _FIELDS.items() if (match := pattern.search(line))}
    rate, mfu, batch = found.get("flops_rate"), found.get("mfu"), found.get("batch")
    return Step(
        step.number,
        step.seconds,
        step.tokens_per_gpu or found.get("tokens_rate"),
        rate * TERA if rate else None,
        mfu / 100 if mfu is not None else None,
        int(batch) if batch else None,
    )


def read(lines: Lines) -> TrainingLog:
    """The steps of a log; raises BadValue where it has none, or more than are read."""
    steps: dict[tuple[str, int, int], Step] = {}
    tools: dict[str, int] = {}
    repeated = 0
    for line in lines:
        found = _step(line)
        if found is None:
            continue
        tool, step = found
        tools[tool] = tools.get(tool, 0) + 1
        key = (tool, step.number, 0 if step.number else len(steps))
        repeated += key in steps  # each rank may print the step, or a run that was resumed does so again
        steps[key] = step
        if len(steps) > MOST_STEPS:
            raise BadValue(f"has more than {MOST_STEPS:,} training steps. Name a part of the log.")
    if not steps:
        raise BadValue("is a training log without a whole step line.")
    tool = max(tools, key=lambda each: tools[each])
    kept = tuple(step for (each, _, _), step in steps.items() if each == tool)
    left = {"step lines of a step that comes again": repeated} if repeated else {}
    return TrainingLog(tool, kept, left, tuple(lines.warnings))
