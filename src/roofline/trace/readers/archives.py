"""The one JSON file of a zip or tar archive."""

from __future__ import annotations

import io
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

from roofline.errors import TraceError, one_line
from roofline.files import printable
from roofline.trace.readers.layers import BROKEN, Guarded, Unpacking


def unzip(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    """The JSON file of a zip archive; raises TraceError where it has none, or several."""
    import zipfile

    if not _seekable(stream):
        raise TraceError(f"{how.name} is a zip archive within another stream. Unpack it first.")
    errors = (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, ValueError)
    try:
        archive = how.stack.enter_context(zipfile.ZipFile(stream))
        names = [each.filename for each in archive.infolist() if not each.is_dir()]
        member = _chosen(names, how.name)
        how.notes.append(f"read of the archive: {printable(member)}")
        return Guarded(how.stack.enter_context(archive.open(member)), how.name, *errors)
    except errors as error:
        raise TraceError(f"{how.name} is a zip archive that cannot be read: {one_line(error)}.") from None


def _seekable(stream: io.BufferedReader) -> bool:
    with suppress(OSError, ValueError):
        return stream.seekable()
    return False


def untar(stream: io.BufferedReader, how: Unpacking) -> io.RawIOBase:
    """The first JSON file of a tar archive; raises TraceError where it has none."""
    import tarfile

    errors = (tarfile.TarError, OSError, ValueError, *BROKEN)
    try:
        archive = how.stack.enter_context(tarfile.open(fileobj=stream, mode="r|"))  # noqa: SIM115
        for member in cast("Iterable[tarfile.TarInfo]", archive):
            if member.isfile() and _is_json(member.name) and (file := archive.extractfile(member)) is not None:
                how.notes.append(f"read of the archive, its first JSON file: {printable(member.name)}")
                return Guarded(file, how.name, *errors)
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
