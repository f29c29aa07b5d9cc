"""Time and peak memory of a large Nsight Systems export, from the file to the diagnosis.

    python benchmarks/nsys_reader.py EXPORT.sqlite [GIGABYTES]

The export's kernels, copies, calls and ranges are repeated one after another until the file has that size.
"""

from __future__ import annotations

import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "NVTX_EVENTS",
)


def repeated(small: Path, large: Path, size: int) -> int:
    """Repeat the rows of `small` in `large` up to `size` bytes; how often that is."""
    shutil.copyfile(small, large)
    base = sqlite3.connect(large)
    base.execute("PRAGMA synchronous = OFF")
    base.execute("PRAGMA journal_mode = OFF")
    columns = {table: [row[1] for row in base.execute(f'PRAGMA table_info("{table}")')] for table in TABLES}
    columns = {table: names for table, names in columns.items() if names}
    ends = [base.execute(f"SELECT min(start), max(end), max(rowid) FROM {table}").fetchone() for table in columns]
    span = 1 + max(end for _, end, _ in ends if end) - min(start for start, _, _ in ends if start is not None)
    calls = (
        1
        + base.execute("SELECT max(correlationId) - min(correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()[0]
    )
    times = 1
    while large.stat().st_size < size:
        later = {"start": times * span, "end": times * span, "correlationId": times * calls}
        for (table, names), (_, _, rows) in zip(columns.items(), ends, strict=True):
            moved = ", ".join(f'"{each}" + {later[each]}' if each in later else f'"{each}"' for each in names)
            base.execute(f"INSERT INTO {table} SELECT {moved} FROM {table} WHERE rowid <= {rows}")
        base.commit()
        times += 1
    base.close()
    return times


SCRIPT = """
import resource, sys, time
began = time.perf_counter()
from roofline.diagnosis import diagnose
found = diagnose(sys.argv[1])
taken, busy = time.perf_counter() - began, time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"{taken:.2f} s, {busy:.2f} s of CPU, peak {peak:.0f} MB, {found.counts.read:,} rows: {found.verdict}")
"""


def main() -> None:
    small = Path(sys.argv[1])
    size = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.sqlite"
        began = time.perf_counter()
        times = repeated(small, large, int(size * 1e9))
        made = time.perf_counter() - began
        print(f"made {large.stat().st_size / 1e9:.3f} GB, {times} times {small.name}, in {made:.0f} s")
        subprocess.run([sys.executable, "-c", SCRIPT, str(large)], check=True)
        print(f"peak of all {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
