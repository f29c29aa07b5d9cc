"""Files without a timeline through the command line: text, JSON, refusals."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import jsonschema
import pytest

from roofline.show.schema import schema

NCU = """"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","1","a","h","sgemm(int)","1","7","(256, 1, 1)","(4, 1, 1)","0","9.0","S","gpu__time_duration.sum","ns","100,000"
"0","1","a","h","sgemm(int)","1","7","(256, 1, 1)","(4, 1, 1)","0","9.0","S","dram__bytes.sum","Mbyte","251.424"
"0","1","a","h","sgemm(int)","1","7","(256, 1, 1)","(4, 1, 1)","0","9.0","S","sm__throughput.avg.pct_of_peak_sustained_elapsed","%","20"
"""
NCCL = """# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 8 maxBytes 128M step: 2(factor)
#  Rank  0 Group  0 Pid  1 on h device  0 [0000:17:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  1 on h device  1 [0000:65:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
  8388608 2097152 float sum -1 83.33 100.67 100.67 0 80.98 103.59 103.59 0
 16777216 4194304 float sum -1 128.3 130.77 130.77 0 127.0 132.10 132.10 0
 33554432 8388608 float sum -1 223.1 150.40 150.40 0 220.4 152.24 152.24 0
"""
SMI = "# gpu    pwr     sm    mem\n# Idx      W      %      %\n    0     70      0      0\n    0     70      0      0\n"
BENCH = json.dumps({
    "model_id": "Qwen/Qwen3-8B", "max_concurrency": 64, "duration": 50.0, "completed": 200, "total_input_tokens": 204_800,
    "total_output_tokens": 25_600, "request_rate": float("inf"), "request_throughput": 4.0, "output_throughput": 512.0,
})  # fmt: skip
TITAN = "[titan] INFO - step: 1  loss: 7  tps: 6,201  tflops: 312.10  mfu: 31.55%\n"
STATS = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n100,2000,2,1,1,1,1,0,sgemm\n"
FILES = {"ncu": NCU, "nccl": NCCL, "smi": SMI, "bench": BENCH, "titan": TITAN, "stats": STATS}


@pytest.fixture
def write(tmp_path: Path):
    def put(text: str | bytes, name: str = "file") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return put


@pytest.mark.parametrize("name", FILES)
def test_each_kind(roofline, write, name):
    """Told by its content; the JSON follows its schema; a terminal of 80 columns."""
    path = write(FILES[name])
    answer = roofline("diagnose", path, "--device", "h100-sxm", "--model", "qwen3-8b", "--json")
    assert answer.code == 0, answer.err
    jsonschema.validate(answer.json, schema("assessment-1"))
    for key in (
        "device",
        "window_s",
        "busy_s",
        "idle_s",
        "breakdown",
        "kernels",
        "coverage",
        "findings",
        "verdict",
        "warnings",
    ):
        assert key in answer.json

    text = roofline("diagnose", path, "--device", "h100-sxm").out
    assert answer.json["verdict"].split()[0] in text
    assert max(len(line) for line in text.splitlines() if str(path) not in line) <= 80


def test_kernels(roofline, write):
    """251.4 MB in 100 us are three quarters of an H100's bandwidth."""
    (kernel,) = roofline("diagnose", write(NCU), "--device", "h100-sxm", "--json").json["kernels"]

    assert kernel["of_bound"] == pytest.approx(0.75, rel=1e-3)
    assert (kernel["cost_from"], kernel["traffic"], kernel["category"], kernel["bound"]) == (
        "counters",
        "dram",
        "gemm",
        "memory",
    )


def test_sums_have_shares(roofline, write):
    """What is known of kernels by their sums: how the time divides, also behind a report without kernels."""
    beside = "Total (MB),Count,Avg (MB),Operation\n90.0,3,30.0,[CUDA memcpy HtoD]\n\n"
    found = roofline("diagnose", write(beside + STATS.rstrip() + "\n300,6000,1,1,1,1,1,0,flash_fwd\n"))

    assert "75.0 %  attention" in found.out


def test_wrapped_files(roofline, write):
    """Packed, and in UTF-16 as PowerShell writes."""
    assert roofline("diagnose", write(gzip.compress(NCCL.encode())), "--json").json["kind"] == "collectives"
    assert roofline("diagnose", write(NCU.encode("utf-16")), "--json").json["kind"] == "kernels"


def test_idle_cards_are_called_idle(roofline, write):
    """No kernel ran: nothing is said of memory or arithmetic."""
    found = roofline("diagnose", write(SMI), "--json").json

    assert found["cards"][0]["state"] == "idle"
    assert [each["rule"] for each in found["findings"]] == ["idle"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello, world\n", "in no format that is read"),
        (NCU.splitlines()[0], "without a launch"),
        ("Dispatch_ID,Kernel_Name,GPU_ID,Grid_Size\n0,k,1,64\n", "rocprof-compute"),
        ("device,HBMBw,HBMBwLow\n0,1388.7,1\n", "rocprof-compute"),
        ('{"rocprofiler-sdk-tool": [{"metadata": {}}]}', "rocprofv3"),
        ("[[-1, 1, 37888, 7], [-1, 1, 512, 7]]", "memory timeline"),
        (b"NVR\0report", "ncu --import"),
        (b"\x00\x01\x02" * 100, "in no format that is read"),
        ("", "is empty"),
        ("Total (MB),Count,Avg (MB),Operation\n90.0,3,30.0,[CUDA memcpy HtoD]\n", "cuda_gpu_kern_sum"),
        ("NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Kernel Name\n:f,a,1,1,3,3,6000,k\n", "kern_sum"),
        ('[{"Start (ns)": 1, "Duration (ns)": 5, "Name": "k"}]', "nsys export --type sqlite"),
        ('{"Id":1}\n{"Type":48,"CudaEvent":{"startNs":"1"}}\n', "nsys export --type sqlite"),
        ("+---+\n| NVIDIA-SMI 590.48  Driver Version: 590.48 |\n", "nvidia-smi dmon"),
        ("# gpu   pid  type    sm   mem\n    0   1     C    9    1\n", "nvidia-smi dmon"),
        ("2026/05/01 12:00:00.123, NVIDIA H100, 98 %, 634.00 W\n", "noheader"),
        ("== ROCm System Management Interface ==\n", "rocm-smi"),
        ('{"workload_graph": [{"Id": 216, "Name": "aten::add"}]}', "Chakra"),
        (b"\x89HDF\r\n\x1a\n", "HDF5, Arrow or Parquet"),
    ],
)
def test_refusals(roofline, write, text, said):
    """What it is and what to do, in one line."""
    answer = roofline("diagnose", write(text))

    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert answer.err.count("\n") == 1


def test_names_are_data(roofline, write):
    """Markup and control characters of a kernel's name do nothing."""
    answer = roofline("diagnose", write(NCU.replace("sgemm", "[bold]\x07k\u202e[/bold]")))

    assert answer.code == 0
    assert "\x07" not in answer.out
    assert "\u202e" not in answer.out


@pytest.mark.parametrize("seed", range(60))
def test_mutated_files(roofline, write, seed):
    """Bytes changed, cut, doubled: an answer or one clear line, never a traceback."""
    import random

    chance = random.Random(seed)
    data = bytearray(list(FILES.values())[seed % len(FILES)].encode())
    for _ in range(chance.randrange(1, 40)):
        at = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randrange(1, 30)]
            case 2:
                data[at:at] = data[chance.randrange(len(data)) :][:40]
            case _:
                data[at:at] = str(chance.randrange(10**25)).encode()
        data = data or bytearray(b"x")
    answer = roofline("diagnose", write(bytes(data)), "--json")

    assert answer.code in (0, 2)
    assert answer.err.count("\n") == (answer.code == 2)


def test_a_log_as_the_bandwidth_of_a_training_step(roofline, write):
    """--busbw takes the log: that of its largest all-reduce, by the shorter of its timings."""
    busbw = 33_554_432 / 220.4e-6
    by_log = roofline("collective", "all-reduce", "1GB", "--ranks", 8, "--busbw", write(NCCL), "--json")
    by_hand = roofline("collective", "all-reduce", "1GB", "--ranks", 8, "--busbw", f"{busbw}B/s", "--json")

    assert by_log.json["seconds"] == pytest.approx(by_hand.json["seconds"], rel=1e-9)
    other = roofline("collective", "all-reduce", "1GB", "--ranks", 8, "--busbw", write(SMI, "other"))
    assert (other.code, other.out) == (2, "")
    assert "no log of nccl-tests" in other.err
    assert "is not a quantity" in roofline("collective", "all-reduce", "1GB", "--ranks", 8, "--busbw", "fast").err


def test_a_report_where_its_module_is_installed(roofline, write, monkeypatch):
    """NVIDIA's `ncu_report` reads the tool's own format; its faults are one line."""
    import sys
    from types import SimpleNamespace as Of

    metric = Of(value=lambda: 2000, unit=lambda: "ns")
    action = Of(name=lambda: "k", metric_names=lambda: ["gpu__time_duration.sum"], metric_by_name=lambda _: metric)
    each = Of(num_actions=lambda: 1, action_by_idx=lambda _: action)
    monkeypatch.setitem(
        sys.modules, "ncu_report", Of(load_report=lambda _: Of(num_ranges=lambda: 1, range_by_idx=lambda _: each))
    )
    path = write(b"NVR\0report", "k.ncu-rep")
    assert roofline("diagnose", path, "--json").json["measured_s"] == pytest.approx(2e-6)

    def broken(_: str) -> None:
        raise RuntimeError("bad\nversion")

    monkeypatch.setitem(sys.modules, "ncu_report", Of(load_report=broken))
    answer = roofline("diagnose", path)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "cannot be read by ncu_report: bad version" in answer.err


def test_many_rows_in_a_terminal(roofline, write):
    """A table shows the first; the JSON has all; several findings are counted."""
    head, *rows = NCU.splitlines()
    many = "\n".join(
        [head, *(row.replace('"0","1"', f'"{n}","1"').replace("sgemm", f"sgemm{n}") for n in range(30) for row in rows)]
    )
    low = many + "\n" + "\n".join(
        row.replace('"0","1"', f'"{n}","1"').replace("sgemm", f"sgemm{n}").replace("sm__throughput", "dram__throughput")
        for n in range(30) for row in rows[2:]
    )  # fmt: skip
    text = roofline("diagnose", write(low)).out
    found = roofline("diagnose", write(low), "--json").json

    assert "16 more: --json has them." in text
    assert "24 more findings: --json has them." in text
    assert len(found["kernels"]) == 30
    fleet = "".join(f'DCGM_FI_PROF_DRAM_ACTIVE{{gpu="{n}"}} 0.9\n' for n in range(70))
    assert "6 more: --json has them." in roofline("diagnose", write(fleet)).out


def test_two_nodes(roofline, write):
    """The link between nodes is not known, and that is said."""
    log = NCCL.replace("device  1", "device  0").replace("on h device  0 [0000:65", "on g device  0 [0000:65")
    assert "2 nodes of 1 ranks" in roofline("diagnose", write(log)).out


def test_the_bytes_of_known_shapes(roofline, write):
    """A copy of 100 MB reads and writes 200; 251 were measured."""
    path = write(NCU)
    (kernel,) = roofline("diagnose", path, "--device", "h100-sxm", "--work", "copy n=100M", "--json").json["kernels"]
    assert kernel["reread"] == pytest.approx(251.424 / 200)
    assert "1.26x" in roofline("diagnose", path, "--device", "h100-sxm", "--work", "copy n=100M").out
    assert roofline("diagnose", path, "--work", "matmul m=1").code == 2
    assert roofline("diagnose", path, "--work", "").code == 2
