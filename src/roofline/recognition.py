"""Which device a driver, a framework or a profile means: one, several that it could be, or none that is known.

Exact names come first, then the words that a device's file expects in its name. A word that nobody expects
makes the name unknown: "RTX 4090 Laptop GPU" is no RTX 4090, and a slice of a GPU is no GPU. Compute units,
memory and bandwidth, where a profile has them, confirm one candidate or rule it out. Nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from roofline import sheets
from roofline.device import Device, Sheet
from roofline.errors import UnknownName, shown
from roofline.units import GIGA, gib, significant

_LONGEST = 256
# Words that a device's name may carry and that tell nothing apart.
_NEUTRAL = frozenset(["corporation", "inc", "gpu", "accelerator", "r", "tm"])
# Words of a slice of a GPU: `MIG 1g.5gb`, or a vGPU's profile, as in `GRID T4-16Q` and `NVIDIA H100-3-40C`.
_SLICE = re.compile(r"mig|grid|vgpu|\d+[abcq](me)?")
_NO_NAME = "a profile without a name"
# A program sees a little less memory than there is: what the driver keeps, and ECC on GDDR (6 %).
_LEAST_MEMORY, _MOST_MEMORY = 0.9, 1.005
_BANDWIDTH_OFF = 0.1
_LEAST_EVIDENCE = 2


@dataclass(frozen=True, slots=True)
class _Said:
    """What a profile says beside the name, None where it says nothing: compute units, memory [byte], [byte/s]."""

    sms: int | None
    memory: int | None
    bandwidth: float | None


@dataclass(frozen=True, slots=True)
class Recognition:
    """What a name stands for.

    `id` is the one device, or None; `candidates` are the ids that it could be, or that come closest;
    `reason` says what it rests on, or what is missing. `part`: what the profile calls a device is one
    of several in the package, and has its share of the supplies.
    """

    name: str
    status: Literal["recognised", "ambiguous", "unknown"]
    id: str | None
    candidates: tuple[str, ...]
    reason: str
    part: bool = False

    def device(self) -> Device:
        """The supplies of the one device, or of one part; raises UnknownName where it is not one."""
        if self.id is None:
            raise UnknownName(f"{self.reason} Name it with --device, or give a device file of your own.")
        sheet = sheets.one(self.id)
        return (sheet.one_part() if self.part else sheet).device()


def recognise(
    name: str,
    *,
    sms: int | None = None,
    memory: int | None = None,
    bandwidth: float | None = None,
    among: Sequence[Sheet] | None = None,
) -> Recognition:
    """What device `name` is, with what the profile says beside it; 0 counts as not said.

    `name` is what a driver or a framework prints (`NVIDIA H100 80GB HBM3`, `TPU v5 lite`, `gfx942`), or empty;
    `sms` are its compute units (SMs, CUs), `memory` its total [byte], `bandwidth` that of its memory [byte/s].
    `among` are the known devices, those of the package by default. Never raises.
    """
    known = sheets.every() if among is None else tuple(among)
    said = _Said(sms or None, memory or None, bandwidth or None)
    text = " ".join(name.split())[:_LONGEST]
    words = _words(text)
    if not words:
        return _nameless(known, said)
    named = _named(words, known)
    return _decided(text, named, said) if named else _strange(text, words, known)


@lru_cache(8192)
def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[^\W_]+", text.lower()))


def _named(words: tuple[str, ...], known: Iterable[Sheet]) -> list[Sheet]:
    """The devices of that name: by an exact one, else by most of their own words, else by their family's."""
    exact = [each for each in known if any(words == _words(name) for name in (each.id, each.name, *each.aliases))]
    if exact:
        return exact
    for phrases in (_own, _family):
        found = {each.id: _fit(words, phrases(each), _allowed(each)) for each in known}
        best = max(found.values(), default=0)
        if best:
            return [each for each in known if found[each.id] == best]
    return []


def _own(sheet: Sheet) -> tuple[str, ...]:
    return sheet.names.words


def _family(sheet: Sheet) -> tuple[str, ...]:
    return sheet.names.family


def _allowed(sheet: Sheet) -> frozenset[str]:
    return _NEUTRAL.union(*(_words(each) for each in (sheet.vendor, sheet.architecture, *sheet.names.also)))


def _fit(words: tuple[str, ...], phrases: Iterable[str], allowed: frozenset[str]) -> int:
    """How many words the longest phrase has that is in the name, whose other words are all allowed; 0 for none."""
    there = set(words)
    found = [set(_words(phrase)) for phrase in phrases]
    return max((len(each) for each in found if each <= there and there - each <= allowed), default=0)


@dataclass(frozen=True, slots=True)
class _Checked:
    """A candidate beside what the profile says: what agrees, what does not, and whether it is one part."""

    sheet: Sheet
    part: bool
    agrees: tuple[str, ...]
    against: tuple[str, ...]


def _checked(sheet: Sheet, said: _Said) -> _Checked:
    """The candidate as one part of its package, as frameworks see it, unless only the whole agrees."""
    whole = _compared(sheet, said, 1)
    if sheet.parts == 1:
        return whole
    part = _compared(sheet, said, sheet.parts)
    return whole if part.against and not whole.against else part


def _compared(sheet: Sheet, said: _Said, parts: int) -> _Checked:
    agrees: list[str] = []
    against: list[str] = []
    figures = sheet.figures
    if said.sms and "chip.compute_units" in figures:
        units = int(figures["chip.compute_units"].value) // parts
        good = said.sms == units or said.sms in sheet.names.units
        (agrees if good else against).append(f"{said.sms:,} compute units{'' if good else f', not {units:,}'}")
    sizes = [figures[key].value / parts for key in ("memory.capacity", "memory.reported") if key in figures]
    if said.memory and sizes:
        good = _LEAST_MEMORY * min(sizes) <= said.memory <= _MOST_MEMORY * max(sizes)
        (agrees if good else against).append(f"{gib(said.memory)}{'' if good else f', not {gib(max(sizes))}'}")
    if said.bandwidth and sheet.bandwidth:
        own = sheet.bandwidth / parts
        good = abs(said.bandwidth / own - 1) <= _BANDWIDTH_OFF
        (agrees if good else against).append(_speed(said.bandwidth) + ("" if good else f", not {_speed(own)}"))
    return _Checked(sheet, parts > 1, tuple(agrees), tuple(against))


def _speed(value: float) -> str:
    return f"{significant(value / GIGA, 4)} GB/s"


def _decided(text: str, candidates: Sequence[Sheet], said: _Said) -> Recognition:
    """One of the devices of that name, as far as the profile decides it."""
    checked = [_checked(each, said) for each in candidates]
    left = [each for each in checked if not each.against]
    if len(left) == 1:
        return _one(text, left[0])
    if left:
        return _several(text, left, said)
    reasons = "; ".join(f"{each.sheet.id} has {_sentence(each.against)}" for each in checked)
    return Recognition(
        text,
        "unknown",
        None,
        tuple(each.sheet.id for each in checked),
        f"{shown(text)} reports what no known device of that name has: {reasons}. "
        "It may be a slice (MIG, vGPU) or another board.",
    )


def _sentence(parts: Iterable[str]) -> str:
    return " and ".join(parts)


def _one(text: str, found: _Checked) -> Recognition:
    name = shown(text) if text else _NO_NAME
    reason = f"{name} is {found.sheet.id}"
    if found.part:
        reason += f", one {found.sheet.part} of {found.sheet.parts}"
    if found.agrees:
        reason += f"; {_sentence(found.agrees)} agree" + ("s" if len(found.agrees) == 1 else "")
    return Recognition(text, "recognised", found.sheet.id, (found.sheet.id,), f"{reason}.", found.part)


def _several(text: str, left: Sequence[_Checked], said: _Said) -> Recognition:
    ids = tuple(each.sheet.id for each in left)
    ways = {
        "the count of its compute units": said.sms is None and len({_units(each.sheet) for each in left}) > 1,
        "its total memory": said.memory is None and len({each.sheet.capacity for each in left}) > 1,
        "its memory bandwidth": said.bandwidth is None and len({each.sheet.bandwidth for each in left}) > 1,
    }
    missing = [way for way, decides in ways.items() if decides]
    hint = f"{' or '.join(missing)} may decide it." if missing else "Nothing that a profile has tells them apart."
    name = shown(text) if text else _NO_NAME
    return Recognition(text, "ambiguous", None, ids, f"{name} may be {', '.join(ids)}: {hint}")


def _units(sheet: Sheet) -> float | None:
    found = sheet.figures.get("chip.compute_units")
    return None if found is None else found.value


def _strange(text: str, words: tuple[str, ...], known: Iterable[Sheet]) -> Recognition:
    """No device expects all words of the name: the ones that expect most of them, and what is strange."""
    anything = frozenset(words)
    close = {each.id: _fit(words, (*each.aliases, *each.names.words, *each.names.family), anything) for each in known}
    best = max(close.values(), default=0)
    near = [each for each in known if best and close[each.id] == best]
    if not near:
        return Recognition(text, "unknown", None, (), f"{shown(text)} is no device of the catalogue.")
    ids = tuple(each.id for each in near)
    expected = frozenset[str]().union(*(_all_words(each) for each in near))
    strange = " ".join(word for word in words if word not in expected)
    what = f"{shown(strange)} is not in the name of" if strange else "its words are those of"
    reason = f"{shown(text)} is unknown: {what} {', '.join(ids)}."
    if any(_SLICE.fullmatch(word) for word in words):
        reason += " A slice of a GPU has a share of its supplies that the name does not tell."
    return Recognition(text, "unknown", None, ids, reason)


def _all_words(sheet: Sheet) -> frozenset[str]:
    names = (*sheet.aliases, *sheet.names.words, *sheet.names.family)
    return _allowed(sheet).union(*(_words(each) for each in names))


def _nameless(known: Iterable[Sheet], said: _Said) -> Recognition:
    """A device that only its figures tell: at least two must agree with it, and as many with no other."""
    checked = [_checked(each, said) for each in known]
    left = [each for each in checked if len(each.agrees) >= _LEAST_EVIDENCE and not each.against]
    most = max((len(each.agrees) for each in left), default=0)
    best = [each for each in left if len(each.agrees) == most]
    if not best:
        return Recognition(
            "", "unknown", None, (), "The profile has no name of its device, and its other figures tell none."
        )
    return _one("", best[0]) if len(best) == 1 else _several("", best, said)
