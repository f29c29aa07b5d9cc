"""Headers of GGUF files: formats by their blocks, parts of a split file, and what lies."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.checkpoints import checkpoint
from roofline.checkpoints.ggml import FORMATS
from roofline.errors import CheckpointError, RooflineError
from stored_files import gguf_bytes, string

ONE = {"a": (12, (2, 512)), "b": (0, (3,))}
META = {"general.architecture": "llama", "llama.block_count": 1}


def refused(path: Path, says: str) -> None:
    with pytest.raises(CheckpointError, match=says) as caught:
        checkpoint(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(path))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.gguf"


@pytest.mark.parametrize("version", [2, 3])
def test_tensors_of_a_file(path, version):
    """q4_K: 144 bytes for each 256 of a row; lengths with the rows first."""
    path.write_bytes(gguf_bytes(META, ONE, version=version))
    found = checkpoint(path)

    assert [(each.name, each.format.name, each.shape, each.bytes) for each in found.tensors] == [
        ("a", "q4_K", (2, 512), 2 * 2 * 144),
        ("b", "fp32", (3,), 12),
    ]
    assert (found.kind, found.metadata["llama.block_count"], found.elements) == ("gguf", 1, 1027)


# Bits of an element as the files' makers state them for each type.
BITS = {
    **{2: 4.5, 3: 5.0, 6: 5.5, 7: 6.0, 8: 8.5, 10: 2.625, 11: 3.4375, 12: 4.5, 13: 5.5, 14: 6.5625, 16: 2.0625},
    **{17: 2.3125, 18: 3.0625, 19: 1.5625, 20: 4.5, 21: 3.4375, 22: 2.5625, 23: 4.25, 29: 1.75, 34: 1.6875, 35: 2.0625},
    **{0: 32, 1: 16, 30: 16, 28: 64, 24: 8, 25: 16, 26: 32, 27: 64, 39: 4.25, 40: 4.5, 41: 1.125, 15: 9.125, 9: 9.0},
}


@pytest.mark.parametrize("number", sorted(FORMATS))
def test_bits_of_every_type(number):
    """Of a row of 512: blocks and their scales."""
    known = BITS.get(number, 4.5)  # woven rows of q4_0 and iq4_nl
    assert FORMATS[number].matrix(3, 512) * 8 == 3 * 512 * known


def test_every_stated_type_is_known():
    assert set(BITS) <= set(FORMATS)


def test_arrays_and_strings_of_the_metadata(path):
    """Short arrays are kept, of a vocabulary the length."""
    keys = {**META, "llama.heads": [1, 2], "tokens": ["x", "yy"], "long": [7] * 5000, "pi": 3.5, "yes": True}
    path.write_bytes(gguf_bytes(keys, ONE))
    found = checkpoint(path).metadata

    assert (found["llama.heads"], found["pi"], found["yes"]) == ([1, 2], 3.5, True)
    assert (found["tokens"].length, found["long"].length) == (2, 5000)


def test_vocabulary_larger_than_a_piece(path):
    """Of 300,000 pieces: read over the boundary of what is fetched at once."""
    path.write_bytes(gguf_bytes({**META, "tokens": ["piece of text"] * 300_000}, ONE))
    assert checkpoint(path).metadata["tokens"].length == 300_000


def test_alignment_is_the_file_s_own(path):
    path.write_bytes(gguf_bytes({**META, "general.alignment": 64}, ONE))
    assert checkpoint(path).bytes == 588


def parts(folder: Path, count: int, said: int = 2) -> Path:
    names = [f"m-{number + 1:05}-of-{count:05}.gguf" for number in range(count)]
    keys = {**META, "split.no": 0, "split.count": count, "split.tensors.count": said}
    (folder / names[0]).write_bytes(gguf_bytes(keys, {"a": ONE["a"]}))
    (folder / names[1]).write_bytes(gguf_bytes({"split.no": 1, "split.count": count}, {"b": ONE["b"]}))
    return folder / names[1]


def test_split_file_by_any_part_or_its_folder(tmp_path):
    """All parts together, with the metadata of the first."""
    any_part = parts(tmp_path, 2)
    for where in (any_part, tmp_path):
        found = checkpoint(where)
        assert (len(found.files), len(found.tensors), found.metadata["llama.block_count"]) == (2, 2, 1)


def test_split_file_that_is_not_whole(tmp_path):
    any_part = parts(tmp_path, 2, said=3)
    refused(any_part, "first part says 3 tensors, and its parts have 2")
    any_part.rename(tmp_path / "m-00003-of-00002.gguf")
    refused(tmp_path / "m-00003-of-00002.gguf", "says part 00003 of 00002")
    with pytest.raises(RooflineError, match="There is no file"):
        checkpoint(tmp_path / "m-00001-of-00002.gguf")
    (tmp_path / "m-00001-of-00002.gguf").rename(tmp_path / "renamed.gguf")
    refused(tmp_path / "renamed.gguf", "one of 2 parts, and its name does not tell the others")


def test_folder_with_several_models(tmp_path):
    for name in ("q4", "q8"):
        (tmp_path / f"{name}.gguf").write_bytes(gguf_bytes(META, ONE))
    refused(tmp_path, "has 2 GGUF models")


HUGE = struct.pack("<I", 8) + struct.pack("<Q", 1 << 60)
ARRAY = struct.pack("<IIQ", 9, 4, 1 << 62)
STRINGS = struct.pack("<IIQ", 9, 8, 1 << 40)
NESTED = struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 100 + struct.pack("<IQ", 4, 0)
HOSTILE = {
    "nothing": (b"", "its magic needs 4 bytes"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n", "a Git LFS pointer"),
    "another format": (b"\x93NUMPY" + bytes(50), "no GGUF file"),
    "cut in the counts": (b"GGUF\3\0\0\0\1", "is cut, or lies"),
    "version 1": (gguf_bytes(META, ONE, version=1), "version 1; read are 2 and 3"),
    "version 4": (gguf_bytes(META, ONE, version=4), "version 4"),
    "big-endian": (b"GGUF\0\0\0\3" + bytes(40), "big-endian"),
    "10^8 tensors": (gguf_bytes(META, ONE, counts=(10**8, 2)), "says 100,000,000 tensors"),
    "2^63 tensors": (gguf_bytes(META, ONE, counts=(1 << 63, 2)), "tensors"),
    "more tensors than bytes": (gguf_bytes(META, ONE, counts=(100_000, 2)), "says 100,000 tensors"),
    "2^63 keys": (gguf_bytes(META, ONE, counts=(2, 1 << 63)), "keys; up to"),
    "a tensor too few": (gguf_bytes(META, ONE, counts=(3, 2)), "tensor '' begins at 0"),
    "huge string": (gguf_bytes({**META, "x": HUGE}, ONE), "the string of 'x' says 1,152,921,504,606,846,976 bytes"),
    "huge array": (gguf_bytes({**META, "x": ARRAY}, ONE), "'x' needs"),
    "huge array of strings": (gguf_bytes({**META, "x": STRINGS}, ONE), "'x' says 1,099,511,627,776 entries"),
    "nested arrays": (gguf_bytes({**META, "x": NESTED}, ONE), "arrays within arrays"),
    "unknown kind": (gguf_bytes({**META, "x": struct.pack("<I", 77)}, ONE), "of the kind 77"),
    "key of a gigabyte": (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 30) + bytes(64), "name of a key says"),
    "twice a key": (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + 2 * (string("k") + struct.pack("<II", 4, 1)),
        "there twice",
    ),
    "twice a tensor": (
        gguf_bytes({}, {}, counts=(2, 0), data=0)[:24]
        + 2 * (string("a") + struct.pack("<IQIQ", 1, 8, 0, 0))
        + bytes(64),
        "overlaps|there twice",
    ),
    "unknown type": (gguf_bytes(META, {"a": (99, (2,))}), "of the type 99"),
    "no whole blocks": (gguf_bytes(META, {"a": (12, (2, 100))}), "which no blocks of 256 fill"),
    "overflow": (gguf_bytes(META, {"a": (0, (1 << 40, 1 << 40))}, data=64), "multiply to more|length of"),
    "long length": (gguf_bytes(META, {"a": (0, (1 << 63,))}, data=64), "a length of"),
    "dimensions": (gguf_bytes(META, {"a": (0, (1,) * 9)}), "has 9 dimensions"),
    "place beyond": (gguf_bytes(META, ONE, offsets={"b": 1 << 62}), "leaves a gap"),
    "place within another": (gguf_bytes(META, ONE, offsets={"b": 32}), "overlaps"),
    "cut data": (gguf_bytes(META, ONE, data=100), "it is cut"),
    "alignment 3": (gguf_bytes({**META, "general.alignment": 3}, ONE), "a power of two"),
    "alignment 0": (gguf_bytes({**META, "general.alignment": 0}, ONE), "a power of two"),
    "no tensors": (gguf_bytes(META, {}), "name no tensor"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_header_that_lies_is_one_line(path, name):
    content, says = HOSTILE[name]
    path.write_bytes(content)
    start = time.process_time()
    refused(path, says)
    assert time.process_time() - start < 1


def test_header_larger_than_is_read(path):
    """An array of a gigabyte in a file that is as large: not read."""
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("x") + struct.pack("<IIQ", 9, 0, 1 << 30))
        file.truncate(3 << 30)
    refused(path, "more than the 64 MiB that are read")


WORST = """
import resource, sys, time
from pathlib import Path
from roofline.checkpoints import checkpoint
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
try:
    checkpoint(Path(sys.argv[1]))
except Exception as error:
    print(type(error).__name__)
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("kind", ["strings", "tensors"])
def test_the_worst_header_that_is_read_is_bounded(path, kind):
    """4 million strings, or a million tensors: seconds, and half a gigabyte."""
    if kind == "strings":
        start = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("x") + struct.pack("<IIQ", 9, 8, 1 << 22)
        path.write_bytes(start + bytes(8 << 22))
    else:
        one = b"".join(string(f"{at:07}") + struct.pack("<IIQ", 0, 24, 32 * at) for at in range(1 << 20))
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1 << 20, 0) + one + bytes(1 << 20))
    answer = subprocess.run([sys.executable, "-c", WORST, path], capture_output=True, text=True, timeout=60, check=True)
    kind, figures = answer.stdout.splitlines()

    assert kind == "CheckpointError"
    assert float(figures.split()[0]) < 20
    assert int(figures.split()[1]) < 640 << 10  # KiB


@given(st.data())
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_changed_byte_is_read_or_refused(tmp_path, data):
    """Never anything but an answer or one line."""
    content = bytearray(gguf_bytes({**META, "x": [1, 2], "y": ["a"], "z": 1.5}, ONE))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "model.gguf"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        checkpoint(path)
    except RooflineError as error:
        assert "\n" not in str(error)
