"""Kernels measured by counters, or known by their summed times alone: points on a roofline, and what limits each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import cast

from roofline.bound import Point, place
from roofline.cost import Cost, Work
from roofline.device import Device
from roofline.diagnosis.assessment import Assessment, KernelGroup
from roofline.diagnosis.findings import Finding, ranked
from roofline.diagnosis.known import recognised
from roofline.evidence.launches import Launch
from roofline.evidence.ncu import Report
from roofline.evidence.nsys_stats import Sum, Sums
from roofline.trace.classify import category, readable
from roofline.units import NS_PER_S, percent, si, significant

SATURATED = 0.6  # of a peak, below which NVIDIA's own rule calls a kernel latency-bound
_SHARES = ("compute_share", "memory_share", "dram_share", "l2_share", "l1_share", "tensor_share", "occupancy", "l2_hit")
_SMALL_GRID = 1.0  # waves
_WORTH = 0.02  # of the time of all kernels, below which a finding is noise
_FAR = 0.05  # between a device's bandwidth and the file's own


def assess_launches(report: Report, source: str, device: Device | None = None, work: Work | None = None) -> Assessment:
    """Each kernel of a report on the roofline of its device: the given one, else what the file says of its own.

    `work` is what one launch of its longest kernel ought to do, where that is known: its bytes beside those measured.
    """
    named = device or (recognised(report.card) if report.card else None)
    own, taken = _device(report.launches, named if device is None else None, report.card)
    supply = device or own
    launches = [_estimated(each, supply) for each in report.launches]
    estimated = sum(each is not was for each, was in zip(launches, report.launches, strict=True))
    groups = _with_ideal(_groups(launches, supply), work)
    whole = sum(each.seconds or 0.0 for each in groups)
    warnings = [*report.warnings, *_conflicts(device, own, taken)]
    untimed = sum(each.calls for each in groups if each.seconds is None)
    if untimed:
        warnings.append(f"{untimed} launches have no duration: collect gpu__time_duration.sum")
    return Assessment(
        source=source,
        format=f"Nsight Compute, {report.form}",
        kind="kernels",
        card=report.card,
        device=supply,
        recognised_from="--device" if device is not None else taken,
        verdict=_verdict(groups, whole),
        findings=ranked(_findings(groups, whole)),
        rows=groups,
        seconds=whole or None,
        left_out=report.left_out,
        warnings=tuple(warnings),
        notes=_notes(groups, supply, estimated),
    )


def points(report: Report, device: Device | None = None) -> tuple[Point, ...]:
    """Each launch as a measured point with `traffic` "dram"; those without a time or a bandwidth are left out."""
    own, _ = _device(report.launches, recognised(report.card) if report.card and device is None else None, report.card)
    supply = device or own
    found = (None if supply is None else _point(each.kernel, [each], supply) for each in report.launches)
    return tuple(each for each in found if each is not None)


def _device(launches: Sequence[Launch], base: Device | None, card: str) -> tuple[Device | None, str]:
    """The device by what the file measured of it, completed from the catalogue, and what it was taken from."""
    bandwidths = {each.bandwidth_from: each.bandwidth for each in launches if each.bandwidth}
    order = sorted(bandwidths, key=_ORDER.index)
    peak: dict[str, float] = {}
    for each in launches:
        for rate, value in each.peak.items():
            peak[rate] = max(peak.get(rate, 0.0), value)
    if not order:
        return base, "the device's name in the file" if base is not None else ""
    bandwidth = max(each.bandwidth or 0.0 for each in launches if each.bandwidth_from == order[0])
    if base is not None:
        own = replace(base, bandwidth=bandwidth, peak={**base.peak, **peak})
        return own, f"{order[0]}; other peaks by the device's name"
    return Device("measured", card or "the measured device", peak, bandwidth), order[0]


_ORDER = (
    "the counter of the memory's peak times its measured clock",
    "measured bytes over the tool's own percentage",
    "memory clock and bus width",
)


def _estimated(each: Launch, device: Device | None) -> Launch:
    """A launch without a counter of bytes, with those that its share of the memory's peak means."""
    share = each.values.get("dram_share")
    if each.dram_bytes is not None or share is None or each.seconds is None or device is None:
        return each
    return replace(each, values={**each.values, "dram_bytes": share * device.bandwidth * each.seconds})


def _conflicts(given: Device | None, own: Device | None, taken: str) -> Iterable[str]:
    if given is not None and own is not None and taken and abs(own.bandwidth / given.bandwidth - 1) > _FAR:
        yield (
            f"the file's own memory bandwidth is {si(own.bandwidth, 'B/s')} (by {taken}), "
            f"{given.id} has {si(given.bandwidth, 'B/s')}: is it that device?"
        )


def _groups(launches: Sequence[Launch], device: Device | None) -> tuple[KernelGroup, ...]:
    """Launches of one kernel and grid together, the longest first."""
    same: dict[tuple[str, str, str], list[Launch]] = {}
    for each in launches:
        same.setdefault((each.kernel, each.grid, each.block), []).append(each)
    whole = sum(each.seconds or 0.0 for each in launches)
    made = [_group(mine, device, whole) for mine in same.values()]
    return tuple(sorted(made, key=lambda each: -(each.seconds or 0.0)))


# What an operation's kernel is called in a breakdown.
_CATEGORY = {"linear": "gemm", "attention": "attention", "norm": "normalisation", "softmax": "normalisation"}


def _with_ideal(groups: tuple[KernelGroup, ...], work: Work | None) -> tuple[KernelGroup, ...]:
    """The bytes of `work` beside those of the longest kernel that can be it."""
    if work is None or not groups:
        return groups
    wanted = _CATEGORY.get(work.op)
    at = next((at for at, each in enumerate(groups) if each.category == wanted), 0)
    ideal = float(cast(float, work.bytes)) * groups[at].calls
    return (*groups[:at], replace(groups[at], ideal_bytes=ideal), *groups[at + 1 :])


def _group(mine: list[Launch], device: Device | None, whole: float) -> KernelGroup:
    first = mine[0]
    seconds = _sum(each.seconds for each in mine)
    moved = _sum(each.dram_bytes for each in mine)
    rates: dict[str, float] = {}
    for each in mine:
        for rate, flops in each.flops.items():
            rates[rate] = rates.get(rate, 0.0) + flops
    counted = all(each.counted for each in mine)
    tool = {name: value for name in _SHARES if (value := _weighed(mine, name)) is not None}
    ours = moved / seconds / device.bandwidth if moved is not None and seconds and device is not None else None
    return KernelGroup(
        name=first.kernel,
        readable=readable(first.kernel),
        category=category(first.kernel),
        grid=first.grid,
        block=first.block,
        calls=len(mine),
        seconds=seconds,
        share=seconds / whole if seconds is not None and whole else None,
        flops=sum(rates.values()) if counted else None,
        bytes=moved,
        l2_bytes=_sum(each.l2_bytes for each in mine),
        point=_point(first.kernel, mine, device) if device is not None else None,
        limit=_limit(tool, ours),
        dram_share=ours,
        tool=tool,
        rates=rates if counted else {},
        remarks=tuple(dict.fromkeys(f"{rule.name}: {rule.text}" for each in mine for rule in each.rules if rule.text))[
            :12
        ],
        estimates=_estimates(mine),
    )


def _estimates(mine: Sequence[Launch]) -> dict[str, float]:
    """What each rule of the tool estimates to win, the most of a kernel's launches; the largest first."""
    found: dict[str, float] = {}
    for rule in (rule for each in mine for rule in each.rules):
        if rule.speedup:
            found[rule.name] = max(found.get(rule.name, 0.0), rule.speedup)
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum, or None where a value is unknown."""
    total = 0.0
    for each in values:
        if each is None:
            return None
        total += each
    return total


def _weighed(mine: list[Launch], name: str) -> float | None:
    pairs = [(each.values[name], each.seconds or 0.0) for each in mine if name in each.values]
    if not pairs:
        return None
    weight = sum(seconds for _, seconds in pairs)
    return sum(value * seconds for value, seconds in pairs) / weight if weight else fmean(value for value, _ in pairs)


def _point(name: str, mine: Sequence[Launch], device: Device) -> Point | None:
    """One launch of mean cost beside its bound and its measured time."""
    seconds, moved = _sum(each.seconds for each in mine), _sum(each.dram_bytes for each in mine)
    if seconds is None or moved is None:
        return None
    calls = len(mine)
    flops: dict[str, float] = {}
    for each in mine:
        for rate, n in each.flops.items():
            if rate in device.peak or rate.endswith("-vector"):
                flops[rate] = flops.get(rate, 0.0) + n / calls
    work = Work("measured", {}, Cost(flops, {"activations": moved / calls}))
    counted = all(each.counted for each in mine)
    return replace(
        place(work, device, name=name, count=calls),
        measured=seconds / calls,
        traffic="dram",
        reason="measured by counters" if counted else "its FLOPs were not counted: the bound is of memory alone",
    )


def _limit(tool: Mapping[str, float], ours: float | None) -> str:
    """What limits a kernel by NVIDIA's rule: the larger of the two throughputs from 60 % on, else latency."""
    compute, memory = tool.get("compute_share"), tool.get("memory_share", ours)
    dram = tool.get("dram_share", ours)
    if compute is None and memory is None and dram is None:
        return ""
    most = max(each for each in (memory, dram, 0.0) if each is not None)
    if max(compute or 0.0, most) < SATURATED:
        return "latency" if compute is not None and memory is not None else ""
    if (compute or 0.0) >= most:
        return "compute"
    return "memory" if dram is None or dram >= SATURATED else "cache"


_WORDS = {
    "memory": "wait for memory",
    "compute": "keep the multiprocessors near a peak: a pipe of arithmetic or of loads and stores, or issue",
    "cache": "are near the peak of a cache, not of the memory",
    "latency": f"are below {percent(SATURATED)} of every peak: latency, launch or a small grid",
    "": "have no counter that tells what limits them",
}


def _verdict(groups: Sequence[KernelGroup], whole: float) -> str:
    if not whole:
        return "No launch has a duration: nothing can be placed."
    shares: dict[str, float] = {}
    for each in groups:
        shares[each.limit] = shares.get(each.limit, 0.0) + (each.seconds or 0.0) / whole
    limit = max(shares, key=lambda each: shares[each])
    return f"Kernels with {percent(shares[limit])} of the measured time {_WORDS[limit]}."


def _notes(groups: Sequence[KernelGroup], device: Device | None, estimated: int) -> tuple[str, ...]:
    notes: list[str] = []
    if estimated:
        notes.append(f"Bytes of {estimated} launches are estimated: the tool's percentage times the memory's peak")
    if device is None:
        notes.append("No bandwidth of the device is in the file, so there is no bound: name it with --device")
    if any(each.flops is None for each in groups):
        notes.append("FLOPs were not counted for some kernels: profile with --set full (or its roofline sections)")
    notes.append(
        "ncu locks clocks and flushes caches unless told otherwise: compare shares, not milliseconds, with a trace"
    )
    return tuple(notes)


def _findings(groups: Sequence[KernelGroup], whole: float) -> Iterable[Finding]:
    for each in groups:
        if not whole or not each.seconds or each.seconds < _WORTH * whole:
            continue
        yield from _of_kernel(each)


def _of_kernel(each: KernelGroup) -> Iterable[Finding]:
    seconds = each.seconds or 0.0
    told = ", ".join(
        f"{name.removesuffix('_share')} {percent(value)}"
        for name, value in each.tool.items()
        if name.endswith("_share")
    )
    reached = max((each.tool.get(name, 0.0) for name in ("compute_share", "memory_share", "dram_share")), default=0.0)
    stake = (
        seconds - each.bound_seconds
        if each.bound_seconds is not None and each.flops is not None
        else seconds * (1 - min(reached, 1.0))
    )
    name = each.readable[:80]
    if each.limit == "latency":
        yield Finding(
            "far-from-every-peak",
            f"{name} is below {percent(SATURATED)} of every peak",
            max(stake, 0.0),
            (told, f"grid ({each.grid}) of blocks ({each.block})", *_own(each)),
            "Give it more work in parallel: a larger batch, split-K, fewer and larger launches; see its stall reasons.",
        )
    tensor = each.tool.get("tensor_share")
    if each.category == "gemm" and each.flops and not any(not rate.endswith("-vector") for rate in each.rates):
        yield Finding(
            "no-tensor-cores",
            f"{name} is a GEMM on the vector units",
            max(stake, 0.0),
            (f"{si(each.flops, 'FLOP')} on {', '.join(each.rates)}, none on tensor cores",)
            + ((f"tensor pipe {percent(tensor)} busy",) if tensor is not None else ()),
            "Use BF16 or allow TF32; check that dimensions are multiples of 8.",
        )
    if each.reread is not None and each.reread > _REREAD:
        yield Finding(
            "re-read",
            f"{name} moves {significant(each.reread)} times the bytes that its shapes ask for",
            max(stake, 0.0),
            (f"{si(each.bytes or 0.0, 'B')} measured, {si(each.ideal_bytes or 0.0, 'B')} once each",),
            "Larger tiles, or an order of tiles that reuses the L2 cache.",
        )


def _own(each: KernelGroup) -> Iterable[str]:
    """The tool's own estimates."""
    if each.estimates:
        parts = ", ".join(f"{name[:60]} {percent(share)}" for name, share in list(each.estimates.items())[:3])
        yield f"Nsight Compute's own rules, and what each estimates to win: {parts}"


_REREAD = 1.5


def assess_sums(sums: Sums, source: str, device: Device | None = None) -> Assessment:
    """Kernels by their summed times: no timeline, so no gaps, and no costs."""
    whole = sum(each.total for each in sums.kernels)
    groups = tuple(_summed(each, whole) for each in sorted(sums.kernels, key=lambda each: -each.total))
    notes = [
        "Sums have no timeline: gaps and overlap are not in them. Export the report itself: nsys export --type sqlite",
    ]
    copied = sum(each.total for each in sums.copies)
    if copied:
        notes.append(f"Copies and memsets take {si(copied / NS_PER_S, 's')} more")
    return Assessment(
        source=source,
        format="Nsight Systems, nsys stats",
        kind="kernels",
        card="",
        device=device,
        recognised_from="--device" if device is not None else "",
        verdict=_sums_verdict(groups),
        findings=(),
        rows=groups,
        seconds=whole / NS_PER_S,
        left_out=sums.left_out,
        warnings=sums.warnings,
        notes=tuple(notes),
    )


def _summed(each: Sum, whole: int) -> KernelGroup:
    return KernelGroup(
        name=each.name,
        readable=readable(each.name),
        category=category(each.name),
        grid="",
        block="",
        calls=each.calls,
        seconds=each.total / NS_PER_S,
        share=each.total / whole if whole else None,
        flops=None,
        bytes=None,
        l2_bytes=None,
        point=None,
        limit="",
        dram_share=None,
        tool={},
        rates={},
    )


def _sums_verdict(groups: Sequence[KernelGroup]) -> str:
    if not groups:
        return "No kernel in these sums: they say nothing of how a device was used."
    shares: dict[str, float] = {}
    for each in groups:
        shares[each.category] = shares.get(each.category, 0.0) + (each.share or 0.0)
    most = max(shares, key=lambda each: shares[each])
    return f"Most of the kernel time is {most}: {percent(shares[most])}. How busy the device was is not in the file."
