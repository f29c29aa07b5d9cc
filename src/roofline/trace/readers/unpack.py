"""Packed streams unpacked as they are read: gzip, zstd, bzip2, xz, the JSON member of a zip or tar archive, UTF-16.

What a stream is, its first bytes say. What is sound before a fault is given; then the fault is raised as Damaged.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, cast

from roofline.errors import TraceError
from roofline.files import printable
from roofline.units import MIB

_CHUNK = MIB // 2
_NESTED = 3  # packed in packed in packed
_WINDOW = 1 << 27  # [byte] that zstd may look back


class Damaged(Exception):
    """A packed stream that cannot be unpacked further."""


BROKEN: tuple[type[BaseException], ...] = (Damaged, EOFError, zlib.error)


@dataclass(slots=True)
class Unpacking:
    """What unpackers need beside the stream: its printable name, what closes at the end, where notes go."""

    name: str
    stack: ExitStack
    notes: list[str] = field(default_factory=list[str])


def line(error: BaseException) -> str:
    """An error's text as a part of a message."""
    text = " ".join(str(error).split()) or type(error).__name__
    return "".join(c if c.isprintable() else "?" for c in text)[:160].rstrip(".")


def unpacked(raw: io.RawIOBase, how: Unpacking, depth: int = 0) -> io.BufferedReader:
    """A stream of the text that a stream holds; raises TraceError where it is packed too often or is no archive."""
    buffered = cast(io.BufferedReader, io.BufferedReader(raw, _CHUNK))
    kind = _kind(buffered.peek(512))
    if kind is None:
        return buffered
    if depth >= _NESTED:
        raise TraceError(f"{how.name} is packed more than {_NESTED} times over. Unpack it first.")
    return unpacked(_UNPACK[kind](buffered, how), how, depth + 1)


_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"\xef\xbb\xbf", "utf-8"),
)


def _kind(head: bytes) -> str | None:
    if head[257:262] == b"ustar":
        return "tar"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


class Stream(io.RawIOBase):
    """A stream of what `_data` gives; it may give more than asked for."""

    def __init__(self) -> None:
        self._out = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill what there is into `buffer`; raises Damaged."""
        if not self._out:
            self._out = self._data(len(buffer))
        part = self._out[: len(buffer)]
        self._out = self._out[len(part) :]
        buffer[: len(part)] = part
        return len(part)

    def _data(self, room: int) -> bytes:
        """Some more bytes, none at the end; raises Damaged at a fault."""
        raise NotImplementedError


class _Gzip(Stream):
    """The members of a gzip stream, one after another."""

    def __init__(self, raw: io.BufferedReader) -> None:
        super().__init__()
        self._raw, self._left = raw, b""
        self._member: Any = None
        self._fault = ""

    def _data(self, room: int) -> bytes:
        while not self._fault:
            self._left = self._left or self._raw.read1(_CHUNK)
            if not self._left:
                if self._member is None:
                    return b""
                self._fault = "it ends within a gzip stream"
            elif self._member is None and not self._left.strip(b"\0"):  # padding after the last member
                self._left = b""
            elif data := self._unpack(room):
                return data
        raise Damaged(self._fault)

    def _unpack(self, room: int) -> bytes:
        from isal import isal_zlib

        library = cast(Any, isal_zlib)
        self._member = self._member or library.decompressobj(31)
        try:
            data: bytes = self._member.decompress(self._left, room)
        except library.error as error:
            self._fault = line(error)
            return b""
        self._left = self._member.unconsumed_tail
        if self._member.eof:
            self._left, self._member = self._member.unused_data, None
        return data


class _Guarded(Stream):
    """An unpacking stream whose own errors become Damaged."""

    def __init__(self, stream: Any, *errors: type[BaseException]) -> None:
        super().__init__()
        self._stream, self._errors = stream, errors

    def _data(self, room: int) -> bytes:
        try:
            return self._stream.read(min(room, _CHUNK))
        except (*self._errors, *BROKEN) as error:
            raise Damaged(line(error)) from None


class _Recoded(Stream):
    """Text in another encoding, as UTF-8."""

    def __init__(self, stream: io.BufferedReader, encoding: str) -> None:
        import codecs

        super().__init__()
        self._stream, self._decode = stream, codecs.getincrementaldecoder(encoding)("replace").decode

    def _data(self, room: int) -> bytes:
        while data := self._stream.read1(_CHUNK):
            if text := self._decode(data):
                return text.encode("utf-8", "replace")
        return self._decode(b"", True).encode("utf-8", "replace")


class _Plain(Stream):
    """A stream as it is."""

    def __init__(self, stream: io.BufferedReader) -> None:
        super().__init__()
        self._stream = stream

    def _data(self, room: int) -> bytes:
        return self._stream.read1(room)


def _gunzip(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    return _Gzip(stream)


def _unzstd(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    import zstandard

    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    return _Guarded(unpacker.stream_reader(stream, read_across_frames=True), zstandard.ZstdError)


def _unbzip2(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    import bz2

    return _Guarded(how.stack.enter_context(bz2.BZ2File(stream)), OSError)


def _unxz(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    import lzma

    return _Guarded(how.stack.enter_context(lzma.LZMAFile(stream)), lzma.LZMAError)


def _unzip(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    import zipfile

    if not _seekable(stream):
        raise TraceError(f"{how.name} is a zip archive within another stream. Unpack it first.")
    errors = (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, ValueError)
    try:
        archive = how.stack.enter_context(zipfile.ZipFile(stream))
        names = [each.filename for each in archive.infolist() if not each.is_dir()]
        member = _chosen(names, how.name)
        how.notes.append(f"read of the archive: {printable(member)}")
        return _Guarded(how.stack.enter_context(archive.open(member)), *errors)
    except errors as error:
        raise TraceError(f"{how.name} is a zip archive that cannot be read: {line(error)}.") from None


def _seekable(stream: io.BufferedReader) -> bool:
    with suppress(OSError, ValueError):
        return stream.seekable()
    return False


def _untar(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    import tarfile

    errors = (tarfile.TarError, OSError, ValueError, *BROKEN)
    try:
        archive = how.stack.enter_context(tarfile.open(fileobj=stream, mode="r|"))  # noqa: SIM115
        for member in cast("Iterable[tarfile.TarInfo]", archive):
            if member.isfile() and _is_json(member.name) and (file := archive.extractfile(member)) is not None:
                how.notes.append(f"read of the archive, its first JSON file: {printable(member.name)}")
                return _Guarded(file, *errors)
    except errors as error:
        raise TraceError(f"{how.name} is a tar archive that cannot be read: {line(cast(Any, error))}.") from None
    raise TraceError(f"{how.name} is a tar archive without a JSON file in it. Name a profile.")


def _is_json(name: str) -> bool:
    last = name.lower().rsplit("/", 1)[-1]
    return ".json" in last and not last.startswith(".") and "__macosx" not in name.lower()


def _chosen(names: list[str], archive: str) -> str:
    """The one JSON member of an archive."""
    fitting = [each for each in names if _is_json(each)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise TraceError(f"{archive} is a zip archive without a JSON file in it. Name a profile.")
    shown = ", ".join(printable(each) for each in fitting[:3])
    raise TraceError(
        f"{archive} holds {len(fitting)} JSON files ({shown}{', …' if len(fitting) > 3 else ''}). "
        f"Name one, as zip://MEMBER::{archive}."
    )


def _from_utf16(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    how.notes.append("the text is UTF-16: it was converted")
    return _Recoded(stream, "utf-16")


def _without_mark(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    stream.read(3)
    return _Plain(stream)


_UNPACK: dict[str, Callable[[io.BufferedReader, Unpacking], io.RawIOBase]] = {
    "gzip": _gunzip,
    "zstd": _unzstd,
    "bzip2": _unbzip2,
    "xz": _unxz,
    "zip": _unzip,
    "tar": _untar,
    "utf-16": _from_utf16,
    "utf-8": _without_mark,
}
