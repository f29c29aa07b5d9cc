"""The roofline in the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

import roofline as rl
from roofline.show.plot import points_plot
from roofline.show.terminal import console


def drawn(capsys: pytest.CaptureFixture[str], points: list[rl.Point], device: rl.Device) -> str:
    capsys.readouterr()
    console().print(points_plot(points, device))
    return capsys.readouterr().out


def test_plot_fits_80_columns_and_pipes(roofline):
    """Below the text, plain in a pipe, the ridge and the costliest kernel named."""
    answer = roofline("predict", "qwen3-8b", "--device", "h100-sxm", "--sequences", 64, "--plot")

    assert answer.code == 3
    assert "\x1b" not in answer.out
    assert max(len(line) for line in answer.out.splitlines()) <= 80
    plot = answer.out[answer.out.index("┌") :]
    assert "A attention" in plot
    assert "ridge 295 FLOP/byte" in plot
    assert "costliest: attention, 83 % at 4.00 FLOP/byte" in plot


def test_attention_is_left_of_the_gemms_and_lower(roofline):
    """The letters stand where intensity and speed put them."""
    lines = roofline("predict", "qwen3-8b", "--device", "h100-sxm", "--sequences", 64, "--plot").out.splitlines()
    plot = lines[next(i for i, line in enumerate(lines) if "┌" in line) : -6]
    place = {letter: (row, line.index(letter)) for row, line in enumerate(plot) for letter in "AG" if letter in line}

    assert place["A"][0] > place["G"][0]
    assert place["A"][1] < place["G"][1]


def test_plot_of_the_unusual(capsys, h100):
    """No kernel at all, one that is far off, one that beats its bound: drawn, no failure, twice in a row."""
    gemm = rl.place(rl.ops.linear(m=8192, n=8192, k=8192), h100, name="<b>\x1b[31m")
    slow = replace(gemm, measured=gemm.bound.seconds * 1e4)
    fast = replace(gemm, measured=gemm.bound.seconds / 2)
    for points in ([], [slow], [fast], [slow, fast]):
        out = drawn(capsys, points, h100)
        assert "arithmetic intensity" in out
        assert "\x1b" not in out
