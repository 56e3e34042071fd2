#include "sim/estimate/pipeline_counts.h"

#include <algorithm>

namespace twinstep {

std::int64_t WarmupForwards(const ResolvedPlan& plan, std::int64_t r) {
  const std::int64_t all = plan.m * plan.v;
  switch (plan.schedule) {
    case GPIPE:
      return all;
    case INTERLEAVED_1F1B:
      // With one micro-batch a stage for each device, all forwards come first (Yuan et al., ATC
      // 2024).
      if (plan.m == plan.p) return all;
      return std::min(2 * (plan.p - r - 1) + (plan.v - 1) * plan.p, all);
    default:
      return std::min(plan.p - r - 1, all);
  }
}

std::int64_t LivingBlocks(const ResolvedPlan& plan, std::int64_t r) {
  // The first forward after warm-up adds one before the first backward removes one.
  return std::min(WarmupForwards(plan, r) + 1, plan.m * plan.v);
}

std::int64_t BlocksOnHost(const ResolvedPlan& plan, std::int64_t r) {
  return std::max<std::int64_t>(LivingBlocks(plan, r) - 2, 0);
}

std::int64_t HostBuffers(const ResolvedPlan& plan, std::int64_t r) {
  return std::max<std::int64_t>(LivingBlocks(plan, r) - 1, 0);
}

std::int64_t OverlappedCopies(const ResolvedPlan& plan) {
  return plan.p == 1 ? 0 : plan.m * plan.v + plan.p - 2;
}

std::int64_t P2pTransfers(const ResolvedPlan& plan) {
  return plan.p == 1 ? 0 : 4 * plan.m * plan.v - 2 * plan.m + 2 * plan.p - 2;
}

double BubbleFraction(const ResolvedPlan& plan) {
  return static_cast<double>(plan.p - 1) / static_cast<double>(plan.v * plan.m);
}

}  // namespace twinstep
