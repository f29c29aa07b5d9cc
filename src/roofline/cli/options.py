"""How options are written: counts, lengths, shares. Each error names the option."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token

from roofline import units
from roofline.errors import BadValue, shown
from roofline.shard import MOST_RANKS
from roofline.workload import MOST, size


def _option(convert: Callable[[str, str], Any]) -> Parameter:
    """An option of one word; `convert(option, word)` raises BadValue, which then names the option."""

    def converted(_: Any, tokens: Sequence[Token]) -> Any:
        name = tokens[0].keyword or "the argument"
        try:
            return convert(name, tokens[0].value)
        except BadValue as error:
            raise error if str(error).startswith(name) else BadValue(f"{name}: {error}") from None

    return Parameter(converter=converted, allow_leading_hyphen=True, n_tokens=1, negative=())


def _sized(parse: Callable[[str], int], least: int, most: int = MOST) -> Parameter:
    """An option that is a size in a range."""
    return _option(lambda name, text: size(name, parse(text), least, most))


_LEAST_SHARE = 0.01


def efficiency(text: str | None) -> tuple[float, float] | None:
    """`BANDWIDTH/COMPUTE` of --efficiency as two shares; raises BadValue."""
    if text is None:
        return None
    try:
        bandwidth, compute = (float(each) for each in text.split("/"))
    except ValueError:
        raise BadValue(
            f"--efficiency: {shown(text)} is not BANDWIDTH/COMPUTE. Write two shares, as 0.80/0.75."
        ) from None
    if not all(_LEAST_SHARE <= share <= 1 for share in (bandwidth, compute)):
        raise BadValue(
            f"--efficiency: {shown(text)} is out of range. Both shares are from {_LEAST_SHARE} to 1, as 0.80/0.75."
        )
    return bandwidth, compute


Sequences = Annotated[int, _sized(units.count, 1)]
Tokens = Annotated[int, _sized(units.length, 1)]
Context = Annotated[int, _sized(units.length, 0)]
Ranks = Annotated[int, _sized(units.count, 1, MOST_RANKS)]


def print_json(record: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(record, indent=1, allow_nan=False) + "\n")
