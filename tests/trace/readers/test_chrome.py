"""Traces of the PyTorch profiler in every form that they come in, and in some that they should not."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zstandard

from limits import no_hang
from roofline.errors import BadValue, RooflineError, TraceError, UnknownName
from roofline.trace.events import NONE
from roofline.trace.readers import chrome, decode, open_trace, source, spread
from traces import event, kernel, launch, op, small, trace, write


def rows(found):
    """What the device did, as plain values."""
    gpu = found.gpu
    names = [found.names[at] for at in gpu.name.tolist()]
    return list(
        zip(
            names, gpu.start.tolist(), gpu.duration.tolist(), gpu.stream.tolist(), gpu.correlation.tolist(), strict=True
        )
    )


GEMM, NCCL = "ampere_sgemm_128x64_tn", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
SMALL = [(GEMM, 1_000_000, 40_000, 7, 11), (GEMM, 1_060_000, 20_000, 7, 12), (NCCL, 1_080_000, 20_000, 20, 13)]


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


def tarred(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in (("readme.txt", b"no"), ("run/._trace.json", b"no"), ("run/trace.json", data)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zipped(data: bytes, *names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names or ("trace.json",):
            archive.writestr(name, data)
    return out.getvalue()


TEXT = json.dumps(small()).encode()
PACKED = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT),
    "two members": gzip.compress(TEXT[:500]) + gzip.compress(TEXT[500:]),
    "padded": gzip.compress(TEXT) + b"\0" * 512,
    "zstd": zstandard.compress(TEXT),
    "bzip2": bz2.compress(TEXT),
    "xz": lzma.compress(TEXT),
    "zip": zipped(TEXT),
    "tar": tarred(TEXT),
    "tar.gz": gzip.compress(tarred(TEXT)),
    "gzip in zip": zipped(gzip.compress(TEXT), "trace.json.gz"),
    "utf-8 mark": b"\xef\xbb\xbf" + TEXT,
    "utf-16": TEXT.decode().encode("utf-16"),
    "utf-16 without a mark": TEXT.decode().encode("utf-16-le"),
    "utf-32": TEXT.decode().encode("utf-32"),
    "gzip twice": gzip.compress(gzip.compress(TEXT)),
    "utf-16 in gzip": gzip.compress(TEXT.decode().encode("utf-16-be").join([b"\xfe\xff", b""])),
}


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


def noted(found, words: str) -> bool:
    return any(words in each for each in found.warnings)


def broken(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


PLAIN = json.dumps(small())
FAULTS = {
    "backslash": (broken(PLAIN, GEMM, "C:\\\\Users\\\\x".replace("\\\\", "\\")), 3, "backslashes"),
    "line break": (broken(PLAIN, GEMM, "sge\nmm"), 3, "line breaks"),
    "no utf-8": (PLAIN.encode().replace(GEMM.encode(), b"sg\xffemm", 1), 3, "UTF-8"),
    "NaN in an argument": (broken(PLAIN, '"stream": 7', '"x": NaN, "stream": 7'), 3, "NaN"),
    "trailing comma": (broken(PLAIN, "}}]", "}},]"), 3, "comma"),
    "comma in an object": (broken(PLAIN, '"stream": 7,', '"stream": 7,,'), 2, "1 of 12 events could not be read"),
    "open quote": (broken(PLAIN, GEMM, 'sg"emm'), 2, "1 of 12 events could not be read"),
    "null events": (broken(PLAIN, '"traceEvents": [', '"traceEvents": [null, {}, '), 3, "null"),
    "times as text": (broken(PLAIN, '"ts": 1000, "dur": 40,', '"ts": "1000", "dur": "40",'), 3, "as text"),
    "name is a number": (broken(PLAIN, f'"{GEMM}"', "17"), 3, "unexpected type"),
    "args are a list": (broken(PLAIN, '"args": {"External id": 1}', '"args": [1]'), 3, "unexpected type"),
    "half a character": (broken(PLAIN, GEMM, "\\ud800"), 3, "half"),
}  # fmt: skip


def test_only_the_fault_that_there_is_is_named(tmp_path):
    """Line breaks between keys are none, and what one mend heals needs no other."""
    for fault, words in ((b"sg\xffemm", "bytes that are no UTF-8"), (b"sge\x01mm", "raw line breaks or control")):
        text = json.dumps(small(), indent=2).encode().replace(GEMM.encode(), fault, 1)
        (warning,) = open_trace(write(tmp_path, text)).warnings
        assert warning.startswith(words)


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_text_is_read_as_far_as_it_is_sound(fault, tmp_path):
    """What is mended or lost is said, and the rest is there."""
    text, kernels, words = FAULTS[fault]
    found = open_trace(write(tmp_path, text))

    assert len(found.gpu) == kernels
    assert noted(found, words), found.warnings
    assert found.counts.read + found.counts.lost >= 12
    assert sum(found.counts.used.values()) + sum(found.counts.left_out.values()) == found.counts.read


@pytest.mark.parametrize("cut", range(200, len(TEXT) - 40, 97))
def test_cut_anywhere(cut, tmp_path):
    """All whole events before the cut, and a warning; or one clear line where there is none."""
    wanted = sum(TEXT[:cut].count(b"}}, {") for _ in (1,))
    try:
        found = open_trace(write(tmp_path, TEXT[:cut]))
    except TraceError as error:
        assert wanted == 0 or "no events" in str(error)
        return
    assert noted(found, "cut") or cut > TEXT.rindex(b"]")
    assert found.counts.read >= min(wanted, 1)


def test_a_cut_gzip_gives_what_came_before(tmp_path):
    packed = gzip.compress(TEXT, 0)
    found = open_trace(write(tmp_path, packed[: len(packed) - 300]))

    assert noted(found, "cut or damaged")
    assert noted(found, "the file is cut")


def test_a_wrong_checksum_gives_what_came_before(tmp_path):
    """All of it, also where the whole file is unpacked at once."""
    packed = gzip.compress(TEXT)
    found = open_trace(write(tmp_path, packed[:-8] + bytes(4) + packed[-4:]))

    assert rows(found) == SMALL
    assert noted(found, "cut or damaged")


@pytest.mark.parametrize("how", ["zstd", "bzip2", "xz", "zip"])
def test_a_damaged_file_is_a_warning_or_one_line(how, tmp_path):
    packed = bytearray(PACKED[how])
    packed[len(packed) // 2] ^= 0xFF
    try:
        found = open_trace(write(tmp_path, bytes(packed)))
        assert found.warnings
    except TraceError as error:
        assert "\n" not in str(error)


TIMES = {
    "zero": ({"ts": 0, "dur": 0}, "at time 0"),
    "negative": ({"ts": 5, "dur": -3}, "negative duration"),
    "null": ({"ts": None, "dur": 3}, "no" if False else "without a time"),
    "absent": ({}, "without a time"),
    "words": ({"ts": "soon", "dur": 3}, "without a time"),
}


@pytest.mark.parametrize("fault", TIMES)
def test_impossible_times_are_left_out_and_counted(fault, tmp_path):
    keys, words = TIMES[fault]
    bad = {key: value for key, value in kernel("k", 1, 1, 1).items() if key not in ("ts", "dur")} | keys
    found = open_trace(write(tmp_path, trace(bad, kernel("k", 7, 2, 2))))

    assert found.gpu.start.tolist() == [7000]
    assert noted(found, words)
    assert sum(found.counts.left_out.values()) == 1


REFUSED = {
    "wrapped duration": (trace(kernel("k", 5, 1.844674407370955e16, 1)), "more than a century"),
    "empty": (b"", "is empty"),
    "blank": (b" \n ", "is empty"),
    "empty gzip": (gzip.compress(b""), "is empty"),
    "no events": (trace(), "has no events"),
    "no list": ({"a": 1}, "without traceEvents"),
    "chakra": ({"schema": "1.0", "nodes": []}, "Chakra"),
    "speedscope": ({"$schema": "https://www.speedscope.app/file-format-schema.json"}, "speedscope"),
    "nsys": (b"\0QDSTRM\0\0", "nsys export"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    "html": (b"<!DOCTYPE html><html></html>", "web page"),
    "sqlite": (b"SQLite format 3\0" + bytes(100), "SQLite"),
    "text": (b"hello", "is text"),
    "binary": (bytes(range(1, 200)), "no format that is read"),
    "packed too often": (gzip.compress(gzip.compress(gzip.compress(gzip.compress(TEXT)))), "packed more than"),
    "zip without": (zipped(b"x", "a.txt"), "without a JSON file"),
    "zip of two": (zipped(TEXT, "a.json", "b.json"), "zip://MEMBER::"),
    "tar without": (gzip.compress(tarred(b"")[:512] + bytes(1024)), "without a JSON file"),
    "broken zip": (b"PK\x03\x04" + bytes(60), "cannot be read"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_trace_is_one_clear_line(what, tmp_path):
    content, words = REFUSED[what]
    with pytest.raises(TraceError, match=words) as caught:
        open_trace(write(tmp_path, content))

    assert "\n" not in str(caught.value)


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
    monkeypatch.setattr(source, "_PATIENCE", 0.05)
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

    monkeypatch.setattr(pieces, "_MOST_EVENT", 1 << 16)
    monkeypatch.setattr(source, "BLOCK", 1 << 14)
    monkeypatch.setattr(chrome, "_PIECE", 1 << 14)
    with pytest.raises(TraceError, match="without the end of an event"):
        open_trace(write(tmp_path, b'{"traceEvents": [{"name": "' + b"x" * (1 << 18)))


def test_a_key_that_stands_twice(tmp_path):
    """The last counts, as for any JSON reader, and the answer says so."""
    text = PLAIN.replace('"schemaVersion": 1', '"schemaVersion": 1, "schemaVersion": 2')
    assert noted(open_trace(write(tmp_path, text)), "stands twice")

    events = json.dumps([kernel("last", 3, 4, 1)])
    found = open_trace(write(tmp_path, PLAIN[:-1] + f', "traceEvents": {events}}}'))
    assert [row[0] for row in rows(found)] == ["last"]


TWICE = {
    "a time": ('"ts": 1000, "dur": 40', '"ts": 5, "ts": 1000, "dur": 40', "ts"),
    "a category": ('"cat": "kernel"', '"cat": "cpu_op", "cat": "kernel"', "cat"),
    "an argument": ('"stream": 7', '"stream": 9, "stream": 7', "stream"),
}


@pytest.mark.parametrize("where", TWICE)
@pytest.mark.parametrize("indent", [None, 1])
def test_a_key_that_stands_twice_in_an_event(where, indent, tmp_path):
    """The last counts, and the answer says so."""
    old, new, key = TWICE[where]
    text = PLAIN.replace(old, new, 1)
    assert text != PLAIN
    if indent:
        text = text.replace(", ", ",\n ")
    found = open_trace(write(tmp_path, text))

    assert rows(found) == SMALL
    assert found.warnings == (f"the key {key!r} stands twice in an event: the last was taken",)


def test_text_that_looks_like_a_key_is_none(tmp_path):
    found = open_trace(write(tmp_path, trace(kernel('k":"ts":', 5, 2, 1), op("o", 1, 2, 3))))

    assert found.warnings == ()


NAMES = {
    ("trace.json", "plain"): None,
    ("trace.json.gz", "gzip"): None,
    ("trace.pt.trace.json.tmp", "plain"): None,
    ("noname", "gzip"): None,
    ("trace.json", "gzip"): "packed as gzip, which its name does not say",
    ("trace.json", "zstd"): "packed as zstd, which its name does not say",
    ("trace.json.gz", "plain"): "the name says gzip, but the file is not packed",
    ("trace.json.gz", "zstd"): "packed as zstd",
    ("trace.json", "utf-8 mark"): "byte order mark",
    ("trace.json", "utf-16"): "UTF-16",
    ("trace.json", "utf-16 without a mark"): "UTF-16",
    ("trace.json", "utf-32"): "UTF-32",
    ("trace.json.gz", "gzip twice"): "packed more than once",
}


@pytest.mark.parametrize(("name", "how"), NAMES)
def test_a_name_that_says_otherwise(name, how, tmp_path):
    found = open_trace(write(tmp_path, PACKED[how], name))
    words = NAMES[name, how]

    assert rows(found) == SMALL
    assert found.warnings == () if words is None else noted(found, words)


def test_a_bare_list_says_what_it_lacks(tmp_path):
    found = open_trace(write(tmp_path, small()["traceEvents"]))

    assert rows(found) == SMALL
    assert noted(found, "bare list")


def test_keys_after_a_fault_are_named_as_not_used(tmp_path):
    found = open_trace(write(tmp_path, PLAIN[:-1] + ', "x": }'))

    assert rows(found) == SMALL
    assert noted(found, "no sound JSON")


@pytest.mark.parametrize("odd", [[[8, 16]], [1, 2], {}, "x", None, 1e300, 1 << 90, True, "stream 9", 9.0, "9"])
def test_numbers_that_are_none_are_no_numbers(odd, tmp_path):
    """A stream, an id or a size of another type: the rest of the event stands."""
    found = open_trace(write(tmp_path, trace(kernel("k", 5, 2, 1, stream=odd, bytes=odd), op("o", 1, 9, odd))))

    wanted = {"stream 9": 9, "9": 9, 9.0: 9, True: 1}.get(odd if isinstance(odd, str | float | bool) else "", NONE)
    assert found.gpu.duration.tolist() == [2000]
    assert found.gpu.moved.tolist() == found.ops.number.tolist() == [wanted]


def small_pieces(monkeypatch, size):
    """Cut everything into pieces of this size, and let workers have them from the first byte on."""
    places = ((source, "BLOCK"), (chrome, "_PIECE"), (chrome, "RANGE"), (spread, "RANGE"), (decode, "_PART"))
    for module, name in places:
        monkeypatch.setattr(module, name, size)
    monkeypatch.setattr(spread, "_ALONE", 0)
    monkeypatch.setattr(chrome, "_RANGES", 0)


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


class Away(ThreadPoolExecutor):
    """Workers that do not see this machine's files."""

    def submit(self, function, /, *args):  # pyright: ignore
        def fail(*args):
            raise FileNotFoundError

        return super().submit(fail if function is decode.decode_range else function, *args)


def test_what_workers_cannot_read_is_read_here(tmp_path, monkeypatch):
    path = write(tmp_path, json.dumps(many()))
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


def test_progress_is_told(tmp_path):
    path = write(tmp_path, PACKED["gzip"])
    told = []
    open_trace(path, progress=lambda done, size: told.append((done, size)))

    assert told[-1] == (path.stat().st_size,) * 2


def test_errors_are_of_one_kind():
    assert issubclass(TraceError, RooflineError)
