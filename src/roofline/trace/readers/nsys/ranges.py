"""NVTX ranges: operators of PyTorch's emit_nvtx, and marks of the user; their names and shapes once each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, cast

from roofline.trace.coding import tally
from roofline.trace.events import NONE, listed
from roofline.trace.readers.nsys import reading as names
from roofline.trace.readers.nsys.reading import NVTX, Columns, Reading, Store, strings
from roofline.trace.readers.sqlite import text_of
from roofline.units import MIB

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_RANGES = (59, 60, 70, 71)  # push and pop, start and end; of NVTX and of its text form
_OPERATOR = re.compile(r"[\w:.<>~ ]{1,400}\Z")
# What emit_nvtx adds to a name, "aten::mm, seq = 12, op_id = 3, sizes = [[2, 3], [3, 4]], input_op_ids = [(1, 0)]": the
# numbers of the call differ each time, and are left out.
_NUMBERS = re.compile(rb", seq = \d+(?:, op_id = \d+)?|, op_id = \d+")
_INPUTS = re.compile(rb", input_op_ids = [^\0]*")
_OF_CALL, _SIZES = b", op_id", b", sizes = "
_LONGEST_SIZES = 8000
_MOST_TEXTS, _MOST_BYTES = 1 << 16, 64 * MIB  # whole texts that are kept, and [byte] of those without numbers
_NO_TEXT = b"(no text)"

Kind = tuple[bool, int, int]  # whether an operator, numbers of its name and shapes


class Nvtx:
    """NVTX ranges as they are read."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.ops = Store("start", "duration", "name", "thread", "detail")
        self.marks = Store("start", "duration", "name", "thread")
        self.details: dict[bytes, int] = {}
        self.kinds: list[Kind] = []
        self.texts: dict[bytes, int] = {}  # the place in `kinds` of a whole text
        self.heads: dict[bytes, int] = {}  # and of a text without the numbers of its call
        self.kept = 0  # [byte] of these
        self.strings: dict[int, str] = {}

    def take(self) -> tuple[Columns, Columns]:
        """Operators and marks; other events of NVTX are counted."""
        import numpy as np

        reading, there = self.reading, self.reading.tables
        if there.has(NVTX, "start", "end", "eventType", "globalTid"):
            if there.has(NVTX, "textId"):
                self.strings = strings(there, self._ids())
            wanted = ("start", "end", "globalTid", "eventType", "textId")
            for chunk in there.chunks(NVTX, wanted, "text"):
                start, end, thread, kind, ident = chunk.numbers
                ranges = np.isin(kind, _RANGES)
                others = len(kind) - int(ranges.sum())
                reading.read += others
                reading.drop(others, "NVTX events that are no ranges")
                rows = np.flatnonzero(ranges)
                rows = rows[reading.sound(start[rows], end[rows])]
                code = self._codes(chunk.texts(rows), ident[rows])
                self._add(start[rows], end[rows], thread[rows], code)
        return self.ops.columns(longest_first=True), self.marks.columns(longest_first=True)

    def _add(self, start: Ints, end: Ints, thread: Ints, code: Ints) -> None:
        import numpy as np

        operator, name, detail = np.array([*self.kinds, (False, 0, NONE)], np.int32).T
        threads = self.reading.threads.of(thread)
        is_op = operator.astype(bool)[code]
        for store, mine in ((self.ops, is_op), (self.marks, ~is_op)):
            code_, start_ = code[mine], start[mine]
            more = {"detail": detail[code_]} if store is self.ops else {}
            store.add(start=start_, duration=end[mine] - start_, name=name[code_], thread=threads[mine], **more)

    def _ids(self) -> set[int]:
        """Ids of strings that NVTX events name."""
        found: set[int] = set()
        for (ids,) in self.reading.tables.numbers(NVTX, ("textId",)):
            found.update(tally(ids[ids >= 0]))
        return found

    def _codes(self, texts: list[bytes | None], ids: Ints) -> Ints:
        """The place in `kinds` of each text, or of the string of its id where it has none."""
        import numpy as np

        codes = _looked_up(self.texts, texts)
        strange = np.flatnonzero(codes == NONE)
        if not len(strange):
            return codes
        asked = self._named([texts[at] for at in strange.tolist()], ids[strange])
        heads = _without_numbers(asked)
        found = _looked_up(self.heads, heads)
        for at in np.flatnonzero(found == NONE).tolist():
            found[at] = self._code(heads[at])
        codes[strange] = found
        room = _MOST_TEXTS - len(self.texts)
        if room > 0:
            kept = zip(asked[:room], found[:room].tolist(), strict=True)
            self.texts.update((text, code) for text, code in kept if len(text) < _LONGEST_SIZES)
        return codes

    def _named(self, texts: list[bytes | None], ids: Ints) -> list[bytes]:
        """Texts, and those of the strings of their ids where ranges have none."""
        for at, ident in enumerate(listed(ids)) if None in texts else ():
            if texts[at] is None:
                texts[at] = self.strings.get(ident, "").encode()
        return [each or _NO_TEXT for each in texts]

    def _code(self, head: bytes) -> int:
        """The place in `kinds` of a text without the numbers of its call."""
        code = self.heads.get(head)
        if code is not None:
            return code
        self.kept += len(head)
        if len(self.heads) >= names.MOST_NAMES or self.kept > _MOST_BYTES:
            head = names.TOO_MANY.encode()
        if head not in self.heads:
            self.heads[head] = len(self.kinds)
            self.kinds.append(self._kind(head))
        return self.heads[head]

    def _kind(self, head: bytes) -> Kind:
        """Whether a text is an operator's, the number of its name, and of its shapes."""
        name, mark, rest = head.partition(_OF_CALL)
        plain = text_of(name)
        number = self.reading.words.number(plain)
        if not mark or _OPERATOR.match(plain) is None:
            return False, number, NONE
        return True, number, self._detail(rest.partition(_SIZES)[2].strip())

    def _detail(self, sizes: bytes) -> int:
        if not sizes or len(sizes) > _LONGEST_SIZES or len(self.details) >= names.MOST_NAMES:
            return NONE
        try:
            shapes = json.loads(sizes)
        except (ValueError, RecursionError):
            return NONE
        return self.details.setdefault(json.dumps({"dims": shapes}).encode(), len(self.details))


def _looked_up(known: dict[bytes, int], texts: Sequence[bytes | None]) -> Ints:
    """The numbers of texts, NONE for what is not known, as what is no text."""
    import numpy as np

    look_up = cast("Callable[[bytes | None, int], int]", known.get)
    return np.fromiter(map(look_up, texts, repeat(NONE)), np.int32, len(texts))


def _without_numbers(texts: list[bytes]) -> list[bytes]:
    """Texts without the numbers of their calls, done for all of them at once."""
    joined = _NUMBERS.sub(_OF_CALL, b"\0".join(texts))
    if _SIZES in joined:
        joined = _INPUTS.sub(b"", joined)
    found = joined.split(b"\0") if texts else []
    if len(found) == len(texts):
        return found
    return [_INPUTS.sub(b"", _NUMBERS.sub(_OF_CALL, each)) for each in texts]  # a text with a zero in it
