"""Two runs side by side: what got faster, slower, appeared and vanished, in seconds that add up to the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from roofline.diagnosis.result import Diagnosis
from roofline.errors import BadValue, shown
from roofline.units import NS_PER_S, percent

Key = tuple[str, str]  # name and shapes


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a run: a kernel with its shapes, or what is beside kernels; time in whole nanoseconds."""

    name: str
    shapes: str
    operator: str
    time: int
    calls: int


@dataclass(frozen=True, slots=True)
class Side:
    """A run, as it is compared: its lines add up to `whole` [ns].

    `steps` are the lengths of its steps without warm-up [ns]; `setting` is what a comparison holds fixed.
    """

    name: str
    kind: str  # "profile" or "ledger"
    entries: tuple[Entry, ...]
    whole: int
    steps: tuple[int, ...] = ()
    setting: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One line before and after [ns]; `status` is faster, slower, same, appeared or vanished."""

    name: str
    shapes: str
    before: int
    after: int
    calls: tuple[int, int]
    matched: str  # "name and shapes", "operator and shapes", "name", ""
    before_name: str = ""  # where another kernel does the same work now

    @property
    def difference(self) -> int:
        """After minus before [ns]."""
        return self.after - self.before

    @property
    def status(self) -> str:
        """What happened to it."""
        if not self.matched:
            return "appeared" if not self.calls[0] else "vanished"
        return "same" if not self.difference else "slower" if self.difference > 0 else "faster"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs; the differences of `changes` add up to that of the wholes, exactly."""

    before: Side
    after: Side
    changes: tuple[Change, ...]
    noise: float | None  # spread of the steps over their median, the larger of both runs; None without steps
    warnings: tuple[str, ...]
    often: float = 1.0  # how often what both windows hold ran after, over before: they are judged for the same work

    @property
    def lengths(self) -> tuple[int, int, str]:
        """What is judged [ns]: the median step of both, where both have steps, else the whole for the same work."""
        if self.before.steps and self.after.steps:
            return _median(self.before.steps), _median(self.after.steps), "median step"
        if self.often != 1:
            return self.before.whole, round(self.after.whole / self.often), "window for the same work"
        return self.before.whole, self.after.whole, "bound" if self.after.kind == "ledger" else "window"

    @property
    def share(self) -> float:
        """How much longer it takes, as a share of before: 0.03 is 3 % slower."""
        before, after, _ = self.lengths
        return after / before - 1 if before else 0.0

    def slower_than(self, share: float) -> bool:
        """Whether it is slower by more than this share, and by more than the noise."""
        return self.share > max(share, self.noise or 0.0)


def of_diagnosis(found: Diagnosis) -> Side:
    """A measured run: kernels by name and shapes, idle time, and what ran beside something else, counted back."""
    entries = [Entry(each.name, each.shapes, each.operator, each.time, each.calls) for each in found.placed]
    costed: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for each in found.placed:
        costed[each.name] += each.time
        calls[each.name] += each.calls
    for name in dict.fromkeys(row.name for row in found.kernels):
        rows = [row for row in found.kernels if row.name == name]
        rest, left = sum(row.sum for row in rows) - costed[name], sum(row.calls for row in rows) - calls[name]
        if rest or left:
            entries.append(Entry(name, "", rows[0].operator, rest, left))
    beside = sum(row.sum for row in found.kernels) - found.busy
    entries.append(Entry("idle", "", "", found.idle, 1))
    entries.append(Entry("ran beside something else", "", "", -beside, 1))
    steps = () if found.steps is None else tuple(each.length for each in found.steps.steps if each.steady)
    device = found.supply.id if found.supply is not None else (found.card.name if found.card is not None else "")
    setting = {"device": device, "ranks": str(found.rank.ranks or ""), "steps": str(len(steps) or "")}
    return Side(found.source, "profile", _merged(entries), found.window, steps, tuple(setting.items()))


def of_record(name: str, rows: Iterable[tuple[str, str, int, float]], setting: Mapping[str, str]) -> Side:
    """A prediction: name, operation, calls and seconds of each kernel; raises BadValue for times that are none."""
    entries: list[Entry] = []
    for kernel, op, count, seconds in rows:
        if not 0 <= seconds < _CENTURY:
            raise BadValue(f"{name}: {shown(kernel)} takes {shown(seconds)} s. Possible: a time of zero or more.")
        entries.append(Entry(kernel, "", op, round(seconds * NS_PER_S), count))
    return Side(name, "ledger", _merged(entries), sum(each.time for each in entries), (), tuple(setting.items()))


def _merged(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    found: dict[Key, Entry] = {}
    for each in entries:
        key = (each.name, each.shapes)
        old = found.get(key)
        found[key] = (
            each
            if old is None
            else Entry(each.name, each.shapes, old.operator, old.time + each.time, old.calls + each.calls)
        )
    return tuple(found.values())


def compare(before: Side, after: Side) -> Comparison:
    """What changed from one run to the other; raises BadValue for a ledger beside a profile."""
    if before.kind != after.kind:
        raise BadValue(
            f"A {before.kind} and a {after.kind} have other kernels: only two of a kind are compared. Lay a model "
            "beside a profile with roofline diagnose PROFILE --model MODEL."
        )
    left = {(each.name, each.shapes): each for each in before.entries}
    right = {(each.name, each.shapes): each for each in after.entries}
    changes: list[Change] = []
    for key in [key for key in left if key in right]:
        changes.append(_change(left.pop(key), right.pop(key), "name and shapes"))
    for how, ident in (("operator and shapes", _work), ("name", _name)):
        groups: dict[Key, list[Entry]] = {}
        for each in right.values():
            groups.setdefault(ident(each), []).append(each)
        for key, one in list(left.items()):
            others = groups.get(ident(one), []) if any(ident(one)) else []
            if others:
                other = others.pop(0)
                changes.append(_change(left.pop(key), right.pop((other.name, other.shapes)), how))
    changes += [Change(each.name, each.shapes, each.time, 0, (each.calls, 0), "") for each in left.values()]
    changes += [Change(each.name, each.shapes, 0, each.time, (0, each.calls), "") for each in right.values()]
    changes.sort(key=lambda each: (-abs(each.difference), each.name, each.shapes))
    spreads = [each for each in map(_spread, (before.steps, after.steps)) if each is not None]
    often = 1.0 if before.kind == "ledger" or (before.steps and after.steps) else _as_often(changes)
    warnings = tuple(_warnings(before, after, changes, often))
    return Comparison(before, after, tuple(changes), max(spreads) if spreads else None, warnings, often)


def _work(entry: Entry) -> Key:
    return (entry.operator, entry.shapes) if entry.operator and entry.shapes else ("", "")


def _name(entry: Entry) -> Key:
    return entry.name, ""


def _change(one: Entry, other: Entry, how: str) -> Change:
    renamed = one.name if one.name != other.name else ""
    return Change(other.name, other.shapes, one.time, other.time, (one.calls, other.calls), how, renamed)


def _median(steps: Sequence[int]) -> int:
    from statistics import median

    return round(median(steps))


def _spread(steps: Sequence[int]) -> float | None:
    """Half of the range of the steps over their median; None for fewer than two."""
    return (max(steps) - min(steps)) / 2 / _median(steps) if len(steps) > 1 and _median(steps) else None


def _warnings(before: Side, after: Side, changes: Sequence[Change], often: float) -> Iterable[str]:
    old, new = dict(before.setting), dict(after.setting)
    differ = [key for key in old if old[key] != new.get(key)]
    for key in differ:
        yield f"{key} differs: {shown(old[key] or 'unknown')} before, {shown(new.get(key) or 'unknown')} after"
    if len(differ) > 1:
        yield "more than one thing differs: what changed the time cannot be told apart"
    if not before.entries or not after.entries:
        return
    other = sum(max(each.before, 0) for each in changes if each.matched == "name" or (not each.matched and each.shapes))
    whole = sum(max(each.before, 0) for each in changes) or 1
    if other > _OTHER_SHAPES * whole:
        yield f"shapes differ for {percent(other / whole)} of the time before: the runs did not do the same work"

    if often != 1:
        yield (
            f"the windows hold different amounts of work: kernels of both ran {percent(abs(often - 1))} "
            f"{'less' if often < 1 else 'more'} often after. They are judged for the same work; the lines below are of "
            "the windows as they are"
        )


def _as_often(changes: Sequence[Change]) -> float:
    """How often kernels of both runs ran after, over before, where most of the time agrees on one factor; else 1."""
    rows = sorted((each.calls[1] / each.calls[0], each.before) for each in changes if min(each.calls) > _FEW_CALLS)
    whole = sum(time for _, time in rows)
    if not whole:
        return 1.0
    passed = 0
    middle = rows[-1][0]
    for factor, time in rows:
        passed += time
        if 2 * passed >= whole:
            middle = factor
            break
    alike = sum(time for factor, time in rows if abs(factor / middle - 1) <= _ALIKE)
    return middle if alike > _MOSTLY * whole and abs(middle - 1) > _ALIKE / 2 else 1.0


_FEW_CALLS = 3  # of a kernel, up to which how often it ran depends on where a window was cut
_ALIKE, _MOSTLY = 0.1, 0.8  # between factors; of the time
_OTHER_SHAPES = 0.05
_CENTURY = 3.2e9  # [s]
