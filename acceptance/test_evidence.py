"""Real files of Nsight, counters and nccl-tests: read or refused in one line; totals equal an independent recount."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from roofline.cli import run
from roofline.diagnosis import diagnose
from roofline.evidence import nccl
from roofline.evidence.lines import Lines

FOLDERS = ("ncu", "nsys", "nsys_stats", "dcgm", "nccl", "nvidia_smi", "rocprof", "chakra", "memory_timeline", "invalid")
REFUSED = re.compile(r"rocprof/rocprofcompute|chakra/|memory_timeline/|dcp-metrics-included|invalid/(19|21|25|27)")


def files(folder: Path, *kinds: str) -> Iterator[Path]:
    for kind in kinds:
        yield from sorted(each for each in (folder / "profiles" / kind).iterdir() if each.is_file())


def answered(path: Path, *options: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(["diagnose", str(path), *options])
    return code, out.getvalue(), err.getvalue()


def test_every_file_is_read_or_refused(folder):
    """An answer with a verdict in text and JSON, or one clear line; nothing in the files is altered."""
    seen = 0
    for path in files(folder, *FOLDERS):
        before = path.stat().st_mtime_ns, path.stat().st_size
        code, out, err = answered(path, "--json")
        name = path.relative_to(folder / "profiles").as_posix()
        assert code == (2 if REFUSED.search(name) else 0), (name, err)
        assert err.count("\n") == (code == 2), name
        if code == 0:
            assert json.loads(out)["verdict"], name
            assert answered(path)[0] == 0, name
        else:
            assert out == "", name
        assert (path.stat().st_mtime_ns, path.stat().st_size) == before
        assert not list(path.parent.glob(path.name + "-*"))
        seen += 1
    assert seen >= 50


def test_nothing_idle_is_called_well_used(folder):
    """Files with a GPU 99 % idle say so first."""
    idle = 0
    for path in files(folder, "nsys"):
        found = json.loads(answered(path, "--json")[1])
        if found["idle_s"] > 0.9 * found["window_s"]:
            assert "idle" in found["verdict"], path.name
            idle += 1
    assert idle >= 3


def union(spans: list[tuple[int, int]]) -> int:
    total, reach = 0, -1
    for start, end in sorted(spans):
        total += max(0, end - max(start, reach))
        reach = max(reach, end)
    return total


def test_nsys_totals_by_sql(folder):
    """Kernels, their time, copies, bytes, the window and busy time of each card."""
    for path in files(folder, "nsys"):
        base = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
        counts: dict[tuple[int, str], tuple[int, int]] = {}
        for kind in ("KERNEL", "MEMCPY", "MEMSET"):
            table = f"CUPTI_ACTIVITY_KIND_{kind}"
            if base.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                for device, start, end in base.execute(f"SELECT deviceId, start, end FROM {table}"):
                    spans[device].append((start, end))
                for device, count, total in base.execute(
                    f"SELECT deviceId, count(*), sum(end - start) FROM {table} GROUP BY 1"
                ):
                    counts[device, kind] = (count, total)
        base.close()
        found = json.loads(answered(path, "--json")[1])
        device = found["device"]["number"]
        mine = spans[device]
        assert found["window_ns"] == max(end for _, end in mine) - min(start for start, _ in mine), path.name
        assert found["busy_ns"] == union(mine), path.name
        assert sum(found["breakdown_ns"].values()) == found["window_ns"], path.name
        assert found["events"]["used"]["kernel"] == sum(
            count for (_, kind), (count, _) in counts.items() if kind == "KERNEL"
        )
        total = sum(counts.get((device, kind), (0, 0))[1] for kind in ("KERNEL", "MEMCPY", "MEMSET"))
        assert sum(each["seconds"] for each in found["kernels"]) == pytest.approx(total / 1e9, rel=1e-9), path.name
        assert sum(each["calls"] for each in found["copies"]) == counts.get((device, "MEMCPY"), (0, 0))[0]


def test_rocprofv3_totals_by_json(folder):
    """Dispatches and their time, the window and busy time of the card with most of them."""
    checked = 0
    for path in files(folder, "rocprof"):
        if not path.name.endswith(".json.gz"):
            continue
        (process,) = json.loads(gzip.decompress(path.read_bytes()))["rocprofiler-sdk-tool"]
        spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for each in process["buffer_records"]["kernel_dispatch"]:
            spans[each["dispatch_info"]["agent_id"]["handle"]].append((each["start_timestamp"], each["end_timestamp"]))
        mine = max(spans.values(), key=len)
        found = json.loads(answered(path, "--json")[1])
        assert found["window_ns"] == max(end for _, end in mine) - min(start for start, _ in mine)
        assert found["busy_ns"] == union(mine)
        assert found["events"]["used"]["kernel"] == sum(map(len, spans.values()))
        assert sum(each["seconds"] for each in found["kernels"]) == pytest.approx(
            sum(end - start for start, end in mine) / 1e9, rel=1e-9
        )
        checked += 1
    assert checked


def rows(path: Path) -> list[dict[str, str]]:
    text = path.read_text("utf-8-sig", "replace").splitlines()
    head = next(at for at, line in enumerate(text) if line.startswith('"ID"'))
    return list(csv.DictReader(line for line in text[head:] if line.startswith('"')))


def test_ncu_totals_by_csv(folder):
    """Times and bytes of each launch as the rows say them."""
    checked = 0
    for path in files(folder, "ncu"):
        if path.suffix != ".csv":
            continue
        values: dict[str, float] = defaultdict(float)
        for row in rows(path):
            value = float(row["Metric Value"].replace(",", ""))
            values["bytes"] += value if row["Metric Name"].startswith("dram__bytes") else 0
            values["ns"] += value if row["Metric Name"] == "gpu__time_duration.sum" else 0
        (kernel,) = json.loads(answered(path, "--json")[1])["kernels"]
        assert kernel["bytes"] == pytest.approx(values["bytes"], rel=1e-12)
        assert kernel["seconds"] == pytest.approx(values["ns"] / 1e9, rel=1e-12)
        checked += 1
    assert checked >= 4


def test_ncu_shares_are_those_of_its_cycles(folder):
    """Active over elapsed cycles of the memory are the tool's percentage, within 1 %, and so is a bound of it."""
    path = folder / "profiles" / "ncu" / "superbench__cublaslt_ncu.log"
    values = {
        row["Metric Name"]: float(row["Metric Value"])
        for row in rows(path)
        if row["Metric Unit"] in ("cycle", "hz", "ns")
    }
    elapsed = values["Duration"] / 1e9 * values["DRAM Frequency"]
    found = json.loads(answered(path, "--json", "--device", "gb200")[1])
    (kernel,) = found["kernels"]

    assert values["Average DRAM Active Cycles"] / elapsed == pytest.approx(
        kernel["tool_shares"]["dram_share"], rel=0.01
    )
    assert kernel["dram_share"] == pytest.approx(kernel["tool_shares"]["dram_share"], rel=0.01)
    assert kernel["of_bound"] == pytest.approx(kernel["tool_shares"]["dram_share"], rel=0.01)


def test_nsys_stats_totals(folder):
    """Kernel and API time by the numbers in the tables."""
    for path in files(folder, "nsys_stats"):
        text = path.read_text("utf-8", "replace")
        part = text.partition("'cuda_gpu_kern_sum'")[2].partition("Executing")[0]
        totals = [int(match[1]) for match in re.finditer(r"^\s+[\d.]+\s+(\d+)\s+\d+\s+[\d.]+\s", part, re.MULTILINE)]
        found = json.loads(answered(path, "--json")[1])
        assert found["measured_s"] == pytest.approx(sum(totals) / 1e9, rel=1e-12)
        assert len(found["kernels"]) == len(totals)


def test_nccl_columns_are_recomputed(folder):
    """algbw and busbw of size and time are the log's columns, to their digits; the mean is the log's average."""
    checked = 0
    for path in files(folder, "nccl"):
        found = diagnose(path)
        raw = nccl.read(Lines([path.read_bytes()]))
        for run_, each in zip(raw.runs, found.rows, strict=True):
            assert each.disagree == 0, path.name
            timings = [half for row in run_.rows for half in (row.outside, row.inside) if half is not None]
            assert sum(half.busbw for half in timings) / len(timings) == pytest.approx(run_.average, rel=2e-3), (
                path.name
            )
            checked += len(timings)
    assert checked > 300


def test_nccl_rows_by_hand(folder):
    """As many sizes as the old logs have lines of numbers."""
    for path in files(folder, "nccl"):
        if path.name.startswith("superbench"):
            lines = re.findall(r"^ +\d+ +\d+ +float .*$", path.read_text(), re.MULTILINE)
            assert len(diagnose(path).rows[0].rows) == len(lines), path.name


def test_smi_means(folder):
    """Busy share and power of the load of a capture, by its lines."""
    path = folder / "profiles" / "nvidia_smi" / "smi__linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt"
    (card,) = json.loads(answered(path, "--json")[1])["cards"]

    assert card["device"] == "h100-sxm"
    assert card["samples"] == 12  # twice five lines of dmon and one of --query-gpu
    assert card["states"] == {"idle": 0.5, "busy": 0.5}


def measured(path: Path) -> dict[str, Any]:
    return json.loads(answered(path, "--json")[1])


def test_exporter_text_in_documentation(folder):
    """NVIDIA's own sample: tensor pipe .929, memory .691: it computes."""
    cards = measured(folder / "profiles" / "dcgm" / "nvidia_docs__dcgm-exporter.rst")["cards"]
    full = next(each for each in cards if each["counters"].get("tensor_active") == 0.92926)

    assert full["state"] == "compute"
    assert full["counters"]["dram_active"] == 0.690789
