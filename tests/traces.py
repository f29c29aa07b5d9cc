"""Small traces of our own making, as a profiler would write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

US = 1_000.0  # the first event, in microseconds


def event(cat: str, name: str, ts: float, dur: float, **more: Any) -> dict[str, Any]:
    """One complete event; `args` and other keys as given."""
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, **more}


def kernel(name: str, ts: float, dur: float, correlation: int, stream: int = 7, **args: Any) -> dict[str, Any]:
    found = {"device": 0, "stream": stream, "correlation": correlation, **args}
    return event("kernel", name, ts, dur, pid=0, tid=stream, args=found)


def launch(
    ts: float, correlation: int, dur: float = 5.0, name: str = "cudaLaunchKernel", **more: Any
) -> dict[str, Any]:
    return event("cuda_runtime", name, ts, dur, args={"correlation": correlation}, **more)


def op(name: str, ts: float, dur: float, external: int, **args: Any) -> dict[str, Any]:
    return event("cpu_op", name, ts, dur, args={"External id": external, **args})


def trace(*events: Any, **beside: Any) -> dict[str, Any]:
    card = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936, "numSms": 132}
    return {"schemaVersion": 1, "deviceProperties": [card], "traceEvents": list(events), **beside}


def small(**beside: Any) -> dict[str, Any]:
    """Two GEMMs and an all-reduce that hides half of itself; 100 us with a gap of 20.

    us    1000      1040  1060  1080      1100
    gemm  [---------)     [-----)
    nccl                        [---------) of which none is hidden
    idle            [-----)
    """
    return trace(
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}},
        op("aten::linear", 980, 60, 1),
        op("aten::mm", 985, 30, 2, **{"Input Dims": [[8, 16], [16, 32]], "Input type": ["float", "float"]}),
        launch(990, 11),
        op("aten::mm", 1050, 15, 3, **{"Input Dims": [[8, 16], [16, 32]], "Input type": ["float", "float"]}),
        launch(1052, 12),
        op("record_param_comms", 1066, 9, 4, **{"Collective name": "allreduce", "In msg nelems": 5}),
        launch(1070, 13),
        {"ph": "s", "id": 11, "pid": 1, "tid": 1, "ts": 990, "cat": "ac2g", "name": "ac2g"},
        kernel("ampere_sgemm_128x64_tn", 1000, 40, 11, **{"External id": 2}),
        kernel("ampere_sgemm_128x64_tn", 1060, 20, 12, **{"External id": 3}),
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 1080, 20, 13, 20, **{"External id": 4}),
        **beside,
    )


def write(folder: Path, content: Any, name: str = "trace.json") -> Path:
    """A file with this content: text and bytes as they are, else as JSON."""
    path = folder / name
    data = content if isinstance(content, bytes) else content if isinstance(content, str) else json.dumps(content)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path
