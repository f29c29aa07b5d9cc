"""The text of a Chrome trace cut into pieces of whole events, without decoding it.

Where the array of events begins is found by reading the JSON before it, whatever keys stand there. A piece ends at
a seam, `}, {"`, that no string can hold: its quote would be escaped. What stands beside the array is kept as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from roofline.errors import TraceError
from roofline.trace.readers.seams import TOKEN, WITHIN, Text, last_seam
from roofline.units import MIB

_ARRAY = re.compile(rb"\s*:\s*\[")
_ANYWHERE = re.compile(rb'"traceEvents"\s*:\s*\[')
_MOST_HEAD = 64 * MIB  # [byte] before the events
MOST_EVENT = 64 * MIB
_SHORT = 64  # [byte] that may be read again with the next block; the key of the events is shorter
_STRANGE = 8 * MIB  # [byte] without an event that begins as events do


def endless(name: str) -> TraceError:
    """The error of a file with more than MOST_EVENT without the end of an event."""
    return TraceError(f"{name} has {MOST_EVENT // MIB} MiB without the end of an event, as no trace has.")


class Pieces:
    """Iterate over pieces of events; `head` is the text before them, known once the first piece is there."""

    def __init__(self, blocks: Iterator[bytes], name: str, least: int) -> None:
        self._blocks, self._name, self._least = blocks, name, least
        self.head = b""
        self.bare = False  # the file is the array itself

    def __iter__(self) -> Iterator[tuple[list[Text], bool]]:
        """The text of each piece in parts, and whether it was cut; the last one is not: it ends with the file."""
        left: list[bytes] = [self.skip_head()]
        size = len(left[0])
        for block in self._blocks:
            size += len(block)
            end = last_seam(block, size > _STRANGE) if size >= self._least else None
            if end is None:
                left.append(block)
                if size > MOST_EVENT + self._least:
                    yield from self._joined(left)
                    size = len(left[0])
                continue
            view = memoryview(block)  # no copy of the text yet, as it is long: what the cut leaves is short
            yield [*left, view[:end]], True
            left = [bytes(view[end:]).lstrip(b", \t\r\n")]
            size = len(left[0])
        if any(each.strip() for each in left):
            yield list(left), False

    def _joined(self, left: list[bytes]) -> Iterator[tuple[list[Text], bool]]:
        """A piece of blocks of which none has a seam of its own: between two there may be one."""
        text = b"".join(left)
        end = last_seam(text, strange=True)
        if end is None:
            raise endless(self._name)
        left[:] = [text[end:].lstrip(b", \t\r\n")]
        yield [text[:end]], True

    def rest(self) -> Iterator[bytes]:
        """The blocks that have not been cut: what is left when the array has ended."""
        return self._blocks

    def skip_head(self) -> bytes:
        """Read up to the array of events; the text after its bracket."""
        text = b""
        scan = _Scan()
        for block in self._blocks:
            text += block
            if not (start := text.lstrip()):
                text = b""
                continue
            if start[:1] == b"[":
                self.bare = True
                return start[1:]
            at = scan.array(text)
            if at is not None:
                self.head = text[:at]
                return text[at:]
            if len(text) > _MOST_HEAD:
                break
        if found := _ANYWHERE.search(text):  # the text before is no sound JSON
            self.head = text[: found.end()]
            return text[found.end() :]
        self.head = text
        raise NoEvents(text)


class NoEvents(Exception):
    """There is no array of events; the text that there is instead."""

    def __init__(self, text: bytes) -> None:
        super().__init__("no traceEvents")
        self.text = text


class _Scan:
    """Follow the brackets of a JSON object that grows, up to the array under its key traceEvents."""

    def __init__(self) -> None:
        self._at: int = 0
        self._depth = 0
        self._within: bool = False  # a string, and a long one

    def array(self, text: bytes) -> int | None:
        """The offset after the array's bracket, or None as long as it is not there."""
        for token in self._tokens(text):
            mark = token[0]
            if mark in b"{[":
                self._depth += 1
            elif mark in b"}]":
                self._depth -= 1
            elif self._depth == 1 and mark == b'"traceEvents"':
                if opened := _ARRAY.match(text, token.end()):
                    return opened.end()
                if len(text) - token.end() < _SHORT:  # the bracket may come with the next block
                    return None
            self._at = token.end()
        return None

    def _tokens(self, text: bytes) -> Iterator[re.Match[bytes]]:
        """Brackets and whole strings from where the last block ended, and of a long string that goes on not again."""
        if self._within and (rest := WITHIN.match(text, self._at)) is not None:
            self._at, self._within = rest.end(), rest[1] is None
        for token in () if self._within else TOKEN.finditer(text, self._at):
            if token[0][:1] == b'"' and token[1] is None:  # its end comes with another block
                if len(token[0]) > _SHORT:
                    self._at, self._within = token.end(), True
                return
            yield token
