"""Real traces, mutated: an answer or one clear line. ROUNDS a file, from a fixed seed."""

from __future__ import annotations

import gzip
import json
import os
import random

import roofline as rl

ROUNDS = int(os.environ.get("ROOFLINE_FUZZ_ROUNDS", "6"))
LARGEST = 120_000  # [byte] packed: the fault is in the kind, not in the size
TOKENS = (b"{", b"}", b"[", b"]", b",", b'"', b"\\", b"\xff", b"\x00", b"NaN", b"null", b"-", b"1e999", b"]}")


def mutated(text: bytes, rng: random.Random) -> bytes:
    found = bytearray(text)
    for _ in range(rng.randint(1, 12)):
        at, kind = rng.randrange(len(found)), rng.randrange(4)
        if kind == 0:
            found[at] = rng.randrange(256)
        elif kind == 1:
            del found[at : at + rng.randint(1, 400)]
        elif kind == 2:
            found[at:at] = rng.choice(TOKENS)
        else:
            found[at:at] = found[at : at + rng.randint(1, 2000)]
    return bytes(found)


def shuffled(text: bytes, rng: random.Random) -> bytes:
    """Sound JSON whose events have each other's arguments, or lack some."""
    whole = json.loads(text)
    events = [each for each in whole["traceEvents"] if isinstance(each, dict) and "args" in each]
    for _ in range(len(events) // 10):
        one, other = rng.choice(events), rng.choice(events)
        key = rng.choice(list(one) or ["name"])
        if rng.random() < 0.3:
            one.pop(key, None)
        elif key in other:
            one[key] = other[key]
    return json.dumps(whole).encode()


def test_real_traces_mutated(folder, tmp_path):
    answered, path, rng = 0, tmp_path / "trace.json", random.Random(11)
    for source in sorted((folder / "profiles" / "chrome").iterdir()):
        if source.stat().st_size > LARGEST:
            continue
        data = source.read_bytes()
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        for at in range(ROUNDS):
            try:
                path.write_bytes(mutated(text, rng) if at % 2 else shuffled(text, rng))
            except (ValueError, KeyError, TypeError):
                continue  # no such structure to begin with
            try:
                record = rl.diagnose(path).to_dict()
            except rl.RooflineError as error:
                assert "\n" not in str(error)
                continue
            assert sum(record["breakdown_ns"].values()) == record["window_ns"]
            json.dumps(record, allow_nan=False)
            answered += 1
    assert answered
