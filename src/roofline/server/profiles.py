"""A profile that a client sends: into a file of our own naming, diagnosed, gone afterwards."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
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
_PATIENCE = 120.0  # [s] for a whole one
_WHAT = "A larger profile is read where it lies: roofline diagnose FILE."
_LONGEST = 100


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


async def form_of(request: Request) -> Form:
    """The form in a request; raises BadValue where it is none or has no file, TooLarge, TimeoutError."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise BadValue("The request is no form with a file. Choose a profile on the first page.")
    stream = arriving(request, LARGEST + MIB, _PATIENCE, _WHAT)
    try:
        fields = await MultiPartParser(request.headers, stream, max_files=1, max_fields=4).parse()
    except MultiPartException as error:
        raise BadValue(f"The form cannot be read: {error.message[:200]}") from None
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


async def receive(request: Request, file: BinaryIO) -> None:
    """Write the body of a request into a file; raises TooLarge or TimeoutError."""
    async for piece in arriving(request, LARGEST, _PATIENCE, _WHAT):
        await run_in_threadpool(file.write, piece)
    await run_in_threadpool(file.flush)


def _called(name: str) -> str:
    """What a sender calls a file, as text alone: its last part, short."""
    return printable(os.path.basename(name.replace("\\", "/")))[:_LONGEST] or "profile"
