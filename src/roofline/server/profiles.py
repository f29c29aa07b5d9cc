"""A profile that a client sends: into a file of our own naming, diagnosed, gone afterwards."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from roofline.errors import BadValue, RooflineError
from roofline.files import printable
from roofline.server.asked import device_by_id
from roofline.server.guard import arriving
from roofline.units import GIB, MIB

if TYPE_CHECKING:
    from roofline.diagnosis.assessment import Assessment
    from roofline.diagnosis.result import Diagnosis

LARGEST = 512 * MIB  # [byte] of a profile that is sent
_UNPACKED = 2 * GIB  # [byte] of its text
_ROOM = 4 * GIB  # [byte] of all that are there at once
_PATIENCE = 120.0  # [s] for a whole one
_WHAT = "A larger profile is read where it lies: roofline diagnose FILE."
_LONGEST = 100
_LONGEST_FIELD = 4096  # [byte] of a field that is no file

Take = Callable[[int], None]


class NoRoom(RooflineError):
    """A profile for which the others leave no disk."""


class Room:
    """The disk that profiles may take, those of all requests to a server together; `left` [byte]."""

    def __init__(self, most: int = _ROOM) -> None:
        self.left = most

    @contextmanager
    def part(self) -> Generator[Take]:
        """What one request takes of it while it lasts: call it with each number of bytes; it raises NoRoom."""
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if size > self.left:
                raise NoRoom("Other profiles fill the disk that this server has for them. Send it again later.")
            self.left -= size
            taken += size

        try:
            yield take
        finally:
            self.left += taken


class Sent(NamedTuple):
    """A profile in a file of our own, what its sender calls it, and the device it ran on, where that is said."""

    path: Path
    name: str
    device: str

    def diagnosed(self) -> Diagnosis | Assessment:
        """Where its time went; raises RooflineError, in whose message the file has its sender's name."""
        from roofline import diagnosis
        from roofline.diagnosis.ranks import Run

        device = device_by_id(self.device) if self.device else None
        try:
            found = diagnosis.diagnose(self.path, device=device, most=_UNPACKED)
        except RooflineError as error:
            raise BadValue(str(error).replace(str(self.path), self.name)) from None
        return replace(found.slowest if isinstance(found, Run) else found, source=self.name)


@contextmanager
def _folder() -> Generator[Path]:
    with TemporaryDirectory(prefix="roofline-") as folder:
        yield Path(folder) / "profile"


@contextmanager
def sent_in_form(form: Form) -> Generator[Sent]:
    """The profile of a form, in a file while it is looked at."""
    with _folder() as path:
        with form.file, path.open("wb") as file:
            while piece := form.file.read(MIB):
                file.write(piece)
        yield Sent(path, form.name, form.device)


class Form(NamedTuple):
    """What a form brought: the open file, its sender's name of it, and a device or ""."""

    file: BinaryIO
    name: str
    device: str


class _Parser(MultiPartParser):
    """Refuses a form that is cut off, which looks like one with fewer parts otherwise."""

    _ended = False

    def on_end(self) -> None:
        self._ended = True

    async def parse(self) -> FormData:
        self.stream = self._to_the_end(self.stream)
        return await super().parse()

    async def _to_the_end(self, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        async for piece in pieces:
            yield piece
        if not self._ended:
            raise MultiPartException("it is cut off. Send it again.")


async def form_of(request: Request, take: Take) -> Form:
    """The form in a request; raises BadValue where it is none, is cut off or has no file, TooLarge, TooSlow, NoRoom."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        raise BadValue("The request is no form with a file. Choose a profile on the first page.")
    # Some of Python's codecs take the square of a text's length in time, and some are none of text.
    if options.get(b"charset", b"utf-8").lower() != b"utf-8":
        raise BadValue("The form is not in UTF-8. Send it without a charset.")
    stream = _taking(arriving(request, LARGEST + MIB, _PATIENCE, _WHAT), take, copies=2)  # the parser's, and a file
    parser = _Parser(request.headers, stream, max_files=1, max_fields=4, max_part_size=_LONGEST_FIELD)
    try:
        fields = await parser.parse()
    except (MultiPartException, FormParserError) as error:
        raise BadValue(f"The form cannot be read: {printable(getattr(error, 'message', str(error)))[:200]}") from None
    file, device = fields.get("profile"), fields.get("device", "")
    if not isinstance(file, UploadFile) or not file.filename:
        await fields.close()
        raise BadValue("No profile was chosen. Choose a file.")
    return Form(file.file, _called(file.filename), device.strip() if isinstance(device, str) else "")


@contextmanager
def destination() -> Generator[tuple[Path, BinaryIO]]:
    """A file of our own for a body that is a profile; it is gone afterwards."""
    with _folder() as path, path.open("wb") as file:
        yield path, file


async def receive(request: Request, file: BinaryIO, take: Take) -> None:
    """Write the body of a request into a file; raises TooLarge, TooSlow or NoRoom."""
    async for piece in _taking(arriving(request, LARGEST, _PATIENCE, _WHAT), take, copies=1):
        await run_in_threadpool(file.write, piece)
    await run_in_threadpool(file.flush)


async def _taking(pieces: AsyncGenerator[bytes, None], take: Take, copies: int) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        take(copies * len(piece))
        yield piece


def _called(name: str) -> str:
    """What a sender calls a file, as text alone: its last part, short."""
    return printable(os.path.basename(name.replace("\\", "/")))[:_LONGEST] or "profile"
