#include "sim/search/scaling.h"

#include <algorithm>

#include "sim/search/plan_search.h"

namespace twinstep {

Status AddDataParallelScaling(const RankProblem& problem, std::vector<RankPoint>* points) {
  const auto first = std::find_if(points->begin(), points->end(),
                                  [](const RankPoint& point) { return !point.ranking.empty(); });
  if (first == points->end()) return Unit{};
  const ResolvedPlan& base = first->ranking.front().plan;
  PlanAxes axes = problem.axes;
  axes.tensor = {base.t};
  axes.context = {base.c};
  axes.pipeline = {base.p};
  axes.virtual_stages = {base.v};
  axes.micro_batch = {base.b};
  axes.recompute = {base.recompute};
  axes.zero_stage = {base.zero_stage};
  axes.tensor_overlap = {base.tp_overlap};
  axes.data_overlap = {base.dp_overlap};
  axes.rank_order = {base.rank_order};
  PlanSearch search(problem.input, {.gap = problem.gap, .keep = 1, .threads = problem.threads});
  std::int64_t best_gpus = 0;
  double best_tokens_per_s = 0;
  for (RankPoint& point : *points) {
    if (point.gpus % (base.t * base.c * base.p) == 0) {
      const Result<PlanSpace> space = EnumeratePlans(problem.input, axes, point.gpus);
      if (!space.ok()) return space.error();
      const Result<SearchResult> found = search.Run(space.value(), nullptr);
      if (!found.ok()) return found.error();
      if (!found.value().ranking.empty()) {
        const RankedPlan& plan = found.value().plans[found.value().ranking.front()];
        const double tokens_per_s =
            static_cast<double>(plan.plan.global_batch * plan.plan.sequence_length) /
            (1e-12 * static_cast<double>(*plan.iteration_ps));
        if (tokens_per_s > best_tokens_per_s) {
          best_tokens_per_s = tokens_per_s;
          best_gpus = point.gpus;
        }
      }
    }
    point.data_parallel_gpus = best_gpus;
    point.data_parallel_tokens_per_s = best_tokens_per_s;
  }
  return Unit{};
}

}  // namespace twinstep
