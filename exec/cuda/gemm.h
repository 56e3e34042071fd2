// The graph's matrix products by cuBLASLt: bf16, fp16, fp32 or fp64, sums in fp32 or fp64 (never
// TF32), bias in the epilogue, gradients accumulated in place.
//
//   Result<std::unique_ptr<GemmEngine>> engine = GemmEngine::Create({.deterministic = false});
//   engine.value()->Prepare(call);  // Once a shape: overwrites operands.
//   engine.value()->Launch(call);
//   engine.value()->Launch(call, residual);  // y = x W^T + residual, rounded once.
//
// Prepare times the best algorithms of cuBLASLt's heuristics on the operands' memory, and the first
// of them again, in turns: runs differ by up to 15 %. Weight gradients whose last round of tiles
// would leave many multiprocessors idle are also tried as two products, one of whole rounds and the
// rest, whose sums can be split among the multiprocessors. Deterministic engines take the
// heuristics' first, so that the same shape gives the same bits in every process.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "exec/cuda/kernels/kernel_call.h"
#include "exec/cuda/libraries.h"
#include "sim/graph/op.h"
#include "sim/result.h"

namespace twinstep::cuda {

// What cuBLASLt may use, in front of what bias gradients need. Five times as much, which would let
// it split weight gradients along the tokens, made none faster.
inline constexpr std::size_t kGemmWorkspaceBytes = std::size_t{32} << 20;

bool IsGemm(OpCode op);
// Workspace of KernelCall.
std::size_t GemmWorkspaceBytes(const OpShape& shape);

class GemmEngine {
 public:
  struct Options {
    bool deterministic = false;
    // Two products wherever they could be faster, even if they are not.
    bool prefer_two_products = false;
  };
  static Result<std::unique_ptr<GemmEngine>> Create(const Options& options);
  GemmEngine(const GemmEngine&) = delete;
  GemmEngine& operator=(const GemmEngine&) = delete;
  ~GemmEngine();

  // Chooses how to compute calls of this shape whose operands are aligned as these are. The call's
  // reads are filled with random numbers and its writes are overwritten if candidates are timed.
  // `residual`, of products without bias alone: as many numbers as the product, of its type, added
  // to it; may be the product's own memory.
  Status Prepare(const KernelCall& call, const std::byte* residual = nullptr);
  // Of a shape and alignment that was prepared, with a residual if with one.
  Status Launch(const KernelCall& call, const std::byte* residual = nullptr) const;

 private:
  struct Part;
  struct Plan;
  struct Key {
    OpShape shape;
    Dtype gradient_dtype;
    std::size_t alignment;
    bool adds;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };

  GemmEngine(const CublasLt* blas, const Options& options);

  Key KeyOf(const KernelCall& call, const std::byte* residual) const;
  Status Check(cublasStatus_t code, const char* what) const;
  Status Describe(const KernelCall& call, std::size_t alignment, Plan* plan) const;
  // Columns [begin, end) of the product, without an algorithm.
  Result<Part> DescribePart(const KernelCall& call, std::int64_t begin, std::int64_t end) const;
  // Columns of the first of two products; 0 where one is as good.
  Result<std::int64_t> ColumnsOfWholeRounds(const KernelCall& call) const;
  Status ChooseParts(const KernelCall& call, const std::byte* residual, std::size_t alignment,
                     Plan* plan) const;
  Status Choose(const KernelCall& call, const std::byte* residual, std::size_t alignment,
                const Plan& plan, Part* part) const;
  Status Multiply(const KernelCall& call, const std::byte* residual, const Plan& plan,
                  std::span<const Part> parts) const;
  // Seconds of one of so many launches.
  Result<double> Time(const KernelCall& call, const std::byte* residual, const Plan& plan,
                      std::span<const Part> parts, int repeats) const;

  const CublasLt* blas_;
  Options options_;
  cublasLtHandle_t handle_ = nullptr;
  std::unordered_map<Key, std::unique_ptr<Plan>, KeyHash> plans_;
};

}  // namespace twinstep::cuda
