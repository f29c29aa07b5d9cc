"""Text to base SI units and back: the one module that knows what kilo, giga and gibi are.

Rates, FLOPs and bandwidths are SI; memory is printed in GiB; lengths in tokens are binary (8k is
8,192), every other count is SI (4M is four million). Both prefixes are accepted, never mixed up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from roofline.errors import BadValue, shown

if TYPE_CHECKING:
    from quantiphy import Quantity

KILO, MEGA, GIGA, TERA = 1e3, 1e6, 1e9, 1e12
NS_PER_US, NS_PER_S = 10**3, 10**9  # traces count in whole nanoseconds
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# What a figure may be written in, and the base unit that it is then in.
_ALIASES = {
    "FLOPS": "FLOP/s",
    "FLOP/S": "FLOP/s",
    "OP/s": "FLOP/s",
    "OPS": "FLOP/s",
    "Bps": "B/s",
    "byte/s": "B/s",
    "byte": "B",
    "bytes": "B",
}
_QUANTITY = re.compile(r"\s*[+-]?(\d|\.\d|nan|inf)[\w.+-]{0,40}\s*[\w/µμ]{0,16}\s*\Z", re.IGNORECASE)
# How data files write a figure: read without QuantiPhy, whose import takes a tenth of what a prediction does.
_PLAIN = re.compile(r"(\d{1,15}(?:\.\d{1,15})?) ([kMGTP]|[MG]i|)(B|B/s|FLOP/s|OP/s|Hz|W|s)", re.ASCII)
_POWERS = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_PREFIX = {18: "E", **{power: prefix for prefix, power in _POWERS.items()}, -3: "m", -6: "u", -9: "n", -12: "p"}
_COUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i|[kmgbt]?)", re.ASCII | re.IGNORECASE)
_GROUPED = re.compile(r"(?<![\d.])\d{1,3}(,\d{3})+(?!\d)")
_AMOUNT = re.compile(r"(\d{1,30}(?:\.\d{0,30})?(?:e[+-]?\d{1,2})?)\s*([kmgt]?)", re.ASCII | re.IGNORECASE)
_WHOLE = {"ki": KIB, "mi": MIB, "gi": GIB, "ti": 1 << 40}
_BINARY = {"": 1, "k": KIB, "m": MIB, "g": GIB, **_WHOLE}
_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9, "t": 10**12, **_WHOLE}


def quantity(text: str, unit: str) -> float:
    """The number that `text` ("3.352 TB/s", "80 GiB") states, in the base unit `unit`.

    Units: B, B/s, FLOP/s (also written FLOPS, OP/s, OPS), Hz, W, s. Raises BadValue where the text
    is no finite positive number or its unit is another.
    """
    plain = _PLAIN.fullmatch(text)
    if plain and _ALIASES.get(plain[3], plain[3]) == unit and float(plain[1]):
        number, prefix = plain[1], plain[2]
        return float(f"{number}e{_POWERS[prefix]}") if prefix in _POWERS else float(number) * _WHOLE[prefix.lower()]
    from quantiphy import InvalidNumber, Quantity

    example = f"Write it as a number with its unit, as '1.5 T{unit}'."
    try:
        # Quantiphy also reads names and comments around a number ("x = 5 B # five"); here they are mistakes.
        parsed = Quantity(_ungrouped(text) if _QUANTITY.match(_ungrouped(text)) else "", binary=True)
    except InvalidNumber:
        raise BadValue(f"{shown(text)} is not a quantity in {unit}. {example}") from None
    found = _ALIASES.get(parsed.units, parsed.units)
    if found != unit:
        raise BadValue(f"{shown(text)} has the unit {shown(found)}, not {unit}. {example}")
    if not math.isfinite(parsed.real) or parsed.real <= 0:
        raise BadValue(f"{shown(text)} is not a finite number above zero. {example}")
    return parsed.real


def length(text: str) -> int:
    """Tokens of a sequence; `8k` is 8,192. Raises BadValue."""
    return _counted(text, _BINARY, "a length in tokens", "as 8192 or 8k (k is 1,024 for lengths)")


def count(text: str) -> int:
    """Any other count; `4M` is four million. Raises BadValue."""
    return _counted(text, _DECIMAL, "a count", "as 64 or 4M")


def amount(text: str) -> float:
    """Any number above zero, as a rate in tokens/s is: `72018`, `238.3k`, `1.5e6`. Raises BadValue."""
    match = _AMOUNT.fullmatch(_ungrouped(text.strip()))
    value = float(match[1]) * _DECIMAL[match[2].lower()] if match else 0.0
    if not 0 < value < math.inf:
        raise BadValue(f"{shown(text)} is not a number above zero. Write it as 72018, 238.3k or 1.5e6.")
    return value


def seconds(text: str) -> float:
    """A time [s]: `3.64s`, `650 ms`, or a number of seconds. Raises BadValue."""
    bare = _AMOUNT.fullmatch(text.strip())
    return amount(text) if bare and not bare[2] else quantity(text, "s")


def _ungrouped(text: str) -> str:
    """`text` without the commas of grouped thousands; a comma for a decimal point stays, and is refused."""
    return _GROUPED.sub(lambda match: match[0].replace(",", ""), text)


def _counted(text: str, prefixes: dict[str, int], what: str, example: str) -> int:
    match = _COUNT.fullmatch(_ungrouped(text.strip()).replace("_", ""))
    factor = prefixes.get(match[2].lower()) if match else None
    if match is not None and len(match[1]) > 24:
        raise BadValue(f"{shown(text, 20)} is too large. Write a number of fewer than 25 digits, {example}.")
    if match is None or factor is None:
        raise BadValue(f"{shown(text)} is not {what}. Write a whole number of zero or more, {example}.")
    value = Fraction(match[1]) * factor
    if value.denominator != 1:
        raise BadValue(f"{shown(text)} is not {what}: it is {float(value):g}. Write a whole number, {example}.")
    return value.numerator


def si(value: float, unit: str, digits: int = 4) -> str:
    """`value` with an SI prefix: `si(3.352e12, "B/s")` is "3.352 TB/s"."""
    if unit == "s" and value >= 1:
        return f"{significant(value, digits)} s" if value < GIGA else f"{value:.{digits - 1}e} s"
    rounded = f"{value:.{digits - 1}e}"
    power = int(rounded.partition("e")[2]) // 3 * 3 if math.isfinite(value) else 99
    prefix = _PREFIX.get(power)
    if prefix is not None and (power <= 0 if unit == "s" else power >= 0):
        return f"{significant(float(rounded) / float(f'1e{power}'), digits)} {prefix}{unit}"
    # What has no such prefix: QuantiPhy, whose import takes a tenth of what a prediction does.
    rendered = _scaled("munp" if unit == "s" else "EPTGMk")(value, unit)
    return rendered.render(prec=digits - 1)  # pyright: ignore


@cache
def _scaled(prefixes: str) -> type[Quantity]:
    """QuantiPhy's Quantity with these prefixes and trailing zeros: a class of our own, as preferences are global."""
    from quantiphy import Quantity

    kind = type("Scaled", (Quantity,), {})
    kind.set_prefs(output_sf=prefixes, strip_zeros=False)  # pyright: ignore
    return kind


_SCALES = (
    ("P", 1e15),
    ("T", TERA),
    ("G", GIGA),
    ("M", MEGA),
    ("k", KILO),
    ("", 1.0),
    ("m", 1e-3),
    ("u", 1e-6),
    ("n", 1e-9),
)


def scale(total: float, unit: str) -> tuple[float, str]:
    """What to divide a column by so that its sum has two to four digits before the point, and its unit.

    Seconds have one to three, and go down to ns; other units have whole prefixes only.
    """
    least = 10.0 if unit != "s" else 1.0
    for name, size in _SCALES:
        if total >= least * size and (size <= 1 if unit == "s" else size >= 1):
            return size, name + unit
    return (1.0, unit) if unit != "s" else (1e-9, "ns")


def gib(n: float) -> str:
    """Bytes as memory is printed: "15.26 GiB", small ones in MiB or KiB."""
    for size, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(n) >= size:
            shown = f"{n / size:,.2f}".rstrip("0").rstrip(".")
            return f"{shown} {name}"
    return f"{n:,.0f} B"


def significant(value: float, digits: int = 3) -> str:
    """`value` with that many significant digits, thousands marked; what is next to nothing in exponent form."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-7 or abs(value) >= 1e16:
        return f"{value:.{digits - 1}e}"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # after rounding: 9.996 to three is 10.0
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def percent(share: float, digits: int = 2) -> str:
    """A share of 1 as a percentage: `percent(0.831)` is "83 %"."""
    return f"{significant(100 * share, digits if share < 1 else digits + 1)} %"


def column(values: Sequence[float], scale: float, digits: int = 4) -> list[str]:
    """`values` over `scale` with one number of decimals, so that a table column lines up."""
    largest = max((abs(v) / scale for v in values), default=0.0)
    if largest >= MEGA:
        return [f"{v / scale:.3g}" for v in values]  # too wide for a column, in any unit
    whole = math.floor(math.log10(largest)) + 1 if largest > 0 else 1
    places = min(4, max(0, digits - max(whole, 1)))
    return [f"{v / scale:,.{places}f}" for v in values]


_PREFIXES = {
    "p": 1e-12,
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "k": KILO,
    "K": KILO,
    "M": MEGA,
    "G": GIGA,
    "T": TERA,
    "P": 1e15,
}
_BASES = {
    **dict.fromkeys(("byte", "bytes", "B"), "byte"),
    **dict.fromkeys(("second", "sec", "seconds", "s"), "second"),
    **dict.fromkeys(("cycle", "cycles"), "cycle"),
    **dict.fromkeys(("hz", "Hz", "HZ"), "hz"),
    **dict.fromkeys(("inst", "sector", "request", "block", "thread", "warp", "register", "W"), ""),
    **dict.fromkeys(("FLOP/s", "FLOPS", "FLOP"), "FLOP"),
}
_BINARY_BYTES = {"KiB": KIB, "MiB": MIB, "GiB": GIB}


def tool_unit(text: str) -> tuple[float, str]:
    """What a profiler's unit is in base units: `tool_unit("Gbyte/second")` is (1e9, "byte/second").

    Percentages are shares ("%" is (0.01, "share")); a unit that is not known is (1, itself). Prefixes are SI,
    also in "Kbyte".
    """
    text = text.strip()
    if text == "%":
        return 0.01, "share"
    if text in _BINARY_BYTES:
        return float(_BINARY_BYTES[text]), "byte"
    above, slash, below = text.partition("/")
    top, bottom = _prefixed(above), _prefixed(below)
    if top is None or (slash and bottom is None):
        return 1.0, text
    factor, base = top
    if not slash or bottom is None:
        return factor, base
    joined = f"{base}/{bottom[1]}"
    return factor / bottom[0], "hz" if joined == "cycle/second" else joined


def _prefixed(unit: str) -> tuple[float, str] | None:
    if unit in _BASES:
        return 1.0, _BASES[unit]
    if unit[:1] in _PREFIXES and unit[1:] in _BASES:
        return _PREFIXES[unit[0]], _BASES[unit[1:]]
    return None
