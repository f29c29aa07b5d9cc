"""What launchers and loggers put before each line of a text: times, ranks, hosts, pods."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

# Who printed a line: srun --label, mpirun --tag-output, torchrun, docker compose, kubectl --prefix, pdsh.
_WHO = (
    r"\s{0,8}(?P<who>\d{1,6}): ",
    r"\[(?:[\w.@-]{1,80},)?(?P<who>\d{1,6})\](?:<std(?:out|err)>)?:?",
    r"\[(?:[\w.@-]{1,80},)?(?P<who>\d{1,6})\](?:<std(?:out|err)>)?:? ",
    r"\[(?P<who>[a-z]{1,16}\d{1,6})\]:?",
    r"\[(?P<who>[a-z]{1,16}\d{1,6})\]:? ",
    r"(?P<who>[\w.-]{1,80}) +\| ",
    r"\[(?P<who>pod/[^\]\s]{1,200})\] ",
    r"(?P<who>[A-Za-z][\w.-]{0,80}): ",
)
_WHEN = (
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?:? ",
    r"\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?:? ",
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}\d{1,2} \d\d:\d\d:\d\d ",
)
_MACHINE = r"(?P<who>[\w.-]{1,80}) [\w./-]{1,80}(?:\[\d{1,9}\])?: "  # of a system's journal, behind the time
_LOOKED_AT = 200  # lines
_MOST_OF = 0.5  # of the lines that a prefix must stand before, where the text is known without it alone
_ALL = 0.95  # and where it is known with it too


@dataclass(frozen=True, slots=True)
class Prefix:
    """One form of a prefix; lines without it are whole as they are."""

    pattern: re.Pattern[str]

    def parted(self, line: str) -> tuple[str, str]:
        """Who printed a line, "" where that is not told, and the line itself."""
        match = self.pattern.match(line)
        if match is None:
            return "", line
        return match.groupdict().get("who") or "", line[match.end() :]


def _forms() -> Iterator[str]:
    """Forms of prefixes, those that take most of a line before what they are made of."""
    for when in _WHEN:
        yield when + _MACHINE
    for when, who in product(_WHEN, _WHO):
        yield when + who
        yield who + when
    yield from _WHO
    yield from _WHEN


def prefix_of(head: str, kind: Callable[[str], str]) -> Prefix | None:
    """What stands before the lines of a text that begins like this; None for nothing.

    `kind` says what a text is, "" for what is not known: without its prefix a text is of the same kind, or is only then
    of any.
    """
    lines = head.splitlines()
    some = [each for each in lines[:_LOOKED_AT] if each.strip()]
    plain = kind(head)
    for form in _forms():
        prefix = Prefix(re.compile(form))
        if sum(prefix.pattern.match(each) is not None for each in some) <= (_ALL if plain else _MOST_OF) * len(some):
            continue
        found = kind("\n".join(prefix.parted(each)[1] for each in lines))
        if found and plain in ("", found):
            return prefix
    return None
