"""One operation by hand: its demand on a device, and its formulas with the numbers put in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, NamedTuple, cast

from roofline import collectives as _collectives  # registers its operations
from roofline.bound import Point, place
from roofline.cost import Work
from roofline.device import Device
from roofline.errors import BadValue, UnknownName, shown
from roofline.num import Expr, Num
from roofline.ops import OPS, VECTOR, operation
from roofline.units import count, length, quantity, si

_ = _collectives
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
    def flops_by_rate(self) -> Mapping[str, Num]:
        """FLOPs at each rate [FLOP]."""
        return self.point.work.cost.flops


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
    traced = operation(name)(**{key: Expr.var(key) for key in sizes}, **options)
    texts = {key: str(value) for key, value in options.items()}
    return ByHand(place(work, device), _formulas(work, traced, sizes), texts)


def beside(found: ByHand, device: Device) -> list[ByHand]:
    """Other ways to run the same operation: attention with its scores in memory."""
    work = found.point.work
    if work.op != "attention" or "window" in work.dims:
        return []
    words = [f"{key}={value}" for key, value in work.dims.items()]
    words += [f"{key}={value}" for key, value in found.options.items() if key != "causal"]
    return [by_hand("attention-math", words, device)]


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
    readers: list[Callable[[str], Num]] = [count if name in _COUNTED or key == "bytes" else length]
    if key == "bytes" or name == "copy":
        readers.insert(0, lambda each: int(quantity(each, "B")))
    for reader in readers:
        try:
            return reader(text)
        except BadValue as error:
            failed = error
    raise BadValue(f"{key}: {failed}") from None  # pyright: ignore[reportPossiblyUnboundVariable]


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


def lines(found: ByHand) -> list[tuple[str, float, str]]:
    """Seconds of each resource that the operation uses, and what they come from."""
    point, device = found.point, found.point.device
    cost = point.work.cost
    rows: list[tuple[str, float, str]] = []
    for rate, flops in cost.flops.items():
        peak = device.peak.get(rate)
        if peak is not None and flops:
            name = "vector" if rate == VECTOR else "compute"
            rows.append(
                (name, cast(float, flops) / peak, f"{si(cast(float, flops), 'FLOP')} at {si(peak, 'FLOP/s')} ({rate})")
            )
    rows.append(
        (
            "memory",
            cast(float, point.bound.memory),
            f"{si(cast(float, cost.bytes), 'B')} at {si(device.bandwidth, 'B/s')}",
        )
    )
    for name, sent in cost.links.items():
        link = next(each for each in device.links if name in (each.name, "link"))
        rows.append(
            (
                "link",
                cast(float, point.bound.link),
                f"{si(cast(float, sent), 'B')} sent at {si(link.bandwidth, 'B/s')} ({link.name})",
            )
        )
    return rows


def names() -> list[str]:
    """The registered operations."""
    return sorted(OPS)
