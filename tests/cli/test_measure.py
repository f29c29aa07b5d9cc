"""`roofline measure`."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import msgspec
import pytest

import roofline as rl
from roofline.measurement import session
from roofline.show.measured import progress
from roofline.show.schema import schema


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second is enough to see that everything is there; what must be measured takes its time."""
    monkeypatch.setattr(session, "_SECONDS", {True: 1.0, False: 1.0})


@pytest.fixture(scope="module")
def measured_here() -> rl.Device:
    """This machine, measured once."""
    before = session._SECONDS
    session._SECONDS = {True: 1.0, False: 1.0}
    try:
        return rl.measure(quick=True)
    finally:
        session._SECONDS = before


def test_written_file_stands_anywhere_a_device_does(roofline, brief, tmp_path: Path):
    """predict, op and devices take it, beside a datasheet's."""
    path = tmp_path / "box.toml"
    answer = roofline("measure", "--quick", "-o", path)

    assert answer.code == 0
    assert "main memory" in answer.out
    assert answer.err == ""
    assert [each.name for each in tmp_path.iterdir()] == ["box.toml"]
    written = tomllib.loads(path.read_text())
    assert written["id"] == "box"
    assert written["memory"]["bandwidth"]["status"] == "measured"
    fp32 = ("--weights", "fp32", "--kv", "fp32", "--activations", "fp32", "--compute", "fp32")
    predicted = roofline("predict", "Qwen3-8B", "--device", path, *fp32, "--json")
    assert predicted.code in (0, 3)
    assert predicted.json["device"]["id"] == "box"
    assert predicted.json["sources"]["device"]["memory.bandwidth"]["status"] == "measured"
    assert roofline("op", "linear", "m=64", "n=64", "k=64", "compute=fp32", "--device", path).code == 0
    pair = roofline("devices", path, "h100-sxm")
    assert pair.code == 0
    assert "peak.fp32" in pair.out


def test_json_follows_its_schema(roofline, brief):
    """One object, whose ceilings are those of the device, and whose file can be read."""
    answer = roofline("measure", "--quick", "--json").json

    jsonschema.validate(answer, schema("measure-1"))
    ceilings = {each["key"]: each["value"] for each in answer["ceilings"]}
    assert answer["device"]["bandwidth"] == pytest.approx(ceilings["memory.bandwidth"], rel=1e-3)
    assert tomllib.loads(answer["toml"])["id"] == answer["device"]["id"]
    assert {row["threads"] for row in answer["rows"]} == {1, rl.measurement.machine.machine().threads}
    assert all(row["value"] > 0 and row["seconds"] <= row["median_seconds"] for row in answer["rows"])


def test_python(measured_here: rl.Device):
    """`rl.measure()` is a Device, with its rows."""
    assert isinstance(measured_here, rl.Device)
    assert measured_here.peak["fp32"] > 0
    assert any("NumPy" in line for line in measured_here.environment)


def test_of_several_ranks_the_first_answers(roofline, brief, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The others measure, and say and write nothing."""
    monkeypatch.setenv("RANK", "1")
    answer = roofline("measure", "--quick", "-o", tmp_path / "box.toml")

    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "box.txt"), "ends in .toml"),
        (("-o", "x\0y/box.toml"), "cannot be written"),
        (("-o", "no/such/folder/box.toml"), "cannot be written"),
        (("--on", "cuda"), "Choose the backend torch"),
        (("--backend", "jax"), "jax"),
    ],
)
def test_faults_are_one_line_before_anything_is_measured(roofline, words, said: str):
    """Exit 2, nothing on standard output."""
    answer = roofline("measure", *words)

    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_backend_that_is_not_known():
    """From Python too."""
    with pytest.raises(rl.RooflineError, match="Possible: numpy, torch"):
        rl.measure("jax")


def test_torch_that_is_not_installed(roofline, monkeypatch: pytest.MonkeyPatch):
    """The line says how to install it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    answer = roofline("measure", "--backend", "torch")

    assert (answer.code, answer.out) == (2, "")
    assert "pip install 'roofline[torch]'" in answer.err


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path):
    """Ctrl-C: exit 130, no file, and no traceback."""
    script = (
        "import os, signal, sys\n"
        "from roofline.cli import main\n"
        "from roofline.measurement import session\n"
        "import roofline.show.measured as shown\n"
        "from contextlib import contextmanager\n"
        "def tell(share, what):\n"
        "    if share > 0.1: os.kill(os.getpid(), signal.SIGINT)\n"
        "@contextmanager\n"
        "def progress():\n"
        "    yield tell\n"
        "shown.progress = progress\n"
        f"main(['measure', '--quick', '-o', {str(tmp_path / 'box.toml')!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 130
    assert (done.stdout, done.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_progress_is_silent_where_nobody_looks(capsys: pytest.CaptureFixture[str]):
    """Into a pipe there is no bar."""
    with progress() as tell:
        tell(0.5, "copy")

    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """A bar on standard error, gone at the end; what it names is data."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress() as tell:
        tell(0.5, "[red]copy")
    printed = capsys.readouterr()

    assert printed.out == ""
    assert "50%" in printed.err
    assert "[red]copy" in printed.err


def test_schema_is_a_schema():
    """The record's Struct gives one."""
    assert "$defs" in schema("measure-1")
    assert msgspec.json.encode(schema("measure-1"))
