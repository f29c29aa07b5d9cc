"""Timelines as tables, and rocprofv3's JSON: activities without a host."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from roofline.diagnosis import diagnose
from roofline.diagnosis.opening import open_profile
from roofline.errors import TraceError
from roofline.trace.events import COPY, KERNEL, NONE, SET, Trace

NSYS = """
NOTICE: Existing SQLite export found: x.sqlite

Processing [x.sqlite] with [cuda_gpu_trace.py]...
Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name
9961685,2707098,67,1,1,2304,128,1,1,160,0.000,0.025,,,,,NVIDIA A100-SXM4-80GB (0),1,,7,"void gemm<float, 1>(int)"
9695093,265888,65,,,,,,,,,,33.554,12000,Pageable,Device,NVIDIA A100-SXM4-80GB (0),1,,7,[CUDA memcpy Host-to-Device]
9000000,100,64,,,,,,,,,,0.001,10,,Device,NVIDIA A100-SXM4-80GB (0),1,,7,[CUDA memset]
"""
NVPROF = """==12== NVPROF is profiling process 12, command: ./a
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name"
s,us,,,,,,,,KB,B,MB,GB/s,,,,,,
0.5,2.5,,,,,,,,,,1.0,0.4,"Pageable","Device","Tesla V100 (0)","1","7","[CUDA memcpy HtoD]"
0.6,10.0,1,1,1,256,1,1,32,0,0,,,,,"Tesla V100 (0)","1","7","sgemm(float*)"
"""
ROCPROF = """"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size"
"KERNEL_DISPATCH","Agent 5",1,3,70,1,33,"Cijk_Ailk_Bljk_BBS(float*, int)",119662,1763021218530103933,1763021218530108687,0
"KERNEL_DISPATCH","Agent 5",1,3,70,2,16,"hot_kernel",119670,1763021218530110000,1763021218530120000,0
"""
OLD_ROCPROF = (
    "Kind,Agent_Id,Queue_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n"
    "KERNEL_DISPATCH,4,139690710949888,15,matrixTranspose,0,671599758568,671599825328\n"
)
ROCPROF_COPIES = (
    '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE","Agent 0","Agent 2",1,100,300\n'
    '"MEMORY_COPY","DEVICE_TO_HOST","Agent 2","Agent 0",2,400,500\n'
)
ROCPROF_1 = '"Index","KernelName","gpu-id","queue-id","BeginNs","EndNs","DurationNs"\n0,"vecadd",0,1,100,250,150\n'


def read(tmp_path: Path, text: str, encoding: str = "utf-8") -> Trace:
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode(encoding))
    found = open_profile(path)
    assert isinstance(found, Trace)
    return found


def test_nsys_stats_as_csv(tmp_path):
    """In order of time, with kinds, bytes, and the card's name and number."""
    found = read(tmp_path, NSYS)

    assert found.gpu.start.tolist() == [9000000, 9695093, 9961685]
    assert found.gpu.duration.tolist() == [100, 265888, 2707098]
    assert found.gpu.kind.tolist() == [SET, COPY, KERNEL]
    assert found.gpu.moved.tolist() == [1000, 33554000, -1]
    assert [found.names[each] for each in found.gpu.name][1:] == [
        "Memcpy HtoD (Pageable -> Device)",
        "void gemm<float, 1>(int)",
    ]
    assert [(each.number, each.name) for each in found.cards] == [(0, "NVIDIA A100-SXM4-80GB")]
    assert diagnose(tmp_path / "a.csv").to_dict()["device"]["id"] == "a100-sxm-80gb"


@pytest.mark.parametrize("change", [("\n", "\r\n"), (",", "\t"), ("Start (ns)", "\ufeffStart (ns)")])
def test_it_as_other_machines_write_it(tmp_path, change):
    """Line ends, separators and marks of the encoding do not matter."""
    text = NSYS.replace('"void gemm<float, 1>(int)"', "gemm")
    assert read(tmp_path, text.replace(*change)).gpu.duration.sum() == 100 + 265888 + 2707098


def test_it_in_utf_16(tmp_path):
    """As PowerShell writes what it is given."""
    assert len(read(tmp_path, NSYS, "utf-16").gpu) == 3


def test_nvprof(tmp_path):
    """Units stand in the row below the head."""
    found = read(tmp_path, NVPROF)

    assert found.gpu.start.tolist() == [500_000_000, 600_000_000]
    assert found.gpu.duration.tolist() == [2500, 10000]
    assert found.gpu.moved.tolist() == [1_000_000, -1]


def test_rocprofv3(tmp_path):
    """Times of nineteen digits to the nanosecond; the agent is the device."""
    found = read(tmp_path, ROCPROF)

    assert found.gpu.start.tolist() == [1763021218530103933, 1763021218530110000]
    assert found.gpu.duration.tolist() == [4754, 10000]
    assert found.gpu.device.tolist() == [5, 5]
    assert found.gpu.stream.tolist() == [3, 3]
    assert read(tmp_path, OLD_ROCPROF).gpu.duration.tolist() == [66760]
    assert read(tmp_path, ROCPROF_1).gpu.duration.tolist() == [150]


def test_copies_of_rocprofv3(tmp_path):
    """By their direction."""
    found = read(tmp_path, ROCPROF_COPIES)

    assert [found.names[each] for each in found.gpu.name] == ["Memcpy HtoD", "Memcpy DtoH"]


def test_rows_that_cannot_have_been(tmp_path):
    """Counted and left out; what the program printed in between is no row."""
    text = ROCPROF_1 + '1,"a",0,1,300,200,0\nhello world\n2,"b",0,1,nan,inf,0\n3,"c",0,1,-5,9,0\n'
    found = read(tmp_path, text)

    assert len(found.gpu) == 1
    assert found.counts.left_out == {"rows that end before they start or have no time": 3}


def test_a_head_alone(tmp_path):
    with pytest.raises(TraceError, match="no row below it"):
        read(tmp_path, ROCPROF_1.splitlines()[0] + "\n")


def rocprof(**buffers: Any) -> dict[str, Any]:
    """A file of rocprofv3 with one process, two cards and these records."""
    return {
        "rocprofiler-sdk-tool": [
            {
                "metadata": {"pid": 908},
                "agents": [
                    {"id": {"handle": 100}, "type": 1, "name": "AMD EPYC"},
                    {"id": {"handle": 101}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X", "cu_count": 304},
                    {"id": {"handle": 102}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X", "cu_count": 304},
                ],
                "strings": {"buffer_records": [{"kind": "NONE", "operations": []}, {"kind": "HIP", "operations": ["x", "hipLaunchKernel"]}]},
                "kernel_symbols": [{"kernel_id": 8, "formatted_kernel_name": "Cijk_Ailk", "kernel_name": "Cijk_Ailk.kd"}],
                "buffer_records": buffers,
            }
        ]
    }  # fmt: skip


def dispatch(start: int, end: int, agent: int = 102, number: int = 1) -> dict[str, Any]:
    return {
        "start_timestamp": start, "end_timestamp": end, "correlation_id": {"internal": number, "external": 0},
        "dispatch_info": {"agent_id": {"handle": agent}, "queue_id": {"handle": 16}, "kernel_id": 8},
    }  # fmt: skip


def test_rocprofv3s_json(tmp_path):
    """Kernels by their symbols on their card, copies by the agents at their ends, calls by their operation."""
    path = tmp_path / "results.json.gz"
    call = {"start_timestamp": 50, "end_timestamp": 60, "kind": 1, "operation": 1, "thread_id": 7, "correlation_id": {"internal": 1}}  # fmt: skip
    copy = {"start_timestamp": 300, "end_timestamp": 350, "src_agent_id": {"handle": 100}, "dst_agent_id": {"handle": 102}, "bytes": 64}  # fmt: skip
    data = rocprof(kernel_dispatch=[dispatch(100, 200), dispatch(9, 5)], memory_copy=[copy], hip_api=[call])
    path.write_bytes(gzip.compress(json.dumps(data).encode()))
    found = open_profile(path)

    assert isinstance(found, Trace)
    assert found.gpu.start.tolist() == [100, 300]
    assert found.gpu.device.tolist() == [1, 1]
    assert [found.names[each] for each in found.gpu.name] == ["Cijk_Ailk", "Memcpy HtoD"]
    assert [found.names[each] for each in found.calls.name] == ["hipLaunchKernel"]
    assert found.counts.left_out == {"events that end before they start or have no time": 1}
    record = diagnose(path).to_dict()
    assert record["launches"]["linked"] == 1
    assert record["device"]["id"] == "mi300x"


def test_handles_and_numbers_of_64_bits_in_rocprofv3s_json(tmp_path):
    """Queues are numbered as they come; what is no number of the file is absent."""
    far = (1 << 64) - 1
    kernels = [dispatch(start, start + 5, number=number) for start, number in ((100, far), (200, 7), (300, 8))]
    for each, queue in zip(kernels, (1 << 63, far, 1 << 63), strict=True):
        each["dispatch_info"]["queue_id"]["handle"] = queue
    copy = {"start_timestamp": 400, "end_timestamp": 450, "bytes": far, "stream_id": {"handle": far - 1}}
    call = {"start_timestamp": 50, "end_timestamp": 60, "thread_id": far, "correlation_id": {"internal": far}}
    path = tmp_path / "results.json"
    path.write_text(json.dumps(rocprof(kernel_dispatch=kernels, memory_copy=[copy], hip_api=[call])))
    found = open_profile(path)

    assert isinstance(found, Trace)
    assert found.gpu.stream.tolist() == [0, 1, 0, 2]
    assert found.gpu.correlation.tolist() == [NONE, 7, 8, NONE]
    assert found.gpu.moved.tolist() == [NONE] * 4
    assert found.calls.number.tolist() == [NONE]


@pytest.mark.parametrize("text", ['{"rocprofiler-sdk-tool": [', '{"rocprofiler-sdk-tool": [{"buffer_records": {}}]}', '{"rocprofiler-sdk-tool": 5}'])  # fmt: skip
def test_rocprofv3s_json_without_kernels(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(TraceError) as caught:
        open_profile(path)
    assert "rocprofv3" in str(caught.value)
    assert "\n" not in str(caught.value)


OTHERS = {
    "rocpd": "CREATE TABLE rocpd_kernel_dispatch_0000 (id, start, end)",
    "nvprof": "CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (start, end)",
}


@pytest.mark.parametrize("name", OTHERS)
def test_databases_of_other_tools(tmp_path, name):
    """One line that names the tool and what to do."""
    import sqlite3

    base = sqlite3.connect(tmp_path / "a.db")
    base.execute(OTHERS[name])
    base.commit()
    base.close()
    with pytest.raises(TraceError, match=rf"{name}.*\. \w+"):
        diagnose(tmp_path / "a.db")


TEXTS = {
    "rocprof-compute": "Dispatch_ID,GPU_ID,Kernel_Name\n1,0,a\n",
    "sums of rocprof": '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"a",1,2,2,100\n',
    "calls of the host": '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n',
    "Intel VTune": "Computing Task\tTotal Time\tInstance Count\n",
    "Triton Proton": '[{"frame": {"name": "ROOT", "type": "function"}, "metrics": {"count": 1}, "children": []}]',
    "Intel's unitrace": "=== Device Timing Summary ===\n\n      Total Execution Time (ns):    1\n== L0 Backend ==\n",
    "speedscope": '{"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": []}',
}


@pytest.mark.parametrize(("name", "said"), [("a.nsys-rep", "nsys export"), ("a.ncu-rep", "ncu --import"), ("a.xplane.pb", "XPlane"), ("a.pftrace", "Perfetto")])  # fmt: skip
def test_files_that_only_their_names_tell(tmp_path, name, said):
    (tmp_path / name).write_bytes(bytes(range(7, 250)) * 40)
    with pytest.raises(TraceError, match=said):
        diagnose(tmp_path / name)


@pytest.mark.parametrize("name", TEXTS)
def test_files_of_other_tools(tmp_path, name):
    (tmp_path / "a").write_text(TEXTS[name])
    with pytest.raises(TraceError, match=name):
        diagnose(tmp_path / "a")
