"""What stands between the server and whoever calls: whose requests are heard, and how much of them is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roofline.errors import RooflineError, shown
from roofline.server.authority import address_of, authority, is_origin, local
from roofline.units import MIB

LARGEST = 4 * MIB + MIB // 4  # of a request's body: a config.json of the largest size, as a form carries it
_PATIENCE = 20.0  # [s] for a whole body

# Said with every answer; a page names its own scripts in its policy beside.
HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": under it a browser names the origin of a form of our own as "null", which is refused.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
_INSTEAD = "Open it as http://127.0.0.1 with its port, or start it with --also-known-as and that name."
CLOSED = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class TooLarge(RooflineError):
    """A body of more than is read."""


class TooSlow(RooflineError):
    """A body that does not arrive in time."""


class Guard:
    """Hears requests of its own pages and of programs on this machine, and answers no other site.

    A name that is not this machine's in the Host header is a page elsewhere that had its name point here; an
    Origin of another site is a page elsewhere that calls. Both get 403. `hosts` are further names to answer to, as
    `Authority` spells them. The address that the connection came in by is always one: only a name can be made to
    point here.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] = frozenset()) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        scope = _by_path(scope)
        reason = self._refused(Request(scope))

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                more = {**HEADERS, "Content-Security-Policy": CLOSED}
                message["headers"] += [
                    (name.lower().encode(), value.encode())
                    for name, value in more.items()
                    if name.lower().encode() not in present
                ]
            await send(message)

        if reason:
            await JSONResponse({"error": reason}, 403)(scope, receive, answered)
            return
        await self.app(scope, receive, answered)

    def _refused(self, request: Request) -> str:
        """Why a request is not heard, or ""."""
        named = request.headers.get("host", "")
        host = authority(named)
        if host is None or not self._answers_to(host.host, request.scope.get("server")):
            return f"This server does not answer to the name {shown(named)}. {_INSTEAD}"
        site = request.headers.get("sec-fetch-site")
        foreign = any(not is_origin(each, host) for each in request.headers.getlist("origin"))
        if foreign or (site in ("cross-site", "same-site") and request.method != "GET"):
            return "This server answers its own pages alone, not those of another site."
        return ""

    def _answers_to(self, host: str, server: tuple[str, int | None] | None) -> bool:
        """Whether it is a name of this server, or the address at which the connection reached it."""
        return local(host) or host in self.hosts or (server is not None and host == address_of(server[0]))


def _by_path(scope: Scope) -> Scope:
    """A request that names a whole URL, as one to a proxy does, as one that names its path and its Host."""
    scheme, separator, rest = scope["path"].partition("://")
    if not separator or scheme.casefold() not in ("http", "https"):
        return scope
    named, _, path = rest.partition("/")
    headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
    return {**scope, "path": f"/{path}", "headers": [(b"host", named.encode("utf-8")), *headers]}


async def body(request: Request, most: int = LARGEST) -> bytes:
    """The body of a request, up to `most` bytes and within the time; raises TooLarge or TooSlow."""
    return b"".join([piece async for piece in arriving(request, most, _PATIENCE, "Send a config.json.")])


async def arriving(request: Request, most: int, patience: float, instead: str) -> AsyncGenerator[bytes, None]:
    """The body of a request piece by piece, up to `most` bytes and within `patience` [s].

    Raises TooLarge, with what to do instead, or TooSlow.
    """
    too_large = TooLarge(f"The request has more than the {most / MIB:g} MiB that are read. {instead}")
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated[:20]) > most:
        raise too_large
    read = 0
    until = asyncio.get_running_loop().time() + patience
    pieces = request.stream()
    while True:
        # Around the wait alone: a timer that ran while the caller has the piece would strike in the caller's work.
        try:
            async with asyncio.timeout_at(until):
                piece = await anext(pieces, None)
        except TimeoutError:
            raise TooSlow("The request did not arrive in time. Send it again.") from None
        if piece is None:
            return
        read += len(piece)
        if read > most:
            raise too_large
        yield piece
