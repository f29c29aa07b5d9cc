"""Several devices in one file: which is diagnosed, how they compare, and whose host's time counts."""

from __future__ import annotations

import json

import jsonschema
import pytest

import roofline as rl
from roofline.show.schema import schema
from traces import event, kernel, launch, trace, write

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def exchanging(device, computed, talk, apart=0):
    """A device that computes for a while before each all-reduce; all leave one together, a device `apart` later."""
    at, events = 1000 + apart, []
    for number, (work, length) in enumerate(zip(computed, talk, strict=True)):
        more = {"device": device, "stream": 7}
        events += [kernel("sgemm", at, work, 100 * device + 2 * number + 1, **more)]
        events += [kernel(NCCL, at + work, length, 100 * device + 2 * number + 2, **more)]
        at += work + length
    return events


@pytest.fixture
def uneven(tmp_path):
    """GPU 1 computes for 90 us where GPU 0 and 2 take 50: they wait 40 us in each of three all-reduces of 10."""
    rows = [((50, 50, 50), (50, 50, 50)), ((90, 90, 90), (10, 10, 10)), ((50, 50, 50), (50, 50, 50))]
    events = [each for device, (work, talk) in enumerate(rows) for each in exchanging(device, work, talk)]
    return write(tmp_path, trace(*events, kernel("extra", 999, 1, 9, device=0)))


def test_all_devices_side_by_side(uneven):
    """Each over its own window; the one with the most activities is diagnosed."""
    found = rl.diagnose(uneven)

    assert found.device == 0
    assert [each.device for each in found.devices] == [0, 1, 2]
    assert [each.window for each in found.devices] == [301_000, 300_000, 300_000]
    assert [each.compute for each in found.devices] == [151_000, 270_000, 150_000]
    assert [each.exposed for each in found.devices] == [150_000, 30_000, 150_000]
    assert [each.idle for each in found.devices] == [0, 0, 0]
    assert [each.kernels for each in found.devices] == [7, 6, 6]


def test_the_others_wait_for_the_slow_one(uneven):
    found = {each.rule: each for each in rl.diagnose(uneven).findings}

    assert [(each.waited, each.last) for each in rl.diagnose(uneven).devices] == [(120_000, 0), (0, 3), (120_000, 0)]
    assert found["straggler"].title == "The other GPUs wait for GPU 1"
    assert found["straggler"].at_stake == pytest.approx(120e-6)
    assert found["straggler"].evidence[-1].startswith("GPU 1 computes for 270 us and is idle for 0 s")
    assert "120 us of it is waiting for the last GPU to come" in found["exposed-communication"].evidence
    assert found["imbalance"].title == "GPU 1 computes longer than the others"
    assert found["imbalance"].at_stake == pytest.approx(270e-6 - 571e-6 / 3)


def test_another_device_is_asked_for(uneven):
    found = rl.diagnose(uneven, gpu=1)

    assert (found.device, found.window, found.others) == (1, 300_000, {0: 7, 2: 6})
    with pytest.raises(rl.RooflineError, match=r"no GPU 5 in .*trace.json. It has 0, 1, 2: ask for one of these"):
        rl.diagnose(uneven, gpu=5)


def test_collectives_that_are_not_the_same_are_not_compared(tmp_path):
    """As many on both, but one after the other by the file's own clock."""
    events = [*exchanging(0, (50, 50), (10, 10)), *exchanging(1, (50, 50), (60, 60), apart=500)]
    found = rl.diagnose(write(tmp_path, trace(*events)))

    assert [each.waited for each in found.devices] == [None, None]
    assert not [each for each in found.findings if each.rule in ("straggler", "imbalance")]


def test_devices_that_are_not_used_are_no_imbalance(tmp_path):
    events = [kernel("sgemm", 1000, 500, 1), kernel("sgemm", 1000, 1, 2, device=1)]
    found = rl.diagnose(write(tmp_path, trace(*events)))

    assert len(found.devices) == 2
    assert not found.findings


def test_one_device_has_nothing_beside_it(tmp_path):
    found = rl.diagnose(write(tmp_path, trace(kernel("sgemm", 1000, 500, 1))), gpu=0)

    assert found.devices == ()
    with pytest.raises(rl.RooflineError, match="no GPU 1 in"):
        rl.diagnose(write(tmp_path, trace(kernel("sgemm", 1000, 500, 1))), gpu=1)
    with pytest.raises(rl.RooflineError, match="no activity of any device"):
        rl.diagnose(write(tmp_path, trace(launch(1000, 1))), gpu=0)


def processes(*also):
    """Two processes, each with a device of its own: 1 with GPU 0 and a gap in which process 2 loads data and waits."""
    two = {"pid": 2, "tid": 2}
    return trace(
        launch(1000, 1),
        launch(1200, 2),
        kernel("sgemm", 1010, 40, 1),
        kernel("sgemm", 1210, 40, 2),
        kernel("sgemm", 1250, 40, 3),
        launch(1220, 3),
        launch(1000, 11, **two),
        kernel("sgemm", 1010, 290, 11, device=1),
        event("user_annotation", "enumerate(DataLoader)#next_batch", 1050, 150, **two),
        event("user_annotation", "step", 1000, 100, **two),
        event("user_annotation", "step", 1000, 250),
        *also,
    )


def test_what_the_host_does_for_another_device_is_no_cause(tmp_path):
    found = rl.diagnose(write(tmp_path, processes()))
    (step,) = found.ranges

    assert found.device == 0
    assert {each.cause: each.time for each in found.causes} == {"host-bound launch": 150_000, "launch latency": 10_000}
    assert (step.name, step.calls, step.host) == ("step", 1, 250_000)


def test_what_a_process_that_launches_nothing_does_is_no_cause_either(tmp_path):
    """It reads ahead: the process that launches says itself where it waits for that."""
    loader = event("user_annotation", "enumerate(DataLoader)#next_batch", 1050, 150, pid=3, tid=3)
    found = rl.diagnose(write(tmp_path, processes(loader)))

    assert {each.cause: each.time for each in found.causes} == {"host-bound launch": 150_000, "launch latency": 10_000}


def test_they_are_in_the_record_the_text_and_the_report(uneven, roofline, tmp_path):
    record = json.loads(roofline("diagnose", uneven, "--gpu", "1", "--json").out)
    jsonschema.validate(record, schema("diagnosis-1"))
    told = roofline("diagnose", uneven, "--gpu", "1", "--report", tmp_path / "out.html").out
    told = " ".join(told.split())

    assert record["device"]["number"] == 1
    assert [each["waiting_s"] for each in record["devices"]] == pytest.approx([120e-6, 0, 120e-6])
    assert record["devices"][1]["compute_s"] == pytest.approx(270e-6)
    assert "GPU 1, one of 3 in the file" in told
    assert "GPU 1 *" in told
    assert "--gpu N shows another one" in told
    report = (tmp_path / "out.html").read_text()
    assert "Devices of the file" in report
    assert "GPU 1 *" in report
    assert "--gpu 1" in report


def test_files_of_several_devices_say_that_one_of_each_is_compared(uneven, roofline):
    assert "the one with the most activities" in " ".join(roofline("diagnose", uneven, uneven).out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpu", "9"), "There is no GPU 9 in"),
        (("--gpu", "x"), "--gpu"),
        (("--gpu", "-1"), "--gpu"),
    ],
)
def test_a_number_that_is_none(uneven, roofline, words, said):
    answer = roofline("diagnose", uneven, *words)

    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert answer.err.count("\n") == 1


def test_a_number_is_of_one_trace(uneven, roofline, tmp_path):
    several = roofline("diagnose", uneven, uneven, "--gpu", "1")
    counters = write(tmp_path, "# gpu    pwr     sm\n# Idx      W      %\n    0    300     90\n", "dmon.txt")
    without = roofline("diagnose", counters, "--gpu", "1")

    assert (several.code, without.code) == (2, 2)
    assert "--gpu is of one trace" in several.err
    assert "has no timeline" in without.err


def test_the_same_device_of_two_profiles_is_compared(tmp_path, roofline):
    """The second profile has more activities on GPU 1, and GPU 0 is what the first one is of."""
    first = write(tmp_path, trace(*(kernel("sgemm", 1000 + 9 * n, 9, n, device=n > 3) for n in range(6))), "a.json")
    second = write(tmp_path, trace(*(kernel("sgemm", 1000 + 9 * n, 9, n, device=n > 1) for n in range(6))), "b.json")
    alone = write(tmp_path, trace(kernel("sgemm", 1000, 9, 1, device=5)), "c.json")

    assert json.loads(roofline("compare", first, second, "--json").out)["after_s"] == pytest.approx(18e-6)
    assert json.loads(roofline("compare", first, second, "--gpu", "1", "--json").out)["after_s"] == pytest.approx(36e-6)
    assert json.loads(roofline("compare", first, alone, "--json").out)["after_s"] == pytest.approx(9e-6)


def test_a_comparison_reads_each_profile_once(uneven, roofline, monkeypatch):
    """The busiest device of the first one, and the same one of the second."""
    from roofline.diagnosis import opening

    read: list[str] = []
    one = opening.open_profile
    monkeypatch.setattr(opening, "open_profile", lambda path, **more: read.append(path) or one(path, **more))
    answer = roofline("compare", uneven, uneven)

    assert answer.code == 0
    assert len(read) == 2
