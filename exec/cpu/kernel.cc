#include "exec/cpu/kernel.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "exec/cpu/adam.h"
#include "exec/cpu/dropout.h"
#include "exec/cpu/elementwise.h"
#include "exec/cpu/embedding.h"
#include "exec/cpu/flash_attention.h"
#include "exec/cpu/gemm.h"
#include "exec/cpu/grad_norm.h"
#include "exec/cpu/loss.h"
#include "exec/cpu/norm.h"
#include "exec/cpu/rope.h"
#include "exec/cpu/scratch.h"
#include "exec/cpu/unfused_attention.h"

namespace twinstep {
namespace {

using Kernel = void (*)(const KernelCall&);

Kernel KernelOf(OpCode op) {
  switch (op) {
    case OpCode::kGemmForward:
      return GemmForward;
    case OpCode::kGemmDgrad:
      return GemmDgrad;
    case OpCode::kGemmWgrad:
      return GemmWgrad;
    case OpCode::kNormForward:
      return NormForward;
    case OpCode::kNormBackward:
      return NormBackward;
    case OpCode::kSplitQkv:
      return SplitQkv;
    case OpCode::kSplitQkvBackward:
      return SplitQkvBackward;
    case OpCode::kAttentionForward:
      return AttentionForward;
    case OpCode::kAttentionBackward:
      return AttentionBackward;
    case OpCode::kAttentionScores:
      return AttentionScores;
    case OpCode::kSoftmaxForward:
      return SoftmaxForward;
    case OpCode::kAttentionContext:
      return AttentionContext;
    case OpCode::kAttentionContextBackward:
      return AttentionContextBackward;
    case OpCode::kSoftmaxBackward:
      return SoftmaxBackward;
    case OpCode::kAttentionScoresBackward:
      return AttentionScoresBackward;
    case OpCode::kActivationForward:
      return ActivationForward;
    case OpCode::kActivationBackward:
      return ActivationBackward;
    case OpCode::kSiluForward:
      return SiluForward;
    case OpCode::kSiluBackward:
      return SiluBackward;
    case OpCode::kMulForward:
      return MulForward;
    case OpCode::kMulBackward:
      return MulBackward;
    case OpCode::kAdd:
      return Add;
    case OpCode::kDropoutAdd:
      return DropoutAdd;
    case OpCode::kDropoutForward:
      return DropoutForward;
    case OpCode::kDropoutBackward:
      return DropoutBackward;
    case OpCode::kCopyOnDevice:
      return CopyOnDevice;
    case OpCode::kEmbeddingForward:
      return EmbeddingForward;
    case OpCode::kEmbeddingBackward:
      return EmbeddingBackward;
    case OpCode::kCrossEntropyStats:
      return CrossEntropyStats;
    case OpCode::kCrossEntropyLoss:
      return CrossEntropyLoss;
    case OpCode::kCrossEntropyBackward:
      return CrossEntropyBackward;
    case OpCode::kAdam:
      return Adam;
    case OpCode::kGradNorm:
      return GradNorm;
    case OpCode::kClipCoefficient:
      return ClipCoefficient;
    case OpCode::kAccumulate:
      return Accumulate;
    case OpCode::kCopyH2D:
    case OpCode::kCopyD2H:
    case OpCode::kSend:
    case OpCode::kRecv:
    case OpCode::kAllReduce:
    case OpCode::kAllGather:
    case OpCode::kReduceScatter:
    case OpCode::kRingShift:
      break;
  }
  return nullptr;
}

std::size_t ScratchBytes(const OpShape& shape) {
  switch (shape.op) {
    case OpCode::kGemmForward:
    case OpCode::kGemmDgrad:
    case OpCode::kGemmWgrad:
      return GemmScratchBytes(shape);
    case OpCode::kNormBackward:
      return NormScratchBytes(shape);
    case OpCode::kSplitQkv:
    case OpCode::kSplitQkvBackward:
      return RotaryScratchBytes(shape);
    case OpCode::kAttentionForward:
    case OpCode::kAttentionBackward:
      return FlashScratchBytes(shape);
    case OpCode::kAttentionScores:
    case OpCode::kSoftmaxForward:
    case OpCode::kAttentionContext:
    case OpCode::kAttentionContextBackward:
    case OpCode::kAttentionScoresBackward:
      return UnfusedScratchBytes(shape);
    case OpCode::kEmbeddingBackward:
      return EmbeddingScratchBytes(shape);
    default:
      return 0;
  }
}

}  // namespace

bool IsKernel(OpCode op) { return KernelOf(op) != nullptr; }

void RunKernel(const KernelCall& call) {
  const Kernel kernel = KernelOf(call.shape.op);
  if (kernel == nullptr) {
    std::fprintf(stderr, "RunKernel: %s is no kernel of the CPU backend\n", Name(call.shape.op));
    std::abort();
  }
  kernel(call);
}

std::size_t RunKernelAndMeasureScratch(const KernelCall& call) {
  Scratch::ForgetPeak();
  RunKernel(call);
  return Scratch::PeakBytes();
}

void ReserveScratch(std::span<const OpShape> shapes) {
  std::size_t bytes = 0;
  for (const OpShape& shape : shapes) bytes = std::max(bytes, ScratchBytes(shape));
  Scratch::Reserve(bytes);
}

}  // namespace twinstep
