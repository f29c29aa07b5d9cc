"""Traces of the PyTorch profiler in every form that they come in, and where they come from."""

from __future__ import annotations

import gzip
import json
import os
import threading

import pytest

from limits import no_hang
from roofline import files
from roofline.errors import BadValue, RooflineError, TraceError, UnknownName
from roofline.trace.events import NONE
from roofline.trace.readers import chrome, open_trace, source
from texts import PACKED, SMALL, TEXT, rows, small_pieces, zipped
from traces import event, kernel, op, small, trace, write


def test_small_trace_in_full(tmp_path):
    """Each table holds what the file says, and every event is accounted for."""
    found = open_trace(write(tmp_path, small(distributedInfo={"rank": 3, "world_size": 8, "backend": "nccl"})))

    assert rows(found) == SMALL
    assert found.gpu.external.tolist() == [2, 3, 4]
    assert [found.names[at] for at in found.ops.name.tolist()] == [
        "aten::linear",
        "aten::mm",
        "aten::mm",
        "record_param_comms",
    ]
    details = [json.loads(found.details[at]) if at != NONE else None for at in found.ops.detail.tolist()]
    assert details[0] is None
    assert details[1] == details[2] == {"dims": [[8, 16], [16, 32]], "types": ["float", "float"]}
    assert details[3] == {"collective": "allreduce", "sent": 5}
    assert found.ops.detail[1] == found.ops.detail[2]
    assert found.calls.number.tolist() == [11, 12, 13]
    assert found.cards[0].name == "NVIDIA H100 80GB HBM3"
    assert (found.rank.rank, found.rank.ranks, found.rank.backend) == (3, 8, "nccl")
    counts = found.counts
    assert counts.read == 12
    assert sum(counts.used.values()) + sum(counts.left_out.values()) == counts.read
    assert counts.left_out == {"metadata and instants": 1, "flow arrows (launches are joined by their numbers)": 1}
    assert found.warnings == ()


@pytest.mark.parametrize("how", PACKED)
def test_packed_by_content_whatever_the_name(how, tmp_path):
    for name in ("trace.json", "noname"):
        assert rows(open_trace(write(tmp_path, PACKED[how], name))) == SMALL


LAYOUTS = {
    "one line": json.dumps(small(), separators=(",", ":")),
    "indented": json.dumps(small(), indent=4),
    "bare list": json.dumps(small()["traceEvents"]),
    "keys before": json.dumps({"metadata": {"traceEvents": [1, 2], "a": '"traceEvents": ['}, **small()}),
    "keys after": json.dumps(
        {"traceEvents": small()["traceEvents"], "deviceProperties": [], "x": [{"ph": 1}, {"ph": 2}]}
    ),
    "sorted keys": json.dumps(small(), sort_keys=True),
    "base": json.dumps(small(baseTimeNanoseconds=1751410836000000000)),
    "no flows": json.dumps(small(traceEvents=[each for each in small()["traceEvents"] if each.get("cat") != "ac2g"])),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("block", [64, 300, 1 << 22])
@pytest.mark.parametrize("ranges", [0, 1 << 30])
def test_layouts_and_block_sizes(layout, block, ranges, tmp_path, monkeypatch):
    """The same events however the file is laid out and wherever it is cut."""
    small_pieces(monkeypatch, block)
    monkeypatch.setattr(chrome, "_RANGES", ranges)
    monkeypatch.setattr(chrome, "_RANGES", ranges)
    found = open_trace(write(tmp_path, LAYOUTS[layout]))

    assert rows(found) == SMALL
    assert found.counts.lost == 0
    assert found.base == (1751410836000000000 if layout == "base" else 0)


def test_old_spellings(tmp_path):
    """2020: categories, ids and dims in other spellings, threads and streams as text, whole microseconds."""
    events = [
        {"ph": "X", "cat": "Operator", "name": "aten::add", "pid": 9, "tid": "77", "ts": 1610366662254362, "dur": 9,
         "args": {"Input dims": [[2]], "Input type": [], "external id": 5}},
        {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": "77", "ts": 1610366662254364,
         "dur": 2, "args": {"correlation": 8, "external id": 5}},
        {"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 7", "ts": 1610366662254370, "dur": 3,
         "args": {"device": 0, "stream": 7, "correlation": 8, "external id": 5}},
        {"ph": "X", "cat": "Memset", "name": "Memset (Device)", "pid": 0, "tid": "stream 7", "ts": 1610366662254380,
         "dur": 1},
    ]  # fmt: skip
    found = open_trace(write(tmp_path, trace(*events)))

    assert found.gpu.start.tolist() == [1610366662254370000, 1610366662254380000]
    assert found.gpu.stream.tolist() == [7, 7]
    assert found.gpu.device.tolist() == [0, 0]
    assert found.gpu.external.tolist() == [5, NONE]
    assert found.threads == ((9, 77),)
    assert json.loads(found.details[found.ops.detail[0]]) == {"dims": [[2]], "types": []}


def test_fractions_of_microseconds_since_1970_are_exact(tmp_path):
    """A double has a resolution of 0.25 us there: the text is read instead."""
    text = json.dumps(trace(kernel("k", 0, 0, 1))).replace(
        '"ts": 0, "dur": 0', '"ts": 1712195495505772.123, "dur": 19.001'
    )
    found = open_trace(write(tmp_path, text))

    assert found.gpu.start.tolist() == [1712195495505772123]
    assert found.gpu.duration.tolist() == [19001]


def test_modules_are_kept_and_other_python_frames_counted(tmp_path):
    frames = [event("python_function", "nn.Module: Linear_0", 1, 9), event("python_function", "a.py(1): f", 1, 9)]
    found = open_trace(write(tmp_path, trace(*frames, kernel("k", 1, 1, 1))))

    assert [found.names[at] for at in found.marks.name.tolist()] == ["nn.Module: Linear_0"]
    assert found.counts.left_out["Python stack frames"] == 1


def test_nothing_of_an_environment_is_kept(tmp_path):
    found = open_trace(
        write(tmp_path, small(metadata={"env": {"TOKEN": "secret"}}, cuda_runtime_version=12040, host="me"))
    )

    assert "secret" not in repr(found)
    assert found.versions == {"cuda_runtime_version": "12040"}


def test_no_file_folder_or_device(tmp_path):
    with pytest.raises(UnknownName, match="There is no file"):
        open_trace(tmp_path / "none.json")
    with pytest.raises(UnknownName, match="There is no file"):
        open_trace(f"file://{tmp_path}/none.json")
    with pytest.raises(UnknownName, match="no possible file name"):
        open_trace("a\0b")
    with pytest.raises(TraceError, match="is a folder"):
        open_trace(tmp_path)
    with pytest.raises(TraceError, match="is a device"):
        open_trace("/dev/null")
    with pytest.raises(TraceError, match=r"cannot be opened|not installed"):
        open_trace("nosuchprotocol://a/b.json")


def test_urls_and_members_of_archives(tmp_path):
    """What fsspec opens: a file URL, a member of a zip archive."""
    path = write(tmp_path, zipped(TEXT, "a.json", "b.json"), "two.zip")

    assert rows(open_trace(f"zip://b.json::{path}")) == SMALL
    assert rows(open_trace(f"file://{write(tmp_path, TEXT)}")) == SMALL


def test_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(PACKED["gzip"]))
    writer.start()
    try:
        with no_hang():
            assert rows(open_trace(pipe)) == SMALL
    finally:
        writer.join()


def test_a_silent_pipe_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PATIENCE", 0.05)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    holder = os.open(pipe, os.O_RDWR)
    try:
        with no_hang(), pytest.raises(TraceError, match="stays silent"):
            open_trace(pipe)
    finally:
        os.close(holder)


def test_the_limit_is_stated_and_can_be_raised(tmp_path):
    path = write(tmp_path, PACKED["gzip"])
    with pytest.raises(BadValue, match="--limit"):
        open_trace(path, most=1000)

    assert rows(open_trace(path, most=100_000)) == SMALL


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    """Text that packs as no profile does is not unpacked to its end."""
    monkeypatch.setattr(source, "_RATIO_FROM", 1 << 20)
    bomb = gzip.compress(b'{"traceEvents": [' + b"{}, " * (1 << 20) + b"{}]}")
    with pytest.raises(TraceError, match="250 times"):
        open_trace(write(tmp_path, bomb))


def test_text_without_the_end_of_an_event_is_refused(tmp_path, monkeypatch):
    from roofline.trace.readers import pieces

    monkeypatch.setattr(pieces, "MOST_EVENT", 1 << 16)
    for module, name in ((source, "BLOCK"), (source, "HEAD"), (chrome, "_PIECE")):
        monkeypatch.setattr(module, name, 1 << 14)
    with pytest.raises(TraceError, match="without the end of an event"):
        open_trace(write(tmp_path, b'{"traceEvents": [{"name": "' + b"x" * (1 << 18)))


@pytest.mark.parametrize("odd", [[[8, 16]], [1, 2], {}, "x", None, 1e300, 1 << 90, True, "stream 9", 9.0, "9"])
def test_numbers_that_are_none_are_no_numbers(odd, tmp_path):
    """A stream, an id or a size of another type: the rest of the event stands."""
    found = open_trace(write(tmp_path, trace(kernel("k", 5, 2, 1, stream=odd, bytes=odd), op("o", 1, 9, odd))))

    wanted = {"stream 9": 9, "9": 9, 9.0: 9, True: 1}.get(odd if isinstance(odd, str | float | bool) else "", NONE)
    assert found.gpu.duration.tolist() == [2000]
    assert found.gpu.moved.tolist() == found.ops.number.tolist() == [wanted]


def test_progress_is_told(tmp_path):
    path = write(tmp_path, PACKED["gzip"])
    told = []
    open_trace(path, progress=lambda done, size: told.append((done, size)))

    assert told[-1] == (path.stat().st_size,) * 2


def test_errors_are_of_one_kind():
    assert issubclass(TraceError, RooflineError)


def test_a_trace_of_another_tool_is_one_line(tmp_path):
    """Its device would have been called idle; what the profiler itself wrote is read, also where nothing ran."""
    named = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}}
    fused = {"ph": "X", "pid": 1, "tid": 13, "ts": 1, "dur": 5, "name": "loop_fusion"}
    whole = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [named, fused]}
    with pytest.raises(TraceError, match=r"another tool \(JAX.* none of its 2 events .*roofline record nsys"):
        open_trace(write(tmp_path, whole))

    with pytest.raises(TraceError, match="is a JSON list: none of its 2 events"):
        open_trace(write(tmp_path, [named, fused]))

    assert len(open_trace(write(tmp_path, {"schemaVersion": 1, **whole})).gpu) == 0
