"""The routes: the live page, a page for a model that is sent, and answers as JSON with their description."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, wraps
from threading import Semaphore
from typing import Any, TypeVar
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from roofline.catalogue import device_sheets, load_model, models
from roofline.errors import RooflineError
from roofline.server.asked import asked, model_of_form
from roofline.server.description import description
from roofline.server.guard import Guard, TooLarge, body
from roofline.server.profiles import Sent, destination, form_of, receive, sent_in_form
from roofline.show.assessment_report import report_of
from roofline.show.live import MODELS, live_page, named
from roofline.show.page import asset, page
from roofline.show.record import devices_record, ledger_record, models_record

_T = TypeVar("_T")
_Handler = Callable[[Request], Awaitable[Response]]
_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]+)"')
_AT_ONCE = 2  # pages that are made at one time
_FIELDS = 8


def application(hosts: frozenset[str] = frozenset()) -> Starlette:
    """The server as an ASGI application; `hosts` are names beside this machine's own that it answers to."""
    return Starlette(
        routes=[Route(path, _answered(handler), methods=[method]) for path, (handler, method) in _ROUTES.items()],
        middleware=[Middleware(Guard, hosts=hosts)],
    )


_LIMITER = Semaphore(_AT_ONCE)


async def _apart(work: Callable[..., _T], *arguments: Any) -> _T:
    """The result of work that takes a while, done beside the server, a few at a time."""

    def one() -> _T:
        with _LIMITER:
            return work(*arguments)

    return await run_in_threadpool(one)


async def _home(request: Request) -> Response:
    return _page(_start())


async def _live(request: Request) -> Response:
    return _page(await _apart(_default))


async def _model(request: Request) -> Response:
    sent = parse_qs((await body(request)).decode("utf-8"), max_num_fields=_FIELDS)
    name, found = await _apart(model_of_form, {key: values[0] for key, values in sent.items()})
    return _page(await _apart(live_page, named([(name, found)])))


async def _predict(request: Request) -> Response:
    question = asked(await body(request))
    return JSONResponse(await _apart(lambda: ledger_record(question.ledger())))


async def _profile(request: Request) -> Response:
    form = await form_of(request)

    def reported() -> str:
        with sent_in_form(form) as sent:
            return report_of(sent.diagnosed()).html()

    return _page(await _apart(reported))


async def _diagnose(request: Request) -> Response:
    device = request.query_params.get("device", "")
    with destination() as (path, file):
        await receive(request, file)
        return JSONResponse(await _apart(lambda: Sent(path, "profile", device).diagnosed().to_dict()))


async def _models(request: Request) -> Response:
    return JSONResponse(await _apart(lambda: models_record(models())))


async def _devices(request: Request) -> Response:
    return JSONResponse(await _apart(lambda: devices_record(device_sheets())))


async def _openapi(request: Request) -> Response:
    return JSONResponse(description())


def _answered(handler: _Handler) -> _Handler:
    """The handler with errors of the input as an answer: JSON for programs, a page for a form."""

    @wraps(handler)
    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except TooLarge as error:
            return _error(request, str(error), 413)
        except TimeoutError:
            return _error(request, "The request did not arrive in time. Send it again.", 408)
        except UnicodeDecodeError:
            return _error(request, "The request is no text in UTF-8. Send a config.json.", 400)
        except (RooflineError, ValueError) as error:
            return _error(request, str(error), 400)

    return answered


def _error(request: Request, message: str, status: int) -> Response:
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": message}, status)
    return _page(_start(message), status)


def _page(html: str, status: int = 200) -> Response:
    """A page whose policy, which names its scripts, is said in the header too."""
    found = _POLICY.search(html)
    policy = f"{found[1]}; frame-ancestors 'none'" if found else "default-src 'none'"
    return HTMLResponse(html, status, {"Content-Security-Policy": policy})


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
