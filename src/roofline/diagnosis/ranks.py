"""Several ranks of one run: each diagnosed, and what one waits for another."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from roofline.device import Device
from roofline.diagnosis.findings import Finding
from roofline.diagnosis.judge import diagnose_trace
from roofline.diagnosis.opening import open_profile
from roofline.diagnosis.result import Diagnosis
from roofline.diagnosis.waiting import Member, straggler, waits
from roofline.errors import BadValue, RooflineError
from roofline.files import printable
from roofline.trace.classify import COMPUTE
from roofline.trace.events import Trace


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank: its diagnosis, and how long its collectives took beyond those of the rank that came last [ns]."""

    name: str
    found: Diagnosis
    waited: int | None  # None where the ranks' collectives are not the same ones
    last: int | None  # collectives that it came to last


@dataclass(frozen=True, slots=True)
class Run:
    """All ranks; `collectives` are those that all of them have, 0 where they do not agree."""

    ranks: tuple[RankRow, ...]
    collectives: int
    findings: tuple[Finding, ...]

    @property
    def slowest(self) -> Diagnosis:
        """The rank that the others wait for; else the one with the longest window."""
        known = [each for each in self.ranks if each.waited is not None]
        if known:
            return min(known, key=lambda each: each.waited or 0).found
        return max((each.found for each in self.ranks), key=lambda each: each.window)


def _one(path: str, most: int, device: Device | None) -> Diagnosis:
    """A rank's diagnosis: what a worker sends back."""
    trace = open_profile(path, most=most)
    if not isinstance(trace, Trace):
        raise BadValue(f"{printable(path)} has no timeline: only traces are compared rank by rank. Name it alone.")
    return diagnose_trace(trace, device)


def diagnose_ranks(
    paths: Sequence[str | os.PathLike[str]],
    most: int,
    device: Device | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """The ranks of a run, a file each, read by `executor` side by side; raises BadValue for fewer than two."""
    if len(paths) < 2:
        raise BadValue("Ranks are compared from two files on.")
    names = [os.fspath(path) for path in paths]
    done: list[Diagnosis] = []
    pending = [_given(executor, name, most, device) for name in names]
    for at, (name, future) in enumerate(zip(names, pending, strict=True), 1):
        done.append(_taken(future, name, most, device))
        if progress is not None:
            progress(at, len(names))
    return _run(names, done)


def _given(executor: Executor | None, name: str, most: int, device: Device | None) -> Future[Diagnosis] | None:
    """A file in the hands of a worker; None where there is none, or none takes work any more."""
    if executor is None:
        return None
    try:
        return executor.submit(_one, name, most, device)
    except RuntimeError:  # a worker was ended, and with it all of them
        return None


def _taken(future: Future[Diagnosis] | None, name: str, most: int, device: Device | None) -> Diagnosis:
    """What a worker found; what is not in the hands of one, or whose worker is gone, is done here."""
    if future is not None:
        try:
            return future.result()
        except RooflineError:
            raise
        except Exception:  # it does not see the file, lacks this package, or was ended
            pass
    return _one(name, most, device)


def _run(names: Sequence[str], done: Sequence[Diagnosis]) -> Run:
    lengths = [each.collective_times for each in done]
    count = len(lengths[0]) if len({len(each) for each in lengths}) == 1 else 0
    waited, last = waits(lengths) if count else ([None] * len(done), [None] * len(done))
    rows = tuple(
        RankRow(name, found, wait, late) for name, found, wait, late in zip(names, done, waited, last, strict=True)
    )
    order = sorted(rows, key=lambda each: (each.found.rank.rank is None, each.found.rank.rank or 0, each.name))
    return Run(tuple(order), count, _stragglers(rows, count))


def _stragglers(rows: Sequence[RankRow], count: int) -> tuple[Finding, ...]:
    """The rank that the others wait for."""
    known = [each for each in rows if each.waited is not None]
    if not known:
        return ()
    late = min(known, key=lambda each: each.waited or 0)
    found = straggler("ranks", [_member(each) for each in known], count, late.found.window)
    return () if found is None else (found,)


def _member(row: RankRow) -> Member:
    compute = sum(each.attributed for each in row.found.breakdown if each.category in COMPUTE)
    return Member(_label(row), row.waited or 0, row.last or 0, compute, row.found.idle)


def _label(row: RankRow) -> str:
    rank = row.found.rank.rank
    return row.name if rank is None else f"rank {rank}"
