"""How options are written: counts, lengths, shares. Each error names the option."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token

from roofline import units
from roofline.errors import BadValue, shown


def _converter(parse: Callable[[str], Any]) -> Callable[[Any, Sequence[Token]], Any]:
    def convert(_: Any, tokens: Sequence[Token]) -> Any:
        token = tokens[0]
        try:
            return parse(token.value)
        except BadValue as error:
            raise BadValue(f"{token.keyword or 'the argument'}: {error}") from None

    return convert


def efficiency(text: str) -> tuple[float, float]:
    """`BANDWIDTH/COMPUTE` as two shares; raises BadValue."""
    try:
        bandwidth, compute = (float(each) for each in text.split("/"))
    except ValueError:
        raise BadValue(f"{shown(text)} is not BANDWIDTH/COMPUTE. Write two shares, as 0.80/0.75.") from None
    if not (0 < bandwidth <= 1 and 0 < compute <= 1):
        raise BadValue(f"{shown(text)} is out of range. Both shares are above 0 and up to 1, as 0.80/0.75.")
    return bandwidth, compute


Count = Annotated[int, Parameter(converter=_converter(units.count), allow_leading_hyphen=True, n_tokens=1)]
Length = Annotated[int, Parameter(converter=_converter(units.length), allow_leading_hyphen=True, n_tokens=1)]
Efficiency = Annotated[
    tuple[float, float], Parameter(converter=_converter(efficiency), allow_leading_hyphen=True, n_tokens=1)
]


def print_json(record: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(record, indent=1, allow_nan=False) + "\n")
