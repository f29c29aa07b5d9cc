"""Text of a file from outside: read up to a limit, whatever the file says of its size."""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from roofline.errors import RooflineError, UnknownName
from roofline.units import MIB

_PATIENCE = 10.0  # [s] without a byte from a pipe


def printable(path: Path | str) -> str:
    """A path as it may stand in a message: characters that would move the cursor or hide others as escapes."""
    text = str(path)
    return text if text.isprintable() else ascii(text)


def home(path: Path) -> Path:
    """The path with `~` as the home folder, where there is such a one."""
    try:
        return path.expanduser()
    except RuntimeError:  # ~ of a user who is not known: a file may be called that
        return path


def exists(path: Path) -> bool:
    """Whether there is such a file or folder; False for a name that no file can have."""
    try:
        return home(path).exists()
    except (OSError, ValueError):
        return False


def read_text(path: Path, most: int, kind: type[RooflineError], what: str) -> str:
    """The text of a file of up to `most` bytes; `~` is the home folder.

    Raises UnknownName where there is none, `kind` where it is larger or no text; `what` says what was
    expected ("a config.json has a few KiB").
    """
    where = printable(path)
    try:
        data, stated = _read(home(path), most + 1)
        if len(data) > most:
            check_size(where, max(stated, len(data)), most, kind, what)
        return data.decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise UnknownName(f"There is no file {where}. Name one that exists, or a built-in name.") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror or "" if isinstance(error, OSError) else str(error)
        raise kind(f"{where} cannot be read as text: {reason}. Expected: {what}.") from None
    except ValueError:
        raise UnknownName(f"{where} is no possible file name.") from None


def _read(path: Path, most: int) -> tuple[bytes, int]:
    """Up to `most` bytes of a file or a pipe, and the size that it states; a pipe is waited for, but not for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        mode = os.fstat(descriptor)
        if stat.S_ISREG(mode.st_mode):
            os.set_blocking(descriptor, True)
            return _all(file, most), mode.st_size
        if not stat.S_ISFIFO(mode.st_mode):
            raise OSError(errno.EINVAL, "a folder or a device, no file")
        chunks: list[bytes] = []
        while sum(map(len, chunks)) < most:
            chunk = of_pipe(descriptor, min(most, MIB))
            if not chunk:
                break
            chunks.append(chunk)
        return b"".join(chunks)[:most], 0


def of_pipe(descriptor: int, most: int) -> bytes:
    """Up to `most` bytes of a pipe, none at its end; it is waited for, but not for ever: raises OSError."""
    if not select.select([descriptor], [], [], _PATIENCE)[0]:
        raise OSError(errno.ETIMEDOUT, "the pipe stays silent")
    return os.read(descriptor, most)


def _all(file: io.FileIO, most: int) -> bytes:
    """Up to `most` bytes of a regular file; one read may give fewer than it has."""
    chunks: list[bytes] = []
    left = most
    while left > 0 and (chunk := file.read(left)):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def check_size(where: str, size: int, most: int, kind: type[RooflineError], what: str) -> None:
    """Refuse more than `most` bytes; raises `kind`."""
    if size > most:
        has = f"{size / MIB:,.0f} MiB, more" if size > 2 * most else "more"
        raise kind(f"{where} has {has} than the {most / MIB:g} MiB that are read. Expected: {what}.")


def write_text(path: Path, text: str) -> None:
    """Write a file at once or not at all: what breaks off leaves what was there before; raises OSError."""
    target = home(path)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:60]}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~mask)
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
