"""The verdict: what limits the run, in one sentence with its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from roofline.diagnosis.idle import BETWEEN, COLLECTIVE, DATA, HOST, LATENCY, START_UP, SYNC
from roofline.diagnosis.result import Cause, Gap, KernelRow, Share
from roofline.trace.classify import COMPUTE
from roofline.units import NS_PER_S, percent, si

FAR = 0.1  # share of its bound below which neither memory nor arithmetic sets a kernel's time

_HOSTS = (HOST, SYNC, START_UP, LATENCY, DATA)  # causes of idle time that are the host's
_MOST = 0.5  # of the idle time
_LONG = 0.2  # of the window: idle time that a verdict on something else has to name

NAMES = {
    "memory": "Memory-bound",
    "compute": "Compute-bound",
    "latency": "Latency-bound",
    "communication": "Communication-bound",
    "input": "Input-bound",
    "host": "Host-bound",
}

# Most of the window, where that is not one of these.
_UNTOLD = {
    "copy": "Nothing is computed beside them: look at what is copied, how often, and from where.",
    "unknown": "Which supply limits it is unknown: the kernels' shapes or the device are not known.",
}


def verdict(
    shares: Sequence[Share], causes: Sequence[Cause], gaps: Sequence[Gap], kernels: Sequence[KernelRow], window: int
) -> tuple[str, str]:
    """What limits the run, as a word and as a sentence; the word is "" where the file does not tell."""
    if not window:
        return "", "No device activity in this file: it says nothing of a GPU."
    times = _times(shares, causes, kernels)
    most = max(times, key=lambda each: times[each])
    if most in ("host", "input"):
        why = "waiting for data" if most == "input" else "because the host had nothing for it"
        if most == "host" and max(causes, key=lambda each: each.time).cause == LATENCY:
            why = "until what had been launched began, or because the host had launched nothing"
        found = f"{NAMES[most]}: {_idle(causes, gaps, times[most], window, why)}"
        return most, found + _without(shares, causes, gaps, kernels, window)
    if most == "communication":
        return most, (
            f"Communication-bound: {percent(times[most] / window)} of the window is communication with nothing "
            "computed beside it."
        )
    largest = max(shares, key=lambda each: each.attributed)
    part = largest.attributed / window
    most_of = "Most of the window is" if part > _MOST else "The largest part of the work is"
    where = f"{most_of} {largest.category}: {percent(part)}{'' if part > _MOST else ' of the window'}."
    if most == "queued":
        return "", f"{_between(times[most] / window, causes)}{_meanwhile(shares)}"
    beside = _beside(causes, window)
    if most in _UNTOLD:
        return "", f"{where} {_UNTOLD[most]}{beside}"
    return most, f"{NAMES[most]}: {_reached(most, kernels, times[most], window)} {where}{beside}"


def _beside(causes: Sequence[Cause], window: int) -> str:
    """That the device was idle, where it was for long, though something else limits more of the window."""
    idle = sum(each.time for each in causes)
    if idle < _LONG * window:
        return ""
    first = max(causes, key=lambda each: each.time)
    return f" The device was idle {percent(idle / window)} of it; first cause: {first.cause}."


def _without(
    shares: Sequence[Share], causes: Sequence[Cause], gaps: Sequence[Gap], kernels: Sequence[KernelRow], window: int
) -> str:
    """What limits the rest, where one gap is most of the idle time, as the start of a profiler leaves one."""
    gap = _alone(causes, gaps)
    if gap is None or gap.length >= window:
        return ""
    left = gap.length
    rest: list[Cause] = []
    for each in sorted(causes, key=lambda each: each.cause != gap.cause):  # its main cause, then what else it is due to
        part = min(left, each.longest)
        left -= part
        rest.append(replace(each, time=each.time - part))
    return f" Without that gap: {verdict(shares, rest, (), kernels, window - gap.length)[1]}"


def _alone(causes: Sequence[Cause], gaps: Sequence[Gap]) -> Gap | None:
    """The gap that is most of the idle time, where one is and the host is its cause."""
    mine = [each for each in gaps if each.cause in _HOSTS]
    longest = max(mine, key=lambda each: each.length, default=None)
    return longest if longest is not None and longest.length > _MOST * sum(each.time for each in causes) else None


def _between(share: float, causes: Sequence[Cause]) -> str:
    if all(each.cause != BETWEEN for each in causes):
        return f"The device was idle {percent(share)} of the window, with work queued or unrecorded."
    return (
        f"{percent(share)} of the window is between the operators that do the work: Python, the framework's own, views "
        "and allocation."
    )


def _meanwhile(shares: Sequence[Share]) -> str:
    """What the device did while it was not idle."""
    busy = sum(each.attributed for each in shares)
    largest = max(shares, key=lambda each: each.attributed)
    share = percent(largest.attributed / busy) if busy else ""
    return f" Of the rest, {share} is {largest.category}." if busy else ""


def _idle(causes: Sequence[Cause], gaps: Sequence[Gap], time: float, window: int, why: str) -> str:
    idle = sum(each.time for each in causes)
    first = max(causes, key=lambda each: each.time)
    gap = _alone(causes, gaps)
    alone = "" if gap is None else f", most of it one gap of {si(gap.length / NS_PER_S, 's', 3)}"
    return (
        f"the device was idle {percent(idle / window)} of the window, {percent(time / idle)} of that {why}{alone}; "
        f"first cause: {first.cause}."
    )


def _times(shares: Sequence[Share], causes: Sequence[Cause], kernels: Sequence[KernelRow]) -> dict[str, float]:
    """Time of the window by what limits it [ns]; what cannot be told is unknown."""
    by_cause = {each.cause: each.time for each in causes}
    exposed = sum(each.attributed for each in shares if each.category == "communication")
    found: dict[str, float] = {
        "input": by_cause.pop(DATA, 0),
        "host": sum(by_cause.pop(each, 0) for each in (HOST, SYNC, START_UP, LATENCY)),
        "communication": exposed + by_cause.pop(COLLECTIVE, 0),
        "queued": sum(by_cause.values()),
        "memory": 0,
        "compute": 0,
        "latency": 0,
        "copy": 0,
        "unknown": 0,
    }
    # Kernels may run beside each other: their times count as far as the window is theirs.
    whole = sum(each.sum for each in shares if each.category != "communication")
    busy = sum(each.attributed for each in shares if each.category != "communication")
    scale = busy / whole if whole else 0.0
    for row in kernels:
        if row.category == "communication":
            continue
        found[_limit(row)] += scale * row.sum
    return found


def _limit(row: KernelRow) -> str:
    demand = row.demand
    if row.category not in COMPUTE:
        return "copy"
    if demand is None or demand.by is None or demand.bound is None:
        return "unknown"
    if demand.bound * NS_PER_S < FAR * demand.time:
        return "latency"
    return {"memory": "memory", "compute": "compute"}.get(demand.by, "latency")


def _reached(limit: str, kernels: Sequence[KernelRow], time: float, window: int) -> str:
    rows = [each for each in kernels if each.category in COMPUTE and _limit(each) == limit and each.demand is not None]
    took = sum(each.demand.time for each in rows if each.demand is not None)
    least = sum(each.demand.bound or 0.0 for each in rows if each.demand is not None)
    share = percent(least * NS_PER_S / took) if took else "unknown"
    if limit == "latency":
        return (
            f"{percent(time / window)} of the window is kernels that reach {share} of their bound: neither memory nor "
            "arithmetic sets their time, but starting, waiting and too little work for the device do."
        )
    return f"{percent(time / window)} of the window is kernels that {limit} limits; they reach {share} of their bound."
