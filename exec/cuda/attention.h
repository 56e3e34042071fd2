// Flash attention on a GPU: cuDNN's fused kernels where they can, own kernels where they cannot.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "exec/cuda/cudnn_attention.h"
#include "exec/cuda/kernels/kernel_call.h"
#include "exec/cuda/libraries.h"
#include "sim/graph/op.h"
#include "sim/result.h"

namespace twinstep::cuda {

bool IsAttention(OpCode op);

class AttentionEngine {
 public:
  struct Options {
    int device = 0;
    bool deterministic = false;
  };
  // cuDNN is loaded when a shape first needs it.
  explicit AttentionEngine(const Options& options) : options_(options) {}
  AttentionEngine(const AttentionEngine&) = delete;
  AttentionEngine& operator=(const AttentionEngine&) = delete;
  ~AttentionEngine();

  // Makes the shape's kernels ready: seconds, the first time in a process.
  Status Prepare(const OpShape& shape);
  // Of a shape that was prepared.
  std::size_t WorkspaceBytes(const OpShape& shape) const;
  Status Launch(const KernelCall& call);
  // cuDNN no longer knows the stream of the last launch.
  void ForgetStream();

 private:
  Status LaunchForward(const KernelCall& call, const CudnnPlan& plan);
  Status LaunchBackward(const KernelCall& call, const CudnnPlan& plan);
  const CudnnPlan* Find(const OpShape& shape) const;

  Options options_;
  const Cudnn* cudnn_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
  std::unordered_map<OpShape, CudnnPlan, OpShapeHash> plans_;
};

}  // namespace twinstep::cuda
