"""What many tests use."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import roofline as rl
from roofline.cli import run


@pytest.fixture
def h100() -> rl.Device:
    """The device of the published figures."""
    return rl.Device.load("h100-sxm")


@pytest.fixture
def qwen() -> rl.Model:
    """The model of the published figures."""
    return rl.Model.load("Qwen3-8B")


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def roofline(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run the command line in process: `roofline("predict", "7B", "--device", "h100-sxm")`."""

    def call(*arguments: object) -> Answer:
        capsys.readouterr()
        code = run([str(each) for each in arguments])
        return Answer(code, *capsys.readouterr())

    return call
