"""Traced formulas as JavaScript: one function for all formulas of one shape, called with the constants of each.

What a model's pass costs is the same formula as that of the next model with other sizes. So the functions are few,
every number that differs is an argument, and what occurs twice is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, product
from string import ascii_letters
from typing import Any, NamedTuple, cast

from roofline.errors import RooflineError
from roofline.num import Expr, Num

# How each node is written, with {0} {1} {2} for its arguments, and how strongly it binds; 9 needs no brackets.
_WRITTEN: Mapping[str, tuple[str, int]] = {
    "+": ("{0}+{1}", 5),
    "-": ("{0}-{1}", 5),
    "*": ("{0}*{1}", 6),
    "/": ("{0}/{1}", 6),
    "<": ("{0}<{1}", 4),
    "<=": ("{0}<={1}", 4),
    ">": ("{0}>{1}", 4),
    ">=": ("{0}>={1}", 4),
    "==": ("{0}=={1}", 3),
    "where": ("{0}?{1}:{2}", 1),
    "max": ("$x({0},{1})", 9),
    "min": ("$n({0},{1})", 9),
    "//": ("$f({0}/{1})", 9),
    "ceil_div": ("$c({0}/{1})", 9),
    "power": ("$p({0},{1})", 9),
}
_CALLED = 9
_LEAVES = frozenset({"var", "const"})
_NEUTRAL = {"+": 0, "-": 0, "*": 1, "/": 1}
# What the functions call; stands before them.
PRELUDE = "const $x=Math.max,$n=Math.min,$f=Math.floor,$c=Math.ceil,$p=Math.pow;"
_RESERVED = frozenset({"do", "if", "in", "as", "is", "of", "NaN", "for", "let", "new", "try", "var", "get", "set"})


class Call(NamedTuple):
    """How to get a formula's values: the number of its function, and the constants to call it with."""

    function: int
    constants: tuple[float, ...]


class Script(NamedTuple):
    """Functions `(constants, variables) => values` as JavaScript, and a call for each set of formulas."""

    functions: tuple[str, ...]
    calls: tuple[Call, ...]


# A node: its operation and its arguments, which are numbers of nodes before it, or a name, or a constant.
_Node = tuple[str, tuple[Any, ...]]


class _Trace(NamedTuple):
    nodes: list[_Node]
    results: list[int]

    @property
    def shape(self) -> tuple[Any, ...]:
        """Everything but the constants."""
        return (tuple((op, None if op == "const" else args) for op, args in self.nodes), tuple(self.results))


def script(sets: Sequence[Sequence[Num]], variables: Sequence[str]) -> Script:
    """Every set of formulas over these variables; raises RooflineError for an operation that has no JavaScript."""
    traces = [_trace(formulas) for formulas in sets]
    shapes: dict[tuple[Any, ...], list[int]] = {}
    for index, trace in enumerate(traces):
        shapes.setdefault(trace.shape, []).append(index)
    functions: list[str] = []
    calls: dict[int, Call] = {}
    for function, members in enumerate(shapes.values()):
        text, constants = _function([traces[each] for each in members], variables)
        functions.append(text)
        calls |= {each: Call(function, own) for each, own in zip(members, constants, strict=True)}
    return Script(tuple(functions), tuple(calls[index] for index in range(len(traces))))


def _trace(formulas: Sequence[Num]) -> _Trace:
    """The nodes of all formulas, arguments first; a node that several share is there once."""
    nodes: list[_Node] = []
    seen: dict[int, int] = {}

    def walk(each: Expr) -> int:
        key = id(each)
        place = seen.get(key)
        if place is None:
            args = each.args if each.op in _LEAVES else tuple([walk(arg) for arg in each.args])
            place = seen[key] = len(nodes)
            nodes.append((each.op, args))
        return place

    lifted = [each if isinstance(each, Expr) else Expr("const", (each,)) for each in formulas]
    return _Trace(nodes, [walk(each) for each in lifted])


def _function(traces: Sequence[_Trace], variables: Sequence[str]) -> tuple[str, list[tuple[float, ...]]]:
    """One function for traces of one shape, and the constants of each."""
    nodes, results = _shared(traces)
    used = _uses(nodes, results)
    names = _names()
    known = {name: next(names) for name in variables}
    holes: list[tuple[float, ...]] = []
    told: list[str] = []
    texts: list[tuple[str, int]] = []
    letters: list[str] = []
    for index, (op, args) in enumerate(nodes):
        if not used[index]:
            texts.append(("", _CALLED))
        elif op == "var":
            texts.append((known[args[0]], _CALLED))
        elif op == "const":
            column: tuple[float, ...] = args[0]
            if len(set(column)) == 1:
                texts.append((_number(column[0]), _CALLED if column[0] >= 0 else 0))
            else:
                holes.append(column)
                letters.append(next(names))
                texts.append((letters[-1], _CALLED))
        else:
            text = _written(op, [texts[each] for each in _places(args)])
            if used[index] > 1:
                name = next(names)
                told.append(f"{name}={text[0]}")
                text = name, _CALLED
            texts.append(text)
    taken = ",".join(known.values())
    body = f"const {','.join(told)};" if told else ""
    returned = ",".join(texts[each][0] for each in results)
    function = f"([{','.join(letters)}],[{taken}])=>{{{body}return[{returned}]}}"
    return function, [tuple(_plain(column[i]) for column in holes) for i in range(len(traces))]


def _places(args: tuple[Any, ...]) -> tuple[int, ...]:
    """The arguments of an operation: the numbers of their nodes."""
    return args


def _shared(traces: Sequence[_Trace]) -> tuple[list[_Node], list[int]]:
    """The nodes of traces of one shape with equal ones once; constants as a column over the traces."""
    nodes: list[_Node] = []
    found: dict[_Node, int] = {}
    place: list[int] = []
    for index, (op, args) in enumerate(traces[0].nodes):
        if op == "const":
            node = op, (tuple(trace.nodes[index][1][0] for trace in traces),)
        elif op == "var":
            node = op, args
        else:
            taken = tuple(place[each] for each in _places(args))
            node = _folded(op, taken, nodes)
            if isinstance(node, int):
                place.append(node)
                continue
        if node not in found:
            nodes.append(node)
            found[node] = len(nodes) - 1
        place.append(found[node])
    return nodes, [place[each] for each in traces[0].results]


def _folded(op: str, args: tuple[int, ...], nodes: Sequence[_Node]) -> _Node | int:
    """The node, or the constants that it is for all traces, or the argument that it leaves as it is."""
    columns = [nodes[each][1][0] if nodes[each][0] == "const" else None for each in args]
    if all(column is not None for column in columns):
        values = zip(*cast("list[tuple[float, ...]]", columns), strict=True)
        return "const", (tuple(Expr.of(op, *each).evaluate() for each in values),)
    for place, column in enumerate(columns):
        if column is not None and set(column) == {_NEUTRAL.get(op)} and (place == 1 or op in ("+", "*")):
            return args[1 - place]
    if op == "*" and {0} in [set(column) for column in columns if column is not None]:
        return "const", ((0,) * len(next(column for column in columns if column is not None)),)
    return op, args


def _uses(nodes: Sequence[_Node], results: Sequence[int]) -> list[int]:
    """How often the value of each node is asked for."""
    used = [0] * len(nodes)
    for each in results:
        used[each] += 1
    for index in range(len(nodes) - 1, -1, -1):
        op, args = nodes[index]
        if used[index] and op not in ("var", "const"):
            for each in args:
                used[each] += 1
    return used


def _written(op: str, args: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """A node as text, in brackets where an argument binds less; the order of a sum or product stays."""
    if op not in _WRITTEN:
        raise RooflineError(f"The operation {op!r} of a formula has no JavaScript yet.")
    form, strength = _WRITTEN[op]
    if strength == _CALLED:
        inner = [text if op in ("max", "min", "power") else _in(text, own, 7) for text, own in args]
    else:
        inner = [_in(text, own, strength + (place > 0 or strength < 5)) for place, (text, own) in enumerate(args)]
    return form.format(*inner), strength


def _in(text: str, own: int, least: int) -> str:
    return text if own >= least else f"({text})"


def _plain(value: float) -> float:
    """A constant as a double has it, as an int where that is shorter to write."""
    return int(value) if value % 1 == 0 and abs(value) < 1 << 53 else float(value)


def _number(value: float) -> str:
    return repr(_plain(value))


def _names() -> Iterator[str]:
    """Short names that JavaScript does not keep for itself."""
    for length in count(1):
        for each in product(ascii_letters, repeat=length):
            name = "".join(each)
            if name not in _RESERVED:
                yield name
