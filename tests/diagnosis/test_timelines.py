"""Runs of many threads, streams, devices and graphs: what the figures of a timeline say, worked out beside them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.diagnosis.steps import passes
from roofline.trace.readers import open_trace
from traces import event, kernel, launch, op, trace, write

US = 1000  # [ns]
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


@pytest.fixture
def diagnosed(tmp_path):
    """Diagnose these events: `diagnosed(event, …)`."""
    return lambda *events: rl.diagnose(write(tmp_path, trace(*events)))


def causes(found):
    return {each.cause: each.time for each in found.causes}


def on(thread, each):
    return {**each, "tid": thread}


def two_kernels():
    """A gap from 20 to 110 us whose end was launched at 100."""
    return [launch(0, 1), kernel("sgemm", 10, 10, 1), launch(100, 2), kernel("sgemm", 110, 10, 2)]


BYSTANDERS = {
    "a watchdog that waits": event("cuda_runtime", "cudaEventSynchronize", 0, 105, args={"correlation": 77}),
    "a loader that reads ahead": event("user_annotation", LOADER, 0, 105),
    "a compiler's worker": op("async_compile", 0, 105, 9),
    "a heartbeat": op("c10d::barrier", 0, 105, 9),
}


@pytest.mark.parametrize("name", BYSTANDERS)
def test_threads_that_launch_nothing_keep_no_launch_up(name, diagnosed):
    """What they do is not why the device was idle, and is not named beside the gap."""
    found = diagnosed(*two_kernels(), on(99, BYSTANDERS[name]))

    assert causes(found) == {"host-bound launch": 80 * US, "launch latency": 10 * US}
    assert found.gaps[0].host == ""
    own = diagnosed(*two_kernels(), BYSTANDERS[name])  # the same on the thread that launches
    assert "host-bound launch" not in causes(own)


def test_a_loader_that_copies_ahead_keeps_no_other_thread_up(diagnosed):
    """Its own thread launches copies; what ends the gap, another one launched."""
    copies = event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 12, 5, args={"device": 0, "correlation": 9})
    ahead = [launch(5, 9, 2, "cudaMemcpyAsync"), event("user_annotation", LOADER, 8, 97)]

    other = diagnosed(*two_kernels(), copies, *(on(3, each) for each in ahead))
    assert causes(other) == {"host-bound launch": 80 * US, "launch latency": 10 * US}
    assert other.gaps[0].host == ""
    own = diagnosed(*two_kernels(), copies, *ahead)
    assert causes(own) == {"data loading": 80 * US, "launch latency": 10 * US}
    assert own.gaps[0].host == LOADER


def test_a_server_that_schedules_loads_no_data(diagnosed):
    """The next batch of a scheduler is of requests that are there."""
    found = diagnosed(*two_kernels(), event("user_annotation", "get_next_batch_to_run", 21, 78))

    assert causes(found) == {"host-bound launch": 80 * US, "launch latency": 10 * US}
    assert found.gaps[0].host == "get_next_batch_to_run"


def test_a_wait_counts_where_another_thread_launches_after_it(diagnosed):
    """As a loss that is read, before the thread of the backward pass launches."""
    found = diagnosed(
        launch(0, 1),
        kernel("sgemm", 10, 50, 1),
        event("cuda_runtime", "cudaStreamSynchronize", 20, 45, args={"correlation": 5}),
        on(2, launch(100, 2)),
        kernel("sgemm", 110, 10, 2),
    )

    assert causes(found) == {"synchronisation": 40 * US, "launch latency": 10 * US}


@pytest.mark.parametrize(
    ("call", "wait"),
    [
        ("cudaLaunchKernel", "cudaDeviceSynchronize"),
        ("hipLaunchKernel", "hipStreamSynchronize"),
        ("hipExtModuleLaunchKernel", "hipMemcpyWithStream"),
        ("urEnqueueKernelLaunch", "urQueueFinish"),
        ("urEnqueueKernelLaunch", "urEventWait"),
    ],
)
def test_waits_of_every_runtime(call, wait, diagnosed):
    found = diagnosed(
        *(launch(100 * n, n + 1, name=call) for n in range(3)),
        *(kernel("sgemm", 100 * n + 10, 20, n + 1) for n in range(3)),
        *(event("cuda_runtime", wait, 100 * n + 12, 25, args={"correlation": 50 + n}) for n in range(3)),
    )

    assert causes(found) == {"synchronisation": 140 * US, "launch latency": 20 * US}
    first = found.findings[0]
    assert (first.rule, first.evidence[1]) == ("synchronisation", f"calls that wait: 3 {wait}")
    assert first.evidence[0] == "2 gaps, 140 us in all, the longest 70.0 us"


def test_a_graph_is_one_launch_however_much_it_replays(diagnosed):
    """Each of ten replays finds the device idle: so do all launches; no kernel of it costs a launch."""
    found = diagnosed(
        *(launch(1000 * n, n + 1, 10, "cudaGraphLaunch") for n in range(10)),
        *(kernel("sgemm", 1000 * n + 20 + 4 * k, 3, n + 1) for n in range(10) for k in range(50)),
        launch(10000, 11, 5),
        kernel("sgemm", 10010, 30, 11),
    )

    assert (found.launches.replayed, found.launches.starved, found.launches.depth) == (500, 1.0, 0.0)
    assert (found.launches.cost, found.launches.short) == (5 * US, 0)


def test_a_start_before_its_launch_tells_no_delay(diagnosed):
    """The clocks of host and device disagree there."""
    skewed = [launch(20, 1), kernel("sgemm", 10, 10, 1)]

    assert diagnosed(*skewed).launches.delay is None
    assert diagnosed(*skewed, launch(50, 2), kernel("sgemm", 58, 10, 2)).launches.delay == 8 * US


def steps_of(marks, diagnosed):
    work = [each for n in range(4) for each in (launch(100 * n + 10, n + 1), kernel("sgemm", 100 * n + 20, 50, n + 1))]
    found = diagnosed(*marks, *work).steps
    assert found is not None
    return [(each.name, each.length, each.busy) for each in found.steps]


STEPS = [(f"ProfilerStep#{n}", 100 * US, 50 * US) for n in range(4)]


def marked(number, start, length, thread=1):
    return on(thread, event("user_annotation", f"ProfilerStep#{number}", start, length))


def test_steps_are_those_of_the_thread_that_launches(diagnosed):
    other = [marked(n, 100 * n + 5, 100, thread=2) for n in range(4)]

    assert steps_of([*other, *(marked(n, 100 * n, 100) for n in range(4))], diagnosed) == STEPS


def test_a_step_within_a_step_is_none_of_its_own(diagnosed):
    inner = [marked(10 + n, 100 * n + 5, 50) for n in range(4)]

    assert steps_of([*inner, *(marked(n, 100 * n, 100) for n in range(4))], diagnosed) == STEPS


def test_a_pass_that_two_marks_tell_counts_once(tmp_path):
    exact = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk320sqsq32sqsk320)"
    marks = [event("user_annotation", "step[DECODE bs=32]", 0, 9), event("user_annotation", exact, 1, 7)]

    assert [each.name for each in passes(open_trace(write(tmp_path, trace(*marks, kernel("k", 1, 1, 1)))))] == [exact]


def test_gaps_far_longer_than_launches_are_no_matter_of_graphs(diagnosed):
    """The advice follows what the gaps are made of."""

    def run(gap):
        calls = [launch(gap * n, n + 1) for n in range(6)]
        inside = [op("aten::mm", gap * n + 20, gap - 30, 50 + n) for n in range(5)]
        return diagnosed(*calls, *inside, *(kernel("sgemm", gap * n + 6, 10, n + 1) for n in range(6))).findings[0]

    assert "graph" in run(100).advice.split(",")[0]
    assert "long gaps" in run(1000).advice
    assert any("the longest it was in aten::mm" in each for each in run(1000).evidence)


def test_layouts_are_told_by_the_name_where_shapes_are_missing(diagnosed):
    found = diagnosed(
        op("aten::cudnn_convolution", 0, 9, 1),
        launch(1, 1),
        launch(3, 2),
        kernel("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(int)", 20, 30, 1),
        kernel("sm80_xmma_fprop_implicit_gemm_tf32", 50, 60, 2),
    )

    mine = next(each for each in found.findings if each.rule == "layout")
    assert mine.at_stake == pytest.approx(30e-6)
    assert mine.evidence[0] == "1 kernel took 30.0 us beside 60.0 us of convolution"


def test_waiting_for_data_is_called_so(diagnosed):
    loops = [op(LOADER, 20, 75, 9), *two_kernels()]

    assert "89 % of that waiting for data" not in diagnosed(*two_kernels()).verdict
    assert diagnosed(*loops).verdict.startswith(
        "Input-bound: the device was idle 82 % of the window, 83 % of that waiting"
    )


def test_a_launch_that_takes_long_loads_code(diagnosed):
    """A first launch of a kernel; not one of a graph, and not one that lasts as long as its kernel."""
    first = [launch(0, 1), kernel("sgemm", 10, 10, 1)]
    loads = diagnosed(*first, launch(30, 2, 9000), kernel("sgemm", 9040, 10, 2))
    graph = diagnosed(*first, launch(30, 2, 9000, "cudaGraphLaunch"), kernel("sgemm", 9040, 10, 2))
    blocks = diagnosed(*first, launch(30, 2, 9000), kernel("sgemm", 40, 8980, 2))

    assert causes(loads) == {"start-up": 9000 * US, "host-bound launch": 10 * US, "launch latency": 10 * US}
    assert loads.findings[0].rule == "start-up"
    assert "CUDA_MODULE_LOADING=EAGER" in loads.findings[0].advice
    amd = diagnosed(*first, launch(30, 2, 9000, "hipLaunchKernel"), kernel("sgemm", 9040, 10, 2))
    assert "HIP_ENABLE_DEFERRED_LOADING=0" in amd.findings[0].advice
    assert causes(graph) == {"host-bound launch": 10 * US, "launch latency": 9010 * US}
    assert causes(blocks) == {"host-bound launch": 10 * US, "launch latency": 10 * US}


def test_the_verdict_says_what_limits_the_run_without_its_one_gap(diagnosed):
    busy = [each for n in range(3, 9) for each in (launch(9000 + n, n), kernel("sgemm", 9000 + 100 * n, 100, n))]
    found = diagnosed(launch(0, 1), kernel("sgemm", 10, 10, 1), *busy)

    assert found.verdict.startswith("Host-bound")
    assert "most of it one gap of 9.28 ms" in found.verdict
    assert found.verdict.endswith(
        "Without that gap: Most of the window is gemm: 100 %. Which supply limits it is unknown: the kernels' shapes "
        "or the device are not known."
    )


def test_a_compiled_step_compiles_nothing(diagnosed):
    """Looking a compiled region up is no compilation; what allocates memory beside it is start-up."""
    region = [
        event("user_annotation", "Torch-Compiled Region: 0/0", 20, 95),
        op("TorchDynamo Cache Lookup", 21, 3, 8),
        event("user_annotation", "## Call CompiledFxGraph fx1 ##", 26, 80),
        event("cuda_runtime", "cudaMalloc", 30, 60),
    ]
    rules = {each.rule for each in diagnosed(*two_kernels(), *region).findings}
    again = {each.rule for each in diagnosed(*two_kernels(), *region, op("compile_fx_inner", 30, 60, 9)).findings}

    assert "start-up" in rules
    assert "compilation" not in rules
    assert "compilation" in again


def test_what_is_hidden_is_not_at_stake(diagnosed):
    """A slow collective costs what no computation runs beside."""
    known = {"Collective name": "allreduce", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20, "Group size": 8,
             "dtype": "BFloat16"}  # fmt: skip

    def stakes(computed):
        found = diagnosed(
            op("record_param_comms", 0, 9, 1, **known),
            launch(1, 1),
            kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, 900, 1, 20, **known),
            launch(3, 2),
            kernel("sgemm", 15, computed, 2),
        )
        return [each.at_stake for each in found.findings if each.rule == "slow-link"]

    assert stakes(910) == []
    assert stakes(605) == [pytest.approx(300e-6)]
    assert stakes(5) == [pytest.approx(896e-6, rel=0.01)]


def test_no_more_than_the_window_is_at_stake(diagnosed):
    """Where eight streams do at once what a rule adds up."""
    rows = [(n, 7 + n) for n in range(8)]
    found = diagnosed(
        *(op("aten::cudnn_convolution", 10 * n, 9, n + 1) for n, _ in rows),
        *(launch(10 * n + 1, n + 1) for n, _ in rows),
        *(kernel("cudnn::ops::nchwToNhwcKernel<float>", 100, 50, n + 1, stream) for n, stream in rows),
    )

    assert [each.at_stake for each in found.findings if each.rule == "layout"] == [pytest.approx(50e-6)]


def test_less_than_half_is_not_called_most(diagnosed):
    names = ("sgemm", "softmax_warp_forward", "rms_norm_kernel")
    found = diagnosed(*(kernel(name, 10 * n, 10 + (n == 2), n + 1) for n, name in enumerate(names)))

    assert found.verdict.startswith("The largest part of the work is normalisation: 35 % of the window.")


ACTIVITY = st.tuples(
    st.sampled_from(["sgemm", "ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_ReduceScatter_Sum_bf16", "add_kernel"]),
    st.integers(0, 120),  # start [us]
    st.integers(0, 30),  # length [us]
    st.integers(0, 3),  # stream
    st.integers(0, 40),  # how long before its start it was launched [us]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIVITY, min_size=1, max_size=20))
def test_communication_and_launches_are_what_each_microsecond_shows(tmp_path_factory, activities):
    """Counted microsecond by microsecond, and launch by launch."""
    folder = tmp_path_factory.mktemp("random")
    rows = [(name, 200 + start, length, 200 + start - ahead) for name, start, length, _, ahead in activities]
    events = [kernel(name, ts, dur, n, 7 + activities[n][3]) for n, (name, ts, dur, _) in enumerate(rows)]
    found = rl.diagnose(write(folder, trace(*events, *(launch(at, n, 1) for n, (*_, at) in enumerate(rows)))))

    def busy(us, talk):
        return any(start <= us < start + length and name.startswith("nccl") == talk for name, start, length, _ in rows)

    talking = [us for us in range(200, 400) if busy(us, True)]
    hidden = sum(busy(us, False) for us in talking)
    told = found.communication
    assert (told.union, told.overlapped, told.exposed) == (
        len(talking) * US, hidden * US, (len(talking) - hidden) * US,
    )  # fmt: skip
    idle = [max(sum(at < own for *_, at in rows) - sum(ts + dur <= own for _, ts, dur, _ in rows), 0) == 0
            for *_, own in rows]  # fmt: skip
    assert found.launches.starved == pytest.approx(sum(idle) / len(idle))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 90), st.integers(0, 20)), min_size=1, max_size=25))
def test_of_several_devices_each_nanosecond_is_that_of_one(tmp_path_factory, activities):
    """Zero lengths, overlaps and other devices: the parts add up to the window, and no activity is lost."""
    folder = tmp_path_factory.mktemp("random")
    rows = [
        {**kernel("sgemm", 100 + ts, dur, n), "args": {"device": device, "stream": 7, "correlation": n}}
        for n, (device, ts, dur) in enumerate(activities)
    ]
    found = rl.diagnose(write(folder, trace(*rows)))

    assert sum(each.attributed for each in found.breakdown) + sum(each.time for each in found.causes) == found.window
    assert sum(each.calls for each in found.breakdown) + sum(found.others.values()) == len(activities)
