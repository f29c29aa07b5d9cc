"""A file wherever it lies, as blocks of text: bounded, with its progress told.

A local path, a pipe, or a URL that fsspec opens (s3://, gs://, hf://, https://, zip://MEMBER::ARCHIVE).
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

from roofline.errors import TooMuch, TraceError, UnknownName, one_line
from roofline.files import home, of_pipe, printable
from roofline.trace.readers.decode import Place
from roofline.trace.readers.layers import BROKEN, Through, Unpacking
from roofline.trace.readers.unpack import misnamed, unpacked
from roofline.units import GIB, MIB

BLOCK = MIB
HEAD = MIB  # [byte] by which it is told what a file is
MOST = 8 * GIB  # [byte] of text that are read, packed or not
_RATIO = 250  # unpacked over packed, above which a file is a bomb; gzip can reach 1032, traces 10 to 40
_RATIO_FROM = 256 * MIB  # [byte] unpacked before that is asked

Progress = Callable[[int, int], None]  # bytes of the file read, its size or 0


@dataclass(slots=True)
class Source:
    """An open file: its text in blocks, and what there is to note about it."""

    name: str  # printable
    head: bytes  # its first bytes, unpacked
    blocks: Iterator[bytes]
    warnings: list[str]
    read: int = 0  # [byte] of text given so far
    place: Place | None = None  # where it can be read again, by others too: it is a file here, and not packed
    most: int = MOST
    progress: Progress | None = None

    def take_all(self) -> None:
        """All of the file at `place` will be read from there; raises BadValue where that is too much."""
        assert self.place is not None  # the caller knows
        self.read = self.place.size
        if self.read > self.most:
            raise _too_much(self.name, self.most)

    def tell(self, done: int) -> None:
        """Tell the progress: so much of the file at `place` is read [byte]."""
        if self.progress is not None and self.place is not None:
            self.progress(done, self.place.size)


@contextmanager
def opened(path: str | os.PathLike[str], most: int = MOST, progress: Progress | None = None) -> Generator[Source]:
    """Open a file and unpack it while it is read; raises UnknownName where there is none, TraceError or BadValue."""
    text = os.fspath(path)
    name = printable(text)
    with ExitStack() as stack:
        raw, size = _open(text, name, stack)
        counted = _Counted(raw, size, progress)
        how = Unpacking(name, stack, lambda size: _allow(name, size, counted.done, most))
        source = Source(name, b"", iter(()), how.notes, most=most, progress=progress)
        try:
            stream = unpacked(counted, how)
        except BROKEN as error:
            raise TraceError(f"{name} is damaged from its beginning ({one_line(error)}). Copy it again.") from None
        except OSError as error:
            raise TraceError(f"{name} cannot be read: {error.strerror or one_line(error)}.") from None
        if wrong := misnamed(text, how.packed):
            how.notes.append(wrong)
        if isinstance(raw, io.FileIO) and not how.packed:
            source.place = Place.of(str(home(Path(text))), raw.fileno())
        blocks = _limited(source, stream, how)
        first = _filled(blocks)
        source.head = first[:HEAD]
        source.blocks = chain((first,), blocks)
        yield source


def _filled(blocks: Iterator[bytes]) -> bytes:
    """The first blocks as one, large enough for a head: how much of it comes at once says nothing of a file."""
    parts: list[bytes] = []
    size = 0
    while size < HEAD and (block := next(blocks, b"")):
        parts.append(block)
        size += len(block)
    return b"".join(parts)


def _open(text: str, name: str, stack: ExitStack) -> tuple[BinaryIO, int]:
    if "://" in text or "::" in text:
        return _remote(text, name, stack)
    try:
        descriptor = os.open(home(Path(text)), os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        raise UnknownName(f"There is no file {name}. Name a profile that exists.") from None
    except OSError as error:
        raise TraceError(f"{name} cannot be read: {error.strerror}. Name a file that can.") from None
    except ValueError:
        raise UnknownName(f"{name} is no possible file name.") from None
    mode = os.fstat(descriptor)
    if stat.S_ISDIR(mode.st_mode):
        os.close(descriptor)
        raise TraceError(f"{name} is a folder. Name a profile in it.")
    raw = stack.enter_context(os.fdopen(descriptor, "rb", buffering=0))
    if stat.S_ISREG(mode.st_mode):
        os.set_blocking(descriptor, True)
        return cast(BinaryIO, raw), mode.st_size
    if stat.S_ISFIFO(mode.st_mode):
        return cast(BinaryIO, _Pipe(descriptor)), 0
    raise TraceError(f"{name} is a device, no file. Name a profile.")


def _remote(text: str, name: str, stack: ExitStack) -> tuple[BinaryIO, int]:
    import fsspec  # pyright: ignore[reportMissingTypeStubs]

    try:
        file: Any = stack.enter_context(cast(Any, fsspec).open(text, "rb"))
        size = getattr(file, "size", None)
    except FileNotFoundError:
        raise UnknownName(f"There is no file {name}. Name a profile that exists.") from None
    except ImportError as error:
        raise TraceError(f"{name} needs a package that is not installed: {one_line(error)}.") from None
    except Exception as error:  # every protocol has errors of its own
        raise TraceError(f"{name} cannot be opened: {one_line(error)}. Check its address and your rights.") from None
    return cast(BinaryIO, file), size if isinstance(size, int) else 0


class _Pipe(io.RawIOBase):
    """A pipe that is waited for, but not for ever."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = of_pipe(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Counted(Through):
    """A stream that knows how far it is."""

    def __init__(self, raw: BinaryIO, size: int, progress: Progress | None) -> None:
        super().__init__(raw)
        self._size, self._progress = size, progress
        self.done = 0

    def readinto(self, buffer: Any) -> int:
        try:
            count = self._raw.readinto(buffer) or 0
        except OSError:
            raise
        except Exception as error:  # a remote file's protocol has errors of its own
            raise OSError(one_line(error)) from None
        self.done += count
        if self._progress is not None:
            self._progress(self.done, self._size)
        return count


def _limited(source: Source, stream: io.BufferedReader, how: Unpacking) -> Iterator[bytes]:
    """The blocks of a stream as far as it may be long."""
    while block := _next(source, stream):
        source.read += len(block)
        how.allow(source.read)
        yield block


def _allow(name: str, size: int, done: int, most: int) -> None:
    """Refuse more than `most` bytes out of a file of which `done` bytes are read, or far more than those."""
    if size > most:
        raise _too_much(name, most)
    if size > _RATIO_FROM and size > _RATIO * done:
        raise TraceError(
            f"{name} unpacks to more than {_RATIO} times its size, which no profile does. "
            "Where that is no mistake, unpack it first."
        )


def _too_much(name: str, most: int) -> TooMuch:
    return TooMuch(
        f"{name} has more than the {most / GIB:g} GiB of text that are read. "
        f"Where that is no mistake, raise the limit, as --limit {2 * most / GIB:g}GiB."
    )


def _next(source: Source, stream: io.BufferedReader) -> bytes:
    """The next block; what is broken at the end of a packed file is a warning, as the rest is sound."""
    try:
        return stream.read1(BLOCK)
    except BROKEN as error:
        source.warnings.append(f"the packed file is cut or damaged ({one_line(error)}): what comes before was read")
        return b""
    except OSError as error:
        raise TraceError(f"{source.name} cannot be read: {error.strerror or one_line(error)}.") from None
