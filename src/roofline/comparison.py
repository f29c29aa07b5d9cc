"""A ledger beside another, beside a measured rate, and beside a price."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, cast

from roofline.device import Device
from roofline.errors import BadValue, shown
from roofline.ledger import Ledger
from roofline.reached import Reach, reach
from roofline.units import GIGA, MEGA, percent, si, significant

_SAME = 2**-40


class Row(NamedTuple):
    """A kernel of either ledger: its seconds in this one and in the other, 0 where it is absent [s]."""

    name: str
    seconds: float
    against: float

    @property
    def ratio(self) -> float | None:
        """How many times faster it is here; None where one of the two lacks it."""
        return self.against / self.seconds if self.seconds and self.against else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two ledgers side by side, kernel by kernel; `rows` add up to the difference of the totals."""

    ledger: Ledger
    against: Ledger

    @property
    def speed(self) -> float:
        """Tokens a second of this ledger over those of the other."""
        mine, other = self.ledger.total, self.against.total
        return cast(float, mine.tokens_per_second) / cast(float, other.tokens_per_second)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Kernels of both, in the order of this ledger, those of the other alone last."""
        mine, other = _times(self.ledger), _times(self.against)
        names = dict.fromkeys((*mine, *other))
        return tuple(Row(name, mine.get(name, 0.0), other.get(name, 0.0)) for name in names)

    @property
    def reason(self) -> str:
        """Why the two differ, by the numbers: one supply's ratio where one explains it, else the kernels that do."""
        return _one_supply(self) or _by_kernel(self)


def _times(ledger: Ledger) -> dict[str, float]:
    found: dict[str, float] = {}
    for point, seconds in zip(ledger.kernels, ledger.times, strict=True):
        found[point.name] = found.get(point.name, 0.0) + cast(float, seconds)
    return found


def _one_supply(pair: Comparison) -> str:
    """The sentence where a single resource bounds every kernel of both, or "".

    Then seconds are demand over one supply, and their ratio is the product of two ratios to the digit.
    """
    resources = {point.bound.by for ledger in (pair.ledger, pair.against) for point in ledger.kernels}
    if len(resources) != 1 or (by := resources.pop()) not in ("memory", "compute"):
        return ""
    mine, other = pair.ledger, pair.against
    seconds = cast(float, other.total.seconds) / cast(float, mine.total.seconds)
    supply = _supply(mine, by) / _supply(other, by)
    demand = _demand(other, by) / _demand(mine, by)
    if not math.isclose(seconds, supply * demand, rel_tol=_SAME):
        return ""  # different rates, or different efficiencies
    what = "bytes" if by == "memory" else "FLOPs"
    named = "bandwidths" if by == "memory" else f"{mine.precision.compute} peaks"
    said = f"Every kernel of both is {by}-bound"
    if supply == 1 == demand:
        return f"{said}, on the same {what} and {named}. {_unused(mine, other, by)}".rstrip()
    if demand == 1:
        said += f" and the {what} are the same"
    else:
        said += f"; the other's {what} are {significant(demand, 4)} times this one's"
    if supply == 1:
        return f"{said}: that is the ratio of the times. {_unused(mine, other, by)}".rstrip()
    shown_ratio = significant(supply, 4)
    said += f": the ratio is that of the {named}, {_written(mine, by)} over {_written(other, by)} = {shown_ratio}"
    if demand != 1:
        said += f", times that of the {what}"
    return f"{said}. {_unused(mine, other, by)}".rstrip()


def _unused(mine: Ledger, other: Ledger, by: str) -> str:
    rest = "compute" if by == "memory" else "memory"
    ratio = _supply(mine, rest) / _supply(other, rest)
    name = "peaks" if rest == "compute" else "bandwidths"
    return f"The {name}' ratio of {significant(ratio, 3)} does not matter here." if ratio != 1 else ""


def _supply(ledger: Ledger, by: str) -> float:
    device: Device = ledger.device
    share = ledger.efficiency or (1.0, 1.0)
    return device.bandwidth * share[0] if by == "memory" else device.rate(ledger.precision.compute) * share[1]


def _demand(ledger: Ledger, by: str) -> float:
    return cast(float, ledger.total.bytes if by == "memory" else ledger.total.flops)


def _written(ledger: Ledger, by: str) -> str:
    if by == "memory":
        return f"{significant(_supply(ledger, by) / GIGA, 4)} GB/s"
    return si(_supply(ledger, by), "FLOP/s")


_NAMED = 3


def _by_kernel(pair: Comparison) -> str:
    """The sentence that names the kernels which make most of the difference."""
    moved = sorted(((row.against - row.seconds, row.name) for row in pair.rows), key=lambda each: -abs(each[0]))
    whole = sum(seconds for seconds, _ in moved)
    if not any(seconds for seconds, _ in moved):
        return "No kernel's time differs."
    said = ", ".join(f"{name} {_signed(-seconds)}" for seconds, name in moved[:_NAMED] if seconds)
    return f"This one takes {_signed(-whole)} against the other: {said}.{_supplies(pair)}"


def _supplies(pair: Comparison) -> str:
    """The ratios that lie behind the difference of two devices."""
    ratios = {by: _supply(pair.ledger, by) / _supply(pair.against, by) for by in ("memory", "compute")}
    if ratios["memory"] == 1 == ratios["compute"]:
        return ""
    peaks, bandwidths = significant(ratios["compute"], 3), significant(ratios["memory"], 3)
    return f" The peaks' ratio is {peaks}, the bandwidths' {bandwidths}; each kernel moves by that of its own bound."


def _signed(seconds: float) -> str:
    return f"{'+' if seconds > 0 else '-'}{si(abs(seconds), 's', 3)}" if seconds else "0 s"


class Measured(NamedTuple):
    """A measured rate beside the bound: [token/s], shares of the bound, and what such kernels reach elsewhere."""

    tokens_per_second: float
    of_bound: float
    of_derated: float | None
    reach: Reach | None

    @property
    def sentence(self) -> str:
        """What the measured rate says, in a sentence or two."""
        rate, bound = significant(self.tokens_per_second, 4), self.tokens_per_second / self.of_bound
        said = f"{rate} tokens/s is {percent(self.of_bound, 3)} of the bound's {significant(bound, 4)}."
        if self.of_derated is not None:
            said = f"{said[:-1]}, {percent(self.of_derated, 3)} of the derated rate."
        if self.of_bound > 1:
            return (
                f"{said} No sound measurement is above a bound: look for another batch or context, other formats, more "
                "devices, or operands that stay in the cache."
            )
        if self.reach is None:
            return f"{said} What such kernels reach elsewhere is unknown."
        reached = self.reach
        return (
            f"{said} Kernels of these kinds reach about {percent(reached.median)} (between quartiles "
            f"{percent(reached.low)} to {percent(reached.high)}; {reached.basis})."
        )


def measured(ledger: Ledger, tokens_per_second: float) -> Measured:
    """A measured rate [token/s] of all ranks together beside a scalar ledger; raises BadValue where it is no rate."""
    _positive("measured", tokens_per_second, "tokens a second")
    total = ledger.total
    bound = cast(float, ledger.workload.tokens) / cast(float, total.bound_seconds)
    derated = None if ledger.efficiency is None else tokens_per_second / cast(float, total.tokens_per_second)
    return Measured(tokens_per_second, tokens_per_second / bound, derated, reach(ledger))


class Price(NamedTuple):
    """What tokens cost at an hourly price of one device [$], and at a measured rate where there is one."""

    per_device_hour: float
    devices: int
    per_million_tokens: float
    per_million_measured: float | None


def price(ledger: Ledger, per_hour: float, rate: float | None = None) -> Price:
    """Dollars per million tokens of a scalar ledger at `per_hour` [$/h] a device, and at a measured `rate` [token/s].

    Raises BadValue for what is no price.
    """
    _positive("price", per_hour, "dollars an hour")
    ranks = ledger.shard.tp
    spent = MEGA * per_hour * ranks / 3600
    return Price(
        per_hour, ranks, spent / cast(float, ledger.total.tokens_per_second), spent / rate if rate is not None else None
    )


def _positive(name: str, value: float, unit: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:  # pyright: ignore
        raise BadValue(f"{name} is {shown(value)}. Possible: a finite number of {unit} above zero.")
