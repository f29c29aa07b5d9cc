"""Events of one piece of text as columns: exact nanoseconds, and numbers for what is named.

What a piece names it numbers by itself. Work on a piece is done in loops of the interpreter's own (map, join,
comprehensions) and on whole columns: there are millions of events.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from roofline.trace.readers import times
from roofline.trace.readers.records import CATEGORY, NONE, NOTHING, TIMES, Args, Raw, Row
from roofline.trace.readers.words import DETAILS, DEVICE, FRAMES, MARK, MODULE, ROLES, reason
from roofline.units import NS_PER_US

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

_NO_ARGS = Args()


@dataclass(slots=True)
class Columns:
    """Rows of one role."""

    start: Ints
    duration: Ints
    name: Ints
    lane: Ints  # thread, or stream of the device
    number: Ints  # External id of an operator, correlation of the others
    detail: Ints | None = None  # None: no row has one
    external: Ints | None = None
    device: Ints | None = None
    moved: Ints | None = None
    sequence: Ints | None = None  # of an operator that autograd knows


@dataclass(slots=True)
class Batch:
    """What one piece holds."""

    read: int = 0
    roles: dict[str, list[Columns]] = field(default_factory=dict[str, list[Columns]])
    names: list[str | None] = field(default_factory=list["str | None"])
    details: list[bytes] = field(default_factory=list[bytes])
    lanes: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])
    left_out: Counter[str] = field(default_factory=Counter[str])
    notes: Counter[str] = field(default_factory=Counter[str])
    lost: int = 0
    wrapped: str = ""
    end: int | None = None  # where the array ended within the piece


def joined(parts: list[Columns]) -> Columns:
    """Rows of one role, one after another."""
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    found: dict[str, Any] = {}
    for each in fields(Columns):
        columns = [getattr(part, each.name) for part in parts]
        if each.name == "detail" and any(column is not None for column in columns):
            columns = [_nothing(len(part.start)) if part.detail is None else part.detail for part in parts]
        found[each.name] = None if columns[0] is None else np.concatenate(columns)
    return Columns(**found)


def narrow(column: Ints) -> Ints:
    """A column in 32 bits where these hold it."""
    import numpy as np

    if column.dtype != np.int64 or not len(column):
        return column
    bounds = np.iinfo(np.int32)
    fits = bounds.min <= int(column.min()) and int(column.max()) <= bounds.max
    return column.astype(np.int32) if fits else column


def narrowed(columns: Columns) -> Columns:
    """The same with narrow columns: about half as much for a worker to send."""
    for each in fields(Columns):
        column = getattr(columns, each.name)
        setattr(columns, each.name, None if column is None else narrow(column))
    return columns


class _Numbers(dict[Any, int]):
    """Numbers for what is named, in the order in which it comes."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


class Fill:
    """Events of one piece into the columns of its batch."""

    def __init__(self, batch: Batch, as_text: bool = False) -> None:
        self.batch = batch
        self.names, self.details, self.lanes = _Numbers(), _Numbers(), _Numbers()
        self.as_text = as_text  # whether times are read as they are written: numbers have not held them exactly
        self._text: bytes | memoryview = b""
        self._events: Sequence[Row] = ()
        self._texts: dict[int, Row] | None = None

    def add(self, text: bytes | memoryview, events: Sequence[Row]) -> None:
        """Sort the events of a part by their category and take the rows of each."""
        batch = self.batch
        batch.read += len(events)
        self._text, self._events, self._texts = text, events, None
        for category, rows in self._by_category():
            role = ROLES.get((category or "").lower())
            if role is None:
                batch.left_out[reason(category)] += len(rows)
                continue
            if role == "python":
                modules = [each for each in rows if each.name is not None and each.name[: len(MODULE)] == MODULE]
                batch.left_out[FRAMES] += len(rows) - len(modules)
                if modules:
                    self._add("mark", modules)
            else:
                self._add(role, rows)

    def close(self) -> None:
        """The batch is complete: nothing else of the text is kept."""
        self._text, self._events, self._texts = b"", (), None
        batch = self.batch
        batch.names, batch.details, batch.lanes = list(self.names), list(self.details), list(self.lanes)
        batch.roles = {role: [joined(parts)] for role, parts in batch.roles.items()}

    def _by_category(self) -> Iterable[tuple[str | None, list[Row]]]:
        kinds: defaultdict[type, list[Row]] = defaultdict(list)
        for each in self._events:
            kinds[type(each)].append(each)
        for kind, rows in kinds.items():
            if kind in CATEGORY:
                yield CATEGORY[kind], rows
            elif kind is type(None):
                self.batch.left_out["empty events"] += len(rows)
                self.batch.notes["null stands in place of an event"] += len(rows)
            else:
                categories: defaultdict[str | None, list[Row]] = defaultdict(list)
                for each in rows:
                    categories[each.cat].append(each)
                yield from categories.items()

    def _times(self, rows: list[Row]) -> tuple[Ints, Ints]:
        if not isinstance(rows[0].ts, Raw):
            try:
                return times.nanoseconds([each.ts for each in rows]), times.nanoseconds([each.dur for each in rows])
            except times.Inexact:
                rows = [self._as_text(each) for each in rows]
                self.as_text = True
        starts, durations = times.exact([each.ts for each in rows]), times.exact([each.dur for each in rows])
        self.as_text = int(starts.max()) >= times.EXACT * NS_PER_US
        if bytes(rows[0].ts)[:1] == b'"':
            self.batch.notes["times are written as text, not as numbers"] += len(rows)
        return starts, durations

    def _as_text(self, event: Row) -> Row:
        """The times of an event as text."""
        if self._texts is None:
            pairs = zip(self._events, TIMES.decode(self._text), strict=True)
            self._texts = {id(each): text for each, text in pairs if text is not None}
        return self._texts[id(event)]

    def _add(self, role: str, rows: list[Row]) -> None:
        """Add rows of one role, without those whose times cannot be."""
        start, duration = self._times(rows)
        sound = (start > times.WRAPPED) & (duration >= 0)
        if role in DEVICE:
            sound &= (start != 0) | (duration != 0)
        if not sound.all():
            self._count_faults(role, rows, start, duration)
            rows = [each for each, good in zip(rows, sound.tolist(), strict=True) if good]
            start, duration = start[sound], duration[sound]
            if not rows:
                return
        name = _indexed(self.names, [each.name for each in rows])
        if not hasattr(rows[0], "args"):  # a module: its name is all
            columns = Columns(start, duration, name, self._lanes(rows), _nothing(len(rows)))
        else:
            columns = self._with_args(role, rows, (start, duration, name))
        self.batch.roles.setdefault(role, []).append(columns)

    def _with_args(self, role: str, rows: list[Row], known: tuple[Ints, Ints, Ints]) -> Columns:
        args = [each.args or _NO_ARGS for each in rows]
        if role in DEVICE:
            return Columns(
                *known,
                lane=_else([each.stream for each in args], rows, "tid"),
                number=_whole([each.correlation for each in args]),
                detail=self._detail(role, args) if role == "kernel" else None,
                external=_external(args),
                device=_else([each.device for each in args], rows, "pid"),
                moved=_whole([each.bytes for each in args]),
            )
        number = _whole([each.correlation for each in args]) if role == "call" else _external(args)
        if role != "op":
            return Columns(*known, self._lanes(rows), number)
        sequence = _whole([each.sequence for each in args])
        return Columns(*known, self._lanes(rows), number, self._detail(role, args), sequence=sequence)

    def _detail(self, role: str, args: list[Any]) -> Ints | None:
        """What the arguments say beyond numbers, each distinct text once."""
        import numpy as np

        told, texts = _op_texts(args) if role == "op" else _kernel_texts(args)
        if not told:
            return None
        numbers = _indexed(self.details, texts)
        empty = self.details.get(MARK * (3 if role == "op" else 1))
        if empty is not None:
            numbers = np.where(numbers == empty, NONE, numbers)
        if len(told) == len(args):
            return numbers
        found = _nothing(len(args))
        found[told] = numbers
        return found

    def _lanes(self, rows: list[Row]) -> Ints:
        """The number of each row's process and thread; rows of one thread mostly follow each other."""
        import numpy as np

        processes, threads = [each.pid for each in rows], [each.tid for each in rows]
        try:
            process, thread = np.fromiter(processes, np.int64, len(rows)), np.fromiter(threads, np.int64, len(rows))
        except (TypeError, ValueError, OverflowError):  # text, or nothing
            return _indexed(self.lanes, zip(map(_lane, processes), map(_lane, threads), strict=True))
        fresh = np.ones(len(rows), bool)
        np.not_equal(process[1:], process[:-1], fresh[1:])
        fresh[1:] |= thread[1:] != thread[:-1]
        runs = zip(process[fresh].tolist(), thread[fresh].tolist(), strict=True)
        return _indexed(self.lanes, runs)[np.cumsum(fresh) - 1]

    def _count_faults(self, role: str, rows: Sequence[Row], start: Ints, duration: Ints) -> None:
        """Why rows are left out, in the words of the answer."""
        what = "device activities" if role in DEVICE else "host events"
        wrapped = (start == times.WRAPPED) | (duration == times.WRAPPED)
        if role in DEVICE and wrapped.any() and not self.batch.wrapped:
            self.batch.wrapped = (rows[int(wrapped.argmax())].name or "?")[:200]
        absent = ~wrapped & ((start == times.BAD) | (duration == times.BAD))
        negative = ~wrapped & ~absent & (duration < 0)
        zero = ~wrapped & ~absent & ~negative & (start == 0) & (duration == 0) & (role in DEVICE)
        faults = {
            f"{what} with an impossible time": wrapped,
            f"{what} without a time that is a number": absent,
            f"{what} with a negative duration": negative,
            f"{what} at time 0 that take 0": zero,
        }
        for fault, those in faults.items():
            if count := int(those.sum()):
                self.batch.left_out[fault] += count
                self.batch.notes[fault] += count


def _nothing(count: int) -> Ints:
    import numpy as np

    return np.full(count, NONE, np.int32)


def _op_texts(args: list[Any]) -> tuple[list[int], list[bytes]]:
    """Which operators tell of their operands, and the text of each."""
    if type(args[0]) is Args:
        return _old_texts([each if type(each) is Args else _NO_ARGS for each in args])
    none, join = NOTHING, MARK.join
    told = [
        at
        for at, each in enumerate(args)
        if each.dims is not none
        or each.types is not none
        or each.concrete is not none
        or each.collective is not none
        or each.module is not none
        or each.strides is not none
    ]
    those = args if len(told) == len(args) else [args[at] for at in told]
    texts = [
        join((each.dims, each.types, each.strides, each.concrete))
        if each.collective is none and each.module is none
        else join((each.dims, each.types, each.strides, each.concrete, none, *_rare(each)))
        for each in those
    ]
    return told, texts


_rare = attrgetter("module", *DETAILS["kernel"][2:])  # of operators
_of_collective = attrgetter(*DETAILS["kernel"][2:])


def _old_texts(args: list[Any]) -> tuple[list[int], list[bytes]]:
    """The same in every year's spelling."""
    none, join = NOTHING, MARK.join
    rest = MARK * (len(DETAILS["op"]) - 5)  # no other part
    texts = [join((each.dims, each.types, each.strides, each.concrete, each.dims_old)) + rest for each in args]
    for at, each in enumerate(args):
        if each.dims_old is none or each.collective is not none or each.module is not none:
            texts[at] = _whole_text("op", each)
    return list(range(len(args))), texts


def _kernel_texts(args: list[Any]) -> tuple[list[int], list[bytes]]:
    """The launch geometry of every kernel, and the collective that it is of."""
    join = MARK.join
    texts = [
        join((each.grid, each.block))
        if each.collective is NOTHING
        else join((each.grid, each.block, *_of_collective(each)))
        for each in args
    ]
    return list(range(len(args))), texts


def _whole_text(role: str, args: Any) -> bytes:
    parts = [getattr(args, part, NOTHING) for part in DETAILS[role]]
    short = 4 if role == "op" else 2
    return MARK.join(parts if any(parts[short:]) else parts[:short])


def _indexed(numbers: _Numbers, keys: Iterable[Any]) -> Ints:
    """The number of each key."""
    import numpy as np

    return np.array([numbers[key] for key in keys], np.int32)


def _lane(value: Any) -> Any:
    """A process or thread: a number where it is one, as text or not."""
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < 19 else value[:60]
    return value if isinstance(value, int | None) else str(value)[:60]


def _external(args: Sequence[Any]) -> Ints:
    """External ids in either spelling."""
    import numpy as np

    found = _whole([each.external for each in args])
    if isinstance(args[0], Args):
        missing = found == NONE
        if missing.any():
            return np.where(missing, _whole([getattr(each, "external_old", NONE) for each in args]), found)
    return found


def _else(values: list[Any], rows: Sequence[Row], key: str) -> Ints:
    """A number of the arguments, else of the event itself."""
    import numpy as np

    try:
        return np.array(values, np.int64).reshape(len(rows))
    except (TypeError, ValueError, OverflowError):
        instead = attrgetter(key)
        return _whole([instead(row) if value is None else value for value, row in zip(values, rows, strict=True)])


def _whole(values: list[Any]) -> Ints:
    """Whole numbers; NONE for what is none."""
    import numpy as np

    try:
        return np.array(values, np.int64).reshape(len(values))
    except (TypeError, ValueError, OverflowError):  # text, nothing, lists
        return np.fromiter(map(_int, values), np.int64, len(values))


_LAST_NUMBER = re.compile(r"(-?\d{1,18})\s*\Z")


def _int(value: Any) -> int:
    """What a number may be written as: 7, "7", 7.0, "stream 7"."""
    if isinstance(value, str):
        found = _LAST_NUMBER.search(value[-40:])
        value = int(found[1]) if found else NONE
    if isinstance(value, float):
        value = int(value) if abs(value) < times.EXACT else NONE  # False for one that is not a number
    return value if isinstance(value, int) and abs(value) < times.MOST else NONE
