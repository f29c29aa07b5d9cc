"""Connections that ask nothing, ask slowly or take no answer, and requests that no client library sends."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from time import monotonic, sleep
from typing import NamedTuple

import pytest

from roofline.server import app
from roofline.server.connection import Connection
from roofline.server.run import listening, server_for

ASK = 0.4  # [s] that a connection has for its request here


class Served(NamedTuple):
    port: int
    connections: set

    def open(self, sent: bytes = b"") -> socket.socket:
        """A connection over which that was sent."""
        found = socket.create_connection(("127.0.0.1", self.port))
        found.settimeout(20)
        found.sendall(sent)
        return found

    def ask(self, line: str, *headers: str, body: bytes = b"") -> tuple[int, str]:
        """The status and the body of an answer; the Host is the server's unless a header names one."""
        lines = [line, *headers, "Connection: close"]
        if not any(each.lower().startswith("host:") for each in headers):
            lines.append(f"Host: 127.0.0.1:{self.port}")
        return self.raw("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def raw(self, sent: bytes) -> tuple[int, str]:
        with closing(self.open(sent)) as one:
            head, _, content = rest(one).partition(b"\r\n\r\n")
        return int(head.split()[1]), content.decode()


def rest(one: socket.socket) -> bytes:
    """All that still comes over a connection until the server closes it."""
    found = b""
    while piece := one.recv(65_536):
        found += piece
    return found


@pytest.fixture
def served(monkeypatch) -> Iterator[Served]:
    """A server as `roofline serve` runs it, for four connections at once and without patience."""
    monkeypatch.setattr(Connection, "to_ask", ASK)
    monkeypatch.setattr(Connection, "to_take", ASK)
    with listening("127.0.0.1", 0) as sock:
        server = server_for(frozenset())
        server.config.limit_concurrency = 4
        thread = threading.Thread(target=server.run, args=([sock],), daemon=True)
        thread.start()
        found = Served(sock.getsockname()[1], server.server_state.connections)
        _until(lambda: server.started)
        yield found
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


def _until(true: Callable[[], bool]) -> None:
    end = monotonic() + 10
    while not true():
        assert monotonic() < end
        sleep(0.02)


@pytest.mark.parametrize("sent", [b"", b"GET /", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
def test_who_asks_nothing_is_let_go(served, sent):
    """As many connections as there may be, over which no whole request comes: closed, and others are answered."""
    silent = [served.open(sent) for _ in range(4)]

    assert [rest(one) for one in silent] == [b""] * 4
    for one in silent:
        one.close()
    _until(lambda: not served.connections)
    assert served.ask("GET /api/openapi.json HTTP/1.1")[0] == 200


def test_bytes_one_by_one_gain_no_time(served):
    """A request that never ends is closed in the time for one, and not that long after its last byte."""
    with closing(served.open(b"GET / HTTP/1.1\r\nX: ")) as one:
        begun = monotonic()
        with pytest.raises(OSError):  # a broken pipe, or a connection that is reset
            while monotonic() < begun + 10:
                one.sendall(b"a")
                sleep(ASK / 8)
        assert monotonic() < begun + 5


def test_an_answer_gives_the_time_of_one_request(served):
    """A second request over a connection is answered; what is no whole one after an answer holds nothing."""
    request = f"HEAD /nothing HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n".encode()
    with closing(served.open(request)) as one:
        assert one.recv(65_536).startswith(b"HTTP/1.1 404")
        one.sendall(request + b"GET")
        assert rest(one).startswith(b"HTTP/1.1 404")
    with closing(served.open(request + request)) as one:
        assert rest(one).count(b"HTTP/1.1 404") == 2


def test_a_long_answer_is_waited_for(served, monkeypatch):
    """The time is that of asking: work that takes longer than it is not cut."""
    monkeypatch.setattr(app, "_default", lambda: sleep(3 * ASK) or "<p>late</p>")

    assert served.ask("GET /live HTTP/1.1") == (200, "<p>late</p>")


@pytest.mark.parametrize("header", ["", "Connection: close\r\n"])
def test_an_answer_that_nobody_takes_is_dropped(served, monkeypatch, header):
    """Four clients that read nothing of a large answer hold their connections for a while, and no longer."""
    monkeypatch.setattr(app, "_default", lambda: "x" * (32 << 20))
    request = f"GET /live HTTP/1.1\r\n{header}Host: 127.0.0.1:{served.port}\r\n\r\n".encode()
    deaf = [served.open(request) for _ in range(3)]
    _until(lambda: len(served.connections) == 3)

    _until(lambda: not served.connections)
    assert served.ask("GET /api/openapi.json HTTP/1.1")[0] == 200
    for one in deaf:
        one.close()


@pytest.mark.parametrize(
    ("line", "headers", "status"),
    [
        ("GET /api/openapi.json HTTP/1.0", (), 200),
        ("HEAD /api/openapi.json HTTP/1.1", (), 200),
        ("GET /%61pi/openapi.json HTTP/1.1", (), 200),
        ("GET /api/openapi.json HTTP/1.1", ("Upgrade: websocket", "Connection: Upgrade"), 200),
        ("GET HTTP://127.0.0.1/api/openapi.json HTTP/1.1", ("Host: evil.example",), 200),  # RFC 9112, 3.2.2
        ("GET http://evil.example/api/openapi.json HTTP/1.1", (), 403),
        ("GET http:///api/openapi.json HTTP/1.1", (), 403),
        ("GET http://127.0.0.1@evil.example/api/openapi.json HTTP/1.1", (), 403),
        ("GET ftp://127.0.0.1/api/openapi.json HTTP/1.1", (), 404),
        ("GET / HTTP/1.1", ("Host: 127.0.0.1", "Host: evil.example"), 400),
        ("GET /api/%00%0d%0aX:%20y HTTP/1.1", (), 404),
        ("GET //evil.example/live HTTP/1.1", (), 404),
        ("GET /api/../live HTTP/1.1", (), 404),
        ("OPTIONS * HTTP/1.1", (), 404),
        ("OPTIONS /api/predict HTTP/1.1", ("Access-Control-Request-Method: POST",), 405),
        ("PUT /api/predict HTTP/1.1", (), 405),
        ("CONNECT 127.0.0.1:80 HTTP/1.1", (), 404),
        ("POST /api/predict HTTP/1.1", (f"Content-Length: {'9' * 20}",), 413),
        ("POST /api/predict HTTP/1.1", ("Content-Length: -1",), 400),
        ("POST /api/diagnose?device=%00%ff%1b HTTP/1.1", ("Content-Length: 0",), 400),
        ("POST /api/predict HTTP/1.1", ("Transfer-Encoding: gzip",), 400),
    ],
)
def test_requests_as_no_library_sends_them(served, caplog, line, headers, status):
    """Each has one answer, and none is a fault of the server's."""
    found, content = served.ask(line, *headers)

    assert found == status
    if status >= 400 and line.split()[1].startswith("/api/") and content.startswith("{"):
        assert "\n" not in content
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


def test_headers_that_never_end_are_not_kept(served):
    """Past 64 KiB of them the answer is 400."""
    assert served.raw(b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000)[0] == 400


def test_a_request_without_a_host_is_refused(served):
    """HTTP/1.0 has none; whose page sent it cannot be told."""
    assert served.raw(b"GET / HTTP/1.0\r\n\r\n")[0] == 403


@pytest.mark.parametrize("path", ["/api/predict", "/api/diagnose", "/model", "/profile"])
def test_a_client_that_leaves_is_no_fault(served, caplog, path):
    """A body that ends before its stated length, as the client is gone: nothing in the log, and nothing held."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Length: 5000\r\n"
    head += "Content-Type: multipart/form-data; boundary=x\r\n\r\n"
    one = served.open(head.encode() + b'--x\r\nContent-Disposition: form-data; name="profile"; filename="a"\r\n\r\n{')
    _until(lambda: len(served.connections) == 1)
    sleep(0.1)
    one.close()

    _until(lambda: not served.connections)
    sleep(0.1)
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
