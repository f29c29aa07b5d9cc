"""Traces in pieces, here and by other workers: the same, however they are cut."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from roofline.errors import BadValue, TraceError
from roofline.trace.readers import decode, open_trace, shelf
from texts import rows, small_pieces
from traces import kernel, launch, op, trace, write


def many() -> dict[str, object]:
    """Six hundred events, with what stands beside them before and after."""
    events = [
        each
        for n in range(200)
        for each in (
            op(f"aten::op{n % 7}", n * 10, 5, n + 1),
            launch(n * 10 + 1, n),
            kernel(f"k{n % 9}", n * 10 + 4, 3, n),
        )
    ]
    whole = trace(*events, distributedInfo={"rank": 3, "world_size": 8})
    return {key: whole[key] for key in sorted(whole, key=lambda key: key == "distributedInfo")}


@pytest.mark.parametrize("size", [200, 512, 5000, 1 << 20])
@pytest.mark.parametrize("packed", [False, True])
def test_an_executor_gives_the_same_trace(size, packed, tmp_path, monkeypatch):
    """In pieces of any size, sent or read from the file by other workers or here: the same columns."""
    text = json.dumps(many(), indent=1).encode()
    path = write(tmp_path, gzip.compress(text) if packed else text)
    whole = open_trace(path)
    small_pieces(monkeypatch, size)
    alone = open_trace(path)
    told = []
    with ThreadPoolExecutor(3) as pool:
        together = open_trace(path, executor=pool, workers=3, progress=lambda done, size: told.append((done, size)))

    assert rows(whole) == rows(alone) == rows(together)
    assert whole.counts == alone.counts == together.counts
    assert np.array_equal(alone.ops.start, together.ops.start)
    assert len(alone.gpu) == 200
    assert together.rank.rank == 3
    assert together.bytes == len(text)
    assert told[-1] == (path.stat().st_size,) * 2


def test_what_starts_at_once_has_one_order_wherever_the_text_is_cut(tmp_path, monkeypatch):
    """Kernels, then copies, then memsets; ids beyond 32 bits stay whole."""
    kinds = ("gpu_memset", "gpu_memcpy", "kernel")
    events = [{**kernel(f"k{n}", n // 9, 3, n + (1 << 40), stream=7), "cat": kinds[n % 3]} for n in range(90)]
    path = write(tmp_path, trace(*events))
    whole = open_trace(path)
    small_pieces(monkeypatch, 300)
    cut = open_trace(path)

    assert rows(whole) == rows(cut)
    assert whole.gpu.kind.tolist() == cut.gpu.kind.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2] * 10
    assert min(whole.gpu.correlation.tolist()) == 1 << 40


def test_the_limit_holds_for_ranges_of_a_file(tmp_path, monkeypatch):
    small_pieces(monkeypatch, 512)
    with ThreadPoolExecutor(1) as pool, pytest.raises(BadValue, match="--limit"):
        open_trace(write(tmp_path, json.dumps(many())), executor=pool, workers=1, most=1000)


@pytest.mark.parametrize(
    "fault", ["no memory that others see", "no process file system", "no memory left", "answers too long"]
)
def test_whatever_others_cannot_see_reaches_them_otherwise(fault, tmp_path, monkeypatch):
    """Text is sent, answers come back as they are, and what fails is done here: the same columns."""
    path = write(tmp_path, gzip.compress(json.dumps(many()).encode()))
    whole = open_trace(path)
    small_pieces(monkeypatch, 512)
    if fault == "no memory that others see":
        monkeypatch.delattr(shelf.os, "memfd_create")
    elif fault == "no process file system":
        monkeypatch.setattr(shelf.os, "getpid", lambda: 0)
    elif fault == "no memory left":
        monkeypatch.setattr(shelf.os, "pwrite", refused)
    else:
        monkeypatch.setattr(shelf, "_ROOM", 16)
    with ThreadPoolExecutor(2) as pool:
        found = open_trace(path, executor=pool, workers=2)

    assert rows(found) == rows(whole)
    assert found.counts == whole.counts


def refused(*_):
    raise OSError(28, "No space left on device")


def test_rooms_are_lent_again():
    """As much memory as is in use at once, and what is written in one is not in another."""
    held = shelf.Shelf()
    first, second = held.put([b"ab", b"c"], 3), held.put([b"xyz"], 3)
    assert (first.read(3), second.read(3)) == (b"abc", b"xyz")
    held.give(first)
    third = held.lend(1)
    assert third == first
    assert third.write(b"new")
    assert (third.read(3), second.read(3)) == (b"new", b"xyz")
    held.close()
    assert not third.write(b"late")
    assert held.lend(1) is None


class Away(ThreadPoolExecutor):
    """Workers that do not see this machine's files."""

    def submit(self, function, /, *args):  # pyright: ignore
        def fail(*args):
            raise FileNotFoundError

        return super().submit(fail if args[0][0][0] is decode.decode_range else function, *args)


@pytest.mark.parametrize("packed", [False, True])
def test_what_workers_cannot_read_is_read_here(packed, tmp_path, monkeypatch):
    text = json.dumps(many()).encode()
    path = write(tmp_path, gzip.compress(text) if packed else text)
    small_pieces(monkeypatch, 512)
    with Away(2) as pool:
        assert len(open_trace(path, executor=pool, workers=2).gpu) == 200


def test_a_file_that_changes_while_it_is_read_is_one_line(tmp_path, monkeypatch):
    path = write(tmp_path, json.dumps(many()))
    small_pieces(monkeypatch, 512)

    told = []

    def written(done, size):
        told.append(done)
        if len(told) == 5:
            path.write_text(json.dumps(many())[:5000])

    with ThreadPoolExecutor(2) as pool, pytest.raises(TraceError, match="the file has changed"):
        open_trace(path, executor=pool, workers=2, progress=written)


@pytest.mark.parametrize("size", [60, 150, 400, 3000])
def test_objects_within_arguments_are_no_events(size, tmp_path, monkeypatch):
    """A cut is where an event ends, not where an object within one does."""
    events = [kernel(f"k{n}", n * 10, 3, n) for n in range(40)]
    for each in events:
        each["args"]["more"] = [{"a": 1}, {"b": "}, {"}, {"c": [{}, {}]}]
    path = write(tmp_path, trace(*events))
    small_pieces(monkeypatch, size)
    found = open_trace(path)

    assert (len(found.gpu), found.counts.lost, found.warnings) == (40, 0, ())
