"""A connection that is closed where nothing is asked over it in time, and where nobody takes its answer."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_ASKING: ContextVar[Connection] = ContextVar("_ASKING")


class Connection(H11Protocol):
    """uvicorn's protocol with a timer of its own: uvicorn's starts after an answer alone, and any byte stops it.

    Give it to uvicorn as `http=`, and the application in `Heard`, which says when a request is in progress.
    """

    to_ask = 15.0  # [s] from the connection, or from an answer, to the end of the next request's headers
    to_take = 60.0  # [s] from there until what is not yet taken of an answer is dropped
    _requests = 0  # in progress
    _gone = False
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The connection stands: its first request is awaited."""
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """What came over it; a task for a request that starts here knows its connection by the context."""
        token = _ASKING.set(self)
        try:
            super().data_received(data)
        finally:
            _ASKING.reset(token)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._gone = True
        self._stop()
        super().connection_lost(exc)

    def request_begins(self) -> None:
        """A request is complete up to its body, whose time is looked after where it is read."""
        self._requests += 1
        self._stop()

    def request_ends(self) -> None:
        """It is answered, as far as this side can tell."""
        self._requests -= 1
        if not self._requests:
            self._await_request()

    def _await_request(self) -> None:
        self._stop()
        if not self._gone:
            self._timer = self.loop.call_later(self.to_ask, self._close)

    def _close(self) -> None:
        self.transport.close()
        # Closing sends the rest of an answer first, and a client that takes none of it would hold the connection.
        self._timer = self.loop.call_later(self.to_take, self.transport.abort)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Heard:
    """An application that tells each `Connection` when a request over it begins and ends."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        connection = _ASKING.get(None)
        if connection is None:
            await self.app(scope, receive, send)
            return
        connection.request_begins()
        try:
            await self.app(scope, receive, send)
        finally:
            connection.request_ends()
