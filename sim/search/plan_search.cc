#include "sim/search/plan_search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/format.h"
#include "sim/search/parallel.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

double PerSequence(double time, const ResolvedPlan& plan) {
  return time / static_cast<double>(plan.global_batch);
}

// The best feasible plans so far, best first.
class Best {
 public:
  explicit Best(std::size_t keep) : keep_(std::max<std::size_t>(keep, 1)) {}

  void Enter(double cost, std::size_t plan) {
    entries_.emplace_back(cost, plan);
    std::sort(entries_.begin(), entries_.end());
    if (entries_.size() > keep_) entries_.pop_back();
  }
  double first() const { return entries_.empty() ? kNone : entries_.front().first; }
  // What a plan must not exceed to be among them.
  double last() const { return entries_.size() < keep_ ? kNone : entries_.back().first; }
  const std::vector<std::pair<double, std::size_t>>& entries() const { return entries_; }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  std::size_t keep_;
  std::vector<std::pair<double, std::size_t>> entries_;
};

Picoseconds ToPicoseconds(double time) {
  return time < 0x1p62 ? static_cast<Picoseconds>(time) : std::numeric_limits<Picoseconds>::max();
}

}  // namespace

double RankedPlan::Cost() const {
  return replay ? PerSequence(static_cast<double>(replay->iteration_ps), plan)
                : std::numeric_limits<double>::infinity();
}

double RankedPlan::BoundCost() const {
  return PerSequence(static_cast<double>(estimate.bound_ps), plan);
}

Result<SearchResult> PlanSearch::Run(const PlanSpace& space, Progress* progress) {
  const auto begin = std::chrono::steady_clock::now();
  const auto time_is_over = [&] {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return options_.time_limit_s > 0 && elapsed.count() > options_.time_limit_s;
  };
  std::vector<ResolvedPlan> plans = space.plans;
  Result<std::vector<PlanEstimate>> estimates = estimator_.Estimate(&plans);
  if (!estimates.ok()) return estimates.error();

  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> expected(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    expected[i] = PerSequence(estimates.value()[i].closed_form.total_s(), plans[i]);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return expected[a] < expected[b]; });
  SearchResult result;
  for (const std::size_t i : order) {
    RankedPlan& plan = result.plans.emplace_back();
    plan.plan = std::move(plans[i]);
    plan.estimate = std::move(estimates.value()[i]);
    if (plan.estimate.infeasible) plan.fate = Fate::kInfeasible;
  }

  Best best(options_.keep);
  std::size_t next = 0;
  for (;;) {
    std::vector<std::size_t> batch;
    const double enough = best.first() * (1 - options_.gap);
    for (; next < result.plans.size() && batch.size() < kSearchBatch; ++next) {
      RankedPlan& plan = result.plans[next];
      if (plan.fate == Fate::kInfeasible) continue;
      if (plan.BoundCost() >= enough) {
        plan.fate = Fate::kBounded;
      } else {
        batch.push_back(next);
      }
    }
    if (batch.empty()) break;
    if (time_is_over()) {
      result.time_was_over = true;
      break;
    }
    if (progress != nullptr) {
      progress->Step(
          StrCat("replaying plan ", next, " of ", result.plans.size(),
                 best.entries().empty()
                     ? std::string()
                     : StrCat("; best ", ShortName(result.plans[best.entries()[0].second].plan))));
    }
    std::vector<std::optional<Result<PlanReplay>>> replays(batch.size());
    const double slowest = best.last();
    ForEach(options_.threads, batch.size(), [&](std::size_t i) {
      const ResolvedPlan& plan = result.plans[batch[i]].plan;
      const double limit = slowest * static_cast<double>(plan.global_batch);
      replays[i] = ReplayPlan(input_, plan, {.slowest_ps = ToPicoseconds(limit)});
    });
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!replays[i]->ok()) return replays[i]->error();
      RankedPlan& plan = result.plans[batch[i]];
      plan.replay = replays[i]->value();
      ++result.replays;
      if (plan.replay->infeasible) {
        plan.fate = Fate::kInfeasible;
      } else if (!plan.replay->memory_known) {
        plan.fate = Fate::kSlower;
      } else {
        plan.fate = Fate::kReplayed;
        best.Enter(plan.Cost(), batch[i]);
      }
    }
  }

  // What was not replayed is at least its bound.
  double least = best.first();
  for (const RankedPlan& plan : result.plans) {
    if (plan.fate == Fate::kBounded || plan.fate == Fate::kLeftOut) {
      least = std::min(least, plan.BoundCost());
    }
  }
  for (const auto& [cost, plan] : best.entries()) result.ranking.push_back(plan);
  if (!result.ranking.empty()) result.certified_gap = 1 - least / best.first();
  return result;
}

}  // namespace twinstep
