"""`roofline devices`."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from roofline import sheets
from roofline.device import Sheet
from roofline.errors import BadValue, UnknownName

_CHOICE = "Which, and in what order"
Order = Literal["id", "vendor", "year", "peak", "bandwidth", "memory", "ridge"]


def devices(
    name: str | None = None,
    other: str | None = None,
    /,
    *,
    vendor: Annotated[str | None, Parameter(group=_CHOICE, negative=())] = None,
    find: Annotated[str | None, Parameter(group=_CHOICE, negative=())] = None,
    rate: Annotated[str | None, Parameter(group=_CHOICE, negative=())] = None,
    sort: Annotated[Order, Parameter(group=_CHOICE)] = "id",
    trend: Annotated[bool, Parameter(negative=())] = False,
    csv: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """The catalogue of devices, one with the source of every figure, or two side by side.

    Parameters
    ----------
    name
        A device id, an alias or a TOML file; without one, the list.
    other
        A second one, to stand beside the first.
    vendor
        Those of a vendor, as NVIDIA or AMD.
    find
        Those with this text in id, name, architecture or form, as hopper or pcie.
    rate
        Those with a peak of this rate, as fp8 or fp32-vector, and their ridge at it.
    sort
        Order of the list; numbers from the largest.
    trend
        The ridge point by year.
    csv
        A line a device with its peaks, their status and the ridge points, in base SI units.
    json
        One JSON object instead of text.
    """
    if sum((trend, csv, json)) > 1:
        raise BadValue("--trend, --csv and --json are three forms of the answer. Choose one.")
    if name is not None and (vendor, find, rate, sort, trend) != (None, None, None, "id", False):
        raise BadValue("--vendor, --find, --rate, --sort and --trend are about the list. Leave out the name.")
    chosen = _ordered(_chosen(vendor, find, rate), sort, rate) if name is None else _named(name, other)
    if json:
        from roofline.cli.options import print_json
        from roofline.show.catalogue_record import devices_record

        print_json(devices_record(chosen))
        return 0
    from roofline.show import devices as shown
    from roofline.show.terminal import show

    if csv:
        from roofline.cli.options import print_text

        print_text(shown.devices_csv(chosen))
    elif trend:
        show(shown.trend_text(chosen))
    elif name is None:
        show(shown.devices_text(chosen, rate))
    elif other is None:
        show(shown.device_text(chosen[0], sheets.source_titles()))
    else:
        show(shown.pair_text(*chosen))
    return 0


def _named(name: str, other: str | None) -> list[Sheet]:
    from roofline import catalogue  # models too, which the list does not need

    return [catalogue.load_sheet(each) for each in (name, other) if each is not None]


def _chosen(vendor: str | None, find: str | None, rate: str | None) -> list[Sheet]:
    """The devices of the catalogue that the filters leave; raises UnknownName where they leave none."""
    found = list(sheets.every())
    if vendor is not None:
        sold = [each for each in found if each.vendor.lower() == vendor.strip().lower()]
        found = _left(sold, "vendor", vendor, {each.vendor for each in found})
    if rate is not None:
        fast = [each for each in found if rate in each.peak]
        found = _left(fast, "rate", rate, {each for sheet in found for each in sheet.peak})
    if find is not None:
        said = [each for each in found if find.strip().lower() in _text(each)]
        found = _left(said, "text", find, {word.strip(",()") for sheet in found for word in _text(sheet).split()})
    return found


def _text(sheet: Sheet) -> str:
    return " ".join((sheet.id, sheet.name, sheet.architecture, sheet.form_factor, *sheet.aliases)).lower()


def _left(left: list[Sheet], kind: str, wanted: str, known: set[str]) -> list[Sheet]:
    if not left:
        raise UnknownName.of(kind, wanted, known, "No device is left. See: roofline devices.")
    return left


def _ordered(found: list[Sheet], sort: Order, rate: str | None) -> list[Sheet]:
    """In that order; a device without the figure comes last."""
    from roofline.show.devices import ridge, usual_rate

    if sort in ("id", "vendor"):
        return sorted(found, key=lambda each: (each.vendor if sort == "vendor" else "", each.id))

    def figure(each: Sheet) -> float | None:
        at = usual_rate(each, rate)
        if sort in ("peak", "ridge"):
            return ridge(each, at) if sort == "ridge" else each.peak[at] if at else None
        return {"year": each.released, "bandwidth": each.bandwidth, "memory": each.capacity}[sort]

    return sorted(found, key=lambda each: (-(figure(each) or 0.0), each.id))
