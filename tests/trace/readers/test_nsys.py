"""Nsight Systems: exports of every schema, and files that only look like one."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from roofline.diagnosis import diagnose
from roofline.errors import TraceError
from roofline.trace.events import COPY, KERNEL, SET, Trace
from roofline.trace.readers import nsys, sqlite
from roofline.trace.readers.nsys import reading

NAMES = {
    1: "void gemm<float>(int)",
    2: "cudaLaunchKernel_v7000",
    3: "cudaStreamSynchronize_v3020",
    4: "train step",
    5: "flash_fwd",
}
KERNEL_COLUMNS = "start, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName"
P1, P2 = 7 << 24, 9 << 24
T1, T2 = P1 | 7, P2 | 9


def export(path: Path, **tables: tuple[str, list[tuple[Any, ...]]]) -> Path:
    """An export with these tables: their columns and rows."""
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", NAMES.items())
    for name, (columns, rows) in tables.items():
        quoted = ", ".join(f'"{each.strip()}"' for each in columns.split(","))
        base.execute(f"CREATE TABLE {name} ({quoted})")
        base.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns.split(',')))})", rows)
    base.commit()
    base.close()
    return path


def kernels(*rows: tuple[Any, ...]) -> dict[str, Any]:
    return {"CUPTI_ACTIVITY_KIND_KERNEL": (KERNEL_COLUMNS, list(rows))}


def calls(*rows: tuple[Any, ...]) -> dict[str, Any]:
    return {"CUPTI_ACTIVITY_KIND_RUNTIME": ("start, end, globalTid, correlationId, nameId", list(rows))}


def nvtx(*rows: tuple[Any, ...]) -> dict[str, Any]:
    return {"NVTX_EVENTS": ("start, end, eventType, globalTid, text, textId", list(rows))}


def read(path: Path) -> Trace:
    return nsys.read(path, path.name, path.stat().st_size)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Two kernels, a copy, a memset, calls, an operator with shapes and a mark; times out of order."""
    return export(
        tmp_path / "a.sqlite",
        **kernels((300, 400, 0, 7, 12, P1, 5, 5), (100, 200, 0, 7, 11, P1, 1, 1)),
        CUPTI_ACTIVITY_KIND_MEMCPY=(
            "start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind",
            [(210, 250, 0, 7, 13, P1, 4096, 1, 1, 2)],
        ),
        CUPTI_ACTIVITY_KIND_MEMSET=(
            "start, end, deviceId, streamId, correlationId, globalPid, bytes", [(260, 270, 0, 7, 14, P1, 64)],
        ),
        **calls((90, 95, T1, 11, 2), (290, 295, T1, 12, 2), (400, 450, T1, 15, 3)),
        **nvtx(
            (80, 98, 59, T1, "aten::mm, seq = 12, op_id = 3, sizes = [[2, 3], [3, 4]], input_op_ids = [(1, 0)]", None),
            (70, 500, 59, T1, None, 4),
            (75, None, 34, T1, "a mark", None),
        ),
        META_DATA_EXPORT=("name, value", [("EXPORT_SCHEMA_VERSION", "3.16.1")]),
        TARGET_INFO_GPU=(
            "id, name, memoryBandwidth, clockRate, smCount, totalMemory, computeMajor, computeMinor",
            [(0, "NVIDIA H100 80GB HBM3", 3352320000000, 1980000000, 132, 84942979072, 9, 0)],
        ),
    )  # fmt: skip


def test_an_export(whole):
    """Columns in order of time; names, shapes, card, and every event accounted for."""
    found = read(whole)
    gpu = found.gpu

    assert found.format == "Nsight Systems, schema 3.16.1"
    assert gpu.start.tolist() == [100, 210, 260, 300]
    assert gpu.duration.tolist() == [100, 40, 10, 100]
    assert gpu.kind.tolist() == [KERNEL, COPY, SET, KERNEL]
    assert [found.names[each] for each in gpu.name.tolist()] == [
        "void gemm<float>(int)", "Memcpy HtoD (Pinned -> Device)", "Memset (Device)", "flash_fwd",
    ]  # fmt: skip
    assert gpu.moved.tolist() == [-1, 4096, 64, -1]
    assert [found.names[each] for each in found.calls.name.tolist()] == ["cudaLaunchKernel"] * 2 + [
        "cudaStreamSynchronize"
    ]
    assert [found.names[each] for each in found.ops.name.tolist()] == ["aten::mm"]
    assert found.details[found.ops.detail[0]] == b'{"dims": [[2, 3], [3, 4]]}'
    assert [found.names[each] for each in found.marks.name.tolist()] == ["train step"]
    assert found.threads == ((7, 7),)
    assert (found.cards[0].bandwidth, found.cards[0].clock, found.cards[0].capability) == (
        3352320000000,
        1980000000,
        "9.0",
    )
    assert found.counts.read == sum(found.counts.used.values()) + sum(found.counts.left_out.values()) == 10
    assert found.counts.left_out == {"NVTX events that are no ranges": 1}


def test_its_diagnosis(whole):
    """The timeline, categories and idle causes of any trace; the ridge from the file's own bandwidth."""
    found = diagnose(whole).to_dict()

    assert (found["window_ns"], found["busy_ns"], found["idle_ns"]) == (300, 250, 50)
    assert sum(found["breakdown_ns"].values()) == 300
    assert found["breakdown_ns"]["attention"] == 100
    assert found["device"]["id"] == "h100-sxm"
    assert found["device"]["ridge"]["bf16"] == pytest.approx(989.4e12 / 3352.32e9, rel=1e-3)
    assert next(each for each in found["kernels"] if each["category"] == "gemm")["operator"] == "aten::mm"


def test_the_old_version_table_and_no_others(tmp_path):
    """2023: EXPORT_META_DATA; without runtime calls the cause of idle times is said to be missing."""
    path = export(
        tmp_path / "a",
        **kernels((1, 5, 0, 7, 1, P1, 1, 1)),
        EXPORT_META_DATA=("name, value", [("EXPORT_SCHEMA_VERSION", "3.1.7")]),
    )
    found = read(path)

    assert found.format.endswith("3.1.7")
    assert "no call of the runtime" in found.warnings[0]


def test_no_kernel_table(tmp_path):
    """A file that holds no kernel is never well utilised."""
    path = export(tmp_path / "a", **calls((1, 5, T1, 1, 2)), META_DATA_EXPORT=("name, value", []))
    found = diagnose(path).to_dict()

    assert "says nothing of a GPU" in found["verdict"]
    assert any("no kernel was recorded" in each for each in found["warnings"])


def test_copies_without_a_kernel_table(tmp_path):
    """99 % of the window is without copies, and nothing is said of how busy the card was then."""
    path = export(
        tmp_path / "a.sqlite",
        CUPTI_ACTIVITY_KIND_MEMCPY=(
            "start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind",
            [(100, 150, 0, 7, 1, P1, 4096, 1, 0, 2), (9_950, 10_000, 0, 7, 2, P1, 4096, 1, 0, 2)],
        ),
        **calls((90, 95, T1, 1, 2), (9_900, 9_940, T1, 2, 2)),
    )  # fmt: skip
    found = diagnose(path)

    assert (found.limit, found.idle) == ("", 9_800)
    assert "how busy the device was is not told" in found.verdict
    assert "kernels may have run" in found.warnings[0]
    assert {each.rule for each in found.findings} == {"pageable-copies"}


def test_correlation_ids_repeat_in_each_process(tmp_path):
    """A kernel belongs to the call of its own process."""
    path = export(
        tmp_path / "a",
        **kernels((100, 200, 0, 7, 1, P1, 1, 1), (100, 200, 1, 7, 1, P2, 1, 1)),
        **calls((90, 95, T1, 1, 2), (50, 55, T2, 1, 2)),
    )
    found = read(path)
    starts = {int(number): int(start) for number, start in zip(found.calls.number, found.calls.start, strict=True)}

    assert [starts[int(each)] for each in found.gpu.correlation] == [90, 50]


def test_kernels_that_do_not_say_their_process(tmp_path):
    """An export without globalPid: calls are joined by the correlation alone, and no launch is missing."""
    columns = KERNEL_COLUMNS.replace("globalPid, ", "")
    path = export(
        tmp_path / "a",
        CUPTI_ACTIVITY_KIND_KERNEL=(columns, [(100, 200, 0, 7, 1, 1, 1), (300, 400, 0, 7, 2, 1, 1)]),
        **calls((90, 95, T1, 1, 2), (250, 260, T1, 2, 2)),
    )
    found = read(path)

    assert found.gpu.correlation.tolist() == found.calls.number.tolist() == [1, 2]


def test_a_processs_own_number_of_a_card(tmp_path):
    """Two processes that both see their card as number 0 ran on two cards."""
    path = export(
        tmp_path / "a",
        **kernels((100, 200, 0, 7, 1, P1, 1, 1), (100, 200, 0, 7, 1, P2, 1, 1)),
        TARGET_INFO_CUDA_DEVICE=("gpuId, cudaId, pid", [(0, 0, 7), (1, 0, 9)]),
    )

    assert read(path).gpu.device.tolist() == [0, 1]


def test_processes_of_which_the_file_does_not_say_what_card_they_saw(tmp_path):
    """Two on number 0, without the table of their cards: perhaps one card, perhaps two."""
    rows = [(100, 200, 0, 7, 1, P1, 1, 1), (100, 200, 0, 7, 1, P2, 1, 1), (100, 200, 1, 7, 1, P2, 1, 1)]
    (said,) = [each for each in read(export(tmp_path / "a", **kernels(*rows))).warnings if "processes" in each]

    assert said.startswith("2 processes ran kernels on device 0")
    assert not [each for each in read(export(tmp_path / "b", **kernels(*rows[1:]))).warnings if "processes" in each]


def test_graphs_as_one_block(tmp_path):
    """--cuda-graph-trace=graph: the device was busy, and the answer says that the kernels are not in the file."""
    rows = [(100, 200, 0, 7, 1, P1, 5), (300, 400, 0, 7, 2, P1, 5)]
    path = export(
        tmp_path / "a",
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE=("start, end, deviceId, streamId, correlationId, globalPid, graphId", rows),
    )
    found = diagnose(path).to_dict()

    assert found["busy_ns"] == 200
    assert any("2 graph launches were recorded as one block" in each for each in found["warnings"])


def test_rows_that_cannot_have_been(tmp_path):
    """Ends before starts, no times, text and blobs where numbers belong: left out, and counted."""
    path = export(
        tmp_path / "a",
        **kernels(
            (100, 200, 0, 7, 1, P1, 1, 1), (300, 200, 0, 7, 1, P1, 1, 1), (None, 5, 0, 7, 1, P1, 1, 1),
            ("x", b"\0" * 9, 0, 7, 1, P1, 1, 1), (1, 1 << 62, 0, 7, 1, P1, 1, 1), (-5, 5, 0, 7, 1, P1, 1, 1),
        ),
        **nvtx((1, None, 59, T1, "open", None), (1, 9, 59, T1, None, None)),
    )  # fmt: skip
    found = read(path)

    assert len(found.gpu) == 1
    assert found.counts.left_out == {"events that end before they start or have no time": 6}
    assert found.names[found.marks.name[0]] == "(no text)"


def test_too_many_names(tmp_path, monkeypatch):
    """A range with a text of its own each time: names stay bounded, no range is lost."""
    monkeypatch.setattr(reading, "MOST_NAMES", 10)
    path = export(tmp_path / "a", **nvtx(*((n, n + 1, 59, T1, f"text {n}", None) for n in range(50))))
    found = read(path)

    assert len(found.marks) == 50
    assert len(found.names) <= 12


def hostile(path: Path, *statements: str) -> Path:
    base = sqlite3.connect(path)
    for each in statements:
        base.execute(each)
    base.commit()
    base.close()
    return path


def test_views_and_generated_columns_are_not_read(tmp_path):
    """A view named like a table, a column that would compute, a virtual table: none is touched."""
    path = hostile(
        tmp_path / "a",
        "CREATE TABLE StringIds (id INTEGER, value TEXT)",
        "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE r(start) AS (SELECT 1 UNION ALL SELECT start+1 FROM r) "
        "SELECT start, start AS end, 0 AS deviceId, 0 AS streamId, 0 AS correlationId, 0 AS globalPid, 0 AS demangledName FROM r",
        "CREATE TABLE NVTX_EVENTS (start, end AS (length(hex(zeroblob(900000000)))), eventType, globalTid, text)",
        "CREATE VIRTUAL TABLE CUPTI_ACTIVITY_KIND_RUNTIME USING fts5(start, end)",
        "CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END",
    )
    before = path.read_bytes()
    found = read(path)

    assert (len(found.gpu), len(found.marks), len(found.calls)) == (0, 0, 0)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_huge_text_is_an_error_of_the_file(tmp_path, monkeypatch):
    """A cell beyond the limit: one clear line."""
    monkeypatch.setattr(sqlite, "_LONGEST", 1000)
    path = export(tmp_path / "a", **nvtx((1, 2, 59, T1, "x" * 5000, None)))

    with pytest.raises(TraceError, match="cannot be read as SQLite"):
        read(path)


def test_a_read_does_not_last_for_ever(tmp_path, monkeypatch):
    """Past the time that it may take it ends."""
    monkeypatch.setattr(sqlite, "_PATIENCE", -1.0)
    monkeypatch.setattr(sqlite, "_STEPS", 1)
    path = export(tmp_path / "a", **kernels(*((n, n + 1, 0, 7, n, P1, 1, 1) for n in range(100))))

    with pytest.raises(TraceError):
        read(path)


def test_other_databases(tmp_path):
    """A file of another program, one that is cut, one that only begins like one."""
    other = hostile(tmp_path / "b", "CREATE TABLE moz_places (id)")
    with pytest.raises(TraceError, match="no export of Nsight Systems"):
        diagnose(other)
    whole = export(tmp_path / "c", **kernels(*((n, n + 1, 0, 7, n, P1, 1, 1) for n in range(2000)))).read_bytes()
    for at, size in enumerate((50, 4096, 9000)):
        cut = tmp_path / f"cut{at}"
        cut.write_bytes(whole[:size])
        with pytest.raises(TraceError) as caught:
            diagnose(cut)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_bytes(tmp_path, seed):
    """Bytes changed at random: an answer, or one clear line."""
    import random

    chance = random.Random(seed)
    path = export(
        tmp_path / "a",
        **kernels(*((n, n + 1, 0, 7, n, P1, 1, 1) for n in range(300))),
        **nvtx((1, 2, 59, T1, "t", None)),
    )
    data = bytearray(path.read_bytes())
    for _ in range(30):
        data[chance.randrange(16, len(data))] = chance.randrange(256)
    path.write_bytes(data)
    try:
        diagnose(path).to_dict()
    except TraceError as error:
        assert "\n" not in str(error)


def test_packed_exports(whole, tmp_path):
    """Unpacked into a file that is gone afterwards."""
    import gzip

    packed = tmp_path / "a.sqlite.gz"
    packed.write_bytes(gzip.compress(whole.read_bytes()))

    assert diagnose(packed).to_dict()["window_ns"] == 300


def test_ranges_that_start_together(tmp_path):
    """The longer one encloses the shorter, in whatever order they were written."""
    rows = [
        (5, 6, 59, T1, "d", None),
        (1, 2, 59, T1, "inner", None),
        (1, 9, 59, T1, "outer", None),
        (1, 5, 59, T1, "middle", None),
    ]
    found = read(export(tmp_path / "a", **nvtx(*rows)))

    assert [found.names[each] for each in found.marks.name] == ["outer", "middle", "inner", "d"]
    assert found.marks.duration.tolist() == [8, 4, 1, 1]


def test_names_of_emit_nvtx_without_the_numbers_of_their_calls(tmp_path):
    """Each call has a text of its own; the name and the shapes are the same ones."""
    texts = [
        *(f"aten::mm, seq = {n}, op_id = {n + 7}, sizes = [[2, 3], [3, 4]], input_op_ids = [({n}, 0)]" for n in range(9)),
        *(f"aten::empty, op_id = {n}" for n in range(9)),
        *(f"FSDP::pre_forward (blocks.1), op_id = {n}" for n in range(9)),
        "checked, seq = one",
    ]  # fmt: skip
    found = read(export(tmp_path / "a", **nvtx(*((n, n + 1, 59, T1, each, None) for n, each in enumerate(texts)))))

    assert [found.names[each] for each in found.ops.name] == ["aten::mm"] * 9 + ["aten::empty"] * 9
    assert found.details == (b'{"dims": [[2, 3], [3, 4]]}',)
    assert found.ops.detail.tolist() == [0] * 9 + [-1] * 9
    assert [found.names[each] for each in found.marks.name] == [
        *["FSDP::pre_forward (blocks.1)"] * 9,
        "checked, seq = one",
    ]


def test_costs_from_the_shapes_of_emit_nvtx(tmp_path, monkeypatch):
    """emit_nvtx(record_shapes=True) gives lengths, the kernel's name the format: 2 m n k FLOP of a product."""
    monkeypatch.setitem(NAMES, 1, "nvjet_tst_192x192_64x4_2x1_v_bz_coopA_NTN")
    text = "aten::mm, seq = 1, op_id = 2, sizes = [[64, 32], [32, 16]], input_op_ids = [(1, 0)]"
    path = export(
        tmp_path / "a",
        **kernels((300, 400, 0, 7, 1, P1, 1, 1)),
        **calls((95, 96, T1, 1, 2)),
        **nvtx((90, 99, 59, T1, text, None)),
    )
    (kernel,) = diagnose(path).to_dict()["kernels"]

    assert (kernel["flops"], kernel["cost_from"]) == (2 * 64 * 32 * 16, "shapes")
    assert kernel["bytes"] == 2 * (64 * 32 + 32 * 16 + 64 * 16)


TYPE = 4702111234474983424  # the lowest byte of a type is the number of the card
METRICS = (
    "GPC Clock Frequency [MHz]",
    "GR Active [Throughput %]",
    "Tensor Active [Throughput %]",
    "DRAM Read Bandwidth [Throughput %]",
    "DRAM Write Bandwidth [Throughput %]",
    "Compute Warps in Flight [Avg]",
)


def metrics(*moments: tuple[int, tuple[int | None, ...]], card: int = 0) -> dict[str, Any]:
    """Samples of all METRICS at some times."""
    rows = [(time, TYPE | card, at, value) for time, values in moments for at, value in enumerate(values)]
    names = [(TYPE | card, 1, f"GPU Metrics [{card}]", at, name) for at, name in enumerate(METRICS)]
    return {
        "GPU_METRICS": ("timestamp, typeId, metricId, value", rows),
        "TARGET_INFO_GPU_METRICS": ("typeId, sourceId, typeName, metricId, metricName", names),
        "TARGET_INFO_GPU": (
            "id, name, memoryBandwidth, smCount, totalMemory",
            [(card, "NVIDIA H100 80GB HBM3", 3352320000000, 132, 84942979072)],
        ),
    }


def test_counters_beside_the_timeline(tmp_path):
    """Means over the time that a kernel ran, the bandwidth from the file's own peak, and what it waits for."""
    path = export(
        tmp_path / "a",
        **kernels(*((1000 * n, 1000 * n + 900, 0, 7, n, P1, 1, 1) for n in range(1, 5))),
        **metrics(
            (1100, (1755000000, 100, 12, 60, 10, 99)),
            (1950, (300000000, 0, 0, 0, 0, 0)),  # between kernels
            (2100, (1755000000, 100, 20, 80, 10, 99)),
            (3100, (1755000000, 100, 22, 80, 10, 99)),
        ),
    )
    found = diagnose(path).to_dict()
    counters = found["sampled"]["counters"]

    assert found["sampled"]["samples"] == 3
    assert counters["dram_active"] == pytest.approx((0.7 + 0.9 + 0.9) / 3, rel=1e-6)
    assert counters["tensor_active"] == pytest.approx(0.18, rel=1e-6)
    assert counters["sm_clock"] == pytest.approx(1755e6, rel=1e-6)
    assert found["sampled"]["bandwidth"] == pytest.approx(2.5 / 3 * 3352.32e9, rel=1e-6)
    assert (found["sampled"]["state"], found["limit"]) == ("memory", "memory")
    assert "sampled counters" in found["verdict"]
    (finding,) = [each for each in found["findings"] if each["rule"] == "busy-yet-waiting-for-memory"]
    assert finding["at_stake_s"] == pytest.approx(3600e-9 * (1 - 2.5 / 3), rel=1e-6)
    assert found["events"]["read"] == 4 + 4 * 6
    assert found["events"]["used"]["sample"] == 4 * 5
    assert found["events"]["left_out"] == {"samples of counters that are not used": 4}


def test_counters_that_show_neither(tmp_path):
    """Kernels run, and neither memory nor arithmetic is near full."""
    path = export(
        tmp_path / "a",
        **kernels(*((1000 * n, 1000 * n + 900, 0, 7, n, P1, 1, 1) for n in range(1, 5))),
        **metrics(*((1000 * n + 100, (1755000000, 100, 5, 6, 2, 9)) for n in range(1, 5))),
    )
    found = diagnose(path).to_dict()

    assert found["sampled"]["state"] == "neither"
    assert found["limit"] == ""
    assert "neither-memory-nor-compute" in {each["rule"] for each in found["findings"]}


def test_counters_of_another_card_and_of_none(tmp_path):
    """Samples belong to their card; damaged ones are counted and left out."""
    rows = metrics((1100, (None, -5, 0, 1 << 61, 0, 0)), card=1)
    path = export(tmp_path / "a", **kernels((1000, 1900, 0, 7, 1, P1, 1, 1)), **rows)
    found = diagnose(path).to_dict()

    assert found["sampled"] is None
    assert found["events"]["left_out"]["samples of counters without a time or a value"] == 2


def test_counters_without_kernels(tmp_path):
    """--gpu-metrics-devices alone: nothing is said of kernels, but of the card."""
    path = export(tmp_path / "a", **metrics(*((100 * n, (1755000000, 100, 80, 20, 5, 9)) for n in range(1, 5))))
    found = diagnose(path).to_dict()

    assert found["sampled"]["state"] == "compute"
    assert any("which kernels" in each for each in found["warnings"])


def test_ranges_and_what_was_launched_within_them(tmp_path):
    """By name, nested ones too, on their own thread: as `nsys stats` projects them."""
    path = export(
        tmp_path / "a",
        **kernels((300, 400, 0, 7, 1, P1, 1, 1), (400, 450, 0, 7, 2, P1, 1, 1), (500, 520, 0, 7, 3, P1, 1, 1)),
        **calls((90, 95, T1, 1, 2), (190, 195, T1, 2, 2), (95, 99, T1 | 9, 3, 2)),
        **nvtx(
            (80, 200, 59, T1, "step", None),
            (85, 99, 59, T1, "forward", None),
            (185, 199, 59, T1, "forward", None),
            (1, 2, 59, T1, "before", None),
        ),
    )
    found = diagnose(path).to_dict()["ranges"]

    assert [(each["name"], each["calls"], each["activities"]) for each in found] == [
        ("forward", 2, 2),
        ("step", 1, 2),
    ]
    assert [each["device_s"] for each in found] == [150e-9, 150e-9]
    assert [each["host_s"] for each in found] == [28e-9, 120e-9]
