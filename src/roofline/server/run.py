"""The server on a socket."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

import uvicorn

from roofline.errors import BadValue, shown
from roofline.server.app import application
from roofline.server.guard import local

_AT_ONCE = 64
_SECONDS = 15  # a connection that says nothing is closed
_ANY = ("0.0.0.0", "::")


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises BadValue where that cannot be."""
    found: socket.socket | None = None
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except (OSError, UnicodeError) as error:
        if found is not None:
            found.close()
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        reason = "is taken" if taken else f"cannot be had ({error})"
        raise BadValue(f"{shown(host)} port {port} {reason}. Choose another with --host and --port.") from None
    return found


def hosts_for(host: str) -> frozenset[str]:
    """The names beside this machine's own that a server at `host` answers to."""
    return frozenset() if local(host) else frozenset({socket.gethostname(), *_own(host)})


def _own(host: str) -> list[str]:
    if host not in _ANY:
        return [host]
    try:
        return [str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None)]
    except OSError:
        return []


def run(host: str, port: int, tell: Callable[[str], None]) -> int:
    """Serve until interrupted, and tell where; the exit code."""
    config = uvicorn.Config(
        application(hosts_for(host)),
        limit_concurrency=_AT_ONCE,
        timeout_keep_alive=_SECONDS,
        server_header=False,
        log_level="warning",
        access_log=False,
    )
    with listening(host, port) as sock:
        shown = f"[{host}]" if ":" in host else host
        tell(f"Serving at http://{shown}:{sock.getsockname()[1]} until Ctrl-C.\n")
        uvicorn.Server(config).run([sock])
    return 0
