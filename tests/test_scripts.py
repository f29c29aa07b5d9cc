"""The scripts: what checks the code checks those that are written in Python too, though no suffix says so."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_script_in_python_is_checked():
    """Each file of scripts/ that begins as Python is among those that the linter takes for it, and no other."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "scripts").iterdir()
        if path.is_file() and "python" in path.read_text("utf-8").partition("\n")[0]
    }
    named = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]["extend-include"]

    assert found
    assert set(named) == found
