"""What rarer operators demand, by their recorded shapes: every figure worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from roofline.diagnosis.costs.call import Lengths, read
from roofline.diagnosis.costs.registry import work_of
from roofline.diagnosis.passes import lengths_of

F, H, B, L, INT = "float", "c10::Half", "c10::BFloat16", "long int", "int"
U8, I8 = "unsigned char", "signed char"
F8, F4 = "c10::Float8_e4m3fn", "c10::Float4_e2m1fn_x2"
S = "Scalar"
PAIRS = 100 * 101 // 2
QKV = [[2, 100, 8, 64], [2, 100, 4, 64], [2, 100, 4, 64]]
HEADS_FIRST = [[2, 8, 100, 64], [2, 4, 100, 64], [2, 4, 100, 64]]
FLASH = 4 * 2 * 8 * 64 * PAIRS
MOVED = 2 * (2 * 2 * 100 * 8 * 64 + 2 * 2 * 100 * 4 * 64)
WINDOWED = 32 * 33 // 2 + 68 * 32  # the first 32 positions see all before them, the others 32
MM = 2 * 8 * 16 * 32


def call(name, dims, types, concrete=(), kernel="", **more):
    detail = {"dims": dims, "types": types, "concrete": list(concrete), "strides": [], **more}
    return read(name, json.dumps(detail).encode(), kernel)


def blank(*texts, before):
    """Arguments that are written as text, behind `before` tensors."""
    return ["", *[""] * (before - 1), *texts]


# Operator, lengths, formats, [arguments as text], [kernel]; FLOPs; bytes.
COSTS = {
    # pooling, resizing, padding
    "pooling of one dimension": (
        ("aten::max_pool1d_with_indices", [[2, 3, 8]], [F], ["", "[2]", "[2]", "[0]", "[1]", "False"]),
        48, 4 * 48 + (4 + 8) * 24,
    ),
    "dilated pooling": (  # (8 - 2 (3 - 1) - 1) / 1 + 1 = 4 along each
        ("aten::max_pool2d_with_indices", [[1, 1, 8, 8]], [F], ["", "[3, 3]", "[1, 1]", "[0, 0]", "[2, 2]", "False"]),
        64, 4 * 64 + (4 + 8) * 16,
    ),
    "adaptive maximum": (
        ("aten::adaptive_max_pool2d", [[2, 3, 8, 8], []], [F, ""], ["", "[2, 2]"]), 384, 4 * 384 + (4 + 8) * 24,
    ),
    "its gradient": (
        ("aten::adaptive_max_pool2d_backward", [[2, 3, 2, 2], [2, 3, 8, 8], [2, 3, 2, 2]], [F, F, L]),
        384, (4 + 8) * 24 + 4 * 384,
    ),
    "gradient of a mean over windows": (
        ("aten::avg_pool3d_backward", [[1, 2, 2, 2, 2], [1, 2, 4, 4, 4]], [F, F]), 128, 4 * (16 + 128),
    ),
    "upsampling": (
        ("aten::upsample_bilinear2d", [[1, 2, 4, 4]], [H], ["", "[8, 8]", "False"]), 128, 2 * (32 + 128),
    ),
    "gradient of an upsampling": (
        ("aten::upsample_nearest2d_backward", [[1, 2, 8, 8]], [H], ["", "[8, 8]", "[1, 2, 4, 4]"]),
        128, 2 * (128 + 32),
    ),
    "constant padding": (
        ("aten::constant_pad_nd", [[2, 3]], [F], ["", "[1, 2, 0, 1]", "0"]), 0, 4 * (6 + 3 * 6),
    ),
    "padding that cuts": (("aten::constant_pad_nd", [[2, 8]], [F], ["", "[0, -4]", "0"]), 0, 4 * (8 + 8)),
    "reflection": (("aten::reflection_pad2d", [[1, 4, 4]], [F], ["", "[1, 1, 1, 1]"]), 0, 4 * (16 + 36)),
    "gradient of a reflection": (
        ("aten::reflection_pad2d_backward", [[1, 6, 6], [1, 4, 4]], [F, F]), 36, 4 * (36 + 16),
    ),
    "sampling reads its grid": (
        ("aten::grid_sampler_2d", [[2, 3, 8, 8], [2, 4, 5, 2]], [F, F]), 120, 4 * (80 + 120),
    ),
    "windows as columns": (
        ("aten::im2col", [[1, 2, 4, 4]], [F], ["", "[3, 3]", "[1, 1]", "[0, 0]", "[1, 1]"]), 0, 4 * (32 + 18 * 4),
    ),
    # index, sort, scan
    "take": (("aten::take", [[8, 8], [5]], [F, L]), 0, 5 * (4 + 8 + 4)),
    "searched values": (("aten::bucketize", [[64], [9], [], []], [F, F, S, S]), 0, 64 * (4 + 8)),
    "what is not zero is read once at least": (("aten::nonzero", [[64]], ["bool"]), 0, 64),
    "maxima so far, with their places": (
        ("aten::_cummax_helper", [[8, 4], [8, 4], [8, 4], []], [F, F, L, S]), 32, 32 * (4 + 4 + 8),
    ),
    "parts of a tensor": (("aten::split_with_sizes_copy", [[8, 4]], [B]), 0, 2 * 2 * 32),
    "gradients into a buffer": (
        ("aten::_chunk_cat", [[[8], [8]], [], []], ["TensorList", S, S], (), "chunk_cat_cuda_kernel<float, float>"),
        0, 4 * 2 * 16,
    ),
    "bags of an embedding": (
        ("aten::_embedding_bag", [[1000, 32], [20], [5], [], [], [], [], [], []], [F, L, L, S, S, S, "", S, S],
         ["", "", "", "False", "0", "False", "", "False", "-1"]),
        20 * 32, 4 * 20 * 32 + 8 * (20 + 5) + 4 * 5 * 32,
    ),
    "bags whose last offset is an end": (
        ("aten::_embedding_bag", [[1000, 32], [20], [5], [], [], [], [], [], []], [F, L, L, S, S, S, "", S, S],
         ["", "", "", "False", "0", "False", "", "True", "-1"]),
        20 * 32, 4 * 20 * 32 + 8 * (20 + 5) + 4 * 4 * 32,
    ),
    # activations
    "half gates the other half": (("aten::glu", [[8, 32], []], [F, S]), 3 * 128, 4 * (256 + 128)),
    "gradient of a gate": (("aten::glu_backward", [[8, 16], [8, 32], []], [F, F, S]), 3 * 256, 4 * (128 + 256 + 256)),
    "fake quantisation": (
        ("aten::fake_quantize_per_tensor_affine_cachemask", [[8, 32]], [F]), 2 * 256, 256 * (4 + 4 + 1),
    ),
    "scaled mask": (("aten::_masked_scale", [[8, 32], [8, 32], []], [F, U8, S]), 256, 256 * (4 + 1 + 4)),
    # norms and losses
    "statistics of a batch norm": (("aten::batch_norm_stats", [[2, 4, 8], []], [H, S]), 2 * 64, 2 * 64 + 4 * 2 * 4),
    "sums of its gradient": (
        ("aten::batch_norm_backward_reduce", [[2, 4, 8], [2, 4, 8], [4]], [H, H, F]), 3 * 64, 2 * 2 * 64,
    ),
    "weight norm": (("aten::_weight_norm_interface", [[8, 32], [8, 1], []], [F, F, S]), 3 * 256, 4 * (2 * 256 + 8)),
    "masked softmax": (("aten::_masked_softmax", [[8, 32], [8, 32]], [F, "bool"]), 5 * 256, 256 * (4 + 1 + 4)),
    "gradient of a loss": (
        ("aten::binary_cross_entropy_backward", [[], [64], [64], [], []], [F, F, F, "", S]), 2 * 64, 4 * 3 * 64,
    ),
    # products
    "a sum of products": (
        ("aten::addbmm", [[8, 32], [3, 8, 16], [3, 16, 32], [], []], [F, F, F, S, S], ["", "", "", "1", "1"]),
        3 * MM, 4 * (3 * 8 * 16 + 3 * 16 * 32 + 2 * 8 * 32),
    ),
    "FP4 of PyTorch: a byte is two along k": (
        ("aten::_scaled_mm", [[8, 8], [8, 32], [], []], [F4, F4, F8, F8]), MM, (8 * 16 + 16 * 32) // 2 + 2 * 8 * 32,
    ),
    "FP4 of vLLM": (
        ("_C::cutlass_scaled_fp4_mm", [[8, 32], [8, 8], [32, 8], [128, 4], [128, 4], [1]], [B, U8, U8, F8, F8, F]),
        MM, (8 * 16 + 16 * 32) // 2 + 2 * 8 * 32,
    ),
    "the gradient of grouped weights: 4 groups along k": (
        ("aten::_grouped_mm", [[8, 64], [64, 32], [4]], [B, B, INT]),
        2 * 8 * 64 * 32, 2 * (8 * 64 + 64 * 32 + 4 * 8 * 32),
    ),
    "groups along n": (
        ("aten::_grouped_mm", [[4, 8, 16], [16, 64], [4]], [B, B, INT]),
        2 * 8 * 16 * 64, 2 * (4 * 8 * 16 + 16 * 64 + 8 * 64),
    ),
    "a batch of groups in FP8": (
        ("aten::_scaled_grouped_mm", [[4, 8, 16], [4, 16, 32], [4, 8], [4, 32]], [F8, F8, F, F]),
        4 * MM, 4 * (8 * 16 + 16 * 32 + 2 * 8 * 32),
    ),
    "rows of FP8 of FBGEMM": (
        ("fbgemm::f8f8bf16_rowwise", [[8, 16], [32, 16], [8], [32]], [F8, F8, F, F]), MM, 8 * 16 + 16 * 32 + 2 * 8 * 32,
    ),
    "blocks of FP8 of SGLang": (
        ("sgl_kernel::fp8_blockwise_scaled_mm", [[8, 16], [16, 32], [8, 1], [1, 1]], [F8, F8, F, F]),
        MM, 8 * 16 + 16 * 32 + 2 * 8 * 32,
    ),
    "blocks of FP8 of vLLM": (
        ("vllm::w8a8_triton_block_scaled_mm_func", [[8, 16], [32, 16], [8, 1], [1, 1]], [F8, F8, F, F]),
        MM, 8 * 16 + 16 * 32 + 2 * 8 * 32,
    ),
    "a batch of FP8": (
        ("sgl_kernel::bmm_fp8", [[3, 8, 16], [3, 16, 32], [3, 8, 32]], [F8, F8, B]),
        3 * MM, 3 * (8 * 16 + 16 * 32 + 2 * 8 * 32),
    ),
    "AWQ: 4 bits, scales of 2 groups": (
        ("_C::awq_gemm", [[8, 128], [128, 8], [2, 64], [2, 8], []], [H, INT, H, INT, S]),
        2 * 8 * 128 * 64, 2 * (8 * 128 + 8 * 64) + 128 * 64 // 2 + 2 * 2 * 64,
    ),
    "GPTQ by Marlin": (
        ("_C::gptq_marlin_gemm", [[8, 128], [], [8, 128], [], [2, 64], []], [B, "", INT, "", B, ""]),
        2 * 8 * 128 * 64, 2 * (8 * 128 + 8 * 64) + 128 * 64 // 2 + 2 * 2 * 64,
    ),
    "8-bit weights of PyTorch": (
        ("aten::_weight_int8pack_mm", [[8, 128], [64, 128], [64]], [B, I8, B]),
        2 * 8 * 128 * 64, 2 * (8 * 128 + 8 * 64) + 128 * 64,
    ),
    "4-bit weights of PyTorch": (
        ("aten::_weight_int4pack_mm", [[8, 128], [8, 1, 32, 4], [], [2, 64, 2]], [B, INT, S, B], ["", "", "64", ""]),
        2 * 8 * 128 * 64, 2 * (8 * 128 + 8 * 64) + 128 * 64 // 2,
    ),
    "experts of packed weights, 2 a row": (
        ("_moe_C::moe_wna16_marlin_gemm", [[8, 128], [16, 64], [4, 8, 128], [], [], [], [], [], [], [], []],
         [B, B, INT, S, S, S, S, S, S, S, S], ["", "", "", "16", "2", "False", "False", "12345", "8", "64", "128"]),
        2 * 2 * 8 * 128 * 64, 2 * (8 * 128 + 2 * 8 * 64) + 2 * 128 * 64 // 2,
    ),
    "experts' rows into an output": (
        ("_C::cutlass_moe_mm", [[64, 32], [64, 16], [4, 16, 32]], [B, F8, F8]),
        2 * 64 * 16 * 32, 64 * 16 + 16 * 32 + 2 * 64 * 32,
    ),
    "a layer of Transformer Engine in FP8": (
        ("_Linear", [[32, 16], [2, 4, 16], []], [B, B, ""], (), "nvjet_qqtst_e4m3_128x64"),
        MM, 8 * 16 + 16 * 32 + 2 * 8 * 32,
    ),
    "a product of Transformer Engine": (
        ("tex_ts::te_gemm_ts", [[32, 16], [1], [], [], [], [8, 16], [1], [], [], [], [8, 32]],
         [U8, F, S, S, S, U8, F, S, S, S, B]),
        MM, 8 * 16 + 16 * 32 + 2 * 8 * 32,
    ),
    "a cast to FP8": (("fbgemm::quantize_fp8_per_row", [[8, 32]], [B]), 256, 3 * 256),
    "a cast to FP4 and a scale of each 16": (
        ("_C::scaled_fp4_quant", [[8, 16], [8, 32], [128, 4], [1]], [U8, B, INT, F]), 256, 2 * 256 + 128 + 16,
    ),
    "a recurrent layer: each matrix meets each row": (
        ("aten::_cudnn_rnn", [[5, 3, 16], [[128, 16], [128, 32], [128], [128]], []], [F, "TensorList", S], (), "sgemm"),
        2 * 15 * (128 * 16 + 128 * 32), 4 * (15 * 16 + 128 * 16 + 128 * 32 + 256),
    ),
    "its gradients": (
        ("aten::_cudnn_rnn_backward", [[5, 3, 16], [[128, 16], [128, 32], [128], [128]], []], [F, "TensorList", S], (),
         "sgemm"),
        2 * 2 * 15 * (128 * 16 + 128 * 32), 4 * (15 * 16 + 128 * 16 + 128 * 32 + 256),
    ),
    "a convolution without a library": (
        ("aten::_slow_conv2d_forward", [[2, 3, 8, 8], [4, 3, 3, 3], [], [], [], []], [F, F, *[""] * 4],
         ["", "", "[3, 3]", "", "[1, 1]", "[1, 1]"]),
        2 * 2 * 64 * 4 * 3 * 9, 4 * (2 * 3 * 64 + 4 * 3 * 9 + 2 * 4 * 64),
    ),
    # attention
    "cuDNN by its own name": (
        ("aten::_cudnn_attention_forward", [*HEADS_FIRST, *[[]] * 9], [B, B, B, *[""] * 9],
         blank("", "", "", "100", "100", "False", "0.", "True", "False", before=3)),
        FLASH, MOVED,
    ),
    "and its gradient": (
        ("aten::_cudnn_attention_backward", [HEADS_FIRST[0], *HEADS_FIRST, *[[]] * 11], [B, B, B, B, *[""] * 11],
         blank(*[""] * 7, "100", "100", "0.", "True", before=4)),
        FLASH * 5 // 2, 2 * MOVED,
    ),
    "FlashAttention with a window of 32": (
        ("flash_attn::_flash_attn_forward", [*QKV, *[[]] * 6], [B, B, B, *[""] * 6],
         blank("0.", "0.125", "True", "31", "0", "0.", before=3)),
        4 * 2 * 8 * 64 * WINDOWED, MOVED,
    ),
    "a window that is none": (
        ("flash_attn::_flash_attn_forward", [*QKV, *[[]] * 6], [B, B, B, *[""] * 6],
         blank("0.", "0.125", "True", "-1", "-1", "0.", before=3)),
        FLASH, MOVED,
    ),
    "FlashAttention as a function of autograd": (
        ("FlashAttnFunc", [*QKV, *[[]] * 4], [B, B, B, *[""] * 4], blank("0.", "0.125", "True", before=3)),
        FLASH, MOVED,
    ),
    "q, K and V in one tensor": (
        ("FlashAttnQKVPackedFunc", [[2, 100, 3, 8, 64], [], [], []], [B, "", "", ""], ["", "0.", "0.125", "True"]),
        FLASH, 2 * 4 * 2 * 100 * 8 * 64,
    ),
    "the gradient of packed sequences": (
        ("flash_attn::_flash_attn_varlen_backward",
         [[200, 8, 64], [200, 8, 64], [200, 4, 64], [200, 4, 64], [200, 8, 64], [8, 200], [], [], [], [3], [3]],
         [B, B, B, B, B, F, "", "", "", INT, INT], blank("100", "100", "0.", "0.125", "True", "-1", "-1", before=11)),
        FLASH * 5 // 2, 2 * MOVED,
    ),
    "xFormers: its mask is a number": (
        ("xformers::efficient_attention_forward_cutlass", [*QKV, *[[]] * 7], [B, B, B, *[""] * 7],
         blank("", "", "", "", "0.", "True", "1", before=3)),
        FLASH, MOVED,
    ),
    "xFormers without a mask": (
        ("xformers::efficient_attention_forward_cutlass", [*QKV, *[[]] * 7], [B, B, B, *[""] * 7],
         blank("", "", "", "", "0.", "True", "0", before=3)),
        4 * 2 * 8 * 64 * 100 * 100, MOVED,
    ),
    # serving
    "a gate into FP8": (
        ("_C::silu_and_mul_quant", [[8, 32], [8, 64], [1]], [F8, B, F]), 3 * 256, 2 * 512 + 256,
    ),
    "GELU": (("_C::gelu_fast", [[8, 32], [8, 32]], [B, B]), 3 * 256, 2 * 2 * 256),
    "a norm into FP8": (
        ("_C::rms_norm_static_fp8_quant", [[8, 32], [8, 32], [32], [1], []], [F8, B, B, F, S]),
        3 * 256, 256 + 2 * 256 + 2 * 32,
    ),
    "a norm that adds, into FP8": (
        ("_C::fused_add_rms_norm_static_fp8_quant", [[8, 32], [8, 32], [8, 32], [32], [1], []], [F8, B, B, B, F, S]),
        4 * 256, 256 + 2 * 3 * 256 + 2 * 32,
    ),
    "the router of experts": (
        ("_moe_C::topk_softmax", [[8, 2], [8, 2], [8, 2], [8, 64]], [F, INT, INT, F]), 5 * 512, 4 * (512 + 3 * 16),
    ),
    "the sum of experts": (("_moe_C::moe_sum", [[8, 2, 32], [8, 32]], [B, B]), 512, 2 * (512 + 256)),
    "the order of experts": (("_moe_C::moe_align_block_size", [[8, 2], [], [], [64]], [INT, S, S, INT]), 0, 4 * 2 * 16),
    "rows of experts": (("_moe_C::moe_permute", [[8, 32], [8, 2], [16, 32]], [B, INT, B]), 0, 2 * (256 + 512)),
    "two parts of an attention": (
        ("sgl_kernel::merge_state_v2", [[8, 4, 64], [8, 4], [8, 4, 64], [8, 4], [8, 4, 64], [8, 4]],
         [B, F, B, F, B, F]),
        3 * 2048, 2 * 3 * 2048,
    ),
    "a latent into a cache of FP8": (
        ("_C_cache_ops::concat_and_cache_mla", [[8, 512], [8, 64], [9, 16, 576]], [B, B, F8]), 0, (2 + 1) * 8 * 576,
    ),
    "Liger's norm": (("LigerRMSNormFunction", [[2, 4, 32], [32]], [B, B]), 3 * 256, 2 * (2 * 256 + 32)),
    "its gradient, with what the function kept": (
        ("LigerRMSNormFunctionBackward", [[2, 4, 32]], [B]), 6 * 256, 2 * 3 * 256,
    ),
    "the gradient of a gate": (("LigerSiLUMulFunctionBackward", [[8, 32]], [B]), 6 * 256, 2 * 5 * 256),
    "Liger's loss leaves its gradient": (("LigerCrossEntropyFunction", [[8, 100], [8]], [B, L]), 5 * 800, 2 * 2 * 800),
    # tables of recommenders: 8 bags of 20 rows in one table of 1000 rows of 96
    "one table": (
        ("fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function",
         [[0], [96000], [0], [0, 0], [1], [1], [2], [], [], [2], [], [20], [9], [], [20], [], [0], [], [], [], [1000]],
         [F, F, F, F, INT, "long", INT, S, S, "long", S, "long", "long", S, F, "", INT, S, S, S, F]),
        20 * 96, 4 * 20 * 96 + 8 * (20 + 9) + 4 * 8 * 96,
    ),
    "two tables of one width": (
        ("fbgemm::split_embedding_codegen_lookup_sgd_function",
         [[0], [96000], [0], [0, 0], [2], [2], [3], [], [], [3], [], [20], [17]],
         [F, F, F, F, INT, "long", INT, S, S, "long", S, "long", "long"], [*[""] * 7, "192", "96", "", "", "", ""]),
        20 * 96, 4 * 20 * 96 + 8 * (20 + 17) + 4 * 16 * 96,
    ),
    "jagged rows, padded": (
        ("fbgemm::jagged_to_padded_dense", [[20, 8], [[5]], [], []], [F, "TensorList", "ScalarList", S],
         ["", "", "[6]", "0."], "jagged_to_padded<long, float>"),
        0, 4 * (160 + 4 * 6 * 8),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", COSTS)
def test_costs(what):
    (name, dims, types, *rest), flops, moved = COSTS[what]
    concrete, kernel = [*rest, *((), "")[len(rest) :]]

    work = work_of(call(name, dims, types, concrete, kernel))

    assert work is not None
    assert (work.flops, work.bytes) == (flops, moved)


UNKNOWN = {
    "several tables whose widths are in no shape": (
        "fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function",
        [[0], [96000], [0], [0, 0], [2], [2], [3], [], [], [3], [], [20], [17], *[[]] * 7, [1000]],
        [F, F, F, F, INT, "long", INT, S, S, "long", S, "long", "long", *[S] * 7, F],
    ),
    "packed weights whose columns are in no shape": ("_C::awq_gemm", [[8, 128], [999]], [H, INT]),
    "a window under no causal mask": (
        "flash_attn::_flash_attn_forward", [*QKV, *[[]] * 6], [B, B, B, *[""] * 6],
        blank("0.", "0.125", "False", "31", "31", "0.", before=3),
    ),
    "a server's attention without the lengths of its pass": (
        "vllm::unified_attention_with_output", [[8, 4, 64], [8, 2, 64], [8, 2, 64], [8, 4, 64]], [B] * 4,
    ),
    "experts of whom neither their width nor how many a token takes is a shape": (
        "vllm::moe_forward", [[8, 64], [8, 16], []], [B, B, ""],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_no_shape_tells_has_no_cost(what):
    name, dims, types, *rest = UNKNOWN[what]

    assert work_of(call(name, dims, types, rest[0] if rest else ())) is None


# The attention of a serving engine: 2 requests of 3 and 5 new tokens, the first with 4 in the cache, and 3 decodes
# that attend to 20 positions together.
SUMS = "execute_16_context_2(sq8sk12sqsq34sqsk46)_generation_3(sq3sk20sqsq3sqsk20)"
CONTEXT = 3 * 7 - 3 + 5 * 6 // 2  # the first: 5, 6 and 7 positions; the second 1 to 5


def test_lengths_of_a_pass():
    assert CONTEXT == (5 + 6 + 7) + (1 + 2 + 3 + 4 + 5)
    assert lengths_of(SUMS) == Lengths(8, 12, CONTEXT, 3, 20)
    assert lengths_of("execute_context_1(888_788544)_generation_0(0)") == Lengths(888, 888, 888 * 889 // 2, 0, 0)
    assert lengths_of("execute_context_0(0)_generation_32(32)") == Lengths(0, 0, 0, 32, None)
    assert lengths_of("step[DECODE bs=32]") is None
    sums = "c=2 g=3 c_sq=8 c_sk=12 c_sqsq=34 c_sqsk=46 g_sq=3 g_sk=20 g_sqsq=3 g_sqsk=20"
    assert lengths_of(f"step[MIXED bs=5 {sums}]") == Lengths(8, 12, 46 - (34 - 8) // 2, 3, 20)
    assert lengths_of("step[DECODE bs=3 g_sq=3 g_sqsq=3 g_sqsk=20 g_sk=20]") == Lengths(0, 0, 0, 3, 20)
    assert lengths_of("step[EXTEND bs=2 toks=8]") is None
    assert lengths_of(SUMS.replace("sqsk46", "sqsk4")) is None  # fewer pairs than queries


def engine(name, dims, types, lengths, kernel="", cache=None):
    from roofline.dtypes import DTYPES

    held = None if cache is None else DTYPES[cache]
    return work_of(replace(call(name, dims, types, kernel=kernel), lengths=lengths, cache=held))


ENGINE = ("vllm::unified_attention_with_output", [[16, 4, 64], [16, 2, 64], [16, 2, 64], [16, 4, 64]], [B] * 4)


def test_attention_of_a_server():
    """Every query with every position that it sees, K and V of every position once, padding aside."""
    work = engine(*ENGINE, lengths_of(SUMS))

    assert work is not None
    assert work.flops == 4 * 4 * 64 * (CONTEXT + 20)
    assert work.cost.memory["kv"] == 2 * 2 * 2 * 64 * (12 + 20)
    assert work.cost.memory["activations"] == 2 * 2 * 11 * 4 * 64


def test_a_cache_of_eight_bits_is_half_as_many_bytes():
    work = engine(*ENGINE, lengths_of(SUMS), cache="fp8")

    assert work.cost.memory["kv"] == 2 * 2 * 64 * (12 + 20)


def test_a_window_that_is_not_recorded_leaves_no_cost():
    assert engine(*ENGINE, lengths_of(SUMS), kernel="fmhaSm100aKernel_PagedKvSlidingOrChunkedCausal") is None
    assert engine(*ENGINE, lengths_of("execute_context_0(0)_generation_16(16)")) is None  # nor do positions
    assert engine(*ENGINE, Lengths(80, 80, 3240, 0, 0)) is None  # more tokens than q has


FA2 = ("_vllm_fa2_C::varlen_fwd", [[3, 4, 64], [99, 16, 2, 64], [99, 16, 2, 64], [3, 4, 64], [2], [], [1], [], [1, 8],
                                   *[[]] * 9], [B, B, B, B, INT, "", INT, "", INT, *[""] * 9])  # fmt: skip


def sequence(causal, before="-1"):
    return blank("3", "20", "0.", "0.125", "False", causal, before, "-1", before=10)


@pytest.mark.parametrize(("causal", "pairs"), [("True", 18 + 19 + 20), ("False", 3 * 20)])
def test_one_sequence_over_a_paged_cache_by_its_longest_lengths(causal, pairs):
    """3 new tokens of a sequence of 20: nothing has to be annotated."""
    work = work_of(call(*FA2, sequence(causal)))

    assert work is not None
    assert work.flops == 4 * 4 * 64 * pairs
    assert work.bytes == 2 * (2 * 3 * 4 * 64 + 2 * 20 * 2 * 64)
    assert work_of(call(*FA2, sequence(causal, "127"))) is None  # a window


def test_several_sequences_over_a_paged_cache_need_the_annotation():
    name, dims, types = FA2
    dims = [[11, 4, 64], *dims[1:4], [6], *dims[5:]]

    assert work_of(call(name, dims, types, sequence("True"))) is None
    third = ("sgl_kernel::fwd", [[11, 4, 64], [99, 16, 2, 64], [99, 16, 2, 64], *[[]] * 4, [6], *[[]] * 20],
             [B, B, B, *[""] * 4, INT, *[""] * 20])  # fmt: skip
    texts = [*[""] * 12, "5", "20", *[""] * 6, "0.125", "True", "-1", "-1", "0", "False", "1", "False"]
    work = work_of(replace(call(*third, texts), lengths=lengths_of(SUMS)))
    assert work is not None
    assert work.flops == 4 * 4 * 64 * (CONTEXT + 20)


def test_paged_attention_of_a_decode():
    lengths = Lengths(0, 0, 0, 32, 32785)
    dims = [[32, 32, 128], [999], [32, 32, 128], [835874, 1, 8, 128], [835874, 1, 8, 128]]
    paged = ("sglang_profiler::attention_paged_attention_ragged_100", dims, [B, U8, B, B, B])
    older = ("_C::paged_attention_v1", [[32, 32, 128], [32, 32, 128], [99, 8, 16, 16, 8], [99, 8, 128, 16]], [B] * 4)

    for each in (paged, older):
        work = engine(*each, lengths)
        assert (work.flops, work.cost.memory["kv"]) == (4 * 32 * 128 * 32785, 2 * 2 * 8 * 128 * 32785)
        assert engine(*each, lengths_of(SUMS)) is None  # prefills are other kernels


def test_latent_attention_of_a_decode():
    """Each head looks at a latent of 512 and a rotary part of 64, and takes its values from the latent."""
    latent = ("vllm::unified_mla_attention_with_output", [[8, 16, 192], [8, 512], [8, 1, 64], [8, 2048]], [B] * 4)
    work = engine(*latent, Lengths(0, 0, 0, 8, 1000))

    assert work.flops == 2 * 16 * (576 + 512) * 1000
    assert work.cost.memory["kv"] == 2 * 576 * 1000
    assert engine(*latent, lengths_of(SUMS)) is None


# Collectives: bytes on the link.
LINKS = {
    "an older all-reduce: its ranks stand last": (
        ("record_param_comms", [[[4, 8]], *[[]] * 7], ["TensorList", *[S] * 7],
         ["", "7", "9", "0", "", "[]", "[]", "8"], "ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)"),
        2 * 64 * 7 // 8, 8,
    ),
    "the whole over the part are the ranks": (
        ("c10d::_allgather_base_", [[64, 8], [8, 8], []], [F, F, ""]), 4 * 512 * 7 // 8, 8,
    ),
    "reduced and scattered": (("c10d::_reduce_scatter_base_", [[8, 8], [64, 8]], [F, F]), 4 * 512 * 7 // 8, 8),
    "compiled": (
        ("_c10d_functional::all_gather_into_tensor", [[8, 8], [], []], [B, S, ""], ["", "4", "0"]), 2 * 256 * 3 // 4, 4,
    ),
    "of vLLM": (("vllm::all_gather", [[8, 8], [], [], []], [B, S, S, ""], ["", "0", "4", "tp"]), 2 * 256 * 3 // 4, 4),
    "ranks that are not recorded are two at the least": (
        ("symm_mem::multimem_all_reduce_", [[1024], [], []], [B, "", ""]), 2 * 1024, None,
    ),
    "to all, of ranks that are not recorded": (
        ("c10d::alltoall_base_", [[384], [384]], ["long", "long"]), 8 * 192, None,
    ),
    "sent": (("c10d::send", [[[64]]], ["TensorList"], (), "ncclDevKernel_SendRecv_f32(x)"), 256, None),
}  # fmt: skip


@pytest.mark.parametrize("what", LINKS)
def test_bytes_on_the_link(what):
    (name, dims, types, *rest), sent, ranks = LINKS[what]
    concrete, kernel = [*rest, *((), "")[len(rest) :]]

    work = work_of(call(name, dims, types, concrete, kernel))

    assert work is not None
    assert work.cost.links == {"link": sent}
    assert work.dims.get("ranks") == ranks


def test_a_single_rank_sends_nothing():
    waiting = ["", "7", "0", "0", "", "[]", "[]", "1"]
    assert (
        work_of(call("record_param_comms", [[[4, 8]], *[[]] * 7], ["TensorList", *[S] * 7], waiting, "ncclX")) is None
    )


def test_a_gradient_by_the_call_that_it_is_the_gradient_of():
    """A layer's backward has dy alone: x and w stand in the forward call, and each of its two products is as large."""
    forward = call("_LayerNormLinear", [[2, 4, 16], [16], [16], [32, 16]], [B] * 4)
    backward = call("_LayerNormLinearBackward", [[2, 4, 32]], [B])

    assert work_of(backward) is None
    work = work_of(replace(backward, forward=forward))
    assert work is not None
    assert (work.flops, work.bytes) == (MM, 2 * (8 * 16 + 16 * 32 + 8 * 32))


def test_a_gradient_of_attention_by_its_forward_call():
    forward = call("FlashAttnFunc", [*QKV, *[[]] * 4], [B, B, B, *[""] * 4], blank("0.", "0.125", "True", before=3))
    backward = call("FlashAttnFuncBackward", [QKV[0]], [B])

    assert work_of(backward) is None
    work = work_of(replace(backward, forward=forward))
    assert work is not None
    assert (work.flops, work.bytes) == (FLASH * 5 // 2, 2 * MOVED)


def test_weights_that_are_handed_on_twice_are_no_operand():
    twice = call("_Linear", [[32, 16], [32, 16], [2, 4, 16]], [B, "unsigned char", B])

    assert work_of(twice).flops == MM
