// Mechanics of building a BlockTemplate: recording operations, the recompute closure, and the
// tensor-parallel linear layers with their collectives.
#pragma once

#include <functional>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "sim/lower/block_template.h"

namespace twinstep {

class TemplateBuilder {
 public:
  explicit TemplateBuilder(const TemplateContext& context);

  TensorId NewTensor(std::string_view name, std::int64_t elements, Dtype dtype);
  TensorId NewTensor(std::string_view name, std::int64_t elements);
  TensorId Parameter(TensorKind kind) const { return ParameterId(kind); }

  using Operands = std::vector<TemplateOperand>;
  // Appends to the forward list, after BeginBackward to the backward list. Where the shape carries
  // kAccumulateGradient, the last `accumulate_reads` reads are the gradients added to.
  void Compute(OpShape shape, Operands reads, Operands writes, int accumulate_reads = 0);
  void Collective(OpCode op, std::int64_t bytes, Placement::GroupKind group, Lane lane,
                  Operands reads, Operands writes);

  // From here on operations are the backward's. `keep` says by name which tensors are stored.
  void BeginBackward(std::function<bool(std::string_view)> keep);
  // A forward tensor in the backward: stored, or rebuilt now.
  TensorId Need(TensorId tensor);
  // Reruns every forward operation now.
  void RebuildAll();

  // y[n, out] = x W^T (+ b) with W's rows split over tensor parallel; x is a sequence shard where
  // the plan has sequence parallelism.
  void ColumnForward(TensorId x, TensorKind weight, TensorKind bias, bool has_bias, TensorId y,
                     std::int64_t out, std::int64_t in);
  // dx (shard) = dy W; W's gradient from x.
  void ColumnBackward(TensorId dy, TensorId x, TensorKind weight, TensorKind bias, bool has_bias,
                      TensorId dx, std::int64_t out, std::int64_t in);
  // y (shard) = x W^T summed over tensor parallel, W's columns split. No bias: it is added after
  // the sum.
  void RowForward(TensorId x, TensorKind weight, TensorId y, std::int64_t out, std::int64_t in);
  void RowBackward(TensorId dy, TensorId x, TensorKind weight, TensorKind bias, bool has_bias,
                   TensorId dx, std::int64_t out, std::int64_t in);
  // Sums a partial [n, h] over tensor parallel into `sum` ([n / t, h] with sequence parallelism;
  // else it must be `partial` itself), once what is in `after` is written too.
  void ReducePartial(TensorId partial, TensorId sum, const Operands& after = {});
  // Full-length [n, width] copy of a sequence shard; the tensor itself without sequence
  // parallelism.
  TensorId GatherSequence(TensorId shard, std::int64_t width);

  const LocalShapes& shapes() const { return context_.shapes; }
  const ResolvedPlan& plan() const { return context_.plan; }
  const TemplateContext& context() const { return context_; }
  OpShape Shape(OpCode op, std::initializer_list<std::int64_t> dims, unsigned flags = 0) const;
  // Tensor-parallel collectives exist, and work on sequence shards.
  bool tensor_parallel() const { return context_.plan.t > 1; }
  bool sequence_parallel() const { return context_.plan.sequence_parallel && tensor_parallel(); }
  std::int64_t Bytes(std::int64_t elements) const {
    return elements * DtypeBytes(context_.shapes.dtype);
  }

  BlockTemplate& result() { return result_; }
  BlockTemplate Finish() { return std::move(result_); }

 private:
  // TP_OVERLAP_CHUNKED's rings, piece i being the rows of tensor-parallel rank i. Gather: `use` is
  // called with each owner and its piece, own first; one piece is used while the next travels.
  // Reduce: `make` computes this rank's share of each owner's piece; sums travel the ring and gain
  // each rank's share, and the last stop is the owner.
  void RingGather(TensorId shard, std::int64_t width,
                  const std::function<void(std::int64_t owner, TensorId piece)>& use);
  void RingReduce(TensorId sum, std::int64_t width,
                  const std::function<void(std::int64_t owner, TensorId share)>& make);
  bool Chunked() const;
  void Push(TemplateOp op, const Operands& reads, const Operands& writes);
  void Rerun(std::size_t forward_op);
  bool Keeps(TensorId tensor) const;
  void Gemm(OpCode op, std::int64_t rows, std::int64_t out, std::int64_t in, Operands reads,
            Operands writes, unsigned flags = 0);

  TemplateContext context_;
  BlockTemplate result_;
  bool backward_ = false;
  Phase phase_ = Phase::kForward;
  std::function<bool(std::string_view)> keep_;
  std::vector<std::vector<std::size_t>> producers_;  // By tensor: forward operations that write it.
  std::vector<TensorId> alias_;                      // Rebuilt copy; kNoTensor = none.
  std::vector<bool> stored_, rerun_;
};

}  // namespace twinstep
