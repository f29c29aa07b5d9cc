"""Which function costs which operator. A new operator is one entry."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module

from roofline.cost import Work
from roofline.diagnosis.costs.call import Call
from roofline.errors import RooflineError

Function = Callable[[Call], "Work | None"]
_FAMILIES = (
    "gemm",
    "attention",
    "convolution",
    "norms",
    "elementwise",
    "moving",
    "pooling",
    "recurrent",
    "quantised",
    "engines",
    "tables",
    "optimiser",
    "compiled",
    "serving",
    "links",
)
_MOST = 1 << 58  # FLOP or byte of one kernel: what is larger, no device has ever done at once


@dataclass(frozen=True, slots=True)
class Rule:
    """How an operator is costed.

    `several`: its work is spread over several kernels, each as long as its part; else one kernel does it, and what
    else the operator launches helps it; `each`: each of its kernels does all of it. `lengths`: it depends on what is
    annotated of the pass of a server; `forward`: on the arguments of the operator whose gradient it is.
    """

    function: Function
    several: bool = False
    lengths: bool = False
    forward: bool = False
    each: bool = False


_NAMED: dict[str, Rule] = {}
_PATTERNS: list[tuple[re.Pattern[str], Rule]] = []


def cost(*names: str, **how: bool) -> Callable[[Function], Function]:
    """Register what costs operators of these names; one that begins with ^ is a pattern. `how`: fields of Rule."""

    def register(function: Function) -> Function:
        rule = Rule(function, **how)
        for name in names:
            if name.startswith("^"):
                _PATTERNS.append((re.compile(name), rule))
            else:
                _NAMED[name] = rule
        return function

    return register


@cache
def _load() -> None:
    for family in _FAMILIES:
        import_module(f"roofline.diagnosis.costs.{family}")


@lru_cache(1 << 14)
def rule(name: str) -> Rule | None:
    """How an operator of that name is costed; None where nobody knows it."""
    _load()
    known = _NAMED.get(name)
    if known is not None:
        return known
    return next((each for pattern, each in _PATTERNS if pattern.search(name)), None)


def work_of(call: Call) -> Work | None:
    """What the call demands; None where its arguments do not tell."""
    known = rule(call.name)
    try:
        found = known.function(call) if known is not None else None
    except (RooflineError, ArithmeticError, LookupError):  # arguments that no such operator takes
        return None
    if found is None or max(found.flops, found.bytes) >= _MOST or not max(found.flops, found.bytes):
        return None
    return found
