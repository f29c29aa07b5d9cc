"""What if: a device or a config.json with other figures, each named in the answer's notes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from roofline.config import ALIASES
from roofline.device import Device, Figure, Link, Sheet
from roofline.dtypes import DTYPES
from roofline.errors import BadValue, UnknownName, shown
from roofline.units import count, quantity, si

_Sheet = TypeVar("_Sheet", bound=Sheet)

_FACTOR = re.compile(r"x(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)x", re.ASCII)
_FIELDS = "bandwidth, capacity, launch, peak (all, by a factor), peak.RATE, link.bandwidth, link.latency, link.domain"


def changes(words: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The changes to the device and to the model that words like `device.bandwidth=4TB/s` name.

    Raises BadValue for a word of another form or a field set twice, UnknownName for another subject.
    """
    found: dict[str, dict[str, str]] = {"device": {}, "model": {}}
    for word in words:
        field, equals, value = word.partition("=")
        subject, _, name = field.strip().partition(".")
        if not equals or not value.strip():
            raise BadValue(f"{shown(word)} changes nothing. Write FIELD=VALUE, as device.bandwidth=4TB/s.")
        if subject not in found or not name:
            raise UnknownName(f"{shown(field)} is no field. Possible: device.FIELD or model.FIELD.")
        if name in found[subject]:
            raise BadValue(f"{field.strip()} is set twice. Set it once.")
        found[subject][name] = value.strip()
    return found["device"], found["model"]


def changed_device(sheet: Sheet, fields: Mapping[str, str]) -> Device:
    """A hypothetical device with these fields: a quantity with its unit, or a factor as x2.

    Fields: bandwidth, capacity, launch, peak.RATE, peak (a factor for all), link.bandwidth, link.latency and
    link.domain of the first link or of link.NAME. Raises UnknownName for another, or where the bandwidth is neither
    known nor set; BadValue for a value that cannot be.
    """
    given = dict(fields)
    if sheet.bandwidth is None and "bandwidth" in given:
        new = _quantity("bandwidth", given.pop("bandwidth"), "B/s", None)
        sheet = _noted(replace(sheet, bandwidth=new), "bandwidth", "memory.bandwidth", "B/s", None, new)
    device = sheet.device()
    for field, value in given.items():
        device = _with(device, field, value)
    return device


def _with(device: Device, field: str, value: str) -> Device:
    """The device with one field changed, and a note that says so."""
    if field == "peak":
        return _all_peaks(device, value)
    head, _, rest = field.partition(".")
    if field == "bandwidth":
        old, new = device.bandwidth, _quantity(field, value, "B/s", device.bandwidth)
        return _noted(replace(device, bandwidth=new), field, "memory.bandwidth", "B/s", old, new)
    if field == "capacity":
        old, new = device.capacity, int(_quantity(field, value, "B", device.capacity))
        if new < 1:
            raise BadValue(f"device.capacity={value} leaves no byte. Possible: a size of one or more.")
        changed = replace(device, capacity=new, capacity_note="hypothetical")
        return _noted(changed, field, "memory.capacity", "B", old, new)
    if field == "launch":
        old, new = device.launch or None, _quantity(field, value, "s", device.launch or None)
        return _noted(replace(device, launch=new), field, "launch", "s", old, new)
    if head == "peak" and rest:
        _check_rate(device, rest)
        old, new = device.peak.get(rest), _quantity(field, value, "FLOP/s", device.peak.get(rest))
        return _noted(replace(device, peak={**device.peak, rest: new}), field, f"peak.{rest}", "FLOP/s", old, new)
    if head == "link" and rest:
        return _with_link(device, field, rest, value)
    raise UnknownName(f"A device has no field {shown(field)}. Possible: {_FIELDS}.")


def _with_link(device: Device, field: str, rest: str, value: str) -> Device:
    """The device with a figure of a link changed: of the first one, or of a named one."""
    name, _, what = rest.rpartition(".")
    links = {each.name: each for each in device.links}
    if not name and links:
        name = device.links[0].name
    link = links.get(name)
    if link is None:
        if name or what != "bandwidth":
            known = ", ".join(links) or "none"
            raise UnknownName(f"{device.id} has no link {shown(name)}. Known: {known}.".replace(" ''", ""))
        name, link = "link", Link("link", 0.0)  # a device without one gets one, by its bandwidth
    key = f"link.{name}.{what}"
    if what == "bandwidth":
        old, new, unit = link.bandwidth or None, _quantity(field, value, "B/s", link.bandwidth or None), "B/s"
        links[name] = replace(link, bandwidth=new)
    elif what == "latency":
        old, new, unit = link.latency or None, _quantity(field, value, "s", link.latency or None), "s"
        links[name] = replace(link, latency=new)
    elif what == "domain":
        old, new, unit = link.domain, _count(field, value), ""
        links[name] = replace(link, domain=new)
    else:
        raise UnknownName(f"A link has no field {shown(what)}. Possible: bandwidth, latency, domain.")
    return _noted(replace(device, links=tuple(links.values())), field, key, unit, old, new)


def _noted(device: _Sheet, field: str, key: str, unit: str, old: float | None, new: float) -> _Sheet:
    """The device with a note of the change, and the figure no longer the source's."""

    def written(value: float) -> str:
        return si(value, unit) if unit else f"{value:g}"

    instead = f"instead of {written(old)}" if old is not None else "where none is known"
    figure = Figure(new, "hypothetical", ("set by hand",), instead)
    note = f"device.{field} is {written(new)} {instead}: a hypothetical device"
    return replace(device, figures={**device.figures, key: figure}, assumptions=(*device.assumptions, note))


def _check_rate(device: Device, rate: str) -> None:
    """Refuse a rate that no arithmetic has; raises UnknownName."""
    base = rate.removesuffix("-vector")
    if rate not in device.peak and base not in DTYPES and base != "tf32":
        raise UnknownName.of("rate", rate, {*device.peak, "tf32", *(name for name in DTYPES if "-" not in name)})


def _all_peaks(device: Device, value: str) -> Device:
    found = _FACTOR.fullmatch(value)
    if found is None:
        raise BadValue(f"device.peak takes a factor for all rates, as x2, not {shown(value)}; or set device.peak.RATE.")
    factor = float(found[1] or found[2])
    note = f"Every peak is {factor:g} times that of {device.id}: a hypothetical device"
    return replace(device.scaled(compute=factor), assumptions=(*device.assumptions, note))


def _quantity(field: str, value: str, unit: str, old: float | None) -> float:
    """A quantity with its unit, or a factor of the old value; raises BadValue."""
    factor = _FACTOR.fullmatch(value)
    if factor is None:
        try:
            return quantity(value, unit)
        except BadValue as error:
            raise BadValue(f"device.{field}: {error} Or a factor, as x2.") from None
    if old is None:
        raise BadValue(f"device.{field} is unknown, so {shown(value)} of it is too. Write it as '1.5 T{unit}'.")
    new = old * float(factor[1] or factor[2])
    if not 0 < new < float("inf"):
        raise BadValue(f"device.{field}={shown(value)} leaves no finite figure above zero. Possible: a factor as x2.")
    return new


def _count(field: str, value: str) -> int:
    found = count(value)
    if found < 1:
        raise BadValue(f"device.{field} is {shown(value)}. Possible: a whole number from 1.")
    return found


def changed_config(keys: Mapping[str, Any], fields: Mapping[str, str], where: str) -> tuple[dict[str, Any], list[str]]:
    """The keys of a config.json with these fields changed, and a note for each.

    A field is a key of the file, or the project's word for one (kv_heads, layers, ...); in a file that keeps the
    text model in a section of its own, that section's. Values are JSON. Raises UnknownName for a
    field that the file does not have and that is not a known word, BadValue for a key set twice.
    """
    changed: dict[str, Any] = dict(keys)
    notes: list[str] = []
    seen: set[tuple[str, ...]] = set()
    for field, text in fields.items():
        path = next((path for path in _paths(changed, field)), None)
        if path is None:
            if field not in ALIASES:
                known = ", ".join(sorted({*ALIASES, *changed}))
                raise UnknownName(f"{where} has no field {shown(field)}. Possible: {known}.")
            path = (*_section(changed), ALIASES[field][0])
        target = changed
        for name in path[:-1]:
            target[name] = dict(target[name])
            target = target[name]
        if path in seen:
            raise BadValue(f"model.{field} sets {'.'.join(path)} a second time. Set it once.")
        seen.add(path)
        value, old = _value(text), target.get(path[-1])
        target[path[-1]] = value
        notes.append(f"model.{field} is {shown(value)} instead of {shown(old)}: a hypothetical model")
    return changed, notes


_SECTIONS = ("text_config", "llm_config", "language_config")


def _section(keys: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in _SECTIONS if isinstance(keys.get(name), Mapping))[:1]


def _paths(keys: Mapping[str, Any], field: str) -> list[tuple[str, ...]]:
    """Where a field may stand: in the text model's section first, then at the top; or a dotted path."""
    names = ALIASES.get(field, (field,))
    inside = _section(keys)
    places = [*((*inside, name) for name in names if inside), *((name,) for name in names), tuple(field.split("."))]
    return [path for path in places if _present(keys, path)]


def _present(keys: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    found: Any = keys
    for name in path:
        if not isinstance(found, Mapping) or name not in found:
            return False
        found = cast("Mapping[str, Any]", found)[name]
    return found is not None


def _value(text: str) -> Any:
    """A value as JSON has it, or the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
