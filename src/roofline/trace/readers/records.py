"""Events of a Chrome trace as typed records: a type for each category, with the keys that are used of it and no more.

What is decoded into the type of its category costs the least. A text with an event that names no category, or one
that is not known here, is decoded into records of one general type.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import msgspec

from roofline.trace.readers.words import LEFT_OUT, OTHERS, ROLES

NONE = -1
NOTHING = msgspec.Raw(b"")
Raw = msgspec.Raw
Struct = msgspec.Struct


class CallArgs(Struct, gc=False, eq=False):
    """Of a call of the runtime."""

    correlation: Any = NONE


class MarkArgs(Struct, gc=False, eq=False):
    """Of an annotation."""

    external: Any = msgspec.field(name="External id", default=NONE)


# The keys stand in the order in which they mostly do in a file: the decoder looks for one from the last found.
class OpArgs(Struct, gc=False, eq=False):
    """Of an operator."""

    external: Any = msgspec.field(name="External id", default=NONE)
    concrete: Raw = msgspec.field(name="Concrete Inputs", default=NOTHING)
    types: Raw = msgspec.field(name="Input type", default=NOTHING)
    strides: Raw = msgspec.field(name="Input Strides", default=NOTHING)
    dims: Raw = msgspec.field(name="Input Dims", default=NOTHING)
    collective: Raw = msgspec.field(name="Collective name", default=NOTHING)
    sent: Raw = msgspec.field(name="In msg nelems", default=NOTHING)
    received: Raw = msgspec.field(name="Out msg nelems", default=NOTHING)
    group: Raw = msgspec.field(name="Group size", default=NOTHING)
    dtype: Raw = NOTHING
    sequence: Any = msgspec.field(name="Sequence number", default=NONE)
    module: Raw = msgspec.field(name="Module Hierarchy", default=NOTHING)


class DeviceArgs(Struct, gc=False, eq=False):
    """Of what ran on a device."""

    external: Any = msgspec.field(name="External id", default=NONE)
    device: Any = None
    stream: Any = None
    correlation: Any = NONE
    bytes: Any = NONE
    grid: Raw = NOTHING
    block: Raw = NOTHING
    collective: Raw = msgspec.field(name="Collective name", default=NOTHING)
    sent: Raw = msgspec.field(name="In msg nelems", default=NOTHING)
    received: Raw = msgspec.field(name="Out msg nelems", default=NOTHING)
    group: Raw = msgspec.field(name="Group size", default=NOTHING)
    dtype: Raw = NOTHING


class Args(OpArgs, gc=False, eq=False):
    """Of any event, in the spellings of every year."""

    device: Any = None
    stream: Any = None
    correlation: Any = NONE
    bytes: Any = NONE
    grid: Raw = NOTHING
    block: Raw = NOTHING
    external_old: Any = msgspec.field(name="external id", default=NONE)
    dims_old: Raw = msgspec.field(name="Input dims", default=NOTHING)


class Event(Struct, gc=False, eq=False):
    """An event of any category."""

    cat: str | None = None
    name: str | None = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Args | None = None


class TextEvent(Event, gc=False, eq=False):
    """The same with its times as they are written."""

    ts: Raw = NOTHING
    dur: Raw = NOTHING


class Times(Struct, gc=False, eq=False):
    """The times of any event, as they are written: whatever else is in it."""

    ts: Raw = NOTHING
    dur: Raw = NOTHING


# A record of one category: an event, with the same names for what it has of it.
Row = Any

_KINDS: dict[str, Any] = {
    "kernel": DeviceArgs,
    "copy": DeviceArgs,
    "set": DeviceArgs,
    "op": OpArgs,
    "call": CallArgs,
    "mark": MarkArgs,
    "gpu_mark": MarkArgs,
    "python": None,
}
_OLD = ("Kernel", "Memcpy", "Memset", "Operator", "Runtime", "Trace")  # as they were written in 2020 and 2021


def _record(category: str, time: tuple[Any, Any]) -> Any:
    """The type of an event of one category, with the type of its times; of those that are left out nothing is kept."""
    role = ROLES.get(category.lower())
    fields: list[Any] = []
    if role is not None:
        fields = [("name", str | None, None), ("pid", Any, None), ("tid", Any, None), ("ts", *time), ("dur", *time)]
        args = Args if category in _OLD else _KINDS[role]
        if args is not None:
            fields.append(("args", args | None, None))
    return msgspec.defstruct(
        f"Of_{category}", fields, tag_field="cat", tag=category, gc=False, eq=False, module=__name__
    )


_CATEGORIES = (*ROLES, *filter(None, LEFT_OUT), *OTHERS, *_OLD)
_NUMBERS, _TEXTS = [{each: _record(each, time) for each in _CATEGORIES} for time in ((Any, None), (Raw, NOTHING))]
CATEGORY: dict[type, str] = {kind: category for kinds in (_NUMBERS, _TEXTS) for category, kind in kinds.items()}


def _decoder(kinds: dict[str, Any]) -> msgspec.json.Decoder[list[Any]]:
    union: Any = reduce(lambda several, kind: several | kind, kinds.values())
    return msgspec.json.Decoder(list[union])  # pyright: ignore[reportInvalidTypeForm]


_BY_CATEGORY, _BY_CATEGORY_TEXT = map(_decoder, (_NUMBERS, _TEXTS))
_EVENTS, _TEXT_EVENTS = msgspec.json.Decoder(list[Event | None]), msgspec.json.Decoder(list[TextEvent | None])
TIMES = msgspec.json.Decoder(list[Times | None])
TEXT_EVENT = msgspec.json.Decoder(TextEvent | None)
ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ValueError)


def events_of(text: bytes | bytearray | memoryview, as_text: bool = False) -> Sequence[Row]:
    """The events of a list; raises one of ERRORS where it is not sound, or not all that the text holds.

    `as_text`: their times as they are written, as no number holds those exactly.
    """
    try:
        return (_BY_CATEGORY_TEXT if as_text else _BY_CATEGORY).decode(text)
    except ERRORS:
        return (_TEXT_EVENTS if as_text else _EVENTS).decode(text)
