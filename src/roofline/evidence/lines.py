"""Lines of a text from outside: decoded, without colour, bounded in length and number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from roofline.evidence.prefixes import Prefix
from roofline.units import MIB

_MARK = b"\xef\xbb\xbf"  # of the encoding, at the start of a text
LONGEST = MIB  # [byte] of one line; what is longer is cut there
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_BREAK = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a carriage return at the end waits for what follows it


@dataclass(slots=True)
class Lines:
    """The lines of a text, once; `warnings` says what was lost, after they were read.

    Each is without the `prefix` that stands before it, where there is one; `who` printed the last one that was given.
    """

    blocks: Iterable[bytes]
    warnings: list[str] = field(default_factory=list[str])
    prefix: Prefix | None = None
    read: int = 0  # lines given so far
    who: str = ""

    def __iter__(self) -> Iterator[str]:
        cut = 0
        for line, whole in _split(self.blocks):
            cut += not whole
            text = (line if self.read else line.removeprefix(_MARK)).decode("utf-8", "replace")
            self.read += 1
            text = _ANSI.sub("", text) if "\x1b" in text else text
            if self.prefix is not None:
                self.who, text = self.prefix.parted(text)
            yield text
        if cut:
            self.warnings.append(f"{cut} lines are longer than {LONGEST // MIB} MiB and were cut there")


def _split(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each line and whether it is whole, wherever the blocks are cut."""
    rest, skipping = b"", False
    for block in blocks:
        *done, rest = _BREAK.split(rest + block)
        for line in done:
            if not skipping:
                yield line[:LONGEST], len(line) <= LONGEST
            skipping = False
        waiting = b"\r" if rest.endswith(b"\r") else b""
        if len(rest) - len(waiting) > LONGEST:
            if not skipping:
                yield rest[:LONGEST], False
            rest, skipping = waiting, True
    if rest and not skipping:
        yield rest.removesuffix(b"\r"), True
