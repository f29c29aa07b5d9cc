"""Events of one piece of text to columns: typed decoding of the keys that are used, exact nanoseconds.

A piece is decoded on its own, in this process or another one; what it names it numbers by itself. Work on a whole
piece is done in loops of the interpreter's own (map, zip, join): there are millions of events.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import msgspec

from roofline.trace.readers import times
from roofline.trace.readers.words import DETAILS, DEVICE, FRAMES, MARK, ROLES, reason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

NONE = -1
_NOTHING = msgspec.Raw(b"")


class Args(msgspec.Struct, gc=False, eq=False):
    """What is used of the arguments of an event, under the names of both spellings.

    In the order in which they mostly stand: the decoder looks for a key from where it found the last one.
    """

    external: Any = msgspec.field(name="External id", default=NONE)
    concrete: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=_NOTHING)
    types: msgspec.Raw = msgspec.field(name="Input type", default=_NOTHING)
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=_NOTHING)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=_NOTHING)
    device: Any = None
    stream: Any = None
    correlation: Any = NONE
    bytes: Any = NONE
    grid: msgspec.Raw = _NOTHING
    block: msgspec.Raw = _NOTHING
    collective: msgspec.Raw = msgspec.field(name="Collective name", default=_NOTHING)
    sent: msgspec.Raw = msgspec.field(name="In msg nelems", default=_NOTHING)
    received: msgspec.Raw = msgspec.field(name="Out msg nelems", default=_NOTHING)
    group: msgspec.Raw = msgspec.field(name="Group size", default=_NOTHING)
    dtype: msgspec.Raw = _NOTHING
    sequence: Any = msgspec.field(name="Sequence number", default=NONE)
    module: msgspec.Raw = msgspec.field(name="Module Hierarchy", default=_NOTHING)
    external_old: Any = msgspec.field(name="external id", default=NONE)
    dims_old: msgspec.Raw = msgspec.field(name="Input dims", default=_NOTHING)


class Event(msgspec.Struct, gc=False, eq=False):
    """The keys of an event that are used."""

    cat: str | None = None
    name: str | None = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Args | None = None


class TextEvent(Event, gc=False, eq=False):
    """The same with its times as they are written."""

    ts: msgspec.Raw = _NOTHING
    dur: msgspec.Raw = _NOTHING


_EVENTS = msgspec.json.Decoder(list[Event | None])
_TEXT_EVENTS = msgspec.json.Decoder(list[TextEvent | None])
TEXT_EVENT = msgspec.json.Decoder(TextEvent | None)
_NO_ARGS = Args()
ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ValueError)


@dataclass(slots=True)
class Columns:
    """Rows of one role."""

    start: Ints
    duration: Ints
    name: Ints
    lane: Ints  # thread, or stream of the device
    number: Ints  # External id of an operator, correlation of the others
    detail: Ints
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


class _Numbers(dict[Any, int]):
    """Numbers for what is named, in the order in which it comes."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")


def decode(text: bytes, closed: bool) -> Batch:
    """The columns of a piece: a bracket, whole events with commas between them, and, where `closed`, a bracket.

    Where the array ends within it, `end` says where; what is not closed is the end of the file.
    """
    with _still():
        return _decode(text, closed)


@contextmanager
def _still() -> Generator[None]:
    """Without the collector of cycles: a piece is tens of thousands of objects, and none is in one."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _decode(text: bytes, closed: bool) -> Batch:
    batch = Batch()
    events: Sequence[Event | None]
    try:
        events = _EVENTS.decode(text)
    except ERRORS as error:
        text, events = _mended(text, error, batch, closed)
    else:
        if not closed:  # a list alone, or an object that lacks its end
            batch.end = len(text.rstrip()) - 1
    _Fill(batch, text, events).all()
    return batch


def _mended(text: bytes, error: Exception, batch: Batch, closed: bool) -> tuple[bytes, Sequence[Event | None]]:
    """The events of a piece that does not decode as it stands: the array ends within it, or it is faulty."""
    from roofline.trace.readers.salvage import array_end, salvage

    found = _TRAILING.search(str(error))
    end = text.rfind(b"]", 0, int(found[1]) - 1) if found else array_end(text, closed)
    if end is not None and end > 0:
        batch.end, text = end, text[: end + 1]
        try:
            return text, _EVENTS.decode(text)
        except ERRORS:
            pass
    inner = text[1:-1] if closed or batch.end is not None else text[1:]
    saved = salvage(inner, not closed and batch.end is None)
    batch.lost = saved.lost
    batch.notes.update(saved.notes)
    if batch.end is None and saved.end is not None:
        batch.end = saved.end + 1
    return text, saved.events


class _Fill:
    """Events of one piece into the columns of its batch."""

    def __init__(self, batch: Batch, text: bytes, events: Sequence[Event | None]) -> None:
        self.batch, self.text, self.events = batch, text, events
        self.names, self.details, self.lanes = _Numbers(), _Numbers(), _Numbers()
        self._texts: dict[int, Event] | None = None

    def all(self) -> None:
        """Sort the events by their category and take the rows of each."""
        batch = self.batch
        batch.read = len(self.events)
        for category, rows in self._by_category().items():
            role = ROLES.get((category or "").lower())
            if role is None:
                batch.left_out[reason(category)] += len(rows)
                continue
            fitting = rows
            if role == "python":
                fitting = [each for each in rows if each.name is not None and each.name.startswith("nn.Module: ")]
                batch.left_out[FRAMES] += len(rows) - len(fitting)
                role = "mark"
            if fitting:
                self._add(role, fitting)
        batch.names, batch.details = list(self.names), list(self.details)
        batch.lanes = list(self.lanes)

    def _by_category(self) -> dict[str | None, list[Event]]:
        buckets: dict[str | None, list[Event]] = {}
        try:
            for each in cast("Sequence[Event]", self.events):
                try:
                    buckets[each.cat].append(each)
                except KeyError:
                    buckets[each.cat] = [each]
            return buckets
        except AttributeError:  # null
            some = [each for each in self.events if each is not None]
            self.batch.left_out["empty events"] += len(self.events) - len(some)
            self.batch.notes["null stands in place of an event"] += len(self.events) - len(some)
            for each in some:
                buckets.setdefault(each.cat, [])
            for category in buckets:
                buckets[category] = [each for each in some if each.cat == category]
            return buckets

    def _times(self, rows: list[Event]) -> tuple[Ints, Ints]:
        if not isinstance(rows[0], TextEvent):
            try:
                return times.nanoseconds([each.ts for each in rows]), times.nanoseconds([each.dur for each in rows])
            except times.Inexact:
                rows = [self._text(each) for each in rows]
        starts = times.exact([bytes(each.ts) for each in rows])
        durations = times.exact([bytes(each.dur) for each in rows])
        if bytes(rows[0].ts)[:1] == b'"':
            self.batch.notes["times are written as text, not as numbers"] += len(rows)
        return starts, durations

    def _text(self, event: Event) -> Event:
        """The same event with its times as text."""
        if self._texts is None:
            again = _TEXT_EVENTS.decode(self.text)
            pairs = zip(self.events, again, strict=True)
            self._texts = {id(each): text for each, text in pairs if text is not None}
        return self._texts[id(event)]

    def _add(self, role: str, rows: list[Event]) -> None:
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
        args = [each.args or _NO_ARGS for each in rows]
        name = _indexed(self.names, [each.name for each in rows])
        columns = Columns(start, duration, name, name, name, self._detail(role, args))
        columns.number = _whole([each.correlation for each in args]) if role in ("call", *DEVICE) else _external(args)
        if role in DEVICE:
            columns.external = _external(args)
            columns.device = _else([each.device for each in args], rows, "pid")
            columns.lane = _else([each.stream for each in args], rows, "tid")
            columns.moved = _whole([each.bytes for each in args])
        else:
            columns.lane = self._lanes(rows)
            if role == "op":
                columns.sequence = _whole([each.sequence for each in args])
        self.batch.roles.setdefault(role, []).append(columns)

    def _detail(self, role: str, args: list[Args]) -> Ints:
        """What the arguments say beyond numbers, each distinct text once."""
        import numpy as np

        join = MARK.join
        if role == "op":
            texts = [join((each.dims, each.types, each.strides, each.concrete)) for each in args]
            rare = [at for at, each in enumerate(args) if each.collective or each.dims_old or each.module]
        elif role == "kernel":
            texts = [join((each.grid, each.block)) for each in args]
            rare = [at for at, each in enumerate(args) if each.collective]
        else:
            return np.full(len(args), NONE, np.int64)
        for at in rare:
            texts[at] = join([getattr(args[at], part) for part in DETAILS[role]])
        found = _indexed(self.details, texts)
        empty = self.details.get(MARK * (3 if role == "op" else 1))
        return found if empty is None else np.where(found == empty, NONE, found)

    def _lanes(self, rows: list[Event]) -> Ints:
        """The number of each row's process and thread; rows of one thread mostly follow each other."""
        import numpy as np

        processes, threads = [each.pid for each in rows], [each.tid for each in rows]
        try:
            process, thread = np.fromiter(processes, np.int64, len(rows)), np.fromiter(threads, np.int64, len(rows))
        except (TypeError, ValueError, OverflowError):  # text, or nothing
            return _indexed(self.lanes, zip(map(_lane, processes), map(_lane, threads), strict=True))
        fresh = np.r_[True, (process[1:] != process[:-1]) | (thread[1:] != thread[:-1])]
        runs = zip(process[fresh].tolist(), thread[fresh].tolist(), strict=True)
        return _indexed(self.lanes, runs)[np.cumsum(fresh) - 1]

    def _count_faults(self, role: str, rows: Sequence[Event], start: Ints, duration: Ints) -> None:
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


def _indexed(numbers: _Numbers, keys: Iterable[Any]) -> Ints:
    """The number of each key."""
    import numpy as np

    return np.array(list(map(numbers.__getitem__, keys)), np.int64)


def _lane(value: Any) -> Any:
    """A process or thread: a number where it is one, as text or not."""
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < 19 else value[:60]
    return value if isinstance(value, int | None) else str(value)[:60]


def _external(args: Sequence[Args]) -> Ints:
    """External ids in either spelling."""
    import numpy as np

    found = _whole([each.external for each in args])
    missing = found == NONE
    if missing.any():
        return np.where(missing, _whole([each.external_old for each in args]), found)
    return found


def _else(values: list[Any], rows: Sequence[Event], key: str) -> Ints:
    """A number of the arguments, else of the event itself."""
    if None in values:
        instead = attrgetter(key)
        values = [instead(row) if value is None else value for value, row in zip(values, rows, strict=True)]
    return _whole(values)


def _whole(values: list[Any]) -> Ints:
    """Whole numbers; NONE for what is none."""
    import numpy as np

    try:
        found = np.array(values)
        if found.dtype == np.int64 and found.ndim == 1:
            return found
    except (ValueError, OverflowError):
        pass
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
