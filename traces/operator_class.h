// What kind of work an operator is, by its name: our own operations ("gemm_forward") and the
// kernels of PyTorch, cuBLAS, cuDNN, CUTLASS, Triton, NCCL, RCCL, FBGEMM and AMD's libraries. So
// that traces of different origin can be compared.
//
//   ClassOfOperator("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT")  // kGemm
//   ClassOfOperator("Memcpy HtoD (Pinned -> Device)")                  // kH2D
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace twinstep {

enum class OperatorClass : std::uint8_t {
  kGemm,
  kConvolution,
  kAttention,
  kNorm,
  kSoftmax,
  kLoss,
  kEmbedding,
  kIndexing,  // Gathers, scatters, sorts.
  kElementwise,
  kReduction,
  kCopyOnDevice,  // Concatenation and changes of layout, too.
  kMemset,
  kOptimizer,
  kH2D,
  kD2H,
  kPeerCopy,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kSendRecv,
  kOtherCollective,
  kOther,  // A name that no rule knows.
};
inline constexpr int kOperatorClassCount = static_cast<int>(OperatorClass::kOther) + 1;

// "gemm", "all_reduce", ...
const char* Name(OperatorClass operator_class);

OperatorClass ClassOfOperator(std::string_view name);

// Messages and collectives.
bool IsCommunication(OperatorClass operator_class);
// Between the memories of host and devices.
bool IsTransfer(OperatorClass operator_class);

// A kernel's name without return type, namespaces, template arguments and parameters; what
// PyTorch's generic kernels are told to do stays: "vectorized_elementwise_kernel<CUDAFunctor_add>".
// Of what is longer still the begin, which ends in ".." and never within a character.
std::string ShortOperatorName(std::string_view name, std::size_t most_bytes = 100);

}  // namespace twinstep
