"""The formulas of every operation as Markdown, traced from the code that counts."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, getdoc, signature
from typing import Any

from roofline import collectives as _collectives  # registers its operations, as does recurrence
from roofline import recurrence as _recurrence
from roofline.num import Expr, Num
from roofline.ops import OPS

_ = _collectives, _recurrence
_HEAD = """# Formulas

Made by `scripts/docs` from the functions that count; a test holds the two together. Bytes are those of BF16 operands.
A formula with `where(c, a, b)` is a where c holds, else b. See [conventions](conventions.md).
"""


def formulas_text() -> str:
    """The page: for each operation what it is, and its FLOPs and bytes by role."""
    return "\n".join([_HEAD, *(line for name in sorted(OPS) for line in _section(name))])


def _section(name: str) -> Iterator[str]:
    operation = OPS[name]
    parameters = signature(operation).parameters
    sizes: dict[str, Any] = {
        key: Expr.var(key) for key, each in parameters.items() if _sized(each) and each.default is Parameter.empty
    }
    defaults = [f"{key} = {each.default}" for key, each in parameters.items() if _sized(each) and key not in sizes]
    cost = operation(**sizes).cost
    yield f"## {name}\n"
    first, *_ = (getdoc(operation) or "").split("\n\n")
    yield " ".join(first.split()) + "\n"
    given = ", ".join(sizes)
    yield f"Dims: {given}." + (f" Also, at their defaults here: {', '.join(defaults)}." if defaults else "") + "\n"
    yield "| what | formula |\n|---|---|"
    counted: list[tuple[str, Num]] = [(f"FLOP at the rate {rate}", n) for rate, n in cost.flops.items()]
    counted += [(f"bytes, {role}", n) for role, n in cost.memory.items()]
    counted += [(f"bytes sent on the {link}", n) for link, n in cost.links.items()]
    for what, formula in counted:
        yield f"| {what} | `{formula}` |"
    yield ""


def _sized(parameter: Parameter) -> bool:
    return str(parameter.annotation).startswith("Num")
