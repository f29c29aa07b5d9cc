"""What rules look at, and their registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from roofline.diagnosis.costing import Costing
from roofline.diagnosis.findings import Finding
from roofline.diagnosis.result import Diagnosis
from roofline.errors import RooflineError
from roofline.trace.events import Trace
from roofline.trace.link import Links
from roofline.units import NS_PER_S

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Scene:
    """A diagnosis without findings, and the columns behind it: `rows` of the device, their categories and costs."""

    found: Diagnosis
    trace: Trace
    links: Links
    rows: Ints
    kinds: Ints
    costs: Costing

    @property
    def window(self) -> float:
        """The window [s]."""
        return self.found.window / NS_PER_S

    def idle(self, *causes: str) -> float:
        """Idle time of these causes [s]."""
        return sum(each.time for each in self.found.causes if each.cause in causes) / NS_PER_S


Rule = Callable[[Scene], Iterator[Finding]]
_R = TypeVar("_R", bound=Rule)
RULES: dict[str, Rule] = {}


def rule(name: str) -> Callable[[_R], _R]:
    """Register a rule under its name; a second one of that name is refused."""

    def register(function: _R) -> _R:
        if name in RULES:
            raise RooflineError(f"The rule {name!r} is registered twice.")
        RULES[name] = function
        return function

    return register
