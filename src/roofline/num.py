"""What formulas may be fed: exact ints, floats, NumPy arrays, or `Expr`, the traced number.

A formula uses `+ - * /` and the functions below, and nothing else; then the same lines give an
exact integer, a sweep over a million settings, and the formula itself as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

Num: TypeAlias = "int | float | Array | Expr"
Cond: TypeAlias = "bool | NDArray[np.bool_] | Expr"

_PLAIN = frozenset({int, float})


_LARGEST = 1 << 128  # a product of several is still a finite float


def number(value: object) -> Num | None:
    """`value` as formulas take it, or None for what is no finite number of a sensible size.

    NumPy's ints would wrap: a scalar becomes Python's, an array float64, which is exact to 2^53.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, (int, float)):
        return value if not isinstance(value, bool) and abs(value) <= _LARGEST else None
    if not hasattr(value, "dtype"):
        return None
    import numpy as np

    array = np.asarray(value)  # pyright: ignore
    if isinstance(value, np.ma.MaskedArray) or array.dtype.kind not in "iuf" or not array.size:
        return None
    if not array.ndim:
        return number(array.item())
    exact = array.astype(np.float64)
    return exact if bool((np.abs(exact) <= _LARGEST).all()) else None


def least_of(value: Num) -> float:
    """The smallest element of a number that is not traced."""
    return value if isinstance(value, (int, float)) else float(value.min())  # pyright: ignore


def largest_of(value: Num) -> float:
    """The largest element of a number that is not traced."""
    return value if isinstance(value, (int, float)) else float(value.max())  # pyright: ignore


def maximum(a: Num, b: Num) -> Num:
    """The larger of two numbers, element by element."""
    if a.__class__ in _PLAIN and b.__class__ in _PLAIN:
        return a if a >= b else b  # pyright: ignore
    if isinstance(a, Expr) or isinstance(b, Expr):
        return _node("max", a, b)
    import numpy as np

    return np.maximum(a, b)


def minimum(a: Num, b: Num) -> Num:
    """The smaller of two numbers, element by element."""
    if a.__class__ in _PLAIN and b.__class__ in _PLAIN:
        return a if a <= b else b  # pyright: ignore
    if isinstance(a, Expr) or isinstance(b, Expr):
        return _node("min", a, b)
    import numpy as np

    return np.minimum(a, b)


def where(condition: Cond, a: Num, b: Num) -> Num:
    """`a` where the condition holds, else `b`; both are evaluated."""
    if condition.__class__ is bool:
        return a if condition else b
    if isinstance(condition, Expr) or isinstance(a, Expr) or isinstance(b, Expr):
        return _node("where", condition, a, b)
    import numpy as np

    return np.where(condition, a, b)


def ceil_div(a: Num, b: Num) -> Num:
    """a / b rounded up to a whole number; exact for ints."""
    if isinstance(a, Expr) or isinstance(b, Expr):
        return _node("ceil_div", a, b)
    return -(-a // b)


def equal(a: Num, b: Num) -> Cond:
    """Whether two numbers are equal, element by element."""
    return _node("==", a, b) if isinstance(a, Expr) or isinstance(b, Expr) else a == b


def same(a: Num | None, b: Num | None) -> bool:
    """Whether two numbers are one and the same: equal plain numbers, one array, formulas of one shape."""
    if isinstance(a, Expr) and isinstance(b, Expr):
        return a is b or (a.op == b.op and len(a.args) == len(b.args) and all(map(_alike, a.args, b.args)))
    plain = (int, float, type(None))
    return a is b or (isinstance(a, plain) and isinstance(b, plain) and a == b)


def _alike(a: Any, b: Any) -> bool:
    return same(a, b) if not isinstance(a, str) else a == b


def zero(value: object) -> bool:
    """Whether a number is a plain zero; no array and no traced number is."""
    return value.__class__ in _PLAIN and value == 0


def exact_div(a: Num, b: Num) -> Num:
    """a / b, which stays an int where both are ints and b divides a."""
    if isinstance(a, int) and isinstance(b, int) and a % b == 0:
        return a // b
    return a / b


def power(base: Num, exponent: Num) -> Num:
    """`base` to the power of `exponent`; a float, but for two ints."""
    if isinstance(base, Expr) or isinstance(exponent, Expr):
        return _node("power", base, exponent)
    return base**exponent


_COMPARED, _ATOM = 1, 4
_INFIX: Mapping[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "<": (_COMPARED, lambda a, b: a < b),
    "<=": (_COMPARED, lambda a, b: a <= b),
    ">": (_COMPARED, lambda a, b: a > b),
    ">=": (_COMPARED, lambda a, b: a >= b),
    "==": (_COMPARED, equal),
    "+": (2, lambda a, b: a + b),
    "-": (2, lambda a, b: a - b),
    "*": (3, lambda a, b: a * b),
    "/": (3, lambda a, b: a / b),
    "//": (3, lambda a, b: a // b),
}
_CALLS: Mapping[str, Callable[..., Any]] = {
    "max": maximum,
    "min": minimum,
    "where": where,
    "ceil_div": ceil_div,
    "power": power,
}


class Expr:
    """A traced number: the formula that made it, printable and evaluable.

    `Expr.var("m")` starts a trace; arithmetic on it grows a tree that shares its branches.
    """

    __slots__ = ("args", "op")
    folds: ClassVar[bool] = True
    __array_ufunc__ = None  # `array * expr` is left to Expr, as `expr * array` is

    def __init__(self, op: str, args: tuple[Any, ...]) -> None:
        self.op = op
        self.args = args

    @classmethod
    def var(cls, name: str) -> Expr:
        """A free variable."""
        return cls("var", (name,))

    @classmethod
    def of(cls, op: str, *args: object) -> Expr:
        """The node `op` over its arguments; plain numbers become constants."""
        return cls(op, tuple([each if isinstance(each, Expr) else cls("const", (each,)) for each in args]))

    def evaluate(self, **values: Num) -> Num:
        """The number that the formula gives for these values of its variables."""
        seen: dict[int, Any] = {}

        def walk(node: Expr) -> Any:
            key = id(node)
            if key not in seen:
                if node.op == "var":
                    seen[key] = values[node.args[0]]
                elif node.op == "const":
                    seen[key] = node.args[0]
                else:
                    call = _INFIX[node.op][1] if node.op in _INFIX else _CALLS[node.op]
                    seen[key] = call(*(walk(each) for each in node.args))
            return seen[key]

        return walk(self)

    def at(self, **values: Num) -> Expr:
        """The formula that holds at these values: of each choice (where, max, min) the branch that they take."""
        if self.op in ("var", "const"):
            return self
        if self.op == "where":
            condition, a, b = self.args
            return (a if condition.evaluate(**values) else b).at(**values)
        if self.op in ("max", "min"):
            chosen = self.evaluate(**values)
            return next(each for each in self.args if each.evaluate(**values) == chosen).at(**values)
        args = tuple(each.at(**values) for each in self.args)
        # Through the operators, which fold zeros and ones away.
        return _lift(_INFIX[self.op][1](*args)) if self.op in _INFIX else Expr(self.op, args)

    def __str__(self) -> str:
        return self._text()[0]

    __repr__ = __str__

    def _text(self) -> tuple[str, int]:
        if self.op in ("var", "const"):
            return str(self.args[0]), _ATOM
        if self.op not in _INFIX:
            return f"{self.op}({', '.join(str(each) for each in self.args)})", _ATOM
        strength = _INFIX[self.op][0]
        (left, a), (right, b) = (each._text() for each in self.args)
        chained = strength == _COMPARED and a == strength
        left = f"({left})" if a < strength or chained else left
        loose = b < strength or (b == strength and self.op != "+")
        return f"{left} {self.op} {f'({right})' if loose else right}", strength

    def __bool__(self) -> bool:
        raise TypeError("a traced number has no truth value: use num.where instead of `if`")

    def _is(self, value: int) -> bool:
        return self.op == "const" and self.args[0].__class__ in _PLAIN and self.args[0] == value

    def _folded(self, value: int, other: object) -> bool:
        """Whether `other` is this neutral number, and is folded away."""
        if not self.folds:
            return False
        return other._is(value) if isinstance(other, Expr) else other.__class__ in _PLAIN and other == value

    def _lift(self, value: Num) -> Expr:
        return value if isinstance(value, Expr) else self.__class__("const", (value,))

    def __add__(self, other: Num) -> Expr:
        if self._folded(0, other):
            return self
        return self._lift(other) if self._folded(0, self) else self.of("+", self, other)

    def __radd__(self, other: Num) -> Expr:
        return self._lift(other).__add__(self)

    def __sub__(self, other: Num) -> Expr:
        return self if self._folded(0, other) else self.of("-", self, other)

    def __rsub__(self, other: Num) -> Expr:
        return self._lift(other).__sub__(self)

    def __mul__(self, other: Num) -> Expr:
        if self._folded(0, other) or self._folded(0, self):
            return self._lift(0)
        if self._folded(1, other):
            return self
        return self._lift(other) if self._folded(1, self) else self.of("*", self, other)

    def __rmul__(self, other: Num) -> Expr:
        return self._lift(other).__mul__(self)

    def __truediv__(self, other: Num) -> Expr:
        return self if self._folded(1, other) else self.of("/", self, other)

    def __rtruediv__(self, other: Num) -> Expr:
        return self._lift(other).__truediv__(self)

    def __floordiv__(self, other: Num) -> Expr:
        return self.of("//", self, other)

    def __rfloordiv__(self, other: Num) -> Expr:
        return self._lift(other).__floordiv__(self)

    def __neg__(self) -> Expr:
        return self.of("-", 0, self)

    def __lt__(self, other: Num) -> Expr:
        return self.of("<", self, other)

    def __le__(self, other: Num) -> Expr:
        return self.of("<=", self, other)

    def __gt__(self, other: Num) -> Expr:
        return self.of(">", self, other)

    def __ge__(self, other: Num) -> Expr:
        return self.of(">=", self, other)


class Whole(Expr):
    """A traced number that keeps its zeros and ones: formulas of one kind have one shape, whatever their sizes."""

    __slots__ = ()
    folds = False


def _node(op: str, *args: object) -> Expr:
    """A node of the kind of its traced argument."""
    return next(each for each in args if isinstance(each, Expr)).of(op, *args)


def _lift(value: Num) -> Expr:
    return value if isinstance(value, Expr) else Expr("const", (value,))
