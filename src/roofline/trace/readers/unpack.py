"""Packed streams unpacked as they are read: gzip, zstd, bzip2, xz, the JSON member of a zip or tar archive, UTF-16.

What a stream is, its first bytes say. What is sound before a fault is given; then the fault is raised as Damaged.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, cast

from roofline.errors import TraceError, one_line
from roofline.trace.readers.archives import untar, unzip
from roofline.trace.readers.layers import BROKEN, CHUNK, WINDOW, Damaged, Guarded, Stream, Through, Unpacking, wrong
from roofline.units import MIB

_PACKED = MIB // 8  # of a gzip stream at once: it unpacks to some MiB
_BESIDE = 4 * MIB  # [byte] of memory that xz needs beside those
_TOLD = 512  # [byte] that tell how a stream is packed: the first head of an archive
_NESTED = 3  # packed in packed in packed
_TRAILER = 8  # [byte] checksum and length at the end of a gzip member


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
    buffered = cast(io.BufferedReader, io.BufferedReader(layer, CHUNK))
    kind = _kind(buffered.peek(_TOLD))
    layer.limited = depth > 0 or kind == "tar"
    if kind is None:
        return buffered
    if depth >= _NESTED:
        raise TraceError(f"{how.name} is packed more than {_NESTED} times over. Unpack it first.")
    how.packed.append(kind)
    return unpacked(_UNPACK[kind](buffered, how), how, depth + 1)


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
                raise wrong(self._name, error) from None
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
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, WINDOW + _BESIDE)


class _Recoded(Stream):
    """Text in another encoding, as UTF-8."""

    def __init__(self, stream: io.BufferedReader, encoding: str) -> None:
        import codecs

        super().__init__()
        self._stream, self._decode = stream, codecs.getincrementaldecoder(encoding)("replace").decode

    def _data(self, room: int) -> bytes:
        while data := self._stream.read1(CHUNK):
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

    unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW)
    return Guarded(unpacker.stream_reader(stream, read_across_frames=True), how.name, zstandard.ZstdError)


def _unbzip2(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    import bz2

    return Guarded(how.stack.enter_context(bz2.BZ2File(stream)), how.name, OSError)


def _unxz(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    return _Xz(stream, how.name)


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
    "zip": unzip,
    "tar": untar,
    **{encoding: _recoding(encoding) for encoding in ("utf-32", "utf-16", "utf-16-le", "utf-16-be")},
    "utf-8": _without_mark,
}
