"""Mutated traces, in bytes and in structure: an answer or one clear line, no traceback, no hang, no growth.

ROUNDS of each kind, from a fixed seed; more with the environment variable ROOFLINE_FUZZ_ROUNDS.
"""

from __future__ import annotations

import copy
import gzip
import json
import os
import random
import resource

import pytest

import roofline as rl
from limits import no_hang
from roofline.trace.readers import chrome, source
from traces import event, kernel, launch, op, small, trace

ROUNDS = int(os.environ.get("ROOFLINE_FUZZ_ROUNDS", "100"))
ODD = (
    None, True, -1, 0, 1 << 63, -(1 << 70), 10**400, 1e308, "", "x", "stream 7", "\u0000", "9" * 40, [], [[]], {},
    {"a": [1]}, [1, "2", None], "1e999", "NaN", "\ud800",
)  # fmt: skip
TOKENS = (
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\n", b"\xff", b"\x00", b"NaN", b"-", b"null", b"}, {", b"]}",
    b"1e999", b"\\u", b'"ph": "X"', b'"traceEvents": [',
)  # fmt: skip


def seed_trace() -> dict[str, object]:
    extra = [
        event("user_annotation", "ProfilerStep#1", 970, 200),
        event("user_annotation", "execute_3_context_1(sq1sk2sqsq1sqsk2)_generation_2(sq2sk9sqsq2sqsk9)", 971, 90),
        event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 1101, 4, args={"device": 0, "stream": 7, "bytes": 64}),
        event("python_function", "nn.Module: Linear_0", 975, 80),
        op("enumerate(DataLoader)#x", 1102, 6, 9),
        launch(1110, 14, name="cudaGraphLaunch"),
        kernel("_ZN7ck_tile6kentryILi1ENS_13FmhaFwdKernelE", 1120, 4, 14),
    ]
    return trace(*small()["traceEvents"], *extra, distributedInfo={"rank": 0, "world_size": 2}, baseTimeNanoseconds=17)


def bytes_mutated(rng: random.Random) -> bytes:
    """The text with bytes flipped, removed, repeated or put in."""
    text = bytearray(json.dumps(seed_trace(), indent=rng.choice((None, 2))).encode())
    for _ in range(rng.randint(1, 6)):
        if not text:
            break
        at, kind = rng.randrange(len(text)), rng.randrange(5)
        if kind == 0:
            text[at] = rng.randrange(256)
        elif kind == 1:
            del text[at : at + rng.randint(1, 60)]
        elif kind == 2:
            text[at:at] = rng.choice(TOKENS)
        elif kind == 3:
            text[at:at] = text[at : at + rng.randint(1, 300)]
        else:
            del text[max(at, 40) :]
    return bytes(text) or b"x"


def values(node: object) -> list[tuple[object, object]]:
    """Every place of a structure: what it is in, and its key."""
    found: list[tuple[object, object]] = []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        found.append((node, key))
        found += values(value)
    return found


def structure_mutated(rng: random.Random) -> bytes:
    """Sound JSON with values of other types, missing, repeated or moved."""
    whole = copy.deepcopy(seed_trace())
    for _ in range(rng.randint(1, 8)):
        holder, key = rng.choice(values(whole))
        kind = rng.randrange(4)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, list):
            holder.insert(rng.randint(0, len(holder)), copy.deepcopy(holder[key]))
        elif kind == 2:
            other, place = rng.choice(values(whole))
            holder[key] = copy.deepcopy(other[place])
        else:
            holder[key] = copy.deepcopy(rng.choice(ODD))
        if not whole:
            break
    return json.dumps(whole).encode()


def packed_mutated(rng: random.Random) -> bytes:
    """A packed file with bytes flipped or cut."""
    packed = bytearray(gzip.compress(json.dumps(seed_trace()).encode(), rng.choice((0, 6))))
    for _ in range(rng.randint(1, 3)):
        packed[rng.randrange(len(packed))] = rng.randrange(256)
    return bytes(packed[: rng.randint(1, len(packed))]) if rng.random() < 0.5 else bytes(packed)


@pytest.mark.parametrize("mutate", [bytes_mutated, structure_mutated, packed_mutated])
def test_an_answer_or_one_clear_line(mutate, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BLOCK", 700)
    monkeypatch.setattr(source, "HEAD", 700)
    monkeypatch.setattr(chrome, "_PIECE", 700)
    rng, path = random.Random(7), tmp_path / "trace"
    answered = 0
    path.write_text(json.dumps(seed_trace()))
    rl.diagnose(path)  # what is imported and cached once is no growth
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(ROUNDS):
        path.write_bytes(mutate(rng))
        with no_hang(10):
            try:
                record = rl.diagnose(path).to_dict()
            except rl.RooflineError as error:
                assert "\n" not in str(error)
                continue
        counts = record["events"]
        assert sum(counts["used"].values()) + sum(counts["left_out"].values()) == counts["read"]
        assert sum(record["breakdown_ns"].values()) == record["window_ns"]
        assert sum(each["nanoseconds"] for each in record["idle_causes"]) == record["idle_ns"]
        json.dumps(record, allow_nan=False)
        answered += 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # KiB
    assert answered > ROUNDS // 20
