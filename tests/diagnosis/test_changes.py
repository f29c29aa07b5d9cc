"""Two runs side by side: changes in seconds that add up to the whole, to the nanosecond."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.diagnosis.changes import compare, of_diagnosis
from roofline.show.changes import comparison_record
from roofline.show.schema import schema
from traces import event, kernel, launch, op, trace, write

B = "c10::BFloat16"


def product(n, ts, dur, m=64, on="gemm_a"):
    shapes = {"Input Dims": [[m, 16], [16, 32]], "Input type": [B, B]}
    return [op("aten::mm", ts - 9, 4, n, **shapes), launch(ts - 8, n, 1), kernel(on, ts, dur, n)]


def marks(*lengths):
    """Steps one behind another."""
    at = 0
    for i, each in enumerate(lengths):
        yield event("user_annotation", f"ProfilerStep#{i}", at, each)
        at += each


def side(folder, name, *events, **beside):
    return of_diagnosis(rl.diagnose(write(folder, trace(*events, **beside), name)))


def by_name(found):
    return {(each.name, each.shapes): each for each in found.changes}


def test_faster_slower_appeared_vanished(tmp_path):
    before = side(tmp_path, "a.json", *product(1, 100, 50), kernel("old", 150, 10, 7), kernel("same", 160, 5, 8))
    after = side(tmp_path, "b.json", *product(1, 100, 30), kernel("new", 130, 20, 7), kernel("same", 160, 5, 8))
    found = compare(before, after)
    changes = by_name(found)

    assert {key[0]: each.status for key, each in changes.items()} == {
        "gemm_a": "faster", "old": "vanished", "new": "appeared", "same": "same", "idle": "slower",
        "ran beside something else": "same",
    }  # fmt: skip
    assert changes["gemm_a", "64x16, 16x32 bf16"].difference == -20_000
    assert changes["idle", ""].difference == 10_000
    assert sum(each.difference for each in found.changes) == after.whole - before.whole == 0


def test_another_kernel_for_the_same_work_is_the_same_line(tmp_path):
    found = compare(
        side(tmp_path, "a.json", *product(1, 100, 50)), side(tmp_path, "b.json", *product(1, 100, 30, on="gemm_b"))
    )
    (change,) = [each for each in found.changes if each.shapes]

    assert (change.name, change.before_name, change.matched, change.difference) == (
        "gemm_b", "gemm_a", "operator and shapes", -20_000,
    )  # fmt: skip


def test_other_shapes_are_told(tmp_path):
    found = compare(
        side(tmp_path, "a.json", *product(1, 100, 50)), side(tmp_path, "b.json", *product(1, 100, 90, m=128))
    )

    assert [each.matched for each in found.changes if each.shapes] == ["name"]
    assert any("shapes differ for 100 %" in each for each in found.warnings)


def test_windows_that_hold_other_amounts_of_work(tmp_path):
    """Two windows of 100 us without steps: 10 passes of 10 us before, 8 of 12.5 after."""

    def passes(count, length):
        return [kernel(name, 100 + length * n + part, length / 2, 2 * n) for n in range(count)
                for name, part in (("a", 0), ("b", length / 2))]  # fmt: skip

    before, after = side(tmp_path, "a.json", *passes(10, 10)), side(tmp_path, "b.json", *passes(8, 12.5))
    (said,) = compare(before, after).warnings
    steps = side(tmp_path, "c.json", *passes(8, 12.5), *marks(50, 50))

    assert "ran 20 % less often after. They are judged for the same work" in said
    assert compare(before, after).lengths == (100_000, 125_000, "window for the same work")
    assert compare(before, after).slower_than(0.2)
    assert not compare(after, before).slower_than(0.0)
    assert compare(before, before).warnings == ()
    assert not [each for each in compare(steps, steps).warnings if "amounts of work" in each]


def test_more_than_one_difference_is_told(tmp_path):
    card = {"id": 0, "name": "NVIDIA B200", "totalGlobalMem": 191_501_041_664, "numSms": 148}
    before = side(tmp_path, "a.json", *product(1, 100, 50), *marks(100, 100))
    after = side(tmp_path, "b.json", *product(1, 100, 50), *marks(100, 100, 100), deviceProperties=[card])

    assert [each.split(":")[0] for each in compare(before, after).warnings] == [
        "device differs", "steps differs", "more than one thing differs",
    ]  # fmt: skip


def test_the_spread_of_the_steps_is_the_noise(tmp_path):
    """100, 104 and 96 us: 4 % to both sides of the median. 3 % more is noise, 10 % more is not."""
    before = side(tmp_path, "a.json", *product(1, 100, 50), *marks(100, 104, 96))
    noisy = compare(before, side(tmp_path, "b.json", *product(1, 100, 50), *marks(103, 103, 103)))
    slower = compare(before, side(tmp_path, "c.json", *product(1, 100, 50), *marks(110, 110, 110)))

    assert noisy.noise == pytest.approx(0.04)
    assert noisy.share == pytest.approx(0.03)
    assert not noisy.slower_than(0.01)
    assert slower.slower_than(0.03)
    assert not slower.slower_than(0.2)


ACTIVITY = st.tuples(
    st.sampled_from(["a", "b", "nccl", "softmax"]), st.integers(0, 400), st.integers(1, 60), st.integers(0, 2)
)


@settings(max_examples=25, deadline=None)
@given(st.lists(ACTIVITY, min_size=1, max_size=12), st.lists(ACTIVITY, min_size=1, max_size=12))
def test_changes_add_up_to_the_whole(tmp_path_factory, one, other):
    """Whatever ran beside whatever."""
    folder = tmp_path_factory.mktemp("sides")
    sides = [
        side(folder, f"{at}.json", *(kernel(n, ts / 7, d / 7, i, s) for i, (n, ts, d, s) in enumerate(events, 1)))
        for at, events in enumerate((one, other))
    ]
    found = compare(*sides)

    assert sum(each.difference for each in found.changes) == sides[1].whole - sides[0].whole
    assert sum(each.time for each in sides[0].entries) == sides[0].whole


def test_the_record_follows_its_schema(tmp_path):
    before, after = side(tmp_path, "a.json", *product(1, 100, 50)), side(tmp_path, "b.json", *product(1, 100, 30))
    record = comparison_record(compare(before, after), over=0.03)

    jsonschema.validate(json.loads(json.dumps(record)), schema("comparison-1"))
    assert record["difference_ns"] == sum(each["difference_ns"] for each in record["changes"]) == -20_000
    assert record["failed"] is False


def files(tmp_path, long):
    one = write(tmp_path, trace(*product(1, 100, 50), *marks(100, 100)), "before.json")
    other = write(tmp_path, trace(*product(1, 100, 50), *marks(long, long)), "after.json")
    return one, other


def test_a_pull_request_fails_where_it_is_slower(roofline, tmp_path):
    before, after = files(tmp_path, 110)

    assert roofline("compare", before, after).code == 0
    assert roofline("compare", before, after, "--fail-over", "3%").code == 1
    assert roofline("compare", before, after, "--fail-over", "0.2").code == 0
    assert roofline("compare", after, before, "--fail-over", "3%").code == 0
    refused = roofline("compare", before, after, "--fail-over", "much")
    assert (refused.code, refused.out) == (2, "")
    assert "--fail-over" in refused.err


def test_text_and_markdown(roofline, tmp_path):
    before, after = files(tmp_path, 110)
    said = roofline("compare", before, after).out

    assert "10 % slower: median step 100.0 us before, 110.0 us after; beyond the noise of 0 %" in " ".join(said.split())
    table = roofline("compare", before, after, "--markdown").out
    assert table.startswith("**10 % slower")
    assert "| whole |" in table
    assert json.loads(roofline("compare", before, after, "--json").out)["judged"] == "median step"


def test_names_are_data_in_markdown(roofline, tmp_path):
    name = "x|<b>[y](javascript:z)`*"
    before = write(tmp_path, trace(kernel(name, 100, 50, 1)), "a.json")
    after = write(tmp_path, trace(kernel(name, 100, 70, 1)), "b.json")
    table = roofline("compare", before, after, "--markdown").out

    assert "<b>" not in table.replace("\\<b\\>", "")
    assert "\\[y\\]" in table


def test_two_ledgers(roofline, tmp_path):
    paths = []
    for device in ("h100-sxm", "h200-sxm"):
        path = tmp_path / f"{device}.json"
        path.write_text(roofline("predict", "qwen3-8b", "--device", device, "--json").out, "utf-8")
        paths.append(path)
    record = json.loads(roofline("compare", *paths, "--json").out)

    assert record["kind"] == "ledger"
    assert record["share"] < -0.2  # memory-bound: the bandwidths, 3.35 against 4.8 TB/s
    assert sum(each["difference_ns"] for each in record["changes"]) == record["difference_ns"]
    assert any("device differs" in each for each in record["warnings"])


def test_only_two_of_a_kind(roofline, tmp_path):
    ledger = tmp_path / "ledger.json"
    ledger.write_text(roofline("predict", "qwen3-8b", "--device", "h100-sxm", "--json").out, "utf-8")
    answer = roofline("compare", ledger, write(tmp_path, trace(*product(1, 100, 50))))

    assert (answer.code, answer.out) == (2, "")
    assert "only two of a kind" in answer.err
    ledger.write_text('{"schema": "roofline.ledger/1", "kernels": 7}', "utf-8")
    assert "no ledger that can be read" in roofline("compare", ledger, ledger).err
    assert roofline("compare", tmp_path / "none.json", ledger).code == 2
