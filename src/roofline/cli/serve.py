"""`roofline serve`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.cli.options import print_text
from roofline.errors import BadValue

_PORTS = 65_535


def serve(
    *,
    host: Annotated[str, Parameter(negative=())] = "127.0.0.1",
    port: Annotated[int, Parameter(negative=())] = 8000,
    also_known_as: Annotated[list[str] | None, Parameter(negative=())] = None,
) -> int:
    """The live page at http://127.0.0.1:8000, for the built-in models and for any config.json or Hub id.

    Parameters
    ----------
    host
        The address to listen on. Another than this machine's own opens the server to whoever can reach it.
    port
        The port; 0 for any that is free.
    also_known_as
        A name that others open it by, as of a proxy before it. Give the option again for another.
    """
    if not 0 <= port <= _PORTS:
        raise BadValue(f"--port: {port} is no port. Choose one from 0 to {_PORTS}.")
    from roofline.server.run import run

    return run(host, port, print_text, also_known_as or ())
