"""Kernels that a graph replays have the operators of the pass that captured it, or none."""

from __future__ import annotations

import pytest

import roofline as rl
from traces import event, kernel, launch, op, trace, write

B = "c10::BFloat16"
GEMM, NORM, FLASH = "sm90_xmma_gemm_bf16bf16", "vectorized_layer_norm_kernel<BFloat16>", "flash_fwd_kernel"
LAYER = (NORM, GEMM, FLASH, GEMM)


def shaped(name, m):
    if name == NORM:
        return "aten::native_layer_norm", [[m, 64], [], [64], [64], []], [B, "ScalarList", B, B, "Scalar"], []
    if name == GEMM:
        return "aten::mm", [[m, 64], [64, 64]], [B, B], []
    dims = [[1, m, 4, 16]] * 3
    return "aten::_flash_attention_forward", [*dims, *[[]] * 9], [B, B, B, *[""] * 9], [*[""] * 8, "True", *[""] * 3]


def captured(m, at=0, layer=LAYER, first=700, label=None):
    """A pass that is captured: operators with shapes and launches of which nothing runs."""
    events = [event("cuda_runtime", "cudaStreamBeginCapture", at, 1)]
    for i, name in enumerate(layer):
        operator, dims, types, concrete = shaped(name, m)
        args = {"Input Dims": dims, "Input type": types, "Concrete Inputs": concrete}
        events += [op(operator, at + 10 * i + 2, 8, first + i, **args), launch(at + 10 * i + 3, first + i, 2)]
    end = at + 10 * len(layer) + 2
    events.append(event("cuda_runtime", "cudaStreamEndCapture", end, 1))
    if label is not None:
        events.append(event("user_annotation", label, at, end + 5 - at))
    return events


def replayed(at, number, layer=LAYER, label=None):
    """A launch of a graph, and its kernels, which all bear its number."""
    events = [launch(at, number, 5, "cudaGraphLaunch")]
    events += [kernel(name, at + 20 + 10 * i, 5 + i, number) for i, name in enumerate(layer)]
    if label is not None:
        events.append(event("user_annotation", label, at - 1, 100))
    return events


def flops(found):
    return sum(each.demand.flops for each in found.kernels if each.demand is not None)


def norm_gemm_flash(m):
    return 3 * m * 64 + 2 * 2 * m * 64 * 64 + 4 * 64 * m * (m + 1) // 2


def test_a_replay_has_the_operators_of_its_capture(tmp_path):
    """In one file: each replay has all of the cost, not a part of it."""
    found = rl.diagnose(write(tmp_path, trace(*captured(8), *replayed(100, 1), *replayed(300, 2))))

    assert flops(found) == 2 * norm_gemm_flash(8)
    assert found.coverage is not None
    assert found.coverage.share == 1.0
    assert (found.launches.replayed, found.launches.captured) == (8, 8)
    assert {each.operator for each in found.kernels} >= {"aten::mm", "aten::native_layer_norm"}


def test_a_capture_in_another_file(tmp_path):
    run = write(tmp_path, trace(*replayed(100, 1)), "run.json")
    capture = write(tmp_path, trace(*captured(8, first=1)), "capture.json")

    assert flops(rl.diagnose(run)) == 0
    found = rl.diagnose(run, capture=capture)
    assert flops(found) == norm_gemm_flash(8)
    assert found.to_dict()["launches"]["graph_captured"] == 4
    assert found.warnings == ()


@pytest.mark.parametrize(
    "events",
    [
        captured(8, layer=LAYER[:3]),  # fewer launches than kernels
        captured(8, layer=(GEMM, NORM, GEMM, FLASH)),  # as many, of other kinds
        [*captured(8), *captured(16, 60)],  # two that fit, and nothing that tells which
        captured(8)[:-1],  # a capture that does not end
    ],
)
def test_what_does_not_fit_lends_nothing(tmp_path, events):
    found = rl.diagnose(write(tmp_path, trace(*events, *replayed(200, 1))))

    assert flops(found) == 0
    assert found.launches.captured == 0
    assert "--capture" in found.coverage.remedy()


def test_the_size_of_the_batch_tells_captures_apart(tmp_path):
    """Captures of 8 and 16 tokens are alike but for their shapes; the pass says that it is padded to 16."""
    label = "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_13(sq13sk500sqsq13sqsk500)"
    both = [*captured(8, label="capture_8_FULL"), *captured(16, 60, first=800, label="capture_16_FULL")]
    found = rl.diagnose(write(tmp_path, trace(*both, *replayed(200, 1, label=label))))

    assert flops(found) == norm_gemm_flash(16)


def test_layers_that_are_captured_alike_lend_the_same(tmp_path):
    """Piece by piece, each layer is a graph of its own: which of the alike ones was replayed does not matter."""
    layers = [*captured(8), *captured(8, 60, first=800)]
    found = rl.diagnose(write(tmp_path, trace(*layers, *replayed(200, 1), *replayed(400, 2))))

    assert flops(found) == 2 * norm_gemm_flash(8)


def test_a_file_that_captures_nothing_is_told(tmp_path):
    run = write(tmp_path, trace(*replayed(100, 1)), "run.json")
    found = rl.diagnose(run, capture=write(tmp_path, trace(*replayed(100, 1)), "other.json"))
    assert "captures no graph" in found.warnings[0]

    dmon = "# gpu    pwr     sm    mem\n# Idx      W      %      %\n    0    100     90     20\n"
    counters = write(tmp_path, dmon, "dmon.txt")
    with pytest.raises(rl.RooflineError, match="captures no graph: it has no timeline"):
        rl.diagnose(run, capture=counters)
    with pytest.raises(rl.RooflineError, match="A capture is of a trace that replays graphs"):
        rl.diagnose(counters, capture=run)
    with pytest.raises(rl.RooflineError, match="A capture is of one trace"):
        rl.diagnose([run, run], capture=run)


@pytest.mark.parametrize(("dur", "costed"), [(400, True), (2, False)])
def test_attention_that_beats_all_positions_of_its_pass_has_a_window(tmp_path, dur, costed):
    """Layers of one model may look at a window that no shape tells: there, the whole context is no bound."""
    label = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk320000sqsq32sqsk320000)"
    dims = [[32, 32, 128], [32, 8, 128], [32, 8, 128], [32, 32, 128]]
    found = rl.diagnose(
        write(
            tmp_path,
            trace(
                event("user_annotation", label, 0, 50),
                op("vllm::unified_attention_with_output", 5, 20, 1, **{"Input Dims": dims, "Input type": [B] * 4}),
                launch(10, 1, 2),
                kernel("kernel_unified_attention_2d", 30, dur, 1),
            ),
        )
    )
    (row,) = found.kernels

    assert (row.demand is not None) is costed
    if costed:  # 320,000 positions of 8 heads of 128, K and V, over 3.35 TB/s: 391 us
        assert row.demand.bound == pytest.approx(391e-6, rel=2e-3)
    else:
        assert "as by a window" in next(iter(found.coverage.without))
