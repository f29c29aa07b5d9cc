"""Crossovers: where the verdict turns, exactly, on the formulas that every ledger uses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, cast

from roofline.bound import Point
from roofline.capacity import memory
from roofline.dtypes import smaller
from roofline.errors import BadValue, UnknownName
from roofline.ledger import Ledger, predict
from roofline.num import Num
from roofline.turning import MOST, meet, turns
from roofline.units import percent, significant
from roofline.verdicts import ATTENTION, GEMMS, SUBJECTS

Axis = Literal["sequences", "new_tokens", "context"]
Kind = Literal["verdict", "longer", "gain", "rate", "cost", "reach", "knee"]
WORDS = {"sequences": "sequences", "new_tokens": "new tokens", "context": "tokens of context"}

FAR = 1 << 33  # where every minimum and maximum of a formula has turned
_STEADY = 2**-30
NEARLY, SLIGHT, SHORT = 0.9, 0.01, 0.1


@dataclass(frozen=True, slots=True)
class Line:
    """Passes that differ from `base` in one size, and are made once for each."""

    base: Ledger
    axis: Axis
    # Ledgers by the size, or the array of sizes, that they are at: many questions are asked of one. The array is
    # kept beside its ledger, as its id is a key only while it lives.
    seen: dict[int, tuple[Num, Ledger]] = field(default_factory=dict[int, "tuple[Num, Ledger]"], compare=False)

    def at(self, n: Num) -> Ledger:
        """The ledger at `n` along the axis, which may be an array."""
        key = n if isinstance(n, int) else -id(n)
        if key not in self.seen:
            size = {"new" if self.axis == "new_tokens" else self.axis: n}
            self.seen[key] = n, self.base.changed(workload=self.base.workload.resized(**size))
        return self.seen[key][1]

    @property
    def ridge(self) -> float:
        """The ridge of the rate in use [FLOP/byte]."""
        return self.base.device.ridge_point(self.base.precision.compute)


class Crossover(NamedTuple):
    """Where a label turns along an axis: one turn, or the one label that it has throughout.

    `kind` says what the labels are: "verdict" the resource that bounds, "longer" the longer of two, "gain",
    "rate" and "cost" beside their `threshold` (a share), "reach" of a verdict by any batch, "knee". `value` is the
    first whole number at which `after` holds, None where it never turns (`reason` says why); `exact` the real
    number at which the two sides meet, None where it is no meeting of two.
    """

    name: str
    kind: Kind
    axis: Axis
    value: int | None
    exact: float | None
    before: str
    after: str
    threshold: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Crossovers:
    """The answers for one pass; `ridge` of the device used [FLOP/byte], `limit_*` as the batch grows without end.

    `base` is the pass as asked for, on the derated device where there is an `efficiency`. `max_sequences` is the
    largest batch that fits, None where nothing bounds it or the capacity is unknown.
    """

    base: Ledger
    efficiency: tuple[float, float] | None
    found: tuple[Crossover, ...]
    ridge: float
    limit_intensity: float | None = None
    limit_tokens_per_second: float | None = None
    max_sequences: int | None = None


def crossovers(*arguments: Any, kernel: str | None = None, **options: Any) -> Crossovers:
    """Where the verdict of each kernel, of the layers' GEMMs, of the pass and of its throughput turns.

    Takes what `predict` takes, and `kernel`, which asks for one kernel alone. In decode along the batch and the
    context, in prefill along the new tokens. With `efficiency` everything is of `device.derated(*efficiency)`.
    Raises UnknownName for a kernel that the pass does not have, BadValue for a mixed pass or arrays.
    """
    asked = predict(*arguments, **options)
    if asked.workload.phase == "mixed" or not isinstance(asked.workload.tokens, int):
        raise BadValue("Crossovers are of decode or of prefill alone, at one setting. Leave the other rows out.")
    shares = asked.efficiency
    base = asked if shares is None else asked.changed(device=asked.device.derated(*shares), efficiency=None)
    line = Line(base, "sequences" if base.workload.phase == "decode" else "new_tokens")
    if kernel is not None:
        return Crossovers(base, shares, tuple(_kernel(line, kernel)), line.ridge)
    found = [*_kernels(line), *_layers(line), *_pass(line), *_attention(line)]
    if line.axis == "new_tokens":
        found += [*_short(line), *_smaller(line)]
        return Crossovers(base, shares, tuple(found), line.ridge)
    found += [*_knee(line), *_smaller(line), *_paying(line), *_attention(Line(base, "context"))]
    limit, most = _limit(line, lambda _: True), cast(float, base.workload.groups[0].new) / _step(line, FAR)
    return Crossovers(base, shares, tuple(found), line.ridge, limit, most, memory(base).max_sequences)


def _named(ledger: Ledger, name: str) -> Point:
    for point in ledger.kernels:
        if point.name == name:
            return point
    known = [point.name for point in ledger.kernels]
    raise UnknownName.of("kernel", name, known, "They are those of roofline predict.")


def _gemm(point: Point) -> bool:
    return SUBJECTS.get(point.work.op) == GEMMS


def _layer_gemm(point: Point) -> bool:
    return _gemm(point) and point.part != "head"


def _attends(point: Point) -> bool:
    return SUBJECTS.get(point.work.op) == ATTENTION


def _sums(ledger: Ledger, chosen: Callable[[Point], bool]) -> tuple[Num, Num, Num]:
    """FLOPs, bytes and seconds of the chosen kernels together."""
    flops: Num = 0
    moved: Num = 0
    seconds: Num = 0.0
    for point in ledger.kernels:
        if chosen(point):
            flops, moved, seconds = flops + point.flops, moved + point.bytes, seconds + point.bound_seconds
    return flops, moved, seconds


def _step(line: Line, far: int, chosen: Callable[[Point], bool] = lambda _: True) -> float:
    """Seconds that each further step of the axis adds to the chosen kernels, far out [s]."""
    near, beyond = (cast(float, _sums(line.at(n), chosen)[2]) for n in (far, 2 * far))
    return (beyond - near) / far


def _intensity(line: Line, far: int, chosen: Callable[[Point], bool]) -> float:
    """FLOPs over bytes that each further step adds to the chosen kernels far out; where it adds none, theirs."""
    near, beyond = (_sums(line.at(n), chosen) for n in (far, 2 * far))
    flops, moved = (cast(float, beyond[i] - near[i]) for i in (0, 1))
    if not flops and not moved:  # the axis does not reach them
        flops, moved = cast(float, near[0]), cast(float, near[1])
    return flops / moved if moved else math.inf


def _limit(line: Line, chosen: Callable[[Point], bool]) -> float | None:
    """The intensity that the chosen kernels tend to, or None where it grows without end."""
    near, far = (_intensity(line, n, chosen) for n in (FAR, 4 * FAR))
    return far if far < math.inf and math.isclose(near, far, rel_tol=_STEADY) else None


def _never(line: Line, held: str, chosen: Callable[[Point], bool]) -> str:
    """Why a verdict does not turn: the intensity that it tends to, where that is what holds it."""
    limit, ridge = _limit(line, chosen), line.ridge
    sides = {"memory": "below", "compute": "above"}
    if limit is None or sides.get(held) != ("below" if limit <= ridge else "above"):
        return f"not up to {MOST:,} {WORDS[line.axis]}"
    tends = f"the intensity tends to {significant(limit)} FLOP/byte"
    return f"however many {WORDS[line.axis]}, {tends}, {sides[held]} the ridge of {significant(ridge)}"


def _verdicts(
    line: Line,
    name: str,
    label: Callable[[Num], Any],
    gap: Callable[[int], float] | None,
    chosen: Callable[[Point], bool],
) -> Iterator[Crossover]:
    """Every turn of a verdict; `gap` is compute less memory, zero where those two meet."""
    found = turns(label)
    for turn in found:
        meets = gap is not None and {turn.before, turn.after} == {"compute", "memory"}
        exact = meet(gap, turn.value) if meets and gap is not None else None
        yield Crossover(name, "verdict", line.axis, turn.value, exact, turn.before, turn.after)
    if not found:
        held = str(label(1))
        yield Crossover(name, "verdict", line.axis, None, None, held, held, reason=_never(line, held, chosen))


def _kernels(line: Line) -> Iterator[Crossover]:
    for point in line.at(1).kernels:
        if line.base.precision.compute in point.work.cost.flops:
            yield from _kernel(line, point.name)


def _kernel(line: Line, name: str) -> Iterator[Crossover]:
    """Every turn of one kernel's verdict."""
    _named(line.at(1), name)

    def gap(n: int) -> float:
        times = _named(line.at(n), name).bound
        return cast(float, times.compute) - cast(float, times.memory)

    yield from _verdicts(line, name, lambda n: _named(line.at(n), name).bound.by, gap, lambda point: point.name == name)


def _layers(line: Line) -> Iterator[Crossover]:
    """Where the weight GEMMs of all layers together pass the ridge."""
    if not any(_layer_gemm(point) for point in line.at(1).kernels):
        return

    def gap(n: Num) -> Num:
        flops, moved, _ = _sums(line.at(n), _layer_gemm)
        return flops - line.ridge * moved

    def label(n: Num) -> Any:
        return _words(gap(n) > 0, "compute", "memory")

    yield from _verdicts(line, "layer GEMMs together", label, lambda n: cast(float, gap(n)), _layer_gemm)


def _pass(line: Line) -> Iterator[Crossover]:
    """Every turn of the pass's verdict: the resource that bounds most of the time."""
    yield from _verdicts(line, "the pass", lambda n: line.at(n).total.bound, None, lambda _: True)


def _words(condition: Any, yes: str, no: str) -> Any:
    """One of two labels, element by element."""
    if isinstance(condition, bool):
        return yes if condition else no
    import numpy as np

    return np.where(condition, yes, no)


def _attention(line: Line) -> Iterator[Crossover]:
    """Where attention takes longer than the weight GEMMs."""
    if not any(_attends(point) for point in line.at(1).kernels):
        return

    def gap(n: Num) -> Num:
        ledger = line.at(n)
        return _sums(ledger, _attends)[2] - _sums(ledger, _gemm)[2]

    def label(n: Num) -> Any:
        return _words(gap(n) > 0, "attention", "weights")

    name, found = "attention or weights", turns(label)
    for turn in found:
        exact = meet(lambda n: cast(float, gap(n)), turn.value)
        yield Crossover(name, "longer", line.axis, turn.value, exact, turn.before, turn.after)
    if not found:
        held = str(label(1))
        yield Crossover(name, "longer", line.axis, None, None, held, held, reason=_outgrown(line))


def _outgrown(line: Line) -> str:
    """Why attention and the weight GEMMs keep their order: what each further step adds to both."""
    (attention, gemms), later = ([_step(line, far, chosen) for chosen in (_attends, _gemm)] for far in (FAR, 4 * FAR))
    what = WORDS[line.axis]
    if not attention and not gemms:
        return f"far out, more {what} add to neither"
    if gemms and math.isclose(attention / gemms, later[0] / later[1], rel_tol=_STEADY):
        return f"far out, more {what} add {percent(attention / gemms)} as much to attention as to the weight GEMMs"
    return f"not up to {MOST:,} {what}"


def _turned(line: Line, row: Crossover, label: Callable[[Num], Any], reason: str) -> Iterator[Crossover]:
    """`row` at every turn of a label of two, or once with the reason where there is none."""
    found = turns(label)
    for turn in found:
        yield row._replace(value=turn.value, before=turn.before, after=turn.after)
    if not found:
        held = str(label(1))
        yield row._replace(before=held, after=held, reason=reason)


def _knee(line: Line) -> Iterator[Crossover]:
    """Where the sequences' own time outgrows what they share, and where the rate is nearly at its limit.

    The knee is where the two asymptotes of the time meet: what a pass takes before any sequence is in it (twice the
    time at 1 less that at 2), over what each further one adds far out.
    """
    one, two = (cast(float, line.at(n).total.bound_seconds) for n in (1, 2))
    exact = (2 * one - two) / _step(line, FAR)
    knee = max(1, math.ceil(exact))
    yield Crossover("knee of throughput", "knee", line.axis, knee, exact, "shared", "own")
    limit = NEARLY * cast(float, line.base.workload.groups[0].new) / _step(line, FAR)

    def label(n: Num) -> Any:
        return _words(line.at(n).total.tokens_per_second >= limit, "reached", "below")

    row = Crossover("most tokens/s", "rate", line.axis, None, None, "", "", NEARLY)
    yield from _turned(line, row, label, "from the first on" if label(1) == "reached" else f"not up to {MOST:,}")


def _paying(line: Line) -> Iterator[Crossover]:
    """The contexts at which some batch makes the pass compute-bound."""
    workload = line.base.workload
    far = Line(line.base.changed(workload=workload.resized(sequences=FAR)), "context")

    def label(n: Num) -> Any:
        return _words(far.at(n).total.bound == "compute", "reachable", "out of reach")

    held = int(cast(int, workload.groups[0].context))
    limit = _limit(line, lambda _: True)
    by = far.at(held).total.bound
    reason = f"at {held:,} a batch without end is {by}-bound"
    if by == "memory" and limit is not None:
        reason += f": the intensity tends to {significant(limit)} FLOP/byte, the ridge is at {significant(line.ridge)}"
    row = Crossover("compute-bound by batch", "reach", "context", None, None, "", "", None, reason)
    yield from _turned(far, row, label, reason)


def _short(line: Line) -> Iterator[Crossover]:
    """The prompt that first costs over a tenth more than a prompt of one token."""
    one = cast(float, line.at(1).total.bound_seconds)

    def label(n: Num) -> Any:
        return _words(line.at(n).total.bound_seconds > (1 + SHORT) * one, "dearer", "as cheap")

    row = Crossover("cost of a short prompt", "cost", line.axis, None, None, "", "", SHORT)
    yield from _turned(line, row, label, f"not up to {MOST:,} {WORDS[line.axis]}")


def _smaller(line: Line) -> Iterator[Crossover]:
    """Where smaller weights, with the same arithmetic, gain less than a hundredth."""
    precision = line.base.precision
    for name in smaller(precision.weights):
        other = Line(line.base.changed(precision=replace(precision, weights=name)), line.axis)

        def label(n: Num, other: Line = other) -> Any:
            gain = line.at(n).total.bound_seconds / other.at(n).total.bound_seconds - 1
            return _words(gain < SLIGHT, "idle", "help")

        row = Crossover(f"{name} weights for {precision.weights}", "gain", line.axis, None, None, "", "", SLIGHT)
        yield from _turned(line, row, label, f"the same up to {MOST:,} {WORDS[line.axis]} at the least")
