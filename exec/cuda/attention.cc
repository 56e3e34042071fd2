#include "exec/cuda/attention.h"

#include <array>
#include <span>
#include <utility>

#include "exec/cuda/cuda_error.h"
#include "exec/cuda/flash_attention.h"
#include "sim/str_cat.h"

namespace twinstep::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t Aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t RowSumBytes(const OpShape& shape) {
  return Aligned(static_cast<std::size_t>(shape.dims[0] * shape.dims[1] * shape.dims[3]) *
                 sizeof(float));
}

std::size_t AccumulatorBytes(const OpShape& shape) {
  return Aligned(RowSumBytes(shape) * static_cast<std::size_t>(shape.dims[5]));
}

// Flags that change which kernels compute the shape.
OpShape KeyOf(OpShape shape) {
  shape.flags = 0;
  shape.index = 0;
  return shape;
}

std::byte* Values(std::byte* kv, const OpShape& shape) {
  return kv + shape.dims[2] * shape.dims[5] * DtypeBytes(shape.dtype);
}

// cuDNN's interface has no const; it does not write to inputs.
std::byte* Mutable(const std::byte* x) { return const_cast<std::byte*>(x); }

}  // namespace

bool IsAttention(OpCode op) {
  return op == OpCode::kAttentionForward || op == OpCode::kAttentionBackward;
}

AttentionEngine::~AttentionEngine() {
  plans_.clear();
  if (handle_ != nullptr) cudnn_->Destroy(handle_);
}

Status AttentionEngine::Prepare(const OpShape& shape) {
  if (!CudnnAttends(shape) || plans_.contains(KeyOf(shape))) return Unit{};
  if (handle_ == nullptr) {
    const Result<const Cudnn*> cudnn = LoadCudnn();
    if (!cudnn.ok()) return cudnn.error();
    cudnn_ = cudnn.value();
    const cudnnStatus_t made = cudnn_->Create(&handle_);
    if (made != CUDNN_STATUS_SUCCESS) return CudnnError(*cudnn_, made, "cudnnCreate");
  }
  Result<CudnnPlan> plan =
      shape.op == OpCode::kAttentionForward
          ? PlanAttentionForward(cudnn_, options_.device, shape)
          : PlanAttentionBackward(cudnn_, options_.device, shape, options_.deterministic);
  if (!plan.ok()) {
    return Error{
        .code = plan.error().code,
        .message = StrCat(Name(shape.op), " of batch ", shape.dims[0], ", heads ", shape.dims[1],
                          " / ", shape.dims[2], ", sequence ", shape.dims[3], ", head size ",
                          shape.dims[5], ": ", plan.error().message),
        .rule = plan.error().rule};
  }
  plans_.emplace(KeyOf(shape), std::move(plan).value());
  return Unit{};
}

const CudnnPlan* AttentionEngine::Find(const OpShape& shape) const {
  if (!CudnnAttends(shape)) return nullptr;
  const auto found = plans_.find(KeyOf(shape));
  return found == plans_.end() ? nullptr : &found->second;
}

std::size_t AttentionEngine::WorkspaceBytes(const OpShape& shape) const {
  const CudnnPlan* const plan = Find(shape);
  if (plan == nullptr) return FlashAttentionWorkspaceBytes(shape);
  const auto of_plan = static_cast<std::size_t>(plan->workspace_bytes());
  if (shape.op == OpCode::kAttentionForward) return of_plan;
  const bool own_accumulator = (shape.flags & kHasWorkspace) == 0 && !options_.deterministic;
  return of_plan + RowSumBytes(shape) + (own_accumulator ? AccumulatorBytes(shape) : 0);
}

Status AttentionEngine::LaunchForward(const KernelCall& call, const CudnnPlan& plan) {
  std::byte* const kv = Mutable(call.reads[1]);
  const std::array<std::pair<std::int64_t, void*>, 5> pointers{
      {{AttentionUid::kQ, Mutable(call.reads[0])},
       {AttentionUid::kK, kv},
       {AttentionUid::kV, Values(kv, call.shape)},
       {AttentionUid::kO, call.writes[0]},
       {AttentionUid::kStatistics, call.writes[1]}}};
  return plan.Execute(handle_, pointers, call.workspace);
}

Status AttentionEngine::LaunchBackward(const KernelCall& call, const CudnnPlan& plan) {
  std::byte* const kv = Mutable(call.reads[2]);
  std::byte* const dkv = call.writes[1];
  std::byte* workspace = call.workspace;
  std::byte* const row_sums = workspace;
  workspace += RowSumBytes(call.shape);
  std::byte* accumulator = nullptr;
  if (!options_.deterministic) {
    if (Has(call, kHasWorkspace)) {
      accumulator = call.writes[2];
    } else {
      accumulator = workspace;
      workspace += AccumulatorBytes(call.shape);
    }
  }
  const std::array<std::pair<std::int64_t, void*>, 11> pointers{
      {{AttentionUid::kDo, Mutable(call.reads[0])},
       {AttentionUid::kQ, Mutable(call.reads[1])},
       {AttentionUid::kK, kv},
       {AttentionUid::kV, Values(kv, call.shape)},
       {AttentionUid::kO, Mutable(call.reads[3])},
       {AttentionUid::kStatistics, Mutable(call.reads[4])},
       {AttentionUid::kDq, call.writes[0]},
       {AttentionUid::kDk, dkv},
       {AttentionUid::kDv, Values(dkv, call.shape)},
       {AttentionUid::kRowSums, row_sums},
       {AttentionUid::kDqAccumulator, accumulator}}};
  const std::span<const std::pair<std::int64_t, void*>> all(pointers);
  return plan.Execute(handle_, options_.deterministic ? all.first(all.size() - 1) : all, workspace);
}

Status AttentionEngine::Launch(const KernelCall& call) {
  const bool forward = call.shape.op == OpCode::kAttentionForward;
  const CudnnPlan* const plan = Find(call.shape);
  if (plan == nullptr) {
    return CudaCall(forward ? FlashAttentionForward(call) : FlashAttentionBackward(call),
                    Name(call.shape.op));
  }
  const cudnnStatus_t set = cudnn_->SetStream(handle_, call.stream);
  if (set != CUDNN_STATUS_SUCCESS) return CudnnError(*cudnn_, set, "cudnnSetStream");
  return forward ? LaunchForward(call, *plan) : LaunchBackward(call, *plan);
}

void AttentionEngine::ForgetStream() {
  if (handle_ != nullptr) cudnn_->SetStream(handle_, nullptr);
}

}  // namespace twinstep::cuda
