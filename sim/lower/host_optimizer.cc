#include "sim/lower/host_optimizer.h"

#include <algorithm>
#include <span>

#include "sim/lower/state_tasks.h"

namespace twinstep {
namespace {

TaskTags HostTags(std::uint16_t chunk) {
  return {.kind = TaskKind::kHost, .lane = Lane::kHost, .phase = Phase::kOptimizer, .chunk = chunk};
}

}  // namespace

void HostOptimizer::GradientsArrived(const HostShard& shard) {
  const bool clips = context_.model.recipe().clip_norm() > 0;
  if (clips) AddNorm(shard);
  if (clips || !context_.plan.chunks.host_optimizer_overlap) {
    waiting_.push_back(shard);
  } else {
    Update(shard, kNone, kNone);
  }
}

void HostOptimizer::AddNorm(const HostShard& shard) {
  const std::vector<ElementRange>& counted =
      context_.at.tp == 0 ? shard.chunk->counted_first : shard.chunk->counted_others;
  for (const auto& [begin, end] : counted) {
    const bool first = norm_ == kNone;
    if (first) {
      norm_ = writer_->AddBuffer(kNormAccumulatorBytes, Dtype::kFp64, Role::kTransient,
                                 Pool::kPinnedHost);
    }
    AddGradNorm(context_,
                {.gradient = {.buffer = shard.gradients},
                 .accumulator = norm_,
                 .elements = context_.chunks->elements,
                 .begin = begin,
                 .end = end,
                 .first = first},
                HostTags(shard.tag), writer_);
  }
}

void HostOptimizer::Update(const HostShard& shard, BufferId coefficient, TaskId after) {
  const std::int64_t elements = context_.chunks->elements / context_.shard_count();
  const std::int64_t begin = context_.shard_index() * elements;
  AddAdam(context_.shapes,
          {.gradient = {.buffer = shard.gradients},
           .parameter = {.buffer = shard.parameters},
           .master = shard.master,
           .moment1 = shard.moment1,
           .moment2 = shard.moment2,
           .clip_coefficient = coefficient,
           .elements = elements,
           .undecayed_elements =
               std::clamp<std::int64_t>(shard.chunk->undecayed_elements - begin, 0, elements)},
          HostTags(shard.tag), {&after, 1}, writer_);
}

void HostOptimizer::Finish(BufferId coefficient, TaskId last_compute) {
  const bool waits = !context_.plan.chunks.host_optimizer_overlap;
  for (const HostShard& shard : waiting_) {
    Update(shard, coefficient, waits ? last_compute : kNone);
  }
  waiting_.clear();
}

}  // namespace twinstep
