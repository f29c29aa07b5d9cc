"""The server on a socket."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable

import uvicorn

from roofline.errors import BadValue, shown
from roofline.server.app import application
from roofline.server.authority import authority, local
from roofline.server.connection import Connection, Heard

_AT_ONCE = 64  # connections
_SECONDS = 15  # [s] without a byte after an answer; `Connection` has the time of whoever sends some, or none at all


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


def hosts_for(host: str, also: Iterable[str] = ()) -> frozenset[str]:
    """The names beside this machine's own that a server at `host` answers to; raises BadValue for what is no name.

    `also`: the names that others know it by, as behind a proxy. The address that a connection reaches is a name anyway.
    """
    own = () if local(host) else (host, socket.gethostname())
    return frozenset({_host(each) for each in also} | {named.host for each in own if (named := authority(each))})


def _host(name: str) -> str:
    found = authority(name)
    if found is None:
        raise BadValue(
            f"--also-known-as: {shown(name)} names no host. Give it as it stands in an address, as box.example.org."
        )
    return found.host


def server_for(hosts: frozenset[str]) -> uvicorn.Server:
    """The server, which answers to these names too, for a socket that listens."""
    config = uvicorn.Config(
        Heard(application(hosts)),
        http=Connection,
        ws="none",
        proxy_headers=False,
        limit_concurrency=_AT_ONCE,
        timeout_keep_alive=_SECONDS,
        server_header=False,
        log_level="warning",
        access_log=False,
    )
    return uvicorn.Server(config)


def run(host: str, port: int, tell: Callable[[str], None], also: Iterable[str] = ()) -> int:
    """Serve until interrupted, and tell where; the exit code."""
    server = server_for(hosts_for(host, also))
    with listening(host, port) as sock:
        named = f"[{host}]" if ":" in host else host
        tell(f"Serving at http://{named}:{sock.getsockname()[1]} until Ctrl-C.\n")
        server.run([sock])
    return 0
