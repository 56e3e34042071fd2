#include "exec/cuda/attention.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "exec/cuda/cuda_error.h"
#include "exec/cuda/flash_attention.h"
#include "exec/cuda/gathered_keys.h"
#include "sim/str_cat.h"

namespace twinstep::cuda {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::int64_t kFp32 = sizeof(float);

std::size_t Aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Flags, and of a whole sequence the index, change nothing of which kernels compute the shape.
OpShape KeyOf(OpShape shape) {
  shape.flags = 0;
  if (shape.count == 1) shape.index = 0;
  return shape;
}

// Bytes of the parts of a call's scratch, in the order in which they lie; each aligned.
struct ScratchParts {
  // Where keys and values come in the gathered order: they by position (in the backward, what it
  // writes has room for them), and the gradients that each piece of queries gives them.
  std::size_t keys = 0;
  std::array<std::size_t, 2> key_gradients{};
  std::size_t row_sums = 0, accumulator = 0;
  std::size_t library = 0;

  std::size_t Total() const {
    return keys + key_gradients[0] + key_gradients[1] + row_sums + accumulator + library;
  }
};

ScratchParts PartsOf(const OpShape& shape, std::span<const CudnnPlan> plans, bool deterministic) {
  const std::vector<AttentionPiece> pieces = AttentionPieces(shape);
  const bool backward = shape.op == OpCode::kAttentionBackward;
  ScratchParts parts;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    parts.library =
        std::max(parts.library, Aligned(static_cast<std::size_t>(plans[i].workspace_bytes())));
    if (shape.count == 1) continue;
    const std::size_t bytes = Aligned(KeyPieceBytes(shape) *
                                      static_cast<std::size_t>(pieces[i].keys / pieces[i].queries));
    if (backward) {
      parts.key_gradients[i] = bytes;
    } else {
      parts.keys = std::max(parts.keys, bytes);
    }
  }
  if (!backward) return parts;
  const auto rows = static_cast<std::size_t>(shape.dims[0] * shape.dims[1] * shape.dims[3]);
  parts.row_sums = Aligned(rows * sizeof(float));
  if (!deterministic && (shape.flags & kHasWorkspace) == 0) {
    parts.accumulator = Aligned(rows * static_cast<std::size_t>(shape.dims[5]) * sizeof(float));
  }
  return parts;
}

// Addresses of what belongs to a piece's queries.
class OfPiece {
 public:
  OfPiece(const OpShape& shape, const AttentionPiece& piece)
      : begin_(piece.begin),
        b_(shape.dims[0]),
        heads_(shape.dims[1]),
        d_(shape.dims[5]),
        element_bytes_(DtypeBytes(shape.dtype)) {}

  // cuDNN's interface has no const; it does not write to inputs.
  std::byte* Features(const std::byte* x) const {
    return const_cast<std::byte*>(x) + begin_ * b_ * heads_ * d_ * element_bytes_;
  }
  // fp32, one a query and head.
  std::byte* Rows(const std::byte* x) const {
    return const_cast<std::byte*>(x) + begin_ * b_ * heads_ * kFp32;
  }
  std::byte* Accumulator(std::byte* x) const { return x + begin_ * b_ * heads_ * d_ * kFp32; }

 private:
  std::int64_t begin_, b_, heads_, d_, element_bytes_;
};

std::byte* Values(std::byte* kv, const OpShape& shape) {
  return kv + shape.dims[2] * shape.dims[5] * DtypeBytes(shape.dtype);
}

// Of both directions and of all context-parallel ranks the same.
std::string Described(const OpShape& shape) {
  return StrCat("attention of batch ", shape.dims[0], ", heads ", shape.dims[1], " / ",
                shape.dims[2], ", ", shape.dims[3], " queries, ", shape.dims[4],
                " keys, head size ", shape.dims[5], ", ", Name(shape.dtype));
}

}  // namespace

bool IsAttention(OpCode op) {
  return op == OpCode::kAttentionForward || op == OpCode::kAttentionBackward;
}

AttentionEngine::~AttentionEngine() {
  plans_.clear();
  if (handle_ != nullptr) cudnn_->Destroy(handle_);
}

Status AttentionEngine::LoadLibrary() {
  if (handle_ != nullptr) return Unit{};
  const Result<const Cudnn*> cudnn = LoadCudnn();
  if (!cudnn.ok()) return cudnn.error();
  cudnn_ = cudnn.value();
  const cudnnStatus_t made = cudnn_->Create(&handle_);
  if (made != CUDNN_STATUS_SUCCESS) return CudnnError(*cudnn_, made, "cudnnCreate");
  return Unit{};
}

Result<AttentionEngine::Plans> AttentionEngine::PlanPieces(const OpShape& shape) const {
  Plans plans;
  for (const AttentionPiece& piece : AttentionPieces(shape)) {
    Result<CudnnPlan> plan =
        shape.op == OpCode::kAttentionForward
            ? PlanAttentionForward(cudnn_, options_.device, shape, piece)
            : PlanAttentionBackward(cudnn_, options_.device, shape, piece, options_.deterministic);
    if (!plan.ok()) {
      return Error{
          .code = plan.error().code,
          .message = StrCat(Name(shape.op), " of batch ", shape.dims[0], ", heads ", shape.dims[1],
                            " / ", shape.dims[2], ", ", piece.queries, " queries, ", piece.keys,
                            " keys, head size ", shape.dims[5], ": ", plan.error().message),
          .rule = plan.error().rule};
    }
    plans.push_back(std::move(plan).value());
  }
  return plans;
}

Status AttentionEngine::Prepare(const OpShape& shape) {
  if (const char* missing = WhatCudnnMisses(shape); missing != nullptr) {
    NoteOwnKernels(shape, StrCat("need ", missing));
    return Unit{};
  }
  if (plans_.contains(KeyOf(shape))) return Unit{};
  if (const Status loaded = LoadLibrary(); !loaded.ok()) return loaded;
  std::array<OpShape, 2> directions{KeyOf(shape), KeyOf(shape)};
  directions[0].op = OpCode::kAttentionForward;
  directions[1].op = OpCode::kAttentionBackward;
  std::array<Plans, 2> planned;
  for (std::size_t i = 0; i < directions.size(); ++i) {
    Result<Plans> plans = PlanPieces(directions[i]);
    if (plans.ok()) {
      planned[i] = std::move(plans).value();
    } else if (shape.count == 1) {
      return plans.error();
    } else {
      // A cuDNN without kernels for pieces.
      NoteOwnKernels(shape, "cannot be had: " + plans.error().message);
      planned = {};
      break;
    }
  }
  for (std::size_t i = 0; i < directions.size(); ++i) {
    plans_.emplace(directions[i], std::move(planned[i]));
  }
  return Unit{};
}

void AttentionEngine::NoteOwnKernels(const OpShape& shape, const std::string& reason) {
  const std::string begin =
      Described(shape) + " is computed by own kernels, slower than cuDNN's, which ";
  const auto is_same = [&begin](const std::string& note) { return note.starts_with(begin); };
  if (std::ranges::none_of(notes_, is_same)) notes_.push_back(begin + reason);
}

bool AttentionEngine::UsesCudnn(const OpShape& shape) const {
  if (!CudnnAttends(shape)) return false;
  const auto found = plans_.find(KeyOf(shape));
  return found != plans_.end() && !found->second.empty();
}

std::size_t AttentionEngine::WorkspaceBytes(const OpShape& shape) const {
  if (!UsesCudnn(shape)) return FlashAttentionWorkspaceBytes(shape);
  return PartsOf(shape, plans_.at(KeyOf(shape)), options_.deterministic).Total();
}

Status AttentionEngine::LaunchForward(const KernelCall& call, const Plans& plans) {
  const OpShape& shape = call.shape;
  const ScratchParts parts = PartsOf(shape, plans, options_.deterministic);
  auto* kv = const_cast<std::byte*>(call.reads[1]);
  if (shape.count > 1) {
    kv = call.workspace;
    const Status ordered =
        CudaCall(OrderKeys(shape, call.reads[1], kv, call.stream), "keys by position");
    if (!ordered.ok()) return ordered;
  }
  const std::vector<AttentionPiece> pieces = AttentionPieces(shape);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const OfPiece of(shape, pieces[i]);
    const std::array<std::pair<std::int64_t, void*>, 5> pointers{
        {{AttentionUid::kQ, of.Features(call.reads[0])},
         {AttentionUid::kK, kv},
         {AttentionUid::kV, Values(kv, shape)},
         {AttentionUid::kO, of.Features(call.writes[0])},
         {AttentionUid::kStatistics, of.Rows(call.writes[1])}}};
    const Status done = plans[i].Execute(handle_, pointers, call.workspace + parts.keys);
    if (!done.ok()) return done;
  }
  return Unit{};
}

Status AttentionEngine::LaunchBackward(const KernelCall& call, const Plans& plans) {
  const OpShape& shape = call.shape;
  const ScratchParts parts = PartsOf(shape, plans, options_.deterministic);
  auto* kv = const_cast<std::byte*>(call.reads[2]);
  std::byte* workspace = call.workspace;
  std::array<std::byte*, 2> dkv{call.writes[1], nullptr};
  if (shape.count > 1) {
    kv = call.writes[1];
    dkv = {workspace, workspace + parts.key_gradients[0]};
    workspace += parts.key_gradients[0] + parts.key_gradients[1];
    const Status ordered =
        CudaCall(OrderKeys(shape, call.reads[2], kv, call.stream), "keys by position");
    if (!ordered.ok()) return ordered;
  }
  std::byte* const row_sums = workspace;
  std::byte* const accumulator =
      Has(call, kHasWorkspace) ? call.writes[2] : workspace + parts.row_sums;
  workspace += parts.row_sums + parts.accumulator;
  const std::vector<AttentionPiece> pieces = AttentionPieces(shape);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const OfPiece of(shape, pieces[i]);
    const std::array<std::pair<std::int64_t, void*>, 11> pointers{
        {{AttentionUid::kDo, of.Features(call.reads[0])},
         {AttentionUid::kQ, of.Features(call.reads[1])},
         {AttentionUid::kK, kv},
         {AttentionUid::kV, Values(kv, shape)},
         {AttentionUid::kO, of.Features(call.reads[3])},
         {AttentionUid::kStatistics, of.Rows(call.reads[4])},
         {AttentionUid::kDq, of.Features(call.writes[0])},
         {AttentionUid::kDk, dkv[i]},
         {AttentionUid::kDv, Values(dkv[i], shape)},
         {AttentionUid::kRowSums, of.Rows(row_sums)},
         {AttentionUid::kDqAccumulator, of.Accumulator(accumulator)}}};
    const std::span<const std::pair<std::int64_t, void*>> all(pointers);
    const Status done = plans[i].Execute(
        handle_, options_.deterministic ? all.first(all.size() - 1) : all, workspace);
    if (!done.ok()) return done;
  }
  if (shape.count == 1) return Unit{};
  return CudaCall(SumKeyGradients(shape, dkv[0], dkv[1], call.writes[1], call.stream),
                  "sum of key gradients");
}

Status AttentionEngine::Launch(const KernelCall& call) {
  const bool forward = call.shape.op == OpCode::kAttentionForward;
  if (!UsesCudnn(call.shape)) {
    return CudaCall(forward ? FlashAttentionForward(call) : FlashAttentionBackward(call),
                    Name(call.shape.op));
  }
  const cudnnStatus_t set = cudnn_->SetStream(handle_, call.stream);
  if (set != CUDNN_STATUS_SUCCESS) return CudnnError(*cudnn_, set, "cudnnSetStream");
  const Plans& plans = plans_.at(KeyOf(call.shape));
  return forward ? LaunchForward(call, plans) : LaunchBackward(call, plans);
}

void AttentionEngine::ForgetStream() {
  if (handle_ != nullptr) cudnn_->SetStream(handle_, nullptr);
}

}  // namespace twinstep::cuda
