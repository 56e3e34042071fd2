#include "sim/search/rank_report.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "sim/cost/framework_costs.h"
#include "sim/cost/gpu_speeds.h"
#include "sim/engine/engine.h"
#include "sim/estimate/mfu.h"
#include "sim/lower/lower.h"
#include "sim/parallel.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

double Seconds(Picoseconds time) { return static_cast<double>(time) / kPicosecondsPerSecond; }

// Fills what is told of ranked plans alone. Not fused: a fused task of a backward would hide what
// of it is recomputation.
Status FillRankedRow(const SimulateInput& input, RankRow* row) {
  const ResolvedPlan& plan = row->plan;
  const Framework* framework = input.framework ? &*input.framework : nullptr;
  const Profile* profile = input.profile ? &*input.profile : nullptr;
  const Result<TaskGraph> graph =
      Lower(input.model, input.cluster, plan,
            {.fold = !RanksDiffer(profile, input.cluster, plan.gpus), .framework = framework});
  if (!graph.ok()) return graph.error();
  const Result<GraphCosts> costs =
      ComputeFrameworkCosts(graph.value(), input.model, input.cluster, profile, framework);
  if (!costs.ok()) return costs.error();
  const Result<Replay> replay = MakeFastEngine()->Run(graph.value(), costs.value());
  if (!replay.ok()) return replay.error();
  std::vector<std::uint32_t> class_size;
  for (const RankInfo& rank : graph.value().ranks) class_size.push_back(rank.class_size);
  row->breakdown = MeanSeconds(BreakDown(graph.value(), replay.value()), class_size);
  row->warnings = costs.value().warnings;
  return Unit{};
}

RankRow MakeRow(const SimulateInput& input, const RankedPlan& ranked) {
  RankRow row;
  row.plan = ranked.plan;
  row.fate = ranked.fate;
  row.bound_s = Seconds(ranked.estimate.bound_ps);
  row.expected_s = ranked.estimate.expected_s;
  row.closed_form = ranked.estimate.closed_form;
  if (ranked.iteration_ps) {
    row.iteration_s = Seconds(*ranked.iteration_ps);
    row.mfu = Mfu(input.model, row.plan.sequence_length,
                  row.TokensPerSecond() / static_cast<double>(row.plan.gpus),
                  PeakFlopsPerSecond(input.model.recipe(), input.cluster.gpu()));
  }
  if (ranked.memory) {
    row.peak_gpu_bytes = ranked.memory->peak_gpu_bytes;
    row.peak_host_bytes = ranked.memory->peak_host_bytes;
    row.peak_pinned_bytes = ranked.memory->peak_pinned_bytes;
  }
  if (ranked.infeasible) {
    row.rule = ranked.infeasible->rule;
    row.message = ranked.infeasible->message;
    row.excess_bytes = ranked.infeasible->excess_bytes;
  }
  return row;
}

// Seconds a sequence, which orders rows.
double CostOf(const RankRow& row) {
  return row.iteration_s.value_or(std::numeric_limits<double>::infinity()) /
         static_cast<double>(row.plan.global_batch);
}

void Count(const RankRow& row, RankPoint* point) {
  const auto add = [&row](Unreplayed* unreplayed) {
    ++unreplayed->plans;
    unreplayed->least_cost_s = std::min(unreplayed->least_cost_s,
                                        row.bound_s / static_cast<double>(row.plan.global_batch));
  };
  if (row.fate == Fate::kBounded) add(&point->bounded);
  if (row.fate == Fate::kLeftOut) add(&point->left_out);
  if (row.fate == Fate::kInfeasible) {
    point->infeasible[row.rule].Add(row.message, row.excess_bytes);
  }
}

void Add(const Unreplayed& part, Unreplayed* sum) {
  sum->plans += part.plans;
  sum->least_cost_s = std::min(sum->least_cost_s, part.least_cost_s);
}

// Each part has enumerated the whole space and searched its share.
void Add(const RankPoint& part, RankPoint* sum) {
  sum->plans += part.plans;
  sum->replays += part.replays;
  sum->time_was_over |= part.time_was_over;
  Add(part.bounded, &sum->bounded);
  Add(part.left_out, &sum->left_out);
  for (const auto& [rule, excluded] : part.infeasible) {
    sum->infeasible[rule].Add(excluded.example, excluded.example_bytes, excluded.plans);
  }
  sum->ranking.insert(sum->ranking.end(), part.ranking.begin(), part.ranking.end());
}

void Rank(std::size_t keep, RankPoint* point) {
  std::vector<RankRow>& ranking = point->ranking;
  std::stable_sort(ranking.begin(), ranking.end(),
                   [](const RankRow& a, const RankRow& b) { return CostOf(a) < CostOf(b); });
  if (ranking.size() > keep) ranking.resize(keep);
  if (ranking.empty()) return;
  const double best = CostOf(ranking.front());
  const double least = std::min({best, point->bounded.least_cost_s, point->left_out.least_cost_s});
  point->certified_gap = 1 - least / best;
}

}  // namespace

double RankRow::TokensPerSecond() const {
  if (!iteration_s || *iteration_s == 0) return 0;
  return static_cast<double>(plan.global_batch * plan.sequence_length) / *iteration_s;
}

bool Ranking::AnyFeasible() const {
  return std::any_of(points.begin(), points.end(),
                     [](const RankPoint& point) { return !point.ranking.empty(); });
}

Result<RankPoint> MakePoint(const SimulateInput& input, std::int64_t gpus, const PlanSpace& space,
                            const SearchResult& result, int threads, bool all) {
  RankPoint point;
  point.gpus = gpus;
  point.invalid = space.invalid;
  point.plans = static_cast<std::int64_t>(result.plans.size());
  point.replays = result.replays;
  point.certified_gap = result.certified_gap;
  point.time_was_over = result.time_was_over;
  for (const RankedPlan& plan : result.plans) {
    RankRow row = MakeRow(input, plan);
    Count(row, &point);
    if (all) point.all.push_back(std::move(row));
  }
  for (const std::size_t i : result.ranking) {
    point.ranking.push_back(MakeRow(input, result.plans[i]));
  }
  const auto fill = [&](std::size_t i) -> Status {
    return FillRankedRow(input, &point.ranking[i]);
  };
  const Status done = ForEachInParallel(point.ranking.size(), threads, fill);
  if (!done.ok()) return done.error();
  return point;
}

Result<Ranking> Merge(std::vector<Ranking> parts) {
  if (parts.empty()) return Error{.message = "no parts: give each with --part"};
  std::sort(parts.begin(), parts.end(),
            [](const Ranking& a, const Ranking& b) { return a.shard < b.shard; });
  Ranking merged = std::move(parts.front());
  const std::int64_t shards = merged.shards;
  std::set<std::int64_t> seen{merged.shard};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const Ranking& part = parts[i];
    if (part.fingerprint != merged.fingerprint || part.shards != shards ||
        part.points.size() != merged.points.size()) {
      return Error{.message =
                       StrCat("part ", part.shard, "/", part.shards,
                              " is of another search than part ", merged.shard, "/", shards)};
    }
    if (!seen.insert(part.shard).second) {
      return Error{.message = StrCat("part ", part.shard, "/", shards, " is given twice")};
    }
    for (std::size_t j = 0; j < part.points.size(); ++j) {
      Add(part.points[j], &merged.points[j]);
    }
  }
  for (std::int64_t shard = 1; shard <= shards; ++shard) {
    if (!seen.contains(shard)) {
      return Error{.message = StrCat("part ", shard, "/", shards, " is missing")};
    }
  }
  merged.shard = merged.shards = 1;
  for (RankPoint& point : merged.points) Rank(merged.keep, &point);
  return merged;
}

}  // namespace twinstep
