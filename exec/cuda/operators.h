// Every operator of the graph that a GPU computes: own kernels, cuBLASLt's GEMMs, cuDNN's
// attention.
//
//   Result<std::unique_ptr<Operators>> operators = Operators::Create({.device = 0});
//   operators.value()->Plan(shape);  // All shapes, before memory is placed.
//   bytes = operators.value()->WorkspaceBytes(shape);
//   operators.value()->Tune(call);  // One call a shape: overwrites operands.
//   operators.value()->Launch(call);
//   operators.value()->Launch(gemm, residual);  // A forward product without bias plus a residual.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/cuda/attention.h"
#include "exec/cuda/gemm.h"
#include "exec/cuda/kernels/kernel_call.h"
#include "sim/graph/op.h"
#include "sim/result.h"

namespace twinstep::cuda {

class Operators {
 public:
  struct Options {
    int device = 0;
    // The same bits in every run: costs some speed, and attention memory (cudnn_attention.h).
    bool deterministic = false;
    bool prefer_two_products = false;  // GemmEngine::Options.
    bool operator==(const Options&) const = default;
  };
  static Result<std::unique_ptr<Operators>> Create(const Options& options);

  Status Plan(const OpShape& shape);
  std::size_t WorkspaceBytes(const OpShape& shape) const;
  Status Tune(const KernelCall& call, const std::byte* residual = nullptr);
  Status Launch(const KernelCall& call, const std::byte* residual = nullptr);
  // Forgets the stream of the last launch, which may then be destroyed.
  void ForgetStream() { attention_.ForgetStream(); }
  // What of the planned shapes is slower than could be expected, and why: a sentence each.
  const std::vector<std::string>& notes() const { return attention_.notes(); }

 private:
  Operators(const Options& options, std::unique_ptr<GemmEngine> gemms)
      : attention_({.device = options.device, .deterministic = options.deterministic}),
        gemms_(std::move(gemms)) {}

  AttentionEngine attention_;
  std::unique_ptr<GemmEngine> gemms_;
};

// Operators that live on: to choose kernels by timing takes seconds a model, and their choice holds
// for a process.
//
//   OperatorCache cache;
//   Result<Operators*> operators = cache.Of({.device = 0});  // The same ones again next time.
class OperatorCache {
 public:
  // The current device is the options'.
  Result<Operators*> Of(const Operators::Options& options);
  // Those of all operators; what several say, once.
  std::vector<std::string> Notes() const;

 private:
  std::vector<std::pair<Operators::Options, std::unique_ptr<Operators>>> made_;
};

}  // namespace twinstep::cuda
