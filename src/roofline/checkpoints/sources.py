"""Bytes of a file wherever it lies, by their place: on this machine, or by HTTP range requests."""

from __future__ import annotations

import math
import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from roofline.errors import CheckpointError, UnknownName, one_line
from roofline.files import home, printable
from roofline.units import MIB

_DEADLINE = 60.0  # [s] for one file's header
_WHOLE = 300.0  # [s] for those of all files
_PATIENCE = 10.0  # [s] for a connection, and between two pieces of an answer
_OK, _PARTIAL = 200, 206
_MOST_WHOLE = 64 * MIB


class Source(Protocol):
    """A file whose bytes are asked for by their place; `where` is what to call it in messages."""

    where: str

    @property
    def size(self) -> int:
        """How many bytes the file has [byte]."""
        ...

    def read(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset` on, fewer where the file ends; raises CheckpointError."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Local:
    """A file of this machine."""

    def __init__(self, path: Path) -> None:
        self.where = printable(path)
        try:
            descriptor = os.open(home(path), os.O_RDONLY | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            raise UnknownName(f"There is no file {self.where}. Name one that exists.") from None
        except OSError as error:
            raise CheckpointError(f"{self.where} cannot be read: {error.strerror}. Name a file that can.") from None
        mode = os.fstat(descriptor)
        if not stat.S_ISREG(mode.st_mode):
            os.close(descriptor)
            raise CheckpointError(f"{self.where} is no file but a folder, a pipe or a device. Name a checkpoint.")
        self._descriptor = descriptor
        self.size = mode.st_size

    def read(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset` on, fewer where the file ends."""
        pieces: list[bytes] = []
        try:
            while count > 0 and (piece := os.pread(self._descriptor, count, offset)):
                pieces.append(piece)
                offset, count = offset + len(piece), count - len(piece)
        except (OSError, OverflowError) as error:
            raise CheckpointError(f"{self.where} cannot be read: {error}. Copy it again.") from None
        return b"".join(pieces)

    def close(self) -> None:
        """Let go of the file."""
        with suppress(OSError):
            os.close(self._descriptor)


class Remote:
    """A file behind a URL whose server answers range requests; `headers` go to its own host alone.

    `until` is when all of the files that belong together are given up [s], by the clock of `limit`.
    """

    def __init__(
        self, url: str, where: str, headers: Callable[[], dict[str, str]] | None = None, until: float = math.inf
    ) -> None:
        self.where = where
        self._url = url
        self._headers = {} if headers is None else headers()
        self._size: int | None = None
        self._until = min(time.monotonic() + _DEADLINE, until)

    @property
    def size(self) -> int:
        """How many bytes the file has, as the server says [byte]."""
        if self._size is None:
            self.read(0, 8)
        assert self._size is not None
        return self._size

    def read(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset` on, fewer where the file ends; raises CheckpointError or UnknownName."""
        if count <= 0 or (self._size is not None and offset >= self._size):
            return b""
        try:
            return self._asked(offset, count)
        except (CheckpointError, UnknownName):
            raise
        except Exception as error:  # the HTTP client, and so its errors, change from version to version
            raise CheckpointError(
                f"{self.where} cannot be read: {one_line(error, 120)}. "
                "Check the address and the network, or download the file."
            ) from None

    def _asked(self, offset: int, count: int) -> bytes:
        from huggingface_hub.utils import get_session

        headers = {**self._headers, "Range": f"bytes={offset}-{offset + count - 1}", "Accept-Encoding": "identity"}
        client = cast(Any, get_session())
        with client.stream("GET", self._url, headers=headers, timeout=_PATIENCE, follow_redirects=True) as answer:
            self._check(answer, offset)
            pieces: list[bytes] = []
            left = count
            for piece in answer.iter_raw(MIB):
                if time.monotonic() > self._until:
                    raise CheckpointError(
                        f"{self.where} took more than {_DEADLINE:g} s for its header, or all files more than "
                        f"{_WHOLE:g} s. Try again, or download them."
                    )
                pieces.append(piece[:left])
                left -= len(pieces[-1])
                if left <= 0:
                    break
        return b"".join(pieces)

    def _check(self, answer: Any, offset: int) -> None:
        """Take the size of the file from an answer that is a range; raises CheckpointError or UnknownName."""
        status = int(answer.status_code)
        if status in (401, 403, 404):
            means = "absent, private or gated" if status != 404 else "absent, or private"
            raise UnknownName(f"The server answers {status} for {self.where} ({means}). Name a file that is there.")
        span = re.fullmatch(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})", answer.headers.get("Content-Range", ""))
        if status == _OK and offset == 0 and self._size is None:
            length = answer.headers.get("Content-Length", "")
            if re.fullmatch(r"\d{1,19}", length) and int(length) <= _MOST_WHOLE:
                self._size = int(length)
                return
        if status != _PARTIAL or span is None or int(span[1]) != offset:
            said = f"answers {status}" if status not in (_OK, _PARTIAL) else "does not answer range requests"
            raise CheckpointError(f"{self.where}: its server {said}. Download the file and name it.")
        self._size = int(span[3])

    def close(self) -> None:
        """Nothing is kept open between two requests."""


def limit() -> float:
    """When files that are asked for now are given up."""
    return time.monotonic() + _WHOLE


def on_the_hub(repo: str, file: str, until: float, revision: str = "main") -> Remote:
    """A file of a repository of the Hugging Face Hub: honours HF_ENDPOINT and HF_TOKEN."""
    from huggingface_hub.file_download import hf_hub_url  # pyright: ignore[reportUnknownVariableType]

    url = hf_hub_url(repo, file, revision=revision)
    return Remote(url, f"{repo}/{file}", _token, until)


def _token() -> dict[str, str]:
    from huggingface_hub import utils

    return dict(cast(Any, utils).build_hf_headers(library_name="roofline"))


def at(url: str, until: float = math.inf) -> Remote:
    """A file behind an address."""
    host = urlsplit(url).hostname
    if not host:
        raise UnknownName(f"{printable(url)} has no host. Write an address as https://HOST/FILE.gguf.")
    return Remote(url, printable(url.partition("?")[0]), until=until)
