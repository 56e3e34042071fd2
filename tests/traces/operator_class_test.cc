#include "traces/operator_class.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "sim/graph/op.h"

namespace twinstep {
namespace {

TEST(OperatorClassTest, KernelsOfTheField) {
  using C = OperatorClass;
  const std::pair<const char*, C> kNames[] = {
      {"ampere_sgemm_128x64_nn", C::kGemm},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", C::kGemm},
      {"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", C::kGemm},
      {"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x4_nn_align4>(Params)",
       C::kGemm},
      {"Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN", C::kGemm},
      {"triton_tem_fused_addmm_3", C::kGemm},
      {"void gemv2T_kernel_val<int, int, __nv_bfloat16>()", C::kGemm},
      {"sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32", C::kConvolution},
      {"cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1", C::kConvolution},
      {"void cudnn::ops::nchwToNhwcKernel<float, float>()", C::kCopyOnDevice},
      {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64>>(Flash_fwd_params)",
       C::kAttention},
      {"fmha_cutlassF_bf16_aligned_64x128_rf_sm80(AttentionKernel::Params)", C::kAttention},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26", C::kAttention},
      {"void cudnn::fusion::compute_dot_do_o_specialized<true, 128>()", C::kAttention},
      {"triton_tem_fused_flex_attention_0", C::kAttention},
      {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>()", C::kNorm},
      {"void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<>()", C::kNorm},
      {"triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_4", C::kNorm},
      {"void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<>()", C::kNorm},
      {"void (anonymous namespace)::softmax_warp_forward<float, float, 10>()", C::kSoftmax},
      {"void cunn_SoftMaxForward<4, float, LogSoftMaxForwardEpilogue>()", C::kLoss},
      {"void at::native::nll_loss_forward_reduce_cuda_kernel_2d<float>()", C::kLoss},
      {"void split_embedding_backward_codegen_rowwise_adagrad_kernel()", C::kEmbedding},
      {"void at::native::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<3>>()",
       C::kOptimizer},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>()",
       C::kElementwise},
      {"triton_poi_fused_add_cos_sin_0", C::kElementwise},
      {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, MeanOps>>()",
       C::kReduction},
      {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<2u>>()",
       C::kCopyOnDevice},
      {"void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<>()", C::kIndexing},
      {"void at::native::_scatter_gather_elementwise_kernel<128, 4>()", C::kIndexing},
      {"Memcpy HtoD (Pageable -> Device)", C::kH2D},
      {"Memcpy HtoD (Host -> Device)", C::kH2D},
      {"Memcpy DtoH (Device -> Pinned)", C::kD2H},
      {"CopyDeviceToHost", C::kD2H},
      {"Memcpy DtoD (Device -> Device)", C::kCopyOnDevice},
      {"Memcpy PtoP (Device -> Device)", C::kPeerCopy},
      {"Memset (Device)", C::kMemset},
      {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", C::kAllReduce},
      {"ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
       C::kAllGather},
      {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL()", C::kReduceScatter},
      {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t()", C::kSendRecv},
      {"ncclDevKernel_Broadcast_RING_LL()", C::kBroadcast},
      {"ncclDevKernel_Reduce_Sum_f32_RING_LL()", C::kReduce},
      {"ncclDevKernel_Generic_4() (nccl all_to_allv)", C::kAllToAll},
      {"ncclDevKernel_Generic()", C::kOtherCollective},
      {"gloo:all_reduce", C::kAllReduce},
      {"void vllm::cross_device_reduce_1stage<half, 8>()", C::kAllReduce},
      // Inductor's are what they are, not what was fused or waited for.
      {"triton_poi_fused_all_reduce_wait_tensor_add_0", C::kElementwise},
      {"triton_poi_fused_addmm_relu_2", C::kElementwise},
      {"triton_poi_fused_convolution_relu_3", C::kElementwise},
      {"triton_poi_fused__scaled_dot_product_flash_attention_5", C::kElementwise},
      {"triton_red_fused_native_layer_norm_7", C::kNorm},
      {"triton_per_fused__softmax_bmm_1", C::kSoftmax},
      {"triton_per_fused__log_softmax_nll_loss_forward_9", C::kLoss},
      {"triton_red_fused_all_gather_into_tensor_sum_3", C::kReduction},
      {"triton_tem_fused_mm_4", C::kGemm},
      {"triton_mm_3", C::kGemm},
      {"triton_for_fused_0", C::kOptimizer},
      {"void warpAllReduceSoftmax<float>()", C::kSoftmax},
      {"void colossalAI::cuda::act_and_mul_kernel<float>()", C::kElementwise},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda()>",
       C::kElementwise},
      {"void dot_kernel<float, 128, 0, cublasDotParams<>>()", C::kGemm},
      {"kernel_mha_fwd", C::kAttention},
      {"void flashinfer::BatchPrefillWithPagedKVCacheKernel<>()", C::kAttention},
      {"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<>>>()",
       C::kAttention},
      {"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<>>()", C::kGemm},
      {"void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_64x1_tn>()",
       C::kGemm},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, float>()", C::kGemm},
      {"volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", C::kGemm},
      {"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>()", C::kNorm},
      {"miopenSp3AsmConv_v21_1_2_gfx9_fp32_stride1", C::kConvolution},
      {"void ck_tile::kentry<256, 1, ck_tile::FmhaFwdKernel<>>()", C::kAttention},
      {"void vllm::rotary_embedding_kernel<__nv_bfloat16, true>()", C::kElementwise},
      {"void deep_ep::intranode::dispatch<768>()", C::kAllToAll},
      {"__amd_rocclr_fillBufferAligned.kd", C::kMemset},
      {"__amd_rocclr_copyBuffer.kd", C::kCopyOnDevice},
      {"mscclKernel_AllReduce", C::kAllReduce},
      {"_Z38ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
       C::kAllReduce},
      {"c10d::allreduce_", C::kAllReduce},
      {"my_own_kernel", C::kOther},
  };
  for (const auto& [name, expected] : kNames) {
    EXPECT_STREQ(Name(ClassOfOperator(name)), Name(expected)) << name;
  }
}

TEST(OperatorClassTest, EveryOperationOfOursHasAClass) {
  for (int i = 0; i < kOpCodeCount; ++i) {
    const char* name = Name(static_cast<OpCode>(i));
    EXPECT_NE(ClassOfOperator(name), OperatorClass::kOther) << name;
  }
  EXPECT_EQ(ClassOfOperator("ring_shift"), OperatorClass::kSendRecv);
  EXPECT_EQ(ClassOfOperator("clip_coefficient"), OperatorClass::kOptimizer);
}

TEST(ShortOperatorNameTest, KeepsWhatTellsKernelsApart) {
  EXPECT_EQ(ShortOperatorName("void at::native::vectorized_elementwise_kernel<4, "
                              "at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"),
            "vectorized_elementwise_kernel<CUDAFunctor_add>");
  EXPECT_EQ(ShortOperatorName("void at::native::(anonymous namespace)::max_pool<float>(int)"),
            "max_pool");
  EXPECT_EQ(ShortOperatorName("Memcpy HtoD (Host -> Device)"), "Memcpy HtoD (Host -> Device)");
  EXPECT_EQ(ShortOperatorName("gemm_forward"), "gemm_forward");
  EXPECT_EQ(ShortOperatorName("<lambda>"), "<lambda>");
  EXPECT_EQ(ShortOperatorName(std::string(100'000, 'a')), std::string(98, 'a') + "..");
  // Not within a character of two bytes.
  EXPECT_EQ(ShortOperatorName("abc\xc3\xa9\xc3\xa9", 6), "abc..");
  EXPECT_EQ(ShortOperatorName("abc\xc3\xa9\xc3\xa9", 7), "abc\xc3\xa9\xc3\xa9");
}

}  // namespace
}  // namespace twinstep
