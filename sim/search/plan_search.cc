#include "sim/search/plan_search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/format.h"
#include "sim/parallel.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

double PerSequence(double time, const ResolvedPlan& plan) {
  return time / static_cast<double>(plan.global_batch);
}

class Search {
 public:
  Search(const SimulateInput& input, const SearchOptions& options, Progress* progress)
      : input_(input), options_(options), progress_(progress) {}

  Result<SearchResult> Run(std::vector<ResolvedPlan> plans, std::vector<PlanEstimate> estimates) {
    Order(std::move(plans), std::move(estimates));
    for (;;) {
      const std::vector<std::size_t> batch = NextBatch();
      if (batch.empty()) break;
      if (IsTimeOver()) {
        result_.time_was_over = true;
        break;
      }
      Tell(batch.front());
      if (const Status status = Replay(batch); !status.ok()) return status.error();
      if (const Status status = FindBest(1); !status.ok()) return status.error();
    }
    if (const Status status = FindBest(std::max<std::size_t>(options_.keep, 1)); !status.ok()) {
      return status.error();
    }
    Certify();
    return std::move(result_);
  }

 private:
  void Order(std::vector<ResolvedPlan> plans, std::vector<PlanEstimate> estimates) {
    std::vector<std::size_t> order(plans.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<double> expected(plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      expected[i] = estimates[i].infeasible ? std::numeric_limits<double>::infinity()
                                            : PerSequence(estimates[i].expected_s, plans[i]);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return expected[a] < expected[b]; });
    result_.plans.reserve(plans.size());
    for (const std::size_t i : order) {
      RankedPlan& plan = result_.plans.emplace_back();
      plan.plan = std::move(plans[i]);
      plan.estimate = std::move(estimates[i]);
      if (plan.estimate.infeasible) Reject(*plan.estimate.infeasible, &plan);
    }
  }

  static void Reject(const Error& why, RankedPlan* plan) {
    plan->fate = Fate::kInfeasible;
    plan->infeasible = why;
  }

  // The next plans whose bound is better than the best plan, by more than the gap.
  std::vector<std::size_t> NextBatch() {
    const double enough = BestCost() * (1 - options_.gap);
    const std::size_t most = batch_size_ = std::min(2 * batch_size_, kSearchBatch);
    std::vector<std::size_t> batch;
    for (; next_ < result_.plans.size() && batch.size() < most; ++next_) {
      RankedPlan& plan = result_.plans[next_];
      if (plan.fate == Fate::kInfeasible) continue;
      if (plan.BoundCost() >= enough) {
        plan.fate = Fate::kBounded;
      } else {
        batch.push_back(next_);
      }
    }
    return batch;
  }

  Status Replay(const std::vector<std::size_t>& batch) {
    std::vector<PlanTime> times(batch.size());
    const auto replay = [&](std::size_t i) -> Status {
      Result<PlanTime> time = TimePlan(input_, result_.plans[batch[i]].plan);
      if (!time.ok()) return time.error();
      times[i] = std::move(time).value();
      return Unit{};
    };
    const Status replayed = ForEachInParallel(batch.size(), options_.threads, replay);
    if (!replayed.ok()) return replayed;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const PlanTime& time = times[i];
      RankedPlan& plan = result_.plans[batch[i]];
      ++result_.replays;
      if (time.infeasible) {
        Reject(*time.infeasible, &plan);
        continue;
      }
      plan.iteration_ps = time.iteration_ps;
      plan.fate = Fate::kSlower;
      const auto faster = [this](std::size_t a, std::size_t b) {
        return result_.plans[a].Cost() < result_.plans[b].Cost();
      };
      const auto place = std::upper_bound(replayed_.begin(), replayed_.end(), batch[i], faster);
      replayed_.insert(place, batch[i]);
    }
    return Unit{};
  }

  // Looks at the memory of the fastest plans until so many are known to fit: the ranking.
  Status FindBest(std::size_t count) {
    for (;;) {
      result_.ranking.clear();
      std::vector<std::size_t> unknown;
      for (const std::size_t i : replayed_) {
        if (result_.ranking.size() == count || unknown.size() == kMemoryBatch) break;
        const Fate fate = result_.plans[i].fate;
        if (fate == Fate::kReplayed) {
          result_.ranking.push_back(i);
        } else if (fate == Fate::kSlower) {
          unknown.push_back(i);
        }
      }
      if (unknown.empty()) return Unit{};
      const auto place = [&](std::size_t i) -> Status {
        Result<PlanMemory> memory = PlacePlan(input_, result_.plans[unknown[i]].plan);
        if (!memory.ok()) return memory.error();
        result_.plans[unknown[i]].memory = std::move(memory).value();
        return Unit{};
      };
      const Status placed = ForEachInParallel(unknown.size(), options_.threads, place);
      if (!placed.ok()) return placed;
      for (std::size_t i = 0; i < unknown.size(); ++i) {
        RankedPlan& plan = result_.plans[unknown[i]];
        plan.fate = Fate::kReplayed;
        if (plan.memory->infeasible) Reject(*plan.memory->infeasible, &plan);
      }
    }
  }

  double BestCost() const {
    return result_.ranking.empty() ? std::numeric_limits<double>::infinity()
                                   : result_.plans[result_.ranking.front()].Cost();
  }

  // What was not replayed takes at least its bound.
  void Certify() {
    if (result_.ranking.empty()) return;
    double least = BestCost();
    for (const RankedPlan& plan : result_.plans) {
      if (plan.fate == Fate::kBounded || plan.fate == Fate::kLeftOut) {
        least = std::min(least, plan.BoundCost());
      }
    }
    result_.certified_gap = 1 - least / BestCost();
  }

  bool IsTimeOver() const {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
    return options_.time_limit_s > 0 && elapsed.count() > options_.time_limit_s;
  }

  // Of the plans before `done` is known whether they are better.
  void Tell(std::size_t done) {
    if (progress_ == nullptr) return;
    std::string text =
        StrCat(CountOf(result_.replays, "plan"), " of ", result_.plans.size(), " replayed");
    if (!result_.ranking.empty()) {
      const RankedPlan& best = result_.plans[result_.ranking.front()];
      text += StrCat(", best ", Seconds(1e-12 * static_cast<double>(*best.iteration_ps)));
    }
    progress_->StepTo(
        options_.progress_base + options_.progress_steps * done / result_.plans.size(), text);
  }

  const SimulateInput& input_;
  const SearchOptions& options_;
  Progress* progress_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  SearchResult result_;
  std::vector<std::size_t> replayed_;  // Feasible as far as is known, fastest first.
  std::size_t next_ = 0;
  std::size_t batch_size_ = 1;
};

}  // namespace

double RankedPlan::Cost() const {
  return iteration_ps ? PerSequence(static_cast<double>(*iteration_ps), plan)
                      : std::numeric_limits<double>::infinity();
}

double RankedPlan::BoundCost() const {
  return PerSequence(static_cast<double>(estimate.bound_ps), plan);
}

Result<SearchResult> PlanSearch::Run(const PlanSpace& space, Progress* progress) {
  std::vector<ResolvedPlan> plans = space.plans;
  Result<std::vector<PlanEstimate>> estimates = estimator_.Estimate(&plans);
  if (!estimates.ok()) return estimates.error();
  return Run(std::move(plans), std::move(estimates).value(), progress);
}

Result<SearchResult> PlanSearch::Run(std::vector<ResolvedPlan> plans,
                                     std::vector<PlanEstimate> estimates, Progress* progress) {
  return Search(input_, options_, progress).Run(std::move(plans), std::move(estimates));
}

}  // namespace twinstep
