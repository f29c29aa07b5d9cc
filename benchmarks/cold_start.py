"""Wall time of whole processes, side by side in one run: median of several, and the spread."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOFLINE = str(Path(sys.executable).parent / "roofline")
PREDICT = [ROOFLINE, "predict", "qwen3-8b", "--device", "h100-sxm"]
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "roofline predict": PREDICT,
    "roofline predict --json": [*PREDICT, "--json"],
    "roofline --help": [ROOFLINE, "--help"],
    "roofline devices": [ROOFLINE, "devices"],
}


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main(runs: int = 15) -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        for name, command in COMMANDS.items():
            times[name].append(seconds(command))
    for name, each in times.items():
        print(f"{name:26} {1e3 * statistics.median(each):6.0f} ms  ({1e3 * min(each):.0f} to {1e3 * max(each):.0f})")


if __name__ == "__main__":
    main()
