"""`roofline diagnose`: what a terminal and a script see."""

from __future__ import annotations

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from limits import no_hang
from roofline.errors import RooflineError
from traces import event, kernel, launch, small, trace, write


def test_text_says_where_the_time_went(roofline, tmp_path):
    answer = roofline("diagnose", write(tmp_path, small()))

    assert answer.code == 0
    assert answer.err == ""
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert "gemm 2 60.00 60.0 %" in lines
    assert "idle 20.00 20.0 %" in lines
    assert "window 100.00 100.0 %" in lines
    assert "ampere_sgemm_128x64_tn gemm 2 60.000 75.0 % memory 0.0036 %" in lines
    assert any(line.startswith("host-bound launch 12.000") for line in lines)
    assert max(map(len, answer.out.splitlines())) <= 80


def test_a_cost_of_next_to_nothing_is_not_told(roofline, tmp_path):
    """A memset of 4 bytes is all that has a cost: its bound is no figure of the run."""
    memset = event("gpu_memset", "Memset (Device)", 3000, 1, args={"device": 0, "stream": 7, "bytes": 4})
    alone = roofline("diagnose", write(tmp_path, trace(memset, kernel("triton_x", 1000, 1, 1)), "a.json")).out
    beside = roofline("diagnose", write(tmp_path, trace(memset, kernel("triton_x", 1000, 900, 1)), "b.json")).out

    assert "together: 4" in alone
    assert "together" not in beside


def test_json_is_one_object(roofline, tmp_path):
    answer = roofline("diagnose", write(tmp_path, small()), "--json")

    assert answer.json["schema"] == "roofline.diagnosis/1"
    assert answer.json["window_s"] == 100e-6


def test_everything_that_a_trace_can_hold_is_shown(roofline, tmp_path):
    """Steps, passes, copies, graphs, other devices, ranks and warnings have their lines."""
    marks = [event("user_annotation", f"ProfilerStep#{n}", 100 * n, 90) for n in range(2)]
    execute = "execute_32_context_1(sq8sk9sqsq64sqsk72)_generation_32(sq32sk55086sqsq32sqsk55086)"
    answer = roofline(
        "diagnose",
        write(
            tmp_path,
            trace(
                *marks,
                event("user_annotation", execute, 5, 50),
                launch(10, 1, name="cudaGraphLaunch"),
                *(kernel(f"sgemm_{n}", 20 + 4 * n, 3, 1) for n in range(20)),
                launch(110, 2),
                kernel("nccl", 120, 9, 2),
                kernel("unlinked", 140, 9, 99),
                kernel("elsewhere", 20, 1, 98, device=4),
                event(
                    "gpu_memcpy",
                    "Memcpy DtoH (Device -> Pinned)",
                    150,
                    4,
                    args={"device": 0, "stream": 7, "bytes": 4096},
                ),
                kernel("bad", 0, 0, 5),
                distributedInfo={"rank": 1, "world_size": 4},
            ),
        ),
    )

    for words in (
        "rank 1 of 4",
        "Note: device activities at time 0 that take 0.",
        "GPU 0, one of 2 in the file",
        "Copies DtoH, pinned: 1 with 4 KiB",
        "Replayed by a graph: 20 kernels",
        "were launched outside of the record",
        "all 2 count",
        "prefill of 1 request with 8 tokens attending to 9 positions",
        "decode of 32 requests with 32 tokens attending to 55,086 positions",
        "more ",
        "Communication",
    ):
        assert words in " ".join(answer.out.split()), words


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "is empty"), (b"{}", "without traceEvents"), (b"\0QDSTRM", "nsys export"), (b"<html>", "web page")],
)
def test_an_error_is_one_line_and_nothing_else(roofline, tmp_path, content, words):
    answer = roofline("diagnose", write(tmp_path, content))

    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_options_are_checked(roofline, tmp_path):
    path = write(tmp_path, small())

    assert "--limit" in roofline("diagnose", path, "--limit", "12 apples").err
    assert "--processes" in roofline("diagnose", path, "--processes", "0").err
    assert "more than the" in roofline("diagnose", path, "--limit", "1kB").err
    assert roofline("diagnose", path, "--limit", "1MB").code == 0


def test_names_are_data(roofline, tmp_path):
    """Markup and control characters of names show as they are or as escapes."""
    name = "[bold red]x[/] \x1b[31m\u202e"
    answer = roofline("diagnose", write(tmp_path, trace(kernel(name, 0, 5, 1))))

    assert "[bold red]x[/]" in answer.out
    assert "\x1b" not in answer.out
    assert "\u202e" not in answer.out


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "roofline", "diagnose", *map(str, arguments)]


@pytest.fixture
def large(tmp_path):
    """A file that is read by several processes: 30 MB of kernels."""
    one = ", ".join(json.dumps(kernel("k" * 100, n, 1, n)) for n in range(1000))
    return write(tmp_path, '{"traceEvents": [' + ", ".join([one] * 130) + "]}")


def test_several_processes_give_the_same_answer(large):
    answers = [
        subprocess.run(command(large, "--json", "--processes", n), capture_output=True, text=True, check=True)
        for n in (1, 3)
    ]

    assert answers[0].stdout == answers[1].stdout
    assert answers[0].stderr == answers[1].stderr == ""
    assert json.loads(answers[0].stdout)["events"]["read"] == 130_000


def test_an_interrupt_ends_at_once_and_leaves_nothing(tmp_path):
    """No traceback, no file, no process: while the reader waits for more of a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    holder = os.open(pipe, os.O_RDWR)
    process = subprocess.Popen(command(pipe, "--processes", 2), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        os.write(holder, b'{"traceEvents": [')
        links = Path(f"/proc/{process.pid}/fd")
        with no_hang(60):
            while str(pipe) not in {os.path.realpath(each) for each in links.iterdir()}:
                time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        os.close(holder)

    assert (process.returncode, out, err) == (130, b"", b"")
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_bar_shows_on_a_terminal_alone(tmp_path):
    """Progress goes to standard error, where that is a terminal; the answer stays clean."""
    path = write(tmp_path, gzip.compress(json.dumps(small()).encode()))
    leader, follower = pty.openpty()
    try:
        answer = subprocess.run(command(path, "--json"), stdout=subprocess.PIPE, stderr=follower, check=True)
        shown = os.read(leader, 1 << 16)
    finally:
        os.close(leader)
        os.close(follower)

    assert b"reading" in shown
    assert json.loads(answer.stdout)["window_ns"] == 100_000


def test_helpers_are_used_in_process_too(roofline, large, monkeypatch):
    """A large file is shared with other processes; none is left afterwards."""
    from multiprocessing import active_children

    from roofline.trace.readers import spread

    monkeypatch.setattr(spread, "_ALONE", 0)
    answer = roofline("diagnose", large, "--processes", "2", "--json")

    assert answer.json["events"]["read"] == 130_000
    assert active_children() == []


def test_a_helper_leaves_interrupts_to_its_parent():
    """In the process itself, where there is no parent to watch."""
    from roofline.cli import diagnose

    before = signal.getsignal(signal.SIGINT)
    try:
        diagnose._follow()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_in_process(roofline, tmp_path, monkeypatch):
    from roofline import diagnosis

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(diagnosis, "diagnose", interrupted)
    with pytest.raises(SystemExit) as ended:
        roofline("diagnose", tmp_path / "x.json")

    assert ended.value.code == 130


def test_a_bar_on_a_terminal(roofline, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    answer = roofline("diagnose", write(tmp_path, small()), "--json")

    assert answer.json["window_ns"] == 100_000


class Dask:
    """Stands for the module of Dask: a client whose workers are threads."""

    class Client:
        addresses: list[str] = []  # noqa: RUF012

        def __init__(self, address, timeout):
            if "nowhere" in address:
                raise OSError("Timed out trying to connect")
            self.addresses.append(address)
            self.executor = ThreadPoolExecutor(2)

        def get_executor(self):
            return self.executor

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.executor.shutdown()


def test_ranks_by_the_workers_of_a_scheduler(roofline, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", Dask)
    paths = [write(tmp_path, small(distributedInfo={"rank": n, "world_size": 2}), f"{n}.json") for n in range(2)]
    answer = roofline("diagnose", *paths, "--scheduler", "tcp://here:8786", "--json")

    assert Dask.Client.addresses == ["tcp://here:8786"]
    assert [each["rank"] for each in answer.json["ranks"]] == [0, 1]

    lost = roofline("diagnose", *paths, "--scheduler", "tcp://nowhere:1")
    assert (lost.code, lost.out) == (2, "")
    assert "No Dask scheduler answers at 'tcp://nowhere:1': Timed out trying to connect" in lost.err
    one = roofline("diagnose", paths[0], "--scheduler", "tcp://here:8786")
    assert (one.code, one.out) == (2, "")
    assert "one file was named" in one.err


def test_a_scheduler_without_dask(roofline, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    path = write(tmp_path, small())
    answer = roofline("diagnose", path, path, "--scheduler", "tcp://here:8786")

    assert (answer.code, answer.out) == (2, "")
    assert "pip install distributed" in answer.err


def test_as_many_helpers_as_a_file_is_worth(tmp_path, monkeypatch):
    """By its size, packed or not, up to eight processes; a database is read by one, whatever its size."""
    from roofline.cli import diagnose

    asked: list[int] = []

    @contextmanager
    def pool(helpers):
        asked.append(helpers)
        yield None

    monkeypatch.setattr(diagnose, "_pool", pool)
    monkeypatch.setattr(diagnose, "at_once", lambda: 64)
    monkeypatch.setattr(diagnose, "_LARGE", 100)
    for name, text, processes in (
        ("small.json", b"{" * 99, None),
        ("large.json", b"{" * 250, None),
        ("huge.json", b"{" * 5000, None),
        ("huge.json", b"{" * 5000, 20),
        ("large.json.gz", b"\x1f\x8b" * 20, None),
        ("large.db", b"SQLite format 3\0" + bytes(4096), None),
    ):
        (tmp_path / name).write_bytes(text)
        with suppress(RooflineError):
            diagnose._diagnosed(str(tmp_path / name), None, processes)

    assert asked == [2, 7, 19, 4]


def test_a_file_elsewhere_gets_one_helper_unless_more_are_asked_for(monkeypatch):
    """How large it is, is not known."""
    from roofline.cli import diagnose

    monkeypatch.setattr(diagnose, "at_once", lambda: 64)
    assert [diagnose._helpers("s3://bucket/t.json.gz", n) for n in (None, 1, 16)] == [1, 0, 15]


@pytest.fixture(scope="module")
def huge(tmp_path_factory):
    """A file that helpers read for seconds: 200 MB of kernels."""
    one = ",".join(json.dumps(kernel("k", n, 1, n)) for n in range(1000))
    path = tmp_path_factory.mktemp("huge") / "t.json"
    path.write_text('{"schemaVersion": 1, "traceEvents": [' + ",".join([one] * (200_000_000 // len(one))) + "]}")
    return path


def children(process):
    words = ["pgrep", "-P", str(process.pid), "-f", "spawn_main"]
    return [int(each) for each in subprocess.run(words, check=False, capture_output=True, text=True).stdout.split()]


@pytest.mark.parametrize("several", [False, True])
def test_a_helper_that_is_ended_loses_nothing(huge, several, tmp_path):
    """As the system does where memory runs out: its part is done here, with the same answer."""
    files = [huge, huge] if several else [huge]
    process = subprocess.Popen(
        command(*files, "--processes", 3, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    started = time.monotonic()
    while not (helpers := children(process)) and time.monotonic() - started < 20:
        time.sleep(0.02)
    time.sleep(0.5)
    os.kill(helpers[0], signal.SIGKILL)
    out, err = process.communicate(timeout=120)

    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["events"]["read"] > 1_000_000


@pytest.mark.parametrize("after", [0.15, 0.3, 0.6, 1.2])
def test_an_interrupt_of_all_processes_ends_them_without_a_word(huge, after):
    """As a terminal sends it: to the helpers too, wherever in their start they are."""
    process = subprocess.Popen(
        command(huge, "--processes", 3, "--json"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    time.sleep(after)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)

    assert "Traceback" not in err
    assert process.returncode in (130, -signal.SIGINT)  # the latter before Python's own handler is there
    assert children(process) == []


class Failing(ThreadPoolExecutor):
    """Workers that lack the package, or a scheduler that lost them."""

    def submit(self, function, /, *args):  # pyright: ignore
        def fail(*_):
            raise ModuleNotFoundError("No module named 'roofline'")

        return super().submit(fail)


def test_workers_that_lack_the_package(tmp_path, monkeypatch):
    from roofline.diagnosis import diagnose
    from texts import small_pieces

    paths = [write(tmp_path, small(), f"{n}.json") for n in range(2)]
    alone = diagnose(paths[0])
    small_pieces(monkeypatch, 512)
    with Failing(1) as pool:
        assert diagnose(paths[0], executor=pool, workers=1).window == alone.window
        assert [each.found.window for each in diagnose(paths, executor=pool).ranks] == [alone.window] * 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--weights", "fp8"), "--weights: of a trace, which this is"),
        (("--sequences", "5", "--work", "linear m=1 n=1 k=1"), "--sequences, --work"),
    ],
)
def test_options_that_say_nothing_of_a_trace_are_refused(roofline, tmp_path, options, said):
    answer = roofline("diagnose", write(tmp_path, small()), *options)

    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_options_of_a_benchmark_beside_several_files_are_refused_before_these_are_read(roofline, tmp_path):
    """Nothing but traces is of several ranks: the files need not even be there."""
    answer = roofline("diagnose", tmp_path / "a.json", tmp_path / "b.json", "--sequences", "5")

    assert answer.code == 2
    assert "--sequences" in answer.err
    assert "There is no file" not in answer.err


def test_a_report_says_the_command_that_it_is_of(roofline, tmp_path):
    bench = tmp_path / "bench.json"
    known = {"model_id": "x", "output_throughput": 100.0, "completed": 4, "duration": 2.0, "mean_tpot_ms": 10.0}
    bench.write_text(json.dumps(known | {"total_input_tokens": 4000, "total_output_tokens": 200}))
    asked = ("--model", "qwen3-8b", "--device", "h100-sxm", "--weights", "fp8", "--tp", "2")
    assert roofline("diagnose", bench, *asked, "--report", tmp_path / "r.html").code == 0

    assert " ".join(asked) in (tmp_path / "r.html").read_text()
