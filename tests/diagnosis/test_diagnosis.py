"""Where the time went: every figure worked out by hand from a small trace."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.diagnosis.judge import diagnose_trace
from roofline.diagnosis.steps import passes
from roofline.trace.classify import CATEGORIES
from roofline.trace.events import NONE
from roofline.trace.link import link
from roofline.trace.readers import open_trace
from traces import event, kernel, launch, op, small, trace, write

US = 1000  # [ns]


@pytest.fixture
def diagnosed(tmp_path):
    """Diagnose these events: `diagnosed(event, …)`."""

    def call(*events, **beside):
        return rl.diagnose(write(tmp_path, trace(*events, **beside)))

    return call


def parts(found):
    return {each.category: each.attributed for each in found.breakdown if each.sum}


def causes(found):
    return {each.cause: each.time for each in found.causes}


def test_small_trace(tmp_path):
    """100 us: GEMMs take 60, the all-reduce 20, nothing runs for 20."""
    found = rl.diagnose(write(tmp_path, small()))

    assert (found.window, found.busy, found.idle) == (100 * US, 80 * US, 20 * US)
    assert parts(found) == {"gemm": 60 * US, "communication": 20 * US}
    assert causes(found) == {"host-bound launch": 12 * US, "launch latency": 8 * US}
    assert [(each.readable, each.calls, each.sum, each.operator) for each in found.kernels] == [
        ("ampere_sgemm_128x64_tn", 2, 60 * US, "aten::mm"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1, 20 * US, "record_param_comms"),
    ]
    assert found.kernels[0].share == 0.75
    assert found.card is not None
    assert found.card.name == "NVIDIA H100 80GB HBM3"
    assert found.limit == "latency"  # [8, 16] x [16, 32] in 30 us
    assert found.verdict.endswith(
        "Most of the window is gemm: 60 %. The device was idle 20 % of it; first cause: host-bound launch."
    )
    assert (found.launches.linked, found.launches.unlinked, found.launches.cost) == (3, 0, 5 * US)
    assert found.launches.delay == 10 * US  # 10, 8 and 10 us from call to start
    assert found.launches.starved == pytest.approx(2 / 3)  # the third came while the second GEMM ran


def test_time_in_which_several_run_counts_once(diagnosed):
    """Computation before communication before copies; what is hidden is shown beside."""
    found = diagnosed(
        kernel("ampere_sgemm_tn", 0, 10, 1),
        kernel("ncclDevKernel_AllReduce", 5, 10, 2, 8),
        event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 12, 8, args={"device": 0, "stream": 9, "bytes": 8000}),
    )

    assert parts(found) == {"gemm": 10 * US, "communication": 5 * US, "copy": 5 * US}
    hidden = {each.category: each.hidden for each in found.breakdown if each.sum}
    assert hidden == {"gemm": 0, "communication": 5 * US, "copy": 3 * US}
    talk = found.communication
    assert (talk.union, talk.exposed, talk.overlapped) == (10 * US, 5 * US, 5 * US)
    assert [(each.kind, each.pinned, each.bytes, each.sum) for each in found.copies] == [("HtoD", False, 8000, 8 * US)]


ACTIVITY = st.tuples(
    st.sampled_from(["sgemm", "flash_fwd", "nccl", "softmax", "add_kernel", "mystery", "layer_norm"]),
    st.integers(1, 400),
    st.integers(0, 60),
    st.integers(0, 3),
)


@settings(max_examples=40)
@given(st.lists(ACTIVITY, min_size=1, max_size=25))
def test_the_breakdown_adds_up_exactly(tmp_path_factory, activities):
    """Whatever runs beside whatever: categories and idle time are the window, to the nanosecond; so are the causes."""
    folder = tmp_path_factory.mktemp("random")
    events = [kernel(name, ts / 7, dur / 7, i, stream) for i, (name, ts, dur, stream) in enumerate(activities, 1)]
    calls = [launch(ts / 7 - 1, i, 0.5) for i, (_, ts, _, _) in enumerate(activities, 1) if i % 3]
    found = rl.diagnose(write(folder, trace(*events, *calls)))

    assert sum(each.attributed for each in found.breakdown) == found.busy
    assert found.busy + found.idle == found.window
    assert sum(each.time for each in found.causes) == found.idle
    assert all(each.attributed <= each.union <= each.sum for each in found.breakdown)
    assert len(found.breakdown) == len(CATEGORIES)


def test_a_run_of_copies_is_called_so(diagnosed):
    """Not a matter of shapes that the file lacks."""
    args = {"device": 0, "stream": 9, "bytes": 8000}
    found = diagnosed(
        kernel("sgemm", 0, 10, 1), event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 12, 88, args=args)
    )

    assert found.limit == ""
    assert found.verdict.startswith("Most of the window is copy: 88 %. Nothing is computed beside them")


GAPS = {
    "host-bound launch": [launch(90, 2)],
    "synchronisation": [event("cuda_runtime", "cudaStreamSynchronize", 5, 8), launch(90, 2)],
    "data loading": [op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 5, 84, 9), launch(90, 2)],
    "start-up": [event("cuda_runtime", "cuModuleLoadData", 11, 78), launch(90, 2)],
    "waiting for a collective": [op("c10d::barrier", 8, 80, 9), launch(90, 2)],
    "launch latency": [launch(11, 2)],
    "queued on the device": [launch(3, 2)],
    "launch not recorded": [],
}


@pytest.mark.parametrize("cause", GAPS)
def test_each_cause_of_a_gap(cause, diagnosed):
    """A gap from 10 to 100 us that ends with a kernel: what the host did decides."""
    found = diagnosed(launch(0, 1), kernel("sgemm", 2, 8, 1), kernel("sgemm", 100, 5, 2), *GAPS[cause])

    assert found.idle == 90 * US
    assert max(causes(found), key=lambda each: causes(found)[each]) == cause
    assert sum(causes(found).values()) == 90 * US
    assert (found.gaps[0].at, found.gaps[0].length, found.gaps[0].cause) == (8 * US, 90 * US, cause)
    assert found.gaps[0].next == "sgemm"


def test_the_longest_gap_names_what_the_host_did(diagnosed):
    found = diagnosed(
        launch(0, 1),
        kernel("sgemm", 2, 8, 1),
        op("aten::nonzero", 12, 70, 5),
        launch(90, 2),
        kernel("sgemm", 100, 5, 2),
    )

    assert found.gaps[0].host == "aten::nonzero"


def test_steps_without_their_warm_up(diagnosed):
    """Median and spread are those of the steps that count; a kernel is of the step that launched it."""
    lengths = [90, 20, 22, 24]
    events, start = [], 0
    for n, length in enumerate(lengths):
        events += [event("user_annotation", f"ProfilerStep#{n}", start, length), launch(start + 1, n + 1)]
        events.append(kernel("sgemm", start + length, 10, n + 1))
        start += length
    found = diagnosed(*events).steps

    assert [(each.length, each.busy, each.warm_up) for each in found.steps] == [
        (90 * US, 10 * US, True),
        (20 * US, 10 * US, False),
        (22 * US, 10 * US, False),
        (24 * US, 10 * US, False),
    ]
    assert (found.median, found.least, found.most) == (22 * US, 20 * US, 24 * US)
    assert found.rule.startswith("the first 1 of 4 left out as warm-up")


def test_no_step_is_left_out_where_none_is_slow(diagnosed):
    marks = [event("user_annotation", f"ProfilerStep#{n}", 10 * n, 10) for n in range(3)]

    assert diagnosed(*marks, kernel("k", 1, 1, 1)).steps.rule == "all 3 count"
    assert diagnosed(marks[0], kernel("k", 1, 1, 1)).steps.rule == "the only one counts"
    assert diagnosed(kernel("k", 1, 1, 1)).steps is None


PASSES = {
    "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)": (32, 0, 0, 0, 32, 32, 55086),
    "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)": (
        8192, 9, 8155, 8430, 37, 37, 34489,
    ),
    "execute_context_1(888_788544)_generation_0(0)": (None, 1, 888, None, 0, 0, None),
    "step[DECODE bs=32]": (None, 0, 0, None, 32, 32, None),
    "step[EXTEND bs=15 toks=15360]": (None, 15, 15360, None, 0, 0, None),
    "step[DECODE bs=4 g_sq=4 g_sqsq=4 g_sqsk=900 g_sk=900 forward_id=7]": (None, 0, 0, None, 4, 4, 900),
    "step[VERIFY bs=4 g_sq=16 g_sqsq=64 g_sqsk=3600 g_sk=900]": (None, 0, 0, None, 4, 16, 900),
    "step[EXTEND bs=2 toks=30 c_sq=30 c_sqsq=500 c_sqsk=620 c_sk=40]": (None, 2, 30, 40, 0, 0, None),
    "step[MIXED bs=5 c=2 g=3 c_sq=30 c_sk=40 c_sqsq=500 c_sqsk=620 g_sq=3 g_sk=70 g_sqsq=3 g_sqsk=70]": (
        None, 2, 30, 40, 3, 3, 70,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSES)
def test_what_servers_write_into_their_marks(name, tmp_path):
    """Exact query and KV lengths of vLLM and SGLang."""
    found = passes(open_trace(write(tmp_path, trace(event("user_annotation", name, 0, 5), kernel("k", 1, 1, 1)))))

    assert [
        (p.padded, p.context_requests, p.context_tokens, p.context_kv,
         p.generation_requests, p.generation_tokens, p.generation_kv) for p in found
    ] == [PASSES[name]]  # fmt: skip


def test_marks_that_only_look_like_passes(tmp_path):
    names = [
        *("execute_model", "execute_x_context", "step[", "my execute_ thing"),
        *(
            "step[IDLE bs=0]",
            "step[VERIFY bs=4]",
            "step[MIXED bs=8]",
            "step[DRAFT bs=2]",
        ),  # how many tokens is not said
    ]
    marks = [event("user_annotation", name, 0, 5) for name in names]

    assert passes(open_trace(write(tmp_path, trace(*marks, kernel("k", 1, 1, 1))))) == ()


def test_graph_replays_are_counted(diagnosed):
    """All kernels of a replay have the number of one call."""
    found = diagnosed(launch(0, 1, name="cudaGraphLaunch"), *(kernel("sgemm", 5 + 3 * n, 2, 1) for n in range(4)))

    assert found.launches.replayed == 4
    assert found.launches.delay is None


def test_a_file_without_a_gpu_says_nothing_of_one(tmp_path):
    found = rl.diagnose(write(tmp_path, trace(op("aten::mm", 0, 5, 1))))

    assert (found.window, found.busy, found.device, found.card) == (0, 0, None, None)
    assert found.causes == found.gaps == found.kernels == ()
    assert "no device activity" in found.verdict.lower()
    assert found.to_dict()["device"] == {
        "id": None,
        "name": "",
        "recognised_from": None,
        "candidates": [],
        "number": None,
        "bandwidth": None,
        "clock": None,
        "ridge": {},
    }


def test_of_several_devices_the_busiest_in_number(diagnosed):
    found = diagnosed(
        kernel("a", 0, 1, 1),
        *(kernel("sgemm", 10 * n, 5, n + 2, device=3) for n in range(3)),
    )

    assert found.device == 3
    assert found.window == 25 * US
    assert found.others == {0: 1}


def test_what_ran_while_the_cause_of_idle_times_is_unknown(diagnosed):
    """Most of the window is idle, no call says why; the rest is communication."""
    found = diagnosed(
        kernel("ncclDevKernel_Generic_1", 1000, 90, 1), kernel("sgemm", 1090, 10, 2), kernel("sgemm", 1900, 10, 3)
    )

    assert found.verdict.endswith("with work queued or unrecorded. Of the rest, 82 % is communication.")


def test_amd_numbers_its_devices_otherwise(diagnosed):
    """Agent 9 of a file that lists one card is that card; of cards that differ it is unknown."""
    amd = {"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 1, "numSms": 304}
    one = diagnosed(kernel("k", 0, 1, 1, device=9), deviceProperties=[amd])
    two = diagnosed(kernel("k", 0, 1, 1, device=9), deviceProperties=[amd, amd | {"id": 1, "numSms": 228}])

    assert one.card is not None
    assert one.card.multiprocessors == 304
    assert two.card is None


def linked(tmp_path, *events):
    found = open_trace(write(tmp_path, trace(*events)))
    links = link(found)
    names = [found.names[found.ops.name[at]] if at != NONE else None for at in links.op.tolist()]
    return names, links


def test_a_kernel_is_joined_to_the_innermost_operator_around_its_launch(tmp_path):
    names, links = linked(
        tmp_path,
        op("aten::linear", 0, 20, 1),
        op("aten::addmm", 2, 10, 2),
        op("aten::other", 4, 2, 3, tid=9) | {"tid": 9},
        launch(5, 7),
        kernel("k", 30, 5, 7, **{"External id": 1}),
    )

    assert names == ["aten::addmm"]
    assert links.parent.tolist() == [NONE, 0, NONE]


def test_an_external_id_stands_in_where_no_call_is_recorded(tmp_path):
    names, links = linked(tmp_path, op("aten::mm", 0, 20, 5), kernel("k", 30, 5, 7, **{"External id": 5}))

    assert names == ["aten::mm"]
    assert links.external_used


def test_an_external_id_that_copies_the_correlation_is_not_believed(tmp_path):
    """Files of 2022 to 2024: the copies collide with the ids of other operators."""
    names, links = linked(
        tmp_path,
        op("aten::wrong", 0, 20, 7),
        op("aten::right", 50, 20, 2),
        launch(55, 8),
        kernel("k", 30, 5, 7, **{"External id": 7}),
        kernel("k", 60, 5, 8, **{"External id": 8}),
    )

    assert names == [None, "aten::right"]
    assert not links.external_used


def test_of_calls_with_one_number_the_last_before_the_kernel(tmp_path):
    """Numbers repeat where traces were put together."""
    names, _ = linked(
        tmp_path,
        *(op(f"aten::op{n}", 100 * n, 20, n + 1) for n in range(3)),
        *(launch(100 * n + 5, 7) for n in range(3)),
        *(kernel("k", 100 * n + 30, 5, 7) for n in range(3)),
    )

    assert names == ["aten::op0", "aten::op1", "aten::op2"]


def test_the_record_follows_its_schema(tmp_path):
    """JSON types that the schema of the package describes."""
    import jsonschema

    from roofline.show.schema import schema

    record = rl.diagnose(write(tmp_path, small())).to_dict()

    jsonschema.validate(json.loads(json.dumps(record)), schema("diagnosis-1"))
    assert record["schema"] == "roofline.diagnosis/1"
    assert record["device"]["id"] == "h100-sxm"
    assert record["device"]["recognised_from"]
    assert sum(record["breakdown_ns"].values()) == record["window_ns"] == 100_000
    assert record["breakdown"]["gemm"] == 60e-6
    assert record["coverage"] == 1.0
    assert record["kernels"][0]["flops"] == 2 * 2 * 8 * 32 * 16  # two calls
    assert record["kernels"][0]["bytes"] == 2 * 4 * (8 * 16 + 16 * 32 + 8 * 32)
    assert record["kernels"][1]["cost_from"] == "unknown"  # the group's size is not in the file
    assert record["events"]["read"] == 12


def test_columns_are_of_64_bit_where_they_are_times(tmp_path):
    found = open_trace(write(tmp_path, small()))

    assert found.gpu.start.dtype == found.ops.duration.dtype == np.int64
    assert diagnose_trace(found).window == 100_000


def test_a_step_takes_as_long_as_its_work_on_the_device(diagnosed):
    """A host that only queues its work is done long before the device: 20 us, and 100 us of kernels."""
    mine = [event("user_annotation", "execute_context_0(0)_generation_1(1)", at, 20) for at in (0, 100)]
    work = [
        each for n in range(4) for each in (launch(n // 2 * 100 + n % 2 * 5 + 1, n), kernel("k", 10 + n * 50, 50, n))
    ]
    found = diagnosed(*mine, *work).steps

    assert [(each.length, each.host, each.busy) for each in found.steps] == [(100_000, 20_000, 100_000)] * 2
    assert found.median == 100_000


def test_the_rest_of_a_loop_is_no_step(diagnosed):
    mine = [event("user_annotation", f"ProfilerStep#{n}", at, taken) for n, at, taken in ((1, 0, 1000), (2, 1000, 40))]
    found = diagnosed(*mine, launch(10, 1), kernel("k", 20, 800, 1)).steps

    assert found.median == found.most == 1_000_000
    assert [each.steady for each in found.steps] == [True, False]
    assert found.rule == "1 of 2 left out, as nothing ran on the device"


def test_what_a_marked_range_encloses_is_in_it_already(diagnosed):
    """Modules within modules whose names differ in a number: 60 us once, not twice; a list of two is of both."""
    outer, inner = (event("user_annotation", f"block_{n}", at, taken) for n, at, taken in ((1, 0, 100), (2, 10, 50)))
    found = diagnosed(outer, inner, event("user_annotation", "block_3", 200, 50), launch(20, 1), launch(210, 2),
                      kernel("k", 30, 60, 1), kernel("k", 220, 40, 2))  # fmt: skip

    assert [(each.name, each.device) for each in found.ranges] == [
        ("block_1", 60_000), ("block_2", 60_000), ("block_3", 40_000),
    ]  # fmt: skip
    assert [(each.name, each.calls, each.host, each.device) for each in found.alike] == [
        ("block_*", 3, 150_000, 100_000)
    ]
