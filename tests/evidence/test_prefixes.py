"""What launchers and loggers put before each line is no part of it."""

from __future__ import annotations

import json

import pytest

import roofline as rl
from roofline.evidence.lines import Lines
from roofline.evidence.readers import reader_of

DMON = """#Entity   GRACT        TENSO        DRAMA        POWER
ID                                               W
GPU 0     0.984        0.120        0.740        634.2
GPU 0     0.986        0.140        0.760        636.2
"""
SMI = """# gpu    pwr     sm    mem
# Idx      W      %      %
    0    634    100     10
    0    630    100     12
"""
QUERY = """timestamp, name, index, utilization.gpu [%], power.draw [W]
2026/05/01 12:00:00.123, NVIDIA H100 80GB HBM3, 0, 98 %, 634.00 W
2026/05/01 12:00:01.123, NVIDIA H100 80GB HBM3, 0, 98 %, 630.00 W
"""
SUMS = """ Time (%)  Total Time (ns)  Instances   Avg (ns)    Name
 --------  ---------------  ---------  ----------  ---------
     60.0             6000          3      2000.0  gemm
     40.0             4000          1      4000.0  add
"""
NCU = """==PROF== Disconnected from process 1
[1] app@127.0.0.1
  gemm(float *) (64, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    Memory Throughput                 %        85.00
    Duration                         us        14.46
    Compute (SM) Throughput           %        20.00
    ----------------------- ----------- ------------
"""
SERVED = """============ Serving Benchmark Result ============
Successful requests:                     200
Benchmark duration (s):                  50.00
Total input tokens:                      204800
Total generated tokens:                  25600
Output token throughput (tok/s):         512.00
==================================================
"""
TRT = """= PERFORMANCE OVERVIEW
Model:                  m
Total Output Throughput (tokens/sec):             2800.5
Total Latency (ms):                               13524.2711
"""
NCCL = """#  Rank  0 Group  0 Pid  1 on node device  0 [0000:17:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  1 on node device  1 [0000:65:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     8388608       2097152     float     sum      -1    83.33  100.67  100.67      0node:1:1 [0] NCCL INFO
    80.98  103.59  103.59      0
"""
TEXTS = {"dmon": DMON, "smi": SMI, "query": QUERY, "sums": SUMS, "ncu": NCU, "served": SERVED, "trt": TRT, "nccl": NCCL}
PREFIXES = {
    "srun": "0: ",
    "wide srun": "  0: ",
    "mpirun": "[1,0]<stdout>:",
    "mpirun with a space": "[1,0]<stdout>: ",
    "prterun": "[prterun-host-7@1,0]<stdout>:",
    "torchrun": "[rank0]:",
    "compose": "bench-1  | ",
    "kubectl": "[pod/bench-x/main] ",
    "pdsh": "node-7: ",
    "time": "2026-05-01T12:00:00.123456Z ",
    "log": "[2026-05-01 12:00:00,123] ",
    "clock": "12:00:00 ",
    "journal": "May  1 12:00:00 node7 run[123]: ",
    "time and rank": "2026-05-01T12:00:00Z 3: ",
    "rank and time": "[rank3]:2026-05-01 12:00:00,123 ",
}


def answer(path, text):
    path.write_text(text)
    found = rl.diagnose(path).to_dict()
    found.pop("source")
    for each in (*found.get("cards", ()), *found.get("findings", ())):
        each.pop("name", None), each.pop("title", None), each.pop("evidence", None)
    return json.dumps({key: value for key, value in found.items() if key != "verdict"}, sort_keys=True)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("name", TEXTS)
def test_a_prefix_changes_no_answer(name, prefix, tmp_path):
    """But for the cards' names, which tell whose they are."""
    lines = TEXTS[name].splitlines()

    assert answer(tmp_path / "a", "\n".join(PREFIXES[prefix] + each for each in lines)) == answer(
        tmp_path / "b", TEXTS[name]
    )


def test_cards_of_several_ranks_are_several_cards(tmp_path):
    """`srun --label` over two nodes, each with its own GPU 0."""
    for text in (DMON, SMI, QUERY):
        path = tmp_path / "log"
        path.write_text("\n".join(f"{rank}: {line}" for line in text.splitlines() for rank in (0, 1)))
        found = rl.diagnose(path)

        assert [each.name for each in found.rows] == ["0: GPU 0", "1: GPU 0"]
        assert [each.samples for each in found.rows] == [2, 2]


def test_a_prefix_that_is_none():
    """A text that is known as it is keeps what stands in it; what is unknown stays so."""
    reader, prefix = reader_of(DMON.encode())
    assert (reader.name, prefix) == ("DCGM", None)
    assert reader_of(b"0: nothing\n0: that is\n0: known\n") is None
    assert list(Lines([b"0: a\n"])) == ["0: a"]
