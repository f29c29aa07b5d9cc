"""What can go wrong, each error one clear line: what came, what is possible, what to do.

RooflineError
├─ UnknownName      a device, model, rate, dtype or operation that is not registered
├─ BadValue         a size, share or option outside of what is possible
│  └─ TooMuch        a file with more text than is read
├─ DataError        a data file of a device or model: path, key, what is allowed
├─ ConfigError      a config.json: key, value, what it would have decided
│  └─ UnknownTower   a part that reads images and is not known: the text model is counted without it
├─ ShardError       a model that does not divide over the ranks asked for
├─ CheckpointError  headers of a checkpoint that lie, or that say nothing of a model
└─ TraceError       a profile that cannot be read, or that holds nothing to diagnose
"""

from __future__ import annotations

from collections.abc import Iterable


class RooflineError(Exception):
    """Any error that the input can cause; the command line prints it and exits with 2."""


class UnknownName(RooflineError):
    """A name that is not registered; the message lists close ones."""

    @classmethod
    def of(cls, kind: str, name: object, known: Iterable[str], see: str = "") -> UnknownName:
        """Build the error for `name`, a `kind` ("device", "dtype"), out of the `known` ones."""
        from difflib import get_close_matches

        names = sorted(known)
        lowered = {each.lower(): each for each in names}
        text = str(name).lower()
        close = [lowered[each] for each in get_close_matches(text, lowered, n=4, cutoff=0.5)]
        close += [each for each in names if text and text in each.lower() and each not in close]
        if close:
            hint = f"Close: {', '.join(close[:5])}."
        elif len(names) <= 24:
            hint = f"Known: {', '.join(names)}."
        else:
            hint = f"{len(names)} are known."
        return cls(f"Unknown {kind} {shown(name)}. {hint}{' ' + see if see else ''}")


class BadValue(RooflineError):
    """A value outside of what is possible."""


class TooMuch(BadValue):
    """A file with more text than is read; the message names the file."""


class DataError(RooflineError):
    """A device or model file that does not say what such a file must say."""


class ConfigError(RooflineError):
    """A config.json that cannot be read as a model."""


class CheckpointError(RooflineError):
    """A checkpoint whose headers cannot be what they say."""


class UnknownTower(ConfigError):
    """A tower that is not known; its text model may be."""


class ShardError(RooflineError):
    """A model that does not divide over the ranks."""


class TraceError(RooflineError):
    """A profile that cannot be read, or that holds nothing to diagnose."""


def one_line(error: BaseException, most: int = 160) -> str:
    """The text of any error as a part of a message: one line, printable, of up to `most` characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return "".join(c if c.isprintable() else "?" for c in text)[:most].rstrip(".")


def shown(value: object, limit: int = 60) -> str:
    """`value` as it may stand in a message: quoted, printable, cut at `limit` characters."""
    try:
        text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    except (ValueError, RecursionError):  # an int of thousands of digits, lists in lists in lists
        return f"a {type(value).__name__} too large to print"
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
