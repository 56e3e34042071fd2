#include "sim/search/candidates.h"

#include <utility>

#include "sim/search/chunk_space.h"

namespace twinstep {

Result<Candidates> FindCandidates(const RankProblem& problem, std::int64_t gpus,
                                  PlanEstimator* estimator) {
  Candidates all;
  if (problem.pipelines) {
    Result<PlanSpace> space = EnumeratePlans(problem.input, problem.axes, gpus);
    if (!space.ok()) return space.error();
    all.space = std::move(space).value();
    Result<std::vector<PlanEstimate>> estimates = estimator->Estimate(&all.space.plans);
    if (!estimates.ok()) return estimates.error();
    all.estimates = std::move(estimates).value();
  }
  if (problem.chunks) {
    Result<ChunkSpace> chunks = FindChunkSpace(problem.input, problem.chunk_axes, gpus);
    if (!chunks.ok()) return chunks.error();
    for (ResolvedPlan& plan : chunks.value().space.plans) {
      all.space.plans.push_back(std::move(plan));
    }
    for (PlanEstimate& estimate : chunks.value().estimates) {
      all.estimates.push_back(std::move(estimate));
    }
    for (const auto& [rule, excluded] : chunks.value().space.invalid) {
      all.space.invalid[rule].Add(excluded.example, excluded.example_bytes, excluded.plans);
    }
  }
  Candidates part;
  part.space.invalid = std::move(all.space.invalid);
  for (std::size_t i = static_cast<std::size_t>(problem.shard - 1); i < all.space.plans.size();
       i += static_cast<std::size_t>(problem.shards)) {
    part.space.plans.push_back(std::move(all.space.plans[i]));
    part.estimates.push_back(std::move(all.estimates[i]));
  }
  return part;
}

}  // namespace twinstep
