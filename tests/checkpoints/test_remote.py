"""Headers by range requests: of the Hub and of any address, from a server that answers ranges and from bad ones."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, NamedTuple

import pytest

import roofline as rl
from stored_files import Shapes, gguf_bytes, header, packed
from test_headers import CONFIG, META, PLAIN, as_gguf


def whole(tensors: Shapes) -> bytes:
    entries = header(tensors)
    return packed(entries, max(each["data_offsets"][1] for each in entries.values()))


def _files() -> dict[str, bytes]:
    config = json.dumps(CONFIG).encode()
    names = sorted(PLAIN)
    halves = [dict.fromkeys(names[:12]), dict.fromkeys(names[12:])]
    shards = [{name: PLAIN[name] for name in half} for half in halves]
    placed = {name: f"model-{at + 1}.safetensors" for at, half in enumerate(halves) for name in half}
    formats = {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    return {
        "own/one/config.json": config,
        "own/one/model.safetensors": whole(PLAIN),
        "own/two/config.json": config,
        "own/two/model.safetensors.index.json": json.dumps({"weight_map": placed}).encode(),
        **{f"own/two/model-{at + 1}.safetensors": whole(shard) for at, shard in enumerate(shards)},
        "own/lies/config.json": config,
        "own/lies/model.safetensors": packed({}, 8, 1 << 62),
        "own/gguf/tiny.gguf": gguf_bytes(META, as_gguf()),
        "own/quant/config.json": config,
        "own/quant/hf_quant_config.json": json.dumps(formats).encode(),
        "own/broken/config.json": config,
        "own/broken/hf_quant_config.json": b"{",
        "own/shut/config.json": config,
        "own/moved/config.json": config,
    }


class Hub(NamedTuple):
    """A server that speaks enough of the Hub's protocol, what it was asked, and a command line that asks it."""

    asked: list[tuple[str, str, str]]
    sent: list[int]
    address: str
    moved: dict[str, str]
    told: list[str]
    files: dict[str, bytes]
    run: Callable[..., subprocess.CompletedProcess[str]]


class Handler(BaseHTTPRequestHandler):
    """Files by ranges; below /whole it knows no ranges, below /slow it never ends, below /wrong it sends others."""

    protocol_version = "HTTP/1.1"
    files: dict[str, bytes]
    asked: list[tuple[str, str, str]]
    sent: list[int]
    moved: dict[str, str]
    told: list[str]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        span = self.headers.get("Range", "")
        self.asked.append((self.command, self.path, span))
        way, _, rest = self.path.lstrip("/").partition("/")
        name = (rest if way in ("whole", "plain", "slow", "wrong") else self.path.lstrip("/")).replace(
            "/resolve/main", ""
        )
        self.told.append(self.headers.get("Authorization", ""))
        if name in self.moved:
            self.send_response(302)
            self.send_header("Location", self.moved[name])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        content = self.files.get(name)
        if content is None or (name.startswith("own/shut") and "quant" in name):
            self.send_response(403 if name.startswith("own/shut/") else 404)
            self.send_header("X-Error-Code", "GatedRepo" if name.startswith("own/shut/") else "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", span)
        if way == "slow":
            return self._slowly()
        if found and way not in ("whole", "plain"):
            begin, end = int(found[1]), min(int(found[2]), len(content) - 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin + (way == 'wrong')}-{end}/{len(content)}")
            content = content[begin : end + 1]
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(10**12 if way == "whole" else len(content)))
        self.send_header("ETag", f'"{zlib.crc32(name.encode()):08x}"')
        self.send_header("X-Repo-Commit", "0123456789" * 4)
        self.end_headers()
        if self.command == "GET":
            self.sent.append(len(content))
            self.wfile.write(content)

    do_HEAD = do_GET

    def _slowly(self) -> None:
        self.send_response(206)
        self.send_header("Content-Range", "bytes 0-7/1000000")
        self.end_headers()
        for _ in range(100):
            time.sleep(0.2)
            try:
                self.wfile.write(b"")
            except OSError:
                return


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    class Own(Handler):
        files = _files()
        asked: ClassVar = []
        sent: ClassVar = []
        moved: ClassVar = {}
        told: ClassVar = []

    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"

    def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and not k.lower().endswith("_proxy")}
        environment = {**kept, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hf"), "COLUMNS": "80", **changes}
        patience = changes.get("PATIENCE", "10")
        code = "import roofline.checkpoints.sources as s; from roofline.cli import main; "
        code += f"s._PATIENCE = {patience}; s._DEADLINE = {patience}; main()"
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    yield Hub(Own.asked, Own.sent, address, Own.moved, Own.told, Own.files, run)
    server.shutdown()
    server.server_close()
    thread.join()


def refused(answer: subprocess.CompletedProcess[str], *words: str) -> None:
    assert (answer.returncode, answer.stdout) == (2, ""), answer.stderr
    assert re.fullmatch(r"roofline: .+\n", answer.stderr), answer.stderr
    for word in words:
        assert word in answer.stderr, answer.stderr


@pytest.mark.parametrize("repo", ["own/one", "own/two", "own/one/model.safetensors"])
def test_checkpoint_on_the_hub(hub, repo):
    """Of each file the 8 bytes of its length and its header, no weight."""
    answer = hub.run("models", f"hf://{repo}", "--json")
    assert answer.returncode == 0, answer.stderr
    record = json.loads(answer.stdout)

    assert record["checkpoint"]["bytes"] == record["weight_bytes"] == 2 * record["parameters"]["total"]
    assert record["checkpoint"]["files"] == (2 if repo == "own/two" else 1)
    ranges = [span for _, path, span in hub.asked if re.search(r"model(-\d)?\.safetensors$", path)]
    assert sorted(ranges)[: len(ranges) // 2] == ["bytes=0-7"] * (len(ranges) // 2)
    assert sum(hub.sent) < 20_000 < record["checkpoint"]["bytes"]


def test_plain_hub_id_reads_no_header(hub):
    """Its config.json alone, and whether there is an hf_quant_config.json beside it."""
    record = json.loads(hub.run("models", "own/one", "--json").stdout)
    assert record["checkpoint"] is None
    assert not any("safetensors" in path for _, path, _ in hub.asked)


@pytest.mark.parametrize("form", ["hf://own/gguf/tiny.gguf", "{address}/own/gguf/tiny.gguf?download=true"])
def test_gguf_by_its_address(hub, form):
    answer = hub.run("models", form.format(address=hub.address), "--json")
    if form.startswith("{"):  # this server has no files by a query
        refused(answer, "404")
        answer = hub.run("models", form.format(address=hub.address).partition("?")[0], "--json")
    assert answer.returncode == 0, answer.stderr
    record = json.loads(answer.stdout)
    assert record["checkpoint"]["bytes"] == record["stored_weight_bytes"]


def test_formats_beside_a_config_on_the_hub(hub):
    """hf_quant_config.json: FP8 with a scale of 4 bytes a matrix, the head as it is."""
    record = json.loads(hub.run("models", "own/quant", "--json").stdout)
    matrices = sum(len(shape) == 2 and ".layers." in name for name, (_, shape) in PLAIN.items())
    inside = sum(shape[0] * shape[1] for name, (_, shape) in PLAIN.items() if ".layers." in name and len(shape) == 2)

    assert record["stored_weight_bytes"] == record["weight_bytes"] - inside + 4 * matrices
    again = hub.run("models", "own/quant", "--json", HF_HUB_OFFLINE="1")
    assert json.loads(again.stdout) == record


def test_formats_that_are_none_or_closed(hub):
    refused(hub.run("models", "own/broken"), "own/broken/hf_quant_config.json", "not valid JSON")
    refused(hub.run("models", "own/shut"), "403", "Whether its weights are quantised is not known")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("hf://own/missing", ("404", "own/missing/model.safetensors")),
        ("hf://own/lies", ("own/lies/model.safetensors", "4,611,686,018,427,387,904 bytes")),
        ("{address}/whole/own/gguf/tiny.gguf", ("does not answer range requests",)),
    ],
)
def test_address_that_gives_no_header(hub, name, says):
    refused(hub.run("models", name.format(address=hub.address)), *says)


def test_server_that_never_answers(hub):
    """It is left alone after the deadline."""
    start = time.monotonic()
    refused(hub.run("models", f"{hub.address}/slow/own/gguf/tiny.gguf", PATIENCE="1"), "tiny.gguf")
    assert time.monotonic() - start < 15


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """Another host, and the authorisations that it was sent."""
    seen: list[str] = []
    content = whole(PLAIN)

    class Other(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
            assert found is not None
            part = content[int(found[1]) : int(found[2]) + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {found[1]}-{int(found[1]) + len(part) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/part", seen
    server.shutdown()
    server.server_close()


def test_token_goes_to_the_hub_alone(hub, elsewhere):
    """A file may lie with another host, which is told the range and not who asks."""
    address, seen = elsewhere
    hub.moved["own/moved/model.safetensors"] = address
    answer = hub.run("models", "hf://own/moved", "--json", HF_TOKEN="hf_secret")

    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["checkpoint"]["files"] == 1
    assert seen == ["", ""]
    assert "Bearer hf_secret" in hub.told


def test_offline_is_one_line(hub):
    refused(hub.run("models", "hf://own/one", HF_HUB_OFFLINE="1"), "own/one")
    assert hub.asked == []


@pytest.fixture
def near(hub, monkeypatch) -> Hub:
    """The same server for this process."""
    from huggingface_hub import constants

    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    template = f"{hub.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return hub


def test_checkpoint_from_afar_in_python(near):
    """By its address, by its repository, by a file of it; an index that is followed."""
    local = {name: 2 * math.prod(shape) for name, (_, shape) in PLAIN.items()}
    for where in ("hf://own/one", "hf://own/two", "hf://own/one/model.safetensors"):
        found = rl.checkpoint(where)
        assert {each.name: each.bytes for each in found.tensors} == local
    for where in ("hf://own/gguf/tiny.gguf", f"{near.address}/own/gguf/tiny.gguf"):
        assert rl.checkpoint(where).kind == "gguf"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("hf://own/missing", "404"),
        ("hf://own/one/config.json", "is no checkpoint"),
        ("hf://own", "Write hf://OWNER/NAME"),
        ("hf://own/../one", "Write hf://OWNER/NAME"),
        ("https:///x.gguf", "has no host"),
        ("hf://own/shut/x.gguf", "403"),
        ("{address}/whole/own/gguf/tiny.gguf", "does not answer range requests"),
        ("{address}/wrong/own/gguf/tiny.gguf", "does not answer range requests"),
        ("{address}/own/gguf/absent.gguf", "404"),
        ("{address}/own/one/model.bin", "no address of a GGUF file"),
        ("http://127.0.0.1:9/x.gguf", "cannot be read"),
    ],
)
def test_what_is_not_there_in_python(near, name, says):
    with pytest.raises(rl.RooflineError, match=says):
        rl.checkpoint(name.format(address=near.address))


def test_a_server_may_send_a_small_file_whole(near):
    """Where it knows no ranges, and the file is no larger than what is asked for."""
    from roofline.checkpoints.sources import Remote

    file = Remote(f"{near.address}/plain/own/gguf/tiny.gguf", "tiny.gguf")
    assert file.read(0, 4) == b"GGUF"
    assert file.size == len(near.files["own/gguf/tiny.gguf"])
    assert file.read(file.size, 8) == b"" == file.read(0, 0)


def test_time_is_limited(near, monkeypatch):
    from roofline.checkpoints import sources

    for limit in ("_DEADLINE", "_WHOLE"):  # of one file, and of all together
        with monkeypatch.context() as patch:
            patch.setattr(sources, limit, -1.0)
            for where in (f"{near.address}/own/gguf/tiny.gguf", "hf://own/two"):
                with pytest.raises(rl.RooflineError, match="for its header"):
                    rl.checkpoint(where)
