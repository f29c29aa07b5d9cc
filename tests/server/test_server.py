"""The server: its pages and answers, and all that it refuses."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import jsonschema
import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

import roofline as rl
from roofline.catalogue import model_by_name, model_from_text
from roofline.errors import BadValue, ConfigError, UnknownName
from roofline.server import app, profiles
from roofline.server import run as running
from roofline.server.app import application
from roofline.server.authority import local
from roofline.server.guard import LARGEST, TooSlow, arriving

HERE = "http://127.0.0.1:8000"
CONFIG = {
    **{"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 2048},
    **{"rms_norm_eps": 1e-5, "tie_word_embeddings": False, "hidden_act": "silu"},
}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(application(), base_url=HERE, raise_server_exceptions=True)


def test_home_names_what_there_is(client):
    """The first page: the live page, a form, the routes for programs; nothing from elsewhere."""
    answer = client.get("/")

    assert answer.status_code == 200
    assert 'href="/live"' in answer.text
    assert re.findall(r'(?:src|href|action)="([^"]+)"', answer.text) == [
        "/live",
        "/model",
        "/profile",
        "/api/openapi.json",
    ]


@pytest.mark.parametrize("path", ["/", "/api/models", "/nothing"])
def test_every_answer_is_closed(client, path):
    """Headers that let no other site frame, sniff or run anything stand on every answer."""
    headers = client.get(path).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe-eval" not in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers


def test_a_config_gives_its_live_page(client):
    """A pasted config.json becomes the live page of that model, under a policy that names its scripts."""
    answer = client.post("/model", data={"name": "Tiny One", "config": json.dumps(CONFIG)})

    assert answer.status_code == 200
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', answer.text)[1])
    assert list(data["models"]) == ["tiny-one"]
    assert data["models"]["tiny-one"]["name"] == "Tiny One"
    assert "script-src 'sha256-" in answer.headers["content-security-policy"]


def test_names_and_texts_cannot_leave_their_place(client):
    """Markup in a name is text; a script's end in a config ends nothing."""
    name = "</script><script>alert(1)</script>"
    answer = client.post("/model", data={"name": name, "config": json.dumps(CONFIG)})

    assert answer.status_code == 200
    assert "<script>alert" not in answer.text
    refused = client.post("/model", data={"name": "<b>x</b>", "config": "{"})
    assert refused.status_code == 400
    assert "<b>x" not in refused.text


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({}, "Nothing was given"),
        ({"config": "[]"}, "holds a list"),
        ({"config": "{}"}, "missing"),
        ({"config": "[" * 100_000}, "nested or long beyond reason"),
        ({"name": "no-such-model"}, "Unknown model"),
    ],
)
def test_what_is_no_model_is_said_on_the_page(client, form, said):
    """A form with nothing, or something else, gets the page again with one clear line."""
    answer = client.post("/model", data=form)

    assert answer.status_code == 400
    assert said in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "name",
    [
        *("/etc/passwd", "../../etc/passwd", "config.json", "./config.json", "~/model", "a/../b", "..", "models/."),
        *("C:\\x", "a/b/c", "a\x00b", "file:///etc/passwd", "https://example.org/x", "a//b", " ", "-x/y"),
    ],
)
def test_no_path_of_a_client_is_opened(client, name, tmp_path, monkeypatch):
    """Whatever a client calls a model or a device, no file of that name is looked at."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), "utf-8")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "config.json").write_text(json.dumps(CONFIG), "utf-8")
    monkeypatch.setattr("roofline.hub.config", _nothing_on_the_hub)

    asked = {"model": name, "device": "h100-sxm"}
    assert client.post("/api/predict", json=asked).status_code == 400
    assert client.post("/api/predict", json={"model": "qwen3-8b", "device": name}).status_code == 400
    assert client.post("/model", data={"name": name}).status_code == 400


def _nothing_on_the_hub(name):
    raise UnknownName(f"{name} is not on the Hub.")


def test_a_folder_like_a_hub_id_is_not_read(tmp_path, monkeypatch):
    """A folder owner/name beside the server is not what a client's owner/name means."""
    folder = tmp_path / "owner" / "name"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("roofline.hub.config", _nothing_on_the_hub)

    assert rl.Model.load("owner/name").layers == 2
    with pytest.raises(UnknownName):
        model_by_name("owner/name")


def test_predict_answers_as_the_command_line(client):
    """POST /api/predict is `roofline predict --json`."""
    answer = client.post(
        "/api/predict",
        json={"model": "qwen3-8b", "device": "h100-sxm", "sequences": 64, "efficiency": [0.8, 0.75], "weights": "fp8"},
    )
    ledger = rl.predict(
        "qwen3-8b", "h100-sxm", rl.Workload.decode(sequences=64), rl.Precision(weights="fp8"), efficiency=(0.8, 0.75)
    )

    assert answer.status_code == 200
    assert answer.json() == json.loads(json.dumps(ledger.to_dict()))


def test_predict_of_a_config(client):
    """The keys of a config.json in place of a name."""
    answer = client.post("/api/predict", json={"config": CONFIG, "device": "a100-sxm-80gb", "phase": "prefill"})

    assert answer.status_code == 200
    assert answer.json()["workload"]["groups"][0]["new_tokens"] == 2048


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"device": "h100-sxm"}',
        b'{"device": "h100-sxm", "model": "qwen3-8b", "config": {}}',
        b'{"device": "h100-sxm", "model": "qwen3-8b", "sequences": -1}',
        b'{"device": "h100-sxm", "model": "qwen3-8b", "sequences": 1e400}',
        b'{"device": "h100-sxm", "model": "qwen3-8b", "tp": 7}',
        b'{"device": "h100-sxm", "model": "qwen3-8b", "weights": "fp3"}',
        b'{"device": "h100-sxm", "model": "qwen3-8b", "efficiency": [0, 2]}',
        b'{"device": "h100-sxm", "model": "qwen3-8b", "surprise": 1}',
        b'{"device": "h100-sxm", "config": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    ],
)
def test_what_is_no_question_is_refused(client, body):
    """One clear line as JSON, status 400."""
    answer = client.post("/api/predict", content=body)

    assert answer.status_code == 400
    assert len(answer.json()["error"]) > 20
    assert "\n" not in answer.json()["error"]


def test_what_is_too_large_is_not_read(client):
    """A body past the limit gets 413: by its stated length, and by what arrives."""

    def endless():
        for _ in range(LARGEST // 65_536 + 2):
            yield b"x" * 65_536

    assert client.post("/api/predict", content=b"x" * (LARGEST + 1)).status_code == 413
    assert client.post("/model", content=endless()).status_code == 413


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example:8000"},
        {"host": "localhost.evil.example"},
        {"host": ""},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9000"},
        {"origin": "http://localhost:8000"},
    ],
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("GET", "/api/devices"), ("POST", "/api/predict")])
def test_other_sites_are_refused(client, headers, method, path):
    """A foreign Origin or Host, as of a page elsewhere or a rebound name, gets 403 and nothing else."""
    answer = client.request(method, path, headers=headers)

    assert answer.status_code == 403
    assert set(answer.json()) == {"error"}


def test_a_form_from_another_site_is_refused(client):
    """What a browser marks as sent from elsewhere changes nothing here, even without an Origin."""
    answer = client.post("/model", data={"name": "qwen3-8b"}, headers={"sec-fetch-site": "cross-site"})

    assert answer.status_code == 403


@pytest.mark.parametrize("origin", [HERE, None])
def test_its_own_pages_are_heard(client, origin):
    """Its own origin, and programs, which name none."""
    headers = {} if origin is None else {"origin": origin}

    assert client.get("/api/models", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("host", "own"),
    [
        *(("127.0.0.1", True), ("127.0.0.1:8000", True), ("localhost:1", True), ("[::1]:8000", True), ("::1", True)),
        *(("10.0.0.1", False), ("example.org:80", False), ("", False), ("[2001:db8::1]:1", False)),
    ],
)
def test_names_of_this_machine(host, own):
    """Loopback addresses and localhost."""
    assert local(host) is own


def test_the_description_is_openapi_and_true(client):
    """Every JSON route is described, and its answers are what the description says."""
    found = client.get("/api/openapi.json").json()
    schemas = found["components"]["schemas"]

    assert found["openapi"].startswith("3.1")
    assert set(found["paths"]) == {"/api/predict", "/api/diagnose", "/api/models", "/api/devices"}
    for path in ("/api/models", "/api/devices"):
        ref = found["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
        jsonschema.validate(client.get(path).json(), {"$ref": ref, "components": {"schemas": schemas}})
    question = found["paths"]["/api/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    jsonschema.validate({"device": "h100-sxm", "model": "gpt2"}, {**question, "components": {"schemas": schemas}})


def test_live_page_of_the_built_in_models(client):
    """GET /live is the page that `roofline page` writes."""
    answer = client.get("/live")

    assert answer.status_code == 200
    assert "qwen3-8b" in answer.text


def test_methods_that_are_not_there(client):
    """A route answers its own method alone."""
    assert client.get("/model").status_code == 405
    assert client.post("/live").status_code == 405
    assert client.request("TRACE", "/").status_code == 405


def test_texts_of_models():
    """A config.json as text: read as a file of it is."""
    assert model_from_text(json.dumps(CONFIG), "tiny").layers == 2
    with pytest.raises(ConfigError):
        model_from_text("null", "tiny")


def test_where_it_listens():
    """127.0.0.1 alone unless told otherwise; a port that is taken is said."""
    with running.listening("127.0.0.1", 0) as sock:
        address, port = sock.getsockname()[:2]
        sock.listen()
        assert address == "127.0.0.1"
        with pytest.raises(BadValue, match="is taken"):
            running.listening("127.0.0.1", port)
    with pytest.raises(BadValue, match="cannot be had"):
        running.listening("256.0.0.1", 80)
    assert running.hosts_for("127.0.0.1") == frozenset()
    assert "10.0.0.7" in running.hosts_for("10.0.0.7")
    assert socket.gethostname().casefold() in running.hosts_for("0.0.0.0")


def test_serve_runs_until_told(monkeypatch, roofline):
    """`roofline serve` hands its application and its socket to the server."""
    seen: list[tuple[str, int]] = []
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: seen.append(sockets[0].getsockname()))

    assert roofline("serve", "--port", "0").code == 0
    assert seen[0][0] == "127.0.0.1"
    assert roofline("serve", "--port", "70000").code == 2


def test_page_writes_one_file(roofline, tmp_path: Path):
    """`roofline page` with a name, a file and a chosen device."""
    config = tmp_path / "tiny" / "config.json"
    config.parent.mkdir()
    config.write_text(json.dumps(CONFIG), "utf-8")
    target = tmp_path / "page.html"
    answer = roofline("page", "gpt2", str(config), "--device", "h100-sxm", "-o", str(target))

    assert answer.code == 0
    assert answer.out == ""
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', target.read_text("utf-8"))[1])
    assert list(data["models"]) == ["gpt2", "tiny"]
    assert list(data["devices"]) == ["h100-sxm"]
    assert "http" not in re.sub(r"<script.*?</script>", "", target.read_text("utf-8"), flags=re.S).replace(
        "http-equiv", ""
    )
    assert roofline("page", "-o", str(tmp_path / "page.txt")).code == 2
    assert roofline("page", "no-such", "-o", str(target)).code == 2


def test_who_waits_for_work_holds_no_thread(monkeypatch):
    """More requests wait for a slow page than there are threads; an upload, which needs threads, is read meanwhile."""
    done, read = threading.Event(), threading.Event()

    async def received(*arguments: Any) -> None:
        await profiles.receive(*arguments)
        read.set()

    monkeypatch.setattr(app, "_default", lambda: str(done.wait(30)))
    monkeypatch.setattr(app, "receive", received)

    with TestClient(application(), base_url=HERE) as client, ThreadPoolExecutor(50) as pool:
        try:
            waiting = [pool.submit(client.get, "/live") for _ in range(45)]
            sleep(1)  # until each has what threads it takes
            upload = pool.submit(client.post, "/api/diagnose", content=b"{}")
            assert read.wait(10)
            assert not any(each.done() for each in waiting)
        finally:
            done.set()
        assert {each.result(timeout=10).text for each in waiting} == {"True"}
        assert upload.result(timeout=10).status_code == 400


def test_no_application_waits_for_another(monkeypatch):
    """What one server is busy with is nothing to the next in the same process."""
    done = threading.Event()
    monkeypatch.setattr(app, "_default", lambda: str(done.wait(30)))

    with (
        TestClient(application(), base_url=HERE) as busy,
        TestClient(application(), base_url=HERE) as other,
        ThreadPoolExecutor(8) as pool,
    ):
        try:
            for _ in range(4):
                pool.submit(busy.get, "/live")
            sleep(0.5)  # until they are at it
            assert pool.submit(other.get, "/api/models").result(timeout=10).status_code == 200
        finally:
            done.set()


@pytest.mark.parametrize("error", [ValueError("of ours\n\x1b[31m"), KeyError("x"), TimeoutError(), OverflowError()])
@pytest.mark.parametrize(("path", "named"), [("/api/models", "models_record"), ("/live", "_default")])
def test_a_fault_of_its_own_is_called_that(client, monkeypatch, caplog, error, path, named):
    """An error that is none of the input's is 500 in one line that tells nothing of it; the log has it, as text."""

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(app, named, fails)
    answer = client.get(path)

    assert answer.status_code == 500
    assert "a fault of its own" in answer.text
    assert "of ours" not in answer.text
    assert "Traceback" in caplog.text
    assert "\x1b" not in caplog.text


def test_a_full_disk_is_said(client, monkeypatch):
    """It is no fault of the request, and none of the server's code."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(app, "receive", full)

    assert client.post("/api/diagnose", content=b"{}").status_code == 507


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"a=1&" * 9, "more than 8 fields"),
        (b"name=%ff", "no text in UTF-8"),
        (b"name=\xff", "no text in UTF-8"),
        (b"name=%ED%A0%80", "no text in UTF-8"),
    ],
)
def test_what_is_no_form_of_a_model(client, body, said):
    """Fields without end, and bytes that are no text, get one line that says so."""
    answer = client.post("/model", content=body)

    assert answer.status_code == 400
    assert said in answer.text


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("GET", "/api/nothing", 404, "Nothing answers GET '/api/nothing'. There are /, /live"),
        ("GET", "/api/predict", 405, "Nothing answers GET '/api/predict'. It answers POST."),
    ],
)
def test_what_is_not_there_is_said(client, method, path, status, said):
    """One line as JSON that names what there is, and on a page for a reader."""
    answer = client.request(method, path)

    assert answer.status_code == status
    assert answer.json()["error"].startswith(said)
    assert client.request(method, path.removeprefix("/api")).headers["content-type"].startswith("text/html")
    assert status != 405 or answer.headers["allow"] == "POST"


def test_a_body_that_stalls_is_given_up(monkeypatch):
    """One that does not arrive in time gets 408, and the time strikes in no work but the waiting for it."""
    worked: list[str] = []

    async def stalls() -> dict[str, object]:
        await asyncio.sleep(0.2 if not worked else 30)
        return {"type": "http.request", "body": b"piece", "more_body": True}

    async def read() -> None:
        request = Request({"type": "http", "headers": []}, stalls)
        async for _ in arriving(request, 1000, 0.5, ""):
            await asyncio.sleep(0.6)  # longer than the body has: not cut
            worked.append("whole")

    with pytest.raises(TooSlow):
        asyncio.run(read())
    assert worked == ["whole"]
    monkeypatch.setattr(app, "body", lambda _: _raise(TooSlow("late")))
    assert TestClient(application(), base_url=HERE).post("/api/predict", content=b"").status_code == 408


async def _raise(error: Exception) -> None:
    raise error
