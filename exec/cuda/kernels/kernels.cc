#include "exec/cuda/kernels/kernels.h"

#include "exec/cuda/kernels/adam.h"
#include "exec/cuda/kernels/dropout.h"
#include "exec/cuda/kernels/elementwise.h"
#include "exec/cuda/kernels/embedding.h"
#include "exec/cuda/kernels/grad_norm.h"
#include "exec/cuda/kernels/loss.h"
#include "exec/cuda/kernels/norm.h"
#include "exec/cuda/kernels/rope.h"
#include "exec/cuda/kernels/unfused_attention.h"

namespace twinstep::cuda {
namespace {

using Launcher = cudaError_t (*)(const KernelCall&);

Launcher LauncherOf(OpCode op) {
  switch (op) {
    case OpCode::kNormForward:
      return LaunchNormForward;
    case OpCode::kNormBackward:
      return LaunchNormBackward;
    case OpCode::kSplitQkv:
      return LaunchSplitQkv;
    case OpCode::kSplitQkvBackward:
      return LaunchSplitQkvBackward;
    case OpCode::kAttentionScores:
      return LaunchAttentionScores;
    case OpCode::kSoftmaxForward:
      return LaunchSoftmaxForward;
    case OpCode::kAttentionContext:
      return LaunchAttentionContext;
    case OpCode::kAttentionContextBackward:
      return LaunchAttentionContextBackward;
    case OpCode::kSoftmaxBackward:
      return LaunchSoftmaxBackward;
    case OpCode::kAttentionScoresBackward:
      return LaunchAttentionScoresBackward;
    case OpCode::kActivationForward:
      return LaunchActivationForward;
    case OpCode::kActivationBackward:
      return LaunchActivationBackward;
    case OpCode::kSiluForward:
      return LaunchSiluForward;
    case OpCode::kSiluBackward:
      return LaunchSiluBackward;
    case OpCode::kMulForward:
      return LaunchMulForward;
    case OpCode::kMulBackward:
      return LaunchMulBackward;
    case OpCode::kAdd:
      return LaunchAdd;
    case OpCode::kDropoutAdd:
      return LaunchDropoutAdd;
    case OpCode::kDropoutForward:
      return LaunchDropoutForward;
    case OpCode::kDropoutBackward:
      return LaunchDropoutBackward;
    case OpCode::kCopyOnDevice:
      return LaunchCopyOnDevice;
    case OpCode::kEmbeddingForward:
      return LaunchEmbeddingForward;
    case OpCode::kEmbeddingBackward:
      return LaunchEmbeddingBackward;
    case OpCode::kCrossEntropyStats:
      return LaunchCrossEntropyStats;
    case OpCode::kCrossEntropyLoss:
      return LaunchCrossEntropyLoss;
    case OpCode::kCrossEntropyBackward:
      return LaunchCrossEntropyBackward;
    case OpCode::kAdam:
      return LaunchAdam;
    case OpCode::kGradNorm:
      return LaunchGradNorm;
    case OpCode::kClipCoefficient:
      return LaunchClipCoefficient;
    case OpCode::kAccumulate:
      return LaunchAccumulate;
    case OpCode::kGemmForward:
    case OpCode::kGemmDgrad:
    case OpCode::kGemmWgrad:
    case OpCode::kAttentionForward:
    case OpCode::kAttentionBackward:
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

}  // namespace

bool IsKernel(OpCode op) { return LauncherOf(op) != nullptr; }

std::size_t WorkspaceBytes(const OpShape& shape) {
  switch (shape.op) {
    case OpCode::kNormBackward:
      return NormBackwardWorkspaceBytes(shape);
    case OpCode::kEmbeddingBackward:
      return EmbeddingBackwardWorkspaceBytes(shape);
    case OpCode::kCrossEntropyLoss:
      return CrossEntropyLossWorkspaceBytes(shape);
    case OpCode::kGradNorm:
      return GradNormWorkspaceBytes(shape);
    default:
      return 0;
  }
}

cudaError_t LaunchKernel(const KernelCall& call) {
  const Launcher launcher = LauncherOf(call.shape.op);
  return launcher == nullptr ? cudaErrorInvalidValue : launcher(call);
}

}  // namespace twinstep::cuda
