"""Traces of the PyTorch profiler (Kineto's Chrome JSON), 2020 to today, NVIDIA and AMD, read in one pass.

The file is read in blocks, cut into pieces of whole events, and each piece becomes columns: memory does not grow
with the text. With an executor, pieces are decoded in other processes while this one cuts and decodes too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any, cast

from roofline.errors import TraceError
from roofline.trace.events import Card, Counts, Rank, Trace
from roofline.trace.readers.decode import decode
from roofline.trace.readers.merge import Merged
from roofline.trace.readers.pieces import NoEvents, Pieces
from roofline.trace.readers.source import Source
from roofline.trace.readers.spread import RANGE, Piece, Range, ranges, spread
from roofline.trace.readers.twice import LOOKED_AT
from roofline.trace.readers.words import detail_text
from roofline.units import MIB

_PIECE = 2 * MIB
_RANGES = 8 * MIB  # [byte] of a file from which on it is read by ranges
_MOST_TAIL = 64 * MIB


def read(source: Source, executor: Executor | None = None, workers: int = 1) -> Trace:
    """The trace in an open file; raises TraceError where it holds none."""
    merged = Merged()
    pieces = Pieces(source.blocks, source.name, _PIECE if executor is None else RANGE)
    tail = b""
    try:
        if source.place is not None and source.place.size >= _RANGES:
            tail = _from_file(source, pieces, merged, executor, workers)
        else:
            tail = _from_stream(pieces, merged, executor, workers)
    except NoEvents as error:
        raise TraceError(_not_a_trace(source.name, error.text)) from None
    except OSError as error:
        raise TraceError(f"{source.name} cannot be read: {error.strerror or error}.") from None
    if pieces.bare:
        merged.notes["the file is a bare list of events: it does not say on what device or rank they ran"] += 1
    beside: dict[str, Any] = {} if pieces.bare else _beside(pieces.head, tail, merged)
    return _trace(source, merged, beside, pieces.bare)


def _from_stream(pieces: Pieces, merged: Merged, executor: Executor | None, workers: int) -> bytes:
    """Read all events; the text after them."""
    tail = b""
    for piece, batch in spread((Piece(*each) for each in pieces), executor, workers):
        if not merged.read:
            merged.look(piece.first(LOOKED_AT if batch.end is None else min(batch.end, LOOKED_AT)))
        if merged.ended:
            tail = (tail + b"," + piece.after(None))[:_MOST_TAIL]
            continue
        merged.add(batch)
        if batch.end is not None:
            tail = piece.after(batch.end)
    for block in pieces.rest():
        tail += block[: max(0, _MOST_TAIL - len(tail))]
    return tail


def _from_file(source: Source, pieces: Pieces, merged: Merged, executor: Executor | None, workers: int) -> bytes:
    """Read all events by ranges of the file; the text after them."""
    place = source.place
    assert place is not None  # the caller knows
    rest = pieces.skip_head()
    begin = source.read - len(rest)
    source.take_all()
    for piece, batch in spread(ranges(place, begin, source.name), executor, workers):
        if not merged.read:
            merged.look(piece.first(LOOKED_AT))
        merged.add(batch)
        if isinstance(piece, Range):
            source.tell(piece.end)
        if batch.end is not None:
            source.tell(place.size)
            return Range(place, batch.end, min(place.size, batch.end + _MOST_TAIL), False).after(batch.end)
    return b""


def _not_a_trace(name: str, text: bytes) -> str:
    """What a file is that has no events, and what to do."""
    keys = set(re.findall(rb'"([\w$]{1,40})"\s*:', text[: MIB // 4]))
    if not text.strip():
        return f"{name} is empty. Was the profiler stopped before it wrote the file?"
    if b"nodes" in keys and (b"schema" in keys or b"ctrl_deps" in keys):
        return f"{name} is an execution trace (Chakra), which has no times of kernels. Export the profiler's trace."
    if b"$schema" in keys and b"speedscope" in text[: MIB // 4]:
        return f"{name} is a speedscope profile of Python code. Export the PyTorch profiler's Chrome trace."
    return f"{name} is JSON without traceEvents, no trace. Export one with profiler.export_chrome_trace(FILE)."


_COMMA = re.compile(r",\s*([}\]])")


def _beside(head: bytes, tail: bytes, merged: Merged) -> dict[str, Any]:
    """The keys that stand beside the events."""
    if not merged.ended:
        merged.notes["cut"] += 1
        tail = b"]}"
    text = head.lstrip() + tail if merged.ended else head.lstrip() + b"]}"
    found = _parsed(text.decode("utf-8", "replace"), merged)
    if found is None:
        found = _parsed(head.decode("utf-8", "replace").lstrip() + "]}", merged) or {}
        if merged.ended:
            merged.notes["the keys after the events are no sound JSON: they were not used"] += 1
    again = found.pop("traceEvents", None)
    if again:  # the key stands twice: the last counts, as for any JSON reader
        merged.clear()
        merged.add(decode(bytearray(json.dumps(again), "utf-8"), True))
        merged.ended = True
    return found


def _parsed(text: str, merged: Merged) -> dict[str, Any] | None:
    repeated: set[str] = set()

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                (repeated if key in seen else seen).add(key)
        return found

    try:
        value = json.loads(text, object_pairs_hook=unique, strict=False)
    except (ValueError, RecursionError):
        try:
            value = json.loads(_COMMA.sub(r"\1", text), object_pairs_hook=unique, strict=False)
        except (ValueError, RecursionError):
            return None
        merged.notes["a comma with nothing after it"] += 1
    for key in sorted(repeated)[:3]:
        merged.notes[f"the key {key[:40]!r} stands twice: the last was taken"] += 1
    return cast(dict[str, Any], value) if isinstance(value, dict) else None


def _trace(source: Source, merged: Merged, beside: dict[str, Any], bare: bool) -> Trace:
    if merged.wrapped:
        raise TraceError(
            f"{source.name} has a device activity of more than a century, a negative duration written without its "
            "sign: its times cannot be trusted. Record it again."
        )
    if not merged.read:
        raise TraceError(f"{source.name} has no events. Was the profiler stopped before anything ran?")
    if not merged.used and merged.ended and not _OWN & set(beside):
        what = "a JSON list" if bare else "a Chrome trace of another tool (JAX, Perfetto, VizTracer or the like)"
        raise TraceError(
            f"{source.name} is {what}: none of its {merged.read:,} events is of a category of the PyTorch profiler. "
            "Record with that one (roofline record pytorch), or any program with Nsight Systems (roofline record nsys)."
        )
    warnings = [*source.warnings, *_warnings(merged)]
    base = beside.get("baseTimeNanoseconds")
    return Trace(
        source=source.name,
        format="PyTorch profiler",
        gpu=merged.activities(),
        ops=merged.ranges("op"),
        calls=merged.ranges("call"),
        marks=merged.ranges("mark"),
        gpu_marks=merged.ranges("gpu_mark"),
        names=tuple(each or "" for each in merged.names),
        details=tuple(detail_text(each) for each in merged.details),
        threads=tuple(merged.lanes),
        cards=_cards(beside),
        rank=_rank(beside),
        counts=Counts(merged.read, dict(merged.used), dict(merged.left_out), merged.lost),
        bytes=source.read,
        base=base if isinstance(base, int) else 0,
        versions=_versions(beside),
        warnings=tuple(warnings),
    )


# Keys beside the events by which a file is the PyTorch profiler's, whatever is in it.
_OWN = frozenset({"schemaVersion", "deviceProperties", "computeProperties", "baseTimeNanoseconds", "distributedInfo"})


def _warnings(merged: Merged) -> Iterator[str]:
    notes = dict(merged.notes)
    if notes.pop("cut", 0):
        yield "the file is cut: it ends before its events do. All whole events before the cut were read"
    for what, count in notes.items():
        yield f"{what} ({count:,} times)" if count > 1 else what
    if merged.lost:
        yield f"{merged.lost:,} of {merged.read + merged.lost:,} events could not be read and are lost"


def _cards(beside: dict[str, Any]) -> tuple[Card, ...]:
    listed = beside.get("deviceProperties") or beside.get("computeProperties")
    cards: list[Card] = []
    for index, each in enumerate(_dicts(listed)):
        major, minor = _number(each.get("computeMajor")), _number(each.get("computeMinor"))
        name = each.get("name")
        number = _number(each.get("id"))
        cards.append(
            Card(
                number=index if number is None else number,
                name=name[:200] if isinstance(name, str) else "",
                memory=_number(each.get("totalGlobalMem")),
                multiprocessors=_number(each.get("numSms")) or _number(each.get("maxComputeUnits")),
                capability="" if major is None else f"{major}.{minor or 0}",
            )
        )
    return tuple(cards)


def _dicts(value: Any) -> list[dict[str, Any]]:
    every = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", each) for each in every if isinstance(each, dict)]


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def _rank(beside: dict[str, Any]) -> Rank:
    info: Any = beside.get("distributedInfo")
    if not isinstance(info, dict):
        return Rank()
    known = cast("dict[str, Any]", info)
    backend = known.get("backend")
    return Rank(
        _number(known.get("rank")), _number(known.get("world_size")), backend[:40] if isinstance(backend, str) else ""
    )


def _versions(beside: dict[str, Any]) -> dict[str, str]:
    """Versions of the drivers and runtimes, by their key: nothing else of what stands beside is shown."""
    found: dict[str, str] = {}
    for key, value in beside.items():
        if re.fullmatch(r"(cuda|hip|roctracer|cupti|xpu|nccl)\w*_version", key) and isinstance(value, int | str):
            found[key] = str(value)[:40]
    return found
