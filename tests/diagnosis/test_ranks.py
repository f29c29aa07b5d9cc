"""Several ranks in one call: who waits for whom, told without a common clock."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import pytest

import roofline as rl
from roofline.diagnosis.ranks import diagnose_ranks
from roofline.show.diagnosis_record import diagnosis_record
from roofline.show.schema import schema
from traces import kernel, trace, write

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def rank(folder, number, computed, times, ranks=3):
    """A rank that computes for a while before each all-reduce; clocks of ranks have nothing to do with each other."""
    at, events = 1000.0 * (number + 1), []
    for i, (work, talk) in enumerate(zip(computed, times, strict=True)):
        events += [kernel("sgemm", at, work, 2 * i + 1), kernel(NCCL, at + work, talk, 2 * i + 2, 20)]
        at += work + talk
    info = {"backend": "nccl", "rank": number, "world_size": ranks}
    return write(folder, trace(*events, distributedInfo=info), f"rank{number}.json")


@pytest.fixture
def paths(tmp_path):
    """Rank 1 computes for 90 us where the others take 50: they wait 40 us in each of two all-reduces of 10."""
    return [
        rank(tmp_path, 0, (50, 50), (50, 50)),
        rank(tmp_path, 1, (90, 90), (10, 10)),
        rank(tmp_path, 2, (50, 50), (50, 50)),
    ]


def test_the_others_wait_for_the_slow_rank(paths):
    run = rl.diagnose(paths)

    assert [(each.waited, each.last) for each in run.ranks] == [(80_000, 0), (0, 2), (80_000, 0)]
    assert run.collectives == 2
    (finding,) = run.findings
    assert (finding.rule, finding.at_stake) == ("straggler", 80e-6)
    assert "rank 1" in finding.title
    assert run.slowest.rank.rank == 1


def test_even_ranks_have_no_straggler(tmp_path):
    run = rl.diagnose([rank(tmp_path, n, (50, 50), (10, 10)) for n in range(3)])

    assert run.findings == ()
    assert all(each.waited == 0 for each in run.ranks)


def test_ranks_with_other_collectives_are_not_compared(tmp_path):
    run = rl.diagnose([rank(tmp_path, 0, (50,), (10,)), rank(tmp_path, 1, (50, 50), (10, 10))])

    assert run.collectives == 0
    assert {each.waited for each in run.ranks} == {None}
    assert run.slowest.rank.rank == 1  # the longest


def test_any_executor_reads_them_side_by_side(paths):
    seen = []
    with ThreadPoolExecutor(2) as pool:
        run = diagnose_ranks(paths, 1 << 20, executor=pool, progress=lambda done, of: seen.append((done, of)))

    assert len(run.ranks) == 3
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_one_file_is_a_diagnosis_and_none_is_an_error(paths):
    assert rl.diagnose([paths[0]]).rank.rank == 0
    with pytest.raises(rl.RooflineError, match="two files"):
        rl.diagnose([])


def test_the_record_has_a_row_for_each_rank(paths):
    run = rl.diagnose(paths)
    record = diagnosis_record(run.slowest, run=run)

    jsonschema.validate(json.loads(json.dumps(record)), schema("diagnosis-1"))
    assert [each["waiting_s"] for each in record["ranks"]] == [80e-6, 0.0, 80e-6]
    assert record["findings"][0]["rule"] == "straggler"


def test_on_the_command_line(roofline, paths):
    answer = roofline("diagnose", *paths)

    assert answer.code == 0
    assert "3 ranks" in answer.out
    assert "The other ranks wait for rank 1: 80.0 us at stake" in " ".join(answer.out.split())
    other = roofline("diagnose", *paths, "--json")
    assert json.loads(other.out)["collectives_compared"] == 2
