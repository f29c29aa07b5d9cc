"""How long a search over many plans takes: `python benchmarks/search.py`."""

from __future__ import annotations

import time

import roofline as rl
from roofline.training.plan import Cluster, Plan
from roofline.training.search import search
from roofline.training.train import Setting

CASES = ((1024, 4096, 8192), (3840, 15360, 8192), (5760, 46080, 16384))


def main() -> None:
    """Plans looked at, and seconds."""
    model = rl.Model.load("llama-3.1-70b")
    cluster = Cluster(rl.Device.load("h100-sxm"), network=50e9)
    for gpus, sequences, length in CASES:
        start = time.perf_counter()
        found = search(Setting(model, cluster, Plan(), length), gpus, sequences * length)
        print(f"{gpus:6,} GPUs: {found.looked_at:8,} plans in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
