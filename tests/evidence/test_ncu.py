"""Nsight Compute: wide, long and text pages, in any locale, with what stands around them."""

from __future__ import annotations

from typing import ClassVar

import pytest

from roofline.errors import BadValue
from roofline.evidence import ncu
from roofline.evidence.lines import Lines
from roofline.evidence.ncu import Report

LONG_HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)


def read(*lines: str, encoding: str = "utf-8") -> Report:
    return ncu.read(Lines(["\n".join(lines).encode(encoding)]))


def long_row(metric: str, unit: str, value: str, number: int = 0, kernel: str = "gemm<float>(a, b)") -> str:
    cells = [
        number,
        7,
        "app",
        "host",
        kernel,
        1,
        7,
        "(256, 1, 1)",
        "(64, 2, 1)",
        0,
        "9.0",
        "Section",
        metric,
        unit,
        value,
    ]
    return ",".join(f'"{each}"' for each in cells)


def test_long_page_within_what_a_program_printed():
    """A mark of the encoding, the tool's own lines and the program's, thousands in commas."""
    found = read(
        "\ufeff==PROF== Connected to process 7",
        "step 1, loss 2.5",
        LONG_HEAD,
        long_row("gpu__time_duration.sum", "ns", "9,589,248"),
        "printed, by the program",
        long_row("dram__bytes_read.sum", "Mbyte", "54.207744"),
        long_row("dram__bytes_write.sum", "byte", "26,601,216"),
        "==PROF== Disconnected",
    )
    (launch,) = found.launches

    assert found.form == "details page"
    assert (launch.kernel, launch.grid, launch.block, launch.device) == (
        "gemm<float>(a, b)",
        "64, 2, 1",
        "256, 1, 1",
        0,
    )
    assert launch.seconds == pytest.approx(9.589248e-3, rel=1e-12)
    assert launch.dram_bytes == pytest.approx(54_207_744 + 26_601_216, rel=1e-12)
    assert not launch.counted  # no counter of FLOPs: unknown, not zero


@pytest.mark.parametrize(
    ("values", "mark"),
    [
        (("9,589,248", "71.25", "1,234.5"), "point"),
        (("9.589.248", "71,25", "1.234,5"), "comma"),
        (("9\u202f589\u202f248", "71,25", "1\u00a0234,5"), "comma"),
        (("9'589'248", "71.25", "1'234.5"), "point"),
        (("9589248", "71.25", "1234.5"), "point"),
    ],
)
def test_numbers_of_every_locale(values, mark):
    """English, German, French, Swiss and plain numbers are the same."""
    time, share, rate = values
    (launch,) = read(
        LONG_HEAD,
        long_row("gpu__time_duration.sum", "ns", time),
        long_row("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", share),
        long_row("dram__bytes.sum.per_second", "Gbyte/second", rate),
    ).launches

    assert launch.seconds == pytest.approx(9.589248e-3)
    assert launch.values["compute_share"] == pytest.approx(0.7125)
    assert launch.values["dram_rate"] == pytest.approx(1.2345e12)


WIDE_HEAD = (
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
)
WIDE = {
    "device__attribute_display_name": ("", "NVIDIA B200"),
    "device__attribute_max_mem_frequency_khz": ("", "3,996,000"),
    "device__attribute_global_memory_bus_width": ("", "7,680"),
    "dram__bytes.sum": ("Mbyte", "600"),
    "dram__bytes.sum.peak_sustained": ("Kbyte/cycle", "2"),
    "dram__cycles_elapsed.avg.per_second": ("cycle/nsecond", "4"),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "75"),
    "gpu__time_duration.sum": ("usecond", "100"),
    "lts__t_sectors.sum": ("sector", "31,250,000"),
    "sm__cycles_elapsed.avg.per_second": ("cycle/nsecond", "1.5"),
    "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum": ("", "80,000,000,000"),
    "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_on.sum": ("", "0"),
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": ("inst/cycle", "18,944"),
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": ("inst", "1,000,000"),
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": ("inst", "2,000,000"),
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": ("inst", "3,000,000"),
    "unknown__metric.sum": ("", "n/a"),
}


def wide(*rows: dict[str, str], form: str = '"{}"', delimiter: str = ",") -> list[str]:
    names = (*WIDE_HEAD, *WIDE)
    fixed = ["0", "7", "app", "host", "k", "1", "7", "(256, 1, 1)", "(64, 2, 1)", "0", "10.0"]
    lines = [names, ["" for _ in WIDE_HEAD] + [unit for unit, _ in WIDE.values()]]
    lines += [[*fixed, *(row.get(name, value) for name, (_, value) in WIDE.items())] for row in rows]
    return [delimiter.join(form.format(each) for each in line) for line in lines]


def test_wide_page_with_units_in_its_second_row():
    """Bytes, FLOPs by rate and peaks: 600 MB in 100 us of 8 TB/s is the 75 % that the tool prints."""
    found = read(*wide({}))
    (launch,) = found.launches

    assert (found.form, found.card, launch.capability) == ("raw page", "NVIDIA B200", "10.0")
    assert launch.dram_bytes == pytest.approx(600e6)
    assert launch.l2_bytes == pytest.approx(1e9)
    assert launch.flops == {"fp32-vector": pytest.approx(9e6), "bf16": pytest.approx(80e9)}
    assert launch.peak["fp32-vector"] == pytest.approx(2 * 18_944 * 1.5e9)
    assert launch.bandwidth == pytest.approx(8e12)
    assert launch.dram_bytes / launch.seconds / launch.bandwidth == pytest.approx(launch.values["dram_share"], rel=0.01)


def test_bandwidth_by_clock_and_bus_where_the_counter_is_missing():
    """2 x 3.996 GHz x 7680 bit / 8; measured bytes over the tool's percentage come before it."""
    (launch,) = read(*wide({"dram__bytes.sum.peak_sustained": ""})).launches
    assert launch.bandwidth == pytest.approx(600e6 / 100e-6 / 0.75)
    assert "percentage" in launch.bandwidth_from

    bare = {"dram__bytes.sum.peak_sustained": "", "dram__throughput.avg.pct_of_peak_sustained_elapsed": "n/a"}
    (launch,) = read(*wide(bare)).launches
    assert launch.bandwidth == pytest.approx(2 * 3.996e9 * 7680 / 8)


def test_resaved_tables():
    """A spreadsheet's semicolons, and cells without quotes."""
    assert read(*wide({}, form="{}", delimiter=";")).launches[0].dram_bytes == pytest.approx(600e6)
    assert len(read(*wide({}, {}, form='"{}"', delimiter="\t")).launches) == 2


def test_a_whole_path_is_not_added_to_its_parts():
    """FLOPs of a path stand beside those by sparsity and by destination: each is counted once."""
    rows = [
        long_row("sm__ops_path_tensor_src_fp8_dst_fp32.sum", "", "400"),
        long_row("sm__ops_path_tensor_src_fp8_dst_fp32_sparsity_off.sum", "", "300"),
        long_row("sm__ops_path_tensor_src_fp8_dst_fp32_sparsity_on.sum", "", "100"),
        long_row("sm__ops_path_tensor_src_fp8_dst_fp16.sum", "", "50"),
        long_row("sm__ops_path_tensor_src_int8.sum", "", "7"),
        long_row("sm__ops_path_tensor_src_int8_dst_int32.sum", "", "7"),
    ]
    (launch,) = read(LONG_HEAD, *rows).launches

    assert launch.flops == {"fp8": 450, "int8": 7}


def test_rates_of_instructions():
    """Instructions a cycle times clock and time: 100 x 1.5 GHz x 100 us, twice for a multiply-add."""
    (launch,) = read(
        LONG_HEAD,
        long_row("gpu__time_duration.sum", "usecond", "100"),
        long_row("smsp__cycles_elapsed.avg.per_second", "cycle/nsecond", "1.5"),
        long_row("derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2", "", "200"),
    ).launches

    assert launch.flops == {"fp32-vector": pytest.approx(2 * 100 * 1.5e9 * 100e-6)}


TEXT = """==PROF== Profiling "k" - 0: 0%....100% - 10 passes
[7] python3@127.0.0.1
  void k<float>(T1, const char *) (864, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ------------- ------------
    Metric Name               Metric Unit Metric Value
    ----------------------- ------------- ------------
    DRAM Frequency          cycle/nsecond         1.21
    Memory Throughput                   %        61.50
    DRAM Throughput                     %        61.50
    Duration                      usecond        14.46
    Compute (SM) Throughput             %        16.42
    ----------------------- ------------- ------------
    OPT   This kernel exhibits low compute throughput and memory
          Duration of other things. 99
    Section: Memory Workload Analysis
    ----------------- ------------- ------------
    Metric Name         Metric Unit Metric Value
    ----------------- ------------- ------------
    Memory Throughput  Gbyte/second       956.00
    ----------------- ------------- ------------

  other, 2020-Apr-28 12:02:34, Context 1, Stream 7
    Section: GPU Speed Of Light
    ---- --- ------
    Metric Name Metric Unit Metric Value
    ---- --- ------
    SOL SM                %          1
    ---- --- ------
"""


def test_text_page():
    """What ncu prints: a rate and a share under one name, remarks between the tables."""
    found = read(TEXT)
    first, second = found.launches

    assert found.form == "text page"
    assert (first.kernel, first.grid, first.capability) == ("void k<float>(T1, const char *)", "864, 1, 1", "8.0")
    assert first.values["memory_share"] == pytest.approx(0.615)
    assert first.values["dram_rate"] == pytest.approx(956e9)
    assert first.dram_bytes == pytest.approx(956e9 * 14.46e-6)
    assert second.kernel == "other"


OLD_TEXT = """[100] app@127.0.0.1
  gemm(float const*, float*), 2021-Jan-01 10:00:00, Context 1, Stream 7
    Section: GPU Speed Of Light
    ---------------------------------------------------------------------- --------------- ----------------------------
    Memory [%]                                                                           %                        81.50
    SOL DRAM                                                                             %                        80.25
    Duration                                                                       msecond                         1.09
    SM [%]                                                                               %                        11.24
    ---------------------------------------------------------------------- --------------- ----------------------------
    OK    The kernel is utilizing greater than 80.0% of the available compute or memory performance of the device. To
          further improve performance, work will likely need to be shifted from the most utilized to another unit.
"""


def test_text_page_of_old_versions():
    """Tables without a head, and names that end with a unit."""
    (launch,) = read(*OLD_TEXT.splitlines()).launches

    assert launch.seconds == pytest.approx(1.09e-3)
    assert {name: round(value, 4) for name, value in launch.values.items() if name.endswith("_share")} == {
        "memory_share": 0.815, "dram_share": 0.8025, "compute_share": 0.1124,
    }  # fmt: skip


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_columns_in_another_order(mark):
    """Named by the header, wherever they stand."""
    row = ["gpu__time_duration.sum", "usecond", "1.5", "k(float *)", "0", "7"]
    head = ["Metric Name", "Metric Unit", "Metric Value", "Kernel Name", "ID", "Process ID"]
    text = [mark.join(f'"{each}"' for each in cells) for cells in (head, row)]
    (launch,) = read("printed before", *text).launches

    assert ncu.sniff("\n".join(text))
    assert (launch.kernel, launch.seconds) == ("k(float *)", pytest.approx(1.5e-6))
    assert not ncu.sniff("API Start (ns),PID,TID,API Function,Kernel Name\n1,2,3,launch,k\n")


def test_launches_of_one_kernel_stay_apart():
    """An id is a launch's; another table below starts again."""
    rows = [long_row("gpu__time_duration.sum", "ns", str(100 + n), n) for n in range(3)]

    assert [each.seconds for each in read(LONG_HEAD, *rows).launches] == pytest.approx([100e-9, 101e-9, 102e-9])
    assert len(read(LONG_HEAD, *rows, LONG_HEAD, *rows).launches) == 6


def test_what_cannot_be_read_is_counted():
    """Rows that are cut short, metrics without a number."""
    found = read(LONG_HEAD, long_row("gpu__time_duration.sum", "ns", "(!) nan"), '"0","7","app"')

    assert found.left_out == {"rows cut short": 1}
    assert found.launches[0].seconds is None
    with pytest.raises(BadValue, match="without a launch"):
        read(LONG_HEAD)


def test_many_headers_are_no_recursion():
    """Thousands of tables in a file, one below the other."""
    row = long_row("gpu__time_duration.sum", "ns", "1")
    assert len(read(*([LONG_HEAD, row] * 3000)).launches) == 3000


def test_rules_of_the_tool():
    """Its own remarks, with the speedup that it estimates."""
    head = LONG_HEAD + ',"Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup"'
    first = long_row("gpu__time_duration.sum", "ns", "1000") + ',"","","","",""'
    rule = long_row("", "", "") + ',"SOLBottleneck","OPT","Low throughput.","global","31.5"'
    (launch,) = read(head, first, rule).launches

    assert [(each.name, each.text) for each in launch.rules] == [("SOLBottleneck", "Low throughput.")]
    assert launch.rules[0].speedup == pytest.approx(0.315)


class Metric:
    def __init__(self, value: object, unit: str) -> None:
        self.value, self.unit = (lambda: value), (lambda: unit)


class Action:
    METRICS: ClassVar = {
        "gpu__time_duration.sum": Metric(2000, "ns"),
        "dram__bytes.sum": Metric(4096, "byte"),
        "x": Metric(1, ""),
    }

    def name(self) -> str:
        return "k"

    def metric_names(self) -> tuple[str, ...]:
        return tuple(self.METRICS)

    def metric_by_name(self, name: str) -> Metric:
        return self.METRICS[name]


def test_reports_of_the_tools_own_module(monkeypatch):
    """`ncu_report`, where NVIDIA's module is installed: its ranges, actions and metrics."""
    import sys
    from types import SimpleNamespace as Of

    each = Of(num_actions=lambda: 2, action_by_idx=lambda _: Action())
    module = Of(load_report=lambda _: Of(num_ranges=lambda: 1, range_by_idx=lambda _: each))
    monkeypatch.setitem(sys.modules, "ncu_report", module)

    found = ncu.from_module("x.ncu-rep")

    assert [(one.kernel, one.seconds, one.dram_bytes) for one in found.launches] == [
        ("k", pytest.approx(2e-6), 4096)
    ] * 2


def test_tensor_rates_and_peaks():
    """Operations a second times the time, a cycle times clock and time; the peak at the clock; formats by their names."""
    (launch,) = read(
        LONG_HEAD,
        long_row("gpu__time_duration.sum", "usecond", "100"),
        long_row("sm__cycles_elapsed.avg.per_second", "cycle/nsecond", "1.5"),
        long_row("sm__ops_path_tensor_src_fp16_dst_fp32.sum.per_second", "", "1e12"),
        long_row("sm__ops_path_tensor_src_e4m3_dst_fp32.sum.per_cycle_elapsed", "", "1000"),
        long_row("sm__ops_path_tensor_src_bf16_dst_fp32.sum.peak_sustained", "", "500000"),
        long_row("sm__ops_path_tensor_src_e2m1_dst_fp32.sum", "", "4"),
        long_row("sm__ops_path_tensor_src_fp6_dst_fp32.sum", "", "6"),
        long_row("sm__ops_path_tensor_src_u4_dst_s32.sum", "", "8"),
    ).launches

    assert launch.flops == {
        "fp16": pytest.approx(1e8), "fp8": pytest.approx(1000 * 1.5e9 * 100e-6), "fp4": 4, "fp6": 6, "int4": 8,
    }  # fmt: skip
    assert launch.peak == {"bf16": pytest.approx(7.5e14)}


def test_instructions_of_voltas_tensor_pipe():
    """512 FLOPs each on Volta, as NVIDIA's section counts them; unknown on what came after."""
    row = long_row("sm__inst_executed_pipe_tensor.sum", "inst", "1,000")
    (volta,) = read(LONG_HEAD, row.replace('"9.0"', '"7.0"')).launches
    (hopper,) = read(LONG_HEAD, row).launches

    assert (volta.flops, volta.counted) == ({"fp16": 512_000}, True)
    assert (hopper.flops, hopper.counted) == ({}, False)


SUMMARY = """==PROF== Connected
"Process ID","Kernel Name","Invocations","Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"
"1","kernel_a","2","GPU Speed Of Light Throughput","DRAM Throughput","%","5","15","10"
"1","kernel_a","2","GPU Speed Of Light Throughput","Duration","us","1","3","2"
"1","kernel_b","1","GPU Speed Of Light Throughput","Duration","us","9","9","9"
"""


def test_a_summary_by_kernel():
    """--print-summary per-kernel: as many launches as there were, each the average of its kernel."""
    found = ncu.read(Lines([SUMMARY.encode()]))

    assert ncu.sniff(SUMMARY)
    assert [(each.kernel, each.seconds) for each in found.launches] == [
        ("kernel_a", pytest.approx(2e-6)),
        ("kernel_a", pytest.approx(2e-6)),
        ("kernel_b", pytest.approx(9e-6)),
    ]
    assert found.launches[0].values["dram_share"] == pytest.approx(0.1)
