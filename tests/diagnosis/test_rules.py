"""Findings: each rule fires where its fault is, with its figure, and is silent where there is none."""

from __future__ import annotations

import itertools

import pytest

import roofline as rl
from roofline.diagnosis.rules import findings
from roofline.diagnosis.rules.scene import RULES, rule
from traces import event, kernel, launch, op, trace, write

B, F = "c10::BFloat16", "float"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn"
COUNTER = itertools.count(1)


def work(name, ts, dur, dims=(), types=(), on="kernel", concrete=(), *, grid=(4096, 1, 1), gap=0, stream=7):
    """An operator that launches one kernel, which starts at `ts` and was queued long before."""
    n = next(COUNTER)
    shapes = {"Input Dims": list(dims), "Input type": list(types), "Concrete Inputs": list(concrete)} if dims else {}
    host = ts - 60 if not gap else ts - 6
    return [
        op(name, host, 4, n, **shapes),
        launch(host + 1, n, 1),
        kernel(on, ts, dur, n, stream, grid=list(grid), block=[128, 1, 1]),
    ]


def mm(ts, dur, m, k, n, kind=B, on=GEMM, **more):
    return work("aten::mm", ts, dur, [[m, k], [k, n]], [kind, kind], on, **more)


def add(ts, dur, n, on="vectorized_elementwise_kernel<4, AddFunctor<c10::BFloat16>", **more):
    return work("aten::add", ts, dur, [[n], [n], []], [B, B, "Scalar"], on, **more)


def copy(name, ts, dur, size, n):
    return event(
        "gpu_memcpy", name, ts, dur, pid=0, tid=7, args={"device": 0, "stream": 7, "bytes": size, "correlation": n}
    )


def collective(ts, dur, n, elements, stream=20):
    known = {"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements, "Group size": 8,
             "dtype": "BFloat16"}  # fmt: skip
    return [
        op("record_param_comms", ts - 60, 4, n, **known),
        launch(ts - 59, n, 1),
        kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", ts, dur, n, stream, **known),
    ]


def scores(dur, softmax, long=512):
    """Attention as three kernels: 8 heads of 512 x 512."""
    soft = work(
        "aten::_softmax", 100 + dur, dur, [[8, long, long], [], []], [B, "Scalar", "Scalar"], "softmax_warp_forward",
        ["", "-1", "False"],
    )  # fmt: skip
    return [
        *work("aten::bmm", 100, dur, [[8, long, 64], [8, 64, long]], [B, B], GEMM),
        *(soft if softmax else []),
        *work("aten::bmm", 100 + 2 * dur, dur, [[8, long, long], [8, long, 64]], [B, B], GEMM),
    ]


def conv(helper, name="aten::cudnn_convolution"):
    """A convolution of 8 images of 64 channels with two kernels."""
    n = next(COUNTER)
    shapes = {"Input Dims": [[8, 64, 56, 56], [64, 64, 3, 3], [], [], [], [], [], [], []],
              "Input type": ["c10::Half", "c10::Half", *[""] * 7],
              "Concrete Inputs": ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", "False", "False", "True"]}  # fmt: skip
    return [
        op(name, 40, 4, n, **shapes), launch(41, n, 1), launch(42, n + 5000, 1),
        kernel(helper, 100, 20, n), kernel("sm80_xmma_fprop_implicit_gemm_f16", 120, 60, n + 5000),
    ]  # fmt: skip


def muls(count):
    """Small kernels of an optimiser, one after another."""
    for i in range(count):
        yield from work("aten::mul_", 100 + 10 * i, 5, [[256], []], [F, "Scalar"], "mul<float>")


PAGEABLE, PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
A = [kernel("sgemm", 100, 10, 1), launch(90, 1, 1)]  # a first kernel, and a second one 900 us later
Z = [kernel("sgemm", 1000, 10, 2), launch(990, 2, 1)]
STEP = event("user_annotation", "Optimizer.step#AdamW.step", 0, 9000)


# Rule: events that it fires on, what is at stake at the least and at the most [us], events that it is silent on.
def two(*mine):
    """Kernels of GPU 0 beside GPU 1, which computes for so many us and then is in a collective until 200."""
    *events, until = mine
    more = {"device": 1}
    return [*events, kernel("sgemm", 100, until, 8, **more), kernel(NCCL, 100 + until, 100 - until, 9, **more)]


CASES = {
    "unaligned": (mm(100, 300, 4096, 4096, 4099), 150, 170, mm(100, 300, 4096, 4096, 4096)),
    "no-tensor-cores": (
        mm(100, 2200, 4096, 4096, 4096, F, "ampere_sgemm_128x64_tn"), 1000, 2200,
        mm(100, 300, 4096, 4096, 4096, F, "sm80_xmma_gemm_f32f32_tf32f32_f32"),
    ),
    "waves": (
        mm(100, 60, 512, 8192, 512, grid=[16, 1, 1]), 10, 60,
        mm(100, 60, 512, 8192, 512, grid=[132, 1, 1]),
    ),
    "layout": (conv("cudnn::ops::nchwToNhwcKernel<half>"), 20, 20, conv("computeOffsetsKernel")),
    "attention-in-pieces": (scores(20, True), 50, 60, scores(20, False)),
    "far-from-bound": (add(100, 1000, 1 << 24), 900, 1000, add(100, 34, 1 << 24)),
    "unfused": (
        [*add(100, 50, 1 << 24), *add(150, 40, 1 << 24)], 40, 40,
        [*add(100, 50, 1 << 24), *mm(150, 40, 4096, 4096, 4096)],
    ),
    "busy-on-memory": (add(100, 100, 1 << 24), 60, 100, add(100, 34, 1 << 24)),
    "optimiser": (
        [STEP, *muls(40)],
        300, 400,
        [STEP, *muls(4)],
    ),
    "launch-gaps": ([*A, *Z], 880, 890, [*A, kernel("sgemm", 110, 10, 2), launch(91, 2, 1)]),
    "synchronisation": (
        [*A, *Z, event("cuda_runtime", "cudaStreamSynchronize", 100, 20), op("aten::item", 99, 22, 900)], 870, 890,
        [*A, *Z],
    ),
    "data-loader": ([*A, *Z, op(LOADER, 115, 870, 900)], 860, 880, [*A, *Z]),
    "compilation": (
        [*A, *Z, event("user_annotation", "compile_fx_inner (dynamo_timed)", 112, 870),
         event("cuda_runtime", "cuModuleLoadData", 113, 800)], 790, 890,
        [*A, *Z, event("cuda_runtime", "cuModuleLoadData", 113, 800)],
    ),
    "start-up": (
        [*A, *Z, event("cuda_runtime", "cuModuleLoadData", 113, 800)], 790, 890,
        [*A, *Z, event("user_annotation", "compile_fx_inner (dynamo_timed)", 112, 870),
         event("cuda_runtime", "cuModuleLoadData", 113, 800)],
    ),
    "outside-window": (
        [*A, event("user_annotation", "ProfilerStep#1", 0, 200)], 190, 190,
        [*A, event("user_annotation", "ProfilerStep#1", 100, 9)],
    ),
    "pageable-copies": (
        [copy(PAGEABLE, 100, 50, 1000, 1), copy(PINNED, 150, 9, 9000, 2)], 50, 50,
        [copy(PINNED, 100, 50, 1000, 1)],
    ),
    "exposed-copies": (
        [*mm(100, 80, 4096, 4096, 4096), copy(PINNED, 180, 50, 1 << 20, 1)], 50, 50,
        [*mm(100, 80, 4096, 4096, 4096), copy(PINNED, 120, 50, 1 << 20, 1)],
    ),
    "exposed-communication": (
        [*mm(100, 80, 4096, 4096, 4096), *collective(180, 50, 5001, 1 << 20)], 50, 50,
        [*mm(100, 80, 4096, 4096, 4096), *collective(110, 50, 5002, 1 << 20)],
    ),
    "communication-beyond-computation": (
        [*mm(100, 80, 4096, 4096, 4096), *collective(180, 200, 5011, 1 << 20)], 120, 120,
        [*mm(100, 80, 4096, 4096, 4096), *collective(180, 50, 5012, 1 << 20)],
    ),
    "straggler": (two(kernel(NCCL, 150, 50, 3), kernel("sgemm", 100, 50, 4), 90), 40, 40,
                  two(kernel(NCCL, 150, 50, 3), kernel("sgemm", 100, 50, 4), 50)),
    "imbalance": (two(kernel("sgemm", 100, 50, 4), kernel("sgemm", 150, 10, 5), 90), 15, 15,
                  two(kernel("sgemm", 100, 50, 4), kernel("sgemm", 150, 10, 5), 60)),
    "slow-link": (collective(100, 900, 5003, 1 << 20), 880, 900, collective(100, 9, 5004, 1 << 20)),
}  # fmt: skip


def found(tmp_path, events, **beside):
    return rl.diagnose(write(tmp_path, trace(*events, **beside)))


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fires_on_its_fault(name, tmp_path):
    """With its seconds, its figures and its advice."""
    events, least, most, _ = CASES[name]
    hits = [each for each in found(tmp_path, events).findings if each.rule == name]

    assert len(hits) == 1
    assert least * 1e-6 <= hits[0].at_stake <= most * 1e-6 * (1 + 1e-9)
    assert hits[0].title
    assert hits[0].advice
    assert all(any(c.isdigit() for c in each) for each in hits[0].evidence[:1])


@pytest.mark.parametrize("name", CASES)
def test_a_rule_is_silent_without_its_fault(name, tmp_path):
    assert name not in {each.rule for each in found(tmp_path, CASES[name][3]).findings}


def test_every_rule_has_both_tests():
    assert set(CASES) == set(RULES)


def test_findings_are_ordered_by_what_is_at_stake(tmp_path):
    """And nothing below 0.2 % of the window is a finding."""
    events = [*CASES["launch-gaps"][0], *CASES["pageable-copies"][0], *add(2000, 1000, 1 << 24)]
    stakes = [each.at_stake for each in found(tmp_path, events).findings]

    assert len(stakes) > 1
    assert stakes == sorted(stakes, reverse=True)
    assert min(stakes) >= 0.002 * 2.9e-3


def test_a_decode_on_the_roofline_is_no_fault(tmp_path):
    """One token against 4096 x 4096 weights: 0.3 % of the peak, 84 % of the bound. Nothing to find."""
    seen = found(tmp_path, mm(100, 12, 8, 4096, 4096))

    assert seen.limit == "memory"
    assert seen.findings == ()


def test_no_advice_on_what_a_file_does_not_hold(tmp_path):
    """A file without a GPU, and one without operators: no finding rests on what is not there."""
    assert found(tmp_path, [op(LOADER, 0, 500, 1)]).findings == ()
    assert found(tmp_path, [op(LOADER, 0, 500, 1), event("user_annotation", "ProfilerStep#1", 0, 900)]).findings == ()
    assert found(tmp_path, [kernel("a", 100, 10, 1), kernel("b", 1000, 10, 2)]).findings == ()


def cast(ts, dur, n, to=F):
    return work("aten::copy_", ts, dur, [[n], [n], []], [to, B, "Scalar"], "copy<float>")


BIG, HALF = 1 << 24, 1 << 23
FUSABLE = {
    "in place, then one that reads it": [
        *work("aten::mul_", 100, 50, [[BIG], []], [B, "Scalar"], "mul<c10::BFloat16>"), *add(150, 40, BIG),
    ],
    "a cast, then one of its format": [
        *cast(100, 50, BIG), *work("aten::mul", 150, 40, [[BIG], []], [F, "Scalar"], "mul<float>"),
    ],
    "a view between does not matter": [
        *work("aten::exp", 100, 50, [[1024, 16384]], [B], "exp<c10::BFloat16>"), *add(150, 40, BIG),
    ],
}  # fmt: skip
NOT_FUSABLE = {
    "another length": [*add(100, 50, BIG), *add(150, 40, HALF)],
    "another format": [*cast(100, 50, BIG), *add(150, 40, BIG)],
    "no shapes": [
        *work("aten::add", 100, 50, on="vectorized_elementwise_kernel<4, AddFunctor<float>"),
        *work("aten::add", 150, 40, on="vectorized_elementwise_kernel<4, AddFunctor<float>"),
    ],
    "a look-up, which is none of one element at a time": [
        *work("aten::index_select", 100, 50, [[BIG], [], [BIG]], [B, "Scalar", "long int"], "index<c10::BFloat16>",
              ["", "0", ""]),
        *add(150, 40, BIG),
    ],
    "a product between": [*add(100, 50, BIG), *mm(150, 40, 4096, 4096, 4096), *add(190, 50, BIG)],
    "a collective between": [*add(100, 50, BIG), *collective(150, 40, 6001, 1 << 20, 7), *add(190, 50, BIG)],
    "copies of several tensors of one size": [*cast(100, 50, BIG, B), *cast(150, 40, BIG, B)],
    "the same of several tensors": [
        each for n in (100, 150) for each in work("aten::exp", n, 50, [[BIG]], [B], "exp<c10::BFloat16>")
    ],
    "two streams": [*add(100, 50, BIG), *add(150, 40, BIG, stream=8)],
    "a compiler's": [*add(100, 50, BIG, "triton_poi_fused_add_0"), *add(150, 40, BIG, "triton_poi_fused_add_1")],
    "an optimiser's, which has a rule of its own": [STEP, *add(100, 50, BIG), *add(150, 40, BIG)],
}  # fmt: skip


@pytest.mark.parametrize("what", FUSABLE)
def test_a_chain_is_of_producers_and_consumers(what, tmp_path):
    hits = [each for each in found(tmp_path, FUSABLE[what]).findings if each.rule == "unfused"]

    assert len(hits) == 1
    assert hits[0].at_stake == pytest.approx(40e-6)
    assert any("inferred" in each for each in hits[0].evidence)
    assert any(" → " in each for each in hits[0].evidence)


@pytest.mark.parametrize("what", NOT_FUSABLE)
def test_what_cannot_be_fused_is_no_chain(what, tmp_path):
    assert "unfused" not in {each.rule for each in found(tmp_path, NOT_FUSABLE[what]).findings}


def test_waves_are_not_told_where_grids_are_not_blocks(tmp_path):
    """ROCm writes some grids in work-items."""
    card = {"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206141652992, "numSms": 304}

    seen = found(tmp_path, CASES["waves"][0], deviceProperties=[card])
    assert "waves" not in {each.rule for each in seen.findings}


def test_a_rule_is_registered_once():
    with pytest.raises(rl.RooflineError, match="twice"):
        rule("waves")(lambda scene: iter(()))
    assert callable(findings)


def test_lengths_of_attention_in_pieces_are_not_to_be_padded(tmp_path):
    """513 tokens: one kernel takes them as they are; a product of another shape beside it is told."""
    alone = {each.rule for each in found(tmp_path, scores(60, True, 513)).findings}
    beside = found(tmp_path, [*scores(60, True, 513), *mm(900, 300, 4096, 4096, 4099)]).findings

    assert "attention-in-pieces" in alone
    assert "unaligned" not in alone
    assert [each.evidence[0].split(" calls")[0] for each in beside if each.rule == "unaligned"] == [
        "1 call took 300 us; bound 139 us"
    ]


def test_each_kind_of_attention_in_pieces_is_told(tmp_path):
    (hit,) = [each for each in found(tmp_path, scores(20, True)).findings if each.rule == "attention-in-pieces"]

    assert hit.evidence[1] == "1 time 8 heads of 512 x 512 scores"
