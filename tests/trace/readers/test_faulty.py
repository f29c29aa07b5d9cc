"""Traces that are cut, damaged, odd, or none: what is sound is read, and what was odd is said."""

from __future__ import annotations

import gzip
import json

import pytest

from roofline.errors import TraceError
from roofline.trace.readers import open_trace
from texts import GEMM, PACKED, PLAIN, SMALL, TEXT, broken, noted, rows, tarred, zipped
from traces import kernel, op, small, trace, write

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


def test_what_is_left_out_may_be_of_any_type(tmp_path):
    """Times as text are read beside an event that nothing is used of, and so nothing is asked of."""
    odd = [
        {"ph": "s", "cat": "ac2g", "args": "x", "pid": 1, "tid": 1},
        {"ph": "X", "cat": "python_function", "args": 5},
    ]
    found = open_trace(write(tmp_path, trace(*odd, {**kernel("k", 0, 1, 1), "ts": "7"})))

    assert found.gpu.start.tolist() == [7000]
    assert found.counts.read == 3


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
