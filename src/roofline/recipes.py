"""Recipes: how to record what a diagnosis needs, one data file each."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

from roofline.errors import UnknownName

_FOLDER = Path(__file__).parent / "data" / "recipes"


class Recipe(NamedTuple):
    """How to record one kind of evidence: `code` in `language` (python or shell), and the command that reads it."""

    name: str
    title: str
    gives: str
    language: str
    needs: str
    then: str
    notes: tuple[str, ...]
    code: str


def recipe_names() -> list[str]:
    """Names of the recipes."""
    return sorted(each.stem for each in _FOLDER.glob("*.toml"))


def recipe(name: str) -> Recipe:
    """The recipe of that name; raises UnknownName."""
    wanted = name.strip().lower()
    if wanted not in recipe_names():
        raise UnknownName.of("recipe", name, recipe_names())
    table = tomllib.loads((_FOLDER / f"{wanted}.toml").read_text("utf-8"))
    fields = {key: str(table[key]).strip("\n") for key in Recipe._fields if key != "notes"}
    return Recipe(**fields, notes=tuple(str(each) for each in table["notes"]))  # pyright: ignore[reportArgumentType]


def script(found: Recipe) -> str:
    """A recipe as a script that can be piped into a file and run: everything but the code is a comment."""
    head = [found.title, f"Gives: {found.gives}.", f"Needs: {found.needs}.", *found.notes, f"Then: {found.then}"]
    return "\n".join([*(f"# {line}" for line in head), "", found.code, ""])
