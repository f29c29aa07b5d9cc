"""Answers that readers of profiles get wrong, each kind as a small trace of our own: ours is the right one."""

from __future__ import annotations

import pytest

import roofline as rl
from traces import event, kernel, launch, op, trace, write

US = 1000  # [ns]
B = "c10::BFloat16"


def found(tmp_path, *events, name="trace.json", **beside):
    return rl.diagnose(write(tmp_path, trace(*events, **beside), name))


def rules(diagnosis):
    return {each.rule for each in diagnosis.findings}


def test_short_kernels_are_not_rounded_to_whole_microseconds(tmp_path):
    """100 kernels of 0.6 us are 60 us; rounded one by one they would be 0, or 100."""
    seen = found(tmp_path, *(kernel("k", 10 * n, 0.6, n) for n in range(100)))

    assert seen.busy == 60 * US


def test_the_last_step_counts(tmp_path):
    """Three steps and what the device did in them: none is dropped, and the window ends with the last kernel."""
    steps = [event("user_annotation", f"ProfilerStep#{n}", 100 * n, 100) for n in range(3)]
    kernels = [each for n in range(3) for each in (launch(100 * n + 5, n, 1), kernel("k", 100 * n + 10, 80, n))]
    seen = found(tmp_path, *steps, *kernels)

    assert (seen.window, seen.busy) == (280 * US, 240 * US)
    assert [each.busy for each in seen.steps.steps] == [80 * US] * 3


def test_without_steps_there_is_no_length_of_one(tmp_path):
    """A trace of the device alone has no step: its length is not said, and no negative number stands for it."""
    seen = found(tmp_path, kernel("k", 0, 10, 1), kernel("k", 20, 10, 2))

    assert seen.steps is None
    assert seen.to_dict()["steps"] is None
    assert (seen.window, seen.busy) == (30 * US, 20 * US)


def test_kernels_launched_before_the_window_are_kept(tmp_path):
    seen = found(tmp_path, kernel("before", 0, 30, 900), launch(40, 1, 1), kernel("k", 45, 10, 1))

    assert (seen.window, seen.busy) == (55 * US, 40 * US)
    assert seen.launches.unlinked_time == 30 * US


def test_an_operator_with_a_stream_is_no_kernel(tmp_path):
    """Operators of Triton on the host have the stream among their arguments: only what ran on the device counts."""
    triton = op("triton_poi_fused_add_0", 0, 94, 1, stream=0, device=0, grid=[1, 1, 1])
    seen = found(tmp_path, triton, launch(50, 1, 1), kernel("triton_poi_fused_add_0", 60, 1.76, 1))

    assert seen.busy == 1_760
    assert [(each.name, each.calls) for each in seen.kernels] == [("triton_poi_fused_add_0", 1)]


EXPERTS = (
    "void deep_ep::internode::dispatch<false, 8>(int4*, float*)",
    "void dpsk::ep::intranode::combine<__nv_bfloat16, 8>(void*)",
)


def test_experts_that_are_sent_are_communication(tmp_path):
    """Expert parallelism sends tokens by kernels without "nccl" in their names, on a stream of their own."""
    products = [kernel("sm90_xmma_gemm_bf16bf16", 100 * n, 8, n, 7) for n in range(2)]
    sent = [kernel(name, 100 * n + 8, 56, 10 + n, 27) for n, name in enumerate(EXPERTS)]
    seen = found(tmp_path, *products, *sent)

    assert seen.communication.union == 112 * US
    assert {each.category: each.attributed for each in seen.breakdown}["other"] == 0
    assert seen.limit == "communication"
    assert "exposed-communication" in rules(seen)


@pytest.mark.parametrize(
    "name",
    ["multimem_all_reduce_kernel<c10::BFloat16, 16>", "vllm::cross_device_reduce_2stage<half, 8>",
     "one_shot_all_reduce_kernel", "two_shot_all_reduce_kernel_inplace", "quickreduce::allreduce_prototype_twoshot"],
)  # fmt: skip
def test_collectives_without_nccl_in_their_names(name, tmp_path):
    assert found(tmp_path, kernel(name, 0, 10, 1)).communication.calls == 1


def test_an_idle_device_without_a_data_loader_gets_no_advice_on_one(tmp_path):
    """Inference that is busy half of the time: the host launches late, and there is no loader in the file."""
    late = [each for n in range(8) for each in (launch(20 * n + 8, n, 2), kernel("gemm", 20 * n + 10, 10, n))]
    seen = found(tmp_path, *late)

    assert 0.5 < seen.busy / seen.window < 0.55
    assert "data-loader" not in rules(seen)
    assert "launch-gaps" in rules(seen)
    assert not [each for each in seen.findings if "num_workers" in each.advice or "pin_memory" in each.advice]


def test_a_file_without_a_device_gets_no_verdict_on_one(tmp_path):
    loader = op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 500, 1)
    seen = found(tmp_path, loader, op("aten::mm", 500, 100, 2))

    assert (seen.window, seen.limit, seen.findings) == (0, "", ())
    assert "says nothing of a GPU" in seen.verdict


def test_replayed_kernels_are_told_apart_and_get_no_advice_on_a_batch(tmp_path):
    """A decode step under a graph: its kernels have kinds, its costs are unknown, and nothing says "larger batch"."""
    names = ["sm90_xmma_gemm_bf16bf16", "flash_fwd_kernel", "rms_norm_kernel", "ncclDevKernel_AllReduce_Sum_bf16"]
    kernels = [kernel(name, 20 + 10 * n, 9.5, 1) for n, name in enumerate(names)]
    seen = found(tmp_path, launch(10, 1, 5, "cudaGraphLaunch"), *kernels)
    parts = {each.category: each.attributed for each in seen.breakdown}

    assert (parts["gemm"], parts["attention"], parts["normalisation"], parts["other"]) == (*[9_500] * 3, 0)
    assert seen.launches.replayed == 4
    assert not [each for each in seen.findings if "batch" in each.advice]
    assert "replayed by a graph" in next(iter(seen.coverage.without))


def test_gaps_are_those_of_the_device_not_of_a_stream(tmp_path):
    """Four kernels on four streams, 1 % busy: idle, though no stream has a gap between two kernels."""
    seen = found(tmp_path, *(each for n in range(4) for each in (launch(300 * n, n, 1),
                                                                 kernel("k", 300 * n + 5, 3, n, 7 + n))))  # fmt: skip

    assert seen.busy / seen.window < 0.02
    assert seen.limit == "host"


def test_each_file_of_a_folder_has_its_own_answer(tmp_path):
    """No answer is kept beside the files, so none is given for another file, or for what a file was before."""
    one = write(tmp_path, trace(kernel("one", 0, 10, 1)), "one.json")
    other = write(tmp_path, trace(kernel("other", 0, 20, 1)), "other.json")

    assert [rl.diagnose(each).busy for each in (one, other, one)] == [10 * US, 20 * US, 10 * US]
    write(tmp_path, trace(kernel("again", 0, 30, 1)), "one.json")
    assert rl.diagnose(one).busy == 30 * US
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one.json", "other.json"]


def test_a_profile_of_another_compiler_is_refused_in_a_line(tmp_path):
    """XLA's own format is not read: that is said, and nothing is guessed from the folder."""
    with pytest.raises(rl.RooflineError, match="which is not read"):
        rl.diagnose(write(tmp_path, b"\x0a\x10/host:CPU\x12\x00", "host.xplane.pb"))


def test_units_of_bytes(roofline, tmp_path):
    """A million bytes are 976.56 KiB; a rate is in GB of 10⁹ bytes."""
    args = {"device": 0, "stream": 7, "bytes": 1_000_000}
    copy = event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0, 100, pid=0, tid=7, args=args)
    answer = roofline("diagnose", write(tmp_path, trace(copy)))

    assert "1 with 976.56 KiB in 100.0 us at 10.0 GB/s" in " ".join(answer.out.split())


def test_bus_bandwidth_of_an_older_file(tmp_path):
    """Before PyTorch 2.4 the collective has no name and no group of its own: they stand in the call around it."""
    types, dims = ["TensorList", *["Scalar"] * 7], [[[1 << 20]], *[[]] * 7]
    events = [
        op("c10d::allreduce_", 0, 30, 1, **{"Input Dims": [[[1 << 20]], [], [], [], []],
                                            "Input type": ["TensorList", *[""] * 4]}),
        op("record_param_comms", 5, 20, 2, **{"Input Dims": dims, "Input type": types,
                                              "Concrete Inputs": ["", "7", "9", "0", "", "[]", "[]", "8"]}),
        launch(10, 1, 1),
        kernel("ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)", 20, 100, 1),
    ]  # fmt: skip
    (row,) = found(tmp_path, *events).to_dict()["collectives"]

    assert (row["kind"], row["bytes"], row["ranks"], row["calls"]) == ("all-reduce", 2 << 20, 8, 1)
    assert row["algbw"] == pytest.approx((2 << 20) / 100e-6)
    assert row["busbw"] == pytest.approx(2 * 7 / 8 * (2 << 20) / 100e-6)
    assert row["of_link"] == pytest.approx(row["busbw"] / 450e9)


def test_a_group_of_unknown_size_has_no_bus_bandwidth(tmp_path):
    shapes = {"Input Dims": [[1 << 20], [], []], "Input type": [B, "", ""]}
    events = [op("symm_mem::multimem_all_reduce_", 0, 30, 1, **shapes), launch(10, 1, 1),
              kernel("multimem_all_reduce_kernel<c10::BFloat16, 16>", 20, 100, 1)]  # fmt: skip
    (row,) = found(tmp_path, *events).to_dict()["collectives"]

    assert (row["ranks"], row["busbw"]) == (None, None)
    assert row["algbw"] == pytest.approx((2 << 20) / 100e-6)


def test_a_number_of_an_operator_that_began_later_names_none(tmp_path):
    """A launch outside of all operators may bear the External id of another one: its shapes are not its own."""
    shapes = {"Input Dims": [[1 << 20], [1 << 20]], "Input type": [B, B]}
    seen = found(
        tmp_path,
        launch(10, 1, 2),
        kernel("rope_kernel<c10::BFloat16>", 15, 50, 1, **{"External id": 7}),
        op("aten::add", 100, 20, 7, **shapes),
        launch(105, 2, 2),
        kernel("add_kernel<c10::BFloat16>", 110, 10, 2, **{"External id": 7}),
    )
    operators = {each.name.split("_")[0]: each.operator for each in seen.kernels}

    assert operators == {"rope": "", "add": "aten::add"}
    assert list(seen.coverage.without.values()) == [50 * US]


def test_a_link_whose_reach_is_not_known_may_join_the_ranks(tmp_path):
    """The A100's file does not say how many NVLink joins: the share of it is told, and the bound is known."""
    many = 1 << 20
    args = {"Collective name": "allreduce", "dtype": "Half", "In msg nelems": many, "Out msg nelems": many,
            "Group size": 8}  # fmt: skip
    card = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_000_000_000, "numSms": 108}
    events = [op("record_param_comms", 5, 20, 2, **args), launch(10, 1, 1)]
    events.append(kernel("ncclDevKernel_AllReduce", 20, 100, 1, **args))
    diagnosis = rl.diagnose(write(tmp_path, trace(*events, deviceProperties=[card])))
    (row,) = diagnosis.to_dict()["collectives"]

    assert row["of_link"] == pytest.approx(2 * 7 / 8 * (2 << 20) / 100e-6 / 300e9)
    assert diagnosis.placed[0].bound_seconds == pytest.approx(2 * 7 / 8 * (2 << 20) / 300e9)


def test_a_device_asked_for_is_not_the_one_of_the_file(roofline, tmp_path):
    """The bounds are of another card than the title: that is said; where the file names none, so is what was asked."""
    path = write(tmp_path, trace(kernel("gemm", 10, 9, 1)))
    assert "the file names NVIDIA H100 80GB HBM3 (h100-sxm); bounds are those of b200" in " ".join(
        roofline("diagnose", path, "--device", "b200").out.split()
    )
    assert "bounds are those" not in roofline("diagnose", path, "--device", "h100-sxm").out
    bare = write(tmp_path, trace(kernel("gemm", 10, 9, 1), deviceProperties=[]), "bare.json")
    assert "b200, as asked for" in roofline("diagnose", bare, "--device", "b200").out
