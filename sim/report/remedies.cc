#include "sim/report/remedies.h"

#include <algorithm>
#include <vector>

#include "sim/plan/resolved_plan.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

std::vector<std::string> ForGpus(const ResolvedPlan& plan, bool is_budget) {
  std::vector<std::string> remedies;
  if (plan.b > 1) remedies.emplace_back("a smaller --micro-batch");
  if (plan.blocks.empty() && plan.recompute == RECOMPUTE_NONE) {
    remedies.emplace_back("--recompute balanced or full");
  } else if (plan.blocks.empty() && plan.recompute != RECOMPUTE_FULL) {
    remedies.emplace_back("--recompute full");
  }
  // With fewer blocks alive the slots of offloading are as many.
  const bool can_offload = plan.p > 1 && plan.v * plan.p + plan.p > 5 && !plan.chunks.enabled;
  if (plan.blocks.empty() && can_offload && plan.offload_ratio < 1) {
    remedies.emplace_back("a larger --offload-ratio");
  }
  if (plan.d > 1) {
    if (plan.zero_stage < 3 && !plan.chunks.enabled) remedies.emplace_back("a higher --zero");
    remedies.emplace_back("a larger --tp or --pp");
  }
  // Budgets are of plans without chunks.
  if (is_budget) {
    remedies.emplace_back("a larger --gpu-memory-budget");
  } else if (!plan.chunks.enabled) {
    remedies.emplace_back("model states in host memory (--persist)");
  } else {
    if (plan.chunks.persistent > 0) remedies.emplace_back("a smaller --persist");
    const auto checkpointed = std::ranges::count(plan.blocks, BLOCK_CHECKPOINT);
    if (checkpointed < plan.p * plan.v * plan.l) remedies.emplace_back("a larger --checkpoint");
  }
  remedies.emplace_back("more GPUs");
  return remedies;
}

std::vector<std::string> ForHosts(const ResolvedPlan& plan) {
  std::vector<std::string> remedies;
  if (plan.offload_ratio > 0) remedies.emplace_back("a smaller --offload-ratio");
  if (plan.chunks.enabled) remedies.emplace_back("more chunks that stay on the GPU (--persist)");
  if (!plan.blocks.empty()) remedies.emplace_back("--checkpoint in place of --swap");
  remedies.emplace_back("more nodes");
  return remedies;
}

}  // namespace

std::string Remedies(const Report& report) {
  if (!report.infeasible) return "";
  const std::string& rule = report.infeasible->rule;
  if (rule == "gpus-divide" || rule == "batch-divides") {
    return "another number of GPUs (--gpus, or --dp; without either all of the cluster's are "
           "taken)";
  }
  if (!report.plan_is_valid) return "";
  std::vector<std::string> remedies;
  if (rule == "gpu-memory") remedies = ForGpus(report.plan, /*is_budget=*/false);
  if (rule == "gpu-memory-budget") remedies = ForGpus(report.plan, /*is_budget=*/true);
  if (rule == "host-memory") remedies = ForHosts(report.plan);
  if (remedies.empty()) return "";
  return Joined(remedies) + "; `twinstep rank --space all` looks for plans that fit";
}

}  // namespace twinstep
