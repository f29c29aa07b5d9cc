"""Every code block of README and docs runs as a test: python as it stands, console commands with their output."""

from __future__ import annotations

import contextlib
import io
import shlex

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from roofline.cli import run


def _console(example: Example) -> None:
    """Run each `$ scripts/roofline …` line of a block and compare what it prints; `...` stands for any lines."""
    for session in ("\n" + example.parsed.rstrip()).split("\n$ ")[1:]:
        command, _, expected = session.partition("\n")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = run(shlex.split(command.removeprefix("scripts/"))[1:])
        assert code in (0, 3), f"{command!r} is refused"
        lines = [line.rstrip() for line in printed.getvalue().rstrip().splitlines()]
        for part in expected.split("...\n") if expected else []:
            wanted = part.removesuffix("...").rstrip("\n").splitlines()
            starts = (i for i in range(len(lines) + 1) if lines[i : i + len(wanted)] == wanted)
            found = next(starts, None)
            if found is None:
                raise AssertionError(f"{command!r} does not print\n{part}\nbut\n" + "\n".join(lines))
            lines = lines[found + len(wanted) :]


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns, no colour, no network: what a pipe gets, whatever the machine."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser("console", _console)],
    patterns=["README.md", "docs/*.md"],
    fixtures=["_plain_terminal"],
).pytest()
