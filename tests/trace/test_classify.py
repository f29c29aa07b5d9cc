"""Kernel names: what they do, and how people write them."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest

from roofline.trace.classify import CATEGORIES, COMPUTE, category, readable

# Names of libraries' kernels as their sources spell them, several of each kind.
KNOWN = {
    "gemm": [
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2>(Params)",
        "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1",
        "void gemv2T_kernel_val<int, int, float, float, float>(cublasGemvParams)",
        "void marlin::Marlin<__half, 128l, 256, 1, 8, 8, 4, 8, false>(int4 const*)",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u, 128u>(__nv_bfloat16*)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasLt::cublasSplitKParams<float>)",
        "wvSplitK_hf_sml_",
        "triton_tem_fused_mm_0",
        "_w8a8_block_fp8_matmul",
    ],
    "attention": [
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128>>(Flash_fwd_params)",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<cutlass::gemm::collective>>>",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0>(Params)",
        "_ZN7ck_tile6kentryILi1ENS_13FmhaFwdKernelINS_29BlockFmhaPipelineQRKSVSAsyncE",
        "void vllm::paged_attention_v2_kernel<unsigned short, unsigned short, 128>(float*)",
        "void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576>>(Flash_fwd_mla_params)",
        "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16>>(SSMParamsBase)",
        "triton_tem_fused_flex_attention_1",
    ],
    "communication": [
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "void deep_ep::intranode::dispatch<8, 768>(int4*)",
        "void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16, 8>(unsigned int)",
        "void nvshmemi_transfer_rma_p2p<0>(void*)",
        "rcclGenericKernel_4",
        "void quickreduce::allreduce_prototype_twoshot<4>(half const*)",
    ],
    "convolution": [
        "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x128x32",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(Params)",
        "volta_scudnn_128x64_relu_small_nn_v1",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x128x32",
        "void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4>>(ConvParamsBase)",
        "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>()",
    ],
    "moe": [
        "fused_moe_kernel",
        "void vllm::moe::topkGatingSoftmax<8, 128, 4, 16>(float const*)",
        "void sgl_kernel::moe_align_block_size_kernel<int>(int*)",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<>>>",
    ],
    "normalisation": [
        "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(cudnnTensorStruct)",
        "void transformer_engine::normalization::ln_fwd_tuned_kernel<Kernel_traits>(Params)",
        "triton_red_fused_add_mean_mul_pow_rsqrt_0",
        "_layer_norm_fwd_1pass_kernel",
    ],
    "reduction": [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>()",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*)",
        "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::DeviceRadixSortPolicy>()",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16>(c10::BFloat16*)",
        "triton_per_fused_sum_3",
    ],
    "elementwise": [
        "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 3, 64, 64>(float*)",
        "void vllm::act_and_mul_kernel<c10::BFloat16>(c10::BFloat16*)",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
        "triton_poi_fused_native_layer_norm_add_1",
        "void per_token_group_quant_8bit_kernel<c10::BFloat16, c10::Float8_e4m3fn>(void*)",
        "void fbgemm_gpu::_compute_FP8_quantize_cuda_kernel<float>(float const*)",
    ],
    "embedding": [
        "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::Half, long, unsigned int>()",
        "void split_embedding_codegen_forward_unweighted_kernel<c10::Half>()",
        "void at::native::(anonymous namespace)::embedding_backward_feature_kernel<float>(long*)",
    ],
    "optimiser": [
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float>(long)",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>()",
        "void kOptimizer32bit2State<float, 0>(float*)",
        "triton_for_fused_3",
    ],
}


@pytest.mark.parametrize(("wanted", "name"), [(kind, name) for kind, names in KNOWN.items() for name in names])
def test_known_names(wanted, name):
    assert category(name) == wanted


LIBRARIES = tomllib.loads((Path(__file__).parent / "kernel_names.toml").read_text("utf-8"))


@pytest.mark.parametrize("library", LIBRARIES)
def test_names_of_the_libraries(library):
    wrong = {
        name: (wanted, found)
        for wanted, names in LIBRARIES[library].items()
        for name in names
        if (found := category(name)) != wanted
    }
    assert not wrong


@pytest.mark.parametrize("pad", range(0, 240, 7))
def test_half_a_word_is_no_word(pad):
    """What stands where a long name is cut is not read as another word: a lambda is no LAMB."""
    frame = "void at::native::vectorized_elementwise_kernel<2, at::native::maximum_kernel_cuda<"
    name = f"{frame}{'1, ' * (pad // 3)}{{lambda(c10::Half, c10::Half)#1}}>, std::array<char*, 2ul> >(int)"

    assert category(name) == "elementwise"


def test_the_arguments_of_a_template_do_not_stand_above_the_name():
    assert category("void rotary_kernel<flash::Params, at::native::AdamFunctor>(float*)") == "elementwise"
    assert category("_ZN4vllm14rms_norm_kernelIN5flash6ParamsEEEvPT_") == "normalisation"
    assert category("void cutlass::device_kernel<flash::Params>(flash::Params)") == "attention"


def test_where_the_name_says_nothing_the_operator_does():
    assert category("kernel_17") == "other"
    assert category("kernel_17", "aten::addmm") == "gemm"
    assert category("kernel_17", "c10d::allreduce_") == "communication"
    assert category("kernel_17", "MyOperator") == "other"


def test_the_name_stands_above_the_operator():
    assert category("ncclDevKernel_SendRecv", "aten::mm") == "communication"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("quantized::linear_relu_dynamic_fp16", "gemm"),
        ("mkldnn::_linear_pointwise", "gemm"),
        ("aten::fbgemm_linear_int8_weight", "gemm"),
        ("aten::_compute_linear_combination", "elementwise"),
        ("aten::upsample_linear1d", "elementwise"),
        ("aten::_mkldnn_transpose", "elementwise"),
        ("aten::scatter_add_", "elementwise"),
        ("aten::aminmax", "reduction"),
    ],
)
def test_operators_that_work_on_the_host_are_classified_as_kernels_are(name, wanted):
    assert category(name, name) == wanted


def test_near_is_where_its_patterns_fit():
    from roofline.trace.classify import _rules

    names = [each.lower() for library in LIBRARIES.values() for names in library.values() for each in names]
    for _, _, _, pattern, near in _rules()["rule"]:
        assert [x for x in names if pattern and pattern.search(x) and not any(word in x for word in near)] == []


def test_every_rule_names_a_category_and_compute_comes_first():
    from roofline.trace.classify import _rules

    assert {rule[0] for rules in _rules().values() for rule in rules} <= set(CATEGORIES)
    assert CATEGORIES[: len(COMPUTE)] == COMPUTE
    assert CATEGORIES[len(COMPUTE) :] == ("communication", "copy")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("void (anonymous namespace)::softmax_warp_forward<float, 10>(float*, int)", "softmax_warp_forward<float, 10>"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, Array>(int, Array)",
            "AddFunctor<float> in vectorized_elementwise_kernel",
        ),
        ("_ZN4vllm15rms_norm_kernelEPfi", "vllm::rms_norm_kernel"),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bLi64EEEvPT_", "aiter::add_rmsnorm_quant_kernel"),
        ("triton_poi_fused_0", "triton_poi_fused_0"),
        ("", ""),
        ("(((", "((("),
        (")", ")"),
        ("_Z", "_Z"),
    ],
)
def test_names_for_people(name, wanted):
    assert readable(name) == wanted


def test_a_hostile_name_takes_no_time():
    """Names come from files: none is to hang."""
    start = time.process_time()
    for name in ("_Z" + "N1a" * 5000, "<" * 20000 + "(" * 20000 + ")", "a_" * 20000, "_ZN" + "9" * 5000, "conv" * 9000):
        category(name)
        readable(name)

    assert time.process_time() - start < 5  # a limit against hangs, no measure of speed
