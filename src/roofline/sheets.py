"""The device files of the package: one parsed by its id, all of them by an index that is checked against each."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from zlib import crc32

import msgspec

from roofline.device import Sheet
from roofline.devicefile import sheet_from

_DATA = Path(__file__).parent / "data"
_FOLDER = _DATA / "devices"
_INDEX = _DATA / "devices.json"


class Line(msgspec.Struct, frozen=True):
    """What a file said when the index was made, and its checksum then."""

    checksum: int
    sheet: Sheet


def ids() -> list[str]:
    """Ids of the devices that come with the package: the names of their files."""
    return sorted(path.stem for path in _FOLDER.iterdir() if path.suffix == ".toml")


@cache
def one(ident: str) -> Sheet:
    """The device of that id, which must be one of `ids()`: its file is parsed, and no other."""
    path = _file(ident)
    return sheet_from(path.read_text("utf-8"), path.name)


@cache
def every() -> tuple[Sheet, ...]:
    """All of them. A file that the index does not know as it is now is parsed: an old index costs time only."""
    lines = _index()
    found: list[Sheet] = []
    for ident in ids():
        line = lines.get(ident)
        known = line is not None and line.checksum == crc32(_file(ident).read_bytes())
        found.append(line.sheet if line is not None and known else one(ident))
    return tuple(found)


def index() -> bytes:
    """The index that belongs to the files as they are."""
    lines = {ident: Line(crc32(_file(ident).read_bytes()), one(ident)) for ident in ids()}
    return msgspec.json.encode(lines) + b"\n"


def _index() -> dict[str, Line]:
    try:
        return msgspec.json.decode(_INDEX.read_bytes(), type=dict[str, Line])
    except (OSError, msgspec.DecodeError):
        return {}


def _file(ident: str) -> Path:
    return _FOLDER / f"{ident}.toml"


@cache
def source_titles() -> Mapping[str, str]:
    """Title of each document that device files quote, by its key."""
    parsed = tomllib.loads((_DATA / "sources.toml").read_text("utf-8"))
    return {key: str(entry["title"]) for key, entry in parsed.items()}
