"""Cells of a line of CSV."""

from __future__ import annotations

import csv


def cells(line: str, delimiter: str = ",") -> list[str]:
    """The cells of a line, without blanks before them; none where it is no CSV, or a cell is longer than any is."""
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), list[str]())
    except csv.Error:
        return []
