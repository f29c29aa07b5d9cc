"""Counters over HTTP: one answer of an exporter, or of a Prometheus server, at a time."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from roofline.errors import BadValue, TraceError, one_line, shown
from roofline.evidence import dcgm
from roofline.evidence.counters import Counters
from roofline.evidence.lines import Lines
from roofline.units import MIB

_MOST = 64 * MIB  # [byte] of one answer
_PATIENCE = 10.0  # [s]
_QUERY = "api/v1/query?query=" + quote('{__name__=~"DCGM_FI_.*"}')


@dataclass(frozen=True, slots=True)
class Target:
    """Where to ask: `name` is the URL without credentials."""

    url: str
    name: str
    authorization: str = ""


def target(url: str) -> Target:
    """What a URL names; raises BadValue for one that is no http or https address."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, None
    if parts is None or parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        raise BadValue(
            f"{shown(url)} is no address of an exporter. Write http://HOST:9400/metrics, or a Prometheus server."
        )
    place = f"[{host}]" if ":" in host else host
    place += f":{port}" if port is not None else ""
    plain = urlunsplit((parts.scheme, place, parts.path, parts.query, ""))
    said = ""
    if parts.username is not None:
        said = "Basic " + base64.b64encode(f"{parts.username}:{parts.password or ''}".encode()).decode()
    return Target(plain, plain, said)


def scrape(where: Target) -> tuple[Counters, Target]:
    """The counters there now, and where they were found; raises TraceError where there are none.

    An address without a path is tried as that of an exporter (/metrics) and as that of a Prometheus server.
    """
    path = urlsplit(where.url).path
    if path.strip("/") or urlsplit(where.url).query:
        return _read(where), where
    base = where.url.rstrip("/")
    first: TraceError | None = None
    for tail in ("metrics", _QUERY):
        there = Target(f"{base}/{tail}", where.name, where.authorization)
        try:
            return _read(there), there
        except _Nothing as error:
            first = first or error
    raise TraceError(
        f"{where.name} answers, but has no counter of DCGM: neither at /metrics nor as a Prometheus server. "
        "Name the address of dcgm-exporter, or of a Prometheus server that collects from one."
    ) from first


class _Nothing(TraceError):
    """An answer without counters."""


def _read(where: Target) -> Counters:
    data = _fetched(where)
    head = data[: MIB // 16].decode("utf-8", "replace")
    try:
        if head.lstrip().startswith("{"):
            return dcgm.read_answer(Lines([data]))
        return dcgm.read(Lines([data]))
    except BadValue as error:
        raise _Nothing(f"{where.name} {error}") from None


def _fetched(where: Target) -> bytes:
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Here(HTTPRedirectHandler):
        """Redirects are not followed: they could lead anywhere."""

        def redirect_request(self, *args: Any, **named: Any) -> None:
            return None

    headers = {"Accept": "text/plain, application/json", "User-Agent": "roofline"}
    if where.authorization:
        headers["Authorization"] = where.authorization
    try:
        with build_opener(Here).open(Request(where.url, headers=headers), timeout=_PATIENCE) as answer:
            return b"".join(_bounded(answer, where.name))
    except HTTPError as error:
        kind = _Nothing if error.code in (404, 405) else TraceError
        raise kind(f"{where.name} answers with HTTP status {error.code}.") from None
    except URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        reason = reason if isinstance(reason, BaseException) else OSError(reason)
        raise TraceError(
            f"{where.name} does not answer: {one_line(reason)}. Is the exporter running, and the port right?"
        ) from None
    except (OSError, HTTPException, ValueError) as error:
        raise TraceError(f"{where.name} does not answer as HTTP: {one_line(error)}.") from None


def _bounded(answer: Any, name: str) -> Iterator[bytes]:
    import time

    ends = time.monotonic() + 3 * _PATIENCE
    size = 0
    while block := answer.read1(MIB):
        size += len(block)
        if size > _MOST:
            raise TraceError(f"{name} answers with more than {_MOST // MIB} MiB. Name the exporter's own address.")
        if time.monotonic() > ends:
            raise TraceError(f"{name} answers too slowly: it took more than {3 * _PATIENCE:.0f} s.")
        yield block
