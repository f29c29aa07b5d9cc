"""`roofline report`, and the pictures of `roofline predict`."""

from __future__ import annotations

import shlex

import pytest


def test_report_writes_one_file(roofline, tmp_path):
    """Nothing on standard output; the exit code of the prediction."""
    path = tmp_path / "r.html"
    answer = roofline("report", "qwen3-0.6b", "--device", "h100-sxm", "-o", path)

    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert path.read_text("utf-8").startswith("<!doctype html>")
    assert [each.name for each in tmp_path.iterdir()] == ["r.html"]


def test_the_command_in_the_report_gives_the_answer_again(roofline, tmp_path):
    """What the report says to type is what was asked, defaults left out."""
    path = tmp_path / "r.html"
    options = ["--sequences", "4", "--kv", "fp8", "--fused", "--efficiency", "0.8/0.75", "--prefill-tokens", "512"]
    assert roofline("report", "qwen3-0.6b", "--device", "h100-sxm", *options, "-o", path).code == 0
    text = path.read_text("utf-8")
    command = text[text.index("<pre>") + 5 : text.index("</pre>")]

    assert sorted(shlex.split(command)) == sorted(
        ["roofline", "predict", "qwen3-0.6b", "--device", "h100-sxm", *options]
    )
    assert roofline(*shlex.split(command)[1:]).code == 0


def test_report_of_what_does_not_fit(roofline, tmp_path):
    """Exit code 3, the report is there."""
    path = tmp_path / "r.htm"

    assert roofline("report", "qwen3-8b", "--device", "h100-sxm", "--sequences", 64, "-o", path).code == 3
    assert "Does not fit" in path.read_text("utf-8")


@pytest.mark.parametrize("output", ["r.pdf", "r", "no/such/folder/r.html"])
def test_report_that_cannot_be_written(roofline, tmp_path, output):
    """One line, exit code 2, no file."""
    answer = roofline("report", "qwen3-0.6b", "--device", "h100-sxm", "-o", tmp_path / output)

    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("roofline: ")
    assert answer.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["text", "json"])
def test_predict_saves_a_chart(roofline, tmp_path, extra):
    """The file, and the answer as without it."""
    path = tmp_path / "x.svg"
    plain = roofline("predict", "qwen3-0.6b", "--device", "h100-sxm", *extra)
    answer = roofline("predict", "qwen3-0.6b", "--device", "h100-sxm", *extra, "--chart", path)

    assert answer == plain
    assert path.read_text("utf-8").startswith("<svg")


@pytest.mark.parametrize("chart", ["x.bmp", "no/x.svg"])
def test_a_chart_that_cannot_be_saved(roofline, tmp_path, chart):
    """One line, exit code 2, nothing on standard output."""
    answer = roofline("predict", "qwen3-0.6b", "--device", "h100-sxm", "--chart", tmp_path / chart)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1


def test_progress_is_silent_where_nobody_watches(capfd):
    """Into a pipe nothing; on a terminal the words go to standard error, and are gone after."""
    from roofline.show.progress import busy

    with busy("Drawing"):
        pass
    assert capfd.readouterr() == ("", "")


def test_progress_on_a_terminal(monkeypatch):
    """On a terminal it says what is under way, on standard error alone."""
    import io
    import sys

    from roofline.show.progress import busy

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    heard, answer = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", heard)
    monkeypatch.setattr(sys, "stdout", answer)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with busy("Drawing [red]"):
        pass

    assert "Drawing [red] ..." in heard.getvalue()
    assert answer.getvalue() == ""
