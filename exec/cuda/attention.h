// Flash attention on a GPU: cuDNN's fused kernels where they can, own kernels where they cannot.
//
//   AttentionEngine engine({.device = 0});
//   Status ready = engine.Prepare(shape);
//   bytes = engine.WorkspaceBytes(shape);
//   Status launched = engine.Launch(call);  // On call.stream.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

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

  // Makes the shape's kernels ready, forward and backward: seconds, the first time in a process.
  Status Prepare(const OpShape& shape);
  // These are of a shape that was prepared. Forward and backward of a shape use the same library.
  bool UsesCudnn(const OpShape& shape) const;
  std::size_t WorkspaceBytes(const OpShape& shape) const;
  Status Launch(const KernelCall& call);
  // cuDNN no longer knows the stream of the last launch.
  void ForgetStream();
  // Which of the shapes own kernels compute, and why; once for both directions and all ranks.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  using Plans = std::vector<CudnnPlan>;  // Of AttentionPieces.

  Status LoadLibrary();
  Result<Plans> PlanPieces(const OpShape& shape) const;
  void NoteOwnKernels(const OpShape& shape, const std::string& reason);
  Status LaunchForward(const KernelCall& call, const Plans& plans);
  Status LaunchBackward(const KernelCall& call, const Plans& plans);

  Options options_;
  const Cudnn* cudnn_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
  // Without plans: an own kernel computes the shape.
  std::unordered_map<OpShape, Plans, OpShapeHash> plans_;
  std::vector<std::string> notes_;
};

}  // namespace twinstep::cuda
