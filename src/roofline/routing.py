"""Which experts the tokens of a pass reach: as many as an even or a skewed choice lets expect, or as many as given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from roofline.errors import BadValue, shown
from roofline.num import Expr, Num, largest_of, maximum, minimum, number, power, where
from roofline.ops import distinct

_STEEPEST = 10.0


@dataclass(frozen=True, slots=True)
class Spread:
    """How tokens spread over experts.

    `skew` is the exponent of a power law: the i-th most popular expert is chosen in proportion to i^-skew, 0 is an
    even choice. `touched` is how many experts a layer reaches, where that is known. Raises BadValue.
    """

    skew: float = 0.0
    touched: Num | None = None

    def __post_init__(self) -> None:
        skew = number(self.skew)
        if not isinstance(skew, (int, float)) or not 0 <= skew <= _STEEPEST:
            raise BadValue(f"The skew of the routing is {shown(self.skew)}. Possible: a number from 0 to {_STEEPEST}.")
        if self.touched is None:
            return
        touched = number(self.touched)
        if touched is None or (isinstance(touched, (int, float)) and touched < 1):
            raise BadValue(f"The experts touched are {shown(self.touched)}. Possible: a number of 1 or more.")
        object.__setattr__(self, "touched", touched)


EVEN = Spread()


@dataclass(frozen=True, slots=True)
class Routing:
    """`tokens`, each of which chooses `top_k` of `experts` under a spread."""

    experts: int
    top_k: int
    tokens: Num
    spread: Spread = EVEN

    @property
    def fewest(self) -> Num:
        """Experts reached where every token chooses the same."""
        return minimum(self.top_k, self.most)

    @property
    def most(self) -> Num:
        """Experts reached where no two tokens choose the same, as long as there are others."""
        return minimum(self.experts, self.tokens * self.top_k)

    @property
    def touched(self) -> Num:
        """Experts expected to be reached, or those given, within the fewest and the most."""
        if self.spread.touched is not None:
            return minimum(maximum(self.spread.touched, self.fewest), self.most)
        if not self.spread.skew:
            return distinct(self.tokens, self.experts, self.top_k)
        expected: Num = 0
        for chance in _chances(self.experts, self.top_k, self.spread.skew):
            expected = expected + (1 - power(1 - chance, self.tokens))
        return where(self.tokens > 1, expected, self.top_k * self.tokens)

    def busiest(self, ranks: int) -> float:
        """The share of all rows that the busiest of `ranks` holders of experts has at the least.

        An even part, or what the most popular expert has, which cannot be split.
        """
        return max(1 / ranks, max(_chances(self.experts, self.top_k, self.spread.skew)) / self.top_k)

    def possible(self) -> bool:
        """Whether so many experts can be reached as are given."""
        given, most = self.spread.touched, self.most
        if given is None or isinstance(given, Expr) or isinstance(most, Expr):
            return True
        over = maximum(self.fewest - given, given - most)
        return isinstance(over, Expr) or largest_of(over) <= 0


@cache
def _chances(experts: int, top_k: int, skew: float) -> tuple[float, ...]:
    """The chance of each expert to be among the top_k of a token; they add up to top_k and none is above 1."""
    weights = [(place + 1.0) ** -skew for place in range(experts)]
    sure = 0  # experts that every token chooses, as their share would be more than one of the top_k
    while sure < top_k and weights[sure] * (top_k - sure) >= sum(weights[sure:]):
        sure += 1
    rest = sum(weights[sure:])
    return (*(1.0,) * sure, *((top_k - sure) * each / rest for each in weights[sure:]))
