"""What operators demand, by their recorded shapes: every figure worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import roofline as rl
from roofline.diagnosis.costs.call import Call, Lengths, format_of, read
from roofline.diagnosis.costs.convolution import outputs
from roofline.diagnosis.costs.rates import candidates, on_vector_units, rate
from roofline.diagnosis.costs.registry import rule, work_of
from roofline.dtypes import DTYPES
from traces import kernel, launch, op, trace, write

F, H, B, L = "float", "c10::Half", "c10::BFloat16", "long int"
BOOL = "bool"
QKV = [[2, 100, 8, 64], [2, 100, 4, 64], [2, 100, 4, 64]]  # sequences, positions, heads, head
PAIRS = 100 * 101 // 2
HEADS_FIRST = [[2, 8, 100, 64], [2, 4, 100, 64], [2, 4, 100, 64]]
FLASH = 4 * 2 * 8 * 64 * PAIRS
MOVED = 2 * (2 * 2 * 100 * 8 * 64 + 2 * 2 * 100 * 4 * 64)  # q and y, K and V


def call(name, dims, types, concrete=(), *, kernel="", strides=(), peaks=None, **more):
    detail = {"dims": dims, "types": types, "concrete": list(concrete), "strides": list(strides), **more}
    return read(name, json.dumps(detail).encode(), kernel, None if peaks is None else frozenset(peaks))


COSTS = {
    # products: 2 m n k, each operand once
    "mm": (("aten::mm", [[8, 16], [16, 32]], [F, F]), 2 * 8 * 16 * 32, 4 * (8 * 16 + 16 * 32 + 8 * 32)),
    "addmm with a bias": (
        ("aten::addmm", [[32], [8, 16], [16, 32], [], []], [B, B, B, "Scalar", "Scalar"], ["", "", "", "1", "1"]),
        2 * 8 * 16 * 32,
        2 * (8 * 16 + 16 * 32 + 8 * 32 + 32),
    ),
    "baddbmm whose sum is not read": (
        ("aten::baddbmm", [[2, 8, 32], [2, 8, 16], [2, 16, 32], [], []], [H, H, H, "Scalar", "Scalar"],
         ["", "", "", "0.", "1"]),
        2 * 2 * 8 * 16 * 32,
        2 * 2 * (8 * 16 + 16 * 32 + 8 * 32),
    ),
    "baddbmm whose sum is read": (
        ("aten::baddbmm", [[2, 8, 32], [2, 8, 16], [2, 16, 32], [], []], [H, H, H, "Scalar", "Scalar"],
         ["", "", "", "1", "1"]),
        2 * 2 * 8 * 16 * 32,
        2 * 2 * (8 * 16 + 16 * 32 + 2 * 8 * 32),
    ),
    "bmm": (("aten::bmm", [[3, 8, 16], [3, 16, 32]], [H, H]), 3 * 2 * 8 * 16 * 32, 3 * 2 * (8 * 16 + 16 * 32 + 8 * 32)),
    "linear": (
        ("aten::linear", [[2, 4, 16], [32, 16], [32]], [B, B, B]),
        2 * 8 * 16 * 32,
        2 * (8 * 16 + 16 * 32 + 8 * 32 + 32),
    ),
    "matmul that broadcasts": (
        ("aten::matmul", [[3, 8, 16], [16, 32]], [B, B]),
        2 * 24 * 16 * 32,
        2 * (24 * 16 + 16 * 32 + 24 * 32),
    ),
    "scaled product of fp8 into bf16": (
        ("aten::_scaled_mm", [[8, 16], [16, 32], [], []], ["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", F, F]),
        2 * 8 * 16 * 32,
        8 * 16 + 16 * 32 + 2 * 8 * 32,
    ),
    "scaled product of vLLM": (
        ("_C::cutlass_scaled_mm", [[8, 32], [8, 16], [16, 32]], [B, "c10::Float8_e4m3fn", "c10::Float8_e4m3fn"]),
        2 * 8 * 16 * 32,
        8 * 16 + 16 * 32 + 2 * 8 * 32,
    ),
    "grouped product": (
        ("aten::_grouped_mm", [[64, 16], [4, 16, 32], [4]], [B, B, "int"]),
        2 * 64 * 16 * 32,
        2 * (64 * 16 + 16 * 32 + 64 * 32),  # at the least the weights of one group
    ),
    "template of a compiler": (
        ("triton_tem_fused_mm_0", [[8, 16], [16, 32], [8, 32]], [B, B, B]),
        2 * 8 * 16 * 32,
        2 * (8 * 16 + 16 * 32 + 8 * 32),
    ),
    # attention: 4 heads x head x pairs
    "flash, causal": (
        ("aten::_flash_attention_forward", [*QKV, *[[]] * 12], [B, B, B, *[""] * 12],
         ["", "", "", "", "", "100", "100", "0.", "True", *[""] * 6]),
        FLASH, MOVED,
    ),
    "flash, without a mask": (
        ("aten::_flash_attention_forward", [*QKV, *[[]] * 12], [B, B, B, *[""] * 12],
         ["", "", "", "", "", "100", "100", "0.", "False", *[""] * 6]),
        4 * 2 * 8 * 64 * 100 * 100, MOVED,
    ),
    "flash backward: five products for two": (
        ("aten::_flash_attention_backward", [QKV[0], *QKV, QKV[0], *[[]] * 11], [B, B, B, B, B, *[""] * 11],
         ["", "", "", "", "", "", "", "", "100", "100", "0.", "True", "", "", "", ""]),
        FLASH * 5 // 2, 2 * MOVED,
    ),
    "memory-efficient, causal": (
        ("aten::_efficient_attention_forward", [*QKV, *[[]] * 9], [B, B, B, *[""] * 9],
         ["", "", "", "", "", "", "", "", "0.", "1", "False", ""]),
        FLASH, MOVED,
    ),
    "cuDNN": (
        ("aten::_scaled_dot_product_cudnn_attention", [*HEADS_FIRST, [], [], [], []], [B, B, B, "", *["Scalar"] * 3],
         ["", "", "", "", "False", "0.", "True"]),
        FLASH, MOVED,
    ),
    "SDPA that one kernel did": (
        ("aten::scaled_dot_product_attention", [*HEADS_FIRST, [], [], []], [B, B, B, "", "Scalar", "Scalar"],
         ["", "", "", "", "0.", "True"]),
        FLASH, MOVED,
    ),
    "one new token reads its whole context": (
        ("aten::_flash_attention_forward", [[2, 1, 8, 64], *QKV[1:], *[[]] * 12], [B, B, B, *[""] * 12],
         ["", "", "", "", "", "1", "100", "0.", "True", *[""] * 6]),
        4 * 2 * 8 * 64 * 100, 2 * (2 * 2 * 8 * 64 + 2 * 2 * 100 * 4 * 64),
    ),
    "cross attention to a shorter sequence": (
        ("aten::_scaled_dot_product_flash_attention", [[2, 8, 100, 64], *[[2, 8, 77, 64]] * 2, [], []],
         [H, H, H, "Scalar", "Scalar"], ["", "", "", "0.", "False"]),
        4 * 2 * 8 * 64 * 100 * 77, 2 * 2 * 2 * 8 * 64 * (100 + 77),
    ),
    "packed sequences of unknown lengths: alike, which has the fewest pairs": (
        ("flash_attn::_flash_attn_varlen_forward", [[200, 8, 64], [200, 4, 64], [200, 4, 64], [3], [3]],
         [B, B, B, "int", "int"], ["", "", "", "", "", "100", "100", "0.", "0.125", "True"]),
        FLASH, MOVED,
    ),
    # convolutions: 2 y depth taps
    "convolution": (
        ("aten::convolution", [[2, 3, 8, 8], [4, 3, 3, 3], [], [], [], [], [], [], []], [H, H, *[""] * 7],
         ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]),
        2 * 2 * 64 * 4 * 3 * 9, 2 * (2 * 3 * 64 + 4 * 3 * 9 + 2 * 4 * 64),
    ),
    "convolution with stride 2 and groups": (
        ("aten::cudnn_convolution", [[2, 4, 8, 8], [4, 1, 3, 3], *[[]] * 7], [F, F, *[""] * 7],
         ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "4", "False", "False", "True"]),
        2 * 2 * 16 * 4 * 1 * 9, 4 * (2 * 4 * 64 + 4 * 9 + 2 * 4 * 16),
    ),
    "a 1x1 filter with stride 2 reads a quarter": (
        ("aten::conv2d", [[2, 4, 8, 8], [4, 4, 1, 1], *[[]] * 5], [F, F, *[""] * 5],
         ["", "", "", "[2, 2]", "[0, 0]", "[1, 1]", "1"]),
        2 * 2 * 16 * 4 * 4, 4 * (2 * 4 * 16 + 4 * 4 + 2 * 4 * 16),
    ),
    "transposed convolution": (
        ("aten::convolution", [[2, 4, 4, 4], [4, 3, 2, 2], *[[]] * 7], [H, H, *[""] * 7],
         ["", "", "", "[2, 2]", "[0, 0]", "[1, 1]", "True", "[0, 0]", "1"]),
        2 * 2 * 16 * 4 * 3 * 4, 2 * (2 * 3 * 64 + 4 * 3 * 4 + 2 * 4 * 16),
    ),
    "both gradients of a convolution": (
        ("aten::convolution_backward", [[2, 4, 8, 8], [2, 3, 8, 8], [4, 3, 3, 3], *[[]] * 8], [H, H, H, *[""] * 8],
         ["", "", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]),
        2 * 2 * 2 * 64 * 4 * 3 * 9, 2 * 2 * (2 * 3 * 64 + 4 * 3 * 9 + 2 * 4 * 64),
    ),
    "the gradient of the weights of the first layer": (
        ("aten::convolution_backward", [[2, 4, 8, 8], [2, 3, 8, 8], [4, 3, 3, 3], *[[]] * 8], [H, H, H, *[""] * 8],
         ["", "", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[False, True, False]"]),
        2 * 2 * 64 * 4 * 3 * 9, 2 * (2 * 3 * 64 + 4 * 3 * 9 + 2 * 4 * 64),
    ),
    # normalisation, softmax
    "layer norm": (
        ("aten::native_layer_norm", [[8, 32], [], [32], [32], []], [F, "ScalarList", F, F, "Scalar"]),
        3 * 8 * 32, 4 * (2 * 8 * 32 + 2 * 32),
    ),
    "layer norm backward": (
        ("aten::native_layer_norm_backward", [[8, 32], [8, 32], [], [8, 1], [8, 1], [32], [32], []],
         [F, F, "", F, F, F, F, ""]),
        6 * 8 * 32, 4 * 3 * 8 * 32,
    ),
    "batch norm": (
        ("aten::native_batch_norm", [[2, 4, 8, 8], [4], [4], [4], [4], [], [], []], [B, B, B, B, B, *["Scalar"] * 3]),
        3 * 2 * 4 * 64, 2 * (2 * 2 * 4 * 64 + 2 * 4),
    ),
    "group norm": (("aten::native_group_norm", [[2, 4, 8], [4], [4]], [F, F, F]), 3 * 64, 4 * (2 * 64 + 8)),
    "norm that adds": (
        ("_C::fused_add_rms_norm", [[8, 32], [8, 32], [32], []], [B, B, B, "Scalar"]),
        4 * 8 * 32, 2 * (4 * 8 * 32 + 32),
    ),
    "norm of AITER": (
        ("aiter::rmsnorm", [[8, 32], [8, 32], [32], []], [B, B, B, "Scalar"]), 3 * 8 * 32, 2 * (2 * 8 * 32 + 32),
    ),
    "norm of Apex": (
        ("FusedLayerNormAffineFunction", [[8, 2, 32], [32], [32]], [H, H, H]), 3 * 512, 2 * (2 * 512 + 64),
    ),
    "softmax": (("aten::_softmax", [[8, 32], [], []], [F, "Scalar", "Scalar"], ["", "-1", "False"]), 5 * 256, 4 * 512),
    "softmax backward": (("aten::_softmax_backward_data", [[8, 32], [8, 32]], [F, F]), 5 * 256, 4 * 3 * 256),
    "causal softmax": (("ScaledUpperTriangMaskedSoftmax", [[2, 8, 8]], [H]), 5 * 2 * 36, 2 * 2 * 2 * 36),
    # element by element
    "add": (("aten::add", [[8, 32], [8, 32], []], [B, B, "Scalar"]), 256, 2 * 3 * 256),
    "add that broadcasts a vector": (("aten::add", [[8, 32], [32], []], [B, B, "Scalar"]), 256, 2 * (2 * 256 + 32)),
    "add in place": (("aten::add_", [[8, 32], [8, 32], []], [B, F, "Scalar"]), 256, 2 * 2 * 256 + 4 * 256),
    "a number beside a tensor has no bytes": (("aten::mul", [[8, 32], []], [B, "Scalar"]), 256, 2 * 2 * 256),
    "formats of both": (("aten::mul", [[8, 32], [8, 32]], [B, F]), 256, 256 * (2 + 4 + 4)),
    "an operand that is expanded is in memory once": (
        ("aten::mul", [[8, 32], [8, 32]], [F, F], (), "", [[32, 1], [0, 1]]), 256, 4 * (256 + 32 + 256),
    ),
    "comparison": (("aten::eq", [[8, 32], []], [L, "Scalar"]), 256, 256 * (8 + 1)),
    "activation": (("aten::silu", [[8, 32]], [B]), 3 * 256, 2 * 2 * 256),
    "gradient of an activation": (("aten::gelu_backward", [[8, 32], [8, 32], []], [B, B, ""]), 3 * 256, 2 * 3 * 256),
    "result that is given": (("aten::exp", [[8, 32], [8, 32]], [F, F]), 256, 4 * 2 * 256),
    "power of a tensor": (("aten::pow", [[8, 32], []], [F, "Scalar"]), 256, 4 * 2 * 256),
    "choice": (("aten::where", [[8, 32], [8, 32], [8, 32]], [BOOL, F, F]), 0, 256 * (1 + 3 * 4)),
    "copy with a cast": (("aten::copy_", [[8, 32], [8, 32], []], [B, F, "Scalar"]), 0, 256 * (2 + 4)),
    "fill": (("aten::fill_", [[8, 32], []], [F, "Scalar"]), 0, 4 * 256),
    "dropout": (("aten::native_dropout", [[8, 32], [], []], [B, "Scalar", "Scalar"]), 256, 256 * (2 + 2 + 1)),
    "cat": (
        ("aten::cat", [[[8, 16], [8, 16]], []], ["TensorList", "Scalar"], (), "CatArrayBatchedCopy<OpaqueType<2u>"),
        0, 2 * 2 * 256,
    ),
    # reductions
    "sum over rows": (
        ("aten::sum", [[8, 32], [], [], []], [F, "ScalarList", "Scalar", ""], ["", "[1]", "False", ""]),
        256, 4 * (256 + 8),
    ),
    "sum of which the file does not say over what": (("aten::sum", [[8, 32]], [F]), 256, 4 * 256),
    "argmax": (
        ("aten::argmax", [[8, 32], [], []], [F, "Scalar", "Scalar"], ["", "-1", "False"]), 256, 4 * 256 + 8 * 8,
    ),
    "cumsum": (("aten::cumsum", [[8, 32], []], [F, "Scalar"]), 256, 4 * 2 * 256),
    "topk reads once": (("aten::topk", [[8, 32], []], [F, "Scalar"]), 0, 4 * 256),
    # rows by index
    "embedding reads the rows that it is asked for": (
        ("aten::embedding", [[1000, 32], [4, 5], [], [], []], [B, L, *["Scalar"] * 3]), 0, 2 * 2 * 20 * 32,
    ),
    "index_select": (
        ("aten::index_select", [[1000, 32], [], [20]], [B, "Scalar", L], ["", "0", ""]), 0, 2 * 2 * 20 * 32,
    ),
    "gather": (("aten::gather", [[8, 32], [], [8, 1]], [F, "Scalar", L], ["", "1", ""]), 0, 8 * (4 + 8 + 4)),
    "pooling": (
        ("aten::max_pool2d_with_indices", [[1, 2, 8, 8], [], [], [], [], []], [F, *[""] * 5],
         ["", "[2, 2]", "[2, 2]", "[0, 0]", "[1, 1]", "False"]),
        128, 4 * 128 + 32 * (4 + 8),
    ),
    "pooling backward": (
        ("aten::max_pool2d_with_indices_backward", [[1, 2, 4, 4], [1, 2, 8, 8]], [F, F]), 128, 32 * (4 + 8) + 4 * 128,
    ),
    # optimiser
    "list of sums": (
        ("aten::_foreach_add_", [[[8, 4], [8]], [[8, 4], [8]], []], ["TensorList", "TensorList", "Scalar"], (),
         "multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2>"),
        40, 4 * 3 * 40,
    ),
    "list of copies": (
        ("aten::_foreach_copy_", [[[8]], [[8]]], ["TensorList", "TensorList"], (), "multi_tensor_apply<float>"),
        0, 4 * 2 * 8,
    ),
    "fused Adam: p, g, m, v read, p, m, v written": (
        ("aten::_fused_adamw_", [[[8, 4]], [[8, 4]], [[8, 4]], [[8, 4]], [], [[]]], ["TensorList"] * 6, (),
         "multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4>"),
        12 * 32, 4 * 7 * 32,
    ),
    # compiled
    "triton: each argument once": (
        ("triton_poi_fused_add_0", [[8, 32], [32], [8, 32], []], [B, B, B, "Scalar"], ["", "", "", "256"]),
        256, 2 * (256 + 32 + 256),
    ),
    "triton: no more of a table than it has steps": (
        ("triton_poi_fused_embedding_0", [[20], [1000, 32], [20, 32], []], [L, B, B, "Scalar"], ["", "", "", "640"]),
        640, 8 * 20 + 2 * 2 * 640,
    ),
    # serving
    "gate": (("_C::silu_and_mul", [[8, 32], [8, 64]], [B, B]), 3 * 256, 2 * 3 * 256),
    "rotary": (
        ("_C::rotary_embedding", [[8], [8, 64], [8, 16], [], [4096, 16], []], [L, B, B, "Scalar", B, "Scalar"]),
        3 * 8 * 80, 2 * 2 * 8 * 80,
    ),
    "quantisation": (
        ("_C::static_scaled_fp8_quant", [[8, 32], [8, 32], []], ["c10::Float8_e4m3fn", B, F]), 256, 3 * 256,
    ),
    "store into a cache": (
        ("_C_cache_ops::reshape_and_cache_flash", [[8, 2, 16], [8, 2, 16], [9, 16, 2, 16]], [B, B, "unsigned char"]),
        0, 2 * 256 * (2 + 1),
    ),
    "experts": (
        ("vllm::outplace_fused_experts", [[8, 16], [4, 64, 16], [4, 16, 32], [8, 2], [8, 2]], [B, B, B, F, "int"]),
        2 * 2 * 8 * (64 * 16 + 32 * 16), 2 * (2 * (64 * 16 + 32 * 16) + 2 * 8 * 16),
    ),
    # collectives
    "all-reduce": (
        ("record_param_comms", [], [], (), "", (), {"collective": "allreduce", "sent": 1000, "received": 1000,
                                                      "group": 4, "dtype": "BFloat16"}),
        0, 2 * 2000,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", COSTS)
def test_costs(what):
    """FLOPs and bytes by hand."""
    (name, dims, types, *rest), flops, moved = COSTS[what]
    concrete, on, strides, more = [*rest, *((), "", (), {})[len(rest) :]]

    work = work_of(call(name, dims, types, concrete, kernel=on, strides=strides, **more))

    assert work is not None
    assert (work.flops, work.bytes) == (flops, moved)


UNKNOWN = {
    "nobody knows it": ("my::op", [[8, 8]], [F]),
    "no shapes": ("aten::mm", [], []),
    "lengths that do not fit": ("aten::mm", [[8, 16], [8, 32]], [F, F]),
    "no format": ("aten::mm", [[8, 16], [16, 32]], []),
    "a mask that is not recorded": ("aten::_flash_attention_forward", QKV, [B, B, B]),
    "a product of whole numbers": ("aten::mm", [[8, 16], [16, 32]], [L, L]),
    "strides that are not recorded": ("aten::convolution", [[2, 3, 8, 8], [4, 3, 3, 3]], [F, F]),
    "sizes that are none": ("aten::mm", [[-1, 16], [16, 10**30]], [F, F]),
    "shapes that are none": ("aten::mm", [{"a": 1}, "x"], [F, F]),
    "nothing to do": ("aten::add", [[0, 8], [0, 8]], [F, F]),
    "broadcast that does not": ("aten::add", [[3], [4]], [F, F]),
    "a mask of truth values": ("aten::index", [[8, 8], [[8, 8]]], [F, "TensorList"], (), "<bool>"),
    "a group of unknown size": ("record_param_comms", [], []),
    "a grouped head that does not divide": ("aten::_scaled_dot_product_flash_attention",
                                            [[2, 6, 9, 8], [2, 4, 9, 8], [2, 4, 9, 8]], [H, H, H],
                                            ["", "", "", "0.", "True"]),
}  # fmt: skip


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_is_not_recorded_has_no_cost(what):
    """No guess in place of a fact."""
    name, dims, types, *rest = UNKNOWN[what]
    on = rest[1] if len(rest) > 1 else ""

    assert work_of(call(name, dims, types, rest[0] if rest else (), kernel=on)) is None


def test_a_detail_that_is_no_json_is_a_call_without_arguments():
    assert read("aten::mm", b"{") == Call("aten::mm")


@pytest.mark.parametrize(
    ("dtype", "kernel", "peaks", "expected"),
    [
        ("bf16", "nvjet", ["bf16"], "bf16"),
        ("bf16", "cublas", ["fp16", "fp32-vector"], "fp32-vector"),  # a device without that format
        ("fp32", "ampere_sgemm_128x64_tn", ["tf32", "fp32-vector"], "fp32-vector"),
        ("fp32", "cutlass_80_tensorop_s1688gemm_128x128", ["tf32", "fp32-vector"], "tf32"),
        ("fp32", "sm80_xmma_gemm_f32f32_tf32f32_f32", ["tf32", "fp32-vector"], "tf32"),
        ("fp32", "mystery", ["tf32", "fp32-vector"], "tf32"),  # the fastest that it may be: the bound stays one
        ("fp32", "Cijk_Ailk_Bljk_SB_MT64", ["tf32", "fp32", "fp32-vector"], "fp32"),
        ("fp64", "dgemm", ["fp64", "fp64-vector"], "fp64"),
        ("fp8", "x", None, "fp8"),
    ],
)
def test_rates(dtype, kernel, peaks, expected):
    assert rate(Call("aten::mm", kernel=kernel, peaks=peaks and frozenset(peaks)), DTYPES[dtype]) == expected


def test_kernels_that_leave_the_tensor_cores_idle():
    assert on_vector_units("ampere_sgemm_128x64_tn")
    assert not on_vector_units("sm80_xmma_gemm_f32f32_tf32f32_f32")
    assert candidates(DTYPES["int4"], "x") == ()


@pytest.mark.parametrize(
    ("kernel", "bits"),
    [("vectorized_elementwise_kernel<4, AddFunctor<float>", 32), ("x<c10::BFloat16, float>", 16),
     ("x<OpaqueType<8u>>", 64), ("volta_sgemm", 32), ("x<c10::Half>", 16), ("x<double>", 64), ("mystery", None)],
)  # fmt: skip
def test_formats_by_the_name_of_a_kernel(kernel, bits):
    found = format_of(kernel)

    assert (found.bits if found is not None else None) == bits


def sample(pattern):
    """A text that the pattern matches: the first way at each turn, and of what may be left out, all of it."""
    from re import _constants, _parser

    def text(parts):
        found = ""
        for kind, value in parts:
            if kind is _constants.LITERAL:
                found += chr(value)
            elif kind is _constants.IN:
                first, what = value[0]
                found += (
                    chr(what) if first is _constants.LITERAL else chr(what[0]) if first is _constants.RANGE else "x"
                )
            elif kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
                least, _, inner = value
                found += text(inner) * least
            elif kind is _constants.SUBPATTERN:
                found += text(value[3])
            elif kind is _constants.BRANCH:
                found += text(value[1][0])
        return found

    return text(_parser.parse(pattern))


def test_every_registered_operator_survives_any_arguments():
    """Whatever a file holds in place of arguments is no cost, and no error."""
    from roofline.diagnosis.costs import registry

    rule("aten::mm")
    names = [*registry._NAMED, *(sample(each.pattern) for each, _ in registry._PATTERNS)]
    assert all(rule(each) is not None for each in names)
    junk = [
        [],
        [[]],
        [[[]]],
        [[1]],
        [[[1, 2], [3]], [4]],
        [[2, 3, 4, 5]] * 4,
        [[2, 3, 4]] * 9,
        [[1, 1]] * 16,
        [None, 7],
    ]
    texts = [[], ["True"] * 16, ["8"] * 16, ["-3"] * 16, ["[0, 0]"] * 16]
    passing = Lengths(3, 9, 20, 2, 50)
    for name in names:
        for at, dims in enumerate(junk):
            for kinds in ([F] * 16, ["TensorList"] * 16, ["int"] * 16, [B, "unsigned char"] * 8):
                one = call(name, dims, kinds, texts[at % len(texts)], kernel="x<float>")
                work_of(one)
                work_of(replace(one, lengths=passing, concrete=tuple(texts[(at + 1) % len(texts)])))


def test_outputs_of_convolutions_are_those_of_their_gradients():
    """Old files have no strides; where two gradients of the same x and W differ, nothing is known."""
    one = call("aten::cudnn_convolution_backward", [[2, 3, 8, 8], [2, 4, 4, 4], [4, 3, 3, 3]], [F] * 3)
    same = call("aten::convolution_backward", [[2, 4, 8, 8], [2, 3, 8, 8], [4, 3, 5, 5]], [F] * 3)
    other = call("aten::convolution_backward", [[2, 4, 2, 2], [2, 3, 8, 8], [4, 3, 5, 5]], [F] * 3)

    assert outputs([one, same]) == {
        ((2, 3, 8, 8), (4, 3, 3, 3)): (2, 4, 4, 4),
        ((2, 3, 8, 8), (4, 3, 5, 5)): (2, 4, 8, 8),
    }
    assert list(outputs([one, same, other])) == [((2, 3, 8, 8), (4, 3, 3, 3))]


# What becomes of an operator's cost when it launches several kernels.


def mm(external, ts, dur=30):
    return op("aten::mm", ts, dur, external, **{"Input Dims": [[8, 16], [16, 32]], "Input type": [B, B]})


def rows(tmp_path, *events):
    found = rl.diagnose(write(tmp_path, trace(*events)))
    return {each.name: each for each in found.kernels}, found


def test_the_cost_of_an_operator_goes_to_its_main_kernel_once(tmp_path):
    """A helper within a GEMM demands nothing: charged with the GEMM it would beat its bound."""
    by, found = rows(
        tmp_path,
        mm(1, 0),
        launch(1, 1, 1),
        launch(3, 2, 1),
        kernel("vectorized_elementwise_kernel<FillFunctor>", 10, 2, 1),
        kernel("sm90_xmma_gemm_bf16bf16", 12, 20, 2),
    )

    gemm, helper = by["sm90_xmma_gemm_bf16bf16"].demand, by["vectorized_elementwise_kernel<FillFunctor>"].demand
    assert gemm is not None
    assert helper is not None
    assert (gemm.flops, helper.flops, helper.bytes, helper.bound) == (2 * 8 * 16 * 32, 0, 0, 0.0)
    assert found.coverage is not None
    assert found.coverage.share == 1.0


def test_work_that_several_kernels_share_adds_up_exactly(tmp_path):
    """Each kernel of a batch norm has as much of its cost as of its time, and all of them have all of it."""
    x = [2, 3, 7, 11]
    by, _ = rows(
        tmp_path,
        op("aten::native_batch_norm", 0, 30, 1, **{"Input Dims": [x, [3], [3]], "Input type": [F, F, F]}),
        *(launch(i, i, 1) for i in (1, 2, 3)),
        kernel("batch_norm_collect_statistics", 10, 3, 1),
        kernel("batch_norm_update", 13, 2, 2),
        kernel("batch_norm_transform_input", 16, 7, 3),
    )
    demands = [each.demand for each in by.values()]

    assert sum(each.flops for each in demands) == 3 * 2 * 3 * 77
    assert sum(each.bytes for each in demands) == 4 * (2 * 2 * 3 * 77 + 2 * 3)
    assert len({round(each.of_bound, 9) for each in demands}) == 1


def test_an_operator_that_leaves_its_work_to_others_has_no_cost(tmp_path):
    """`linear` around `addmm`: the product counts once."""
    shapes = {"Input Dims": [[8, 16], [32, 16]], "Input type": [B, B]}
    by, _ = rows(
        tmp_path,
        op("aten::linear", 0, 40, 1, **shapes),
        launch(1, 1, 1),
        mm(2, 5, 20),
        launch(6, 2, 1),
        kernel("mystery", 10, 2, 1),
        kernel("sm90_xmma_gemm_bf16bf16", 12, 20, 2),
    )

    assert by["mystery"].demand is None
    assert by["sm90_xmma_gemm_bf16bf16"].demand.flops == 2 * 8 * 16 * 32


def test_an_operator_that_did_its_work_itself_has_its_cost(tmp_path):
    shapes = {"Input Dims": [[8, 16], [32, 16]], "Input type": [B, B]}
    by, _ = rows(tmp_path, op("aten::linear", 0, 40, 1, **shapes), launch(1, 1, 1), kernel("gemm_mkl", 10, 2, 1))

    assert by["gemm_mkl"].demand.flops == 2 * 8 * 16 * 32


def test_the_tail_of_the_step_before_is_placed(tmp_path):
    """Kernels before the first recorded launch equal the end of the recorded step: kept, and told apart."""
    names = ["flash_fwd", "sm90_xmma_gemm_a", "layer_norm", "sm90_xmma_gemm_b"]
    before = [kernel(name, 10 * i, 8, 900 + i, grid=[i, 1, 1]) for i, name in enumerate(names[1:], 1)]
    step = [kernel(name, 100 + 10 * i, 8, i, grid=[i, 1, 1]) for i, name in enumerate(names)]
    calls = [launch(60 + 2 * i, i, 1) for i in range(4)]
    _, found = rows(tmp_path, *before, mm(1, 59, 20), *calls, *step)

    assert found.earlier is not None
    assert (found.earlier.activities, found.earlier.time, found.earlier.of) == (3, 24_000, 4)
    assert found.coverage is not None
    assert found.coverage.placed == 24_000
    changed = [kernel("something_else", 10, 8, 900), *before[1:]]
    assert rows(tmp_path, *changed, mm(1, 59, 20), *calls, *step)[1].earlier is None


def test_why_kernels_have_no_cost(tmp_path):
    """The share of the compute time that has a cost, and why the rest has none."""
    events = [
        mm(1, 0, 10),
        launch(1, 1, 1),
        op("aten::mm", 20, 9, 2),
        launch(21, 2, 1),
        launch(41, 3, 1),
        launch(61, 4, 1, "cudaGraphLaunch"),
        op("my::op", 80, 9, 5, **{"Input Dims": [[8]], "Input type": [F]}),
        launch(81, 5, 1),
        *(kernel("sm90_xmma_gemm_bf16bf16", 100 + 10 * i, i, i) for i in range(1, 7)),
        event_set(200, 64),
    ]
    _, found = rows(tmp_path, *events)
    parts = found.coverage

    assert parts is not None
    assert (parts.compute, parts.costed) == (21_000 + 4_000, 1_000 + 4_000)
    assert sorted(parts.without.values()) == [2_000, 3_000, 4_000, 5_000, 6_000]
    assert "profiler run a step before" in parts.remedy()


def event_set(ts, size):
    from traces import event

    return event("gpu_memset", "Memset (Device)", ts, 4, pid=0, tid=7, args={"device": 0, "stream": 7, "bytes": size})


def test_points_are_measured(tmp_path):
    """The same dots as a prediction's, with the time of a call."""
    _, found = rows(
        tmp_path,
        mm(1, 0, 10), launch(1, 1, 1), kernel("sm90_xmma_gemm_bf16bf16", 10, 20, 1),
        mm(2, 40, 10), launch(41, 2, 1), kernel("sm90_xmma_gemm_bf16bf16", 50, 40, 2),
    )  # fmt: skip
    (point,) = found.points()

    assert (point.count, point.measured, point.flops) == (2, 30e-6, 2 * 2 * 8 * 16 * 32)
    assert point.bound.by == "memory"
    assert found.chart().svg().startswith("<svg")


def test_a_device_can_be_named(tmp_path):
    path = write(tmp_path, trace(mm(1, 0, 10), launch(1, 1, 1), kernel("gemm", 10, 20, 1), deviceProperties=[]))

    assert rl.diagnose(path).points() == ()
    with pytest.raises(rl.RooflineError, match="without a device"):
        rl.diagnose(path).chart()
    found = rl.diagnose(path, device=rl.Device.load("b200"))
    assert found.to_dict()["device"]["id"] == "b200"
    assert found.points()[0].device.id == "b200"


def test_nothing_to_draw(tmp_path):
    with pytest.raises(rl.RooflineError, match="nothing to draw"):
        rl.diagnose(write(tmp_path, trace(kernel("gemm", 10, 20, 1)))).chart()
