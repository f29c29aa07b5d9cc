"""That something is under way: on standard error, gone when it is done, silent where nobody watches."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def busy(what: str) -> Generator[None]:
    """A turning mark beside `what` while the block runs; nothing into a pipe or a file."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:
        yield
        return
    with console.status(Text(f"{what} ...")):
        yield
