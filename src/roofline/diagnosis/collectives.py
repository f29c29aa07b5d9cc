"""What nccl-tests measured beside what the links can carry: latency and bandwidth of each collective, and faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from roofline.device import Device
from roofline.diagnosis.assessment import Assessment, CollectiveRow, CollectiveRun
from roofline.diagnosis.findings import Finding, ranked
from roofline.diagnosis.known import recognised
from roofline.errors import BadValue
from roofline.evidence.nccl import Half, Log, Row, Run, factor
from roofline.units import GIGA, TERA, gib, percent, si, significant

_PRINTED = 0.005 * GIGA  # [byte/s] half of the last digit of a printed bandwidth
_LARGE = 0.7  # of the link, below which the largest sizes are worth a finding
_ABOVE = 1.02  # times the link, from which on a ring cannot have done it


def assess_collectives(log: Log, source: str, device: Device | None = None) -> Assessment:
    """Each run of a log: its fit, its share of the link, whether the network reduces, and what is wrong."""
    rows = tuple(_run(each, device) for each in log.runs)
    warnings = [
        *log.warnings,
        *(f"{each.kind or each.program or 'a run'}: {note}" for each in log.runs for note in each.warnings),
    ]
    warnings += [
        f"{_title(each)}: {each.disagree} printed bandwidths are not size over time" for each in rows if each.disagree
    ]
    supply = next((each.device for each in rows if each.device is not None), None)
    return Assessment(
        source=source,
        format="nccl-tests",
        kind="collectives",
        card=next((name for each in rows for name in each.cards), ""),
        device=supply,
        recognised_from="--device" if device is not None else "the list of ranks",
        verdict=" ".join(list(dict.fromkeys(map(_said, rows)))[:4]),
        findings=ranked(finding for each in rows for finding in _findings(each)),
        rows=rows,
        seconds=None,
        left_out=log.left_out,
        warnings=tuple(warnings),
        notes=(
            "busbw = algbw times what a ring's rank sends for each byte of size, one direction, as a link's bandwidth",
            "The fit is time = latency + size x factor / bandwidth over all sizes, weighed by relative error",
        ),
    )


# What a training estimate takes where a log has several: gradients are reduced in the first two.
_FOR_TRAINING = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")


def bus_bandwidth(log: Log, *kinds: str) -> float:
    """The bus bandwidth of the largest size of the first of `kinds` that a log has [byte/s].

    Without `kinds` that of an all-reduce, else of what else a training step does. Raises BadValue where the log has
    no such run, or its ranks are not known.
    """
    for kind in kinds or _FOR_TRAINING:
        for run in log.runs:
            share = factor(run.kind, run.ranks) if run.ranks else None
            last = max(run.rows, key=lambda row: row.size)
            if run.kind == kind and share and last.seconds:
                return last.size / last.seconds * share
    there = ", ".join(sorted({each.kind or each.program or "a run without a name" for each in log.runs}))
    raise BadValue(f"The log has no {' or '.join(kinds or _FOR_TRAINING)} of two ranks or more. It has: {there}.")


def _run(run: Run, device: Device | None) -> CollectiveRun:
    share = factor(run.kind, run.ranks) if run.ranks else None
    supply = device or next((found for name in run.cards if (found := recognised(name)) is not None), None)
    rows = tuple(_row(each, share) for each in run.rows)
    link, bandwidth = _link(run, supply)
    fitted = _fit(rows, share) if share else None
    best = max((each for each in rows if each.busbw), key=lambda each: each.busbw or 0.0, default=None)
    busbw = best.busbw if best is not None else None
    above = bandwidth is not None and busbw is not None and busbw > _ABOVE * bandwidth
    return CollectiveRun(
        kind=run.kind,
        ranks=run.ranks,
        nodes=run.nodes,
        per_node=run.per_node,
        cards=run.cards,
        device=supply,
        factor=share,
        rows=rows,
        latency=fitted[0] if fitted else None,
        bandwidth=fitted[1] if fitted else None,
        fit_error=fitted[2] if fitted else None,
        busbw=busbw,
        at=best.size if best is not None else None,
        half_size=fitted[0] * fitted[1] / share if fitted and share else None,
        link=link,
        link_bandwidth=bandwidth,
        in_network=above and run.kind == "all-reduce",
        disagree=sum(_disagrees(row, share) for row in run.rows),
        average=run.average,
        wrong=run.wrong,
    )


def _row(row: Row, share: float | None) -> CollectiveRow:
    wrong = [each.wrong for each in (row.outside, row.inside) if each is not None and each.wrong is not None]
    algbw = row.size / row.seconds if row.seconds else 0.0
    best = row.outside if row.inside is None or row.outside.seconds <= row.inside.seconds else row.inside
    return CollectiveRow(
        row.size,
        row.seconds,
        algbw,
        algbw * share if share is not None else None,
        best.algbw,
        best.busbw,
        max(wrong) if wrong else None,
    )


def _disagrees(row: Row, share: float | None) -> int:
    """How many of a row's timings print bandwidths that are not size over time, beyond their rounding."""
    return sum(each is not None and not agrees(row.size, each, share) for each in (row.outside, row.inside))


def agrees(size: int, timing: Half, share: float | None) -> bool:
    """Whether printed bandwidths are those of size and time, up to the digits that are printed."""
    if timing.seconds <= timing.digits:
        return True
    for printed, each in ((timing.algbw, 1.0), (timing.busbw, share)):
        if each is None:
            continue
        least = size * each / (timing.seconds + timing.digits) - _rounding(printed)
        most = size * each / (timing.seconds - timing.digits) + _rounding(printed)
        if not least <= printed <= most:
            return False
    return True


def _rounding(printed: float) -> float:
    """Half of the last digit: two decimals, fewer where the column is too narrow for them."""
    if printed >= 10 * TERA:
        return 0.51 * GIGA
    return 10 * _PRINTED if printed >= TERA else 1.02 * _PRINTED


def _fit(rows: Sequence[CollectiveRow], share: float) -> tuple[float, float, float] | None:
    """Latency [s], bus bandwidth [byte/s], and the median relative error of time = latency + size x share / bandwidth.

    Least squares of the relative error, in closed form; None with fewer than three sizes or no slope.
    """
    data = [(each.size * share, each.seconds) for each in rows if each.size > 0 and each.seconds > 0]
    if len({size for size, _ in data}) < 3 or not share:
        return None
    w = [1 / seconds**2 for _, seconds in data]
    sw, sx, sy = (
        sum(w),
        sum(a * x for a, (x, _) in zip(w, data, strict=True)),
        sum(a * y for a, (_, y) in zip(w, data, strict=True)),
    )
    sxx = sum(a * x * x for a, (x, _) in zip(w, data, strict=True))
    sxy = sum(a * x * y for a, (x, y) in zip(w, data, strict=True))
    below = sw * sxx - sx * sx
    slope = (sw * sxy - sx * sy) / below if below > 0 else 0.0
    latency = max((sy - slope * sx) / sw, 0.0)
    if slope <= 0:
        return None
    error = median(abs((latency + slope * x) / y - 1) for x, y in data)
    return latency, 1 / slope, error


def _link(run: Run, device: Device | None) -> tuple[str, float | None]:
    """The link that joins the ranks, where it is known: inside of a node the device's, between nodes none."""
    if device is None or not device.links:
        return "", None
    first = device.links[0]
    if (run.nodes or 1) > 1 or (run.ranks is not None and not first.joins(run.ranks)):
        return "the network between nodes", None
    return first.name, first.bandwidth


def _title(run: CollectiveRun) -> str:
    many = f" of {run.ranks} rank{'s' if run.ranks > 1 else ''}" if run.ranks else ""
    return f"{run.kind or 'collective'}{many}"


def _said(run: CollectiveRun) -> str:
    """A run in a sentence."""
    title = _title(run)
    title = title[0].upper() + title[1:]
    if run.ranks == 1:
        return f"{title}: a single rank sends nothing, so this says nothing of a link."
    if run.busbw is None or run.at is None:
        return f"{title}: no bus bandwidth can be worked out, as ranks or kind are not known."
    said = f"{title}: {si(run.busbw, 'B/s')} bus bandwidth at {gib(run.at)}"
    if run.link_bandwidth is not None:
        said += f", {percent(run.busbw / run.link_bandwidth)} of {run.link}"
    if run.in_network:
        said += " (above the link: the network reduces)"
    if run.latency is not None:
        said += f"; latency {si(run.latency, 's', 3)}"
    return said + "."


def _findings(run: CollectiveRun) -> Iterable[Finding]:
    wrong = (run.wrong or 0) or sum(row.wrong or 0 for row in run.rows)
    if wrong:
        yield Finding(
            "wrong-results",
            f"{_title(run)}: {wrong:.0f} values are wrong",
            None,
            (f"Out of bounds values: {wrong:.0f}",),
            "A card, a link or a driver is faulty: find it by pairs before anything else.",
        )
    last = max(run.rows, key=lambda row: row.size)
    if run.link_bandwidth is None or last.busbw is None or not run.factor or not run.busbw:
        return
    least = last.size * run.factor / run.link_bandwidth
    large = run.half_size is None or last.size > 10 * run.half_size
    if large and run.busbw < _LARGE * run.link_bandwidth:
        yield Finding(
            "below-the-link",
            f"{_title(run)} reaches {percent(run.busbw / run.link_bandwidth)} of {run.link}",
            last.seconds - least,
            (
                f"{si(last.busbw, 'B/s')} at {gib(last.size)}, of {si(run.link_bandwidth, 'B/s')} one way",
                f"{si(last.seconds, 's')} for what the link does in {si(least, 's')}",
            ),
            "Check the topology (nvidia-smi topo -m), and by NCCL_DEBUG=INFO the transport, algorithm and channels.",
        )
    if run.in_network:
        return
    if run.busbw > _ABOVE * run.link_bandwidth:
        yield Finding(
            "above-the-link",
            f"{_title(run)} is {significant(run.busbw / run.link_bandwidth)} times {run.link}",
            None,
            (f"{si(run.busbw, 'B/s')} against {si(run.link_bandwidth, 'B/s')}",),
            "Is it that device, and that number of ranks? A cache or a copy inside one card can look like this.",
        )
