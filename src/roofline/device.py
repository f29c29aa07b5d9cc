"""What one accelerator supplies, and how several are joined."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from typing import Self

from roofline.errors import BadValue, UnknownName, shown
from roofline.num import Expr


def check_shares(*shares: float) -> None:
    """Refuse an efficiency that is no share above 0 and up to 1; raises BadValue."""
    for share in shares:
        if not 0 < share <= 1:
            raise BadValue(f"An efficiency is a share above 0 and up to 1, not {shown(share)}.")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a data file: its value in base SI units, how sure it is, and where it is from.

    `status`: verified (read in the vendor's document), quoted (a vendor's row quoted by another),
    catalogue (third-party table), derived (`note` has the formula), announced, measured, hypothetical (a what-if).
    """

    value: float
    status: str
    source: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A way from one device to others.

    `bandwidth` in one direction [byte/s]; `domain` is how many devices it joins (None: unknown);
    `latency` of one step [s], 0 where it is unknown, as a bound may ignore it.
    """

    name: str
    bandwidth: float
    domain: int | None = None
    latency: float = 0.0

    def joins(self, ranks: int) -> bool:
        """Whether so many devices may be joined by it: they are where how many it joins is not known."""
        return self.domain is None or ranks <= self.domain


@dataclass(frozen=True, slots=True)
class Conflict:
    """Sources that disagree about a field, and which one was taken and why."""

    field: str
    values: tuple[str, ...]
    verdict: str


@dataclass(frozen=True, slots=True)
class Sparsity:
    """What structured sparsity multiplies the peaks of `rates` by, where the vendor states one factor.

    It is no peak: it counts only where a rate is asked for by name, as `bf16-sparse`.
    """

    factor: int
    rates: tuple[str, ...]
    pattern: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Names:
    """How others call a device, apart from the exact strings in its aliases.

    A name is this device's where it has all words of one of `words`, and no word that is neither among
    these, nor in `also`, nor the vendor's or the chip's. One of `family` is shared with other devices;
    `units` are compute units that a runtime reports beside the count of the whole package. `source` and
    `note` say where the names and aliases are from.
    """

    words: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    family: tuple[str, ...] = ()
    units: tuple[int, ...] = ()
    source: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """What is known of one accelerator; what is not known is absent or None.

    `peak` is dense, by rate [FLOP/s]; `bandwidth` of its memory [byte/s]; `capacity` is what a
    program may use [byte], `capacity_note` says whose figure that is; `launch` is the time of one
    kernel launch [s], 0 on the ideal roofline; `cache` is the largest cache on the chip [byte];
    `cache_bandwidth` by its level [byte/s]. A framework sees `parts` devices in one package.
    """

    id: str
    name: str
    peak: Mapping[str, float]
    bandwidth: float | None
    capacity: int | None = None
    vendor: str = ""
    capacity_note: str = ""
    l2: int | None = None
    cache: int | None = None
    links: tuple[Link, ...] = ()
    launch: float = 0.0
    released: int | None = None
    aliases: tuple[str, ...] = ()
    default_for: tuple[str, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict[str, Figure])
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    architecture: str = ""
    form_factor: str = ""
    announced: bool = False
    cache_bandwidth: Mapping[str, float] = field(default_factory=dict[str, float])
    sparsity: Sparsity | None = None
    parts: int = 1
    part: str = ""
    names: Names = Names()

    def device(self) -> Device:
        """The same as a Device; raises UnknownName where no source states its bandwidth."""
        if self.bandwidth is None:
            raise UnknownName(
                f"The memory bandwidth of {self.id} ({self.name}) is not known, so nothing can be placed on it. "
                "Set it (--set device.bandwidth=200GB/s), or write it into a device file of your own."
            )
        return Device(**{each.name: getattr(self, each.name) for each in fields(Device)})

    def taken_for(self, name: str) -> Self:
        """The same device, with a note that it was taken for the shorter `name`."""
        return replace(self, assumptions=(*self.assumptions, f"{name} is taken as {self.id} ({self.name})"))

    def one_part(self) -> Self:
        """One of the devices that a framework sees in the package: an equal share of every supply but the links."""
        if self.parts == 1:
            return self
        share = 1 / self.parts
        whole = {"capacity": self.capacity, "l2": self.l2, "cache": self.cache}
        return replace(
            self,
            name=f"{self.name}, one {self.part} of {self.parts}",
            peak={rate: value * share for rate, value in self.peak.items()},
            bandwidth=None if self.bandwidth is None else self.bandwidth * share,
            cache_bandwidth={level: value * share for level, value in self.cache_bandwidth.items()},
            parts=1,
            assumptions=(*self.assumptions, f"one {self.part} has 1/{self.parts} of what {self.id} supplies"),
            **{key: None if value is None else value // self.parts for key, value in whole.items()},
        )

    def rate(self, name: str) -> float:
        """The dense peak of a rate [FLOP/s], or that of `bf16-sparse`, where it is asked for by this name.

        Raises UnknownName with the rates that are known.
        """
        found = self.peak.get(name)
        if found is None and name.endswith("-sparse") and self.sparsity is not None:
            dense = name.removesuffix("-sparse")
            if dense in self.sparsity.rates and dense in self.peak:
                return self.peak[dense] * self.sparsity.factor
        if found is None:
            known = ", ".join(sorted(self.peak)) or "none"
            raise UnknownName(
                f"{self.id} has no known peak for the rate {shown(name)}. Known: {known}. "
                "Choose one with --compute; none is scaled from another."
            )
        return found

    def ridge_point(self, rate: str = "bf16") -> float:
        """Peak over bandwidth: the intensity where memory and compute take as long [FLOP/byte]."""
        peak = self.rate(rate)
        if self.bandwidth is None:
            raise UnknownName(f"The memory bandwidth of {self.id} is not known, so there is no ridge point.")
        return peak / self.bandwidth


@dataclass(frozen=True, slots=True)
class Device(Sheet):
    """One accelerator's supplies: a sheet whose bandwidth is known."""

    bandwidth: float

    def __post_init__(self) -> None:
        supplies = {"bandwidth": self.bandwidth, **{f"{rate} peak": value for rate, value in self.peak.items()}}
        for name, value in supplies.items():
            if not isinstance(value, Expr) and not 0 < value < math.inf:
                raise BadValue(f"The {name} of {shown(self.id)} is {shown(value)}. Possible: finite and above zero.")

    @staticmethod
    def load(name: str | PathLike[str]) -> Device:
        """The device of that id, alias or TOML file.

        Raises UnknownName for a name that is not in the catalogue, DataError for a bad file.
        """
        from roofline.catalogue import load_device

        return load_device(name)

    def derated(self, bandwidth: float = 1.0, compute: float = 1.0) -> Device:
        """The same device at these shares of its bandwidth and of every peak (0 < share <= 1)."""
        check_shares(bandwidth, compute)
        return self.scaled(bandwidth, compute)

    def scaled(self, bandwidth: float = 1.0, compute: float = 1.0, link: float = 1.0) -> Device:
        """A hypothetical device: this one with its bandwidth, every peak and every link times these factors.

        Its figures say so: status "hypothetical", the factor in the note. Raises BadValue for a factor that
        leaves no finite supply above zero.
        """
        peak = {rate: value * compute for rate, value in self.peak.items()}
        links = tuple(replace(each, bandwidth=each.bandwidth * link) for each in self.links)
        changed = replace(self, peak=peak, bandwidth=self.bandwidth * bandwidth, links=links)
        factors = {"memory.bandwidth": bandwidth, **{f"peak.{rate}": compute for rate in peak}}
        factors |= {f"link.{each.name}.bandwidth": link for each in links}
        figures = {
            key: _times(figure, factors.get(key, 1.0)) if factors.get(key, 1.0) != 1.0 else figure
            for key, figure in self.figures.items()
        }
        return replace(changed, figures=figures)


def _times(figure: Figure, factor: float) -> Figure:
    """A figure times a factor, which is no longer the source's."""
    return Figure(figure.value * factor, "hypothetical", figure.source, f"{factor:g} times the source's figure")


@dataclass(frozen=True, slots=True)
class Topology:
    """`ranks` devices of a kind that work together, and the links that join them."""

    device: Device
    ranks: int = 1

    def __post_init__(self) -> None:
        if self.ranks.__class__ is not int or self.ranks < 1:
            raise BadValue(f"{shown(self.ranks)} devices cannot work together. Possible: a whole number from 1.")

    def link(self, group: int | None = None) -> Link:
        """The link that a group of that many ranks (all of them) shares: the first of the device's file.

        One rank needs none, and gets one without a limit. Raises UnknownName where there is none, or where
        the group reaches past it: what lies beyond, a network or another link, is not in a device's file,
        and is not guessed.
        """
        ranks = self.ranks if group is None else group
        if ranks == 1:
            return Link("none", math.inf, 1)
        if not self.device.links:
            raise UnknownName(
                f"No link between {self.device.id} devices is known, so {ranks} ranks cannot be placed. "
                "Add a [link.NAME] table with its bandwidth to a copy of the device's file."
            )
        first = self.device.links[0]
        if not first.joins(ranks):
            raise UnknownName(
                f"{ranks} ranks reach past the {first.domain} devices that {first.name} joins on {self.device.id}, and "
                f"the network beyond is not known. Use up to {first.domain} ranks, or a device file with a wider link."
            )
        return first
