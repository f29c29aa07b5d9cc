"""Events out of text that is no sound JSON: each is read on its own, mended where the fault is a known one.

Known faults, all seen in the wild: backslashes of Windows paths, raw line breaks and control characters in strings,
bytes that are no UTF-8, NaN and Infinity, commas before a closing bracket, a quote that is not escaped, a cut.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec

from roofline.trace.readers.records import ERRORS, TEXT_EVENT, Args, Event, TextEvent
from roofline.trace.readers.seams import TOKEN

_SEAM = re.compile(rb"(?<=\})\s*,(?:\s*,)*\s*(?=\{|null\b)|(?<=null)\s*,\s*(?=\{|null\b)")
_KEYED = re.compile(
    rb"(?<=[}l])\s*,(?:\s*,)*\s*"
    rb"(?=\{\s*\"(?:ph|name|pid|cat|ts|args|tid|dur|id|s|bp)\"\s*:|null\b|\{\s*\})"
)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_STRAY = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # no whitespace
_BACKSLASH = re.compile(rb'\\(?:(["\\/bfnrt])|(u[0-9a-fA-F]{4})|)')
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_NO_NUMBER = re.compile(rb"(:\s*|\[\s*|,\s*)-?(?:NaN|Infinity|nan|inf)\b")
_COMMA = re.compile(rb",\s*([}\]])")
_CLOSE = re.compile(rb"\}\s*(?:,\s*)?\]")
_CLOSES = 64  # that are tried, as each costs as much as the text before it


def array_end(text: bytes, closed: bool) -> int | None:
    """Where the bracket stands that closes the array of events, or None where it is only the piece's own."""
    depth = 0
    for token in TOKEN.finditer(text, 1, len(text) - 1 if closed else len(text)):
        mark = token[0]
        if mark in b"{[":
            depth += 1
        elif mark in b"}]":
            depth -= 1
            if depth < 0:
                return token.start() if mark == b"]" else None
    return None


@dataclass(slots=True)
class Salvage:
    """What a faulty piece gives: events, how many are lost, what was found, where the array ended."""

    events: list[Event | None] = field(default_factory=list["Event | None"])
    lost: int = 0
    notes: Counter[str] = field(default_factory=Counter[str])
    end: int | None = None


def salvage(piece: bytes, last: bool = False) -> Salvage:
    """The events of a faulty piece, each read on its own; `last`: the file ends with it."""
    found = Salvage()
    parts = _KEYED.split(piece)
    for index, part in enumerate(parts):
        text = part.strip(b" \t\r\n,")
        if not text:
            continue
        try:
            found.events.append(TEXT_EVENT.decode(text))
            if part.rstrip().endswith(b","):
                found.notes["a comma with nothing after it"] += 1
        except ERRORS:
            if events := _mended(text, found.notes):
                found.events += events
            elif index < len(parts) - 1 or not _closed(part, len(piece) - len(part), found):
                _give_up(found, last and index == len(parts) - 1)
    return found


def _closed(part: bytes, offset: int, found: Salvage) -> bool:
    """Whether the last part is an event with the end of the array behind it, which no count of brackets could find."""
    for close in islice(_CLOSE.finditer(part), _CLOSES):
        text = part[: close.start() + 1].strip(b" \t\r\n,")
        try:
            found.events.append(TEXT_EVENT.decode(text))
        except ERRORS:
            continue
        found.end = offset + close.end() - 1
        return True
    return False


def _give_up(found: Salvage, cut: bool) -> None:
    if cut:
        found.notes["cut"] += 1
    else:
        found.lost += 1


def _mended(text: bytes, notes: Counter[str]) -> list[Event | None]:
    """The event, or the events, of a text after each known fault is mended; none where that does not help."""
    for what, mend in _MENDS:  # mostly there is one fault
        if (better := mend(text)) != text and (event := _sound(better)):
            notes[what] += 1
            return event
    found: list[str] = []
    for what, mend in _MENDS:
        better = mend(text)
        if better == text:
            continue
        text = better
        found.append(what)
        if event := _decoded(text):
            notes.update(found)
            return event
    if event := _decoded(text):
        notes.update(["values of an unexpected type"])
        return event
    inner = [each for each in _SEAM.split(text) if each]
    if len(inner) > 1:
        return [event for each in inner for event in _decoded(each)]
    return []


def _sound(text: bytes) -> list[Event | None]:
    try:
        return [TEXT_EVENT.decode(text)]
    except ERRORS:
        return []


def _decoded(text: bytes) -> list[Event | None]:
    return _sound(text) or _loose(text)


def _loose(text: bytes) -> list[Event | None]:
    """An event whose values are of other types than they should be: those that fit."""
    try:
        values = _VALUES.decode(text)
    except ERRORS:
        return []
    event = TextEvent()
    for key, kind in _KINDS.items():
        if key in values:
            try:
                setattr(event, key, msgspec.json.decode(values[key], type=kind))
            except ERRORS:
                if kind is str:
                    setattr(event, key, bytes(values[key]).decode("utf-8", "replace")[:200])
    for key in ("ts", "dur"):
        setattr(event, key, values.get(key, getattr(event, key)))
    return [event]


_VALUES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KINDS: dict[str, Any] = {"cat": str, "name": str, "pid": Any, "tid": Any, "args": Args | None}


def _utf8(text: bytes) -> bytes:
    return text.decode("utf-8", "replace").encode("utf-8")


def _escaped(text: bytes) -> bytes:
    return _BACKSLASH.sub(lambda found: found[0] if found[1] or found[2] else rb"\\", text)


def _uncommaed(text: bytes) -> bytes:
    return _COMMA.sub(rb"\1", text)


def _spaced(text: bytes) -> bytes:
    return TOKEN.sub(lambda found: _CONTROL.sub(b" ", found[0]) if found[1] else found[0], text)


def _without_controls(text: bytes) -> bytes:
    return _STRAY.sub(b" ", text)


def _nulled(text: bytes) -> bytes:
    return _NO_NUMBER.sub(rb"\1null", text)


def _whole_characters(text: bytes) -> bytes:
    return _SURROGATE.sub(b"?", text)


_MENDS: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("a comma with nothing after it", _uncommaed),
    ("backslashes that are not escaped", _escaped),
    ("raw line breaks or control characters in strings", _spaced),
    ("control characters between keys", _without_controls),
    ("bytes that are no UTF-8", _utf8),
    ("NaN or Infinity", _nulled),
    ("half characters", _whole_characters),
)
