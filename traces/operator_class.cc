#include "traces/operator_class.h"

#include <optional>

#include "sim/graph/find_op.h"
#include "sim/lower_case.h"

namespace twinstep {
namespace {

OperatorClass ClassOfOp(OpCode op) {
  switch (op) {
    case OpCode::kGemmForward:
    case OpCode::kGemmDgrad:
    case OpCode::kGemmWgrad:
      return OperatorClass::kGemm;
    case OpCode::kNormForward:
    case OpCode::kNormBackward:
      return OperatorClass::kNorm;
    case OpCode::kAttentionForward:
    case OpCode::kAttentionBackward:
    case OpCode::kAttentionScores:
    case OpCode::kAttentionContext:
    case OpCode::kAttentionContextBackward:
    case OpCode::kAttentionScoresBackward:
      return OperatorClass::kAttention;
    case OpCode::kSoftmaxForward:
    case OpCode::kSoftmaxBackward:
      return OperatorClass::kSoftmax;
    case OpCode::kSplitQkv:
    case OpCode::kSplitQkvBackward:
    case OpCode::kActivationForward:
    case OpCode::kActivationBackward:
    case OpCode::kSiluForward:
    case OpCode::kSiluBackward:
    case OpCode::kMulForward:
    case OpCode::kMulBackward:
    case OpCode::kAdd:
    case OpCode::kDropoutAdd:
    case OpCode::kDropoutForward:
    case OpCode::kDropoutBackward:
    case OpCode::kAccumulate:
      return OperatorClass::kElementwise;
    case OpCode::kCopyOnDevice:
      return OperatorClass::kCopyOnDevice;
    case OpCode::kEmbeddingForward:
    case OpCode::kEmbeddingBackward:
      return OperatorClass::kEmbedding;
    case OpCode::kCrossEntropyStats:
    case OpCode::kCrossEntropyLoss:
    case OpCode::kCrossEntropyBackward:
      return OperatorClass::kLoss;
    case OpCode::kAdam:
    case OpCode::kGradNorm:
    case OpCode::kClipCoefficient:
      return OperatorClass::kOptimizer;
    case OpCode::kCopyH2D:
      return OperatorClass::kH2D;
    case OpCode::kCopyD2H:
      return OperatorClass::kD2H;
    case OpCode::kSend:
    case OpCode::kRecv:
    case OpCode::kRingShift:
      return OperatorClass::kSendRecv;
    case OpCode::kAllReduce:
      return OperatorClass::kAllReduce;
    case OpCode::kAllGather:
      return OperatorClass::kAllGather;
    case OpCode::kReduceScatter:
      return OperatorClass::kReduceScatter;
  }
  return OperatorClass::kOther;
}

struct Rule {
  std::string_view part;  // Of the name in lower case.
  OperatorClass result;
};

// Copies and fills as CUPTI and ROCm name them.
constexpr Rule kCopyRules[] = {
    {"htod", OperatorClass::kH2D},
    {"host -> device", OperatorClass::kH2D},
    {"copyhosttodevice", OperatorClass::kH2D},
    {"pageable -> device", OperatorClass::kH2D},
    {"pinned -> device", OperatorClass::kH2D},
    {"dtoh", OperatorClass::kD2H},
    {"device -> host", OperatorClass::kD2H},
    {"copydevicetohost", OperatorClass::kD2H},
    {"host_to_device", OperatorClass::kH2D},
    {"device_to_host", OperatorClass::kD2H},
    {"ptop", OperatorClass::kPeerCopy},
    {"peer", OperatorClass::kPeerCopy},
};

// In this order: how a name is matched depends on what stands before. Names of NCCL and RCCL, of
// the annotations of PyTorch's process groups ("gloo:all_reduce") and of kernels that do the same.
constexpr Rule kCollectiveRules[] = {
    {"allreduce", OperatorClass::kAllReduce},
    {"all_reduce", OperatorClass::kAllReduce},
    {"cross_device_reduce", OperatorClass::kAllReduce},
    {"allgather", OperatorClass::kAllGather},
    {"all_gather", OperatorClass::kAllGather},
    {"reducescatter", OperatorClass::kReduceScatter},
    {"reduce_scatter", OperatorClass::kReduceScatter},
    {"alltoall", OperatorClass::kAllToAll},
    {"all_to_all", OperatorClass::kAllToAll},
    {"broadcast", OperatorClass::kBroadcast},
    {"sendrecv", OperatorClass::kSendRecv},
    {"send", OperatorClass::kSendRecv},
    {"recv", OperatorClass::kSendRecv},
    {"barrier", OperatorClass::kOtherCollective},
    {"reduce", OperatorClass::kReduce},
};
// Outside of these libraries only what no other kernel is called.
constexpr std::size_t kUnmistakableCollectives = 9;

constexpr Rule kKernelRules[] = {
    // FBGEMM's embedding tables, before the optimizers that they fuse.
    {"split_embedding", OperatorClass::kEmbedding},
    // Of positions, not of tokens.
    {"rotary", OperatorClass::kElementwise},
    {"permute_pooled_embs", OperatorClass::kEmbedding},
    {"bounds_check_indices", OperatorClass::kEmbedding},
    {"embedding", OperatorClass::kEmbedding},
    // PyTorch's backward of an embedding.
    {"compute_grad_weight", OperatorClass::kEmbedding},
    {"sum_and_scatter", OperatorClass::kEmbedding},
    {"krn_partial", OperatorClass::kEmbedding},
    {"compute_num_of_partial_segments", OperatorClass::kEmbedding},

    {"flash", OperatorClass::kAttention},
    {"fmha", OperatorClass::kAttention},
    {"sdpa", OperatorClass::kAttention},
    {"attention", OperatorClass::kAttention},
    {"attn", OperatorClass::kAttention},
    {"mha_fwd", OperatorClass::kAttention},
    {"mha_bwd", OperatorClass::kAttention},
    {"pagedkvcache", OperatorClass::kAttention},
    {"prefillwith", OperatorClass::kAttention},
    {"decodewith", OperatorClass::kAttention},
    {"compute_dot_do_o", OperatorClass::kAttention},
    {"convert_dq_to_16bits", OperatorClass::kAttention},

    // Norms of gradients are the optimizer's.
    {"l2norm", OperatorClass::kOptimizer},
    {"lpnorm", OperatorClass::kOptimizer},
    {"multi_tensor_apply", OperatorClass::kOptimizer},
    {"multitensorapply", OperatorClass::kOptimizer},
    {"adam", OperatorClass::kOptimizer},
    {"adagrad", OperatorClass::kOptimizer},
    {"fusedoptimizer", OperatorClass::kOptimizer},
    {"lamb_", OperatorClass::kOptimizer},
    {"sgd", OperatorClass::kOptimizer},

    {"layer_norm", OperatorClass::kNorm},
    {"layernorm", OperatorClass::kNorm},
    {"rmsnorm", OperatorClass::kNorm},
    {"rms_norm", OperatorClass::kNorm},
    {"batch_norm", OperatorClass::kNorm},
    {"batchnorm", OperatorClass::kNorm},
    {"groupnorm", OperatorClass::kNorm},
    {"group_norm", OperatorClass::kNorm},
    {"instancenorm", OperatorClass::kNorm},
    {"gammabeta", OperatorClass::kNorm},
    {"rowwisemoments", OperatorClass::kNorm},
    {"computefusedparams", OperatorClass::kNorm},
    {"computeinternalgradients", OperatorClass::kNorm},
    {"bn_fw_", OperatorClass::kNorm},
    {"bn_bw_", OperatorClass::kNorm},
    {"ln_fwd", OperatorClass::kNorm},
    {"ln_bwd", OperatorClass::kNorm},
    {"cucomputegradinput", OperatorClass::kNorm},

    {"nchwtonhwc", OperatorClass::kCopyOnDevice},
    {"nhwctonchw", OperatorClass::kCopyOnDevice},
    {"catarray", OperatorClass::kCopyOnDevice},
    {"transpose", OperatorClass::kCopyOnDevice},
    {"direct_copy_kernel", OperatorClass::kCopyOnDevice},
    {"16_copy_kernel", OperatorClass::kCopyOnDevice},
    {"8_copy_kernel", OperatorClass::kCopyOnDevice},
    {"copy_device_to_device", OperatorClass::kCopyOnDevice},
    {"copybuffer", OperatorClass::kCopyOnDevice},
    {"split_with_sizes_copy", OperatorClass::kCopyOnDevice},
    {"reshape_and_cache", OperatorClass::kCopyOnDevice},

    {"convol", OperatorClass::kConvolution},
    {"conv1d", OperatorClass::kConvolution},
    {"conv2d", OperatorClass::kConvolution},
    {"conv3d", OperatorClass::kConvolution},
    {"conv_", OperatorClass::kConvolution},
    {"winograd", OperatorClass::kConvolution},
    {"implicit_gemm", OperatorClass::kConvolution},
    {"scudnn", OperatorClass::kConvolution},
    {"fprop", OperatorClass::kConvolution},
    {"dgrad", OperatorClass::kConvolution},
    {"wgrad", OperatorClass::kConvolution},
    {"im2col", OperatorClass::kConvolution},
    {"col2im", OperatorClass::kConvolution},
    {"fft2d_", OperatorClass::kConvolution},
    {"cask_cudnn", OperatorClass::kConvolution},
    {"igemm_fwd", OperatorClass::kConvolution},
    {"igemm_bwd", OperatorClass::kConvolution},
    {"miopenconv", OperatorClass::kConvolution},

    {"gemm", OperatorClass::kGemm},
    {"nvjet", OperatorClass::kGemm},
    {"cijk_", OperatorClass::kGemm},  // Tensile, behind rocBLAS and hipBLASLt.
    {"gemv", OperatorClass::kGemm},
    {"xmma_", OperatorClass::kGemm},
    {"tensorop", OperatorClass::kGemm},
    {"cutlass", OperatorClass::kGemm},
    {"cublas", OperatorClass::kGemm},
    {"splitk", OperatorClass::kGemm},
    {"wvsplitk", OperatorClass::kGemm},
    {"matmul", OperatorClass::kGemm},
    {"triton_mm", OperatorClass::kGemm},
    {"triton_tem", OperatorClass::kGemm},
    {"_bmm", OperatorClass::kGemm},
    {"addmm", OperatorClass::kGemm},
    {"marlin", OperatorClass::kGemm},
    {"fused_moe_kernel", OperatorClass::kGemm},
    {"dot_kernel", OperatorClass::kGemm},  // cuBLAS'.

    {"nll_loss", OperatorClass::kLoss},
    {"cross_entropy", OperatorClass::kLoss},
    {"crossentropy", OperatorClass::kLoss},
    {"log_softmax", OperatorClass::kLoss},
    {"logsoftmax", OperatorClass::kLoss},
    {"mse_", OperatorClass::kLoss},
    {"_loss", OperatorClass::kLoss},
    {"loss_", OperatorClass::kLoss},
    {"softmax", OperatorClass::kSoftmax},

    {"radix", OperatorClass::kIndexing},
    {"sort", OperatorClass::kIndexing},
    {"topk", OperatorClass::kIndexing},
    {"top_k", OperatorClass::kIndexing},
    {"scatter_gather", OperatorClass::kIndexing},
    {"index_elementwise", OperatorClass::kIndexing},
    {"indexselect", OperatorClass::kIndexing},
    {"index_select", OperatorClass::kIndexing},
    {"indexing_backward", OperatorClass::kIndexing},
    {"index_put", OperatorClass::kIndexing},
    {"linearize_index", OperatorClass::kIndexing},
    {"gather_kernel", OperatorClass::kIndexing},
    {"permute_2d", OperatorClass::kIndexing},
    {"permute_indices", OperatorClass::kIndexing},
    {"unique", OperatorClass::kIndexing},
    {"::scan::", OperatorClass::kIndexing},
    {"devicescan", OperatorClass::kIndexing},
    {"kernel_scan", OperatorClass::kIndexing},
    {"deviceselect", OperatorClass::kIndexing},
    {"indexfunc", OperatorClass::kIndexing},
    {"moe_align", OperatorClass::kIndexing},
    {"histogram", OperatorClass::kIndexing},
    {"masked_select", OperatorClass::kIndexing},
    {"nonzero", OperatorClass::kIndexing},

    {"reduce_kernel", OperatorClass::kReduction},
    {"reduce_1block", OperatorClass::kReduction},
    {"devicereduce", OperatorClass::kReduction},
    {"devicesegmentedreduce", OperatorClass::kReduction},
    {"pool", OperatorClass::kReduction},
    {"argmax", OperatorClass::kReduction},

    {"elementwise", OperatorClass::kElementwise},
    {"dropout", OperatorClass::kElementwise},
    {"gelu", OperatorClass::kElementwise},
    {"silu", OperatorClass::kElementwise},
    {"relu", OperatorClass::kElementwise},
    {"swiglu", OperatorClass::kElementwise},
    {"act_and_mul", OperatorClass::kElementwise},
    {"rope_", OperatorClass::kElementwise},
    {"_rope", OperatorClass::kElementwise},
    {"quantize", OperatorClass::kElementwise},
    {"cast", OperatorClass::kElementwise},
    {"fill", OperatorClass::kElementwise},
    {"distribution", OperatorClass::kElementwise},
    {"bias", OperatorClass::kElementwise},
    {"upsample", OperatorClass::kElementwise},
    {"triu_tril", OperatorClass::kElementwise},
    {"add_kernel", OperatorClass::kElementwise},
    {"mul_kernel", OperatorClass::kElementwise},

    // What is left of a library of these kernels, or of a task that only says what it moves.
    {"gather", OperatorClass::kIndexing},
    {"scatter", OperatorClass::kIndexing},
    {"copy", OperatorClass::kCopyOnDevice},
    {"permute", OperatorClass::kCopyOnDevice},
};

// Kernels of Inductor are named after what was fused into them, also after what only feeds them (a
// matrix product that ran before, a collective that was waited for). What they are themselves says
// the letters behind "triton_".
constexpr Rule kInductorKinds[] = {
    {"triton_poi_", OperatorClass::kElementwise}, {"triton_red_", OperatorClass::kReduction},
    {"triton_per_", OperatorClass::kReduction},   {"triton_spl_", OperatorClass::kReduction},
    {"triton_for_", OperatorClass::kOptimizer},  // PyTorch's foreach.
};
// Reductions that have a name.
constexpr Rule kInductorReductions[] = {
    {"log_softmax", OperatorClass::kLoss},   {"nll_loss", OperatorClass::kLoss},
    {"cross_entropy", OperatorClass::kLoss}, {"mse_loss", OperatorClass::kLoss},
    {"softmax", OperatorClass::kSoftmax},    {"layer_norm", OperatorClass::kNorm},
    {"group_norm", OperatorClass::kNorm},    {"batch_norm", OperatorClass::kNorm},
    {"rms_norm", OperatorClass::kNorm},      {"rsqrt", OperatorClass::kNorm},
};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <typename Rules>
std::optional<OperatorClass> FirstMatch(std::string_view lower, const Rules& rules,
                                        std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (Contains(lower, rules[i].part)) return rules[i].result;
  }
  return std::nullopt;
}

bool IsIdentifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// What a generic kernel of PyTorch does, from its template arguments: the first identifier that
// names a functor or an operator's own kernel.
std::string_view Payload(std::string_view arguments) {
  std::string_view generic;
  for (std::size_t i = 0; i < arguments.size();) {
    if (!IsIdentifier(arguments[i])) {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < arguments.size() && IsIdentifier(arguments[i])) ++i;
    const std::string_view word = arguments.substr(begin, i - begin);
    if (word.ends_with("UnaryFunctor") || word == "BinaryFunctor") {
      if (generic.empty()) generic = word;
    } else if (Contains(word, "Functor") || word.ends_with("_kernel_cuda") ||
               (word.ends_with("Ops") && word.size() > 3)) {
      return word;
    }
  }
  return generic;
}

// Nothing where the kernel is not Inductor's, or one of its templates.
std::optional<OperatorClass> ClassOfInductor(std::string_view lower) {
  for (const Rule& rule : kInductorKinds) {
    if (!lower.starts_with(rule.part)) continue;
    if (rule.result == OperatorClass::kReduction) {
      return FirstMatch(lower, kInductorReductions, std::size(kInductorReductions))
          .value_or(rule.result);
    }
    return rule.result;
  }
  return std::nullopt;
}

}  // namespace

const char* Name(OperatorClass operator_class) {
  switch (operator_class) {
    case OperatorClass::kGemm:
      return "gemm";
    case OperatorClass::kConvolution:
      return "convolution";
    case OperatorClass::kAttention:
      return "attention";
    case OperatorClass::kNorm:
      return "norm";
    case OperatorClass::kSoftmax:
      return "softmax";
    case OperatorClass::kLoss:
      return "loss";
    case OperatorClass::kEmbedding:
      return "embedding";
    case OperatorClass::kIndexing:
      return "indexing";
    case OperatorClass::kElementwise:
      return "elementwise";
    case OperatorClass::kReduction:
      return "reduction";
    case OperatorClass::kCopyOnDevice:
      return "copy_on_device";
    case OperatorClass::kMemset:
      return "memset";
    case OperatorClass::kOptimizer:
      return "optimizer";
    case OperatorClass::kH2D:
      return "h2d";
    case OperatorClass::kD2H:
      return "d2h";
    case OperatorClass::kPeerCopy:
      return "peer_copy";
    case OperatorClass::kAllReduce:
      return "all_reduce";
    case OperatorClass::kAllGather:
      return "all_gather";
    case OperatorClass::kReduceScatter:
      return "reduce_scatter";
    case OperatorClass::kAllToAll:
      return "all_to_all";
    case OperatorClass::kBroadcast:
      return "broadcast";
    case OperatorClass::kReduce:
      return "reduce";
    case OperatorClass::kSendRecv:
      return "send_recv";
    case OperatorClass::kOtherCollective:
      return "other_collective";
    case OperatorClass::kOther:
      return "other";
  }
  return "";
}

OperatorClass ClassOfOperator(std::string_view name) {
  if (const std::optional<OpCode> op = FindOp(name)) return ClassOfOp(*op);
  const std::string lower = LowerCase(name);
  if (lower.starts_with("memset") || lower.starts_with("fillbuffer") ||
      lower.starts_with("__amd_rocclr_fillbuffer")) {
    return OperatorClass::kMemset;
  }
  if (lower.starts_with("memcpy") || lower.starts_with("copyhost") ||
      lower.starts_with("copydevice") || lower.starts_with("memory_copy")) {
    return FirstMatch(lower, kCopyRules, std::size(kCopyRules))
        .value_or(OperatorClass::kCopyOnDevice);
  }
  if (const auto inductor = ClassOfInductor(lower)) return *inductor;
  for (const char* library : {"nccl", "rccl", "msccl", "oneccl", "hccl",
                              "gloo:", "mpi:", "ucc:", "c10d::", "comm_coll", "nvshmem"}) {
    if (!Contains(lower, library)) continue;
    return FirstMatch(lower, kCollectiveRules, std::size(kCollectiveRules))
        .value_or(OperatorClass::kOtherCollective);
  }
  // Experts' tokens go to their ranks and come back.
  if (Contains(lower, "deep_ep")) return OperatorClass::kAllToAll;
  // Reductions among the threads of a warp or block are called alike.
  const bool is_local = Contains(lower, "warpallreduce") || Contains(lower, "blockallreduce");
  if (const auto known = FirstMatch(lower, kCollectiveRules, kUnmistakableCollectives);
      known && !is_local) {
    return *known;
  }
  return FirstMatch(lower, kKernelRules, std::size(kKernelRules)).value_or(OperatorClass::kOther);
}

bool IsCommunication(OperatorClass operator_class) {
  return operator_class >= OperatorClass::kAllReduce &&
         operator_class <= OperatorClass::kOtherCollective;
}

bool IsTransfer(OperatorClass operator_class) {
  return operator_class >= OperatorClass::kH2D && operator_class <= OperatorClass::kPeerCopy;
}

namespace {

std::string WithoutTypes(std::string_view name) {
  // Copies say in parentheses from where to where.
  if (name.starts_with("Mem")) return std::string(name);
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  std::string_view rest = name;
  if (rest.starts_with("void ")) rest.remove_prefix(5);
  std::size_t begin = 0, end = 0;
  while (end < rest.size() && rest[end] != '<') {
    if (rest[end] == '(') {
      if (!rest.substr(end).starts_with(kAnonymous)) break;
      end += kAnonymous.size();
    } else if (rest.substr(end).starts_with("::")) {
      end += 2;
      begin = end;
    } else {
      ++end;
    }
  }
  std::string result(rest.substr(begin, end - begin));
  if (result.empty()) return std::string(name);
  const std::string_view payload = Payload(rest.substr(end));
  if (!payload.empty()) result.append("<").append(payload).append(">");
  return result;
}

}  // namespace

std::string ShortOperatorName(std::string_view name, std::size_t most_bytes) {
  std::string result = WithoutTypes(name);
  if (result.size() <= most_bytes) return result;
  constexpr std::string_view kMore = "..";
  std::size_t end = most_bytes - kMore.size();
  while (end > 0 && (static_cast<unsigned char>(result[end]) & 0xc0) == 0x80) --end;
  return result.substr(0, end).append(kMore);
}

}  // namespace twinstep
