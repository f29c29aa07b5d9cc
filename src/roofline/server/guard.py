"""What stands between the server and whoever calls: whose requests are heard, and how much of them is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from ipaddress import ip_address

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roofline.errors import RooflineError
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
CLOSED = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class TooLarge(RooflineError):
    """A body of more than is read."""


def local(host: str) -> bool:
    """Whether a Host header, port left out, names this machine."""
    name = host.rsplit(":", 1)[0] if host.count(":") == 1 else host.partition("]")[0].lstrip("[")
    if name.lower() == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


class Guard:
    """Hears requests of its own pages and of programs on this machine, and answers no other site.

    A name that is not this machine's in the Host header is a page elsewhere that had its name point here; an
    Origin of another site is a page elsewhere that calls. Both get 403. `hosts` are further names to answer to.
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
        host = request.headers.get("host", "")
        if not local(host) and host not in self.hosts and host.rsplit(":", 1)[0] not in self.hosts:
            return "This server answers to its own name alone. Open it as http://127.0.0.1 with its port."
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return "This server answers its own pages alone, not those of another site."
        if site in ("cross-site", "same-site") and request.method != "GET":
            return "This server answers its own pages alone, not those of another site."
        return ""


async def body(request: Request, most: int = LARGEST) -> bytes:
    """The body of a request, up to `most` bytes and within the time; raises TooLarge or TimeoutError."""
    return b"".join([piece async for piece in arriving(request, most, _PATIENCE, "Send a config.json.")])


async def arriving(request: Request, most: int, patience: float, instead: str) -> AsyncGenerator[bytes, None]:
    """The body of a request piece by piece, up to `most` bytes and within `patience` [s].

    Raises TooLarge, with what to do instead, or TimeoutError.
    """
    too_large = TooLarge(f"The request has more than the {most / MIB:g} MiB that are read. {instead}")
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated[:20]) > most:
        raise too_large
    read = 0
    async with asyncio.timeout(patience):
        async for piece in request.stream():
            read += len(piece)
            if read > most:
                raise too_large
            yield piece
