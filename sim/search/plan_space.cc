#include "sim/search/plan_space.h"

#include <algorithm>

#include "sim/format.h"
#include "sim/plan/plan_names.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

std::vector<std::int64_t> Divisors(std::int64_t n) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t i = 1; i <= n; ++i) {
    if (n % i == 0) divisors.push_back(i);
  }
  return divisors;
}

template <typename Value>
std::vector<Value> Or(const std::vector<Value>& axis, std::vector<Value> otherwise) {
  return axis.empty() ? std::move(otherwise) : axis;
}

bool HasChunks(const Plan& plan) {
  return plan.has_persistent_chunks() || plan.chunk_buffers() > 0 || plan.chunk_bytes() > 0 ||
         plan.swapped_blocks() > 0 || plan.checkpointed_blocks() > 0 || plan.blocks_size() > 0;
}

class Enumeration {
 public:
  Enumeration(const SimulateInput& input, const PlanAxes& axes, std::int64_t gpus)
      : input_(input), axes_(axes), gpus_(gpus), plan_(input.plan) {}

  Result<PlanSpace> Run() {
    if (HasChunks(plan_)) {
      return Error{.message =
                       "the plan has chunks or choices of blocks, which are no part of the "
                       "pipeline space"};
    }
    const std::vector<std::int64_t> sizes = Divisors(gpus_);
    for (const std::int64_t t : Or(axes_.tensor, sizes)) {
      for (const std::int64_t c : Or(axes_.context, sizes)) {
        for (const std::int64_t p : Or(axes_.pipeline, sizes)) {
          if (gpus_ % (t * c * p) != 0 && axes_.tensor.empty()) continue;
          plan_.set_tensor_parallel(t);
          plan_.set_context_parallel(c);
          plan_.set_pipeline_parallel(p);
          if (Status status = Stages(p); !status.ok()) return status.error();
        }
      }
    }
    return std::move(space_);
  }

 private:
  Status Stages(std::int64_t p) {
    const std::int64_t layers = input_.model.layers();
    if (layers % p != 0 && axes_.pipeline.empty()) return Unit{};
    const std::vector<std::int64_t> all =
        p == 1 ? std::vector<std::int64_t>{1} : Divisors(std::max<std::int64_t>(layers / p, 1));
    for (const std::int64_t v : Or(axes_.virtual_stages, all)) {
      plan_.set_virtual_stages(v);
      for (const std::int64_t b :
           Or(axes_.micro_batch, {std::max<std::int64_t>(input_.plan.micro_batch(), 1)})) {
        plan_.set_micro_batch(b);
        for (const std::int64_t batch :
             Or(axes_.global_batch, {std::int64_t{input_.plan.global_batch()}})) {
          plan_.set_global_batch(batch);
          if (Status status = Choices(); !status.ok()) return status;
        }
      }
    }
    return Unit{};
  }

  Status Choices() {
    for (const Recompute recompute : Or(axes_.recompute, {input_.plan.recompute()})) {
      plan_.set_recompute(recompute);
      for (const int zero :
           Or(axes_.zero_stage, {input_.plan.has_zero_stage() ? input_.plan.zero_stage() : 1})) {
        plan_.set_zero_stage(zero);
        for (const TensorParallelOverlap overlap :
             Or(axes_.tensor_overlap, {input_.plan.tensor_parallel_overlap()})) {
          plan_.set_tensor_parallel_overlap(overlap);
          for (const bool data_overlap :
               Or(axes_.data_overlap, {input_.plan.data_parallel_overlap()})) {
            plan_.set_data_parallel_overlap(data_overlap);
            for (const std::string& order : Or(axes_.rank_order, {input_.plan.rank_order()})) {
              plan_.set_rank_order(order);
              if (Status status = Add(); !status.ok()) return status;
            }
          }
        }
      }
    }
    return Unit{};
  }

  Status Add() {
    Result<ResolvedPlan> plan =
        ResolvePlan(input_.model, input_.cluster, plan_, gpus_, input_.rules);
    if (plan.ok()) {
      // What only says that a choice changes nothing is the same plan twice.
      if (!IsKnown(plan.value())) space_.plans.push_back(std::move(plan).value());
      return Unit{};
    }
    if (plan.error().code != ExitCode::kNo) return plan.error();
    space_.invalid[plan.error().rule].Add(plan.error().message, 0);
    return Unit{};
  }

  // Choices of one (t, c, p, v, b, B) stand next to each other.
  bool IsKnown(const ResolvedPlan& plan) const {
    const auto same_sizes = [&](const ResolvedPlan& x) {
      return x.t == plan.t && x.c == plan.c && x.p == plan.p && x.v == plan.v && x.b == plan.b &&
             x.global_batch == plan.global_batch;
    };
    const std::string text = ToPlan(plan).SerializeAsString();
    for (auto x = space_.plans.rbegin(); x != space_.plans.rend() && same_sizes(*x); ++x) {
      if (ToPlan(*x).SerializeAsString() == text) return true;
    }
    return false;
  }

  const SimulateInput& input_;
  const PlanAxes& axes_;
  const std::int64_t gpus_;
  Plan plan_;
  PlanSpace space_;
};

}  // namespace

void Excluded::Add(const std::string& message, std::int64_t bytes, std::int64_t count) {
  if (plans == 0 || bytes < example_bytes) {
    example = message;
    example_bytes = bytes;
  }
  plans += count;
}

Result<PlanSpace> EnumeratePlans(const SimulateInput& input, const PlanAxes& axes,
                                 std::int64_t gpus) {
  return Enumeration(input, axes, gpus).Run();
}

Plan ToPlan(const ResolvedPlan& plan) {
  Plan out;
  out.set_tensor_parallel(plan.t);
  out.set_context_parallel(plan.c);
  out.set_pipeline_parallel(plan.p);
  out.set_data_parallel(plan.d);
  out.set_rank_order(plan.rank_order);
  out.set_schedule(plan.schedule);
  out.set_virtual_stages(plan.v);
  out.set_layers_per_stage(plan.l);
  out.set_micro_batch(plan.b);
  out.set_global_batch(plan.global_batch);
  out.set_sequence_length(plan.sequence_length);
  out.set_sequence_parallel(plan.sequence_parallel);
  out.set_tensor_parallel_overlap(plan.tp_overlap);
  out.set_data_parallel_overlap(plan.dp_overlap);
  out.set_zero_stage(plan.zero_stage);
  out.set_recompute(plan.recompute);
  for (const std::string& tensor : plan.stored_tensors) out.add_stored_tensors(tensor);
  out.set_attention(plan.attention);
  out.set_offload_ratio(plan.offload_ratio);
  if (plan.chunks.enabled) {
    out.set_persistent_chunks(plan.chunks.persistent);
    out.set_chunk_buffers(plan.chunks.buffers);
    out.set_chunk_bytes(plan.chunks.chunk_bytes);
    out.set_host_optimizer_overlap(plan.chunks.host_optimizer_overlap);
  }
  for (const BlockActivations choice : plan.blocks) out.add_blocks(choice);
  return out;
}

std::int64_t CountBlocks(const ResolvedPlan& plan, BlockActivations choice) {
  return std::count(plan.blocks.begin(), plan.blocks.end(), choice);
}

std::string ShortName(const ResolvedPlan& plan) {
  if (plan.chunks.enabled) {
    return StrCat("chunks: persist ", plan.chunks.persistent, " buffers ", plan.chunks.buffers,
                  ", swap ", CountBlocks(plan, BLOCK_SWAP), " checkpoint ",
                  CountBlocks(plan, BLOCK_CHECKPOINT), ", d ", plan.d, ", m ", plan.m, " x ",
                  plan.b);
  }
  return StrCat("t ", plan.t, " c ", plan.c, " p ", plan.p, " d ", plan.d, ", v ", plan.v, " l ",
                plan.l, ", m ", plan.m, " x ", plan.b, ", ", WordFor(plan.recompute), ", offload ",
                Fixed(plan.offload_ratio, 3));
}

}  // namespace twinstep
