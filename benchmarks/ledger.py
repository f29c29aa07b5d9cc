"""One ledger in process, and a whole axis: medians of several."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import roofline as rl


def median(call: Callable[[], Any], number: int, repeats: int = 15) -> float:
    return statistics.median(timeit.repeat(call, number=number, repeat=repeats)) / number


def main() -> None:
    model, device = rl.Model.load("qwen3-8b"), rl.Device.load("h100-sxm")
    workload, precision = rl.Workload.decode(64), rl.Precision()
    ledger = rl.predict(model, device, workload, precision)
    calls: dict[str, Callable[[], Any]] = {
        "ledger": lambda: rl.predict(model, device, workload, precision),
        "ledger with its totals": lambda: rl.predict(model, device, workload, precision).total,
        "the same, derated": lambda: rl.predict(model, device, workload, precision, efficiency=(0.8, 0.75)).total,
        "memory": lambda: rl.memory(ledger),
        "to_dict": ledger.to_dict,
    }
    for name, call in calls.items():
        print(f"{name:26} {1e6 * median(call, 50):8.0f} us")
    points = 16_384
    axis = rl.Workload.decode(np.linspace(1, 4096, points).round(), np.linspace(128, 131_072, points).round())
    seconds = median(lambda: rl.predict(model, device, axis, precision).total, 1, 9)
    print(f"{'16,384 settings as arrays':26} {1e3 * seconds:8.1f} ms  {points / seconds / 1e6:.2f} M settings/s")
    print(f"{'':26} {'':11}  {points * len(ledger) / seconds / 1e6:.1f} M kernel bounds/s")


if __name__ == "__main__":
    main()
