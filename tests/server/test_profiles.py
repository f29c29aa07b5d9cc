"""Profiles that are sent to the server: their report, their answer as JSON, and all that is refused."""

from __future__ import annotations

import gzip
import json
import tempfile

import jsonschema
import pytest
from starlette.testclient import TestClient

from roofline.server import profiles
from roofline.server.app import application

HERE = "http://127.0.0.1:8000"
TRACE = json.dumps(
    {
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000}],
        "traceEvents": [
            {
                **{"ph": "X", "cat": "kernel", "name": f"sm90_xmma_gemm_bf16_{n}", "pid": 0, "tid": 7},
                **{"ts": 100 + 20 * n, "dur": 10, "args": {"device": 0, "stream": 7, "correlation": n}},
            }
            for n in range(4)
        ],
    }
).encode()
COUNTERS = b"""timestamp, name, utilization.gpu [%], utilization.memory [%], power.draw [W]
2026/01/01 00:00:00.000, NVIDIA A100-SXM4-80GB, 98 %, 71 %, 330.12 W
2026/01/01 00:00:01.000, NVIDIA A100-SXM4-80GB, 99 %, 70 %, 331.50 W
"""


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(application(), base_url=HERE, raise_server_exceptions=True)


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path, monkeypatch):
    """What a request writes is gone when it is answered."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_gives_its_report(client, packed):
    """A form with a trace, packed or not: its report, under a policy, with the name that its sender has for it."""
    content = gzip.compress(TRACE) if packed else TRACE
    answer = client.post("/profile", files={"profile": ("../../run <b>1</b>.json", content)})

    assert answer.status_code == 200
    assert "Where the time went" in answer.text
    assert "run &lt;b&gt;1&lt;/b&gt;.json" not in answer.text  # the last part of a path is "b>.json"
    assert "b&gt;.json" in answer.text
    assert "<b>1" not in answer.text
    assert "roofline-" not in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; ")


def test_counters_give_their_report(client):
    """A file without a timeline has a report too."""
    answer = client.post("/profile", files={"profile": ("smi.csv", COUNTERS)})

    assert answer.status_code == 200
    assert "What was measured" in answer.text
    table = answer.text.partition("<pre>")[2].partition("</pre>")[0]
    assert len(table.splitlines()) > 1
    assert "\\n" not in table
    assert "smi.csv" in answer.text


def test_the_answer_as_json_is_described(client):
    """POST /api/diagnose with the profile as the body: what the description says; the device where it is named."""
    schemas = client.get("/api/openapi.json").json()
    described = schemas["paths"]["/api/diagnose"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    for content in (TRACE, COUNTERS):
        answer = client.post("/api/diagnose", content=content)
        assert answer.status_code == 200
        jsonschema.validate(answer.json(), {**described, "components": schemas["components"]})
    named = client.post("/api/diagnose?device=b200", content=TRACE).json()
    assert named["device"]["id"] == "b200"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "profile"),
        (b"<html>no</html>", "profile"),
        (b"{", "profile"),
        (b"\x00" * 1000, "profile"),
        (b"SQLite format 3\0" + b"\xff" * 200, "profile"),
    ],
)
def test_what_is_no_profile_is_one_line(client, content, said):
    """One clear line, which names no path of the server; as JSON, and on the page of a form."""
    answer = client.post("/api/diagnose", content=content)
    form = client.post("/profile", files={"profile": ("x.bin", content or b"{")})

    assert answer.status_code == 400
    assert said in answer.json()["error"]
    assert "/roofline-" not in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
    assert form.status_code == 400
    assert "x.bin" in form.text
    assert "/roofline-" not in form.text


def test_what_is_no_form_is_refused(client):
    """Without a file, without a boundary, as another type, with too many parts: 400."""
    assert client.post("/profile", data={"profile": "text"}).status_code == 400
    assert client.post("/profile", files={"other": ("a", b"{}")}).status_code == 400
    assert client.post("/profile", content=b"x", headers={"content-type": "multipart/form-data"}).status_code == 400
    many = [("profile", (f"{n}.json", TRACE)) for n in range(3)]
    assert client.post("/profile", files=many).status_code == 400
    assert client.post("/profile", files={"profile": ("a.json", TRACE)}, data={"device": "no-such"}).status_code == 400


def test_what_is_too_large_is_not_kept(client, monkeypatch):
    """Past the limit the answer is 413, by the stated length and by what arrives."""
    monkeypatch.setattr(profiles, "LARGEST", 1 << 20)

    def endless():
        for _ in range(40):
            yield b" " * 65_536

    assert client.post("/api/diagnose", content=b" " * ((1 << 20) + 1)).status_code == 413
    assert client.post("/api/diagnose", content=endless()).status_code == 413
    assert client.post("/profile", files={"profile": ("a.json", b" " * (3 << 20))}).status_code == 413


def test_another_site_cannot_send_a_profile(client):
    """A form elsewhere that points here is not heard."""
    sent = client.post("/profile", files={"profile": ("a.json", TRACE)}, headers={"origin": "https://evil.example"})

    assert sent.status_code == 403


def _form(*parts: bytes, end: bytes = b"--x--\r\n", kind: str = "multipart/form-data; boundary=x") -> dict[str, object]:
    """A request with a form of these parts."""
    return {"content": b"".join(b"--x\r\n" + each for each in parts) + end, "headers": {"content-type": kind}}


FILE = b'Content-Disposition: form-data; name="profile"; filename="a.json"\r\n\r\n' + TRACE + b"\r\n"
FIELD = b'Content-Disposition: form-data; name="device"\r\n\r\n'


def test_a_form_in_any_spelling(client):
    """The type and its boundary in other case and in quotes, and the charset that it is read in."""
    for kind in ('Multipart/Form-Data; BOUNDARY="x"', "multipart/form-data; boundary=x; charset=UTF-8"):
        assert client.post("/profile", **_form(FILE, kind=kind)).status_code == 200


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (_form(FILE, end=b""), "cut off"),
        (_form(FILE[:-40], end=b""), "cut off"),
        (_form(FILE, FIELD + b"h100", end=b""), "cut off"),
        (_form(FILE, kind="multipart/form-data; boundary=x; charset=punycode"), "not in UTF-8"),
        (_form(FILE, kind="multipart/form-data; boundary=x; charset=zlib"), "not in UTF-8"),
        (_form(FILE, kind="multipart/form-data; boundary=x; charset=idna"), "not in UTF-8"),
        (_form(FILE, kind="multipart/form-data-not; boundary=x"), "no form with a file"),
        (_form(FILE, kind="multipart/form-data; boundary="), "cannot be read"),
        (_form(FILE.replace(b'name="profile"; ', b"")), "cannot be read"),
        (_form(FILE, *[FIELD + b"\r\n"] * 9), "cannot be read"),
        (_form(FILE, FIELD + b"d" * 5000 + b"\r\n"), "cannot be read"),
        (_form(b"A: " + b"b" * 100_000 + b"\r\n" + FILE), "cannot be read"),
        (_form(b"A: b\r\n" * 1000 + FILE), "cannot be read"),
        ({"content": b"x" * 1000, "headers": {"content-type": "multipart/form-data; boundary=x"}}, "cannot be read"),
    ],
)
def test_forms_that_are_no_whole_form(client, form, said):
    """Cut off, in a charset that is slow or none, with headers or fields without end: 400 that says which."""
    answer = client.post("/profile", **form)

    assert answer.status_code == 400
    assert said in answer.text


@pytest.mark.parametrize("name", ["a\x00b.json", "\x1b[31m.json", "%00%2e%2e%2f.json", "..", "\ud800"])
def test_a_name_is_text(client, name):
    """Null bytes, what moves a cursor, percent signs: shown as text, or the whole is refused."""
    part = FILE.replace(b"a.json", name.encode("utf-8", "surrogatepass"))
    answer = client.post("/profile", **_form(part))

    assert answer.status_code in (200, 400)
    assert "\x00" not in answer.text
    assert "\x1b" not in answer.text


def test_half_a_pair_of_surrogates_in_a_profile(client):
    """A name in a file that UTF-8 cannot carry is answered as its escape."""
    content = TRACE.replace(b"80GB HBM3", b"80GB HBM3\\ud800")
    answer = client.post("/api/diagnose", content=content)

    assert answer.status_code == 200
    assert answer.json()["device"]["name"] == "NVIDIA H100 80GB HBM3\ud800"
    assert client.post("/profile", files={"profile": ("a.json", content)}).status_code == 200


def test_profiles_have_room_together(client, monkeypatch):
    """What all of them may take is given back with each answer; one for which others leave no room gets 503."""
    room = client.app.state.room
    free = room.left
    assert client.post("/api/diagnose", content=TRACE).status_code == 200
    assert client.post("/profile", files={"profile": ("a.json", b"{")}).status_code == 400
    assert room.left == free

    monkeypatch.setattr(room, "left", len(TRACE) + 1)
    with room.part() as take:
        take(2)
        assert client.post("/api/diagnose", content=TRACE).status_code == 503
        assert client.post("/profile", files={"profile": ("a.json", TRACE)}).status_code == 503
    assert client.post("/api/diagnose", content=TRACE).status_code == 200
