"""Crossovers: where the verdict turns, exactly, by bisection on the formulas that every ledger uses.

An axis is scanned densely while it is short and by small steps after that; each turn is then found by bisection
over integers with exact arithmetic. Between two integers the demands are straight lines, so the real number at
which two times meet is their intersection: the closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from roofline.bound import Point
from roofline.capacity import memory_of
from roofline.device import Device
from roofline.dtypes import dtype
from roofline.errors import BadValue, UnknownName
from roofline.ledger import Ledger, predict
from roofline.model import Model
from roofline.num import Num
from roofline.shard import Shard
from roofline.units import percent, significant
from roofline.verdicts import ATTENTION, GEMMS, SUBJECTS
from roofline.workload import Precision, Workload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Axis = Literal["sequences", "new_tokens", "context"]
WORDS = {"sequences": "sequences", "new_tokens": "new tokens", "context": "tokens of context"}

MOST = 1 << 24  # the end of an axis; what has not turned by then is answered by its limit
_DENSE = 4096
_STEP = 1.002
_FAR = 1 << 33  # where every minimum and maximum of a formula has turned
NEARLY = 0.9
SLIGHT = 0.01
SHORT = 0.1


@dataclass(frozen=True, slots=True)
class Line:
    """Passes that differ in one size: a model on a device with everything else held."""

    model: Model
    device: Device
    workload: Workload
    precision: Precision
    shard: Shard
    fused: bool
    axis: Axis
    # Ledgers by the size, or the array of sizes, that they are at: many questions are asked of one.
    seen: dict[int, tuple[Num, Ledger]] = field(default_factory=dict[int, "tuple[Num, Ledger]"], compare=False)

    def at(self, n: Num) -> Ledger:
        """The ledger at `n` along the axis, which may be an array."""
        key = n if isinstance(n, int) else -id(n)
        if key not in self.seen:
            self.seen[key] = n, self._ledger(n)
        return self.seen[key][1]

    def _ledger(self, n: Num) -> Ledger:
        rows = self.workload.groups[0]
        sizes: dict[str, Num] = {"sequences": rows.sequences, "new": rows.new, "context": rows.context}
        sizes["new" if self.axis == "new_tokens" else self.axis] = n
        build = Workload.prefill if rows.phase == "prefill" else Workload.decode
        logits = {"logits": "all" if rows.all_logits else "last"} if rows.phase == "prefill" else {}
        return predict(
            self.model,
            self.device,
            build(**sizes, **logits),  # pyright: ignore[reportArgumentType]
            self.precision,
            shard=self.shard,
            fused=self.fused,
        )

    def along(self, axis: Axis) -> Line:
        """The same passes along another axis."""
        return replace(self, axis=axis, seen={})


class Crossover(NamedTuple):
    """Where something turns along an axis.

    `value` is the first whole number at which `after` holds, None where it never does (`reason` says why);
    `exact` the real number at which the two sides are equal, None where no such pair is compared.
    """

    name: str
    axis: Axis
    value: int | None
    exact: float | None
    before: str
    after: str
    reason: str


class Turn(NamedTuple):
    """The first whole number with another label than the one before it."""

    value: int
    before: Any
    after: Any


def turns(label: Callable[[Num], Any], most: int = MOST) -> list[Turn]:
    """Every change of `label(n)` for n from 1 to `most`; `label` takes an int, or an array of floats.

    Changes that come and go within one step of 0.2 % past 4,096 are not seen.
    """
    import numpy as np

    grid = _grid(most)
    seen = np.broadcast_to(np.asarray(label(grid)), grid.shape)
    found: list[Turn] = []
    for index in np.flatnonzero(seen[1:] != seen[:-1]):
        low, high = int(grid[index]), int(grid[index + 1])
        found += _exactly(label, max(1, low - 1), min(most, high + 1))
    return list(dict.fromkeys(found))


@cache
def _grid(most: int) -> NDArray[np.float64]:
    """Every whole number to 4,096, then steps of 0.2 %; made once, so that its ledgers are too."""
    import numpy as np

    grid = np.arange(1, min(most, _DENSE) + 1, dtype=np.float64)
    if most <= _DENSE:
        return grid
    steps = int(np.ceil(np.log(most / _DENSE) / np.log(_STEP)))
    return np.unique(np.floor(np.concatenate([grid, np.geomspace(_DENSE, most, steps + 1)])))


def _exactly(label: Callable[[Num], Any], low: int, high: int) -> list[Turn]:
    """The changes between two whole numbers, by exact arithmetic."""
    before, after = label(low), label(high)
    if high - low <= 3:
        pairs = ((n, label(n - 1), label(n)) for n in range(low + 1, high + 1))
        return [Turn(n, first, second) for n, first, second in pairs if first != second]
    if before == after:
        return []
    while high - low > 1:
        middle = (low + high) // 2
        found = label(middle)
        if found == before:
            low = middle
        else:
            high, after = middle, found
    return [Turn(high, before, after)]


def first(holds: Callable[[Num], Any], most: int = MOST) -> int | None:
    """The first whole number from 1 at which `holds(n)` is true; None where it is for none up to `most`."""
    if holds(1):
        return 1
    return next((turn.value for turn in turns(holds, most) if turn.after), None)


@dataclass(frozen=True, slots=True)
class Crossovers:
    """The answers for one phase; `ridge` of the device used [FLOP/byte], `limit_*` as the batch grows without end.

    `max_sequences` is the largest batch that fits, None where nothing bounds it or the capacity is unknown.
    """

    line: Line
    efficiency: tuple[float, float] | None
    found: tuple[Crossover, ...]
    ridge: float
    limit_intensity: float | None = None
    limit_tokens_per_second: float | None = None
    max_sequences: int | None = None


def crossovers(  # noqa: PLR0913 - what `predict` takes, and the kernel
    model: Model | str,
    device: Device | str,
    workload: Workload | None = None,
    precision: Precision | None = None,
    *,
    shard: Shard | None = None,
    efficiency: tuple[float, float] | None = None,
    fused: bool = False,
    kernel: str | None = None,
) -> Crossovers:
    """Where the verdict of each kernel, of the layers' GEMMs, of the pass and of throughput turns.

    In decode along the batch, and along the context; in prefill along the new tokens. With `efficiency` on
    `device.derated(*efficiency)`. `kernel` asks for one kernel alone. Raises UnknownName for a kernel that the
    pass does not have, BadValue for a mixed pass or arrays.
    """
    model = Model.load(model) if isinstance(model, str) else model
    device = Device.load(device) if isinstance(device, str) else device
    workload = Workload.decode() if workload is None else workload
    if workload.phase == "mixed" or not isinstance(workload.tokens, int):
        raise BadValue("Crossovers are of decode or of prefill alone, at one setting. Leave the other rows out.")
    device = device if efficiency is None else device.derated(*efficiency)
    axis: Axis = "sequences" if workload.phase == "decode" else "new_tokens"
    line = Line(model, device, workload, precision or Precision(), shard or Shard(), fused, axis)
    ridge = device.ridge_point(line.precision.compute)
    if kernel is not None:
        return Crossovers(line, efficiency, tuple(_kernel(line, kernel, ridge)), ridge)
    found = [*_kernels(line, ridge), *_layers(line, ridge), *_pass(line, ridge), *_attention(line)]
    if axis == "new_tokens":
        found += [*_short(line), *_smaller(line)]
        return Crossovers(line, efficiency, tuple(found), ridge)
    found += [*_knee(line), *_smaller(line), *_paying(line, ridge), *_attention(line.along("context"))]
    held = memory_of(model, device, workload, line.precision, line.shard)
    return Crossovers(line, efficiency, tuple(found), ridge, _limit(line), _most_tokens(line), held.max_sequences)


def _named(ledger: Ledger, name: str) -> Point:
    for point in ledger.kernels:
        if point.name == name:
            return point
    raise UnknownName.of(
        "kernel", name, [point.name for point in ledger.kernels], "They are those of roofline predict."
    )


def _kernels(line: Line, ridge: float) -> Iterator[Crossover]:
    for point in line.at(1).kernels:
        if line.precision.compute in point.work.cost.flops:
            yield from _kernel(line, point.name, ridge)


def _kernel(line: Line, name: str, ridge: float) -> Iterator[Crossover]:
    """Every turn of one kernel's verdict."""
    _named(line.at(1), name)

    def label(n: Num) -> Any:
        return _named(line.at(n), name).bound.by

    def gap(n: int) -> float:
        times = _named(line.at(n), name).bound
        return cast(float, times.compute) - cast(float, times.memory)

    found = turns(label)
    for turn in found:
        pair = {turn.before, turn.after} == {"compute", "memory"}
        yield Crossover(name, line.axis, turn.value, _meet(gap, turn.value) if pair else None, *turn[1:], "")
    if not found:
        held = label(1)
        yield Crossover(name, line.axis, None, None, held, held, _never(held, *_far(line, _one(name)), ridge))


def _one(name: str) -> Callable[[Point], bool]:
    return lambda point: point.name == name


def _gemm(point: Point) -> bool:
    return SUBJECTS.get(point.work.op) == GEMMS


def _layer_gemm(point: Point) -> bool:
    return _gemm(point) and point.part != "head"


def _attends(point: Point) -> bool:
    return SUBJECTS.get(point.work.op) == ATTENTION


def _never(held: str, intensity: float, line: Line, ridge: float) -> str:
    """Why a verdict never turns: the intensity that it tends to, beside the ridge."""
    side = "below" if intensity < ridge else "above"
    what = f"its intensity tends to {significant(intensity)} FLOP/byte, {side} the ridge of {significant(ridge)}"
    return f"always {held}-bound: however many {WORDS[line.axis]}, {what}"


def _sums(ledger: Ledger, chosen: Callable[[Point], bool]) -> tuple[Num, Num, Num]:
    """FLOPs, bytes and seconds of the chosen kernels together."""
    flops: Num = 0
    moved: Num = 0
    seconds: Num = 0.0
    for point in ledger.kernels:
        if chosen(point):
            flops, moved, seconds = flops + point.flops, moved + point.bytes, seconds + point.bound_seconds
    return flops, moved, seconds


def _far(line: Line, chosen: Callable[[Point], bool]) -> tuple[float, Line]:
    """The intensity that the chosen kernels tend to, what each further step adds far out; and the line."""
    near, far = (_sums(line.at(n), chosen) for n in (_FAR, 2 * _FAR))
    flops, moved = (cast(float, far[i] - near[i]) for i in (0, 1))
    if not flops and not moved:  # the axis does not reach them
        flops, moved = cast(float, near[0]), cast(float, near[1])
    return flops / moved if moved else math.inf, line


def _meet(gap: Callable[[int], float], value: int) -> float | None:
    """Where a difference that turns between `value` - 1 and `value` is zero on the straight line between them."""
    if value == 1:
        return None
    low, high = gap(value - 1), gap(value)
    return value - 1 + low / (low - high) if low != high else None


def _layers(line: Line, ridge: float) -> Iterator[Crossover]:
    """Where the weight GEMMs of all layers together pass the ridge."""
    if not any(_layer_gemm(point) for point in line.at(1).kernels):
        return

    def gap(n: Num) -> Num:
        flops, moved, _ = _sums(line.at(n), _layer_gemm)
        return flops - ridge * moved

    value = first(lambda n: gap(n) > 0)
    name = "layer GEMMs together"
    if value is None:
        yield Crossover(
            name, line.axis, None, None, "memory", "memory", _never("memory", *_far(line, _layer_gemm), ridge)
        )
    else:
        exact = _meet(lambda n: cast(float, gap(n)), value)
        yield Crossover(name, line.axis, value, exact, "memory", "compute", "")


def _pass(line: Line, ridge: float) -> Iterator[Crossover]:
    """Every turn of the pass's verdict: the resource that bounds most of the time."""

    def label(n: Num) -> Any:
        return line.at(n).total.bound

    found = turns(label)
    for turn in found:
        yield Crossover("the pass", line.axis, turn.value, None, *turn[1:], "")
    if not found:
        held = label(1)
        yield Crossover("the pass", line.axis, None, None, held, held, _never(held, *_far(line, lambda _: True), ridge))


def _attention(line: Line) -> Iterator[Crossover]:
    """Where attention takes longer than the weight GEMMs."""
    if not any(_attends(point) for point in line.at(1).kernels):
        return

    def gap(n: Num) -> Num:
        ledger = line.at(n)
        return _sums(ledger, _attends)[2] - _sums(ledger, _gemm)[2]

    value = first(lambda n: gap(n) > 0)
    names = "attention over weights", line.axis
    if value is None:
        attention, gemms = (_step(line, chosen) for chosen in (_attends, _gemm))
        reason = (
            f"never: each further one of the {WORDS[line.axis]} adds {percent(attention / gemms)} as much to attention"
        )
        yield Crossover(*names, None, None, "weights", "weights", f"{reason} as to the weight GEMMs")
    else:
        yield Crossover(*names, value, _meet(lambda n: cast(float, gap(n)), value), "the shorter", "the longer", "")


def _step(line: Line, chosen: Callable[[Point], bool] = lambda _: True) -> float:
    """Seconds that each further step of the axis adds to the chosen kernels, far out [s]."""
    near, far = (cast(float, _sums(line.at(n), chosen)[2]) for n in (_FAR, 2 * _FAR))
    return (far - near) / _FAR


def _limit(line: Line) -> float | None:
    found = _far(line, lambda _: True)[0]
    return found if found < math.inf else None


def _most_tokens(line: Line) -> float:
    return cast(float, line.workload.groups[0].new) / _step(line)


def _knee(line: Line) -> Iterator[Crossover]:
    """The batch past which each further sequence costs its own time, and the one that is nearly at the limit.

    The knee is where the two asymptotes of the time meet: what a pass takes before any sequence is in it (twice
    the time at 1 less that at 2), over what each further one adds far out.
    """
    one, two = (cast(float, line.at(n).total.bound_seconds) for n in (1, 2))
    base, step = 2 * one - two, _step(line)
    limit = _most_tokens(line)

    def near(n: Num) -> Any:
        return line.at(n).total.tokens_per_second >= NEARLY * limit

    exact = base / step
    knee = max(1, -int(-exact // 1))
    yield Crossover(
        "knee of throughput",
        line.axis,
        knee,
        exact,
        "each further sequence is nearly free",
        "its own cost each",
        "",
    )
    value = first(near)
    reason = "" if value is not None else f"not up to {MOST:,}"
    names = f"{percent(NEARLY)} of the most tokens/s", line.axis
    yield Crossover(*names, value, None, "below", "reached", reason)


def _paying(line: Line, ridge: float) -> Iterator[Crossover]:
    """The context from which no batch makes the pass compute-bound."""
    far = replace(line.along("context"), workload=line.workload.resized(sequences=_FAR))

    def stuck(n: Num) -> Any:
        return far.at(n).total.bound != "compute"

    value = first(stuck)
    context = cast(int, line.workload.groups[0].context)
    at = _far(line, lambda _: True)[0]
    if value is None:
        reason = f"not up to {MOST:,} tokens of context"
    else:
        tends = f"the intensity tends to {significant(at)} FLOP/byte, the ridge is at {significant(ridge)}"
        reason = f"as the batch grows at {context:,} tokens, {tends}"
    yield Crossover(
        "batching to compute-bound",
        "context",
        value,
        None,
        "a large enough batch is compute-bound",
        "out of reach",
        reason,
    )


def _short(line: Line) -> Iterator[Crossover]:
    """The prompt that first costs over a tenth more than a prompt of one token."""
    one = cast(float, line.at(1).total.bound_seconds)

    def dearer(n: Num) -> Any:
        return line.at(n).total.bound_seconds > (1 + SHORT) * one

    value = first(dearer)
    yield Crossover(
        "short prompt", line.axis, value, None, f"within {percent(SHORT)} of one token's cost", "dearer", ""
    )


def _smaller(line: Line) -> Iterator[Crossover]:
    """Where smaller weights, with the same arithmetic, gain less than a hundredth."""
    now = line.precision.weights
    for smaller in ("fp8", "int4"):
        precision = replace(line.precision, weights=smaller)
        other = replace(line, precision=precision, seen={})
        if precision.weights == now or not _fewer(smaller, now):
            continue

        def idle(n: Num, other: Line = other) -> Any:
            return line.at(n).total.bound_seconds < (1 + SLIGHT) * other.at(n).total.bound_seconds

        value = first(idle)
        reason = "" if value is not None else f"they help up to {MOST:,} {WORDS[line.axis]} at least"
        names = f"{smaller} weights for {now}", line.axis
        yield Crossover(*names, value, None, "help", f"under {percent(SLIGHT, 1)} gain", reason)


def _fewer(smaller: str, name: str) -> bool:
    return dtype(smaller).bits < dtype(name).bits
