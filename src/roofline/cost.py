"""What one kernel demands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from roofline.errors import BadValue, shown
from roofline.num import Expr, Num, number

_NONE: Mapping[str, Num] = {}


@dataclass(frozen=True, slots=True)
class Cost:
    """FLOPs by rate, memory bytes by role, link bytes by link, steps on the link, launches.

    Roles: `weights`, `routed` (weights of experts beyond the fewest that the tokens can reach), `kv` (cache read),
    `activations` (everything else read or written), `output` (what the pass is run for: its logits), `scores` (of
    attention that does not tile them). Costs add, and multiply by a number of calls.
    """

    flops: Mapping[str, Num] = field(default_factory=lambda: _NONE)
    memory: Mapping[str, Num] = field(default_factory=lambda: _NONE)
    links: Mapping[str, Num] = field(default_factory=lambda: _NONE)
    steps: Num = 0
    launches: Num = 1
    __array_ufunc__: ClassVar[None] = None  # `array * cost` is left to Cost, as `cost * array` is

    @property
    def total_flops(self) -> Num:
        """FLOPs at every rate together [FLOP]."""
        return _sum(self.flops)

    @property
    def bytes(self) -> Num:
        """Memory bytes in every role together [byte]."""
        return _sum(self.memory)

    @property
    def link_bytes(self) -> Num:
        """Bytes that one rank sends, over every link together [byte]."""
        return _sum(self.links)

    @property
    def intensity(self) -> Num:
        """Arithmetic intensity [FLOP/byte]; 0 for a cost without memory bytes."""
        flops, moved = self.total_flops, self.bytes
        if isinstance(moved, (int, float)):
            return flops / moved if moved else 0.0
        return flops / moved if isinstance(moved, Expr) else _where_moved(flops, moved)

    def keep(self, *roles: str) -> Cost:
        """The same cost with only these memory roles."""
        memory = {role: n for role, n in self.memory.items() if role in roles}
        return Cost(self.flops, memory, self.links, self.steps, self.launches)

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            _merge(self.flops, other.flops),
            _merge(self.memory, other.memory),
            _merge(self.links, other.links),
            self.steps + other.steps,
            self.launches + other.launches,
        )

    def __mul__(self, times: Num) -> Cost:
        exact = number(times)
        if exact is None:
            raise BadValue(f"A cost times {shown(times)} is none. Possible: a finite number of calls.")
        times = exact
        return Cost(
            {key: n * times for key, n in self.flops.items()},
            {key: n * times for key, n in self.memory.items()},
            {key: n * times for key, n in self.links.items()},
            self.steps * times,
            self.launches * times,
        )

    __rmul__ = __mul__


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation returns: its registered name, its dims, and its cost."""

    op: str
    dims: Mapping[str, Num]
    cost: Cost

    @property
    def flops(self) -> Num:
        """FLOPs at every rate together [FLOP]."""
        return self.cost.total_flops

    @property
    def bytes(self) -> Num:
        """Memory bytes in every role together [byte]."""
        return self.cost.bytes

    @property
    def intensity(self) -> Num:
        """Arithmetic intensity [FLOP/byte]."""
        return self.cost.intensity

    def keep(self, *roles: str) -> Work:
        """The same work with only these roles of its memory bytes."""
        return Work(self.op, self.dims, self.cost.keep(*roles))


def _sum(parts: Mapping[str, Num]) -> Num:
    total: Num = 0
    for n in parts.values():
        total = total + n
    return total


def _where_moved(flops: Num, moved: Num) -> Num:
    import numpy as np

    demand, bytes_moved = np.broadcast_arrays(np.asarray(flops, float), np.asarray(moved, float))  # pyright: ignore
    return np.divide(demand, bytes_moved, out=np.zeros(demand.shape), where=bytes_moved != 0)


def _merge(a: Mapping[str, Num], b: Mapping[str, Num]) -> Mapping[str, Num]:
    if not b:
        return a
    merged = dict(a)
    for key, n in b.items():
        merged[key] = merged[key] + n if key in merged else n
    return merged
