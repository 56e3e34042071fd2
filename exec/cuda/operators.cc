#include "exec/cuda/operators.h"

#include <algorithm>
#include <utility>

#include "exec/cuda/cuda_error.h"
#include "exec/cuda/kernels/kernels.h"

namespace twinstep::cuda {

Result<std::unique_ptr<Operators>> Operators::Create(const Options& options) {
  Result<std::unique_ptr<GemmEngine>> gemms = GemmEngine::Create(
      {.deterministic = options.deterministic, .prefer_two_products = options.prefer_two_products});
  if (!gemms.ok()) return gemms.error();
  return std::unique_ptr<Operators>(new Operators(options, std::move(gemms).value()));
}

Status Operators::Plan(const OpShape& shape) {
  return IsAttention(shape.op) ? attention_.Prepare(shape) : Status(Unit{});
}

std::size_t Operators::WorkspaceBytes(const OpShape& shape) const {
  if (IsGemm(shape.op)) return GemmWorkspaceBytes(shape);
  if (IsAttention(shape.op)) return attention_.WorkspaceBytes(shape);
  return IsKernel(shape.op) ? cuda::WorkspaceBytes(shape) : 0;
}

Status Operators::Tune(const KernelCall& call, const std::byte* residual) {
  return IsGemm(call.shape.op) ? gemms_->Prepare(call, residual) : Status(Unit{});
}

Status Operators::Launch(const KernelCall& call, const std::byte* residual) {
  if (IsGemm(call.shape.op)) return gemms_->Launch(call, residual);
  if (IsAttention(call.shape.op)) return attention_.Launch(call);
  return CudaCall(LaunchKernel(call), Name(call.shape.op));
}

Result<Operators*> OperatorCache::Of(const Operators::Options& options) {
  for (const auto& [of, operators] : made_) {
    if (of == options) return operators.get();
  }
  Result<std::unique_ptr<Operators>> made = Operators::Create(options);
  if (!made.ok()) return made.error();
  made_.emplace_back(options, std::move(made).value());
  return made_.back().second.get();
}

std::vector<std::string> OperatorCache::Notes() const {
  std::vector<std::string> notes;
  for (const auto& [of, operators] : made_) {
    for (const std::string& note : operators->notes()) {
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
    }
  }
  return notes;
}

}  // namespace twinstep::cuda
