"""A chart: a Vega specification with its data, which saves and shows itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from roofline.errors import BadValue, shown
from roofline.files import home, printable
from roofline.show.specs.base import LEFT, RIGHT

Theme = Literal["light", "dark"]
FORMATS = (".svg", ".png", ".pdf", ".html", ".json")
_NARROWEST, _WIDEST = 200, 4000


@dataclass(frozen=True)
class Chart:
    """A picture that is not drawn yet.

    `spec` is a whole Vega specification with a signal `dark`; `title` says in a few words what it shows.
    """

    spec: Mapping[str, Any]
    title: str = "roofline"

    def __repr__(self) -> str:
        return f"<Chart {self.title!r}>"

    def themed(self, theme: Theme) -> Chart:
        """The same chart on a light or a dark ground; raises BadValue for another theme."""
        if theme not in ("light", "dark"):
            raise BadValue(f"The theme is {shown(theme)}. Possible: light, dark.")
        return self._with_signals(dark=theme == "dark")

    def untitled(self) -> Chart:
        """The same chart without title and subtitle, for a page that has its own heading."""
        return self._with_signals(title="", subtitle=[])

    def sized(self, width: int | None = None, height: int | None = None) -> Chart:
        """The same chart, the whole of it so wide and its plot so high [px]; raises BadValue for what cannot be."""
        spec = deepcopy(dict(self.spec))
        for name, wanted, beside in (("width", width, LEFT + RIGHT), ("height", height, 0)):
            if wanted is None:
                continue
            if wanted.__class__ is not int or not _NARROWEST <= wanted <= _WIDEST:
                raise BadValue(f"The {name} is {shown(wanted)}. Possible: {_NARROWEST} to {_WIDEST} pixels.")
            spec[name] = wanted - beside
        return replace(self, spec=spec)

    def _with_signals(self, **values: object) -> Chart:
        spec = deepcopy(dict(self.spec))
        for each in spec["signals"]:
            if each["name"] in values:
                each["value"] = values[each["name"]]
        return replace(self, spec=spec)

    def to_dict(self) -> dict[str, Any]:
        """The Vega specification, data included."""
        return deepcopy(dict(self.spec))

    def svg(self) -> str:
        """As SVG; the same chart gives the same text."""
        from roofline.show import render

        return render.svg(self.to_dict())

    def png(self, scale: float = 2.0) -> bytes:
        """As PNG, `scale` dots a pixel."""
        from roofline.show import render

        return render.png(self.to_dict(), scale)

    def pdf(self) -> bytes:
        """As PDF, in vectors."""
        from roofline.show import render

        return render.pdf(self.to_dict())

    def html(self) -> str:
        """As a page of its own that loads nothing: pictures for print and without scripts, live where they run."""
        from roofline.show.page import chart_page

        return chart_page(self)

    def json(self) -> str:
        """The Vega specification as JSON text, as Vega's own editor opens it."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the chart in the format that the file's suffix names: svg, png, pdf, html or json.

        Returns the path. Raises BadValue for another suffix, or where the file cannot be written.
        """
        target = writable(path)
        makers: Mapping[str, Callable[[], str | bytes]] = {
            ".svg": self.svg,
            ".png": self.png,
            ".pdf": self.pdf,
            ".html": self.html,
            ".json": self.json,
        }
        write(target, makers[target.suffix.lower()]())
        return target

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """For notebooks: live where the notebook brings Vega, else the picture; nothing is fetched."""
        return {
            "application/vnd.vega.v5+json": self.to_dict(),
            "image/svg+xml": self.svg(),
            "text/plain": repr(self),
        }


def writable(path: str | PathLike[str], formats: tuple[str, ...] = FORMATS) -> Path:
    """The path of a picture, its suffix known; raises BadValue with the formats there are."""
    target = home(Path(path))
    if target.suffix.lower() not in formats:
        known = ", ".join(each[1:] for each in formats)
        raise BadValue(f"{printable(target)} names no format that can be written here. Possible suffixes: {known}.")
    return target


def write(target: Path, content: str | bytes) -> None:
    """Write a file; raises BadValue where that cannot be."""
    try:
        if isinstance(content, str):
            target.write_text(content, "utf-8")
        else:
            target.write_bytes(content)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadValue(f"{printable(target)} cannot be written: {reason}. Name a file in a folder of yours.") from None
