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

from roofline.errors import BadValue, TraceError, UnknownName
from roofline.files import home, printable
from roofline.trace.readers.decode import Place
from roofline.trace.readers.unpack import BROKEN, Unpacking, line, misnamed, unpacked
from roofline.units import GIB, MIB

BLOCK = MIB
MOST = 8 * GIB  # [byte] of text that are read, packed or not
_RATIO = 250  # unpacked over packed, above which a file is a bomb; gzip can reach 1032, traces 10 to 40
_RATIO_FROM = 256 * MIB  # [byte] unpacked before that is asked
_PATIENCE = 10.0  # [s] without a byte from a pipe

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
        how = Unpacking(name, stack)
        source = Source(name, b"", iter(()), how.notes, most=most, progress=progress)
        try:
            stream = unpacked(counted, how)
        except BROKEN as error:
            raise TraceError(f"{name} is damaged from its beginning ({line(error)}). Copy it again.") from None
        except OSError as error:
            raise TraceError(f"{name} cannot be read: {error.strerror or line(error)}.") from None
        if wrong := misnamed(text, how.packed):
            how.notes.append(wrong)
        if isinstance(raw, io.FileIO) and not how.packed:
            source.place = Place.of(str(home(Path(text))), raw.fileno())
        blocks = _limited(source, stream, counted, most)
        first = next(blocks, b"")
        source.head = first[:MIB]
        source.blocks = chain((first,), blocks)
        yield source


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
        raise TraceError(f"{name} needs a package that is not installed: {line(error)}.") from None
    except Exception as error:  # every protocol has errors of its own
        raise TraceError(f"{name} cannot be opened: {line(error)}. Check its address and your rights.") from None
    return cast(BinaryIO, file), size if isinstance(size, int) else 0


class _Pipe(io.RawIOBase):
    """A pipe that is waited for, but not for ever."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        import select

        if not select.select([self._descriptor], [], [], _PATIENCE)[0]:
            raise OSError("the pipe stays silent")
        data = os.read(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Counted(io.RawIOBase):
    """A stream that knows how far it is."""

    def __init__(self, raw: BinaryIO, size: int, progress: Progress | None) -> None:
        self._raw, self._size, self._progress = raw, size, progress
        self.done = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._raw.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def readinto(self, buffer: Any) -> int:
        try:
            count = cast(Any, self._raw).readinto(buffer) or 0
        except OSError:
            raise
        except Exception as error:  # a remote file's protocol has errors of its own
            raise OSError(line(error)) from None
        self.done += count
        if self._progress is not None:
            self._progress(self.done, self._size)
        return count


def _limited(source: Source, stream: io.BufferedReader, counted: _Counted, most: int) -> Iterator[bytes]:
    """The blocks of a stream up to `most` bytes."""
    while block := _next(source, stream):
        source.read += len(block)
        if source.read > most:
            raise _too_much(source.name, most)
        if source.read > _RATIO_FROM and source.read > _RATIO * counted.done:
            raise TraceError(
                f"{source.name} unpacks to more than {_RATIO} times its size, which no profile does. "
                "Where that is no mistake, unpack it first."
            )
        yield block


def _too_much(name: str, most: int) -> BadValue:
    return BadValue(
        f"{name} has more than the {most / GIB:g} GiB of text that are read. "
        f"Where that is no mistake, raise the limit, as --limit {2 * most / GIB:g}GiB."
    )


def _next(source: Source, stream: io.BufferedReader) -> bytes:
    """The next block; what is broken at the end of a packed file is a warning, as the rest is sound."""
    try:
        return stream.read1(BLOCK)
    except BROKEN as error:
        source.warnings.append(f"the packed file is cut or damaged ({line(error)}): what comes before was read")
        return b""
    except OSError as error:
        raise TraceError(f"{source.name} cannot be read: {error.strerror or line(error)}.") from None
