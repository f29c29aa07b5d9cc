"""The header of a safetensors file: a length of 8 bytes, that many bytes of JSON, and the tensors behind it.

Source: the format's own description (safetensors, `README.md`, section Format).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NoReturn, cast

from roofline.checkpoints.sources import Source
from roofline.checkpoints.tensors import LONGEST_NAME, MOST_TENSORS, Fault, Tensor, check_pointer, elements
from roofline.dtypes import DTYPES, DType
from roofline.errors import shown
from roofline.units import MIB

MOST = 32 * MIB  # [byte] of a header: some 200,000 tensors, twice what the largest checkpoints have in all their files
_LENGTH = 8
_METADATA = "__metadata__"
_FIELDS = ("dtype", "shape", "data_offsets")
_MOST_BRACKETS = 4 * MOST_TENSORS  # a tensor has three
_KEYS = set(_FIELDS)
_DIMENSIONS = 64

FORMATS = {
    "F64": DTYPES["fp64"],
    "F32": DTYPES["fp32"],
    "F16": DTYPES["fp16"],
    "BF16": DTYPES["bf16"],
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E4M3FN", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), DTYPES["fp8"]),
    "F8_E8M0": DType("e8m0", 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), DTYPES["fp6"]),
    "F4": DTYPES["fp4"],
    "C64": DType("complex64", 64),
    **{f"I{bits}": DType(f"int{bits}", bits) for bits in (8, 16, 32, 64)},
    **{f"U{bits}": DType(f"uint{bits}", bits) for bits in (8, 16, 32, 64)},
    "BOOL": DType("bool", 8),
}


def read(source: Source) -> tuple[Tensor, ...]:
    """The tensors of a file by its header, which is checked against the file; raises CheckpointError."""
    fault = Fault(source.where)
    start = source.read(0, _LENGTH)
    if len(start) < _LENGTH:
        raise fault(f"it has {len(start)} bytes, too few for a safetensors header.")
    check_pointer(start, fault)
    length = int.from_bytes(start, "little")
    left = source.size - _LENGTH
    if length > left:
        raise fault(
            f"its first bytes say a header of {length:,} bytes, and {left:,} bytes follow: no safetensors file, or cut."
        )
    if length > MOST:
        raise fault(f"its header has {length / MIB:,.0f} MiB, more than the {MOST / MIB:g} MiB that are read.")
    header = source.read(_LENGTH, length)
    if len(header) < length:
        raise fault(f"its header of {length:,} bytes ends after {len(header):,}.")
    return _checked(_entries(header, fault), left - length, fault)


_Entry = tuple[DType, tuple[int, ...], int, int]


def _entries(header: bytes, fault: Fault) -> dict[str, _Entry]:
    """The entries of a header; each is made small as it is parsed, so that what is held is not many times the text."""
    if header.count(b"[") + header.count(b"{") > _MOST_BRACKETS:
        raise fault(f"its header has more lists and objects than {MOST_TENSORS:,} tensors need.")
    found = _parsed(header, fault)
    if not isinstance(found, dict):
        raise fault(f"its header holds a {type(found).__name__}, no object of tensors.")
    tensors = cast("dict[str, Any]", found)
    tensors.pop(_METADATA, None)
    if len(tensors) > MOST_TENSORS:
        raise fault(f"its header names {len(tensors):,} tensors, more than the {MOST_TENSORS:,} that are read.")
    for name, entry in tensors.items():
        if not isinstance(entry, tuple):
            raise fault(f"the tensor {shown(name)} is {shown(entry)}; it needs {', '.join(_FIELDS)} and no more.")
        if len(name) > LONGEST_NAME:
            raise fault(f"a tensor's name has {len(name):,} letters, more than {LONGEST_NAME:,}.")
    return cast("dict[str, _Entry]", tensors)


def _parsed(header: bytes, fault: Fault) -> object:
    """The JSON of a header, its tensors as entries already; raises CheckpointError."""

    def pairs(found: list[tuple[str, Any]]) -> Any:
        entry = dict(found)
        if len(entry) < len(found):
            twice = next(a for a, b in pairwise(sorted(key for key, _ in found)) if a == b)
            raise fault(f"its header names {shown(twice)} twice.")
        return _entry(entry, fault) if entry.keys() == _KEYS else entry

    def no_number(text: str) -> NoReturn:
        raise fault(f"its header has {text}, which is no number.")

    try:
        return json.loads(header.decode("utf-8"), object_pairs_hook=pairs, parse_constant=no_number)
    except UnicodeDecodeError:
        raise fault("its header is no text.") from None
    except json.JSONDecodeError as error:
        raise fault(f"its header is not valid JSON: {error}.") from None
    except (RecursionError, ValueError):  # lists in lists in lists, a number of thousands of digits
        raise fault("its header is nested or long beyond reason.") from None


def _entry(entry: dict[str, Any], fault: Fault) -> _Entry:
    """One tensor as its four facts; raises CheckpointError."""
    kind, shape, span = (entry[key] for key in _FIELDS)
    form = FORMATS.get(kind) if isinstance(kind, str) else None
    if form is None:
        raise fault(f"a tensor has the dtype {shown(kind)}, which is not known. Known: {', '.join(FORMATS)}.")
    if not _sizes(shape) or len(shape) > _DIMENSIONS:
        raise fault(f"a tensor has the shape {shown(shape)}; possible are whole numbers.")
    if not _sizes(span) or len(span) != 2 or span[0] > span[1]:
        raise fault(f"a tensor has data_offsets {shown(span)}; possible are a begin and an end.")
    return form, tuple(shape), span[0], span[1]


def _sizes(value: object) -> bool:
    if not isinstance(value, list):
        return False
    return all(type(each) is int and 0 <= each < 1 << 63 for each in cast("list[object]", value))


def _checked(entries: dict[str, _Entry], size: int, fault: Fault) -> tuple[Tensor, ...]:
    """The tensors, whose bytes are as many as their lengths need and cover the file without a gap."""
    found: list[Tensor] = []
    for name, (form, shape, begin, end) in entries.items():
        needed = form.of(elements(shape, name, fault))
        if needed != end - begin:
            raise fault(
                f"the tensor {shown(name)} needs {needed:,} bytes for its shape, and its data_offsets span "
                f"{end - begin:,}."
            )
        found.append(Tensor(name, form, shape, end - begin))
    _covered(sorted((begin, end, name) for name, (_, _, begin, end) in entries.items()), size, fault)
    return tuple(found)


def _covered(spans: Sequence[tuple[int, int, str]], size: int, fault: Fault) -> None:
    reached = 0
    for begin, end, name in spans:
        if begin != reached:
            what = "overlaps what is before it" if begin < reached else "leaves a gap before it"
            raise fault(f"the tensor {shown(name)} begins at {begin:,} of the data and {what} ({reached:,}).")
        reached = end
    if reached != size:
        what = "is cut" if reached > size else "has more"
        raise fault(f"its tensors need {reached:,} bytes behind the header, and {size:,} are there: it {what}.")
