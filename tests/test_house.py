"""The house's own rules: public names, where prefixes stand, what is imported when, schemas, docs."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import roofline
from roofline.cli import app
from roofline.show.schema import SCHEMAS, schema

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "roofline"
FILES = sorted(SOURCE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_public_names_are_sorted_and_there():
    """`__all__` is sorted and every name resolves."""
    assert sorted(roofline.__all__) == roofline.__all__
    assert all(hasattr(roofline, name) for name in roofline.__all__)


def test_changelog_is_headed_by_the_version():
    """The newest entry of the changelog is the version of the project."""
    newest = re.search(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)

    assert newest is not None
    assert newest[1] == PROJECT["version"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_prefixes_stand_in_units_alone(path: Path):
    """No power of 1000 or 1024 outside units.py."""
    if path.name == "units.py":
        return
    powers = {1000**n for n in range(1, 6)} | {1024**n for n in range(1, 5)} | {1000.0**-n for n in range(1, 4)}
    found = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and node.value in powers
        and not isinstance(node.value, bool)
    ]

    assert found == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_heavy_imports_are_lazy(path: Path):
    """What takes long to import is imported where it is used, or for type checkers only."""
    heavy = {"numpy", "huggingface_hub", "torch", "pandas", "quantiphy"}
    top = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name.split(".")[0] for node in top if isinstance(node, ast.Import) for alias in node.names}
    names |= {(node.module or "").split(".")[0] for node in top if isinstance(node, ast.ImportFrom)}

    assert names & heavy == set()


def test_functions_do_not_both_compute_and_print():
    """`print` and standard output are the door's and the terminal's."""
    shows = {"cli/__init__.py", "cli/options.py", "show/terminal.py"}
    printing = {
        path.relative_to(SOURCE).as_posix()
        for path in FILES
        if re.search(r"\bprint\(|sys\.std(out|err)", path.read_text("utf-8"))
    }

    assert printing <= shows


# What `roofline predict` on a built-in model imports from outside of the standard library, all of it.
IMPORTED = {"attr", "attrs", "cyclopts", "docstring_parser", "msgspec", "quantiphy", "rich", "roofline"}


@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["text", "json"])
def test_imports_of_predict(extra: list[str]):
    """A prediction for a built-in model imports these packages and no other: no NumPy, no Hub client."""
    script = (
        "import sys; from roofline.cli import run; "
        f"run({['predict', 'qwen3-8b', '--device', 'h100-sxm', *extra]!r}); "
        "print('\\n' + ' '.join(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    modules = set(printed.splitlines()[-1].split())
    outside = {
        name for name in modules if name not in sys.stdlib_module_names and not name.startswith(("_", "sitecustom"))
    }

    assert outside <= IMPORTED | {"typing_extensions", "pygments", "markdown_it"}
    assert "numpy" not in modules


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schema_files_are_up_to_date(name: str):
    """The package's schema is the one that its records make; scripts/schemas writes it."""
    written = json.loads((SOURCE / "data" / "schemas" / f"{name}.json").read_text("utf-8"))

    assert written == schema(name)


def test_every_command_is_in_the_readme():
    """A command that the README does not name is not found."""
    readme = (ROOT / "README.md").read_text("utf-8")
    commands = [name for name in app if not name.startswith("-")]

    assert commands
    assert [name for name in commands if f"roofline {name}" not in readme] == []


@pytest.mark.parametrize("command", [name for name in app if not name.startswith("-")])
def test_every_option_has_help(roofline, command: str):
    """`--help` says what each option is."""
    answer = roofline(command, "--help")

    assert answer.code == 0
    assert "Arguments" in answer.out or re.search(r"--[a-z][a-z-]+", answer.out)
    assert not re.search(r"^\s+--[a-z-]+\s*$", answer.out, re.MULTILINE)


def test_generated_pages_are_up_to_date():
    """docs/formulas.md is what the code traces; write it with scripts/docs."""
    from roofline.show.formulas import formulas_text

    assert (ROOT / "docs" / "formulas.md").read_text("utf-8") == formulas_text()


def test_the_script_is_installed():
    """`roofline --version` prints the version of the project."""
    script = Path(sys.executable).parent / "roofline"
    printed = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)

    assert printed.stdout.strip() == PROJECT["version"]


def test_package_ships_its_data():
    """Everything that is read at run time lies inside the package."""
    assert (SOURCE / "py.typed").exists()
    assert {each.name for each in (SOURCE / "data").iterdir()} == {
        "counters.toml",
        "defaults.json",
        "devices",
        "devices.json",
        "models",
        "kernels.toml",
        "reached.toml",
        "recipes",
        "schemas",
        "sources.toml",
    }
