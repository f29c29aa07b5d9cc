"""What counters of a running card say: is it waiting for memory, computing, throttled, or for somebody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum
from statistics import median

from roofline.device import Device
from roofline.diagnosis.assessment import Assessment, CardState
from roofline.diagnosis.findings import Finding, ranked
from roofline.diagnosis.known import recognised
from roofline.evidence.counters import Counters, Series
from roofline.units import percent, si

IDLE = 0.05  # of the time that a kernel ran, below which a sample is idle
NEAR = 0.4  # of the time that a pipe or the memory was active, from which on it can be what limits
FULL = 0.9  # of the time that a kernel ran, from which on a card "reads busy"
_LINK = 0.25  # of a link, from which on its traffic is worth a word
_SLOW = 0.95  # of the highest clock, below which a busy card is slowed
_AT_LIMIT = 0.97  # of the power limit

PIPES = ("tensor_active", "fp64_active", "fp32_active", "fp16_active", "int_active", "issue_active")

# Bits of the reasons for which clocks are held down (nvml.h, nvmlClocksEventReasons).
_POWER_BITS, _THERMAL_BITS = 0x4 | 0x80, 0x20 | 0x40

STATES = {
    "idle": "is idle",
    "memory": "waits for memory",
    "compute": "computes",
    "neither": "keeps neither memory nor arithmetic near full: launches, Python, collectives or small grids",
    "busy": "runs kernels, and no counter says what limits them",
    "unknown": "has no counter of its activity",
}


def state(values: Mapping[str, float]) -> str:
    """What one sample says; a key of STATES."""
    memory = values.get("dram_active")
    pipes = [values[name] for name in PIPES if name in values]
    ran = _ran(values)
    most = max([*pipes, memory or 0.0])
    if ran is None and memory is None and not pipes:
        return "unknown"
    if (ran if ran is not None else most) < IDLE and most < IDLE:
        return "idle"
    if memory is None or not pipes:
        # Half of the picture: what is high is high, what is missing may be higher.
        if memory is not None and memory >= 2 * NEAR:
            return "memory"
        return "compute" if pipes and max(pipes) >= 2 * NEAR else "busy"
    if most < NEAR:
        return "neither"
    return "memory" if memory > max(pipes) else "compute"


def _ran(values: Mapping[str, float]) -> float | None:
    """Share of the time in which a kernel ran."""
    known = [values[name] for name in ("engine_active", "busy", "sm_active") if name in values]
    return max(known) if known else None


def assess_counters(counters: Counters, source: str, device: Device | None = None) -> Assessment:
    """The state of each card over its samples, and what holds it back."""
    rows = tuple(card_state(each, device) for each in counters.gpus)
    found = [finding for rule in _RULES for finding in rule(counters.gpus, rows)]
    thinned = max((each.every for each in counters.gpus), default=1)
    notes = [
        _SHARES if any(name in each.means for each in rows for name in ("dram_active", *PIPES)) else _UTILISATION,
        f"A sample is idle below {percent(IDLE)} of its time, and a resource may be the limit from {percent(NEAR)} on",
    ]
    if thinned > 1:
        notes.append(f"Of long recordings one sample in up to {thinned} was kept")
    spans = [each.span for each in rows if each.span]
    return Assessment(
        source=source,
        format=counters.form,
        kind="cards",
        card=next((each.card for each in rows if each.card), ""),
        device=next((each.device for each in rows if each.device is not None), None),
        recognised_from="--device" if device is not None else "the device's name in the file",
        verdict=_verdict(rows),
        findings=ranked(found),
        rows=rows,
        seconds=max(spans, default=None),
        left_out=counters.left_out,
        warnings=counters.warnings,
        notes=tuple(notes),
    )


_SHARES = (
    "DRAM_ACTIVE and the pipes' counters are shares of cycles: times the peak they are estimates, of FLOP/s the most "
    "that the active cycles can have done"
)
_UTILISATION = (
    "Utilisation is the time in which any kernel ran, whatever it waited for: what limits is told by DCGM's counters "
    "(roofline record dcgm)"
)


def card_state(series: Series, device: Device | None = None) -> CardState:
    """One card over its samples."""
    supply = device or (recognised(series.card) if series.card else None)
    judged = [(state(each), each) for each in series.samples()]
    counted = Counter(name for name, _ in judged)
    shares = {name: count / len(judged) for name, count in counted.most_common()}
    means = {name: value for name in series.columns if (value := series.mean(name)) is not None}
    verdict = _leading(shares)
    return CardState(
        name=series.name,
        card=series.card,
        samples=len(series),
        span=series.span,
        means=means,
        states=shares,
        verdict=verdict,
        sentence=_sentence(verdict, shares, _means([each for name, each in judged if name == verdict]), supply),
        device=supply,
        bandwidth=means["dram_active"] * supply.bandwidth if supply is not None and "dram_active" in means else None,
        flops={} if supply is None else dict(_flops(means, supply)),
        links={} if supply is None else dict(_links(means, supply)),
    )


def _means(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each counter over the samples that have it."""
    columns: dict[str, list[float]] = {}
    for each in samples:
        for name, value in each.items():
            columns.setdefault(name, []).append(value)
    return {name: fsum(values) / len(values) for name, values in columns.items()}


def _leading(shares: Mapping[str, float]) -> str:
    """The state of most samples; where idle ties with another, the other."""
    return max(shares, key=lambda each: (shares[each], each != "idle"), default="unknown")


_RATE_OF = {
    "tensor_active": "bf16",
    "fp64_active": "fp64-vector",
    "fp32_active": "fp32-vector",
    "fp16_active": "fp16-vector",
}


def _flops(means: Mapping[str, float], device: Device) -> Iterable[tuple[str, float]]:
    for name, rate in _RATE_OF.items():
        if name in means and rate in device.peak:
            yield rate, means[name] * device.peak[rate]


def _links(means: Mapping[str, float], device: Device) -> Iterable[tuple[str, float]]:
    for link in device.links:
        moved = max(means.get(f"{link.name}_sent", 0.0), means.get(f"{link.name}_received", 0.0))
        if moved:
            yield link.name, moved / link.bandwidth


def _sentence(verdict: str, shares: Mapping[str, float], means: Mapping[str, float], device: Device | None) -> str:
    """What a card does; of one that does several things what it does most, with the figures of these samples alone."""
    ran = _ran(means)
    reads = f"reads {percent(ran)} busy and " if ran is not None and verdict != "idle" else ""
    said = f"{reads}{STATES[verdict]}"
    if len(shares) > 1:
        idle = shares.get("idle", 0.0) if verdict != "idle" else 0.0
        said = f"in {percent(shares[verdict])} of the samples it {said}" + (
            f"; idle in {percent(idle)}" if idle else ""
        )
    figures = _figures(means, device)
    return f"{said[0].upper()}{said[1:]}{': ' if figures else ''}{', '.join(figures)}."


def _figures(means: Mapping[str, float], device: Device | None) -> list[str]:
    figures: list[str] = []
    if "dram_active" in means:
        rate = f" (about {si(means['dram_active'] * device.bandwidth, 'B/s')})" if device is not None else ""
        figures.append(f"memory active {percent(means['dram_active'])}{rate}")
    for name in PIPES:
        if means.get(name, 0.0) >= IDLE or (name == "tensor_active" and name in means):
            figures.append(f"{name.removesuffix('_active')} pipe {percent(means[name])}")
    return figures


_MANY = {
    "idle": "idle",
    "memory": "waiting for memory",
    "compute": "computing",
    "neither": "busy with neither memory nor arithmetic near full",
    "busy": "running kernels, with no counter of what limits them",
    "unknown": "without a counter of activity",
}


def _verdict(rows: Sequence[CardState]) -> str:
    if len(rows) == 1:
        return f"{rows[0].name}: {rows[0].sentence[0].lower()}{rows[0].sentence[1:]}"
    counted = Counter(each.verdict for each in rows)
    return f"Of {len(rows)} cards: " + "; ".join(f"{n} {_MANY[name]}" for name, n in counted.most_common()) + "."


# --- findings: each looks at all cards, and names those that it is about


def _about(rows: Sequence[CardState]) -> str:
    names = [each.name for each in rows]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _stake(rows: Sequence[CardState], part: Callable[[CardState], float]) -> float | None:
    """Seconds at stake over the cards whose samples bear a time, None where none does."""
    timed = [each for each in rows if each.span]
    return sum((each.span or 0.0) * part(each) for each in timed) if timed else None


def _stalled(gpus: Sequence[Series], rows: Sequence[CardState]) -> Iterable[Finding]:
    mine = [each for each in rows if each.states.get("memory", 0.0) >= 0.5 and (_ran(each.means) or 0.0) >= FULL]
    if mine:
        yield Finding(
            "busy-yet-waiting-for-memory",
            f"{_about(mine)}: reads busy, waits for memory",
            _stake(mine, lambda each: each.states["memory"] * (1 - min(each.means.get("dram_active", 1.0), 1.0))),
            tuple(each.sentence for each in mine[:4]),
            "Utilisation is no measure here: move fewer bytes (smaller formats, fusion, a larger batch).",
        )


def _starved(gpus: Sequence[Series], rows: Sequence[CardState]) -> Iterable[Finding]:
    mine = [each for each in rows if each.states.get("neither", 0.0) >= 0.2]
    if mine:
        links = [
            f"{each.name}: {name} {percent(share)}"
            for each in mine
            for name, share in each.links.items()
            if share >= _LINK
        ]
        yield Finding(
            "neither-memory-nor-compute",
            f"{_about(mine)}: kernels run, and neither memory nor arithmetic is near full",
            _stake(mine, lambda each: each.states["neither"]),
            (*(each.sentence for each in mine[:4]), *links[:4]),
            "A timeline tells which: launch gaps, Python, collectives or small grids (roofline record nsys).",
        )


def _idle(gpus: Sequence[Series], rows: Sequence[CardState]) -> Iterable[Finding]:
    mine = [each for each in rows if each.states.get("idle", 0.0) >= 0.2]
    if mine:
        yield Finding(
            "idle",
            f"{_about(mine)}: no kernel ran in {percent(max(each.states['idle'] for each in mine))} of the samples",
            _stake(mine, lambda each: each.states["idle"]),
            tuple(
                f"{each.name}: idle in {percent(each.states['idle'])} of the samples ({each.samples:,})"
                for each in mine[:4]
            ),
            "Look for what the card waits for: input, another rank, requests.",
        )


def _held(gpu: Series, flags: Sequence[str], bits: int, violation: str) -> float:
    """Share of the busy samples in which clocks were held down for a reason; 1 where only the sum of it grew."""
    busy = [each for each in gpu.samples() if state(each) not in ("idle", "unknown")]
    told = [each for each in busy if any(flag in each for flag in flags) or "throttle_mask" in each]
    if told:
        held = [
            each for each in told if any(each.get(flag) for flag in flags) or int(each.get("throttle_mask", 0)) & bits
        ]
        return len(held) / len(told)
    grew = any((gpu.growth(each) or 0.0) > 0 for each in (violation, f"{violation}_hard"))
    return 1.0 if busy and grew else 0.0


def _power(gpus: Sequence[Series], rows: Sequence[CardState]) -> Iterable[Finding]:
    flags = ("power_capped", "power_braked")
    held = {row.name: _held(gpu, flags, _POWER_BITS, "power_violation") for gpu, row in zip(gpus, rows, strict=True)}
    mine = [row for gpu, row in zip(gpus, rows, strict=True) if held[row.name] > 0 or _at_limit(gpu)]
    if mine:
        yield Finding(
            "power-limit",
            f"{_about(mine)}: clocks are held down by the power limit",
            _stake(mine, lambda each: (1 - _clock(each)) * (1 - each.states.get("idle", 0.0))),
            tuple(_power_line(each, held[each.name]) for each in mine[:4]),
            "Raise the limit where that is allowed (nvidia-smi -pl); memory-bound work loses little by it.",
        )


def _at_limit(gpu: Series) -> bool:
    """Whether a busy sample draws the limit at a lower clock than the highest."""
    return any(
        each.get("power", 0.0) >= _AT_LIMIT * each["power_limit"]
        and each.get("sm_clock", 0.0) < _SLOW * each["sm_clock_most"]
        for each in gpu.samples()
        if each.get("power_limit") and each.get("sm_clock_most")
    )


def _clock(each: CardState) -> float:
    """Share of the highest clock; 1 where either is unknown."""
    most = each.means.get("sm_clock_most")
    return min(each.means.get("sm_clock", most or 1.0) / most, 1.0) if most else 1.0


def _power_line(each: CardState, share: float) -> str:
    parts = [f"{each.name}: in {percent(share)} of the busy samples"] if share else [f"{each.name}: at the limit"]
    if "power" in each.means:
        parts.append(
            f"{each.means['power']:.0f} W"
            + (f" of {each.means['power_limit']:.0f} W" if "power_limit" in each.means else "")
        )
    if "sm_clock" in each.means:
        parts.append(f"SM clock {si(each.means['sm_clock'], 'Hz')}")
    return ", ".join(parts)


def _thermal(gpus: Sequence[Series], rows: Sequence[CardState]) -> Iterable[Finding]:
    flags = ("thermal_slowed", "thermal_slowed_hard")
    held = {
        row.name: _held(gpu, flags, _THERMAL_BITS, "thermal_violation") for gpu, row in zip(gpus, rows, strict=True)
    }
    mine = [row for row in rows if held[row.name] > 0]
    if mine:
        hot = {gpu.name: (gpu.most("temperature"), gpu.most("memory_temperature")) for gpu in gpus}
        yield Finding(
            "thermal",
            f"{_about(mine)}: clocks are held down by heat",
            _stake(mine, lambda each: (1 - _clock(each)) * (1 - each.states.get("idle", 0.0))),
            tuple(
                f"{each.name}: in {percent(held[each.name])} of the busy samples"
                + "".join(
                    f", {what} up to {most:.0f} C"
                    for what, most in zip(("GPU", "memory"), hot[each.name], strict=True)
                    if most
                )
                for each in mine[:4]
            ),
            "Cooling, air flow, a neighbour that heats it; compare with the other cards.",
        )


def _slow_cards(gpus: Sequence[Series], rows: Sequence[CardState]) -> Iterable[Finding]:
    """Cards at work whose clock is below that of most others of the same make: in one job the others wait for them."""
    for make in dict.fromkeys(each.card for each in rows):
        clocks = {
            each.name: each.means["sm_clock"]
            for each in rows
            if each.card == make and each.verdict not in ("idle", "unknown") and each.means.get("sm_clock")
        }
        if len(clocks) < _SEVERAL:
            continue
        middle = median(clocks.values())
        mine = [each for each in rows if clocks.get(each.name, middle) < _BELOW * middle]
        if mine:
            yield Finding(
                "slow-card",
                f"{_about(mine)}: the clock is below that of the other cards",
                _stake(mine, lambda each, of=middle: 1 - each.means["sm_clock"] / of),
                tuple(
                    f"{each.name}: {si(each.means['sm_clock'], 'Hz')}, where the median of {len(clocks)} at work is "
                    f"{si(middle, 'Hz')}"
                    for each in mine[:4]
                ),
                "Cards that share a job wait for the slowest: compare power limits, temperatures and clocks.",
            )


_SEVERAL, _BELOW = 3, 0.9  # cards that are compared; of the median clock


def _traffic(gpus: Sequence[Series], rows: Sequence[CardState]) -> Iterable[Finding]:
    mine = [each for each in rows if any(share >= _LINK for name, share in each.links.items() if name == "pcie")]
    if mine:
        yield Finding(
            "pcie-traffic",
            f"{_about(mine)}: much goes over PCIe",
            None,
            tuple(f"{each.name}: {percent(each.links['pcie'])} of one direction" for each in mine[:4]),
            "Copies to and from the host, offloading, or collectives without NVLink: see them in a timeline.",
        )


def held_back(rows: Sequence[CardState]) -> Iterable[Finding]:
    """What keeps cards back while they run kernels, apart from idle times and clocks."""
    for rule in (_stalled, _starved):
        yield from rule((), rows)


_RULES: tuple[Callable[[Sequence[Series], Sequence[CardState]], Iterable[Finding]], ...] = (
    _stalled,
    _starved,
    _idle,
    _power,
    _thermal,
    _slow_cards,
    _traffic,
)
