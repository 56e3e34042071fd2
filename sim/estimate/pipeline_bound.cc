#include "sim/estimate/pipeline_bound.h"

#include <algorithm>
#include <vector>

#include "sim/lower/schedule.h"

namespace twinstep {
namespace {

// Passes of one rank through one of its stages.
class StagePasses {
 public:
  StagePasses(const ResolvedPlan& plan, const RankParts& times, std::int64_t rank)
      : plan_(plan), times_(times), rank_(rank) {}

  // `chunk`: which of the rank's stages.
  Picoseconds Forward(std::int64_t chunk) const {
    const Picoseconds first = IsFirst(chunk) ? times_.embedding_forward_ps : 0;
    const Picoseconds last = IsLast(chunk) ? times_.head_forward_ps : 0;
    return first + times_.forward_ps + (plan_.l - 1) * times_.next_forward_ps + last;
  }
  Picoseconds Backward(std::int64_t chunk, bool first_micro_batch) const {
    const auto of = [first_micro_batch](Picoseconds first, Picoseconds later) {
      return first_micro_batch ? first : later;
    };
    const Picoseconds head =
        IsLast(chunk) ? of(times_.first_head_backward_ps, times_.head_backward_ps) : 0;
    const Picoseconds embedding =
        IsFirst(chunk) ? of(times_.first_embedding_backward_ps, times_.embedding_backward_ps) : 0;
    return head + of(times_.first_backward_ps, times_.backward_ps) +
           (plan_.l - 1) * of(times_.first_next_backward_ps, times_.next_backward_ps) + embedding;
  }
  // From the arrival of a message to the end of the stage's layers.
  Picoseconds ReceivedForward() const {
    return times_.received_forward_ps + (plan_.l - 1) * times_.next_forward_ps;
  }
  Picoseconds ReceivedBackward(std::int64_t chunk) const {
    const Picoseconds embedding =
        std::min(times_.first_embedding_backward_ps, times_.embedding_backward_ps);
    return times_.received_backward_ps +
           (plan_.l - 1) * std::min(times_.first_next_backward_ps, times_.next_backward_ps) +
           (IsFirst(chunk) ? embedding : 0);
  }
  // A pass without embedding and head.
  Picoseconds LayersForward() const {
    return times_.forward_ps + (plan_.l - 1) * times_.next_forward_ps;
  }
  Picoseconds LayersBackward() const {
    return std::min(times_.first_backward_ps, times_.backward_ps) +
           (plan_.l - 1) * std::min(times_.first_next_backward_ps, times_.next_backward_ps);
  }
  // All passes of the iteration.
  Picoseconds All() const {
    Picoseconds sum = 0;
    for (std::int64_t chunk = 0; chunk < plan_.v; ++chunk) {
      sum +=
          plan_.m * Forward(chunk) + Backward(chunk, true) + (plan_.m - 1) * Backward(chunk, false);
    }
    return sum;
  }

 private:
  bool IsFirst(std::int64_t chunk) const { return chunk == 0 && rank_ == 0; }
  bool IsLast(std::int64_t chunk) const { return chunk == plan_.v - 1 && rank_ == plan_.p - 1; }

  const ResolvedPlan& plan_;
  const RankParts& times_;
  const std::int64_t rank_;
};

// The path of equations 12-14: raises `end` of the ranks that the last gradients pass.
void FollowAllStages(const ResolvedPlan& plan, const std::vector<RankParts>& ranks,
                     Picoseconds gathered, std::vector<Picoseconds>* end) {
  const std::int64_t stages = plan.v * plan.p;
  const auto rank_of = [&](std::int64_t stage) { return static_cast<std::size_t>(stage % plan.p); };
  const auto passes_of = [&](std::int64_t stage) {
    return StagePasses(plan, ranks[rank_of(stage)], stage % plan.p);
  };
  const RankParts& last_rank = ranks.back();
  const std::int64_t warmup = WarmupForwards(plan.schedule, plan.p, plan.v, plan.m, plan.p - 1);
  // Forwards of the last rank behind its first backward.
  const std::int64_t forwards = plan.m * plan.v - warmup - 1;
  if (plan.p < 2 || forwards < 1) return;

  Picoseconds time = gathered + passes_of(0).Forward(0);
  for (std::int64_t stage = 1; stage < stages; ++stage) {
    time += ranks[rank_of(stage - 1)].send_forward_ps + passes_of(stage).ReceivedForward();
  }
  time += last_rank.head_forward_ps;
  // On the last rank, from its first backward to its last: one more backward than forwards, all
  // heads but the first forward's among them.
  const StagePasses last = passes_of(stages - 1);
  const Picoseconds head_backward =
      std::min(last_rank.first_head_backward_ps, last_rank.head_backward_ps);
  time += forwards * last.LayersForward() + (forwards + 1) * last.LayersBackward() +
          (plan.m - 1) * last_rank.head_forward_ps + plan.m * head_backward;
  for (std::int64_t stage = stages - 2; stage >= 0; --stage) {
    const std::size_t rank = rank_of(stage);
    time += ranks[rank_of(stage + 1)].send_backward_ps +
            passes_of(stage).ReceivedBackward(stage / plan.p);
    if (stage < plan.p) (*end)[rank] = std::max((*end)[rank], time);
  }
}

// Rates are rounded to integers: a task may end some picoseconds early.
Picoseconds WithSlack(Picoseconds time) { return time - time / 1'000'000'000 - 1000; }

}  // namespace

Picoseconds PipelineBound(const Model& model, const ResolvedPlan& plan, const PlanParts& parts) {
  const std::vector<RankParts>& ranks = parts.ranks;
  const std::int64_t layers = plan.v * plan.l;
  const bool waits_for_gathers = (plan.zero_stage == 1 || plan.zero_stage == 2) && !plan.dp_overlap;
  const bool reduces_at_end = plan.zero_stage <= 1 && !plan.dp_overlap;
  const auto states = [layers](Picoseconds of_layer, Picoseconds others) {
    return layers * of_layer + others;
  };

  // End of each rank's first pass, then of its last one.
  std::vector<Picoseconds> end(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const StagePasses passes(plan, ranks[r], static_cast<std::int64_t>(r));
    const Picoseconds gathered =
        waits_for_gathers ? states(ranks[r].layer_gather_ps, ranks[r].other_gather_ps) : 0;
    end[r] = gathered + passes.Forward(0);
    if (r > 0) {
      end[r] =
          std::max(end[r], end[r - 1] + ranks[r - 1].send_forward_ps + passes.ReceivedForward());
    }
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const StagePasses passes(plan, ranks[r], static_cast<std::int64_t>(r));
    end[r] += passes.All() - passes.Forward(0);
  }
  for (std::size_t r = ranks.size() - 1; r-- > 0;) {
    const StagePasses passes(plan, ranks[r], static_cast<std::int64_t>(r));
    end[r] =
        std::max(end[r], end[r + 1] + ranks[r + 1].send_backward_ps + passes.ReceivedBackward(0));
  }

  FollowAllStages(
      plan, ranks,
      waits_for_gathers ? states(ranks.front().layer_gather_ps, ranks.front().other_gather_ps) : 0,
      &end);

  // With clipping no update begins before the last rank's gradients are summed.
  const bool clips = model.recipe().clip_norm() > 0;
  Picoseconds reduced = 0, updated = 0, longest_update = 0, clip = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Picoseconds reduce =
        reduces_at_end ? states(ranks[r].layer_reduce_ps, ranks[r].other_reduce_ps) : 0;
    const Picoseconds update = states(ranks[r].layer_adam_ps, ranks[r].other_adam_ps);
    reduced = std::max(reduced, end[r] + reduce);
    updated = std::max(updated, end[r] + update);  // Some chunks' updates may overlap reductions.
    longest_update = std::max(longest_update, update);
    clip = std::max(clip, ranks[r].clip_ps);
  }
  return WithSlack(clips && plan.gpus > 1 ? reduced + clip + longest_update
                                          : std::max(reduced, updated));
}

}  // namespace twinstep
