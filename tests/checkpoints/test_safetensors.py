"""Headers of safetensors files: what is stored is counted, and what lies is one clear line in bounded memory."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.checkpoints import checkpoint
from roofline.errors import CheckpointError, RooflineError
from stored_files import header, packed, safetensors

ONE = {"a": ("BF16", (2, 3)), "b": ("F32", (4,))}


def refused(path: Path, says: str) -> None:
    with pytest.raises(CheckpointError, match=says) as caught:
        checkpoint(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_tensors_of_a_file(tmp_path):
    """Names, formats, lengths and bytes; sums by format."""
    size = safetensors(tmp_path / "model.safetensors", ONE)
    found = checkpoint(tmp_path / "model.safetensors")

    assert [(each.name, each.format.name, each.shape, each.bytes) for each in found.tensors] == [
        ("a", "bf16", (2, 3), 12),
        ("b", "fp32", (4,), 16),
    ]
    assert (found.kind, found.bytes, found.elements, found.formats) == (
        "safetensors",
        size,
        10,
        {"fp32": 16, "bf16": 12},
    )


def test_bytes_by_part(tmp_path):
    """Parts as names tell them."""
    names = {
        "model.embed_tokens.weight": "embedding",
        "lm_head.weight": "head",
        "model.layers.0.self_attn.q_proj.weight": "attention",
        "model.layers.0.mlp.experts.3.up_proj.weight": "experts",
        "model.layers.0.mlp.shared_expert.up_proj.weight": "mlp",
        "model.layers.0.mlp.gate.weight": "mlp",
        "model.layers.0.input_layernorm.weight": "norm",
        "model.layers.0.linear_attn.in_proj_a.weight": "recurrent",
        "visual.blocks.0.attn.qkv.weight": "vision",
        "mtp.layers.0.mlp.up_proj.weight": "prediction",
        "something": "other",
    }
    safetensors(tmp_path / "model.safetensors", {name: ("F32", (index + 1,)) for index, name in enumerate(names)})
    found = checkpoint(tmp_path).parts

    wanted: dict[str, int] = {}
    for index, part in enumerate(names.values()):
        wanted[part] = wanted.get(part, 0) + 4 * (index + 1)
    assert found == wanted


def test_shards_by_their_index(tmp_path):
    """The files that the index names, and no other; each tensor where it says."""
    first, second = {"a": ("BF16", (8,))}, {"b": ("BF16", (4,))}
    size = safetensors(tmp_path / "m-1.safetensors", first) + safetensors(tmp_path / "m-2.safetensors", second)
    safetensors(tmp_path / "consolidated.safetensors", {"c": ("F32", (9,))})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}))

    assert (checkpoint(tmp_path).bytes, checkpoint(index).files) == (size, ("m-1.safetensors", "m-2.safetensors"))
    index.write_text(json.dumps({"weight_map": {"a": "m-1.safetensors", "c": "m-2.safetensors"}}))
    refused(tmp_path, "places the tensor 'c' in m-2.safetensors, whose header has none")
    index.write_text(json.dumps({"weight_map": {"a": "m-1.safetensors", "b": "m-3.safetensors"}}))
    refused(tmp_path, "of which 1 are not there")


@pytest.mark.parametrize(
    ("index", "says"),
    [
        ("{", "not valid JSON"),
        ("[]", "weight_map is missing"),
        ('{"weight_map": {}}', "weight_map is missing"),
        ('{"weight_map": {"a": "../../etc/passwd.safetensors"}}', "no name of a file beside it"),
        ('{"weight_map": {"a": "/etc/shadow"}}', "no name of a file beside it"),
        ('{"weight_map": {"a": 7}}', "no name of a file beside it"),
        ("[" * 100_000, "not valid JSON"),
        ('{"weight_map": {"a": ' + "9" * 10_000 + "}}", "not valid JSON"),
        ("\udcff", "not valid JSON"),
    ],
)
def test_index_that_is_none(tmp_path, index, says):
    (tmp_path / "model.safetensors.index.json").write_bytes(index.encode("utf-8", "surrogateescape"))
    refused(tmp_path, says)


def entry(kind: object = "F32", shape: object = (2,), span: object = (0, 8), **more: object) -> dict[str, object]:
    return {"dtype": kind, "shape": shape, "data_offsets": span, **more}


HOSTILE = {
    "nothing": (b"", "0 bytes, too few"),
    "seven bytes": (b"\1\0\0\0\0\0\0", "7 bytes, too few"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n", "a Git LFS pointer"),
    "no header": (struct.pack("<Q", 0), "not valid JSON"),
    "header longer than the file": (packed({"a": entry()}, 8, 1000), "a header of 1,000 bytes"),
    "2^63": (packed({"a": entry()}, 8, 1 << 63), "9,223,372,036,854,775,808 bytes"),
    "2^64 - 1": (packed({"a": entry()}, 8, (1 << 64) - 1), "no safetensors file, or cut"),
    "no JSON": (packed(b"{]", 0), "not valid JSON"),
    "no text": (packed(b"\xff\xfe{}", 0), "no text"),
    "a list": (packed([], 0), "holds a list"),
    "null": (packed(None, 0), "holds a NoneType"),
    "no tensor": (packed({}, 0), "name no tensor"),
    "deep": (packed(b"[" * 100_000, 0), "nested or long"),
    "deep objects": (packed(b'{"a":' * 100_000, 0), "nested or long"),
    "long number": (
        packed(b'{"a":{"dtype":"F32","shape":[' + b"9" * 9999 + b'],"data_offsets":[0,8]}}', 8),
        "nested or",
    ),
    "NaN": (packed(b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}}', 8), "NaN, which is no number"),
    "infinite": (packed(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,Infinity]}}', 8), "no number"),
    "twice": (
        packed(b'{"a":' + json.dumps(entry()).encode() + b',"a":' + json.dumps(entry()).encode() + b"}", 8),
        "twice",
    ),
    "unknown dtype": (packed({"a": entry("F3")}, 8), "dtype 'F3', which is not known"),
    "dtype a list": (packed({"a": entry([])}, 8), "which is not known"),
    "negative": (packed({"a": entry(shape=[-2])}, 8), "whole numbers"),
    "true": (packed({"a": entry(shape=[True])}, 8), "whole numbers"),
    "fraction": (packed({"a": entry(shape=[2.0])}, 8), "whole numbers"),
    "shape a number": (packed({"a": entry(shape=2)}, 8), "whole numbers"),
    "overflow": (packed({"a": entry(shape=[1 << 40, 1 << 40])}, 8), "more than any file holds"),
    "many dimensions": (packed({"a": entry(shape=[1] * 100)}, 8), "has the shape"),
    "backwards": (packed({"a": entry(span=[8, 0])}, 8), "a begin and an end"),
    "three ends": (packed({"a": entry(span=[0, 8, 9])}, 8), "a begin and an end"),
    "wrong size": (packed({"a": entry(shape=[3])}, 8), "needs 12 bytes for its shape"),
    "out of range": (packed({"a": entry(span=[0, 8])}, 4), "it is cut"),
    "bytes left": (packed({"a": entry()}, 9), "has more"),
    "overlap": (packed({"a": entry(), "b": entry(span=[4, 12])}, 12), "overlaps"),
    "gap": (packed({"a": entry(), "b": entry(span=[9, 17])}, 17), "leaves a gap"),
    "not at the start": (packed({"a": entry(span=[8, 16])}, 16), "leaves a gap"),
    "field missing": (packed({"a": {"dtype": "F32"}}, 8), "it needs dtype, shape, data_offsets"),
    "field more": (packed({"a": entry(more=1)}, 8), "it needs dtype, shape, data_offsets"),
    "no entry": (packed({"a": 7}, 8), "it needs dtype"),
    "long name": (packed({"a" * 5000: entry()}, 8), "5,000 letters"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_header_that_lies_is_one_line(tmp_path, name):
    content, says = HOSTILE[name]
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    refused(path, says)


def test_header_larger_than_is_read(tmp_path):
    """A file of 10^8 tensors would need a header of gigabytes: its length alone refuses it, nothing of it is read."""
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 10_000_000_000))
        file.truncate(20_000_000_000)
    start = time.process_time()
    refused(path, "9,537 MiB, more than the 32 MiB")
    assert time.process_time() - start < 0.5


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


@pytest.mark.parametrize(
    ("start", "piece", "end"),
    [(b'{"__metadata__":[', b"[],", b"1]}"), (b'{"__metadata__":[', b'"ab",', b"1]}"), (b"[", b"1000,", b"1]")],
    ids=["lists", "strings", "numbers"],
)
def test_the_worst_header_that_is_read_is_bounded(tmp_path, start, piece, end):
    """30 MiB of anything: seconds, and half a gigabyte."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(packed(start + piece * ((30 << 20) // len(piece)) + end, 0))
    answer = subprocess.run([sys.executable, "-c", WORST, path], capture_output=True, text=True, timeout=60, check=True)
    kind, figures = answer.stdout.splitlines()

    assert kind == "CheckpointError"
    assert float(figures.split()[0]) < 10
    assert int(figures.split()[1]) < 512 << 10  # KiB


def test_what_is_no_file(tmp_path):
    with pytest.raises(RooflineError, match="There is no file"):
        checkpoint(tmp_path / "absent.safetensors")
    with pytest.raises(RooflineError, match="holds no checkpoint"):
        checkpoint(tmp_path)
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(RooflineError, match="holds no checkpoint"):
        checkpoint(tmp_path / "folder.safetensors")


def test_several_files_without_an_index(tmp_path):
    """Adapters are none of the model; of others the user has to choose."""
    for name in ("adapter_model", "one"):
        safetensors(tmp_path / f"{name}.safetensors", ONE)
    assert checkpoint(tmp_path).files == ("one.safetensors",)
    safetensors(tmp_path / "two.safetensors", ONE)
    refused(tmp_path, "2 safetensors files and no model.safetensors.index.json")


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(lambda name: name != "__metadata__")
TENSORS = st.dictionaries(
    NAMES, st.tuples(st.sampled_from(["F32", "BF16", "U8", "I64"]), st.tuples(st.integers(0, 5), st.integers(0, 5)))
)


@given(TENSORS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_written_is_read(tmp_path, tensors):
    """Any names, formats and lengths, empty tensors too."""
    path = tmp_path / "model.safetensors"
    size = safetensors(path, tensors)
    if not tensors:
        refused(path, "name no tensor")
        return
    found = checkpoint(path)

    assert {each.name: each.shape for each in found.tensors} == {name: shape for name, (_, shape) in tensors.items()}
    assert found.bytes == size


@given(st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_changed_byte_is_read_or_refused(tmp_path, data):
    """Never anything but an answer or one line."""
    content = bytearray(packed(header(ONE), 28))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "model.safetensors"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        checkpoint(path)
    except RooflineError as error:
        assert "\n" not in str(error)
