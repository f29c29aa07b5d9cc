"""A large trace, end to end to the breakdown: MB/s of JSON and peak memory, beside what decoding alone takes.

    python benchmarks/trace_reader.py TRACE [MEGABYTES] [--ours] [--runs N]

TRACE is a real one; its events are repeated, each time later and with numbers of their own, in the layout in which
Kineto writes them. Every row is a process of its own, and they take turns: the median of N rounds, three without
--runs, and CPU seconds of the round that took the fewest; with --ours the other decoders are left out. Peak memory
is the largest process's, and in brackets that of all processes together.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

MB = 1e6
NUMBERED = ("correlation", "External id", "Ev Idx")

DIAGNOSE = "import sys; from roofline.cli import main; main(['diagnose', sys.argv[1], '--json', '--processes', '{}'])"
LOADS = "import json, sys; json.loads(open(sys.argv[1], 'rb').read())"
TYPED = """
import msgspec, sys
from typing import Any
class Args(msgspec.Struct, gc=False):
    external: Any = msgspec.field(name="External id", default=None)
    correlation: Any = None
    stream: Any = None
class Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Args | None = None
class Trace(msgspec.Struct):
    traceEvents: list[Event]
msgspec.json.decode(open(sys.argv[1], "rb").read(), type=Trace)
"""


def layout(event: dict[str, Any]) -> str:
    """An event over several lines, as Kineto writes it."""
    head = {key: value for key, value in event.items() if key != "args"}
    inner = json.dumps(head)[1:-1]
    args = event.get("args")
    if args is None:
        return "  {\n    " + inner + "\n  }"
    return "  {\n    " + inner + ',\n    "args": {\n      ' + json.dumps(args)[1:-1] + "\n    }\n  }"


def repeat(source: Path, target: Path, size: float) -> None:
    """Write `size` bytes of the events of `source`, over and over."""
    data = source.read_bytes()
    whole = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    events: list[dict[str, Any]] = whole if isinstance(whole, list) else whole.pop("traceEvents")
    times = [each["ts"] for each in events if each.get("ph") == "X"]
    span = max(times) - min(times) + 1000
    numbers = max((each.get("args", {}).get(key, 0) or 0 for each in events for key in NUMBERED), default=0) + 1
    with target.open("w", encoding="utf-8") as file:
        file.write('{\n  "schemaVersion": 1,\n  "traceEvents": [\n')
        turn = 0
        while file.tell() < size:
            again = [moved(each, turn * span, turn * numbers) for each in events]
            file.write((",\n" if turn else "") + ",\n".join(map(layout, again)))
            turn += 1
        file.write('\n  ],\n  "traceName": "repeated"\n}\n')


def moved(event: dict[str, Any], later: float, more: int) -> dict[str, Any]:
    """The event of another turn."""
    event = dict(event)
    if isinstance(event.get("ts"), int | float):
        event["ts"] = round(event["ts"] + later, 3)
    if isinstance(event.get("id"), int):
        event["id"] += more
    if isinstance(event.get("args"), dict):
        args = dict(event["args"])
        event["args"] = args | {key: args[key] + more for key in NUMBERED if isinstance(args.get(key), int)}
    return event


def memory(process: int) -> dict[int, int]:
    """Peak memory of a process and of what it started [byte]."""
    found: dict[int, int] = {}
    children = subprocess.run(["pgrep", "-P", str(process)], check=False, capture_output=True, text=True).stdout.split()
    try:
        status = Path(f"/proc/{process}/status").read_text()
        found[process] = 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        pass
    for child in children:
        found |= memory(int(child))
    return found


def run(command: list[str]) -> tuple[float, float, float, float]:
    """Seconds, CPU seconds, peak memory of the largest process and of all [byte]."""
    peaks: dict[int, int] = {}
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            for each, peak in memory(process.pid).items():
                peaks[each] = max(peaks.get(each, 0), peak)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, _, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    spent = usage.ru_utime + usage.ru_stime
    return seconds, spent, max(1024 * usage.ru_maxrss, max(peaks.values(), default=0)), sum(peaks.values())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("trace", type=Path)
    parser.add_argument("megabytes", type=float, nargs="?", default=1000)
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    source, size = asked.trace, asked.megabytes * MB
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = Path(folder) / "trace.json", Path(folder) / "trace.json.gz"
        repeat(source, plain, size)
        with gzip.open(packed, "wb", 6) as file, plain.open("rb") as text:
            while block := text.read(1 << 22):
                file.write(block)
        length = plain.stat().st_size
        print(f"{length / MB:,.0f} MB of JSON, {packed.stat().st_size / MB:,.0f} MB packed")
        rows = {
            "diagnose, one process": (DIAGNOSE.format(1), plain),
            "diagnose, two processes": (DIAGNOSE.format(2), plain),
            "diagnose gzip, one process": (DIAGNOSE.format(1), packed),
            "diagnose gzip, two processes": (DIAGNOSE.format(2), packed),
            "diagnose the file repeated once": (DIAGNOSE.format(1), source),
            "typed msgspec, whole file": (TYPED, plain),
            "json.loads, whole file": (LOADS, plain),
        }
        if asked.ours:
            rows = {name: row for name, row in rows.items() if name.startswith("diagnose")}
        runs: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in rows}
        for _ in range(asked.runs):
            for name, (script, path) in rows.items():
                runs[name].append(run([sys.executable, "-c", script, str(path)]))
        for name, (_, path) in rows.items():
            seconds = statistics.median(each[0] for each in runs[name])
            spent = min(each[1] for each in runs[name])
            of = "" if path == source else f"{length / MB / seconds:5.0f} MB/s, {length / MB / spent:5.0f} MB a CPU s"
            peak, every = (max(each[at] for each in runs[name]) / MB for at in (2, 3))
            print(f"{name:32} {seconds:7.2f} s {spent:7.2f} CPU s {of:28} {peak:5.0f} MB  ({every:.0f})")


if __name__ == "__main__":
    main()
