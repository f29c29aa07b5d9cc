"""The routes: the live page, a page for a model that is sent, and answers as JSON with their description."""

from __future__ import annotations

import errno
import json
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, wraps
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from roofline.catalogue import device_sheets, load_model, models
from roofline.errors import RooflineError, shown
from roofline.files import printable
from roofline.server.asked import asked, form_fields, model_of_form
from roofline.server.description import description
from roofline.server.guard import Guard, TooLarge, TooSlow, body
from roofline.server.profiles import NoRoom, Room, Sent, destination, form_of, receive, sent_in_form
from roofline.show.assessment_report import report_of
from roofline.show.catalogue_record import devices_record, models_record
from roofline.show.live import MODELS, live_page, named
from roofline.show.page import asset, page
from roofline.show.record import ledger_record

_T = TypeVar("_T")
_Handler = Callable[[Request], Awaitable[Response]]
_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]+)"')
_AT_ONCE = 2  # pages that are made at one time
_STATUS: Mapping[type[RooflineError], int] = {TooLarge: 413, TooSlow: 408, NoRoom: 503}
_FULL = (errno.ENOSPC, errno.EDQUOT)
_LOG = logging.getLogger(__name__)


def application(hosts: frozenset[str] = frozenset()) -> Starlette:
    """The server as an ASGI application; `hosts` are names beside this machine's own that it answers to."""
    made = Starlette(
        routes=[Route(path, _answered(handler), methods=[method]) for path, (handler, method) in _ROUTES.items()],
        middleware=[Middleware(Guard, hosts=hosts)],
        exception_handlers={HTTPException: _nothing_there},
    )
    made.state.limiter = CapacityLimiter(_AT_ONCE)
    made.state.room = Room()
    return made


async def _apart(request: Request, work: Callable[[], _T]) -> _T:
    """The result of work that takes a while, done beside the server, a few at a time; who waits holds no thread."""
    return await to_thread.run_sync(work, limiter=request.app.state.limiter)


async def _home(request: Request) -> Response:
    return _page(_start())


async def _live(request: Request) -> Response:
    return _page(await _apart(request, _default))


async def _model(request: Request) -> Response:
    sent = form_fields(await body(request))

    def made() -> str:
        name, model = model_of_form(sent)
        return live_page(named([(name, model)]))

    return _page(await _apart(request, made))


async def _predict(request: Request) -> Response:
    question = asked(await body(request))
    return _json(await _apart(request, lambda: ledger_record(question.ledger())))


async def _profile(request: Request) -> Response:
    with request.app.state.room.part() as take:
        form = await form_of(request, take)

        def reported() -> str:
            with sent_in_form(form) as sent:
                return report_of(sent.diagnosed()).html()

        return _page(await _apart(request, reported))


async def _diagnose(request: Request) -> Response:
    device = request.query_params.get("device", "")
    with request.app.state.room.part() as take, destination() as (path, file):
        await receive(request, file, take)
        return _json(await _apart(request, lambda: Sent(path, "profile", device).diagnosed().to_dict()))


async def _models(request: Request) -> Response:
    return _json(await _apart(request, lambda: models_record(models())))


async def _devices(request: Request) -> Response:
    return _json(await _apart(request, lambda: devices_record(device_sheets())))


async def _openapi(request: Request) -> Response:
    return _json(description())


def _answered(handler: _Handler) -> _Handler:
    """The handler with errors of the input as an answer: JSON for programs, a page for a form.

    Anything else that is raised is a fault of the server: it is logged, and the client is told no more than that.
    """

    @wraps(handler)
    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except RooflineError as error:
            return _error(request, str(error), _STATUS.get(type(error), 400))
        except ClientDisconnect:  # nobody hears the answer
            return Response(status_code=400)
        except Exception as error:
            return _fault(request, error)

    return answered


def _fault(request: Request, error: Exception) -> Response:
    if isinstance(error, OSError) and error.errno in _FULL:
        return _error(request, "This server's disk is full. Send less, or later.", 507)
    lines = [printable(line) for each in traceback.format_exception(error) for line in each.splitlines()]
    _LOG.error("%s %s failed:\n%s", request.method, shown(request.scope["path"]), "\n".join(lines))
    return _error(request, "This server failed at it: a fault of its own, which its log describes.", 500)


async def _nothing_there(request: Request, error: Exception) -> Response:
    """What a path or a method that is none of ours gets."""
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    asked_for, allowed = f"{request.method} {shown(request.scope['path'])}", headers.get("Allow")
    hint = f"It answers {allowed}." if allowed else f"There are {', '.join(_ROUTES)}."
    answer = _error(request, f"Nothing answers {asked_for}. {hint}", 405 if allowed else 404)
    answer.headers.update(headers)
    return answer


def _error(request: Request, message: str, status: int) -> Response:
    if request.scope["path"].startswith("/api/"):
        return _json({"error": message}, status)
    return _page(_start(message), status)


def _json(value: object, status: int = 200) -> Response:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(_encoded(text), status, media_type="application/json")


def _encoded(text: str) -> bytes:
    """UTF-8; half of a surrogate pair, which a name in a file may have, as its escape, in JSON too."""
    return text.encode("utf-8", "backslashreplace")


def _page(html: str, status: int = 200) -> Response:
    """A page whose policy, which names its scripts, is said in the header too."""
    found = _POLICY.search(html)
    policy = f"{found[1]}; frame-ancestors 'none'" if found else "default-src 'none'"
    return HTMLResponse(_encoded(html), status, {"Content-Security-Policy": policy})


def _start(message: str = "") -> str:
    values: Mapping[str, Any] = {"message": message}
    return page("home.html", "roofline", [asset("home.js")], values, ("style.css", "live.css"), own_forms=True)


@cache
def _default() -> str:
    return live_page({name: load_model(name) for name in MODELS})


_ROUTES: Mapping[str, tuple[_Handler, str]] = {
    "/": (_home, "GET"),
    "/live": (_live, "GET"),
    "/model": (_model, "POST"),
    "/profile": (_profile, "POST"),
    "/api/predict": (_predict, "POST"),
    "/api/diagnose": (_diagnose, "POST"),
    "/api/models": (_models, "GET"),
    "/api/devices": (_devices, "GET"),
    "/api/openapi.json": (_openapi, "GET"),
}
