"""`roofline watch` beside a real exporter process, and a real Prometheus server where there is one."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from roofline.diagnosis.watching import Watch
from roofline.errors import BadValue, TraceError
from roofline.evidence import scrape as module
from roofline.evidence.scrape import target

METRICS = """# HELP DCGM_FI_PROF_DRAM_ACTIVE ratio
# TYPE DCGM_FI_PROF_DRAM_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",modelName="NVIDIA H100 80GB HBM3"} 1.0
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",modelName="NVIDIA H100 80GB HBM3"} 0.75
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",modelName="NVIDIA H100 80GB HBM3"} 0.10
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1",modelName="NVIDIA H100 80GB HBM3"} 0.0
DCGM_FI_PROF_DRAM_ACTIVE{gpu="1",modelName="NVIDIA H100 80GB HBM3"} 0.0
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="1",modelName="NVIDIA H100 80GB HBM3"} 0.0
"""

# A server of fixed answers by path, in a process of its own: `{path: (status, body)}` as JSON on its command line.
SERVER = """
import http.server, json, sys
answers = json.loads(sys.argv[1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, body = answers.get(self.path.partition("?")[0], (404, ""))
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", body)
        self.end_headers()
        self.wfile.write(body.encode())
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextlib.contextmanager
def serving(answers: dict[str, tuple[int, str]]) -> Iterator[str]:
    """The address of a running server."""
    process = subprocess.Popen([sys.executable, "-c", SERVER, json.dumps(answers)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture(scope="module")
def exporter() -> Iterator[str]:
    with serving({"/metrics": (200, METRICS)}) as address:
        yield address


def test_a_running_exporter(roofline, exporter):
    """A line a card, what limits it, estimates from the catalogue; the address with or without its path."""
    for address in (f"{exporter}/metrics", exporter, exporter.removeprefix("http://")):
        answer = roofline("watch", address, "--count", 1)
        assert answer.code == 0, answer.err
        assert "1 waiting for memory; 1 idle" in answer.out
        assert "2,514" in answer.out  # 0.75 of 3352 GB/s
        assert max(map(len, answer.out.splitlines())) <= 80


def test_json_lines(roofline, exporter):
    """An object an answer; the second has two samples a card."""
    answer = roofline("watch", exporter, "--count", 2, "--interval", 0.1, "--json")
    first, second = (json.loads(line) for line in answer.out.splitlines())

    assert first["schema"] == "roofline.diagnosis/1"
    assert [(each["name"], each["state"]) for each in first["cards"]] == [("GPU 0", "memory"), ("GPU 1", "idle")]
    assert [each["samples"] for each in second["cards"]] == [2, 2]


def test_in_a_terminal(exporter):
    """rich's Live draws on a terminal of its own, and Ctrl-C ends it without a word."""
    import os
    import pty
    import signal

    main, side = pty.openpty()
    command = [sys.executable, "-m", "roofline", "watch", exporter, "--interval", "0.1"]
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, stdout=side, stderr=side, stdin=side, env=environment)
    os.close(side)
    seen = b""
    ends = time.monotonic() + 20
    while seen.count(b"waiting for memory") < 2 and time.monotonic() < ends:
        seen += os.read(main, 65_536)
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):
        while data := os.read(main, 65_536):
            seen += data
    os.close(main)

    assert process.wait(10) == 0
    assert seen.count(b"waiting for memory") >= 2
    assert b"Traceback" not in seen


def test_a_prometheus_servers_answers(roofline):
    """Its /metrics has counters of its own; the query has those of the cards."""
    now = time.time()
    series = [
        {"metric": {"__name__": f"DCGM_FI_PROF_{name}", "gpu": "0"}, "value": [now, value]}
        for name, value in (("GR_ENGINE_ACTIVE", "1"), ("DRAM_ACTIVE", "0.1"), ("PIPE_TENSOR_ACTIVE", "0.9"))
    ]
    body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": series}})
    with serving({"/metrics": (200, "prometheus_build_info 1\n"), "/api/v1/query": (200, body)}) as address:
        answer = roofline("watch", address, "--count", 1)

    assert "GPU 0: reads 100 % busy and computes" in answer.out


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def answers(url: str, wanted: str) -> bool:
    with contextlib.suppress(OSError):
        return wanted in urllib.request.urlopen(url, timeout=2).read().decode()
    return False


@pytest.mark.skipif(
    shutil.which("prometheus") is None,
    reason="no Prometheus server is installed: scripts/test installs Debian's package where it runs as root",
)
def test_a_real_prometheus_server(roofline, exporter, tmp_path: Path):
    """It collects from the exporter, and is asked what it has."""
    port = free_port()
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "dcgm", "static_configs": [{"targets": [exporter.removeprefix("http://")]}]}],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    server = subprocess.Popen(
        ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    base = f"http://127.0.0.1:{port}"
    try:
        ends = time.monotonic() + 30
        while not answers(f"{base}/api/v1/query?query=DCGM_FI_PROF_DRAM_ACTIVE", "0.75"):
            assert time.monotonic() < ends, "the server has collected nothing"
            time.sleep(0.2)
        answer = roofline("watch", base, "--count", 1)
        query = f"{base}/api/v1/query_range?query=DCGM_FI_PROF_DRAM_ACTIVE&start={time.time() - 30}&end={time.time()}&step=1"
        (tmp_path / "range.json").write_bytes(urllib.request.urlopen(query, timeout=5).read())
        saved = roofline("diagnose", tmp_path / "range.json", "--json")
    finally:
        server.terminate()
        server.wait()

    assert "1 waiting for memory; 1 idle" in answer.out
    assert {each["counters"]["dram_active"] for each in saved.json["cards"]} == {0.75, 0.0}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, "<html>hello</html>"), "has no counter of DCGM"),
        ((503, ""), "HTTP status 503"),
        ((302, "http://127.0.0.1:1/elsewhere"), "HTTP status 302"),
        ((200, '{"status": "error", "error": "no"}'), "has no counter of DCGM"),
    ],
)
def test_other_servers(roofline, answer, said):
    """One clear line; no redirect is followed."""
    with serving({"/metrics": answer}) as address:
        found = roofline("watch", address, "--count", 1)

    assert (found.code, found.out) == (2, "")
    assert said in found.err
    assert found.err.count("\n") == 1


def test_nobody_there(roofline):
    """A port without a server, and one that speaks no HTTP."""
    found = roofline("watch", f"http://127.0.0.1:{free_port()}/metrics", "--count", 1)
    assert (found.code, found.out) == (2, "")
    assert "does not answer" in found.err


@pytest.mark.parametrize(
    "url", ["ftp://x/metrics", "http://", "http://x:99999/", "file:///etc/passwd", "http://a b/", "http://[::1"]
)
def test_addresses_that_are_none(url):
    """Neither a file nor another protocol is opened."""
    with pytest.raises(BadValue, match="no address of an exporter"):
        target(url)


def test_credentials_stay_out_of_sight():
    """They are sent, and never shown."""
    found = target("http://user:secret@h:9400/metrics")

    assert "secret" not in found.name + found.url
    assert found.authorization == "Basic dXNlcjpzZWNyZXQ="
    assert target("http://[::1]:9400").url == "http://[::1]:9400"


def test_an_answer_without_end(monkeypatch, exporter):
    """It is read up to a limit."""
    monkeypatch.setattr(module, "_MOST", 100)
    with pytest.raises(TraceError, match="more than"):
        Watch(f"{exporter}/metrics").ask()


def test_an_exporter_that_falls_silent(monkeypatch):
    """The last minute stays, with the reason; then nothing is left."""
    with serving({"/metrics": (200, METRICS)}) as address:
        watch = Watch(address)
        found = watch.ask(now=1000.0)
        assert found is not None
    silent = watch.ask(now=1030.0)
    assert silent is not None
    assert "does not answer" in watch.silent
    assert watch.ask(now=1061.0) is None
    with pytest.raises(TraceError):
        watch.ask(now=1062.0)


def test_options(roofline):
    """Intervals and counts that are none."""
    assert "no interval" in roofline("watch", "http://x", "--interval", "soon").err
    assert "no number of times" in roofline("watch", "http://x", "--count", "0").err


def test_texts_of_silence():
    """Nothing came, and why; findings only where there is room."""
    from rich.console import Console

    from roofline.show.watch import watch_text

    console = Console(width=80)
    with console.capture() as captured:
        console.print(watch_text(None, ""))
        console.print(watch_text(None, "http://x does not answer."))
    assert captured.get().split("\n")[:2] == ["No answer in the last minute.", "http://x does not answer."]
    with serving({"/metrics": (200, METRICS)}) as address:
        found = Watch(address).ask()
    with console.capture() as captured:
        console.print(watch_text(found, "gone.", height=10))
    assert "gone." in captured.get()
    assert "at stake" not in captured.get()


def test_more_than_one_answer_in_a_pipe(roofline, exporter):
    """A table each time, where no terminal can be drawn over."""
    assert roofline("watch", exporter, "--count", 2, "--interval", 0.1).out.count("means of the last minute") == 2
