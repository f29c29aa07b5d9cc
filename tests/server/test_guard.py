"""Which names a server answers to: those it was given, however they are spelt, and the address that was reached."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from roofline.errors import BadValue
from roofline.server import run as running
from roofline.server.app import application
from roofline.server.authority import Authority, authority


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        *(("Box.Example.ORG:80", "box.example.org", 80), ("box.", "box", None), ("box:", "box", None)),
        *(("10.0.0.5", "10.0.0.5", None), ("10.0.0.5:8000", "10.0.0.5", 8000), ("_a-b:1", "_a-b", 1)),
        *(("[FD00:0::5]:8000", "fd00::5", 8000), ("[fd00::5]", "fd00::5", None), ("fd00::5", "fd00::5", None)),
        *(("[fe80::1%eth0]:1", "fe80::1", 1), ("[::ffff:10.0.0.5]:1", "10.0.0.5", 1)),
    ],
)
def test_a_host_has_one_spelling(text, host, port):
    """Names in any case, with a last dot or without; addresses in any of their spellings, in brackets or bare."""
    assert authority(text) == Authority(host, port)


@pytest.mark.parametrize(
    "text",
    [
        *("", ":80", "[]", "[]:80", "[box]:80", "[10.0.0.5]", "[::1", "::1]", "[::1]x", "[::1]:x", "a:b", "a:1:2"),
        *("a b", "a/b", "a@b", "a?b", "a\x00", "böx", "*", "-a", "..", "a" * 300, "box:123456", "http://box"),
    ],
)
def test_what_names_no_host(text):
    """Anything else is none: no part of it is taken for a host."""
    assert authority(text) is None


def _status(listens: str, url: str, also: tuple[str, ...] = (), **headers: str) -> int:
    """The status of a request to the server that listens there, over a connection to the host of `url`."""
    client = TestClient(application(running.hosts_for(listens, also)), base_url=url)
    return client.post("/api/predict", content=b"", headers=headers).status_code


@pytest.mark.parametrize(
    ("listens", "url", "host"),
    [
        ("fd00::5", "http://[fd00::5]:8000", "[FD00::5]:8000"),
        ("FD00:0:0::5", "http://127.0.0.1:8000", "[fd00::5]:8000"),
        ("Box.Example.org", "http://10.0.0.5:8000", "box.example.org:8000"),
        ("box.example.org", "http://10.0.0.5:8000", "BOX.example.ORG.:8000"),
        ("0.0.0.0", "http://10.0.0.5:8000", "10.0.0.5:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000", "0.0.0.0:8000"),
        ("::", "http://[fd00::5]:8000", "[fd00::5]:8000"),
        ("::", "http://[::ffff:10.0.0.5]:8000", "10.0.0.5:8000"),
        ("127.0.0.1", "http://127.0.0.1:8000", "LocalHost.:8000"),
    ],
)
def test_it_answers_whoever_reaches_it(listens, url, host):
    """By the address of the connection, and by the name it listens at, in any spelling: 400, as it reads the body."""
    assert _status(listens, url, host=host) == 400
    assert _status(listens, url, host=host, origin=f"http://{host.casefold()}") == 400
    assert _status(listens, url, host=host, origin="http://evil.example") == 403
    assert _status(listens, url, host="evil.example:8000") == 403  # a name that was made to point here
    assert _status(listens, url, host="10.9.9.9:8000") == 403


def test_a_name_is_no_address_of_a_connection():
    """Where a server in front gives a name for the address, that name is foreign like any other."""
    assert _status("0.0.0.0", "http://evil.example:8000", host="evil.example:8000") == 403


def test_names_behind_a_proxy(roofline):
    """--also-known-as names are answered to, on this machine alone too; what names no host is refused."""
    also = ("Roofline.example.org", "box:8443")
    for host in ("roofline.example.org", "ROOFLINE.example.org:443", "box:8443"):
        for listens in ("127.0.0.1", "0.0.0.0"):
            assert _status(listens, "http://127.0.0.1:8000", also, host=host, origin=f"https://{host.lower()}") == 400
    assert _status("127.0.0.1", "http://127.0.0.1:8000", also, host="other.example.org") == 403
    assert _status("127.0.0.1", "http://127.0.0.1:8000", also, host="box:8443", origin="https://box:1") == 403
    with pytest.raises(BadValue, match="names no host"):
        running.hosts_for("127.0.0.1", ["https://box"])
    refused = roofline("serve", "--port", "0", "--also-known-as", "box", "--also-known-as", "a b")
    assert refused.code == 2
    assert "--also-known-as: 'a b' names no host" in refused.err


def test_the_usual_port_of_a_scheme_need_not_be_said():
    """An Origin without a port is the Host with the scheme's own; another scheme's is not."""
    ask = {"url": "http://127.0.0.1:80", "host": "127.0.0.1:80"}

    assert _status("127.0.0.1", **ask, origin="http://127.0.0.1") == 400
    assert _status("127.0.0.1", **ask, origin="https://127.0.0.1") == 403
    assert _status("127.0.0.1", **ask, origin="ftp://127.0.0.1:80") == 403


def test_every_origin_counts():
    """One of its own does not hide another beside it."""
    client = TestClient(application(), base_url="http://127.0.0.1:8000")
    own, foreign = ("origin", "http://127.0.0.1:8000"), ("origin", "http://evil.example")

    assert client.get("/api/openapi.json", headers=[own]).status_code == 200
    assert client.get("/api/openapi.json", headers=[own, foreign]).status_code == 403
