"""A finding: what could be changed, and what is at stake."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


def counted(count: int, what: str) -> str:
    """A number of things: 1 call, 2 calls."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def short(name: str, length: int = 60) -> str:
    """A name cut to a length, which its end tells."""
    return name if len(name) <= length else f"{name[: length - 1]}…"


@dataclass(frozen=True, slots=True)
class Finding:
    """What could be changed, the numbers that support it, and the first thing to check.

    `at_stake` is in seconds of what was measured, None where the file has no time to set it in.
    """

    rule: str
    title: str
    at_stake: float | None  # [s]
    evidence: tuple[str, ...]
    advice: str


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by the seconds at stake, those without any last."""
    return tuple(sorted(findings, key=lambda each: -(each.at_stake if each.at_stake is not None else -1.0)))
