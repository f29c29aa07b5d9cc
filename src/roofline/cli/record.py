"""`roofline record`."""

from __future__ import annotations

from roofline.cli.options import print_text
from roofline.recipes import recipe, script


def record(kind: str, /) -> int:
    """The recipe to record what a diagnosis needs, as a script with comments.

    Parameters
    ----------
    kind
        pytorch, nsys, ncu, dcgm or nccl.
    """
    print_text(script(recipe(kind)))
    return 0
