"""nccl-tests: old and new tables, prefixes, rows torn apart, several runs in a log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofline.errors import BadValue
from roofline.evidence import nccl, nccl_json
from roofline.evidence.lines import Lines
from roofline.evidence.nccl import Log

SETTINGS = "# nThread 1 nGpus 8 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20 validation: 1"
NEW = """#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)"""
OLD = "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error"


def ranks(n: int, host: str = "node", card: str = "NVIDIA H100 80GB HBM3", nodes: int = 1) -> str:
    return "\n".join(
        f"#  Rank {r:2} Group  0 Pid {100 + r} on {host} device {r % (n // nodes):2} [0000:{r:02x}:00] {card}"
        for r in range(n)
    )


def read(*parts: str) -> Log:
    return nccl.read(Lines(["\n".join(parts).encode()]))


def test_new_table():
    """Kind by the title, ranks and cards by their list; times in us, GB are 1e9."""
    (run,) = read(
        "# Collective test starting: all_reduce_perf", SETTINGS, ranks(8), NEW,
        "  8589934592    2147483648     float     sum      -1    34561  248.54  434.95      0    34555  248.59  435.03      0",
        "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 434.99",
    ).runs  # fmt: skip
    (row,) = run.rows

    assert (run.kind, run.ranks, run.per_node, run.nodes, run.cards) == (
        "all-reduce",
        8,
        8,
        1,
        ("NVIDIA H100 80GB HBM3",),
    )
    assert (row.size, row.redop, row.root, row.outside.seconds) == (1 << 33, "sum", -1, pytest.approx(34561e-6))
    assert row.inside is not None
    assert row.inside.busbw == pytest.approx(435.03e9)
    assert (run.average, run.wrong, run.failed) == (pytest.approx(434.99e9), 0, False)


@pytest.mark.parametrize(
    ("columns", "row", "kind"),
    [
        (OLD, "1073741824 268435456 float sum 8159.5 131.59 230.29 N/A 8176.5 131.32 229.81 N/A", "all-reduce"),
        (OLD, "1073741824 33554432 float sum 4180 256.88 224.77 N/A 4180 256.88 224.77 N/A", "reduce-scatter"),
        (
            OLD.replace("redop", ""),
            "1073741824 33554432 float 4180 256.88 224.77 N/A 4180 256.88 224.77 N/A",
            "all-gather",
        ),
        (
            OLD.replace("redop", "root"),
            "1073741824 268435456 float 0 4180 256.88 256.88 N/A 4180 256.88 256.88 N/A",
            "broadcast",
        ),
        (NEW, "1073741824 268435456 float sum 0 4180 256.88 256.88 0 4180 256.88 256.88 0", "reduce"),
        (NEW, "1073741824 268435456 float none -1 4180 256.88 256.88 0 4180 256.88 256.88 0", "send"),
    ],
)
def test_the_kind_of_a_log_that_does_not_name_it(columns, row, kind):
    """By what the columns are, and by busbw over algbw; a root's column is no time."""
    (run,) = read(SETTINGS, ranks(8), columns, row).runs

    assert run.kind == kind
    assert run.rows[0].outside.algbw > 1e11


def test_prefixes_of_launchers():
    """srun --label, mpirun --tag-output; each rank may print the same row."""
    table = [*NEW.splitlines(), " 1024 256 float sum -1 10.00 0.10 0.19 0 10.00 0.10 0.19 0"]
    lines = [SETTINGS, ranks(16, nodes=2), *table]
    labelled = [f" 0: {each}" for part in lines for each in part.splitlines()]
    tagged = [f"[1,{rank}]<stdout>:{each}" for rank in (0, 1) for part in lines for each in part.splitlines()]

    for text in (labelled, tagged):
        (run,) = read("0: # Collective test starting: all_reduce_perf", *text).runs
        assert (len(run.rows), run.ranks, run.per_node, run.nodes) == (1, 16, 8, 2)


def test_rows_torn_apart_by_the_librarys_log():
    """A row's start, the debug log, its first timing, the log again, its second."""
    log = "host:649:649 [1] NCCL INFO AllReduce: opCount 0 count 2097152 datatype 7 op 0 root 0 [nranks=2]"
    (run,) = read(
        "# Collective test starting: all_reduce_perf", SETTINGS, ranks(2), NEW,
        f"     8388608       2097152     float     sum      -1{log}", log, log,
        f"    83.33  100.66  100.66      0{log}", log,
        "    80.98  103.59  103.59      0",
        "    16777216       4194304     float     sum      -1    128.3  130.79  130.79      0    127.0  132.13  132.13      0",
    ).runs  # fmt: skip

    assert [(row.size, row.outside.seconds, row.inside and row.inside.seconds) for row in run.rows] == [
        (8388608, pytest.approx(83.33e-6), pytest.approx(80.98e-6)),
        (16777216, pytest.approx(128.3e-6), pytest.approx(127.0e-6)),
    ]


def test_several_runs_in_a_log():
    """One after another, each with its own name and ranks; faults are kept."""
    row = " 1024 256 float sum -1 10.00 0.10 0.19 2 10.00 0.10 0.19 2"
    one = [
        "# Collective test starting: all_reduce_perf",
        SETTINGS,
        ranks(8),
        NEW,
        row,
        "# Out of bounds values : 2 FAILED",
    ]
    two = [each.replace("all_reduce", "reduce_scatter") for each in one]
    found = read(*one, "# Avg bus bandwidth    : 0.19", *two)

    assert [(run.kind, run.wrong, run.failed) for run in found.runs] == [
        ("all-reduce", 2, True),
        ("reduce-scatter", 2, True),
    ]


def test_ranks_without_a_list():
    """By the library's log, or by busbw over algbw."""
    title = "# Collective test starting: all_reduce_perf"
    row = "1073741824 268435456 float sum -1 8159.5 131.59 230.29 0 8176.5 131.32 229.81 0"

    assert read(title, SETTINGS, "x:1:1 [0] NCCL INFO comm 0x5 rank 0 nranks 16 - Init", NEW, row).runs[0].ranks == 16
    (run,) = read(title, SETTINGS, NEW, row).runs
    assert (run.ranks, run.ranks_from) == (8, "busbw over algbw")


def test_a_log_without_a_row():
    """A test that stopped is said to have, and a table's head alone is a log."""
    assert nccl.sniff(f"noise\n{OLD}\n")
    with pytest.raises(BadValue, match="without a finished row"):
        read(SETTINGS, ranks(8), NEW, " 1024 256 float sum -1")


def test_markdown_around_a_table():
    """A log in a fence of an issue, with a prompt before it."""
    (run,) = read("```", "$ ./build/all_gather_perf -b 8 -e 8G -g 8", ranks(8), NEW,
                  " 1024 32 float none -1 10.00 0.10 0.09 0 10.00 0.10 0.09 0", "```").runs  # fmt: skip

    assert run.kind == "all-gather"


def test_other_prefixes_and_tables():
    """A logger's date and host, a table in Markdown."""
    lines = [
        SETTINGS,
        *ranks(8).splitlines(),
        *NEW.splitlines(),
        " 1024 256 float sum -1 10.00 0.10 0.18 0 10.00 0.10 0.18 0",
    ]
    (run,) = read(
        "# Collective test starting: all_reduce_perf", *(f"2026-01-02 10:00:00 node7 worker | {each}" for each in lines)
    ).runs
    assert (run.ranks, len(run.rows), run.rows[0].root) == (8, 1, -1)

    table = "| size | count | type | redop | root | time | algbw | busbw | #wrong | time | algbw | busbw | #wrong |\n"
    table += "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
    table += (
        "| 1073741824 | 268435456 | float | sum | -1 | 8159.5 | 131.59 | 230.29 | 0 | 8176.5 | 131.32 | 229.81 | 0 |\n"
    )
    (run,) = read("./build/all_reduce_perf -b 1G -e 1G -g 8", table).runs
    assert (run.kind, run.ranks, run.rows[0].outside.seconds) == ("all-reduce", 8, pytest.approx(8159.5e-6))
    assert nccl.sniff(table)


def as_json(**changed: Any) -> dict[str, Any]:
    """A file that -J writes: two ranks, three sizes."""
    rows = [
        {
            "size": size, "count": size // 4, "type": "float", "redop": "sum", "root": -1,
            "out_of_place": {"time": time, "alg_bw": size / time / 1e3, "bus_bw": size / time / 1e3, "nwrong": 0.0},
            "in_place": {"time": 2 * time, "alg_bw": size / time / 2e3, "bus_bw": size / time / 2e3, "nwrong": None},
        }
        for size, time in ((1 << 20, 20.5), (1 << 24, 120.25), (1 << 28, 1500.125))
    ]  # fmt: skip
    devices = [{"rank": n, "device": n, "host": "a", "name": "NVIDIA H100 80GB HBM3"} for n in range(2)]
    return {
        "version": 4,
        "args": ["./build/all_reduce_perf", "-b", "1M"],
        "config": {"nthreads": 1, "ngpus": 2, "devices": devices},
        "results": rows,
        "out_of_bounds": {"count": 0, "okay": "true"},
        **changed,
    }


def test_json():
    """Times in microseconds, bandwidths in 1e9 byte/s; the kind from the program, the ranks from the devices."""
    text = json.dumps(as_json())
    (run,) = nccl_json.read(Lines([text.encode()])).runs

    assert nccl_json.sniff(text)
    assert (run.kind, run.ranks, run.nodes, run.cards) == ("all-reduce", 2, 1, ("NVIDIA H100 80GB HBM3",))
    assert [each.size for each in run.rows] == [1 << 20, 1 << 24, 1 << 28]
    assert run.rows[2].outside.seconds == pytest.approx(1500.125e-6)
    assert run.rows[2].outside.algbw == pytest.approx((1 << 28) / 1500.125e-6)
    assert run.rows[0].inside.wrong is None


def test_json_is_judged_as_the_table_is(tmp_path):
    """Bandwidths recomputed, the link's share, and a place in a training estimate."""
    import roofline as rl

    path = tmp_path / "a.json"
    path.write_text(json.dumps(as_json()))
    found = rl.diagnose(path).to_dict()

    assert found["collectives"][0]["busbw"] == pytest.approx((1 << 28) / 1500.125e-6)
    assert found["collectives"][0]["disagreeing"] == 0


@pytest.mark.parametrize(
    "text", ['{"results": [{"alg_bw": 1, "bus_bw"', '{"results": [], "alg_bw": 0, "bus_bw": 0}', '{"results": {"alg_bw": 0, "bus_bw": 0}}']
)  # fmt: skip
def test_json_without_rows(text):
    assert nccl_json.sniff(text)
    with pytest.raises(BadValue, match="nccl-tests"):
        nccl_json.read(Lines([text.encode()]))
