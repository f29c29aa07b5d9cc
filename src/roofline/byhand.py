"""One operation by hand: its demand on a device, and its formulas with the numbers put in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, NamedTuple, cast

from roofline import collectives as _collectives  # registers its operations, as does recurrence
from roofline import recurrence as _recurrence
from roofline.bound import Point, place
from roofline.cost import Work
from roofline.device import Device, Topology
from roofline.dtypes import DTYPES
from roofline.errors import BadValue, UnknownName, shown
from roofline.num import Expr, Num
from roofline.ops import OPS, operation
from roofline.units import count, length, quantity

_ = _collectives, _recurrence
_COUNTED = frozenset({"elementwise", "copy"})  # their n is a number of elements or bytes, so k is 1,000


class Formula(NamedTuple):
    """A formula as the code has it, with its numbers, and its value."""

    text: str
    numbers: str
    value: Num


@dataclass(frozen=True, slots=True)
class ByHand:
    """An operation placed on a device: the point, its formulas by what they count, and its formats."""

    point: Point
    formulas: Mapping[str, Formula]
    options: Mapping[str, str]

    @property
    def notes(self) -> list[str]:
        """What the answer leaves out or takes for granted, in sentences."""
        point = self.point
        said = list(point.device.assumptions)
        said += [
            f"The {rate} peak of {point.device.id} is unknown: its FLOPs are left out" for rate in point.bound.unknown
        ]
        for key, name in self.options.items():
            if name in DTYPES and DTYPES[name].bits < 16:
                note = f" ({DTYPES[name].note})" if DTYPES[name].note else ""
                said.append(f"{key} in {name}{note}: unpacking or converting them is not charged")
        if point.work.cost.launches != 1:
            said.append(f"{point.work.cost.launches} kernels as one: the bound is of their sums")
        if point.work.cost.links:
            said.append("A ring's bytes and one step's latency; a switch that reduces in the network can beat it")
        said.append("Bytes are ideal, each operand once; what a cache keeps can beat a memory bound")
        return said


def by_hand(name: str, words: Sequence[str], device: Device) -> ByHand:
    """The operation `name` with dims and options written KEY=VALUE; raises UnknownName or BadValue.

    A k is 1,024 in a size of a matrix or a sequence, 1,000 in a number of elements or bytes, as of `copy`.
    """
    given = _read(name, words)
    sizes = {
        key: value for key, value in given.items() if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    options = {key: value for key, value in given.items() if key not in sizes}
    work = operation(name)(**given)
    if "ranks" in work.dims:
        Topology(device, cast(int, work.dims["ranks"])).link()  # refuses ranks that no known link joins
    traced = operation(name)(**{key: Expr.var(key) for key in sizes}, **options)
    texts = {key: str(value) for key, value in options.items()}
    return ByHand(place(work, device), _formulas(work, traced, sizes), texts)


def work_of(text: str) -> Work:
    """The work of an operation written as `linear m=8192 n=8192 k=8192`; raises UnknownName or BadValue."""
    name, *words = text.split() or [""]
    return operation(name)(**_read(name, words))


def beside(found: ByHand, device: Device) -> list[ByHand]:
    """Other ways to run the same operation: attention with its scores in memory."""
    work = found.point.work
    if work.op != "attention":
        return []
    words = [f"{key}={value}" for key, value in work.dims.items()]
    words += [f"{key}={value}" for key, value in found.options.items() if key != "causal"]
    known = _parameters("attention-math")
    # With a limit on what is seen, or V of another width, there is no such twin.
    return (
        [] if any(each.partition("=")[0] not in known for each in words) else [by_hand("attention-math", words, device)]
    )


def _parameters(name: str) -> Mapping[str, Parameter]:
    return signature(operation(name)).parameters


def _read(name: str, words: Sequence[str]) -> dict[str, Any]:
    """Dims and options by name; raises for what is unknown, twice there, or missing."""
    known = _parameters(name)
    given: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise BadValue(f"{shown(word)} is no dim of {name}. Write KEY=VALUE: {usage(name)}.")
        if key not in known:
            raise UnknownName(f"{name} has no dim {shown(key)}. Write: {usage(name)}.")
        if key in given:
            raise BadValue(f"{key} is there twice. Write it once.")
        given[key] = _value(name, key, value, str(known[key].annotation))
    missing = [key for key, each in known.items() if each.default is Parameter.empty and key not in given]
    if missing:
        raise BadValue(f"{name} lacks {', '.join(missing)}. Write: {usage(name)}.")
    return given


def usage(name: str) -> str:
    """How an operation's dims are written: required ones, then options in brackets."""
    parts: list[str] = []
    for key, each in _parameters(name).items():
        bare = each.default is Parameter.empty
        parts.append(f"{key}=N" if bare else f"[{key}={'N' if each.default is None else each.default}]")
    return " ".join(parts)


def _value(name: str, key: str, text: str, kind: str) -> Any:
    """One value by the kind of its parameter."""
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise BadValue(f"{key} is {shown(text)}. Possible: true or false.")
        return text.lower() == "true"
    if not kind.startswith("Num"):
        return text
    binary = name not in _COUNTED and key != "bytes"
    reader: Callable[[str], Num] = length if binary else _bytes if text.strip().endswith("B") else count
    try:
        return reader(text)
    except BadValue as error:
        raise BadValue(f"{key}: {error}") from None


def _bytes(text: str) -> int:
    """A whole number of bytes, as 14GB; raises BadValue."""
    found = quantity(text, "B")
    if found % 1:
        raise BadValue(f"{shown(text)} is {found:g} bytes. Write a whole number of them.")
    return int(found)


def _formulas(work: Work, traced: Work, sizes: Mapping[str, Num]) -> dict[str, Formula]:
    """What is counted, each with the branch of its formula that these sizes take."""
    counted: dict[str, tuple[Num, Num]] = {}
    for rate, flops in work.cost.flops.items():
        counted[f"FLOP {rate}"] = flops, traced.cost.flops[rate]
    for kinds, symbols in ((work.cost.memory, traced.cost.memory), (work.cost.links, traced.cost.links)):
        for role, moved in kinds.items():
            counted[f"B {role}"] = moved, symbols[role]
    return {what: _formula(value, symbol, sizes) for what, (value, symbol) in counted.items()}


def _formula(value: Num, symbol: Num, sizes: Mapping[str, Num]) -> Formula:
    if not isinstance(symbol, Expr):
        return Formula(str(symbol), str(symbol), value)
    chosen = symbol.at(**sizes)
    written = {key: Expr.var(f"{each:,}") for key, each in sizes.items()}
    return Formula(str(chosen), str(chosen.evaluate(**written)), value)


def names() -> list[str]:
    """The registered operations."""
    return sorted(OPS)
