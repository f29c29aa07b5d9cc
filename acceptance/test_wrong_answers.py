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
WINDOW = {"hta__ns_resolution": 480.0, "hta__nccl_parser": 660.6}


@pytest.fixture
def diagnosed(folder):
    def call(start):
        (path,) = [each for each in (folder / "profiles" / "chrome").iterdir() if each.name.startswith(start)]
        return rl.diagnose(path)

    return call


@pytest.mark.parametrize("name", BUSY)
def test_busy_time(name, diagnosed):
    assert diagnosed(name).busy / MS == pytest.approx(BUSY[name], abs=0.06 if BUSY[name] > 1 else 0.0006)


@pytest.mark.parametrize("name", WINDOW)
def test_the_last_step_counts(name, diagnosed):
    assert diagnosed(name).window / MS == pytest.approx(WINDOW[name], abs=0.1)


def test_communication_without_nccl_in_its_name(diagnosed):
    talk = diagnosed("tracelens__b200_eager").communication
    assert talk.union > 2 * MS


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
