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

from roofline.errors import TraceError, one_line
from roofline.files import printable
from roofline.units import MIB

_CHUNK = MIB // 2
_PACKED = MIB // 8  # of a gzip stream at once: it unpacks to some MiB
_TOLD = 512  # [byte] that tell how a stream is packed: the first head of an archive
_NESTED = 3  # packed in packed in packed
_TRAILER = 8  # [byte] checksum and length at the end of a gzip member
_WINDOW = 1 << 27  # [byte] that zstd and xz may look back
_BESIDE = 4 * MIB  # [byte] of memory that xz needs beside those


class Damaged(Exception):
    """A packed stream that cannot be unpacked further."""


BROKEN: tuple[type[BaseException], ...] = (Damaged, EOFError, zlib.error)


@dataclass(slots=True)
class Unpacking:
    """What unpackers need beside the stream: its printable name, what closes at the end, where notes go.

    `allow` raises where a stream has given more bytes than it may.
    """

    name: str
    stack: ExitStack
    allow: Callable[[int], None]
    notes: list[str] = field(default_factory=list[str])
    packed: list[str] = field(default_factory=list[str])  # how, from the outside inwards


# What a name ends in that says how a file is packed.
_SUFFIXES = {".gz": "gzip", ".tgz": "gzip", ".zst": "zstd", ".bz2": "bzip2", ".xz": "xz", ".zip": "zip"}


def misnamed(name: str, packed: list[str]) -> str | None:
    """What a file is, where its name says something else."""
    low = name.partition("::")[0].partition("?")[0].lower()
    said = next((kind for suffix, kind in _SUFFIXES.items() if low.endswith(suffix)), None)
    if said is None and not low.endswith((".json", ".json.tmp", ".tar")):
        return None  # a name that says nothing
    packings = [kind for kind in packed if kind in _SUFFIXES.values()]
    if len(packings) > 1:
        return f"the file is packed more than once ({', then '.join(packings)}): it was unpacked"
    actual = packings[0] if packings else None
    if actual == said:
        return None
    if actual is None:
        return f"the name says {said}, but the file is not packed: it was read as it is"
    return f"the file is packed as {actual}, which its name does not say: it was unpacked"


def unpacked(raw: io.RawIOBase, how: Unpacking, depth: int = 0) -> io.BufferedReader:
    """A stream of the text that a stream holds; raises TraceError where it is packed too often or is no archive."""
    layer = _Layer(raw, how)
    buffered = cast(io.BufferedReader, io.BufferedReader(layer, _CHUNK))
    kind = _kind(buffered.peek(_TOLD))
    layer.limited = depth > 0 or kind == "tar"
    if kind is None:
        return buffered
    if depth >= _NESTED:
        raise TraceError(f"{how.name} is packed more than {_NESTED} times over. Unpack it first.")
    how.packed.append(kind)
    return unpacked(_UNPACK[kind](buffered, how), how, depth + 1)


class Through(io.RawIOBase):
    """A stream that is read by way of another one, and stands where that one does."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Whether the other one is."""
        return self._raw.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go there in the other one."""
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        """Where the other one is."""
        return self._raw.tell()


class _Layer(Through):
    """A stream between two unpackers: its first read gives enough to tell what it is, and it may be limited.

    So what an unpacker reads and gives nothing of counts, too: members of an archive that are passed over, streams
    of nothing.
    """

    def __init__(self, raw: io.RawIOBase, how: Unpacking) -> None:
        super().__init__(raw)
        self._allow = how.allow
        self._first = True
        self._fault: Exception | None = None  # that came behind what the first read gave
        self._given = 0
        self.limited = False

    def readinto(self, buffer: Any) -> int:
        if self._fault is not None:
            raise self._fault
        count = self._enough(memoryview(buffer)) if self._first else self._raw.readinto(buffer) or 0
        self._first = False
        self._given += count
        if self.limited:
            self._allow(self._given)
        return count

    def _enough(self, view: memoryview) -> int:
        """Read on until it can be told what the stream is, or until its end."""
        count = 0
        while count < min(_TOLD, len(view)):
            try:
                more = self._raw.readinto(view[count:])
            except (OSError, *BROKEN) as error:
                if not count:
                    raise
                self._fault = cast(Exception, error)
                break
            if not more:
                break
            count += more
        return count


_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"{\0", "utf-16-le"),
    (b"[\0", "utf-16-le"),
    (b"\0{", "utf-16-be"),
    (b"\0[", "utf-16-be"),
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
        self._ended = False
        self._member: Any = None
        self._fault = ""

    def _data(self, room: int) -> bytes:
        while not self._fault:
            self._fill()
            if not self._left:
                if self._member is None:
                    return b""
                self._fault = "it ends within a gzip stream"
            elif self._member is None and not self._left.strip(b"\0"):  # padding after the last member
                self._left = b""
            elif data := self._unpack(room):
                return data
        raise Damaged(self._fault)

    def _fill(self) -> None:
        """Read on, so that the checksum at the end is looked at after the data before it is out."""
        while not self._ended and len(self._left) <= _TRAILER:
            more = self._raw.read1(_PACKED)
            self._ended = not more
            self._left += more

    def _unpack(self, room: int) -> bytes:
        from isal import isal_zlib

        library = cast(Any, isal_zlib)
        self._member = self._member or library.decompressobj(31)
        give = len(self._left) - (_TRAILER if len(self._left) > _TRAILER else 0)
        kept = self._left[give:]
        try:
            data: bytes = self._member.decompress(self._left[:give], room)
        except library.error as error:
            self._fault = one_line(error)
            return b""
        self._left = self._member.unconsumed_tail + kept
        if self._member.eof:
            self._left, self._member = self._member.unused_data + kept, None
        return data


class _Xz(Stream):
    """The streams of an xz file, one after another, unpacked with no more memory than may be."""

    def __init__(self, raw: io.BufferedReader, name: str) -> None:
        super().__init__()
        self._raw, self._name, self._left = raw, name, b""
        self._one: Any = None

    def _data(self, room: int) -> bytes:
        import lzma

        while (one := self._one or self._next()) is not None:
            more = b""
            if one.needs_input:
                more, self._left = self._left or self._raw.read1(_PACKED), b""
                if not more:
                    raise Damaged("it ends within an xz stream")
            try:
                data: bytes = one.decompress(more, room)
            except lzma.LZMAError as error:
                raise _wrong(self._name, error) from None
            self._one = one
            if one.eof:
                self._left, self._one = one.unused_data, None
            if data:
                return data
        return b""

    def _next(self) -> Any:
        """What unpacks the next stream, behind zeros that may stand between two; None where there is none."""
        import lzma

        while not (left := self._left.lstrip(b"\0")):
            self._left = self._raw.read1(_PACKED)
            if not self._left:
                return None
        self._left = left
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, _WINDOW + _BESIDE)


def _wrong(name: str, error: BaseException) -> Exception:
    """What an unpacker's error is: Damaged, or TraceError where it would need more memory than it may have."""
    if "memory" in str(error).lower():
        return TraceError(f"{name} takes more than {_WINDOW // MIB} MiB of memory to unpack. Unpack it first.")
    return Damaged(one_line(error))


class _Guarded(Stream):
    """An unpacking stream whose own errors become Damaged."""

    def __init__(self, stream: Any, name: str, *errors: type[BaseException]) -> None:
        super().__init__()
        self._stream, self._name, self._errors = stream, name, errors

    def _data(self, room: int) -> bytes:
        try:
            return self._stream.read(min(room, _CHUNK))
        except (*self._errors, *BROKEN) as error:
            raise _wrong(self._name, error) from None


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
    return _Guarded(unpacker.stream_reader(stream, read_across_frames=True), how.name, zstandard.ZstdError)


def _unbzip2(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    import bz2

    return _Guarded(how.stack.enter_context(bz2.BZ2File(stream)), how.name, OSError)


def _unxz(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    return _Xz(stream, how.name)


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
        return _Guarded(how.stack.enter_context(archive.open(member)), how.name, *errors)
    except errors as error:
        raise TraceError(f"{how.name} is a zip archive that cannot be read: {one_line(error)}.") from None


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
                return _Guarded(file, how.name, *errors)
    except errors as error:
        raise TraceError(f"{how.name} is a tar archive that cannot be read: {one_line(cast(Any, error))}.") from None
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


def _recoding(encoding: str) -> Callable[[io.BufferedReader, Unpacking], io.RawIOBase]:
    def recoded(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
        how.notes.append(f"the text is {encoding[:6].upper()}, not UTF-8: it was converted")
        return _Recoded(stream, encoding)

    return recoded


def _without_mark(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    stream.read(3)
    how.notes.append("the text begins with a byte order mark: it was left out")
    return _Plain(stream)


_UNPACK: dict[str, Callable[[io.BufferedReader, Unpacking], io.RawIOBase]] = {
    "gzip": _gunzip,
    "zstd": _unzstd,
    "bzip2": _unbzip2,
    "xz": _unxz,
    "zip": _unzip,
    "tar": _untar,
    **{encoding: _recoding(encoding) for encoding in ("utf-32", "utf-16", "utf-16-le", "utf-16-be")},
    "utf-8": _without_mark,
}
