"""Text of a file from outside: read up to a limit, whatever the file says of its size."""

from __future__ import annotations

import os
from pathlib import Path

from roofline.errors import RooflineError, UnknownName
from roofline.units import MIB


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
        with home(path).open("rb") as file:
            data = file.read(most + 1)
            stated = os.fstat(file.fileno()).st_size
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


def check_size(where: str, size: int, most: int, kind: type[RooflineError], what: str) -> None:
    """Refuse more than `most` bytes; raises `kind`."""
    if size > most:
        raise kind(
            f"{where} has {size / MIB:,.0f} MiB, more than the {most // MIB} MiB that are read. Expected: {what}."
        )
