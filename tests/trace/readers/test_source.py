"""Files as they come: a byte at a time, packed in layers that hide how much there is, with times beyond all time."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import threading
import time
from contextlib import ExitStack

import pytest
import zstandard

from limits import no_hang
from roofline.diagnosis.opening import open_profile
from roofline.errors import BadValue, RooflineError, TooMuch, TraceError
from roofline.evidence.counters import Counters
from roofline.trace.events import Trace
from roofline.trace.readers import open_trace, source, unpack
from roofline.units import MIB
from texts import PACKED, SMALL, TEXT, rows, tarred
from traces import kernel, trace, write

DMON = "# gpu   pwr gtemp    sm   mem\n# Idx     W     C     %     %\n    0   300    50    90    40\n"


class Dribble(io.RawIOBase):
    """A stream that gives a byte at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:
        more = self._data.read(1)
        buffer[: len(more)] = more
        return len(more)


@pytest.mark.parametrize("how", [each for each, data in PACKED.items() if not data.startswith(b"PK")])
def test_what_a_stream_is_does_not_hang_on_how_much_comes_at_once(how):
    """Each packing is known by its first bytes, of which one comes at a time."""
    with ExitStack() as stack:
        found = unpack.unpacked(Dribble(PACKED[how]), unpack.Unpacking("x", stack, lambda size: None))
        assert found.read() == TEXT


PIPED = {
    "gzip": (PACKED["gzip"], 1),
    "plain": (TEXT, 1),
    "tar": (gzip.compress(tarred(TEXT)), 1),
    "in its head": (DMON.encode(), 8),
}


@pytest.mark.parametrize("what", PIPED)
def test_a_pipe_whose_first_write_says_nothing(what, tmp_path):
    """It is read on before it is told what it is."""
    data, cut = PIPED[what]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def written() -> None:
        with pipe.open("wb", buffering=0) as file:
            file.write(data[:cut])
            time.sleep(0.2)
            file.write(data[cut:])

    writer = threading.Thread(target=written)
    writer.start()
    try:
        with no_hang():
            found = open_profile(pipe)
    finally:
        writer.join()
    assert isinstance(found, Counters) if what == "in its head" else rows(found) == SMALL


def archive(zeros: int) -> bytes:
    """A tar archive of zeros before a trace."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        for name, data in (("zeros.bin", bytes(zeros)), ("x.json", TEXT)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return out.getvalue()


NOTHING = gzip.compress(b"")
HIDDEN = {
    "a tar packed": bz2.compress(archive(4 * MIB)),
    "a tar": archive(4 * MIB),
    "empty streams packed": gzip.compress(NOTHING * (4 * MIB // len(NOTHING)) + gzip.compress(TEXT)),
}


@pytest.mark.parametrize("what", HIDDEN)
def test_what_is_passed_over_counts(what, tmp_path):
    """Members of an archive that are no profile, and streams of nothing, are read all the same."""
    path = write(tmp_path, HIDDEN[what])
    with pytest.raises(TooMuch, match="--limit"):
        open_trace(path, most=MIB)
    assert rows(open_trace(path, most=8 * MIB)) == SMALL


@pytest.mark.parametrize("what", [each for each in HIDDEN if each.endswith("packed")])
def test_a_bomb_that_is_passed_over_is_refused(what, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_RATIO_FROM", MIB)
    with pytest.raises(TraceError, match="250 times"):
        open_trace(write(tmp_path, HIDDEN[what]))


@pytest.mark.parametrize("how", ["xz", "zstd"])
def test_memory_that_a_file_asks_for_is_limited(how, tmp_path, monkeypatch):
    """It says so, instead of that the file is damaged."""
    monkeypatch.setattr(unpack, "WINDOW", 1 << 12)
    monkeypatch.setattr(unpack, "_BESIDE", 1 << 12)
    text = TEXT + b" " * MIB
    with pytest.raises(TraceError, match="of memory"):
        open_trace(write(tmp_path, lzma.compress(text) if how == "xz" else zstandard.compress(text)))


def test_streams_of_xz_one_after_another(tmp_path):
    """With zeros between and behind; one that is cut gives what came before."""
    halves = [lzma.compress(each) for each in (TEXT[:500], TEXT[500:])]
    assert rows(open_trace(write(tmp_path, bytes(8).join(halves) + bytes(4)))) == SMALL

    found = open_trace(write(tmp_path, halves[0] + lzma.compress(TEXT[500:] + os.urandom(9000))[:-4000]))
    assert any("ends within an xz stream" in each for each in found.warnings)


def test_the_limit_names_the_file_once_whatever_it_is_called(tmp_path, monkeypatch):
    """An error of what a file holds begins with its name, and that of the limit does already."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "has").write_text("# nvidia-smi dmon\n# gpu   pwr    sm\n# Idx     W     %\n")
    with pytest.raises(TraceError, match=r"^has has the head of a table"):
        open_profile("has")
    for name in ("HEAD", "BLOCK"):
        monkeypatch.setattr(source, name, 120)
    (tmp_path / "has").write_text(DMON + "    0   300    50    90    40\n" * 99)
    with pytest.raises(BadValue, match=r"^has has more than"):
        open_profile("has", most=200)


LATE = {
    "durations": [kernel("k", 0, 4.6e15, at, stream=at) for at in range(4)],
    "a span": [kernel("k", -4e15, 1, 1), kernel("k", 4e15, 1, 2)],
}


@pytest.mark.parametrize("what", LATE)
@pytest.mark.parametrize("way", [open_trace, open_profile])
def test_times_that_together_are_beyond_64_bits(what, way, tmp_path):
    """Their sum would wrap around: it is refused."""
    with pytest.raises(RooflineError, match="century") as caught:
        way(write(tmp_path, trace(*LATE[what])))
    assert "\n" not in str(caught.value)


def test_times_of_this_century_are_not_refused(tmp_path):
    """Beside one of an event at zero, as some profilers write."""
    found = open_profile(write(tmp_path, trace(kernel("k", 0, 1, 1), kernel("k", 1.7e15, 1, 2))))
    assert isinstance(found, Trace)
