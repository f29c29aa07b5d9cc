"""Answers that readers of profiles get wrong on real files: ours is the right one."""

from __future__ import annotations

import pytest

import roofline as rl

MS = 1_000_000  # [ns]

# Busy time, or the window, of files on which rounding to microseconds, a last step that is dropped, kernels before the
# window, operators that are taken for kernels, or graphs that are not looked into, give another one [ms].
BUSY = {
    "tracelens__h100_gaunernst_bert-small": 0.309,
    "tracelens__mi210_gpu_only": 5.343,
    "tracelens__inference_sglang_decode_sglang": 9.773,
    "tracelens__b200_eager": 11.596,
    "tracelens__inference_vllm_decode_full_graph": 10.718,
    "tracelens__h100_Qwen": 45.6,
    "tracelens__mi300_Qwen": 43.1,
    "tracelens__mi300_resnet": 84.0,
    "hta__triton_example": 0.00176,
}
WINDOW = {
    "hta__ns_resolution": 480.0,
    "hta__nccl_parser": 660.6,
    "kineto__samples_resnet50_num_workers_0_worker0.1623": 996.5,
    "tracelens__h100_Qwen": 49.7,
}


@pytest.fixture
def file(folder):
    def call(start):
        (path,) = [each for each in (folder / "profiles" / "chrome").iterdir() if each.name.startswith(start)]
        return path

    return call


@pytest.fixture
def diagnosed(file):
    return lambda start: rl.diagnose(file(start))


@pytest.mark.parametrize("name", BUSY)
def test_busy_time(name, diagnosed):
    assert diagnosed(name).busy / MS == pytest.approx(BUSY[name], abs=0.06 if BUSY[name] > 1 else 0.0006)


@pytest.mark.parametrize("name", WINDOW)
def test_the_last_step_counts(name, diagnosed):
    assert diagnosed(name).window / MS == pytest.approx(WINDOW[name], abs=0.1)


def test_communication_without_nccl_in_its_name(diagnosed):
    talk = diagnosed("tracelens__b200_eager").communication
    assert talk.union > 2 * MS


def test_communication_of_a_run_with_it(diagnosed):
    """46.9 ms of collectives in three steps, not 347."""
    assert diagnosed("hta__nccl_parser").communication.union / MS == pytest.approx(46.9, abs=0.05)


def test_one_kernel_is_one(diagnosed):
    """An operator of Triton on the host is none."""
    assert [each.calls for each in diagnosed("hta__triton_example").kernels if each.category != "copy"] == [1]


def test_a_trace_of_the_device_alone_has_no_steps(diagnosed):
    """So their length is not said, and no negative number stands for it."""
    found = diagnosed("tracelens__mi210_gpu_only")
    assert found.steps is None
    assert min(each.sum for each in found.kernels) >= 0


def test_no_larger_batch_for_what_is_not_known(diagnosed):
    """A replayed decode step without shapes: no advice on its batch."""
    findings = diagnosed("tracelens__inference_vllm_decode_full_graph").findings
    assert not [each for each in findings if "batch" in each.advice]


def test_bus_bandwidth_of_an_older_file(diagnosed):
    """PyTorch 2.2: 8 ranks stand in the arguments of the collective, and its format in the kernel's name."""
    rows = diagnosed("astrasim__megatron-tp8_megatron_kineto_0").to_dict()["collectives"]
    assert (rows[0]["kind"], rows[0]["ranks"], rows[0]["bytes"], rows[0]["calls"]) == ("all-reduce", 8, 64 << 20, 81)
    assert rows[0]["busbw"] == pytest.approx(2 * 7 / 8 * 81 * (64 << 20) / rows[0]["seconds"])


REPLAYED = {
    "tracelens__inference_sglang_decode_sglang": ("tracelens__inference_sglang_decode_capture", 544, 0.99),
    "tracelens__inference_vllm_decode_full_graph": ("tracelens__inference_vllm_decode_full_capture", 421, 0.22),
}


@pytest.mark.parametrize("name", REPLAYED)
def test_a_replay_beside_its_capture(name, file):
    """Not one row: each kernel has the operator that launched it when the graph was captured, and its cost.

    Of 32 requests that attend to 32,785 positions, attention reads K and V of 36 layers, 8 heads of 128, once.
    """
    capture, count, share = REPLAYED[name]
    found = rl.diagnose(file(name), capture=file(capture))

    assert found.launches.captured == count
    assert found.coverage.share > share
    for each in found.placed:
        if each.work.op in ("linear", "attention") and each.bound is not None:
            assert each.bound_seconds * 1e9 <= each.time
    if "vllm" in name:  # every other layer has a window of 128 positions, which no shape tells
        assert any("as by a window" in why for why in found.coverage.without)
    if "sglang" in name:
        (flash,) = [each for each in found.placed if each.work.op == "attention" and "QKV" in each.name]
        assert flash.work.cost.memory["kv"] == 2 * 2 * 8 * 128 * 32785
        assert sum(each.calls for each in found.placed if each.operator == "aten::mm") == 145


def test_a_capture_of_another_model_lends_nothing(file):
    found = rl.diagnose(
        file("tracelens__inference_vllm_decode_full_graph"), capture=file("tracelens__inference_sglang_decode_capture")
    )
    assert found.launches.captured == 0
    assert any("captures no graph" in each for each in found.warnings)


def test_no_advice_about_a_data_loader_that_is_not_there(diagnosed):
    """A file without a GPU gets no verdict on one, and one without a loader no advice on it."""
    none = diagnosed("hta__cpu_only")
    assert (none.window, none.findings) == (0, ())
    for name in ("tracelens__h100_gaunernst", "tracelens__h100_Qwen", "tracelens__mi300_gaunernst"):
        assert "data-loader" not in {each.rule for each in diagnosed(name).findings}


def test_a_graph_is_no_reason_to_be_silent_on_its_kernels(diagnosed):
    """97 % of a decode step is replayed: its kernels are told apart, and that they have no cost."""
    found = diagnosed("tracelens__inference_vllm_decode_full_graph")
    parts = {each.category: each.attributed for each in found.breakdown}
    assert parts["other"] < 0.02 * found.busy
    assert found.coverage is not None
    assert max(found.coverage.without, key=lambda each: found.coverage.without[each]).startswith("it was replayed")


def test_an_idle_device_is_called_idle(diagnosed):
    """8 % busy is host-bound, not well utilised."""
    found = diagnosed("tracelens__h100_gaunernst")
    assert found.limit == "host"
    assert found.findings[0].rule == "launch-gaps"


def test_ranks_of_one_run(folder):
    """Four ranks of a tensor-parallel step: the others wait for the one whose collectives are the shortest."""
    paths = sorted((folder / "profiles" / "chrome").glob("astrasim__megatron*"))
    run = rl.diagnose(paths)
    assert run.collectives == 84
    assert run.slowest.rank.rank == 0
    assert run.findings[0].rule == "straggler"
