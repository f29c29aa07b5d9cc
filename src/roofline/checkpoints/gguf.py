"""The header of a GGUF file, versions 2 and 3: metadata of the model, then each tensor's name, lengths and format.

Source: ggml's description of the format (`docs/gguf.md`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from roofline.checkpoints.ggml import FORMATS
from roofline.checkpoints.sources import Source
from roofline.checkpoints.tensors import LONGEST_NAME, MOST_TENSORS, Fault, Tensor, check_pointer, elements
from roofline.dtypes import DType
from roofline.errors import shown
from roofline.units import MIB

MAGIC = b"GGUF"
MOST = 64 * MIB  # [byte] of a header: a vocabulary of a million pieces has 20
_VERSIONS = (2, 3)
_MOST_KEYS = 1 << 16
_MOST_STRINGS = 1 << 22  # of an array; the largest vocabularies have a quarter of a million
_KEPT = 4096  # entries of an array that are kept: one for each layer; a vocabulary is only counted
_LONGEST_KEY = 1 << 16
_DIMENSIONS = 4
_DEPTH = 2
_LEAST_TENSOR = 24  # [byte] of the description of one: lengths of its name and dimensions, format, place
_PIECE = MIB
_ALIGNMENT, _MOST_ALIGNMENT = 32, 1 << 20

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class Counted:
    """An array of which only the length is kept."""

    length: int


class _Reader:
    """A file's bytes from the beginning on, up to the most that a header may have."""

    def __init__(self, source: Source, fault: Fault) -> None:
        self._source, self._fault = source, fault
        self._size = source.size
        self._held, self._begin = b"", 0
        self.at = 0

    @property
    def left(self) -> int:
        """Bytes that the file has from here on."""
        return self._size - self.at

    def take(self, count: int, what: str) -> bytes:
        """The next `count` bytes; raises CheckpointError where the file has fewer."""
        if count > self.left:
            raise self._fault(f"{what} needs {count:,} bytes, and {max(self.left, 0):,} are left: it is cut, or lies.")
        if self.at + count > MOST:
            raise self._fault(f"its header has more than the {MOST / MIB:g} MiB that are read, at {what}.")
        offset = self.at - self._begin
        if offset + count > len(self._held):
            rest = self._held[offset:]
            more = self._source.read(self.at + len(rest), max(count - len(rest), _PIECE))
            self._held, self._begin, offset = rest + more, self.at, 0
            if len(self._held) < count:
                raise self._fault(f"{what} is cut: the file ends in its header.")
        self.at += count
        return self._held[offset : offset + count]

    def skip(self, count: int, what: str) -> None:
        """Leave out bytes that have to be there."""
        if count > self.left:
            raise self._fault(f"{what} needs {count:,} bytes, and {max(self.left, 0):,} are left: it is cut, or lies.")
        self.at += count
        if self.at > MOST:
            raise self._fault(f"its header has more than the {MOST / MIB:g} MiB that are read, at {what}.")
        if self.at - self._begin > len(self._held):
            self._held, self._begin = b"", self.at

    def number(self, kind: str, what: str) -> Any:
        """One number of this kind, little-endian."""
        return struct.unpack("<" + kind, self.take(struct.calcsize("<" + kind), what))[0]

    def text(self, most: int, what: str) -> str:
        """A string of up to `most` bytes."""
        length = self.number("Q", what)
        if length > most:
            raise self._fault(f"{what} says {length:,} bytes; possible are {most:,}.")
        return self.take(length, what).decode("utf-8", "replace")


def read(source: Source) -> tuple[Mapping[str, Any], tuple[Tensor, ...]]:
    """Metadata and tensors of a file by its header, which is checked against the file; raises CheckpointError."""
    fault = Fault(source.where)
    reader = _Reader(source, fault)
    tensors, keys = _counts(reader, fault)
    metadata = _metadata(reader, keys, fault)
    described = [_described(reader, fault) for _ in range(tensors)]
    return metadata, _checked(described, _aligned(reader.at, _alignment(metadata, fault)), metadata, source, fault)


def _counts(reader: _Reader, fault: Fault) -> tuple[int, int]:
    """How many tensors and keys the file has."""
    magic = reader.take(len(MAGIC), "its magic")
    check_pointer(magic, fault)
    if magic != MAGIC:
        raise fault(f"it begins with {magic!r}, not with {MAGIC!r}: no GGUF file.")
    version = reader.number("I", "its version")
    if version not in _VERSIONS:
        big = int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS
        why = "is big-endian, which is not read" if big else f"has version {version}; read are 2 and 3"
        raise fault(f"it {why}.")
    tensors, keys = reader.number("Q", "its number of tensors"), reader.number("Q", "its number of keys")
    if tensors > MOST_TENSORS or tensors * _LEAST_TENSOR > reader.left:
        raise fault(f"it says {tensors:,} tensors; {reader.left:,} bytes follow, and up to {MOST_TENSORS:,} are read.")
    if keys > _MOST_KEYS:
        raise fault(f"it says {keys:,} keys; up to {_MOST_KEYS:,} are read.")
    return tensors, keys


def _metadata(reader: _Reader, keys: int, fault: Fault) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(keys):
        key = reader.text(_LONGEST_KEY, "the name of a key")
        if key in found:
            raise fault(f"the key {shown(key)} is there twice.")
        found[key] = _value(reader, reader.number("I", f"the kind of {shown(key)}"), shown(key), fault, 0)
    return found


def _value(reader: _Reader, kind: int, key: str, fault: Fault, depth: int) -> Any:
    """One value of the metadata; of a long array, how long it is."""
    if kind == _STRING:
        return reader.text(MOST, f"the string of {key}")
    if kind == _ARRAY:
        if depth >= _DEPTH:
            raise fault(f"{key} has arrays within arrays within arrays.")
        return _array(reader, key, fault, depth)
    if kind not in _NUMBERS:
        raise fault(f"{key} is of the kind {kind}, which is not known.")
    return reader.number(_NUMBERS[kind], key)


def _array(reader: _Reader, key: str, fault: Fault, depth: int) -> Any:
    kind, length = reader.number("I", key), reader.number("Q", key)
    if kind in _NUMBERS:
        size = struct.calcsize("<" + _NUMBERS[kind])
        if length > _KEPT:
            reader.skip(length * size, key)
            return Counted(length)
        return list(struct.unpack(f"<{length}{_NUMBERS[kind]}", reader.take(length * size, key)))
    if length > _MOST_STRINGS or 8 * length > reader.left:
        raise fault(f"{key} says {length:,} entries, and {reader.left:,} bytes are left.")
    if kind == _STRING:
        for _ in range(length):
            reader.skip(reader.number("Q", key), key)
        return Counted(length)
    for _ in range(length):
        _value(reader, kind, key, fault, depth + 1)
    return Counted(length)


_Described = tuple[str, tuple[int, ...], DType, int]


def _described(reader: _Reader, fault: Fault) -> _Described:
    """One tensor: its name, its lengths with the rows first, its format, and where it begins."""
    name = reader.text(LONGEST_NAME, "the name of a tensor")
    count = reader.number("I", f"the tensor {shown(name)}")
    if count > _DIMENSIONS:
        raise fault(f"the tensor {shown(name)} has {count:,} dimensions; possible are {_DIMENSIONS}.")
    sizes = struct.unpack(f"<{count}Q", reader.take(8 * count, f"the tensor {shown(name)}"))
    kind, offset = struct.unpack("<IQ", reader.take(12, f"the tensor {shown(name)}"))
    if kind not in FORMATS:
        raise fault(f"the tensor {shown(name)} is of the type {kind}, which is not known.")
    return name, tuple(reversed(sizes)), FORMATS[kind], offset


def _alignment(metadata: Mapping[str, Any], fault: Fault) -> int:
    found = metadata.get("general.alignment", _ALIGNMENT)
    if type(found) is not int or not 0 < found <= _MOST_ALIGNMENT or found & (found - 1):
        raise fault(f"general.alignment is {shown(found)}; possible is a power of two up to {_MOST_ALIGNMENT:,}.")
    return found


def _aligned(at: int, alignment: int) -> int:
    return -(-at // alignment) * alignment


def _checked(
    described: list[_Described], begin: int, metadata: Mapping[str, Any], source: Source, fault: Fault
) -> tuple[Tensor, ...]:
    """The tensors, one behind another from `begin` on and all within the file; raises CheckpointError."""
    alignment = _alignment(metadata, fault)
    found: list[Tensor] = []
    names: set[str] = set()
    reached = 0
    for name, shape, form, offset in sorted(described, key=lambda each: each[3]):
        if name in names:
            raise fault(f"the tensor {shown(name)} is there twice.")
        names.add(name)
        size = _bytes(name, shape, form, fault)
        if offset != reached:
            what = "overlaps what is before it" if offset < reached else "leaves a gap before it"
            raise fault(f"the tensor {shown(name)} begins at {offset:,} of the data and {what} ({reached:,}).")
        reached = _aligned(offset + size, alignment)
        if begin + offset + size > source.size:
            raise fault(
                f"the tensor {shown(name)} ends at byte {begin + offset + size:,}, and the file has {source.size:,}: "
                "it is cut."
            )
        found.append(Tensor(name, form, shape, size))
    return tuple(found)


def _bytes(name: str, shape: tuple[int, ...], form: DType, fault: Fault) -> int:
    """Bytes of a tensor, whose rows are whole blocks."""
    count = elements(shape, name, fault)
    columns = shape[-1] if shape else 1
    block = 1 if form.block is None else form.block[1]
    if columns % block:
        raise fault(f"the tensor {shown(name)} has rows of {columns:,} elements, which no blocks of {block} fill.")
    return cast(int, form.matrix(count // columns if columns else 0, columns))
